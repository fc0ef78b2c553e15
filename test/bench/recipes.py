"""What one would write by hand for the same purpose, or use instead, beside chash_node on as many nodes and points."""
import lookups
from figures import Figure, figure
from session import Session

NODE = "chash_node(text), 100 nodes"

SETUP = """
CREATE FUNCTION bench_make_recipes(n integer) RETURNS void LANGUAGE plpgsql AS $do$
DECLARE
    names text := (SELECT array_agg('node-' || i ORDER BY i) FROM generate_series(1, n) AS i)::text;
    bounds text;
    owners text;
BEGIN
    EXECUTE format('CREATE TABLE bench_points_%s (position bigint PRIMARY KEY, node text NOT NULL)', n);
    EXECUTE format('INSERT INTO bench_points_%s SELECT position, min(node) FROM chash_points(%L) GROUP BY position',
                   n, 'vnodes_' || n);

    -- A constant array of names by the remainder of the hash.
    EXECUTE format($f$CREATE FUNCTION bench_modulo_%s(key text) RETURNS text IMMUTABLE PARALLEL SAFE LANGUAGE sql AS
        $b$SELECT (%L::text[])[1 + (hashtextextended(key, 0) & 9223372036854775807) %% %s]$b$$f$, n, names, n);

    -- Constant arrays of points, found by width_bucket: it counts those before a position.
    IF n > 1000 THEN
        RETURN;
    END IF;
    EXECUTE format('SELECT array_agg(position + 1 ORDER BY position)::text, '
                   '(array_agg(substr(node, 6)::integer ORDER BY position) || '
                   '(array_agg(substr(node, 6)::integer ORDER BY position))[1])::text FROM bench_points_%s', n)
       INTO bounds, owners;
    EXECUTE format($f$CREATE FUNCTION bench_width_bucket_%s(key text) RETURNS text
        IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $b$
        SELECT (%L::text[])[(%L::integer[])[1 + width_bucket(hashtextextended(key, 0), %L::bigint[])]]$b$$f$,
        n, names, owners, bounds);
END $do$;
SELECT bench_make_recipes(n) FROM unnest('{10,100,1000,10000}'::integer[]) AS n;
VACUUM (ANALYZE, FREEZE) bench_points_10, bench_points_100, bench_points_1000, bench_points_10000;

CREATE FUNCTION bench_sql(key text) RETURNS text STABLE PARALLEL SAFE LANGUAGE sql AS $$
    SELECT coalesce((SELECT node FROM bench_points_100 WHERE position >= hashtextextended(key, 0)
                     ORDER BY position LIMIT 1),
                    (SELECT node FROM bench_points_100 ORDER BY position LIMIT 1)) $$;

CREATE FUNCTION bench_plpgsql(key text) RETURNS text STABLE PARALLEL SAFE LANGUAGE plpgsql AS $$
DECLARE
    found_node text;
BEGIN
    SELECT node INTO found_node FROM bench_points_100 WHERE position >= hashtextextended(key, 0)
     ORDER BY position LIMIT 1;
    IF NOT FOUND THEN
        SELECT node INTO found_node FROM bench_points_100 ORDER BY position LIMIT 1;
    END IF;
    RETURN found_node;
END $$;

-- Native partitions, and a table without them beside.
CREATE UNLOGGED TABLE bench_whole (s text);
CREATE UNLOGGED TABLE bench_parts (s text) PARTITION BY HASH (s);
DO $$ BEGIN
    FOR i IN 0..99 LOOP
        EXECUTE format('CREATE UNLOGGED TABLE bench_part_%s PARTITION OF bench_parts '
                       'FOR VALUES WITH (MODULUS 100, REMAINDER %s)', i, i);
    END LOOP;
END $$;
"""

SUBQUERY = """coalesce((SELECT node FROM bench_points_{n} WHERE position >= hashtextextended(s, 0)
                        ORDER BY position LIMIT 1), (SELECT node FROM bench_points_{n} ORDER BY position LIMIT 1))"""

FAST = {
    NODE: ("chash_node(s, 'vnodes_100')", "s"),
    **{f"names[1 + hash % n], {n:,} nodes": (f"bench_modulo_{n}(s)", "s") for n in (10, 100)},
    "satisfies_hash_partition, 100 partitions":
        ("satisfies_hash_partition('bench_parts'::regclass, 100, 0, s)", "s"),
}
SLOW = {
    "names[1 + hash % n], 1,000 nodes": ("bench_modulo_1000(s)", "s"),
    **{f"width_bucket over constant arrays, {n:,} nodes": (f"bench_width_bucket_{n}(s)", "s") for n in (10, 100, 1000)},
    **{f"btree of points, subquery, {n:,} nodes": (SUBQUERY.format(n=n), "s") for n in (10, 100, 1000, 10000)},
    "btree of points, SQL function, 100 nodes": ("bench_sql(s)", "s"),
    "btree of points, PL/pgSQL function, 100 nodes": ("bench_plpgsql(s)", "s"),
}
SINGLE = {
    "SELECT chash_node": "SELECT chash_node('x', 'vnodes_100');",
    "SELECT hashtextextended": "SELECT hashtextextended('x', 0);",
    "SELECT names[1 + hash % 100]": "SELECT bench_modulo_100('x');",
    "SELECT by width_bucket": "SELECT bench_width_bucket_100('x');",
    "SELECT by PL/pgSQL and btree": "SELECT bench_plpgsql('x');",
}

# PL/Proxy, with two partitions on this very server, each a database.
PLPROXY = """
CREATE EXTENSION plproxy;
CREATE SCHEMA plproxy;
CREATE FUNCTION plproxy.get_cluster_version(text) RETURNS integer LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION plproxy.get_cluster_config(text, OUT key text, OUT val text) RETURNS SETOF record LANGUAGE sql AS
    'SELECT NULL::text, NULL::text WHERE false';
CREATE FUNCTION plproxy.get_cluster_partitions(text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT format('dbname=bench_shard_%s host=%s port=%s', i, current_setting('unix_socket_directories'),
                  current_setting('port')) FROM generate_series(0, 1) AS i $$;
CREATE FUNCTION bench_remote(key text) RETURNS text LANGUAGE plproxy AS
    $$ CLUSTER 'bench'; RUN ON hashtext(key); TARGET bench_here; $$;
CREATE FUNCTION bench_remote_fixed(key text) RETURNS text LANGUAGE plproxy AS
    $$ CLUSTER 'bench'; RUN ON 0; TARGET bench_here; $$;
"""


def native_routing(session, options):
    """Nanoseconds that routing a row to its partition adds to an INSERT."""
    values = []
    for _ in range(options.rounds):
        times = {}
        for table in ("bench_whole", "bench_parts"):
            session.answer(f"TRUNCATE {table};")
            times[table] = session.cpu(f"INSERT INTO {table} SELECT s FROM bench_few;")
        values.append((times["bench_parts"] - times["bench_whole"]) * 1e9 / (options.rows // 20))
    return values


def single_statements(options):
    """Microseconds for a statement of one row, parsed and planned each time."""
    values = {name: [] for name in SINGLE}
    with Session() as session:
        for statement in SINGLE.values():
            session.answer(statement * 20)
        for _ in range(options.rounds):
            for name, statement in SINGLE.items():
                values[name].append(session.cpu(statement * 100) * 1e6 / 100)
    return values


def plproxy(session, options):
    """Microseconds for a call that PL/Proxy passes on, and how much of it choosing the partition is."""
    if session.value("SELECT count(*) FROM pg_available_extensions WHERE name = 'plproxy';") == "0":
        return [Figure("recipes", "PL/Proxy, RUN ON hashtext(key)", "", "not installed", "", "")]
    for i in range(2):
        session.answer(f"CREATE DATABASE bench_shard_{i};")
    session.answer(PLPROXY)
    with Session() as caller:
        for i in range(2):
            caller.answer(f"\\connect bench_shard_{i}\nCREATE FUNCTION bench_here(text) RETURNS text LANGUAGE sql "
                          "AS 'SELECT current_database()::text';")
        caller.answer("\\connect postgres")
        rows = options.rows // 200
        calls = {name: f"SELECT count({name}(s)) FROM (SELECT s FROM bench_few LIMIT {rows}) AS keys;"
                 for name in ("bench_remote", "bench_remote_fixed")}
        calls["chash_node"] = calls["bench_remote"].replace("bench_remote(s)", "chash_node(s, 'vnodes_100')")
        values = {name: [] for name in calls}
        for call in calls.values():
            caller.answer(call)
        for _ in range(options.rounds):
            for name, call in calls.items():
                values[name].append(caller.elapsed(call) * 1e6 / rows)
    for i in range(2):
        session.answer(f"DROP DATABASE bench_shard_{i} WITH (FORCE);")
    return [
        figure("recipes", "PL/Proxy, RUN ON hashtext(key), call included", "µs", values["bench_remote"],
               "the same, RUN ON 0", values["bench_remote_fixed"]),
        figure("recipes", "PL/Proxy, RUN ON hashtext(key), call included", "µs", values["bench_remote"],
               "a row's chash_node and scan", values["chash_node"]),
    ]


def measure(session, options):
    session.answer(SETUP)
    rounds = options.rounds
    values = lookups.marginal(FAST, "bench_keys", options.rows, rounds)
    values.update(lookups.marginal(SLOW, "bench_few", options.rows // 20, rounds, passes=1))
    values["native partitioning, routing of an INSERT, 100 partitions"] = native_routing(session, options)
    rows = [figure("recipes", name, "ns", values[name], NODE, values[NODE]) for name in values if name != NODE]
    single = single_statements(options)
    base = "SELECT hashtextextended"
    rows.append(figure("recipes", base + ", one row", "µs", single[base]))
    rows += [figure("recipes", name + ", one row", "µs", single[name], base, single[base])
             for name in SINGLE if name != base]
    return rows + plproxy(session, options)
