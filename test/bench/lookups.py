"""What a call costs per row of a large query, and what one would write by hand.

That is its marginal cost: the CPU time of a query that calls it for every row, less that of the same query without it.
"""
from figures import figure
from session import Session

HASH = "hashtextextended(text, 0)"
NODE = "chash_node(text), 100 nodes"
NODES = (10, 100, 1000, 10000)
PASSES = 4
SLICE = 40_000

# The same by hand, on as many nodes and points: a name by the remainder of the hash, the point found by width_bucket
# in constant arrays, and found in a table with a btree.
BY_HAND = """
CREATE FUNCTION bench_by_hand(n integer) RETURNS void LANGUAGE plpgsql AS $do$
DECLARE
    names text := (SELECT array_agg('node-' || i ORDER BY i) FROM generate_series(1, n) AS i)::text;
    bounds text;
    owners text;
BEGIN
    EXECUTE format('CREATE TABLE bench_points_%s (position bigint PRIMARY KEY, node text NOT NULL)', n);
    EXECUTE format('INSERT INTO bench_points_%s SELECT position, min(node) FROM chash_points(%L) GROUP BY position',
                   n, 'vnodes_' || n);
    EXECUTE format($f$CREATE FUNCTION bench_modulo_%s(key text) RETURNS text IMMUTABLE PARALLEL SAFE LANGUAGE sql AS
        $b$SELECT (%L::text[])[1 + (hashtextextended(key, 0) & 9223372036854775807) %% %s]$b$$f$, n, names, n);
    EXECUTE format('SELECT array_agg(position + 1 ORDER BY position)::text, '
                   '(array_agg(substr(node, 6)::integer ORDER BY position) || '
                   '(array_agg(substr(node, 6)::integer ORDER BY position))[1])::text FROM bench_points_%s', n)
       INTO bounds, owners;
    EXECUTE format($f$CREATE FUNCTION bench_width_bucket_%s(key text) RETURNS text
        IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $b$
        SELECT (%L::text[])[(%L::integer[])[1 + width_bucket(hashtextextended(key, 0), %L::bigint[])]]$b$$f$,
        n, names, owners, bounds);
END $do$;
SELECT bench_by_hand(n) FROM unnest('{10,100,1000}'::integer[]) AS n;
VACUUM (ANALYZE, FREEZE) bench_points_10, bench_points_100, bench_points_1000;
"""

SUBQUERY = """coalesce((SELECT node FROM bench_points_{n} WHERE position >= hashtextextended(s, 0)
                        ORDER BY position LIMIT 1), (SELECT node FROM bench_points_{n} ORDER BY position LIMIT 1))"""

# name: (expression, column that the query without it counts)
CALLS = {
    HASH: ("hashtextextended(s, 0)", "s"),
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

# These take long, and are called for fewer rows.
SLOW = {
    **{f"names[1 + hash % n], {n:,} nodes": (f"bench_modulo_{n}(s)", "s") for n in NODES[:3]},
    **{f"width_bucket over constant arrays, {n:,} nodes": (f"bench_width_bucket_{n}(s)", "s") for n in NODES[:3]},
    **{f"btree of points, subquery, {n:,} nodes": (SUBQUERY.format(n=n), "s") for n in NODES[:3]},
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


def measure(session, options):
    session.answer(BY_HAND)
    values = marginal(CALLS, "bench_keys", options.rows, options.rounds)
    values.update(marginal(SLOW, "bench_few", options.rows // 20, options.rounds, passes=1))
    rows = [figure("lookups", HASH, "ns", values[HASH])]
    for name in CALLS:
        base = NODE if name.startswith("chash_replicas") else HASH
        if name != HASH:
            rows.append(figure("lookups", name, "ns", values[name], base, values[base]))
    return rows + [figure("by_hand", name, "ns", values[name], NODE, values[NODE]) for name in SLOW]
