-- A weight is stored as it was given or refused, whichever way it comes: none is rounded to another, or to nothing.
\set VERBOSITY sqlstate
SELECT chash_create_ring('v', vnodes => 16), chash_apply('{"a": {}, "b": {}}', 'v');
SELECT chash_create_ring('t', 'tokens'), chash_apply('{"a": {"tokens": [1]}, "b": {"tokens": [2]}}', 't');
CREATE VIEW state AS
	SELECT r.ring, r.epoch, fingerprint = chash_fingerprint(r.ring) AS intact, string_agg(node || ':' || trim_scale(weight), ' ' ORDER BY node) AS nodes
	FROM chash_rings AS r JOIN chash_nodes USING (ring) GROUP BY r.ring ORDER BY r.ring;
-- Refused: more than three decimals.
UPDATE chash_nodes SET weight = 0.0004 WHERE ring = 'v' AND node = 'a';
UPDATE chash_nodes SET weight = 0.0005 WHERE ring = 'v' AND node = 'a';
UPDATE chash_nodes SET weight = 1.0001 WHERE ring = 'v' AND node = 'a';
UPDATE chash_nodes SET weight = 1e-20 WHERE ring = 'v' AND node = 'a';
UPDATE chash_nodes SET weight = 0.0004::float8 WHERE ring = 'v' AND node = 'a';
UPDATE chash_nodes SET weight = 2.7182818::real WHERE ring = 'v' AND node = 'a';
UPDATE chash_nodes SET weight = weight / 3 WHERE ring = 'v';
UPDATE chash_nodes SET weight = 999999.9996 WHERE ring = 't' AND node = 'a';
INSERT INTO chash_nodes (ring, node, weight) VALUES ('v', 'c', 0.0004);
INSERT INTO chash_nodes (ring, node, weight) VALUES ('v', 'c', 1), ('v', 'd', 0.0004);
INSERT INTO chash_nodes (ring, node, weight) SELECT 'v', 'c', w FROM (VALUES (0.0004)) AS v (w);
INSERT INTO chash_nodes (ring, node, weight, tokens) VALUES ('t', 'c', 999999.9996, '{3}');
INSERT INTO chash_nodes (ring, node, weight) VALUES ('v', 'a', 2.5) ON CONFLICT (ring, node) DO UPDATE SET weight = EXCLUDED.weight / 1000;
INSERT INTO chash_nodes (ring, node, weight) VALUES ('v', 'a', 0.0004) ON CONFLICT (ring, node) DO UPDATE SET weight = 1;
MERGE INTO chash_nodes AS n USING (VALUES ('a', 0.0004)) AS v (node, weight) ON n.ring = 'v' AND n.node = v.node WHEN MATCHED THEN UPDATE SET weight = v.weight;
MERGE INTO chash_nodes AS n USING (VALUES ('c', 0.0004)) AS v (node, weight) ON n.ring = 'v' AND n.node = v.node WHEN NOT MATCHED THEN INSERT (ring, node, weight) VALUES ('v', v.node, v.weight);
COPY chash_nodes (ring, node, weight) FROM stdin;
v	c	0.0004
\.
COPY chash_nodes (ring, node, weight) FROM stdin (FORMAT csv);
v,c,1
v,d,.00049
\.
PREPARE set_weight(numeric) AS UPDATE chash_nodes SET weight = $1 WHERE ring = 'v' AND node = 'a';
EXECUTE set_weight(0.0004);
DEALLOCATE set_weight;
SELECT chash_set_node('a', 'v', weight => 0.0004);
SELECT chash_add_node('c', 'v', weight => 0.0004);
SELECT chash_apply('{"a": {"weight": 0.0004}}', 'v');
SELECT chash_apply('{"c": {"weight": 4e-4}}', 'v');
SELECT count(*) FROM chash_rebalance_plan('v', '{"a": {"weight": 0.0004}}');
SELECT chash_import(jsonb_set(chash_export('v'), '{nodes,0,weight}', '0.0004'), 'w');
-- Restored rows, and what was.
BEGIN;
SELECT chash_create_ring('r'), chash_add_node('a', 'r');
SAVEPOINT s;
INSERT INTO chash_nodes (ring, node, weight, epoch) VALUES ('nowhere', 'a', 0.0004, 1);
ROLLBACK TO s;
INSERT INTO chash_node_history (ring, node, from_epoch, to_epoch, weight) VALUES ('nowhere', 'a', 1, 2, 0.0004);
ROLLBACK TO s;
INSERT INTO chash_node_history (ring, node, from_epoch, to_epoch, weight) VALUES ('r', 'b', 1, 2, 999999.9996);
ROLLBACK;
-- Refused: out of range.
UPDATE chash_nodes SET weight = -0.0001 WHERE ring = 'v' AND node = 'a';
UPDATE chash_nodes SET weight = -1 WHERE ring = 'v' AND node = 'a';
UPDATE chash_nodes SET weight = 1000000 WHERE ring = 't' AND node = 'a';
UPDATE chash_nodes SET weight = 1e30 WHERE ring = 't' AND node = 'a';
UPDATE chash_nodes SET weight = 'NaN' WHERE ring = 't' AND node = 'a';
UPDATE chash_nodes SET weight = 'Infinity' WHERE ring = 't' AND node = 'a';
UPDATE chash_nodes SET weight = '-Infinity' WHERE ring = 't' AND node = 'a';
UPDATE chash_nodes SET weight = NULL WHERE ring = 't' AND node = 'a';
SELECT * FROM state;
-- Taken as they are; zeros at the end say nothing.
UPDATE chash_nodes SET weight = 0.001 WHERE ring = 'v' AND node = 'a';
UPDATE chash_nodes SET weight = 0.0010 WHERE ring = 'v' AND node = 'a';
UPDATE chash_nodes SET weight = 0.1::float8 WHERE ring = 'v' AND node = 'b';
INSERT INTO chash_nodes (ring, node, weight) VALUES ('v', 'c', 2.50000000000000000000), ('v', 'd', 0), ('v', 'e', 1e2), ('v', 'f', '0.125');
UPDATE chash_nodes SET weight = 999999.999 WHERE ring = 't' AND node = 'a';
UPDATE chash_nodes SET weight = 999999.9990 WHERE ring = 't' AND node = 'b';
COPY chash_nodes (ring, node, weight) FROM stdin;
v	g	0.0070
\.
SELECT * FROM state;
SELECT count(DISTINCT scale(weight)) AS forms FROM chash_nodes;
SELECT count(DISTINCT scale(weight)) AS forms FROM chash_node_history;
SELECT chash_import(chash_export('v'), 'w') > 0 AS imported;
SELECT chash_fingerprint('v') = chash_fingerprint('w') AS same;
-- The points of each are due to its weight.
SELECT count(*) AS nodes, count(*) FILTER (WHERE points <> CASE WHEN weight > 0 THEN greatest(1, round(16 * weight)) ELSE 0 END) AS wrong FROM chash_balance('v');

-- What PostgreSQL itself makes of a value of another type on its way into a column, no
-- trigger can see: whole numbers are rounded, trailing blanks of char(n) go.
UPDATE chash_rings SET replicas = 1.5 WHERE ring = 'v';
INSERT INTO chash_rings (ring, vnodes) VALUES ('rounded', 15.5);
INSERT INTO chash_rings (ring, placement, partitions) VALUES ('rounded too', 'partitions', 16.4);
SELECT ring, vnodes, partitions, replicas FROM chash_rings WHERE ring IN ('v', 'rounded', 'rounded too') ORDER BY ring;
INSERT INTO chash_nodes (ring, node, tokens) VALUES ('t', 'c', '{2.5, 3.5}'::numeric[]);
INSERT INTO chash_nodes (ring, node, zone) VALUES ('rounded', 'blank  '::char(7), 'z  '::char(3));
SELECT node || '|' AS node, zone || '|' AS zone, tokens FROM chash_nodes WHERE ring = 'rounded' OR (ring, node) = ('t', 'c') ORDER BY ring;
-- A text is a text, to the last blank and letter.
INSERT INTO chash_nodes (ring, node) VALUES ('rounded', 'blank '), ('rounded', 'Blank');
SELECT count(*) FROM chash_nodes WHERE ring = 'rounded';
-- Functions take no number that would have to be rounded.
SELECT chash_create_ring('x', replicas => 1.5);
SELECT chash_add_node('x', 't', tokens => '{1.5}'::numeric[]);
SELECT chash_apply('{"x": {"tokens": [1.5]}}', 't');
SELECT chash_replicas('k', 1.5, 'v');
SELECT count(*) FROM chash_rebalance_plan('v', replicas => 1.5);
SELECT chash_import(jsonb_set(chash_export('v'), '{replicas}', '1.5'), 'x');
SELECT chash_import(jsonb_set(chash_export('v'), '{vnodes}', '16.5'), 'x');
SELECT count(chash_drop_ring(ring)) FROM chash_rings;
DROP VIEW state;
