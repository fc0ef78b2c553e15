-- No argument makes a statement that cannot be stopped, or that takes much memory.
SELECT chash_create_ring(replicas => 2);
CREATE FUNCTION peak_memory() RETURNS bigint LANGUAGE sql AS
$$SELECT substring(pg_read_file('/proc/self/status', 0, 100000, true) FROM 'VmHWM:\s+(\d+)')::bigint$$;
CREATE TABLE began AS SELECT clock_timestamp() AS at;
-- Nearly all points are one node's, so that each walk goes far to meet another node: this would take minutes.
CREATE TABLE uneven AS SELECT '{"big": {"weight": 4000}, "tiny": {"weight": 0.001}, "tiny too": {"weight": 0.001}}'::jsonb AS changes;
SET statement_timeout = '300ms';
SELECT count(*) FROM uneven, chash_rebalance_plan(changes => changes);
SELECT count(*) FROM uneven, chash_rebalance_summary(changes => changes);
RESET statement_timeout;
SELECT chash_apply(changes) FROM uneven;
SET statement_timeout = '300ms';
SELECT count(*) FROM chash_rebalance_summary(changes => '{"tiny": null}');
SELECT count(*) FROM chash_rebalance_plan(changes => '{"tiny": null}', replicas => 1000);
SELECT count(*) FROM chash_epoch_diff(replicas => 3);
SELECT count(*) FROM chash_ring_diff('default', 'default');
-- Zones take no time either, as many as there are.
RESET statement_timeout;
SELECT chash_create_ring('zoned', vnodes => 1),
       chash_apply((SELECT jsonb_object_agg('n' || i, jsonb_build_object('zone', CASE WHEN i <= 10000 THEN 'z' || i ELSE 'one' END)) FROM generate_series(1, 20000) i), 'zoned');
SET statement_timeout = '5s';
SELECT cardinality(chash_replicas('key', 20000, 'zoned')), cardinality(chash_replicas('key', 15000, 'zoned'));
RESET statement_timeout;
SELECT clock_timestamp() < at + interval '60s' AS in_time FROM began;
-- A million tokens: reading them can be stopped, and takes little more memory than they do.
CREATE TABLE tokens (changes jsonb);
ALTER TABLE tokens ALTER changes SET STORAGE EXTERNAL;
INSERT INTO tokens SELECT ('{"a": {"tokens": [' || string_agg((i * 7919::bigint)::text, ', ') || ']}}')::jsonb FROM generate_series(1, 1000000) i;
SET statement_timeout = '50ms';
SELECT count(*) FROM tokens, chash_rebalance_plan(changes => changes);
\c
SELECT count(*) FROM tokens, jsonb_object_keys(changes);
SELECT peak_memory() AS before \gset
SELECT count(*) FROM tokens, chash_rebalance_plan(changes => changes);
SELECT coalesce(peak_memory() - :before < 100000, true) AS little_memory;
-- What can be refused by its size is not read.
SELECT chash_create_ring('p', 'partitions', partitions => 4), chash_apply('{"a": {}}', 'p');
SELECT chash_import(jsonb_set(chash_export('p'), '{nodes,0,held_partitions}', (SELECT jsonb_agg(i) FROM generate_series(1, 5) i)), 'q');
SELECT count(*) FROM chash_rebalance_plan(changes => (SELECT jsonb_object_agg(i, NULL) FROM generate_series(1, 1048577) i));
-- Names of three megabytes do not make messages of three megabytes.
CREATE TABLE messages (message text);
DO $$
DECLARE
	long text := repeat('x', 3000000);
	changes jsonb;
	message text;
	detail text;
BEGIN
	FOREACH changes IN ARRAY ARRAY[jsonb_build_object(long, NULL), jsonb_build_object(long, 1), jsonb_build_object(long, '{"weight": -1}'::jsonb),
	                               jsonb_build_object(long, '{"zone": 1}'::jsonb), jsonb_build_object('a', jsonb_build_object(long, 1)),
	                               jsonb_build_object('a', jsonb_build_object('zone', long)), jsonb_build_object('a', jsonb_build_object('state', long)),
	                               jsonb_build_object('a', jsonb_build_object('weight', long)), jsonb_build_object('a', jsonb_build_object('weight', repeat('9', 130000)::numeric)),
	                               jsonb_build_object('a', jsonb_build_object('tokens', jsonb_build_array(repeat('9', 130000)::numeric)))] LOOP
		FOR i IN 1..3 LOOP
			BEGIN
				IF i = 1 THEN
					PERFORM chash_rebalance_plan(changes => changes);
				ELSIF i = 2 THEN
					PERFORM chash_import(chash_export() || changes, 'x');
				ELSE
					PERFORM chash_import(jsonb_set(chash_export(), '{nodes,0}', changes || '{"node": "n"}'), 'x');
				END IF;
				RAISE 'no error for %', left(changes::text, 40);
			EXCEPTION WHEN data_exception THEN
				GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
				INSERT INTO messages VALUES (message || detail);
			END;
		END LOOP;
	END LOOP;
END $$;
SELECT count(*), max(length(message)) < 400 AS short FROM messages;
DROP TABLE messages, tokens, uneven, began;
DROP FUNCTION peak_memory();
SELECT count(chash_drop_ring(ring)) FROM chash_rings;
