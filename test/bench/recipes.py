"""What one would write by hand for the same purpose, or use instead, beside chash_node on as many nodes and points."""
import lookups
from figures import Figure, figure
from session import Session

NODE = "chash_node(text), 100 nodes"

SETUP = """
CREATE TABLE bench_points (position bigint PRIMARY KEY, node text NOT NULL);
INSERT INTO bench_points SELECT position, min(node) FROM chash_points('vnodes_100') GROUP BY position;
VACUUM (ANALYZE, FREEZE) bench_points;

CREATE FUNCTION bench_sql(key text) RETURNS text STABLE PARALLEL SAFE LANGUAGE sql AS $$
    SELECT coalesce((SELECT node FROM bench_points WHERE position >= hashtextextended(key, 0)
                     ORDER BY position LIMIT 1),
                    (SELECT node FROM bench_points ORDER BY position LIMIT 1)) $$;

CREATE FUNCTION bench_plpgsql(key text) RETURNS text STABLE PARALLEL SAFE LANGUAGE plpgsql AS $$
DECLARE
    found_node text;
BEGIN
    SELECT node INTO found_node FROM bench_points WHERE position >= hashtextextended(key, 0)
     ORDER BY position LIMIT 1;
    IF NOT FOUND THEN
        SELECT node INTO found_node FROM bench_points ORDER BY position LIMIT 1;
    END IF;
    RETURN found_node;
END $$;

-- A constant array of names by the hash's remainder, and constant arrays of
-- points, found by width_bucket: the positions after which the next point owns.
DO $do$
DECLARE
    names text := (SELECT array_agg('node-' || n ORDER BY n) FROM generate_series(1, 100) AS n)::text;
    bounds text;
    owners text;
BEGIN
    SELECT array_agg(position + 1 ORDER BY position), array_agg(substr(node, 6)::integer ORDER BY position)
      INTO bounds, owners FROM bench_points;
    owners := rtrim(owners, '}') || ',' || (SELECT substr(node, 6) FROM bench_points ORDER BY position LIMIT 1) || '}';
    EXECUTE format($f$CREATE FUNCTION bench_modulo(key text) RETURNS text IMMUTABLE PARALLEL SAFE LANGUAGE sql AS
        $b$SELECT (%L::text[])[1 + (hashtextextended(key, 0) & 9223372036854775807) %% 100]$b$$f$, names);
    EXECUTE format($f$CREATE FUNCTION bench_modulo_10(key text) RETURNS text IMMUTABLE PARALLEL SAFE LANGUAGE sql AS
        $b$SELECT (%L::text[])[1 + (hashtextextended(key, 0) & 9223372036854775807) %% 10]$b$$f$, names);
    EXECUTE format($f$CREATE FUNCTION bench_width_bucket(key text) RETURNS text IMMUTABLE PARALLEL SAFE LANGUAGE sql AS
        $b$SELECT (%L::text[])[(%L::integer[])[1 + width_bucket(hashtextextended(key, 0), %L::bigint[])]]$b$$f$,
        names, owners, bounds);
END $do$;

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

FAST = {
    NODE: ("chash_node(s, 'vnodes_100')", "s"),
    "names[1 + hash % 10], constant array": ("bench_modulo_10(s)", "s"),
    "names[1 + hash % 100], constant array": ("bench_modulo(s)", "s"),
    "width_bucket over constant arrays": ("bench_width_bucket(s)", "s"),
    "satisfies_hash_partition, 100 partitions":
        ("satisfies_hash_partition('bench_parts'::regclass, 100, 0, s)", "s"),
}
SLOW = {
    "btree of points, subquery in the query":
        ("""coalesce((SELECT node FROM bench_points WHERE position >= hashtextextended(s, 0)
                      ORDER BY position LIMIT 1), (SELECT node FROM bench_points ORDER BY position LIMIT 1))""", "s"),
    "btree of points, SQL function": ("bench_sql(s)", "s"),
    "btree of points, PL/pgSQL function": ("bench_plpgsql(s)", "s"),
}
SINGLE = {
    "SELECT chash_node": "SELECT chash_node('x', 'vnodes_100');",
    "SELECT hashtextextended": "SELECT hashtextextended('x', 0);",
    "SELECT names[1 + hash % 100]": "SELECT bench_modulo('x');",
    "SELECT by width_bucket": "SELECT bench_width_bucket('x');",
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
    SELECT format('dbname=bench_shard_%s host=%s port=%s', i, split_part(current_setting('unix_socket_directories'), ',', 1),
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
    for i in range(2):
        session.answer(f"\\connect bench_shard_{i}\nCREATE FUNCTION bench_here(text) RETURNS text LANGUAGE sql "
                       "AS 'SELECT current_database()::text';")
    session.answer("\\connect postgres")
    with Session() as caller:
        rows = options.rows // 200
        calls = {name: f"SELECT count({name}(s)) FROM (SELECT s FROM bench_few LIMIT {rows}) AS keys;"
                 for name in ("bench_remote", "bench_remote_fixed")}
        calls["chash_node"] = f"SELECT count(chash_node(s, 'vnodes_100')) FROM (SELECT s FROM bench_few LIMIT {rows}) AS keys;"
        values = {name: [] for name in calls}
        for call in calls.values():
            caller.answer(call)
        for _ in range(options.rounds):
            for name, call in calls.items():
                values[name].append(caller.elapsed(call) * 1e6 / rows)
    for i in range(2):
        session.answer(f"DROP DATABASE bench_shard_{i} WITH (FORCE);")
    return [
        figure("recipes", "PL/Proxy, RUN ON hashtext(key), call included", "us", values["bench_remote"],
               "the same, RUN ON 0", values["bench_remote_fixed"]),
        figure("recipes", "PL/Proxy, RUN ON hashtext(key), call included", "us", values["bench_remote"],
               "a row's chash_node and scan", values["chash_node"]),
    ]


def measure(session, options):
    session.answer(SETUP)
    rounds = options.rounds
    values = lookups.marginal(session, FAST, "bench_keys", options.rows, rounds)
    values.update(lookups.marginal(session, SLOW, "bench_few", options.rows // 20, rounds))
    values["native partitioning, routing of an INSERT, 100 partitions"] = native_routing(session, options)
    rows = [figure("recipes", name, "ns", values[name], NODE, values[NODE]) for name in values if name != NODE]
    single = single_statements(options)
    base = "SELECT hashtextextended"
    rows.append(figure("recipes", base + ", one row", "us", single[base]))
    rows += [figure("recipes", name + ", one row", "us", single[name], base, single[base])
             for name in SINGLE if name != base]
    return rows + plproxy(session, options)
