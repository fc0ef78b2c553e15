-- Epochs: what was when, until it is pruned.
SELECT chash_create_ring('r'), chash_add_node('a', 'r'), chash_add_node('b', 'r'), chash_set_node('a', 'r', weight => 3),
       chash_mark_down('b', 'r'), chash_add_node('c', 'r', zone => 'z'), chash_remove_node('a', 'r');
-- Each epoch as it was made: the same changes on other rings.
SELECT chash_create_ring('e2'), chash_apply('{"a": {}}', 'e2');
SELECT chash_create_ring('e3'), chash_apply('{"a": {}, "b": {}}', 'e3');
SELECT chash_create_ring('e4'), chash_apply('{"a": {"weight": 3}, "b": {}}', 'e4');
SELECT chash_create_ring('e6'), chash_apply('{"a": {"weight": 3}, "b": {}, "c": {"zone": "z"}}', 'e6');
SELECT chash_create_ring('e7'), chash_apply('{"b": {}, "c": {"zone": "z"}}', 'e7');
SELECT count(*) AS keys,
       count(*) FILTER (WHERE chash_node_as_of(k, 2, 'r') = chash_node(k, 'e2')) AS epoch_2,
       count(*) FILTER (WHERE chash_node_as_of(k, 3, 'r') = chash_node(k, 'e3')) AS epoch_3,
       count(*) FILTER (WHERE chash_node_as_of(k, 4, 'r') = chash_node(k, 'e4')) AS epoch_4,
       count(*) FILTER (WHERE chash_node_as_of(k, 5, 'r') = chash_node(k, 'e4')) AS epoch_5,
       count(*) FILTER (WHERE chash_node_as_of(k, 6, 'r') = chash_node(k, 'e6')) AS epoch_6,
       count(*) FILTER (WHERE chash_node_as_of(k, 7, 'r') = chash_node(k, 'e7')) AS epoch_7
  FROM generate_series(1, 2000) k;
-- The diff of two epochs is that of the rings, in either direction.
WITH a AS (SELECT * FROM chash_epoch_diff('r', 2, 6)), b AS (SELECT * FROM chash_ring_diff('e2', 'e6'))
SELECT (SELECT count(*) FROM a) > 0 AS rows, count(*) AS differences FROM ((TABLE a EXCEPT TABLE b) UNION ALL (TABLE b EXCEPT TABLE a)) x;
WITH a AS (SELECT * FROM chash_epoch_diff('r', 7, 3, 2)), b AS (SELECT * FROM chash_ring_diff('e7', 'e3', 2))
SELECT (SELECT count(*) FROM a) > 0 AS rows, count(*) AS differences FROM ((TABLE a EXCEPT TABLE b) UNION ALL (TABLE b EXCEPT TABLE a)) x;
WITH a AS (SELECT * FROM chash_epoch_diff('r')), b AS (SELECT * FROM chash_ring_diff('e6', 'e7'))
SELECT (SELECT count(*) FROM a) > 0 AS rows, count(*) AS differences FROM ((TABLE a EXCEPT TABLE b) UNION ALL (TABLE b EXCEPT TABLE a)) x;
SELECT count(*) FROM chash_epoch_diff('r', 4, 5);
SELECT count(*) FROM chash_epoch_diff('r', 5, 5);
-- Before there was a node, after the last epoch, and never.
SELECT chash_node_as_of('x', 1, 'r');
SELECT chash_node_as_of('x', 8, 'r');
SELECT chash_node_as_of('x', 0, 'r');
SELECT * FROM chash_epoch_diff('r', 7, 8);
-- A check of a route refuses only those whose key has moved.
SELECT count(*) AS keys, count(*) FILTER (WHERE chash_node_as_of(k, 6, 'r') = chash_node_as_of(k, 7, 'r')) AS unmoved
  FROM generate_series(1, 100) k;
CREATE FUNCTION refused(k int, node text, epoch bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM chash_check_route(k, node, epoch, 'r');
	RETURN 'passed';
EXCEPTION WHEN SQLSTATE 'RT001' OR SQLSTATE 'RT002' THEN
	RETURN SQLSTATE;
END $$;
SELECT chash_mark_up('b', 'r');
SELECT chash_node_as_of(k, 6, 'r') = chash_node(k, 'r') AS unmoved, refused(k, chash_node_as_of(k, 6, 'r'), 6), count(*)
  FROM generate_series(1, 100) k GROUP BY 1, 2 ORDER BY 1;
SELECT refused(1, chash_node(1, 'r'), 8), refused(1, chash_node(1, 'r'), 9), refused(1, 'nobody', 8);
-- Pruning: the epochs kept answer as before, older ones are refused.
CREATE TEMP TABLE before AS SELECT k, e, chash_node_as_of(k, e, 'r') AS node FROM generate_series(1, 200) k, generate_series(4, 8) e;
SELECT chash_prune_history('r', 4), chash_prune_history('r', 4), chash_prune_history('r', 100);
SELECT history_from, epoch FROM chash_rings WHERE ring = 'r';
SELECT count(*) FROM before WHERE chash_node_as_of(k, e, 'r') <> node;
SELECT chash_node_as_of('x', 3, 'r');
SELECT * FROM chash_epoch_diff('r', 3, 4);
SELECT chash_prune_history('r', 0);
SELECT count(*) FROM chash_node_history WHERE ring = 'r';
SELECT count(*) FROM before WHERE e = 8 AND chash_node_as_of(k, e, 'r') <> node;
SELECT chash_prune_history('r', -1);
-- A rolled-back epoch leaves no history.
BEGIN;
SELECT chash_add_node('d', 'r');
SAVEPOINT s;
SELECT chash_remove_node('b', 'r');
ROLLBACK TO s;
SELECT chash_set_node('b', 'r', weight => 2);
COMMIT;
SELECT node, from_epoch, to_epoch, weight FROM chash_node_history WHERE ring = 'r';
SELECT count(*) FROM chash_epoch_diff('r', 9, 10) WHERE 'b' NOT IN (from_node, to_node);
SELECT count(chash_drop_ring(ring)) FROM chash_rings;
DROP FUNCTION refused;
