-- Replicas: distinct nodes, zones in turns, down nodes passed over.
SELECT chash_create_ring(), chash_apply((SELECT jsonb_object_agg('n' || i, jsonb_build_object('zone', 'zone-' || i % 3)) FROM generate_series(1, 9) i));
CREATE TEMP TABLE keys AS SELECT 'key-' || i AS k FROM generate_series(1, 2000) i;
-- Always n distinct ones, the owner first.
SELECT n, count(*) FILTER (WHERE cardinality(r) <> least(n, 9)) AS wrong_number,
       count(*) FILTER (WHERE (SELECT count(DISTINCT x) FROM unnest(r) x) <> cardinality(r)) AS repeated,
       count(*) FILTER (WHERE r[1] <> chash_node(k)) AS not_owner_first
  FROM keys, unnest('{1,2,3,4,6,9,10,2147483647}'::int[]) n, chash_replicas(k, n) r GROUP BY n ORDER BY n;
-- Each zone once among the first three, twice among the first six.
SELECT n, zones, per_zone, count(*)
  FROM (SELECT k, n, count(*) AS zones, min(c) || '-' || max(c) AS per_zone
          FROM (SELECT k, n, zone, count(*) AS c
                  FROM keys, unnest('{1,2,3,6,7,9}'::int[]) n, unnest(chash_replicas(k, n)) r(node)
                  JOIN chash_nodes USING (node) GROUP BY k, n, zone) z GROUP BY k, n) x
 GROUP BY n, zones, per_zone ORDER BY n, zones, per_zone;
-- A smaller n gives the beginning of a larger one.
SELECT count(*) FROM keys, generate_series(1, 8) n WHERE chash_replicas(k, n) <> (chash_replicas(k, 9))[1:n];
-- Without zones: the plain walk, computed from the points.
SELECT chash_create_ring('plain', vnodes => 4), chash_apply('{"a": {}, "b": {}, "c": {"weight": 2}, "d": {}}', 'plain');
WITH walk AS (
	SELECT k, node, min(steps) AS steps
	  FROM keys, LATERAL (SELECT node, ("position" < chash_position(k, 'plain'))::int AS turn, "position",
	                             row_number() OVER (ORDER BY ("position" < chash_position(k, 'plain')), "position", node) AS steps
	                        FROM chash_points('plain')) p
	 GROUP BY k, node)
SELECT count(*) AS keys, count(*) FILTER (WHERE nodes <> chash_replicas(k, 4, 'plain')) AS other
  FROM (SELECT k, array_agg(node ORDER BY steps) AS nodes FROM walk GROUP BY k) w;
-- Nodes without a zone count as one zone.
SELECT chash_create_ring('some'), chash_apply('{"a": {"zone": "z"}, "b": {"zone": "z"}, "c": {}, "d": {}}', 'some');
SELECT DISTINCT (SELECT array_agg(coalesce(zone, '-') ORDER BY zone) FROM unnest(chash_replicas(k, 2, 'some')) r(node) JOIN chash_nodes n ON n.node = r.node AND ring = 'some') FROM keys;
-- A node that is down is passed over, nothing else changes, and nothing moves.
CREATE TEMP TABLE before AS SELECT k, chash_node(k) AS node, chash_replicas(k, 9) AS r FROM keys;
SELECT chash_mark_down('n4');
SELECT count(*) FILTER (WHERE chash_node(k) = 'n4') AS on_n4,
       count(*) FILTER (WHERE node <> 'n4' AND chash_node(k) <> node) AS others_moved,
       count(*) FILTER (WHERE 'n4' = ANY (chash_replicas(k, 9))) AS replicas_on_n4,
       count(*) FILTER (WHERE cardinality(chash_replicas(k, 9)) <> 8) AS not_8
  FROM before;
SELECT count(*) FROM chash_epoch_diff();
SELECT count(*) FROM before WHERE chash_node_as_of(k, 3) <> node OR chash_node_as_of(k, 2) <> node;
SELECT epoch, fingerprint = chash_fingerprint() AS intact FROM chash_rings WHERE ring = 'default';
-- Marking it again is no change; up again, all is as before.
SELECT chash_mark_down('n4'), chash_mark_up('n4');
SELECT count(*) FROM before WHERE chash_node(k) <> node OR chash_replicas(k, 9) <> r;
-- All down.
SELECT chash_apply((SELECT jsonb_object_agg(node, '{"state": "down"}'::jsonb) FROM chash_nodes WHERE ring = 'default'));
SELECT chash_node('x');
SELECT chash_replicas('x', 2);
SELECT node, share > 0 AS has_share FROM chash_balance() LIMIT 1;
SELECT chash_drop_ring(r) FROM unnest('{default,plain,some}'::text[]) r;
