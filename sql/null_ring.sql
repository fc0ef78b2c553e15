-- NULL for the name of a ring: lookups give NULL, as for any other argument; all else is refused.
SELECT chash_create_ring(), chash_add_node('a');
SELECT chash_node(1, NULL), chash_replicas(1, 1, NULL), chash_position(1, NULL), chash_route(1, NULL), chash_node_as_of(1, 1, NULL), chash_node_at(1, NULL);
-- Every function that has an argument for a ring, but the lookups.
CREATE FUNCTION said(call text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE 'SELECT * FROM ' || call;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
CREATE VIEW calls AS
SELECT p.proname, format('%s(%s)', p.proname, string_agg(format('%I => %s', a.name, CASE WHEN a.name LIKE '%ring' THEN 'NULL' WHEN a.name = 'key' THEN '1' WHEN a.name IN ('changes', 'definition') THEN '''{}''' ELSE '''1''' END), ', ' ORDER BY a.number)) AS call
  FROM pg_proc p, unnest(p.proargnames[: p.pronargs]) WITH ORDINALITY AS a(name, number)
 WHERE p.oid IN (SELECT objid FROM pg_depend WHERE classid = 'pg_proc'::regclass AND deptype = 'e' AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'chash'))
   AND (a.name LIKE '%ring' OR a.number <= p.pronargs - p.pronargdefaults) AND (p.proargtypes[0] = 'bigint'::regtype OR p.proargnames[1] <> 'key')
 GROUP BY p.oid, p.proname HAVING bool_or(a.name LIKE '%ring');
SELECT call, said(call) FROM calls WHERE proname <> ALL ('{chash_node,chash_replicas,chash_position,chash_route,chash_node_as_of,chash_node_at}') ORDER BY 1;
-- An import without a name gives the ring the one that it had.
SELECT chash_copy_ring('default', 'other');
CREATE TEMP TABLE exports AS SELECT chash_export('other') AS other;
SELECT chash_drop_ring('other');
SELECT chash_import(other), chash_import(other, 'third') FROM exports;
SELECT ring, fingerprint = chash_fingerprint('default') AS same FROM chash_rings ORDER BY ring;
SELECT chash_import(other) FROM exports;
SELECT chash_import(other - 'ring') FROM exports;
SELECT chash_import(jsonb_set(other, '{ring}', '7')) FROM exports;
SELECT chash_import(jsonb_set(other, '{ring}', '""')) FROM exports;
SELECT chash_import('[]');
SELECT chash_import(other - 'ring', 'fourth') FROM exports;
DROP VIEW calls;
DROP FUNCTION said;
SELECT chash_drop_ring(ring) FROM chash_rings;
