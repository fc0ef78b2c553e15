-- Placement partitions: owners stay where they are unless weights or nodes change.
SELECT chash_create_ring('even', 'partitions', partitions => 8), chash_apply('{"a": {}, "b": {}}', 'even');
-- A ring that mirrors another system: one node holds six of eight partitions, the other two.
CREATE TABLE mirror AS
SELECT jsonb_set(jsonb_set(chash_export('even'), '{nodes,0,held_partitions}', '[0, 1, 2, 3, 4, 5]'), '{nodes,1,held_partitions}', '[6, 7]') AS definition;
DO $$
DECLARE
	detail text;
BEGIN
	PERFORM chash_import(definition, 'mirror') FROM mirror;
EXCEPTION WHEN invalid_parameter_value THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	UPDATE mirror SET definition = jsonb_set(definition, '{fingerprint}', to_jsonb(substring(detail from 'has ([0-9a-f]{32})')));
END $$;
SELECT chash_import(definition, 'mirror') FROM mirror;
CREATE VIEW held AS SELECT node, weight, state, held_partitions FROM chash_nodes WHERE ring = 'mirror' ORDER BY node;
SELECT * FROM chash_rebalance_plan('mirror', '{"a": {"info": {"dsn": "host=a"}, "zone": "z", "state": "down", "weight": 1}}');
SELECT chash_apply('{"a": {"info": {"dsn": "host=a"}, "zone": "z", "state": "down", "weight": 1}}', 'mirror'), chash_mark_up('a', 'mirror');
UPDATE chash_rings SET replicas = 2 WHERE ring = 'mirror';
SELECT * FROM held;
-- With other weights or nodes all come to their quotas, as the plan says.
CREATE TABLE planned AS SELECT lo, hi, from_node, to_node FROM chash_rebalance_plan('mirror', '{"c": {}}', replicas => 1);
SELECT from_node, to_node, count(*) FROM planned GROUP BY 1, 2 ORDER BY 1, 2;
SELECT chash_add_node('c', 'mirror');
SELECT * FROM held;
SELECT count(*) AS other FROM (TABLE planned EXCEPT SELECT lo, hi, from_node, to_node FROM chash_epoch_diff('mirror', replicas => 1)) AS o;
-- With more than one replica, nodes that did not change copy from each other too: the figures of docs/clients.md.
CREATE FUNCTION bystanders(nodes int, replicas int, changed text, weight numeric, weight_after numeric) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
	part numeric;
BEGIN
	PERFORM chash_create_ring('r', 'partitions');
	PERFORM chash_apply(jsonb_object_agg('node-' || i, jsonb_build_object('weight', CASE WHEN 'node-' || i = changed THEN bystanders.weight ELSE 1 END)), 'r')
	   FROM generate_series(1, nodes) i;
	SELECT round(sum(share)::numeric, 3) INTO part
	  FROM chash_rebalance_plan('r', jsonb_build_object(changed, jsonb_build_object('weight', weight_after)), bystanders.replicas)
	 WHERE changed NOT IN (from_node, to_node);
	PERFORM chash_drop_ring('r');
	RETURN coalesce(part, 0);
END $$;
SELECT nodes, replicas, bystanders(nodes, replicas, 'new', 1, 1) AS added, bystanders(nodes, replicas, 'node-2', 1, 0) AS drained,
       bystanders(nodes, replicas, 'node-2', 1, 2) AS doubled, bystanders(nodes, replicas, 'node-2', 2, 1) AS halved
  FROM (VALUES (5, 1), (5, 2), (5, 3), (10, 2), (10, 3), (100, 3)) AS v (nodes, replicas);
DROP FUNCTION bystanders;
DROP TABLE mirror, planned;
DROP VIEW held;
SELECT count(chash_drop_ring(ring)) FROM chash_rings;
