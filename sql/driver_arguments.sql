-- Arguments as drivers send them: bigint for any whole number, or a type left to the server.
SELECT chash_create_ring(), chash_apply('{"a": {}, "b": {}, "c": {}}');
SELECT chash_replicas('k', 2) = chash_replicas('k', 2::bigint) AS text, chash_replicas(1, 2) = chash_replicas(1, 2::bigint) AS bigint,
       chash_replicas(1::bigint, 2::smallint) = chash_replicas(1, 2) AS smallint, chash_replicas('\x00'::bytea, 2::bigint) = chash_replicas('\x00'::bytea, 2) AS bytea,
       chash_replicas('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid, n => 2::bigint) = chash_replicas(n => 2, key => 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid) AS uuid,
       chash_replicas('k', '2') = chash_replicas('k', 2) AS untyped;
PREPARE untyped AS SELECT chash_replicas($1, $2) = chash_replicas('k', 2);
SELECT parameter_types FROM pg_prepared_statements WHERE name = 'untyped';
EXECUTE untyped('k', 2);
DEALLOCATE untyped;
SELECT cardinality(chash_replicas('k', 9223372036854775807)), cardinality(chash_replicas('k', 4294967297)), chash_replicas(1, NULL);
SELECT chash_replicas('k', -4294967295);
SELECT chash_replicas('k', 0);
-- The position can be named.
SELECT chash_node_at(ring_position => chash_position('k'), ring => 'default') = chash_node('k') AS named;
-- Of a route, every whole number is a bigint.
SELECT pg_typeof("position"), pg_typeof(epoch), pg_typeof(move_id) FROM chash_route(1);
SELECT DISTINCT proallargtypes[7]::regtype FROM pg_proc WHERE proname = 'chash_route';
SELECT chash_drop_ring();
