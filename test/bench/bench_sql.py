"""How fast chash is in SQL, as ratios within one run.

Connects like psql (PGHOST, PGDATABASE, ...); needs a database with the extension
chash, in which it makes tables and rings of its own, and drops them again.

    python3 test/bench/bench_sql.py [--rows N] [--rounds N]

Each query runs once a round, all queries in turn; the figures are medians.  The
marginal cost of a function is the time of a query that calls it for every row
less that of the same query without it.
"""
import argparse
import re
import statistics
import subprocess

SETUP = """
SET client_min_messages = warning;
CREATE UNLOGGED TABLE bench_keys AS
  SELECT g::bigint AS k, 'key-' || g AS s, md5(g::text)::uuid AS u FROM generate_series(1, {rows}) g;
VACUUM (ANALYZE, FREEZE) bench_keys;
SELECT chash_create_ring('bench_' || n),
       chash_apply((SELECT jsonb_object_agg('node-' || i, '{{}}'::jsonb) FROM generate_series(1, n) i), 'bench_' || n)
  FROM unnest('{{10,100,1000,10000}}'::int[]) n;
CREATE TABLE bench_names AS SELECT array_agg('node-' || i) AS names FROM generate_series(1, 100) i;
"""
TEARDOWN = """
DROP TABLE bench_keys, bench_names;
SELECT chash_drop_ring(ring) FROM chash_rings WHERE ring LIKE 'bench\\_%';
"""
PER_ROW = {
    "text column alone": ("s", None),
    "bigint column alone": ("k", None),
    "uuid column alone": ("u", None),
    "hashtextextended(text, 0)": ("hashtextextended(s, 0)", "text column alone"),
    "chash_hash(text)": ("chash_hash(s)", "text column alone"),
    "names[hash % 100]": ("(SELECT names FROM bench_names)[1 + (hashtextextended(s, 0) & 9223372036854775807) % 100]",
                          "text column alone"),
    "chash_node(text), 10 nodes": ("chash_node(s, 'bench_10')", "text column alone"),
    "chash_node(text), 100 nodes": ("chash_node(s, 'bench_100')", "text column alone"),
    "chash_node(text), 1,000 nodes": ("chash_node(s, 'bench_1000')", "text column alone"),
    "chash_node(text), 10,000 nodes": ("chash_node(s, 'bench_10000')", "text column alone"),
    "chash_node(bigint), 100 nodes": ("chash_node(k, 'bench_100')", "bigint column alone"),
    "chash_node(uuid), 100 nodes": ("chash_node(u, 'bench_100')", "uuid column alone"),
    "chash_replicas(text, 3), 100 nodes": ("chash_replicas(s, 3, 'bench_100')", "text column alone"),
}
ONCE = {
    "plan for one more node, 100 nodes": "SELECT count(*) FROM chash_rebalance_plan('bench_100', '{\"new\": {}}')",
    "plan for one more node, 1,000 nodes": "SELECT count(*) FROM chash_rebalance_plan('bench_1000', '{\"new\": {}}')",
    "the same for 3 replicas": "SELECT count(*) FROM chash_rebalance_plan('bench_1000', '{\"new\": {}}', 3)",
    "one lookup in a statement": "SELECT chash_node('x', 'bench_100')",
    "one hashtextextended in a statement": "SELECT hashtextextended('x', 0)",
}
FRESH = {
    "hashtextextended": "SELECT hashtextextended('x', 0)",
    "chash_node, 100 nodes": "SELECT chash_node('x', 'bench_100')",
    "chash_node, 1,000 nodes": "SELECT chash_node('x', 'bench_1000')",
}
BASELINE = "hashtextextended(text, 0)"


def psql(script):
    """Runs a script in one session; gives what it prints."""
    return subprocess.run(["psql", "-XAtq", "-v", "ON_ERROR_STOP=1"], input=script, text=True,
                          check=True, capture_output=True).stdout


def times(script):
    """The times, in milliseconds, of the statements of a script after \\timing on."""
    return [float(t) for t in re.findall(r"^Time: ([0-9.]+) ms", psql(script), re.M)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()

    psql(SETUP.format(rows=arguments.rows))
    try:
        queries = [f"SELECT count({expression}) FROM bench_keys;" for expression, _ in PER_ROW.values()]
        settings = "SET jit = off; SET max_parallel_workers_per_gather = 0;\n"
        warm = settings + "\n".join(queries) + "\n\\timing on\n"
        measured = times(warm + "\n".join(queries * arguments.rounds) + "\n")
        per_row = {}
        for i, name in enumerate(PER_ROW):
            per_row[name] = statistics.median(measured[i::len(PER_ROW)]) * 1e6 / arguments.rows
        base = per_row[BASELINE] - per_row["text column alone"]
        print(f"marginal cost per row, {arguments.rows:,} rows, medians of {arguments.rounds}")
        for name, (_, without) in PER_ROW.items():
            if without:
                cost = per_row[name] - per_row[without]
                print(f"  {name:36} {cost:7.1f} ns  {cost / base:6.2f} x {BASELINE}")

        print("whole statements")
        script = "\n".join(query + ";" for query in ONCE.values())
        measured = times(script + "\n\\timing on\n" + (script + "\n") * 15)
        for i, name in enumerate(ONCE):
            print(f"  {name:36} {statistics.median(measured[i::len(ONCE)]):8.3f} ms")

        print("first statement of a fresh session")
        for name, query in FRESH.items():
            first = statistics.median(times("\\timing on\n" + query + ";\n")[0] for _ in range(15))
            print(f"  {name:36} {first:8.3f} ms")
    finally:
        psql(TEARDOWN)


if __name__ == "__main__":
    main()
