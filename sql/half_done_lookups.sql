-- In the middle of a statement that writes, lookups say what the tables say at that moment, whatever else is changed meanwhile, and afterwards nothing of it is left.
\set VERBOSITY sqlstate
SELECT chash_create_ring(r, vnodes => 16), chash_apply('{"a": {}, "b": {}}', r) FROM unnest('{o,x}'::text[]) AS r;
SELECT chash_create_ring('p', 'partitions', partitions => 16), chash_apply('{"a": {}, "b": {}}', 'p');
-- What lookups say of ring o, its points and its nodes; whether the table says the same, and of ring x too.
CREATE FUNCTION points_of(name text) RETURNS text LANGUAGE sql SET search_path = public
	AS 'SELECT count(*) || '':'' || count(DISTINCT node) FROM chash_points(name)';
CREATE FUNCTION points_due(name text) RETURNS text LANGUAGE sql SET search_path = public
	AS 'SELECT round(coalesce(sum(16 * weight), 0)) || '':'' || count(*) FROM chash_nodes WHERE ring = name AND weight > 0';
CREATE FUNCTION looked() RETURNS text LANGUAGE sql SET search_path = public
	AS $$ SELECT points_of('o') || CASE WHEN points_of('o') = points_due('o') AND points_of('x') = points_due('x') THEN '' ELSE ' WRONG' END $$;
-- A change of another ring, by a function, with and without a look.
CREATE FUNCTION change(node_name text) RETURNS text LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
	PERFORM chash_add_node(node_name, 'x');
	RETURN node_name;
END $$;
CREATE FUNCTION change_and_look(node_name text) RETURNS text LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
	PERFORM looked(), chash_add_node(node_name, 'x');
	RETURN looked();
END $$;
CREATE FUNCTION intact() RETURNS TABLE (ring text, epoch bigint, intact boolean) LANGUAGE sql
	AS 'SELECT ring, epoch, fingerprint = chash_fingerprint(ring) FROM chash_rings ORDER BY ring';
BEGIN;
INSERT INTO chash_nodes (ring, node) SELECT 'o', change('c' || i) FROM generate_series(1, 3) AS i RETURNING node, looked();
SELECT looked();
INSERT INTO chash_nodes (ring, node) SELECT 'o', 'd' || i FROM generate_series(1, 3) AS i RETURNING node, change_and_look(node), looked();
SELECT looked();
WITH u AS (UPDATE chash_nodes SET weight = 2 WHERE ring = 'o' AND node IN ('a', 'b', 'c1') RETURNING looked() AS before, change_and_look('u' || node) AS between, looked() AS after) SELECT * FROM u;
SELECT looked();
DELETE FROM chash_nodes WHERE ring = 'o' AND node IN ('c2', 'c3', 'd1') RETURNING looked(), change_and_look('e' || node), looked();
SELECT looked();
SELECT * FROM intact();
ROLLBACK;
SELECT looked();
SELECT * FROM intact();

-- Triggers of the owner's that change another ring, and look, before and after each row.
\set VERBOSITY terse
CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
	IF coalesce(NEW.ring, OLD.ring) = 'o' THEN
		RAISE NOTICE '% % %: %', tg_when, tg_name, coalesce(NEW.node, OLD.node), change_and_look(concat_ws('-', lower(tg_op), tg_when, tg_name, coalesce(NEW.node, OLD.node)));
	END IF;
	RETURN coalesce(NEW, OLD);
END $$;
CREATE TRIGGER aa_before BEFORE INSERT OR UPDATE OR DELETE ON chash_nodes FOR EACH ROW EXECUTE FUNCTION meddle();
CREATE TRIGGER zz_before BEFORE INSERT OR UPDATE OR DELETE ON chash_nodes FOR EACH ROW EXECUTE FUNCTION meddle();
CREATE TRIGGER aa_after AFTER INSERT OR UPDATE OR DELETE ON chash_nodes FOR EACH ROW EXECUTE FUNCTION meddle();
CREATE TRIGGER zz_after AFTER INSERT OR UPDATE OR DELETE ON chash_nodes FOR EACH ROW EXECUTE FUNCTION meddle();
BEGIN;
INSERT INTO chash_nodes (ring, node) VALUES ('o', 'f1'), ('o', 'f2') RETURNING node, looked();
SELECT looked();
UPDATE chash_nodes SET weight = 2 WHERE ring = 'o' AND node IN ('a', 'b') RETURNING node, looked();
SELECT looked();
DELETE FROM chash_nodes WHERE ring = 'o' AND node IN ('f1', 'f2') RETURNING node, looked();
SELECT looked();
SELECT chash_add_node('g', 'o');
SELECT looked();
SELECT * FROM intact();
ROLLBACK;
SELECT looked();
\set VERBOSITY sqlstate
DROP TRIGGER aa_before ON chash_nodes;
DROP TRIGGER zz_before ON chash_nodes;
DROP TRIGGER aa_after ON chash_nodes;
DROP TRIGGER zz_after ON chash_nodes;
DROP FUNCTION meddle;

-- Errors that are caught, of the other ring and of the same one.
CREATE FUNCTION fail(name text, node_name text) RETURNS text LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
	PERFORM chash_add_node(node_name, name), looked();
	INSERT INTO chash_nodes (ring, node) VALUES (name, 'a');
	RETURN 'not reached';
EXCEPTION WHEN unique_violation THEN
	RETURN looked();
END $$;
BEGIN;
INSERT INTO chash_nodes (ring, node) SELECT 'o', 'h' || i FROM generate_series(1, 2) AS i RETURNING node, looked(), fail('x', node), looked(), fail('o', 'in ' || node), looked();
SELECT looked();
SAVEPOINT s;
INSERT INTO chash_nodes (ring, node) SELECT 'o', CASE i WHEN 3 THEN 'a' ELSE 'i' || i END FROM generate_series(1, 3) AS i WHERE change_and_look('i' || i) IS NOT NULL;
ROLLBACK TO s;
SELECT looked();
SELECT * FROM intact();
COMMIT;
SELECT looked();
SELECT * FROM intact();

-- Cursors that were opened in the middle, and read in the middle, after the statement,
-- after the next, and when all is taken back: each answers as a query does.
CREATE FUNCTION open_cursors(i integer) RETURNS text LANGUAGE plpgsql SET search_path = public AS $$
DECLARE
	early refcursor := 'early' || i;
	late refcursor := 'late' || i;
BEGIN
	OPEN early FOR SELECT points_of('o') FROM generate_series(1, 3);
	FETCH early INTO early;
	OPEN late FOR SELECT (SELECT count(*) FROM chash_points('o')) = (SELECT sum(16 * weight) FROM chash_nodes WHERE ring = 'o') AS agrees,
		(SELECT count(*) FROM chash_nodes WHERE ring = 'o') AS nodes,
		(SELECT count(DISTINCT chash_node(key, 'o')) FROM generate_series(1, 1000) AS key) AS found;
	RETURN early;
END $$;
BEGIN;
INSERT INTO chash_nodes (ring, node) SELECT 'o', 'k' || i FROM generate_series(1, 4) AS i RETURNING node, open_cursors(right(node, 1)::integer), change('k' || right(node, 1)), looked();
FETCH 1 FROM late1;
SELECT looked();
SAVEPOINT s;
SELECT chash_apply('{"k1": null, "k2": {"weight": 3}}', 'o');
FETCH 1 FROM late2;
ROLLBACK TO s;
FETCH 1 FROM late3;
SELECT looked();
DELETE FROM chash_nodes WHERE ring = 'o' AND node IN ('k1', 'k2') RETURNING node, looked();
FETCH 1 FROM late4;
SELECT looked();
COMMIT;
SELECT looked();
-- Opened in what is then taken back.
BEGIN;
SAVEPOINT s;
SELECT open_cursors(5);
INSERT INTO chash_nodes (ring, node) SELECT 'o', 'l' || i FROM generate_series(6, 7) AS i RETURNING node, open_cursors(right(node, 1)::integer), looked();
RELEASE s;
FETCH 1 FROM late5;
FETCH 1 FROM late6;
FETCH 1 FROM late7;
ROLLBACK;
SELECT looked();

-- Changes of the ring itself in the middle.
BEGIN;
UPDATE chash_nodes SET weight = 3 WHERE ring = 'o' AND node = 'a' RETURNING looked(), chash_add_node('m', 'o'), looked(), chash_remove_node('b', 'o'), looked();
SELECT looked();
UPDATE chash_rings SET replicas = 2 WHERE ring = 'o' RETURNING ring, looked(), chash_add_node('n', ring), chash_add_node('n', 'x'), looked();
SELECT looked();
SELECT * FROM intact();
ROLLBACK;
-- Placement partitions: only the end of the statement deals partitions to nodes.
CREATE FUNCTION held() RETURNS text LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
	RETURN (SELECT count(DISTINCT chash_node(key, 'p')) FROM generate_series(1, 500) AS key);
EXCEPTION WHEN data_corrupted OR object_not_in_prerequisite_state THEN
	RETURN 'none';
END $$;
BEGIN;
INSERT INTO chash_nodes (ring, node) VALUES ('p', 'c'), ('p', 'd') RETURNING node, held();
SELECT held();
DELETE FROM chash_nodes WHERE ring = 'p' AND node IN ('a', 'b') RETURNING change('p' || node);
SELECT held();
SELECT * FROM intact();
ROLLBACK;
SELECT held();

-- Triggers that somebody has disabled: nothing tells of the rows, and lookups see them all the same.
SET client_min_messages = error;
CREATE FUNCTION looked_alone() RETURNS text LANGUAGE sql SET search_path = public
	AS $$ SELECT points_of('o') || CASE WHEN points_of('o') = points_due('o') THEN '' ELSE ' WRONG' END $$;
BEGIN;
ALTER TABLE chash_nodes DISABLE TRIGGER USER;
SELECT looked_alone();
UPDATE chash_nodes SET weight = weight * 2 WHERE ring = 'o' AND node IN ('a', 'b', 'h1') RETURNING looked_alone();
SELECT looked_alone();
INSERT INTO chash_nodes (ring, node, weight, state, epoch) SELECT 'o', 'r' || i, 1, 'up', 2 FROM generate_series(1, 3) AS i RETURNING node, looked_alone();
SELECT looked_alone();
DELETE FROM chash_nodes WHERE ring = 'o' AND node IN ('r1', 'r2', 'r3') RETURNING looked_alone();
SELECT looked_alone();
UPDATE chash_nodes SET weight = 1 WHERE ring = 'o' AND node IN ('a', 'b') AND looked_alone() IS NOT NULL RETURNING looked_alone();
SELECT looked_alone();
DO $$
BEGIN
	FOR i IN 1..3
	LOOP
		UPDATE chash_nodes SET weight = i WHERE ring = 'o' AND node = 'a';
		IF looked_alone() LIKE '%WRONG' THEN
			RAISE EXCEPTION 'in loop %: %', i, looked_alone();
		END IF;
		BEGIN
			UPDATE chash_nodes SET weight = 7 WHERE ring = 'o' AND node = 'b';
			PERFORM looked_alone();
			RAISE EXCEPTION USING ERRCODE = 'TAKEN';
		EXCEPTION WHEN SQLSTATE 'TAKEN' THEN
		END;
		IF looked_alone() LIKE '%WRONG' THEN
			RAISE EXCEPTION 'in loop %, taken back: %', i, looked_alone();
		END IF;
	END LOOP;
END $$;
ROLLBACK;
RESET client_min_messages;
SELECT looked();
SELECT * FROM intact();
SELECT count(chash_drop_ring(ring)) FROM chash_rings;
DROP FUNCTION looked, looked_alone, points_of, points_due, change, change_and_look, intact, fail, open_cursors, held;
