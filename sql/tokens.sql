-- Placement tokens: the worked example, wrap, exact hits, ties, both ends.
SELECT chash_create_ring('t', 'tokens');
SELECT chash_add_node('A', 't', tokens => '{20}'), chash_add_node('B', 't', tokens => '{50}'), chash_add_node('C', 't', tokens => '{80}');
SELECT p, chash_node_at(p, 't') FROM unnest('{35,90,50,51,20,21,80,81,-9223372036854775808,9223372036854775807}'::bigint[]) p;
SELECT lo, hi, from_node, to_node FROM chash_rebalance_plan('t', '{"D": {"tokens": [40]}}');
SELECT lo, hi, from_node, to_node FROM chash_rebalance_plan('t', '{"B": null}');
-- The two one after the other.
SELECT chash_copy_ring('t', 't2'), chash_add_node('D', 't2', tokens => '{40}');
SELECT lo, hi, from_node, to_node FROM chash_epoch_diff('t2');
SELECT lo, hi, from_node, to_node FROM chash_rebalance_plan('t2', '{"B": null}');
SELECT chash_node_at(40, 't2'), chash_node_at(41, 't2'), chash_drop_ring('t2');
SELECT * FROM chash_ranges('t');
SELECT lo, hi FROM chash_ranges('t', 'A');
-- Two nodes at one position: the smaller name owns it, the other keeps its point.
SELECT chash_apply('{"b2": {"tokens": [50, 60]}, "B": {"tokens": [50]}}', 't');
SELECT * FROM chash_points('t');
SELECT chash_node_at(50, 't'), chash_node_at(51, 't');
SELECT lo, hi, from_node, to_node FROM chash_rebalance_plan('t', '{"B": null}');
SELECT chash_remove_node('B', 't');
SELECT chash_node_at(50, 't'), chash_node_at(45, 't');
SELECT lo, hi, from_node, to_node FROM chash_epoch_diff('t');
-- The ends of bigint.
SELECT chash_create_ring('ends', 'tokens'), chash_apply('{"x": {"tokens": [-9223372036854775808]}, "y": {"tokens": [9223372036854775807]}}', 'ends');
SELECT * FROM chash_ranges('ends');
SELECT lo, hi, from_node, to_node FROM chash_rebalance_plan('ends', '{"x": null}');
SELECT lo, hi, from_node, to_node FROM chash_rebalance_plan('ends', '{"y": null}');
SELECT lo, hi, from_node, to_node FROM chash_rebalance_plan('ends', '{"z": {"tokens": [-9223372036854775807, 9223372036854775806]}}');
-- The first node of a ring, and the last.
SELECT chash_create_ring('one', 'tokens');
SELECT lo, hi, from_node, to_node, share FROM chash_rebalance_plan('one', '{"n": {"tokens": [0]}}');
SELECT chash_add_node('n', 'one', tokens => '{0}');
SELECT * FROM chash_ranges('one');
SELECT lo, hi, from_node, to_node, share FROM chash_rebalance_plan('one', '{"n": null}');
-- Weight 0 holds nothing.
SELECT chash_add_node('m', 'one', weight => 0, tokens => '{7}');
SELECT * FROM chash_points('one');
SELECT node, points, share, expected, ratio FROM chash_balance('one');
SELECT chash_drop_ring(r) FROM unnest('{t,ends,one}'::text[]) r;
