-- The order in which nodes are added makes no difference (vnodes, tokens).
CREATE FUNCTION permutations(names text[]) RETURNS SETOF text[] LANGUAGE sql AS $$
	WITH RECURSIVE p(done, rest) AS (
		SELECT '{}'::text[], names
		UNION ALL
		SELECT done || x, array_remove(rest, x) FROM p, unnest(rest) x)
	SELECT done FROM p WHERE rest = '{}'
$$;
CREATE FUNCTION build(ring text, placement text, names text[]) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM chash_create_ring(ring, placement);
	FOR i IN 1..cardinality(names) LOOP
		PERFORM chash_add_node(names[i], ring, weight => length(names[i]),
		                       tokens => CASE placement WHEN 'tokens' THEN ARRAY[ascii(names[i]), 1000] END);
	END LOOP;
	RETURN chash_fingerprint(ring) || array_to_string(ARRAY(SELECT chash_node(k, ring) FROM generate_series(1, 50) k), '');
END $$;
SELECT placement, count(*) AS orders, count(DISTINCT build(placement || array_to_string(p, ''), placement, p)) AS outcomes
  FROM unnest('{vnodes,tokens}'::text[]) placement, permutations('{a,b2,c,é,e#1}') p GROUP BY placement ORDER BY placement;
SELECT count(DISTINCT fingerprint), bool_and(fingerprint = chash_fingerprint(ring)) FROM chash_rings;
SELECT count(chash_drop_ring(ring)) FROM chash_rings;
-- Nor do detours.
SELECT chash_create_ring('straight'), chash_apply('{"a": {}, "b": {"weight": 2}}', 'straight');
SELECT chash_create_ring('detour'), chash_add_node('x', 'detour'), chash_add_node('b', 'detour', weight => 7),
       chash_add_node('a', 'detour'), chash_set_node('b', 'detour', weight => 2.000), chash_remove_node('x', 'detour');
SELECT count(DISTINCT fingerprint) FROM chash_rings;
SELECT count(*) FROM chash_ring_diff('straight', 'detour');
-- Anything that decides ownership shows in the fingerprint; info and state do not.
CREATE TEMP TABLE prints AS SELECT fingerprint FROM chash_rings WHERE ring = 'straight';
SELECT chash_set_node('a', 'straight', info => '{"dsn": "host=a"}'), chash_mark_down('a', 'straight'), chash_fingerprint('straight') = (SELECT fingerprint FROM prints) AS same;
SELECT chash_set_node('a', 'straight', zone => 'z'), chash_fingerprint('straight') = (SELECT fingerprint FROM prints) AS same;
SELECT count(chash_drop_ring(ring)) FROM chash_rings;
DROP FUNCTION permutations, build;
