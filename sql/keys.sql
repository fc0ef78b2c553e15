-- A key is hashed as its UTF-8 text, whatever type it has.
SELECT chash_create_ring(), chash_apply('{"a": {}, "b": {}, "c": {}, "d": {}, "e": {}}');
SELECT chash_position(42::smallint) = chash_position('42') AS smallint,
       chash_position(42::int) = chash_position('42') AS int,
       chash_position(42::bigint) = chash_position('42') AS bigint,
       chash_position('42'::varchar) = chash_position('42'::text) AS varchar,
       chash_position('42'::name) = chash_position('42'::text) AS name,
       chash_position('42'::bytea) = chash_position('42') AS bytea;
SELECT bool_and(chash_hash(k) = chash_hash(k::text)) FROM unnest('{0,-1,1,9223372036854775807,-9223372036854775808,1234567890123}'::bigint[]) k;
SELECT DISTINCT chash_position(u::uuid) = chash_position('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')
  FROM unnest('{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11,"{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}",a0eebc999c0b4ef8bb6d6bb9bd380a11}'::text[]) u;
SELECT chash_hash('abc') = x'78af5f94892f3950'::bigint AS abc,
       chash_hash('123456789') = x'72dcb18b67a17dff'::bigint AS digits,
       chash_hash('') = x'2d06800538d394c2'::bigint AS empty,
       chash_hash('é') = chash_hash('\xc3a9'::bytea) AS utf8;
SELECT chash_node(NULL::text), chash_replicas(NULL::int, 2), chash_hash(NULL::uuid), chash_node('x', NULL);
SELECT * FROM chash_route(NULL::text);
-- Long keys, and keys that are stored compressed or out of line.
CREATE TEMP TABLE long_keys AS SELECT repeat(md5(i::text), 1000) AS k FROM generate_series(1, 3) i;
SELECT bool_and(chash_hash(k) = chash_hash(convert_to(k, 'UTF8'))) FROM long_keys;
-- Types that have no single text are not guessed.
\set VERBOSITY terse
SELECT chash_node(42.0);
SELECT chash_node(now());
SELECT chash_node(1.5::float8);
\set VERBOSITY default
-- Hash tags: off unless the ring has them.
SELECT chash_create_ring('tags', hash_tags => true), chash_copy_ring('default', 'plain');
SELECT k, chash_hash_tag(k), chash_position(k, 'tags') = chash_hash(chash_hash_tag(k)) AS tagged,
       chash_position(k, 'plain') = chash_hash(k) AS whole
  FROM unnest('{"{user1000}.following","foo{}{bar}","foo{{bar}}zap","foo{bar}{zap}","{}","plain",""}'::text[]) k;
SELECT chash_position('{a}1'::bytea, 'tags') = chash_position('{a}2'::bytea, 'tags');
SELECT chash_drop_ring('tags'), chash_drop_ring('plain'), chash_drop_ring();
