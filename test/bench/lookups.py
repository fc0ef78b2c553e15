"""What a call costs per row of a large query.

That is its marginal cost: the CPU time of a query that calls it for every row, less that of the same query without it.
"""
from figures import figure

HASH = "hashtextextended(text, 0)"
NODE = "chash_node(text), 100 nodes"
PASSES = 4
SLICE = 40_000

# name: (expression, column that the query without it counts)
CALLS = {
    HASH: ("hashtextextended(s, 0)", "s"),
    "hashint8extended(bigint, 0)": ("hashint8extended(k, 0)", "k"),
    "chash_hash(text)": ("chash_hash(s)", "s"),
    NODE: ("chash_node(s, 'vnodes_100')", "s"),
    "chash_node(bigint), 100 nodes": ("chash_node(k, 'vnodes_100')", "k"),
    "chash_node(uuid), 100 nodes": ("chash_node(u, 'vnodes_100')", "u"),
    "chash_node(text), 100 nodes, partitions": ("chash_node(s, 'partitions_100')", "s"),
    "chash_node(text), 10 nodes": ("chash_node(s, 'vnodes_10')", "s"),
    "chash_node(text), 1,000 nodes": ("chash_node(s, 'vnodes_1000')", "s"),
    "chash_node(text), 10,000 nodes": ("chash_node(s, 'vnodes_10000')", "s"),
    "chash_replicas(text, 3), 100 nodes": ("chash_replicas(s, 3, 'vnodes_100')", "s"),
}


def slices(session, table):
    """Conditions that cut a table into pieces of about SLICE rows, as they lie on disk."""
    pages, rows = map(float, session.answer(
        f"SELECT relpages, reltuples FROM pg_class WHERE oid = '{table}'::regclass;")[0].split("|"))
    step = max(1, round(pages * SLICE / rows))
    return [f"WHERE ctid >= '({start},0)' AND ctid < '({start + step},0)'" for start in range(0, int(pages), step)]


def marginal(session, calls, table, rows, rounds):
    """Nanoseconds per row for each call, a value a round.

    A round goes PASSES times through the table, a slice at a time.  All queries, with a call and without, take turns,
    each at another slice, so that rows come from memory, as they do in large queries, and not from a cache that the
    query before has filled.  What counts for a query and a slice is the shortest time of a pass: others on the machine
    can only make it longer, and a slice is short enough to be left alone at least once.
    """
    columns = dict.fromkeys(column for _, column in calls.values())
    queries = {("without", column): f"SELECT count({column}) FROM {table}" for column in columns}
    queries.update({("with", name): f"SELECT count({call}) FROM {table}" for name, (call, _) in calls.items()})
    pieces = slices(session, table)
    stride = max(1, len(pieces) // len(queries))
    for query in queries.values():
        session.answer(query + ";")
    values = {name: [] for name in calls}
    for _ in range(rounds):
        best = {}
        for _ in range(PASSES):
            for turn in range(len(pieces)):
                for i, (key, query) in enumerate(queries.items()):
                    piece = pieces[(turn + i * stride) % len(pieces)]
                    time = session.cpu(f"{query} {piece};")
                    best[key, piece] = min(time, best.get((key, piece), time))
        times = {key: sum(best[key, piece] for piece in pieces) for key in queries}
        for name, (_, column) in calls.items():
            values[name].append((times["with", name] - times["without", column]) * 1e9 / rows)
    return values


def measure(session, options):
    values = marginal(session, CALLS, "bench_keys", options.rows, options.rounds)

    def row(name, yardstick, under=None):
        return figure("lookups", name, "ns", values[name], yardstick, values[yardstick], under)

    return [
        figure("lookups", HASH, "ns", values[HASH]),
        figure("lookups", "hashint8extended(bigint, 0)", "ns", values["hashint8extended(bigint, 0)"], HASH, values[HASH]),
        row("chash_hash(text)", HASH),
        row(NODE, HASH, 1.3),
        row("chash_node(bigint), 100 nodes", HASH, 1.6),
        row("chash_node(uuid), 100 nodes", HASH, 1.6),
        row("chash_node(text), 100 nodes, partitions", HASH),
        row("chash_node(text), 10 nodes", HASH),
        row("chash_node(text), 1,000 nodes", HASH),
        row("chash_node(text), 10,000 nodes", HASH),
        row("chash_node(text), 10,000 nodes", "chash_node(text), 10 nodes", 2),
        row("chash_replicas(text, 3), 100 nodes", NODE, 4),
    ]
