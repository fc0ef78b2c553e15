-- Direct DML is checked and takes effect as the functions do.
INSERT INTO chash_rings DEFAULT VALUES;
INSERT INTO chash_rings (ring, placement) VALUES ('p', 'partitions'), ('t', 'tokens');
SELECT ring, placement, hash, vnodes, partitions, hash_tags, replicas, epoch, history_from, fingerprint = chash_fingerprint(ring) AS intact FROM chash_rings ORDER BY ring;
-- A statement is one epoch per ring.
INSERT INTO chash_nodes (node, weight, zone) VALUES ('a', 1, NULL), ('b', 2.5, 'z1'), ('c', 1, 'z2');
INSERT INTO chash_nodes (ring, node) SELECT 'p', 'n' || i FROM generate_series(1, 7) i;
INSERT INTO chash_nodes (ring, node, tokens) VALUES ('t', 'x', '{30,10,20}');
SELECT r.ring, r.epoch, fingerprint = chash_fingerprint(r.ring) AS intact, count(*) AS nodes, min(n.epoch), sum(cardinality(held_partitions)) AS held
  FROM chash_rings r JOIN chash_nodes n USING (ring) GROUP BY r.ring ORDER BY r.ring;
SELECT tokens FROM chash_nodes WHERE ring = 't';
-- It makes the same ring as the functions.
SELECT chash_create_ring('by_function'), chash_add_node('a', 'by_function'), chash_add_node('b', 'by_function', weight => 2.5, zone => 'z1'), chash_add_node('c', 'by_function', zone => 'z2');
SELECT chash_fingerprint('by_function') = chash_fingerprint() AS same;
CREATE TEMP TABLE before AS SELECT k, chash_node(k) AS node, chash_node(k, 'p') AS p FROM generate_series(1, 1000) k;
UPDATE chash_nodes SET weight = weight * 2 WHERE ring = 'default' AND node = 'a';
SELECT chash_set_node('a', 'by_function', weight => 2);
SELECT chash_fingerprint('by_function') = chash_fingerprint() AS same, count(*) FILTER (WHERE chash_node(k) <> node) > 0 AS moved FROM before;
DELETE FROM chash_nodes WHERE ring = 'p' AND node IN ('n2', 'n5');
SELECT count(*) FILTER (WHERE chash_node(k, 'p') <> p AND p NOT IN ('n2', 'n5')) AS others, count(*) FILTER (WHERE chash_node(k, 'p') IN ('n2', 'n5')) AS left_behind,
       count(*) FILTER (WHERE chash_node_as_of(k, 2, 'p') <> p) AS history FROM before;
SELECT sum(cardinality(held_partitions)) FROM chash_nodes WHERE ring = 'p';
-- What changes nothing is no change.
UPDATE chash_nodes SET weight = 2, zone = zone WHERE node = 'a';
UPDATE chash_nodes SET info = NULL;
INSERT INTO chash_nodes (node) VALUES ('a') ON CONFLICT DO NOTHING;
SELECT ring, epoch FROM chash_rings ORDER BY ring;
-- Upserts and MERGE are one statement, thus one epoch.
INSERT INTO chash_nodes (node, weight) VALUES ('a', 3), ('d', 1) ON CONFLICT (ring, node) DO UPDATE SET weight = EXCLUDED.weight;
SELECT epoch, fingerprint = chash_fingerprint() AS intact FROM chash_rings WHERE ring = 'default';
MERGE INTO chash_nodes n USING (VALUES ('p', 'n1', 2), ('p', 'n3', 0), ('p', 'n9', 1)) v(ring, node, weight) ON n.ring = v.ring AND n.node = v.node
 WHEN MATCHED AND v.weight = 0 THEN DELETE
 WHEN MATCHED THEN UPDATE SET weight = v.weight
 WHEN NOT MATCHED THEN INSERT (ring, node, weight) VALUES (v.ring, v.node, v.weight);
SELECT epoch, fingerprint = chash_fingerprint('p') AS intact FROM chash_rings WHERE ring = 'p';
SELECT e, count(DISTINCT chash_node_as_of(k, e, 'p')) AS nodes FROM generate_series(2, 4) e, generate_series(1, 1000) k GROUP BY e ORDER BY e;
-- The setting for plans.
UPDATE chash_rings SET replicas = 3 WHERE ring = 'default';
SELECT epoch, replicas FROM chash_rings WHERE ring = 'default';
SELECT (SELECT count(*) FROM chash_rebalance_plan(changes => '{"a": null}')) = (SELECT count(*) FROM chash_rebalance_plan(changes => '{"a": null}', replicas => 3)) AS same;
-- Everything else is refused, and nothing is half-done.
CREATE TEMP TABLE rows_before AS SELECT ring, epoch, fingerprint, version FROM chash_rings;
INSERT INTO chash_nodes (ring, node) VALUES ('nowhere', 'a');
INSERT INTO chash_nodes (node, weight) VALUES ('good', 1), ('bad', -1);
INSERT INTO chash_nodes (node, weight) VALUES ('bad', 'NaN');
INSERT INTO chash_nodes (node, tokens) VALUES ('bad', '{1}');
INSERT INTO chash_nodes (ring, node) VALUES ('t', 'bad');
INSERT INTO chash_nodes (node, state) VALUES ('bad', 'asleep');
INSERT INTO chash_nodes (node, zone) VALUES ('bad', '');
INSERT INTO chash_nodes (node) VALUES (E'bad\n');
INSERT INTO chash_nodes (node) VALUES (NULL);
INSERT INTO chash_nodes (ring, node) VALUES (NULL, 'bad');
INSERT INTO chash_nodes (ring, node, held_partitions) VALUES ('p', 'bad', '{1}');
INSERT INTO chash_nodes (node, epoch) VALUES ('bad', 1);
INSERT INTO chash_nodes (node, epoch) VALUES ('bad', 1000);
INSERT INTO chash_nodes (node, weight) VALUES ('bad', 65536);
UPDATE chash_nodes SET node = 'z' WHERE node = 'a';
UPDATE chash_nodes SET ring = 't' WHERE node = 'a';
UPDATE chash_nodes SET epoch = 1 WHERE node = 'a';
UPDATE chash_nodes SET held_partitions = '{}' WHERE node = 'n1';
UPDATE chash_nodes SET weight = 1000000 WHERE node = 'a';
UPDATE chash_rings SET ring = 'other' WHERE ring = 'p';
UPDATE chash_rings SET epoch = 1;
UPDATE chash_rings SET fingerprint = 'x';
UPDATE chash_rings SET vnodes = 128 WHERE ring = 'default';
UPDATE chash_rings SET hash_tags = true;
UPDATE chash_rings SET replicas = 0;
INSERT INTO chash_rings (ring, vnodes) VALUES ('bad', 0);
INSERT INTO chash_rings (ring, placement, partitions) VALUES ('bad', 'partitions', 100);
INSERT INTO chash_rings (ring, hash) VALUES ('bad', 'md5');
INSERT INTO chash_rings (ring, epoch) VALUES ('bad', 0);
INSERT INTO chash_rings (ring) VALUES ('p');
UPDATE chash_node_history SET weight = 9;
DELETE FROM chash_node_history;
TRUNCATE chash_node_history;
SELECT * FROM rows_before EXCEPT SELECT ring, epoch, fingerprint, version FROM chash_rings;
-- A stamp that a user makes up is replaced.
UPDATE chash_rings SET version = '00000000-0000-0000-0000-000000000000' WHERE ring = 'default';
SELECT version <> '00000000-0000-0000-0000-000000000000' AS replaced, epoch FROM chash_rings WHERE ring = 'default';
-- Triggers fire for replicas as well.
SELECT tgrelid::regclass, tgname FROM pg_trigger WHERE tgrelid::regclass::text LIKE 'chash%' AND NOT tgisinternal AND tgenabled <> 'A';
SET session_replication_role = replica;
SELECT chash_node('x', 'p') IS NOT NULL AS looked_up;
DELETE FROM chash_nodes WHERE ring = 'p' AND node = 'n1';
UPDATE chash_nodes SET weight = 5 WHERE ring = 'default' AND node = 'c';
INSERT INTO chash_nodes (node, weight) VALUES ('bad', -1);
RESET session_replication_role;
SELECT ring, epoch, history_from, fingerprint = chash_fingerprint(ring) AS intact FROM chash_rings WHERE ring IN ('default', 'p') ORDER BY ring;
SELECT count(*) FILTER (WHERE chash_node(k, 'p') = 'n1') AS on_n1 FROM generate_series(1, 1000) k;
-- TRUNCATE does what DELETE does.
BEGIN;
TRUNCATE chash_nodes;
SELECT ring, epoch, fingerprint = chash_fingerprint(ring) AS intact FROM chash_rings ORDER BY ring;
SELECT chash_node('x');
ROLLBACK;
SELECT chash_node('x') IS NOT NULL AS back;
TRUNCATE chash_rings;
SELECT (SELECT count(*) FROM chash_rings) AS rings, (SELECT count(*) FROM chash_nodes) AS nodes, (SELECT count(*) FROM chash_node_history) AS history;
SELECT chash_node('x');
