"""What a call costs per row of a large query.

That is its marginal cost: the CPU time of a query that calls it for every row, less that of the same query without it.
"""
from figures import figure
from session import Session

HASH = "hashtextextended(text, 0)"
NODE = "chash_node(text), 100 nodes"
NODES = (10, 100, 1000, 10000)
PASSES = 4
SLICE = 40_000

# name: (expression, column that the query without it counts)
CALLS = {
    HASH: ("hashtextextended(s, 0)", "s"),
    "hashint8extended(bigint, 0)": ("hashint8extended(k, 0)", "k"),
    "a C function that does nothing": ("bench_nothing(s)", "s"),
    **{f"the floor, {n:,} nodes": (f"bench_floor(s, {n})", "s") for n in NODES},
    "chash_hash(text)": ("chash_hash(s)", "s"),
    NODE: ("chash_node(s, 'vnodes_100')", "s"),
    "chash_node(bigint), 100 nodes": ("chash_node(k, 'vnodes_100')", "k"),
    "chash_node(uuid), 100 nodes": ("chash_node(u, 'vnodes_100')", "u"),
    **{f"chash_node(text), {n:,} nodes": (f"chash_node(s, 'vnodes_{n}')", "s") for n in (10, 1000, 10000)},
    **{f"chash_node(text), {n:,} nodes, partitions": (f"chash_node(s, 'partitions_{n}')", "s")
       for n in NODES},
    "chash_replicas(text, 3), 100 nodes": ("chash_replicas(s, 3, 'vnodes_100')", "s"),
}


def slices(session, table):
    """The page numbers that cut a table into pieces of about SLICE rows: pairs of first and end."""
    pages, rows = map(float, session.value(
        f"SELECT relpages, reltuples FROM pg_class WHERE oid = '{table}'::regclass;").split("|"))
    step = max(1, round(pages * SLICE / rows))
    return [(start, start + step) for start in range(0, int(pages), step)]


def prepare(session, table, expressions):
    """Prepares a query for each expression, so that planning does not count; gives what to execute for a slice."""
    statements = {}
    for key, expression in expressions.items():
        name = f"bench_{len(statements)}"
        session.answer(f"PREPARE {name} (tid, tid) AS SELECT count({expression}) FROM {table} "
                       "WHERE ctid >= $1 AND ctid < $2;")
        statements[key] = f"EXECUTE {name} ('({{}},0)', '({{}},0)');"
    return statements


def marginal(calls, table, rows, rounds, passes=PASSES):
    """Nanoseconds per row for each call, a value a round.

    A round goes some times through the table, a slice at a time.  All queries, with a call and without, take turns,
    each at another slice, so that rows come from memory, as they do in large queries, and not from a cache that the
    query before has filled.  What counts for a query and a slice is the shortest time of a pass: others on the machine
    can only make it longer, and a slice is short enough to be left alone at least once.
    """
    values = {name: [] for name in calls}
    with Session() as session:
        session.answer("SET plan_cache_mode = force_generic_plan;")
        queries = prepare(session, table, {
            **{("without", column): column for _, column in calls.values()},
            **{("with", name): call for name, (call, _) in calls.items()}})
        pieces = slices(session, table)
        stride = max(1, len(pieces) // len(queries))
        for query in queries.values():
            session.answer(query.format(0, pieces[-1][1]))
        for _ in range(rounds):
            best = {}
            for _ in range(passes):
                for turn in range(len(pieces)):
                    for i, (key, query) in enumerate(queries.items()):
                        piece = pieces[(turn + i * stride) % len(pieces)]
                        time = session.cpu(query.format(*piece))
                        best[key, piece] = min(time, best.get((key, piece), time))
            times = {key: sum(best[key, piece] for piece in pieces) for key in queries}
            for name, (_, column) in calls.items():
                values[name].append((times["with", name] - times["without", column]) * 1e9 / rows)
    return values


def measure(_, options):
    values = marginal(CALLS, "bench_keys", options.rows, options.rounds)

    def row(name, yardstick, under=None):
        return figure("lookups", name, "ns", values[name], yardstick, values[yardstick], under)

    return [
        figure("lookups", HASH, "ns", values[HASH]),
        row("hashint8extended(bigint, 0)", HASH),
        row("a C function that does nothing", HASH),
        *[row(f"the floor, {n:,} nodes", HASH) for n in NODES],
        row("the floor, 10,000 nodes", "the floor, 10 nodes"),
        row("chash_hash(text)", HASH),
        row(NODE, HASH, 1.3),
        row("chash_node(bigint), 100 nodes", HASH, 1.6),
        row("chash_node(uuid), 100 nodes", HASH, 1.6),
        row("chash_node(text), 10 nodes", HASH),
        row("chash_node(text), 1,000 nodes", HASH),
        row("chash_node(text), 10,000 nodes", HASH),
        row("chash_node(text), 10,000 nodes", "chash_node(text), 10 nodes", 2),
        *[row(f"chash_node(text), {n:,} nodes, partitions", HASH) for n in NODES],
        row("chash_replicas(text, 3), 100 nodes", NODE, 4),
    ]
