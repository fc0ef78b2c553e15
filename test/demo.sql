-- chash at work on 100,000 rows in three tables, whose keys are text, bigint and
-- uuid.  Four nodes hold them; what would a fifth change?  The plan is made
-- first, then the node is added, and then every row is asked where it lives now:
-- the rows that moved must be those that the plan's ranges had named, no more
-- and no fewer.  Ends with an error if they are not.
--
-- For an empty database: psql -X -f demo.sql

\set ON_ERROR_STOP on
\set QUIET on
\pset footer off
\pset pager off
\pset null '-'
SET client_min_messages = warning;

CREATE EXTENSION chash;

\echo
\echo '== Three tables with 100,000 rows'
\echo

CREATE TABLE customers (email text PRIMARY KEY, joined date NOT NULL);
CREATE TABLE orders (id bigint PRIMARY KEY, customer text NOT NULL, cents integer NOT NULL);
CREATE TABLE devices (id uuid PRIMARY KEY, model text NOT NULL);

INSERT INTO customers
SELECT format('%s.%s%s@%s',
              (ARRAY['ada', 'bela', 'chidi', 'dunja', 'emre', 'fatima', 'george', 'hana', 'ines', 'jonas'])[1 + i % 10],
              (ARRAY['adler', 'baker', 'castro', 'diallo', 'endo', 'farkas', 'gruber'])[1 + i / 10 % 7],
              i,
              (ARRAY['example.com', 'example.net', 'mail.example.org'])[1 + i % 3]),
       date '2020-01-01' + i % 2000
FROM generate_series(1, 30000) AS i;

INSERT INTO orders
SELECT 700000000000 + 37 * i::bigint, c.email, 500 + i * 7919 % 20000
FROM (SELECT email, row_number() OVER (ORDER BY email) AS number FROM customers) AS c
JOIN generate_series(1, 50000) AS i ON c.number = 1 + i % 30000;

INSERT INTO devices
SELECT md5('device ' || i)::uuid, 'model ' || chr(65 + i % 5)
FROM generate_series(1, 20000) AS i;

-- What lets the ranges of a plan find their rows.
CREATE INDEX customers_position ON customers (chash_hash(email));
CREATE INDEX orders_position ON orders (chash_hash(id));
CREATE INDEX devices_position ON devices (chash_hash(id));
ANALYZE customers, orders, devices;

SELECT 'customers' AS "table", 'text' AS "type of key", min(email) AS "first key", count(*) AS rows FROM customers
UNION ALL
SELECT 'orders', 'bigint', min(id)::text, count(*) FROM orders
UNION ALL
SELECT 'devices', 'uuid', min(id::text), count(*) FROM devices
ORDER BY rows DESC;

\echo '== Four nodes in two zones, and where the rows live'
\echo

SELECT chash_create_ring() AS epoch \gset
SELECT chash_add_node('shard_a', zone => 'east') AS epoch \gset
SELECT chash_add_node('shard_b', zone => 'east') AS epoch \gset
SELECT chash_add_node('shard_c', zone => 'west') AS epoch \gset
SELECT chash_add_node('shard_d', zone => 'west') AS epoch \gset
\set epoch_before :epoch

CREATE TEMP TABLE before AS
SELECT 'customers' AS relation, email AS key, chash_node(email) AS node FROM customers
UNION ALL
SELECT 'orders', id::text, chash_node(id) FROM orders
UNION ALL
SELECT 'devices', id::text, chash_node(id) FROM devices;

SELECT node,
       count(*) FILTER (WHERE relation = 'customers') AS customers,
       count(*) FILTER (WHERE relation = 'orders') AS orders,
       count(*) FILTER (WHERE relation = 'devices') AS devices,
       count(*) AS "all rows"
FROM before GROUP BY node ORDER BY node;

\echo '== One key: its node, its replicas in different zones, its route'
\echo

SELECT key, chash_node(key) AS node, chash_replicas(key, 3) AS "three replicas", r."position", r.epoch
FROM (VALUES ('ada.baker10@example.net'), ('hana.castro27@example.com')) AS v(key), chash_route(key) AS r;

\echo '== What if shard_e came, with twice the weight of the others?'
\echo

\set changes '{"shard_e": {"weight": 2, "zone": "west"}}'

SELECT from_node AS "from", to_node AS "to", ranges,
       to_char(100 * share, '990.0') || ' %' AS "of the circle",
       format('%s -> %s', to_char(100 * from_before, 'FM990.0'), to_char(100 * from_after, 'FM990.0')) AS "share of from",
       format('%s -> %s', coalesce(to_char(100 * to_before, 'FM990.0'), 'none'), to_char(100 * to_after, 'FM990.0')) AS "share of to"
FROM chash_rebalance_summary(changes => :'changes');

\echo '== The plan is a relation: ranges of positions, which join to any table'
\echo

CREATE TEMP TABLE plan AS SELECT * FROM chash_rebalance_plan(changes => :'changes');
ANALYZE plan;

SELECT count(*) AS ranges, to_char(100 * sum(share), '990.0') || ' %' AS "of the circle" FROM plan;

SELECT lo, hi, from_node, to_node, to_char(100 * share, '0.0000') || ' %' AS "of the circle"
FROM plan ORDER BY lo LIMIT 3;

\set query 'SELECT email FROM plan JOIN customers ON chash_hash(email) BETWEEN lo AND hi'
\echo :query
EXPLAIN (COSTS OFF) :query;

-- That index is the point of the demonstration, so insist on it, for all three.
CREATE FUNCTION pg_temp.uses_index(query text, index text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	tree jsonb;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO tree;
	RETURN jsonb_path_exists(tree, '$.**."Index Name" ? (@ == $name)', jsonb_build_object('name', index));
END
$$;

DO $$
BEGIN
	IF NOT pg_temp.uses_index('SELECT 1 FROM plan JOIN customers ON chash_hash(email) BETWEEN lo AND hi', 'customers_position')
	   OR NOT pg_temp.uses_index('SELECT 1 FROM plan JOIN orders ON chash_hash(id) BETWEEN lo AND hi', 'orders_position')
	   OR NOT pg_temp.uses_index('SELECT 1 FROM plan JOIN devices ON chash_hash(id) BETWEEN lo AND hi', 'devices_position')
	THEN
		RAISE EXCEPTION 'the ranges of the plan were not looked up through the index on chash_hash';
	END IF;
END
$$;

CREATE TEMP TABLE planned AS
SELECT 'customers' AS relation, email AS key, from_node, to_node
FROM plan JOIN customers ON chash_hash(email) BETWEEN lo AND hi
UNION ALL
SELECT 'orders', id::text, from_node, to_node
FROM plan JOIN orders ON chash_hash(id) BETWEEN lo AND hi
UNION ALL
SELECT 'devices', id::text, from_node, to_node
FROM plan JOIN devices ON chash_hash(id) BETWEEN lo AND hi;

\echo '== Add it, ask every row again, and compare'
\echo

SELECT chash_add_node('shard_e', weight => 2, zone => 'west') AS epoch \gset
\set epoch_after :epoch

CREATE TEMP TABLE moved AS
WITH after AS (
	SELECT 'customers' AS relation, email AS key, chash_node(email) AS node FROM customers
	UNION ALL
	SELECT 'orders', id::text, chash_node(id) FROM orders
	UNION ALL
	SELECT 'devices', id::text, chash_node(id) FROM devices
)
SELECT relation, key, before.node AS from_node, after.node AS to_node
FROM before JOIN after USING (relation, key)
WHERE before.node <> after.node;

CREATE TEMP TABLE comparison AS
SELECT relation,
       (SELECT count(*) FROM before WHERE relation = r) AS rows,
       (SELECT count(*) FROM planned WHERE relation = r) AS planned,
       (SELECT count(*) FROM moved WHERE relation = r) AS moved,
       (SELECT count(*) FROM (SELECT * FROM planned WHERE relation = r EXCEPT SELECT * FROM moved) AS d) AS "planned, not moved",
       (SELECT count(*) FROM (SELECT * FROM moved WHERE relation = r EXCEPT SELECT * FROM planned) AS d) AS "moved, not planned"
FROM (VALUES ('customers'), ('orders'), ('devices')) AS v(relation), LATERAL (SELECT v.relation AS r) AS named;

SELECT *, to_char(100.0 * moved / rows, '990.0') || ' %' AS "of the rows" FROM comparison;

DO $$
BEGIN
	IF (SELECT count(*) FROM comparison WHERE rows > 0 AND moved > 0 AND planned = moved) <> 3
	   OR EXISTS (SELECT FROM comparison WHERE "planned, not moved" <> 0 OR "moved, not planned" <> 0)
	THEN
		RAISE EXCEPTION 'the plan and the rows do not agree';
	END IF;
	IF EXISTS (SELECT FROM moved WHERE to_node <> 'shard_e') THEN
		RAISE EXCEPTION 'rows moved between nodes that had not changed';
	END IF;
END
$$;

\echo '== The balance now'
\echo

SELECT node, weight, zone, points, to_char(100 * share, '990.0') || ' %' AS share,
       to_char(ratio, '0.000') AS ratio, bar
FROM chash_balance();

\echo '== A key that moved, then and now'
\echo

\set then 'in epoch ' :epoch_before
\set now 'in epoch ' :epoch_after

SELECT key,
       chash_node_as_of(key, :epoch_before) AS :"then",
       chash_node_as_of(key, :epoch_after) AS :"now",
       chash_node(key) AS live
FROM moved WHERE relation = 'customers' ORDER BY key LIMIT 1;
