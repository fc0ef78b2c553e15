-- Placement partitions: quotas within 1%, the least movement, scattered owners.
SELECT chash_create_ring('p', 'partitions');
SELECT ring, vnodes, partitions FROM chash_rings;
-- Grow to 100 nodes of one weight, then shrink, and look at every step.
CREATE TEMP TABLE steps (epoch bigint, changed text, nodes int);
DO $$
DECLARE
	n int := 0;
BEGIN
	FOR i IN 1..100 LOOP
		n := n + 1;
		INSERT INTO steps VALUES (chash_add_node('node-' || i, 'p'), 'node-' || i, n);
	END LOOP;
	FOR i IN 1..99 BY 2 LOOP
		n := n - 1;
		INSERT INTO steps VALUES (chash_remove_node('node-' || i, 'p'), 'node-' || i, n);
	END LOOP;
END $$;
-- What each node held at each epoch, from the tables.
CREATE TEMP TABLE held AS
	SELECT s.epoch, s.nodes, h.node, coalesce(cardinality(h.held_partitions), 0) AS partitions
	  FROM steps s
	  JOIN (SELECT node, from_epoch, to_epoch, held_partitions FROM chash_node_history WHERE ring = 'p'
	        UNION ALL
	        SELECT node, epoch, 9223372036854775807, held_partitions FROM chash_nodes WHERE ring = 'p') h
	    ON s.epoch >= h.from_epoch AND s.epoch < h.to_epoch;
SELECT count(DISTINCT epoch), min(nodes), max(nodes) FROM held;
SELECT count(*) AS more_than_one_percent_off FROM held
 WHERE abs(partitions - 16384.0 / nodes) > 0.01 * 16384.0 / nodes;
SELECT count(*) AS epochs_without_all_partitions FROM (SELECT FROM held GROUP BY epoch HAVING sum(partitions) <> 16384) x;
-- Every step moves to or from the changed node alone, exactly the difference of quotas.
CREATE TEMP TABLE moved AS
	SELECT s.epoch, s.changed, d.from_node, d.to_node, (d.share * 16384)::int AS partitions
	  FROM steps s, LATERAL chash_epoch_diff('p', s.epoch - 1, s.epoch) d WHERE s.epoch > 2;
SELECT count(*) AS between_unchanged FROM moved WHERE changed NOT IN (from_node, to_node);
SELECT count(*) AS epochs,
       count(*) FILTER (WHERE m.partitions <> (SELECT abs(coalesce(a.partitions, 0) - coalesce(b.partitions, 0))
                                                 FROM (SELECT) one
                                                 LEFT JOIN held a ON a.epoch = m.epoch AND a.node = m.changed
                                                 LEFT JOIN held b ON b.epoch = m.epoch - 1 AND b.node = m.changed)) AS more_or_less
  FROM (SELECT epoch, changed, sum(partitions) AS partitions FROM moved GROUP BY 1, 2) m;
-- A removed node's partitions go to all others, to none more than 1.5 times its part.
SELECT count(*) AS removals,
       count(*) FILTER (WHERE receivers <> nodes) AS not_to_all,
       count(*) FILTER (WHERE most > 1.5 * total / nodes) AS too_many_to_one
  FROM (SELECT m.epoch, s.nodes, count(*) AS receivers, max(partitions) AS most, sum(partitions) AS total
          FROM (SELECT epoch, changed, to_node, sum(partitions) AS partitions FROM moved WHERE from_node = changed GROUP BY 1, 2, 3) m
          JOIN steps s USING (epoch) GROUP BY 1, 2) x;
-- What the replicas of a node's positions are: nearly everybody, since owners are scattered.
SELECT count(DISTINCT (chash_replicas(k, 2, 'p'))[2]) AS seconds_of_one_node
  FROM generate_series(1, 20000) k WHERE chash_node(k, 'p') = 'node-50';
-- Weights: within one partition of the exact share, at least one each; the tables say what points say.
SELECT chash_create_ring('w', 'partitions', partitions => 1024),
       chash_apply('{"a": {"weight": 1000}, "b": {"weight": 1}, "c": {"weight": 0.001}, "d": {"weight": 0}, "e": {"weight": 2.75}}', 'w');
SELECT n.node, n.weight, cardinality(held_partitions) AS held, points FROM chash_nodes n JOIN chash_balance('w') b USING (node) WHERE ring = 'w' ORDER BY 1;
SELECT chash_set_node('a', 'w', weight => 1), chash_set_node('d', 'w', weight => 1);
SELECT node, weight, cardinality(held_partitions) AS held FROM chash_nodes WHERE ring = 'w' ORDER BY 1;
SELECT count(*) AS points, count(DISTINCT "position") AS positions, max("position") FROM chash_points('w');
-- As many nodes as partitions, and one more.
SELECT chash_create_ring('small', 'partitions', partitions => 2), chash_apply('{"a": {}, "b": {}}', 'small');
SELECT chash_add_node('c', 'small');
SELECT chash_add_node('c', 'small', weight => 0);
SELECT chash_set_node('c', 'small', weight => 1);
SELECT epoch, chash_fingerprint('small') = fingerprint AS intact FROM chash_rings WHERE ring = 'small';
SELECT chash_create_ring('single', 'partitions', partitions => 1), chash_add_node('all', 'single');
SELECT * FROM chash_ranges('single');
SELECT chash_drop_ring(r) FROM unnest('{p,w,small,single}'::text[]) r;
