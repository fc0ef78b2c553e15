"""Measures, in a cluster that table.sh has made for it.  Each section is a module beside this one."""
import argparse
import os
import sys

import balance
import core
import figures
import fresh
import lookups
import plans
import sharing
from session import Session

SECTIONS = {
    "lookups": (lookups, "a call's marginal cost per row of a large query, and the same by hand"),
    "core": (core, "src/ring by itself, without PostgreSQL"),
    "fresh": (fresh, "the first lookup of a session, building a ring, memory"),
    "sharing": (sharing, "the shared cache, sessions that come and go, many rings"),
    "plans": (plans, "what moves when a node is added"),
    "balance": (balance, "busiest node against the mean"),
}

KEYS = """
CREATE EXTENSION IF NOT EXISTS chash;
CREATE UNLOGGED TABLE bench_keys AS
    SELECT g::bigint AS k, 'key-' || g AS s, md5(g::text)::uuid AS u FROM generate_series(1, {rows}) AS g;
CREATE UNLOGGED TABLE bench_few AS SELECT * FROM bench_keys WHERE k <= {few};
CREATE UNIQUE INDEX ON bench_keys (k);
VACUUM (ANALYZE, FREEZE) bench_keys, bench_few;
CREATE FUNCTION bench_floor(text, integer) RETURNS text STABLE STRICT LANGUAGE c AS '{directory}/floor';
CREATE FUNCTION bench_ring(n integer, placement text DEFAULT 'vnodes') RETURNS void LANGUAGE sql AS $$
    SELECT chash_create_ring(placement || '_' || n, placement => placement),
           chash_apply((SELECT jsonb_object_agg('node-' || i, '{{}}'::jsonb) FROM generate_series(1, n) AS i),
                       placement || '_' || n) $$;
DO $$ BEGIN
    PERFORM bench_ring(n) FROM unnest('{{10,100,1000,10000}}'::integer[]) AS n;
    PERFORM bench_ring(n, 'partitions') FROM unnest('{{10,100,1000,10000}}'::integer[]) AS n;
END $$;
"""


def about(session, options):
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    text = {
        "PostgreSQL": session.value("SHOW server_version;").split()[0],
        "processor": f"{models[0] if models else 'unknown'}, {os.cpu_count()} cores",
        "preloaded": session.value("SHOW shared_preload_libraries;"),
        "rows": f"{options.rows:,}",
        "rounds": f"{options.rounds}",
        "load": f"{os.getloadavg()[0]:.1f}",
    }
    return [figures.Figure("about", name, "", value, value, value) for name, value in text.items()]


def arguments():
    parser = argparse.ArgumentParser(prog="table.sh", description="Measures how fast chash is.")
    parser.add_argument("--output", metavar="FILE", help="write the figures to FILE too, for page.py")
    parser.add_argument("--write", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="fewer rows and rounds: a first look, not a result")
    parser.add_argument("--only", metavar="A,B", help="these sections: " + ", ".join(SECTIONS))
    parser.add_argument("--rows", type=int, help="rows of the table of keys (default 1,000,000)")
    parser.add_argument("--rounds", type=int, help="rounds, in each of which everything runs once (default 7)")
    options = parser.parse_args()
    options.rows = options.rows or (500_000 if options.quick else 1_000_000)
    options.rounds = options.rounds or (3 if options.quick else 7)
    options.only = options.only.split(",") if options.only else list(SECTIONS)
    unknown = set(options.only) - set(SECTIONS)
    if unknown:
        parser.error(f"no such section: {', '.join(sorted(unknown))}")
    return options


def main():
    options = arguments()
    rows = []
    with Session() as session:
        session.answer("SET client_min_messages = warning;" + KEYS.format(
            rows=options.rows, few=options.rows // 20, directory=os.environ["CHASH_TMP"]))
        rows += about(session, options)
        for name, (module, title) in SECTIONS.items():
            if name not in options.only:
                continue
            found = module.measure(session, options)
            print(f"\n{name}: {title}\n{figures.markdown(found)}", flush=True)
            rows += found
    if options.write:
        with os.fdopen(options.write, "w") as file:
            figures.write_tsv(rows, file)


if __name__ == "__main__":
    sys.exit(main())
