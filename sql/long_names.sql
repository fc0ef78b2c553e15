-- Names of three megabytes, where names are wanted, make short messages.
SET client_min_messages = warning;
SELECT chash_create_ring(), chash_add_node('a'), chash_create_ring('t', 'tokens');
RESET client_min_messages;
-- What a call says: its SQLSTATE, and whether that is short.
CREATE FUNCTION said(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	message text;
	detail text;
	hint text;
	state text;
BEGIN
	EXECUTE 'SELECT * FROM ' || replace(call, 'LONG', quote_literal(repeat('x', 3000000)));
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT, state = RETURNED_SQLSTATE;
	RETURN format('%s %s', state, CASE WHEN length(message || detail || hint) < 1000 THEN 'short' ELSE 'of ' || length(message || detail || hint) END);
END $$;
SELECT call, said(call) FROM unnest(ARRAY[
	'chash_node(1, LONG)', 'chash_replicas(1, 2, LONG)', 'chash_position(1, LONG)', 'chash_route(1, LONG)', 'chash_node_at(1, LONG)',
	'chash_node_as_of(1, 1, LONG)', 'chash_node_as_of(1, 0, LONG)', 'chash_check_route(1, ''a'', 1, LONG)',
	'chash_check_route(1, LONG, 2)', 'chash_check_route(1, LONG, 99)', 'chash_hash(1, LONG)', 'chash_fingerprint(LONG)', 'chash_points(LONG)',
	'chash_ranges(LONG)', 'chash_balance(LONG)',
	'chash_create_ring(LONG)', 'chash_create_ring(placement => LONG)', 'chash_create_ring(''x'', hash => LONG)', 'chash_drop_ring(LONG)',
	'chash_add_node(LONG)', 'chash_add_node(''b'', LONG)', 'chash_add_node(''b'', zone => LONG)', 'chash_add_node(E''\t'' || LONG)',
	'chash_add_node(LONG, weight => -1)', 'chash_add_node(LONG, weight => 0.0001)', 'chash_add_node(LONG, ''t'', tokens => ''{1,1}'')',
	'chash_add_node(LONG, ''t'', tokens => ''{1,NULL}'')', 'chash_add_node(LONG, ''t'', tokens => ''{}'')',
	'chash_apply(jsonb_build_object(LONG, ''{"state": "away"}''::jsonb))', 'chash_apply(jsonb_build_object(LONG, ''{"weight": -1}''::jsonb))',
	'chash_apply(jsonb_build_object(LONG, ''{"tokens": [1, 1]}''::jsonb), ''t'')',
	'chash_apply(jsonb_build_object(''a'', jsonb_build_object(''state'', LONG)))', 'chash_copy_ring(LONG, ''x'')', 'chash_copy_ring(''default'', LONG)',
	'chash_prune_history(LONG)', 'chash_export(LONG)', 'chash_import(chash_export(), LONG)',
	'chash_import(chash_export() || jsonb_build_object(''ring'', LONG))',
	'chash_rebalance_plan(LONG)', 'chash_rebalance_summary(LONG)', 'chash_epoch_diff(LONG)', 'chash_ring_diff(LONG, ''default'')']) call;
-- A name as long as names may be is shown whole.
SELECT chash_node(1, repeat('x', 255));
SELECT chash_node(1, repeat('x', 256));
SELECT chash_node(1, repeat('ü', 128));
DROP FUNCTION said;
SELECT chash_drop_ring(), chash_drop_ring('t');
