-- Export, import and copy give the same ring; a damaged export is refused.
SELECT chash_create_ring('v', hash_tags => true, replicas => 2, vnodes => 16),
       chash_apply('{"a": {"weight": 2.75, "zone": "z1", "info": {"dsn": "host=a", "n": [1, {"x": null}]}}, "b": {"state": "down"}, "zero": {"weight": 0}}', 'v');
SELECT chash_create_ring('p', 'partitions', partitions => 8), chash_apply('{"a": {}, "b": {}, "c": {}}', 'p'), chash_remove_node('b', 'p');
SELECT chash_create_ring('t', 'tokens'), chash_apply('{"a": {"tokens": [-9223372036854775808, 5]}, "b": {"tokens": [5, 9223372036854775807]}}', 't');
SELECT chash_export('v');
SELECT chash_export('p');
SELECT chash_export('t');
SELECT r, chash_import(chash_export(r), r || '_imported') AS imported, chash_copy_ring(r, r || '_copy') AS copied FROM unnest('{v,p,t}'::text[]) r;
SELECT ring, placement, hash_tags, replicas, epoch, history_from, count(*) OVER (PARTITION BY fingerprint) AS alike, fingerprint = chash_fingerprint(ring) AS intact FROM chash_rings ORDER BY ring;
SELECT ring, count(*) FROM (SELECT ring, chash_export(ring) - '{ring,epoch}'::text[] AS definition FROM chash_rings) e GROUP BY definition, ring HAVING count(*) > 1;
SELECT count(DISTINCT chash_export(ring) - '{ring,epoch}'::text[]) FROM chash_rings;
SELECT r, count(*) FILTER (WHERE chash_replicas('{k' || k || '}x', 3, r) <> chash_replicas('{k' || k || '}x', 3, r || '_imported')) AS other
  FROM unnest('{v,p,t}'::text[]) r, generate_series(1, 500) k GROUP BY r ORDER BY r;
-- What follows goes on in the same way.
SELECT chash_add_node('d', 'p'), chash_add_node('d', 'p_imported'), chash_fingerprint('p') = chash_fingerprint('p_imported') AS alike;
-- Damage.
CREATE TEMP TABLE e AS SELECT chash_export('p') AS p, chash_export('v') AS v, chash_export('t') AS t;
SELECT chash_import(p - 'nodes', 'x') FROM e;
SELECT chash_import(p - 'epoch', 'x') FROM e;
SELECT chash_import(p - 'fingerprint', 'x') FROM e;
SELECT chash_import(p - 'placement', 'x') FROM e;
SELECT chash_import(p - 'partitions', 'x') FROM e;
SELECT chash_import(p || '{"color": "red"}', 'x') FROM e;
SELECT chash_import(p || '{"format": 3}', 'x') FROM e;
SELECT chash_import(p || '{"epoch": -1}', 'x') FROM e;
SELECT chash_import(p || '{"epoch": 1.5}', 'x') FROM e;
SELECT chash_import(p || '{"epoch": 1e30}', 'x') FROM e;
SELECT chash_import(p || '{"fingerprint": "0"}', 'x') FROM e;
SELECT chash_import(p || '{"nodes": {}}', 'x') FROM e;
SELECT chash_import(p || '{"nodes": [1]}', 'x') FROM e;
SELECT chash_import(p || '{"hash": "md5"}', 'x') FROM e;
SELECT chash_import(p #- '{nodes,0}', 'x') FROM e;
SELECT chash_import(p #- '{nodes,0,weight}', 'x') FROM e;
SELECT chash_import(p #- '{nodes,0,node}', 'x') FROM e;
SELECT chash_import(jsonb_set(p, '{nodes,0,held_partitions}', '[8]'), 'x') FROM e;
SELECT chash_import(jsonb_set(p, '{nodes,0,held_partitions}', '[1, 1]'), 'x') FROM e;
SELECT chash_import(jsonb_set(p, '{nodes,0,color}', '1'), 'x') FROM e;
SELECT chash_import(jsonb_set(p, '{nodes,1,node}', p #> '{nodes,0,node}'), 'x') FROM e;
SELECT chash_import(jsonb_set(v, '{nodes,0,weight}', '-1'), 'x') FROM e;
SELECT chash_import(jsonb_set(t, '{nodes,0,tokens}', '[9223372036854775808]'), 'x') FROM e;
SELECT chash_import('[]', 'x');
SELECT chash_import('7', 'x');
SELECT chash_import(p, 'p') FROM e;
SELECT chash_import(NULL, 'x');
-- A definition whose fingerprint is right, but whose partitions do not have one owner each.
CREATE TEMP TABLE bad AS SELECT '{"format": 1, "placement": "partitions", "hash": "xxh3", "partitions": 2, "hash_tags": false, "replicas": 1, "epoch": 2, "fingerprint": "", "nodes": [{"node": "a", "weight": 1, "held_partitions": [0, 1]}, {"node": "b", "weight": 1, "held_partitions": [0]}]}'::jsonb AS d;
DO $$
DECLARE
	definition jsonb := (SELECT d FROM bad);
	detail text;
BEGIN
	PERFORM chash_import(definition, 'x');
EXCEPTION WHEN invalid_parameter_value THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	UPDATE bad SET d = jsonb_set(definition, '{fingerprint}', to_jsonb(substring(detail from 'has ([0-9a-f]{32})')));
END $$;
SELECT chash_import(d, 'x') FROM bad;
SELECT count(*) FROM chash_rings WHERE ring = 'x';
SELECT count(chash_drop_ring(ring)) FROM chash_rings;
