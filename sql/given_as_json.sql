-- What drivers make of changes, and what JSON null is.
SELECT chash_create_ring(vnodes => 100);
-- Weights as numbers of any form, and as strings.
SELECT chash_apply('{"a": {"weight": 2.5}, "b": {"weight": "2.5"}, "c": {"weight": 25e-1}, "d": {"weight": "0.25E1"}, "e": {"weight": "2.500"}}');
SELECT chash_apply(jsonb_build_object('f', jsonb_build_object('weight', 2.5::float8)));
SELECT node, weight FROM chash_nodes ORDER BY node;
SELECT chash_apply('{"a": {"weight": "much"}}');
SELECT chash_apply('{"a": {"weight": ""}}');
SELECT chash_apply('{"a": {"weight": " 1"}}');
SELECT chash_apply('{"a": {"weight": "NaN"}}');
SELECT chash_apply('{"a": {"weight": "1e9"}}');
SELECT chash_apply('{"a": {"weight": "1e-9"}}');
SELECT chash_apply('{"a": {"weight": "1e999999999"}}');
SELECT chash_apply('{"a": {"weight": true}}');
SELECT chash_apply(to_jsonb('{"a": {"weight": 1}}'::text));
SELECT count(*) FROM chash_rebalance_plan(changes => to_jsonb('{"a": {"weight": 1}}'::text));
SELECT chash_import(to_jsonb(chash_export()::text), 'x');
-- Whole numbers too can be written in other ways.
SELECT chash_create_ring('t', 'tokens'), chash_apply('{"a": {"tokens": [1e3, 2.0, -9223372036854775808, 9223372036854775807.00]}}', 't');
SELECT tokens FROM chash_nodes WHERE ring = 't';
SELECT chash_apply('{"a": {"tokens": [1.5]}}', 't');
SELECT chash_apply('{"a": {"tokens": [9223372036854775808]}}', 't');
SELECT chash_apply('{"a": {"tokens": [-9223372036854775809]}}', 't');
SELECT chash_apply('{"a": {"tokens": ["1"]}}', 't');
-- A name in which changes were meant.
SELECT * FROM chash_rebalance_plan('{"a": {}}');
SELECT * FROM chash_rebalance_summary(E'{\n\t"a": {}}');
SELECT * FROM chash_rebalance_plan('{"a": {"info": "' || repeat('x', 300) || '"}}');
SELECT chash_node('key', '["a"]');
SELECT chash_create_ring('{odd}'), chash_drop_ring('{odd}');
-- An empty plan says why it is empty.
SELECT * FROM chash_rebalance_plan();
SELECT * FROM chash_rebalance_plan(changes => '{}');
SELECT * FROM chash_rebalance_plan(changes => '{"a": {"info": 1, "state": "down"}}');
SELECT * FROM chash_rebalance_summary();
SELECT * FROM chash_rebalance_summary(changes => '{"a": {"weight": 2.5}}');
SELECT count(*) > 0 AS rows_and_no_notice FROM chash_rebalance_plan(changes => '{"a": {"weight": 2}}');
SELECT count(*) FROM chash_epoch_diff(from_epoch => 2, to_epoch => 2);
-- Info of JSON null is not the same as none.  Where it is, the export has another format.
SELECT chash_create_ring('info', vnodes => 1);
SELECT chash_apply('{"none": {}, "null": {}, "some": {"info": [null]}, "zero": {"info": 0}}', 'info');
SELECT chash_export('info');
SELECT chash_set_node('null', 'info', info => 'null');
SELECT chash_export('info');
SELECT chash_import(chash_export('info'), 'again'), chash_copy_ring('info', 'copy');
SELECT ring, node, info, info IS NULL AS is_none FROM chash_nodes WHERE ring IN ('info', 'again', 'copy') ORDER BY node, ring;
SELECT chash_export('again') - 'ring' = chash_export('info') - 'ring' AS alike;
-- In format 1, null is none, as in exports of versions before.
SELECT chash_import(chash_export('info') || '{"format": 1}', 'first'), chash_import(chash_export('info') || '{"format": 3}', 'third');
SELECT chash_import(chash_export('info') || '{"format": 1}', 'first');
SELECT node, info, info IS NULL AS is_none FROM chash_nodes WHERE ring = 'first' ORDER BY node;
SELECT chash_apply('{"null": {"info": null}, "some": {"info": null}}', 'info');
SELECT count(*) FROM chash_nodes WHERE ring = 'info' AND info IS NULL;
SELECT count(chash_drop_ring(ring)) FROM chash_rings;
