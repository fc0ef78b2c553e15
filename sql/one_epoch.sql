-- Whatever one statement does to a ring, by whatever ways, is one epoch, and the history says what each epoch was.
\set VERBOSITY sqlstate
SET jit = off;
-- What lookups said in each epoch, noted while it was the present one.
CREATE TABLE was (ring text, epoch bigint, key int, node text, PRIMARY KEY (ring, epoch, key));
CREATE FUNCTION note(ring_name text DEFAULT NULL) RETURNS void LANGUAGE plpgsql SET search_path = public AS $$
DECLARE
	r record;
BEGIN
	FOR r IN SELECT ring, epoch FROM chash_rings WHERE ring = coalesce(ring_name, ring)
	LOOP
		IF EXISTS (SELECT FROM was WHERE was.ring = r.ring AND was.epoch = r.epoch AND was.node IS DISTINCT FROM
				CASE WHEN EXISTS (SELECT FROM chash_nodes AS n WHERE n.ring = r.ring AND weight > 0) THEN chash_node(was.key, r.ring) END) THEN
			RAISE EXCEPTION 'epoch % of ring % has two maps', r.epoch, r.ring;
		END IF;
		INSERT INTO was SELECT r.ring, r.epoch, k,
				CASE WHEN EXISTS (SELECT FROM chash_nodes AS n WHERE n.ring = r.ring AND weight > 0) THEN chash_node(k, r.ring) END
			FROM generate_series(1, 100) AS k ON CONFLICT DO NOTHING;
	END LOOP;
END $$;
-- The same of a past epoch as the history has it: NULL if there was no node, {error ...} if it cannot be read.
CREATE FUNCTION as_of(epoch bigint, ring text) RETURNS text[] LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT array_agg(chash_node_as_of(k, epoch, ring) ORDER BY k) FROM generate_series(1, 100) AS k);
EXCEPTION WHEN OTHERS THEN
	RETURN CASE WHEN sqlstate <> '55000' THEN ARRAY['error ' || sqlstate] END;
END $$;
-- Which keys moved between two epochs, by what was noted and by chash_epoch_diff.
CREATE FUNCTION moved(name text, first bigint, second bigint) RETURNS int[] LANGUAGE sql AS $$
	SELECT array_agg(a.key ORDER BY a.key) FROM was AS a JOIN was AS b USING (ring, key)
	WHERE ring = name AND a.epoch = first AND b.epoch = second AND a.node <> b.node
$$;
CREATE FUNCTION moved_by_diff(name text, first bigint, second bigint) RETURNS int[] LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT array_agg(k ORDER BY k) FROM chash_epoch_diff(name, first, second, 1), generate_series(1, 100) AS k
		WHERE from_node IS NOT NULL AND to_node IS NOT NULL AND chash_position(k, name) BETWEEN lo AND hi);
EXCEPTION WHEN data_corrupted THEN
	RETURN '{0}';
END $$;
-- Per ring: its epochs, its nodes, and how much is wrong: epochs that the history has
-- otherwise than lookups had, epochs that cannot be read, epochs that chash_epoch_diff
-- has other moves for, nodes on record twice, rows of epochs to come.
CREATE FUNCTION proof() RETURNS TABLE (ring text, epochs text, nodes text, intact boolean, wrong text) LANGUAGE sql AS $$
	SELECT note();
	SELECT r.ring, history_from || '-' || r.epoch,
		(SELECT string_agg(node || ':' || trim_scale(weight), ' ' ORDER BY node) FROM chash_nodes AS n WHERE n.ring = r.ring),
		fingerprint = chash_fingerprint(r.ring),
		concat_ws(' ',
			(SELECT count(*) FROM (SELECT epoch, array_agg(node ORDER BY key) AS nodes FROM was WHERE was.ring = r.ring GROUP BY epoch) AS noted
				WHERE noted.epoch >= history_from AND (noted.epoch > r.epoch OR as_of(noted.epoch, r.ring) IS DISTINCT FROM nullif(noted.nodes, array_fill(NULL::text, ARRAY[100])))),
			(SELECT count(*) FROM generate_series(history_from, r.epoch) AS e WHERE (as_of(e, r.ring))[1] LIKE 'error%'),
			(SELECT count(*) FROM (SELECT DISTINCT epoch FROM was WHERE was.ring = r.ring AND was.epoch BETWEEN history_from AND r.epoch - 1
					AND EXISTS (SELECT FROM was AS next WHERE next.ring = was.ring AND next.epoch = was.epoch + 1)) AS noted
				WHERE moved(r.ring, noted.epoch, noted.epoch + 1) IS DISTINCT FROM moved_by_diff(r.ring, noted.epoch, noted.epoch + 1)),
			(SELECT count(*) FROM (SELECT node, from_epoch, to_epoch FROM chash_node_history AS h WHERE h.ring = r.ring
					UNION ALL SELECT node, epoch, r.epoch + 1 FROM chash_nodes AS n WHERE n.ring = r.ring) AS span
				JOIN chash_node_history AS h ON h.ring = r.ring AND h.node = span.node
				WHERE (h.from_epoch, h.to_epoch) <> (span.from_epoch, span.to_epoch)
				AND int8range(h.from_epoch, h.to_epoch) && int8range(span.from_epoch, span.to_epoch)),
			(SELECT count(*) FROM chash_nodes AS n WHERE n.ring = r.ring AND n.epoch > r.epoch)
			+ (SELECT count(*) FROM chash_node_history AS h WHERE h.ring = r.ring AND to_epoch > r.epoch))
	FROM chash_rings AS r ORDER BY r.ring
$$;
-- Two rings with nodes a, b and c at epoch 2.
CREATE FUNCTION anew() RETURNS void LANGUAGE sql AS $$
	TRUNCATE was;
	SELECT chash_drop_ring(ring) FROM chash_rings;
	SELECT chash_create_ring('p', 'partitions', partitions => 16), chash_create_ring('v', vnodes => 16);
	SELECT chash_apply('{"a": {}, "b": {}, "c": {}}', ring) FROM chash_rings;
	SELECT note();
$$;
SELECT anew();
SELECT * FROM proof();

-- ---------------------------------------------------------------------------
-- Common table expressions
-- ---------------------------------------------------------------------------

WITH u AS (UPDATE chash_nodes SET weight = 2 WHERE node = 'a' RETURNING 1), d AS (DELETE FROM chash_nodes WHERE node = 'b' RETURNING 1)
	SELECT (SELECT count(*) FROM u) AS updated, (SELECT count(*) FROM d) AS deleted;
SELECT * FROM proof();
SELECT anew();
WITH d AS (DELETE FROM chash_nodes WHERE node = 'b' RETURNING 1), u AS (UPDATE chash_nodes SET weight = 2 WHERE node = 'a' RETURNING 1)
	SELECT (SELECT count(*) FROM d) AS deleted, (SELECT count(*) FROM u) AS updated;
SELECT * FROM proof();
SELECT anew();
WITH u AS (UPDATE chash_nodes SET weight = 2 WHERE node = 'a') DELETE FROM chash_nodes WHERE node = 'b';
SELECT * FROM proof();
SELECT anew();
WITH d AS (DELETE FROM chash_nodes WHERE node = 'b') UPDATE chash_nodes SET weight = 2 WHERE node = 'a';
SELECT * FROM proof();
SELECT anew();
-- The same twice; PostgreSQL fires a statement's trigger once for both.
WITH u AS (UPDATE chash_nodes SET weight = 2 WHERE node = 'a' RETURNING 1), w AS (UPDATE chash_nodes SET weight = 3 WHERE node = 'b' RETURNING 1)
	SELECT (SELECT count(*) FROM u) AS one, (SELECT count(*) FROM w) AS other;
SELECT * FROM proof();
WITH u AS (DELETE FROM chash_nodes WHERE node = 'a' RETURNING 1), w AS (DELETE FROM chash_nodes WHERE node = 'b' RETURNING 1)
	SELECT (SELECT count(*) FROM u) AS one, (SELECT count(*) FROM w) AS other;
SELECT * FROM proof();
WITH u AS (INSERT INTO chash_nodes (ring, node) SELECT ring, 'd' FROM chash_rings RETURNING 1), w AS (INSERT INTO chash_nodes (ring, node) SELECT ring, 'e' FROM chash_rings RETURNING 1)
	SELECT (SELECT count(*) FROM u) AS one, (SELECT count(*) FROM w) AS other;
SELECT * FROM proof();
-- All three at once, one that changes nothing among them.
WITH i AS (INSERT INTO chash_nodes (ring, node) SELECT ring, 'f' FROM chash_rings RETURNING 1),
	u AS (UPDATE chash_nodes SET weight = 2 WHERE node = 'd' RETURNING 1),
	n AS (UPDATE chash_nodes SET weight = 9 WHERE node = 'nobody' RETURNING 1),
	d AS (DELETE FROM chash_nodes WHERE node = 'e' RETURNING 1)
	SELECT (SELECT count(*) FROM d) AS deleted, (SELECT count(*) FROM n) AS nobody, (SELECT count(*) FROM i) AS inserted, (SELECT count(*) FROM u) AS updated;
SELECT * FROM proof();
-- Of nodes and of the ring itself.
SELECT anew();
WITH r AS (UPDATE chash_rings SET replicas = 2 RETURNING 1), u AS (UPDATE chash_nodes SET weight = 2 WHERE node = 'a' RETURNING 1)
	SELECT (SELECT count(*) FROM r) AS rings, (SELECT count(*) FROM u) AS nodes;
SELECT * FROM proof();
SELECT ring, replicas FROM chash_rings ORDER BY ring;
-- Not all of it is possible the other way round, but nothing is half-done.
SELECT anew();
CREATE FUNCTION done_or_refused(statement text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE statement;
	RETURN true;
EXCEPTION
	WHEN triggered_data_change_violation OR cardinality_violation OR object_not_in_prerequisite_state OR undefined_object THEN
		RETURN true;
END $$;
SELECT done_or_refused($$
	WITH u AS (UPDATE chash_nodes SET weight = 2 WHERE node = 'a' RETURNING 1), r AS (UPDATE chash_rings SET replicas = 2 RETURNING 1)
		SELECT (SELECT count(*) FROM u), (SELECT count(*) FROM r)$$);
SELECT ring, intact, wrong, nodes IN ('a:1 b:1 c:1', 'a:2 b:1 c:1') AS possible FROM proof();
SELECT count(*) FROM chash_rings JOIN chash_nodes USING (ring) WHERE node = 'a' AND (weight = 2) <> (replicas = 2);
-- A ring that goes while its nodes change.
SELECT done_or_refused($$
	WITH d AS (DELETE FROM chash_rings WHERE ring = 'v' RETURNING 1), u AS (UPDATE chash_nodes SET weight = 3 WHERE ring = 'v' RETURNING 1)
		SELECT (SELECT count(*) FROM d), (SELECT count(*) FROM u)$$);
SELECT done_or_refused($$
	WITH u AS (UPDATE chash_nodes SET weight = 3 WHERE ring = 'p' AND node = 'a' RETURNING 1), d AS (DELETE FROM chash_rings WHERE ring = 'p' RETURNING 1)
		SELECT (SELECT count(*) FROM u), (SELECT count(*) FROM d)$$);
SELECT ring, intact, wrong FROM proof() WHERE NOT intact OR wrong <> '0 0 0 0 0';
SELECT count(*) AS orphans FROM chash_nodes AS n FULL JOIN chash_node_history AS h USING (ring, node) WHERE ring NOT IN (SELECT ring FROM chash_rings);

-- ---------------------------------------------------------------------------
-- Functions that a statement calls
-- ---------------------------------------------------------------------------

SELECT anew();
WITH u AS (UPDATE chash_nodes SET weight = 2 WHERE ring = 'v' RETURNING node, chash_add_node('x' || node, ring) AS epoch) SELECT * FROM u ORDER BY node;
-- Functions deal partitions at once, also to nodes that the statement has yet to come to,
-- which PostgreSQL refuses.
SELECT done_or_refused($$ UPDATE chash_nodes SET weight = 2 WHERE ring = 'p' RETURNING chash_add_node('x' || node, ring) $$);
SELECT * FROM proof() WHERE ring = 'v';
SELECT ring, intact, wrong, nodes IN ('a:1 b:1 c:1', 'a:2 b:2 c:2 xa:1 xb:1 xc:1') AS possible FROM proof() WHERE ring = 'p';
SELECT anew();
WITH i AS (INSERT INTO chash_nodes (ring, node) SELECT ring, 'd' FROM chash_rings RETURNING ring, chash_add_node('e', ring) AS epoch) SELECT * FROM i ORDER BY ring;
SELECT * FROM proof();
WITH d AS (DELETE FROM chash_nodes WHERE node = 'd' RETURNING ring, chash_remove_node('e', ring) AS epoch) SELECT * FROM d ORDER BY ring;
SELECT * FROM proof();
WITH d AS (DELETE FROM chash_nodes WHERE node = 'a' RETURNING ring, chash_add_node('a', ring, weight => 4) AS epoch) SELECT * FROM d ORDER BY ring;
SELECT * FROM proof();
-- The node itself: changed again, removed, taken back, made to be as it was.
WITH u AS (UPDATE chash_nodes SET weight = 2 WHERE node = 'a' RETURNING ring, chash_set_node('a', ring, weight => 3) AS epoch) SELECT * FROM u ORDER BY ring;
SELECT * FROM proof();
WITH u AS (UPDATE chash_nodes SET weight = 2 WHERE node = 'a' RETURNING ring, chash_remove_node('a', ring) AS epoch) SELECT * FROM u ORDER BY ring;
SELECT * FROM proof();
SELECT anew();
WITH u AS (INSERT INTO chash_nodes (ring, node) SELECT ring, 'd' FROM chash_rings RETURNING ring, chash_remove_node('d', ring) IS NOT NULL) SELECT * FROM u ORDER BY ring;
SELECT * FROM proof();
SELECT anew();
WITH u AS (UPDATE chash_nodes SET weight = 2 WHERE node = 'a' RETURNING ring, chash_set_node('a', ring, weight => 1) IS NOT NULL) SELECT * FROM u ORDER BY ring;
SELECT * FROM proof();
-- A node that the statement has yet to come to.
SELECT anew();
UPDATE chash_nodes SET weight = 2 WHERE ring = 'v' RETURNING chash_set_node('c', 'v', weight => 3);
UPDATE chash_nodes SET weight = 2 WHERE ring = 'v' RETURNING CASE node WHEN 'a' THEN chash_remove_node('c', 'v') END;
SELECT * FROM proof();
-- The number of copies.
CREATE FUNCTION one_copy_more(name text) RETURNS integer LANGUAGE sql SET search_path = public AS 'UPDATE chash_rings SET replicas = replicas + 1 WHERE ring = name RETURNING replicas';
WITH u AS (UPDATE chash_nodes SET weight = 2 WHERE node = 'a' RETURNING ring, one_copy_more(ring) AS replicas) SELECT * FROM u ORDER BY ring;
SELECT * FROM proof();
WITH u AS (UPDATE chash_rings SET replicas = 3 RETURNING ring, chash_add_node('d', ring) AS epoch) SELECT * FROM u ORDER BY ring;
SELECT * FROM proof();
-- Direct INSERTs within each other have no epoch of their own.
CREATE FUNCTION insert_node(name text, node_name text) RETURNS text LANGUAGE sql AS 'INSERT INTO chash_nodes (ring, node) VALUES (name, node_name) RETURNING node';
WITH i AS (INSERT INTO chash_nodes (ring, node) SELECT ring, 'e' FROM chash_rings RETURNING ring, insert_node(ring, 'f') AS node) SELECT * FROM i ORDER BY ring;
SELECT * FROM proof();
-- Rings that go, come back, and come.
SELECT anew();
UPDATE chash_nodes SET weight = 2 WHERE ring = 'v' AND node = 'a' RETURNING chash_drop_ring('v');
SELECT * FROM proof();
SELECT count(*) FROM chash_nodes FULL JOIN chash_node_history USING (ring, node) WHERE ring = 'v';
SELECT anew();
CREATE FUNCTION replace_ring() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	PERFORM chash_drop_ring('v'), chash_create_ring('v', vnodes => 8);
	DELETE FROM was WHERE ring = 'v';
	RETURN chash_apply('{"n": {}, "m": {}}', 'v') > 0;
END $$;
UPDATE chash_nodes SET weight = 2 WHERE ring = 'v' AND node = 'a' RETURNING replace_ring();
SELECT ring, nodes, intact, wrong FROM proof();
SELECT chash_set_node('n', 'v', weight => 2) > 0 AS changed;
SELECT ring, nodes, intact, wrong FROM proof();
SELECT anew();
UPDATE chash_nodes SET weight = 2 WHERE ring = 'p' AND node = 'a' RETURNING chash_create_ring('q', vnodes => 16), chash_add_node('n', 'q'), chash_add_node('m', 'q');
UPDATE chash_nodes SET weight = 2 WHERE ring = 'v' AND node = 'a' RETURNING chash_copy_ring('v', 'w');
SELECT * FROM proof();
-- Another ring's epochs are made at once, one for each change.
CREATE FUNCTION change_other(node_name text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	result bigint := chash_add_node(node_name, 'p');
BEGIN
	PERFORM note('p');
	RETURN result;
END $$;
SELECT anew();
INSERT INTO chash_nodes (ring, node) SELECT 'v', 'n' || i FROM generate_series(1, 3) AS i RETURNING node, change_other('o' || node);
SELECT * FROM proof();
UPDATE chash_nodes SET weight = 2 WHERE ring = 'v' AND node IN ('a', 'b') AND change_other('u' || node) > 0 RETURNING node;
SELECT * FROM proof();
-- What the past was like cannot be said half-way.
CREATE FUNCTION said_half_way(epoch bigint, name text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN chash_node_as_of(1, epoch, name); END $$;
UPDATE chash_nodes SET weight = 3 WHERE ring = 'v' AND node = 'a' RETURNING said_half_way(2, 'v');
UPDATE chash_nodes SET weight = 3 WHERE ring = 'v' AND node = 'a' RETURNING said_half_way(2, 'p') = (SELECT node FROM was WHERE ring = 'p' AND epoch = 2 AND key = 1) AS same;
SELECT * FROM proof();
-- A statement whose rows are asked for later.
SELECT anew();
DO $$
DECLARE
	c refcursor;
	r record;
BEGIN
	OPEN c FOR EXECUTE 'UPDATE chash_nodes SET weight = 2 WHERE node IN (''a'', ''b'') RETURNING ring, node';
	FETCH c INTO r;
	PERFORM chash_add_node('d', 'v');
	FETCH c INTO r;
	PERFORM chash_add_node('d', 'p');
	CLOSE c;
	FOR r IN UPDATE chash_nodes SET weight = 3 WHERE node = 'c' RETURNING ring
	LOOP
		PERFORM chash_add_node('e', r.ring);
	END LOOP;
END $$;
SELECT * FROM proof();
-- TRUNCATE by a function.
SELECT anew();
CREATE FUNCTION empty_nodes() RETURNS text LANGUAGE plpgsql AS $$ BEGIN TRUNCATE chash_nodes; RETURN 'done'; END $$;
UPDATE chash_nodes SET weight = 2 RETURNING empty_nodes();
SELECT * FROM proof();
UPDATE chash_rings SET replicas = 2 WHERE ring = 'v' RETURNING empty_nodes();
SELECT * FROM proof();

-- ---------------------------------------------------------------------------
-- Savepoints, errors that are caught, isolation levels
-- ---------------------------------------------------------------------------

SELECT anew();
CREATE FUNCTION try_to(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE statement;
	RAISE EXCEPTION USING ERRCODE = 'TAKEN';
EXCEPTION WHEN SQLSTATE 'TAKEN' OR unique_violation OR invalid_parameter_value OR undefined_object OR duplicate_object THEN
	RETURN sqlstate;
END $$;
WITH u AS (UPDATE chash_nodes SET weight = 2 WHERE node = 'a' RETURNING ring,
	try_to(format('SELECT chash_add_node(''d'', %L)', ring)) AS added,
	try_to(format('INSERT INTO chash_nodes (ring, node) VALUES (%L, ''d''), (%1$L, ''b'')', ring)) AS twice,
	try_to(format('UPDATE chash_nodes SET weight = CASE node WHEN ''c'' THEN -1 ELSE 7 END WHERE ring = %L', ring)) AS below,
	try_to(format('SELECT chash_drop_ring(%L)', ring)) AS dropped,
	try_to(format('SELECT chash_drop_ring(%L), chash_create_ring(%1$L)', ring)) AS created) SELECT * FROM u ORDER BY ring;
SELECT * FROM proof();
-- First changed by what is taken back.
SELECT anew();
DO $$
BEGIN
	BEGIN
		UPDATE chash_nodes SET weight = 9 WHERE node = 'a';
		RAISE EXCEPTION USING ERRCODE = 'TAKEN';
	EXCEPTION WHEN SQLSTATE 'TAKEN' THEN
	END;
	UPDATE chash_nodes SET weight = 2 WHERE node = 'a';
END $$;
SELECT * FROM proof();
UPDATE chash_nodes SET weight = 3 WHERE ring = 'v' AND node = 'a' RETURNING try_to('UPDATE chash_nodes SET weight = 9 WHERE ring = ''p'''), chash_set_node('b', 'p', weight => 2), try_to('UPDATE chash_nodes SET weight = 9 WHERE ring = ''p''');
SELECT * FROM proof();
BEGIN;
SAVEPOINT s;
WITH u AS (UPDATE chash_nodes SET weight = 5 WHERE node = 'a') DELETE FROM chash_nodes WHERE node = 'b';
ROLLBACK TO s;
SELECT * FROM proof();
WITH u AS (UPDATE chash_nodes SET weight = 4 WHERE node = 'a') DELETE FROM chash_nodes WHERE node = 'b';
RELEASE s;
SELECT * FROM proof();
SAVEPOINT t;
UPDATE chash_nodes SET weight = weight - 4 WHERE ring = 'v' AND node IN ('a', 'c') RETURNING chash_add_node('d' || node, 'v');
ROLLBACK TO t;
SELECT * FROM proof();
COMMIT;
SELECT * FROM proof();
-- Several epochs in one transaction, and under the other isolation levels.
SELECT anew();
BEGIN ISOLATION LEVEL SERIALIZABLE;
WITH u AS (UPDATE chash_nodes SET weight = 2 WHERE node = 'a' RETURNING 1), d AS (DELETE FROM chash_nodes WHERE node = 'b' RETURNING 1)
	SELECT (SELECT count(*) FROM u) AS updated, (SELECT count(*) FROM d) AS deleted;
SELECT * FROM proof();
SAVEPOINT s;
WITH u AS (UPDATE chash_nodes SET weight = 3 WHERE ring = 'v' RETURNING node, chash_add_node('x' || node, ring) AS epoch) SELECT * FROM u ORDER BY node;
SELECT * FROM proof();
ROLLBACK TO s;
WITH u AS (UPDATE chash_nodes SET weight = 4 WHERE ring = 'v' RETURNING node, chash_add_node('y' || node, ring) AS epoch) SELECT * FROM u ORDER BY node;
SELECT * FROM proof();
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
WITH u AS (UPDATE chash_nodes SET weight = 1 WHERE node = 'a' RETURNING ring, one_copy_more(ring) AS replicas) SELECT * FROM u ORDER BY ring;
SELECT * FROM proof();
COMMIT;
SELECT * FROM proof();

-- ---------------------------------------------------------------------------
-- INSERT ... ON CONFLICT, MERGE, COPY
-- ---------------------------------------------------------------------------

SELECT anew();
INSERT INTO chash_nodes (ring, node) VALUES ('v', 'd'), ('v', 'a')
	ON CONFLICT (ring, node) DO UPDATE SET weight = 2 RETURNING node, chash_add_node('x' || node, ring) AS epoch;
SELECT done_or_refused($$ INSERT INTO chash_nodes (ring, node) VALUES ('p', 'd'), ('p', 'a')
	ON CONFLICT (ring, node) DO UPDATE SET weight = 2 RETURNING node, chash_add_node('x' || node, ring) $$);
SELECT * FROM proof() WHERE ring = 'v';
SELECT ring, intact, wrong, nodes IN ('a:1 b:1 c:1', 'a:2 b:1 c:1 d:1 xa:1 xd:1') AS possible FROM proof() WHERE ring = 'p';
SELECT anew();
INSERT INTO chash_nodes (ring, node) SELECT ring, n FROM chash_rings, unnest('{d,a}'::text[]) AS n ON CONFLICT (ring, node) DO UPDATE SET weight = 2;
SELECT * FROM proof();
INSERT INTO chash_nodes (ring, node) SELECT ring, 'a' FROM chash_rings ON CONFLICT DO NOTHING;
INSERT INTO chash_nodes (ring, node, weight) SELECT ring, 'a', 9 FROM chash_rings ON CONFLICT (ring, node) DO UPDATE SET weight = EXCLUDED.weight WHERE false;
INSERT INTO chash_nodes (ring, node, weight) SELECT ring, 'a', 9 FROM chash_rings ON CONFLICT (ring, node) DO UPDATE SET weight = chash_nodes.weight;
SELECT * FROM proof();
MERGE INTO chash_nodes AS n USING (SELECT ring, m, w FROM chash_rings, (VALUES ('a', 3), ('b', 0), ('e', 1)) AS v (m, w)) AS v ON n.ring = v.ring AND n.node = v.m
	WHEN MATCHED AND v.w = 0 THEN DELETE
	WHEN MATCHED THEN UPDATE SET weight = v.w
	WHEN NOT MATCHED THEN INSERT (ring, node, weight) VALUES (v.ring, v.m, v.w);
SELECT * FROM proof();
MERGE INTO chash_nodes AS n USING (SELECT ring, 'a' AS m FROM chash_rings) AS v ON n.ring = v.ring AND n.node = v.m
	WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED THEN INSERT (ring, node) VALUES (v.ring, v.m);
SELECT * FROM proof();
COPY chash_nodes (ring, node) FROM stdin;
v	f
p	f
v	g
p	g
\.
SELECT * FROM proof();

-- ---------------------------------------------------------------------------
-- Triggers of the owner's, which fire before or after chash's
-- ---------------------------------------------------------------------------

SELECT anew();
-- What they do to each row: the argument says.
CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
DECLARE
	name text := coalesce(NEW.ring, OLD.ring);
	node_name text := coalesce(NEW.node, OLD.node);
BEGIN
	IF pg_trigger_depth() > 1 THEN
		RETURN coalesce(NEW, OLD);
	END IF;
	CASE tg_argv[0]
		WHEN 'weight' THEN NEW.weight := 5;
		WHEN 'bad' THEN NEW.weight := -5;
		WHEN 'skip' THEN RETURN NULL;
		WHEN 'add' THEN PERFORM chash_add_node(node_name || tg_name, name);
		WHEN 'insert' THEN INSERT INTO chash_nodes (ring, node) VALUES (name, node_name || tg_name);
		WHEN 'update' THEN UPDATE chash_nodes SET weight = weight + 1 WHERE ring = name AND node = 'c';
		WHEN 'delete' THEN DELETE FROM chash_nodes WHERE ring = name AND node = 'c';
		WHEN 'copies' THEN PERFORM one_copy_more(name);
	END CASE;
	RETURN coalesce(NEW, OLD);
END $$;
CREATE PROCEDURE meddle(what text, name text, timing text) LANGUAGE plpgsql AS $$
BEGIN
	DROP TRIGGER IF EXISTS aa ON chash_nodes;
	DROP TRIGGER IF EXISTS zz ON chash_nodes;
	PERFORM anew();
	IF what IS NOT NULL THEN
		EXECUTE format('CREATE TRIGGER %I %s INSERT OR UPDATE OR DELETE ON chash_nodes FOR EACH ROW EXECUTE FUNCTION meddle(%L)', name, timing, what);
	END IF;
END $$;
SET client_min_messages = warning;
SELECT format('CALL meddle(%L, %L, %L)', what, name, timing),
	'UPDATE chash_nodes SET weight = 2 WHERE ring = ''v'' AND node IN (''a'', ''b'')',
	'UPDATE chash_nodes SET weight = 2 WHERE ring = ''p'' AND node IN (''a'', ''b'')',
	'SELECT * FROM proof()'
FROM (VALUES
	(1, 'weight', 'BEFORE'), (2, 'bad', 'BEFORE'), (3, 'skip', 'BEFORE'),
	(4, 'add', 'BEFORE'), (5, 'add', 'AFTER'), (6, 'insert', 'BEFORE'), (7, 'insert', 'AFTER'),
	(8, 'update', 'BEFORE'), (9, 'update', 'AFTER'), (10, 'copies', 'BEFORE'), (11, 'copies', 'AFTER')) AS w (n, what, timing),
	(VALUES ('aa'), ('zz')) AS t (name)
ORDER BY n, name
\gexec
-- By other statements.
CALL meddle('delete', 'zz', 'AFTER');
INSERT INTO chash_nodes (ring, node) SELECT ring, 'd' FROM chash_rings;
SELECT * FROM proof();
CALL meddle('add', 'zz', 'AFTER');
DELETE FROM chash_nodes WHERE node = 'b';
SELECT * FROM proof();
CALL meddle('add', 'aa', 'AFTER');
MERGE INTO chash_nodes AS n USING (SELECT ring, m FROM chash_rings, unnest('{a,b,e}'::text[]) AS m) AS v ON n.ring = v.ring AND n.node = v.m
	WHEN MATCHED AND v.m = 'b' THEN DELETE
	WHEN MATCHED THEN UPDATE SET weight = 2
	WHEN NOT MATCHED THEN INSERT (ring, node) VALUES (v.ring, v.m);
SELECT * FROM proof();
CALL meddle('skip', 'zz', 'BEFORE');
DELETE FROM chash_nodes;
INSERT INTO chash_nodes (ring, node) SELECT ring, 'd' FROM chash_rings;
SELECT * FROM proof();
-- The functions of chash meet them too.
CALL meddle('update', 'zz', 'AFTER');
CREATE OR REPLACE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
	IF NEW.node = 'd' THEN
		UPDATE chash_nodes SET weight = 3 WHERE ring = NEW.ring AND node = 'a';
	END IF;
	RETURN NEW;
END $$;
SELECT ring, chash_add_node('d', ring) FROM chash_rings ORDER BY ring;
SELECT * FROM proof();
CALL meddle(NULL, NULL, NULL);
-- Statement triggers that fire before chash's or after them stand outside.
CREATE FUNCTION meddle_once() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
	IF pg_trigger_depth() = 1 THEN
		IF tg_when = 'AFTER' AND tg_name = 'zz' THEN
			PERFORM note('v');
		END IF;
		PERFORM chash_add_node(tg_name, 'v');
		IF tg_when = 'BEFORE' THEN
			PERFORM note('v');
		END IF;
	END IF;
	RETURN NULL;
END $$;
SELECT 'SELECT anew()',
	format('CREATE TRIGGER %s %s UPDATE ON chash_nodes FOR EACH STATEMENT EXECUTE FUNCTION meddle_once()', name, timing),
	'UPDATE chash_nodes SET weight = 2 WHERE node = ''a''',
	'SELECT * FROM proof()',
	format('DROP TRIGGER %s ON chash_nodes', name)
FROM (VALUES ('BEFORE', 'aa'), ('BEFORE', 'zz'), ('AFTER', 'aa'), ('AFTER', 'zz')) AS t (timing, name)
\gexec
RESET client_min_messages;

SELECT count(chash_drop_ring(ring)) FROM chash_rings;
DROP TABLE was;
DROP PROCEDURE meddle;
DROP FUNCTION note, as_of, moved, moved_by_diff, proof, anew, done_or_refused, one_copy_more, insert_node, replace_ring, change_other, said_half_way, empty_nodes, try_to, meddle, meddle_once;
