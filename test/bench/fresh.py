"""The first lookup of a session, building a ring in the server, and the memory that it takes there."""
from figures import figure
from session import Session

RING = "vnodes_1000"
FIRST = {
    "hash": "SELECT hashtextextended('x', 0);",
    "function": "SELECT chash_hash('x'::text);",
    "100": "SELECT chash_node('x', 'vnodes_100');",
    "1000": f"SELECT chash_node('x', '{RING}');",
}


def first_statements(watcher):
    """Milliseconds of CPU time for the first statement of a new session, one session for each."""
    times = {}
    for name, statement in FIRST.items():
        with Session(watcher) as session:
            times[name] = session.cpu(statement) * 1000
    return times


def build(session):
    """Milliseconds for a lookup that has to build: what a transaction has changed itself is nobody else's."""
    session.answer(f"BEGIN; SELECT chash_set_node('node-1', '{RING}', weight => 1.001);")
    time = session.cpu(f"SELECT chash_node('x', '{RING}');") * 1000
    session.answer("ROLLBACK;")
    return time


def memory(watcher):
    """Bytes a point that the first lookup of a session adds to its memory."""
    with Session(watcher) as session:
        session.answer("LOAD 'chash';")
        total = "SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name LIKE 'chash%';"
        before = float(session.value(total) or 0)
        session.answer(FIRST["1000"])
        return (float(session.value(total)) - before) / 256000


def measure(session, options):
    rounds = [{**first_statements(session), "build": build(session)} for _ in range(2 * options.rounds + 1)]
    values = {name: [times[name] for times in rounds] for name in rounds[0]}
    shared = session.answer(f"SELECT bytes::float8 / points FROM chash_cache WHERE ring = '{RING}' LIMIT 1;")
    rows = [figure("fresh", "memory shared by all, for 256,000 points", "bytes a point", [float(shared[0])])] if shared else []
    return rows + [
        figure("fresh", "a session's first hashtextextended", "ms", values["hash"]),
        figure("fresh", "a session's first chash_hash", "ms", values["function"],
               "its first hashtextextended", values["hash"]),
        figure("fresh", "a session's first lookup, 25,600 points", "ms", values["100"],
               "its first hashtextextended", values["hash"]),
        figure("fresh", "a session's first lookup, 256,000 points", "ms", values["1000"],
               "its first hashtextextended", values["hash"]),
        figure("fresh", "the first lookup, 256,000 points, less the first hashtextextended", "ms",
               [first - plain for first, plain in zip(values["1000"], values["hash"])],
               "building 256,000 points", values["build"]),
        figure("fresh", "a lookup that builds 256,000 points", "ms", values["build"]),
        figure("fresh", "memory of each session, for 256,000 points", "bytes a point", [memory(session)]),
    ]
