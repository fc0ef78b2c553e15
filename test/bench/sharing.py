"""The shared cache: sessions that come and go, many rings, a large one, and what memory they take."""
import os
import re
import subprocess

from figures import figure
from session import Session

CLIENTS = (1, 20, 200)
RINGS = 1000
CALLS = {"chash_node": "SELECT chash_node('x', 'vnodes_1000');", "hashtextextended": "SELECT hashtextextended('x', 0);"}
LARGE = "vnodes_10000"


def storm(call, clients):
    """Milliseconds that connecting, one statement and disconnecting take, with so many clients at it."""
    name = os.path.join(os.environ["CHASH_TMP"], "storm.pgbench")
    with open(name, "w", encoding="utf-8") as file:
        file.write(CALLS[call] + "\n")
    output = subprocess.run(["pgbench", "-n", "-C", "-f", name, "-c", str(clients), "-j", "2", "-T", "3"],
                            check=True, capture_output=True, text=True).stdout
    return float(re.search(r"^latency average = ([0-9.]+) ms", output, re.M).group(1))


def storms(options):
    values = {(call, clients): [] for clients in CLIENTS for call in CALLS}
    for _ in range(options.rounds):
        for call, clients in values:
            values[call, clients].append(storm(call, clients))
    return [figure("sharing", f"connecting and a lookup, 256,000 points, {clients} client{'s' * (clients > 1)}", "ms",
                   values["chash_node", clients], "the same with hashtextextended",
                   values["hashtextextended", clients]) for clients in CLIENTS]


def first(watcher, statement):
    with Session(watcher) as session:
        return session.cpu(statement) * 1000


def many_rings(session, options):
    """Milliseconds for a session to look up a key in each of many rings; some have to build them."""
    session.answer(f"""
        SELECT chash_copy_ring('vnodes_10', 'many_' || i) FROM generate_series(1, {RINGS}) AS i;
        CREATE TABLE bench_rings AS SELECT 'many_' || i AS ring FROM generate_series(1, {RINGS}) AS i;
        ANALYZE bench_rings;""")
    look = "SELECT count(chash_node('x', ring)) FROM bench_rings;"
    built, found = [], []
    for _ in range(options.rounds):
        session.answer("SELECT chash_cache_reset();")
        built.append(first(session, look))
        found.append(first(session, look))
    rows = [figure("sharing", f"a session's first look at each of {RINGS:,} rings of 2,560 points", "ms", found,
                   "the same without shared rings", built)]
    session.answer(f"SELECT chash_drop_ring(ring) FROM bench_rings; DROP TABLE bench_rings; {CALLS['chash_node']}")
    return rows


def large_ring(session, options):
    look = f"SELECT chash_node('x', '{LARGE}');"
    built, found = [], []
    for _ in range(options.rounds):
        session.answer("SELECT chash_cache_reset();")
        built.append(first(session, look))
        found.append(first(session, look))
    return [figure("sharing", "a session's first lookup, 2,560,000 points", "ms", found,
                   "the same without a shared ring", built)]


def memory_with_sessions(session, clients=100):
    """Kilobytes of its own that each of many sessions has, with one shared ring."""
    session.answer("SELECT chash_cache_reset();")
    sessions = [Session() for _ in range(clients)]
    before = [own_memory(one) for one in sessions]
    for one in sessions:
        one.answer(CALLS["chash_node"])
    grown = sorted(own_memory(one) - start for one, start in zip(sessions, before))
    shared = session.value("SELECT sum(bytes) / 1024 FROM chash_cache;")
    for one in sessions:
        one.__exit__()
    return [
        figure("sharing", f"shared memory, {clients} sessions with a ring of 256,000 points", "kB", [float(shared)]),
        figure("sharing", "memory that the first lookup adds to each session", "kB", [float(kb) for kb in grown]),
    ]


def own_memory(session):
    pid = session.value("SELECT pg_backend_pid();")
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return int(re.search(r"^RssAnon:\s+(\d+) kB", file.read(), re.M).group(1))


def measure(session, options):
    if not session.answer("SELECT FROM chash_cache LIMIT 1;") and not session.answer(CALLS["chash_node"]):
        return []
    return (storms(options) + large_ring(session, options) + many_rings(session, options) +
            memory_with_sessions(session))
