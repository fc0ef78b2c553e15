-- Rings that one statement uses in turn are built once each, however small the session's
-- own cache is.  (Building one for each row would take minutes.)
SELECT chash_create_ring(ring, vnodes => 20000), chash_apply('{"a": {}, "b": {}, "c": {}}', ring) FROM unnest('{large 1,large 2,large 3}'::text[]) AS ring;
SET chash.local_cache_size = 0;
SET statement_timeout = '60s';
SELECT count(chash_node(i, 'large ' || 1 + i % 3)) FROM generate_series(1, 20000) AS i;
SELECT count(chash_node_as_of(i, 2, 'large ' || 1 + i % 3)) FROM generate_series(1, 20000) AS i;

-- The next statement leaves room again: of rings that are not in use, none is kept.
SELECT chash_node(1, 'large 1') IS NOT NULL AS routed;
SELECT count(*) <= 2 AS few FROM pg_backend_memory_contexts WHERE name = 'chash ring';
RESET statement_timeout;
RESET chash.local_cache_size;
SELECT count(chash_drop_ring('large ' || i)) FROM generate_series(1, 3) AS i;
