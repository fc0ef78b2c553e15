-- What the planner is told, and what it can do with chash_hash.
SELECT chash_create_ring('r', vnodes => 100), chash_apply('{"a": {}, "b": {}, "c": {"weight": 2}}', 'r');
CREATE FUNCTION estimate(query text) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	RETURN plan -> 0 -> 'Plan' ->> 'Plan Rows';
END $$;
SELECT estimate('SELECT * FROM chash_points(''r'')') AS points,
       estimate('SELECT * FROM chash_balance(''r'')') AS balance,
       estimate('SELECT * FROM chash_ranges(''r'')') = (SELECT count(*) FROM chash_ranges('r')) AS ranges_exact,
       estimate('SELECT * FROM chash_ranges(''r'', ''a'')') BETWEEN 50 AND 150 AS ranges_of_node,
       estimate('SELECT * FROM chash_rebalance_plan(''r'', ''{"d": {}}'')') BETWEEN 50 AND 200 AS plan,
       estimate('SELECT * FROM chash_points(''nowhere'')') AS unknown;
SELECT proname, provolatile, proisstrict, proparallel, count(*) FROM pg_proc
 WHERE proname IN ('chash_node', 'chash_replicas', 'chash_hash', 'chash_position', 'chash_node_at', 'chash_route', 'chash_node_as_of', 'chash_check_route')
 GROUP BY 1, 2, 3, 4 ORDER BY 1;
-- A plan joined to a table by an index on the position of its key.
CREATE TABLE customers (id bigint PRIMARY KEY, name text);
INSERT INTO customers SELECT i, 'customer ' || i FROM generate_series(1, 20000) i;
CREATE INDEX ON customers (chash_hash(id));
ANALYZE customers;
EXPLAIN (COSTS OFF)
SELECT c.id FROM chash_rebalance_plan('r', '{"d": {}}') p JOIN customers c ON chash_hash(c.id) BETWEEN p.lo AND p.hi;
-- Extended statistics tell how many rows live on a node.
SELECT estimate($$SELECT * FROM customers WHERE chash_node(id, 'r') = 'c'$$) AS by_default;
CREATE STATISTICS customer_nodes ON (chash_node(id, 'r')) FROM customers;
ANALYZE customers;
SELECT estimate($$SELECT * FROM customers WHERE chash_node(id, 'r') = 'c'$$) / count(*) BETWEEN 0.9 AND 1.1 AS estimated
  FROM customers WHERE chash_node(id, 'r') = 'c';
-- A constant key is looked up once.
EXPLAIN (COSTS OFF, VERBOSE) SELECT chash_hash('x'), chash_hash(1, 'xxh3');
DROP TABLE customers;
DROP FUNCTION estimate;
SELECT chash_drop_ring('r');
