-- An index on chash_hash(key) serves chash_hash(key, 'xxh3') too, and the other way round.
CREATE TABLE keys AS
SELECT k::text AS t, k::text COLLATE "C" AS c, convert_to(k::text, 'UTF8') AS b, k::bigint AS i, md5(k::text)::uuid AS u
  FROM generate_series(1, 1000) k;
-- Says how many rows a search for each of 20 positions finds, and whether by the index.
CREATE FUNCTION found(indexed text, asked text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	by_index boolean := false;
	hits int;
BEGIN
	EXECUTE format('CREATE INDEX hashed ON keys ((%s))', indexed);
	SET LOCAL enable_seqscan = off;
	FOR line IN EXECUTE format('EXPLAIN (COSTS OFF) SELECT FROM keys WHERE %s BETWEEN 1 AND 2', asked) LOOP
		by_index := by_index OR line LIKE '%Index%hashed%';
	END LOOP;
	EXECUTE format('SELECT count(*) FROM (SELECT %1$s AS p FROM keys LIMIT 20) w WHERE EXISTS (SELECT FROM keys WHERE %1$s = p)', asked) INTO hits;
	DROP INDEX hashed;
	RETURN format('%s %s', hits, CASE WHEN by_index THEN 'by index' ELSE 'without' END);
END $$;
SELECT key, found(format('chash_hash(%s)', key), format('chash_hash(%s, ''xxh3'')', key)) AS written_out,
       found(format('chash_hash(%s, ''xxh3'')', key), format('chash_hash(%s)', key)) AS left_out,
       found(format('chash_hash(%s)', key), format('chash_hash(hash => ''xxh3''::text, key => %s)', key)) AS by_name,
       found(format('chash_hash(%s, ''xxh3''::varchar)', key), format('chash_hash(%s)', key)) AS varchar
  FROM unnest('{t,c,b,i,u,"chash_hash_tag(t)","chash_hash_tag(b)"}'::text[]) key;
-- What else compares expressions: uniqueness, partitions, constraints, statistics.
CREATE TABLE once (k bigint);
CREATE UNIQUE INDEX ON once (chash_hash(k));
INSERT INTO once VALUES (1);
INSERT INTO once VALUES (1) ON CONFLICT (chash_hash(k, 'xxh3')) DO NOTHING;
CREATE TABLE spread (k bigint) PARTITION BY RANGE (chash_hash(k));
CREATE TABLE spread_low PARTITION OF spread FOR VALUES FROM (MINVALUE) TO (0);
CREATE TABLE spread_high PARTITION OF spread FOR VALUES FROM (0) TO (MAXVALUE);
EXPLAIN (COSTS OFF) SELECT * FROM spread WHERE chash_hash(k, 'xxh3') < -5;
DROP TABLE once, spread;
-- Tags of bytea keys.
SELECT k, chash_hash_tag(k), chash_hash(chash_hash_tag(k)) = chash_hash(chash_hash_tag(encode(k, 'escape'))) AS same
  FROM unnest('{"user{1000}x","foo{}{bar}","{a}",plain,""}'::bytea[]) k;
SELECT chash_hash_tag('\x7bff007d01'::bytea), chash_hash_tag('{a}b'), pg_typeof(chash_hash_tag('{a}b'));
DROP FUNCTION found;
DROP TABLE keys;
