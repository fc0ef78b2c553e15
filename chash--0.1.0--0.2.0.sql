\echo Use "ALTER EXTENSION chash UPDATE" to load this file. \quit

-- ---------------------------------------------------------------------------
-- The shared cache
-- ---------------------------------------------------------------------------

CREATE FUNCTION chash_cache_rings(OUT database_oid oid, OUT ring text, OUT epoch bigint, OUT is_past boolean, OUT fingerprint text, OUT points bigint, OUT bytes bigint, OUT pins integer, OUT hits bigint, OUT builds bigint, OUT fallbacks bigint, OUT last_used timestamp with time zone)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL SAFE COST 1000 ROWS 100;
CREATE FUNCTION chash_cache_reset() RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
REVOKE ALL ON FUNCTION chash_cache_reset() FROM PUBLIC;

CREATE VIEW chash_cache AS
SELECT d.datname AS database, c.ring, c.epoch, c.is_past, c.fingerprint, c.points, c.bytes, c.pins, c.hits, c.builds, c.fallbacks, c.last_used
FROM chash_cache_rings() AS c
	LEFT JOIN pg_catalog.pg_database AS d ON d.oid OPERATOR(pg_catalog.=) c.database_oid;
REVOKE ALL ON TABLE chash_cache FROM PUBLIC;
GRANT SELECT ON TABLE chash_cache TO PUBLIC;

COMMENT ON FUNCTION chash_cache_rings() IS 'What is in the shared cache; view chash_cache has the same with the names of databases.';
COMMENT ON FUNCTION chash_cache_reset() IS 'Empties the shared cache, of all databases, and its counters; what transactions are using goes when they end. For superusers. Error: 42501 not a superuser.';
COMMENT ON VIEW chash_cache IS 'The built rings in shared memory, one row for each version of a ring, and at times one without a name that counts those for which there was not even a row. Those of other databases are shown to members of pg_read_all_stats only. Empty if there is no shared cache.';
COMMENT ON COLUMN chash_cache.database IS 'The database that the ring is in; NULL if it has been dropped.';
COMMENT ON COLUMN chash_cache.ring IS 'Name of the ring; NULL in the row that counts those without a row of their own.';
COMMENT ON COLUMN chash_cache.epoch IS 'Epoch of the ring that was built.';
COMMENT ON COLUMN chash_cache.is_past IS 'Whether it was built for questions about that epoch as a past one, as chash_node_as_of asks them.';
COMMENT ON COLUMN chash_cache.fingerprint IS 'Fingerprint of the map; NULL for a past epoch.';
COMMENT ON COLUMN chash_cache.points IS 'Number of its points.';
COMMENT ON COLUMN chash_cache.bytes IS 'Shared memory that it takes; 0 if there was no room for it.';
COMMENT ON COLUMN chash_cache.pins IS 'Sessions whose transaction is using it.';
COMMENT ON COLUMN chash_cache.hits IS 'How often a transaction found it here.';
COMMENT ON COLUMN chash_cache.builds IS 'How often it was built.';
COMMENT ON COLUMN chash_cache.fallbacks IS 'How often a session kept it for itself, since there was no room.';
COMMENT ON COLUMN chash_cache.last_used IS 'When a transaction last began to use it.';
