-- Lookups by functions that a statement calls while it is writing rows: they
-- see what a query over the tables sees there, row by row.
-- Rows are met in the order in which they were made if nothing is left of earlier ones.
VACUUM chash_rings, chash_nodes;
SELECT chash_create_ring(r), chash_apply('{"a": {}, "b": {}}', r) FROM unnest('{r1,r2}'::text[]) r;
-- What lookups say, and what the tables say.
CREATE FUNCTION looked(OUT r1 text, OUT r2 text, OUT agree boolean) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	SELECT (chash_route('k', 'r1')).epoch || ':' || (SELECT string_agg(DISTINCT chash_node(i, 'r1'), '') FROM generate_series(1, 200) i),
	       (chash_route('k', 'r2')).epoch || ':' || (SELECT string_agg(DISTINCT chash_node(i, 'r2'), '') FROM generate_series(1, 200) i)
	  INTO r1, r2;
	agree := r1 = (SELECT epoch FROM chash_rings WHERE ring = 'r1') || ':' || (SELECT string_agg(node, '' ORDER BY node) FROM chash_nodes WHERE ring = 'r1')
	     AND r2 = (SELECT epoch FROM chash_rings WHERE ring = 'r2') || ':' || (SELECT string_agg(node, '' ORDER BY node) FROM chash_nodes WHERE ring = 'r2');
END $$;
BEGIN;
UPDATE chash_rings SET replicas = replicas + 1 RETURNING ring, looked();
SELECT looked();
INSERT INTO chash_nodes (ring, node) VALUES ('r1', 'c'), ('r2', 'c'), ('r1', 'd') RETURNING ring, node, looked();
SELECT looked();
DELETE FROM chash_nodes WHERE node IN ('b', 'c') RETURNING ring, node, looked();
SELECT looked();
INSERT INTO chash_nodes (ring, node) SELECT 'r1', 'e' || i FROM generate_series(1, 3) i WHERE (looked()).agree RETURNING node, looked();
INSERT INTO chash_nodes (ring, node) VALUES ('r1', 'a') ON CONFLICT DO NOTHING;
SELECT looked();
-- A function that changes another ring on the way.
CREATE FUNCTION change_and_look(new_node text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM chash_add_node(new_node, 'r2');
	PERFORM looked();
	RETURN new_node;
END $$;
INSERT INTO chash_nodes (ring, node) SELECT 'r1', change_and_look('f' || i) FROM generate_series(1, 2) i RETURNING node, looked();
SELECT looked();
ROLLBACK;
SELECT looked();
-- The same after a statement that failed half-way.
BEGIN;
SAVEPOINT s;
INSERT INTO chash_nodes (ring, node, weight) SELECT 'r1', 'g' || i, (looked()).agree::int - i / 3 * 2 FROM generate_series(1, 3) i;
ROLLBACK TO s;
SELECT looked();
COMMIT;
SELECT looked();
-- A cursor that was opened while rows were on their way, and read after they
-- are gone again.
CREATE FUNCTION open_cursor(i int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	c refcursor := 'c1';
BEGIN
	IF i = 1 THEN
		OPEN c FOR SELECT count(DISTINCT chash_node(k, 'r1')) FROM generate_series(1, 1000) k;
	END IF;
	RETURN 'n' || i;
END $$;
BEGIN;
SAVEPOINT s;
INSERT INTO chash_nodes (ring, node) SELECT 'r1', open_cursor(i) FROM generate_series(1, 3) i;
FETCH ALL FROM c1;
ROLLBACK TO s;
SELECT looked();
COMMIT;
SELECT looked();
-- An error that is caught half-way does not keep later lookups from being cached.
BEGIN;
DO $$
BEGIN
	INSERT INTO chash_nodes (ring, node) VALUES ('r1', 'a');
EXCEPTION WHEN unique_violation THEN
	RAISE NOTICE 'caught';
END $$;
SELECT count(DISTINCT chash_node(k, 'r1')) FROM generate_series(1, 1000) k;
SELECT count(*) <= 4 AS few FROM pg_backend_memory_contexts WHERE name = 'chash ring';
COMMIT;
-- A trigger of the owner's that looks while rows are on their way.
CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE '% %: %', TG_WHEN, NEW.node, (looked()).agree;
	RETURN NEW;
END $$;
CREATE TRIGGER zz_look BEFORE INSERT ON chash_nodes FOR EACH ROW EXECUTE FUNCTION look();
CREATE TRIGGER zz_look_after AFTER INSERT ON chash_nodes FOR EACH ROW EXECUTE FUNCTION look();
BEGIN;
INSERT INTO chash_nodes (ring, node) VALUES ('r1', 'h'), ('r1', 'i') RETURNING node, looked();
SELECT looked();
SELECT count(*) FROM chash_balance('r1') WHERE points <> 256;
ROLLBACK;
SELECT looked();
DROP TRIGGER zz_look ON chash_nodes;
DROP TRIGGER zz_look_after ON chash_nodes;
-- A trigger of the owner's that carries changes over to another ring: each is settled.
CREATE FUNCTION mirror() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.ring = 'r1' THEN
		INSERT INTO public.chash_nodes (ring, node) VALUES ('r2', NEW.node);
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER mirror AFTER INSERT ON chash_nodes FOR EACH ROW EXECUTE FUNCTION mirror();
SELECT chash_add_node('m', 'r1');
SELECT ring, epoch, fingerprint = chash_fingerprint(ring) AS intact FROM chash_rings ORDER BY ring;
SELECT looked();
DROP TRIGGER mirror ON chash_nodes;
-- Changes that change nothing leave the ring alone, stamp and all.
CREATE TEMP TABLE stamps AS SELECT ring, version FROM chash_rings;
SELECT chash_mark_up('a', 'r1'), chash_set_node('a', 'r1'), chash_set_node('a', 'r1', weight => 1.000), chash_apply('{"a": {"weight": 1, "zone": null}}', 'r1'), chash_apply('{}', 'r1');
SELECT count(*) FROM chash_rings JOIN stamps USING (ring, version);
-- Others' triggers would run with the owner's rights, and are refused.
CREATE ROLE regress_chash_intruder;
GRANT ALL ON chash_rings, chash_nodes, chash_node_history TO regress_chash_intruder;
GRANT CREATE ON SCHEMA public TO regress_chash_intruder;
SET ROLE regress_chash_intruder;
CREATE FUNCTION intrude() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE 'run as %', current_user;
	RETURN NULL;
END $$;
CREATE TRIGGER intrude AFTER UPDATE ON chash_rings FOR EACH STATEMENT EXECUTE FUNCTION intrude();
INSERT INTO chash_nodes (ring, node) VALUES ('r1', 'x');
RESET ROLE;
SELECT chash_add_node('x', 'r1');
DROP FUNCTION intrude CASCADE;
-- Nor does anybody know whose a WHEN clause is.
SET ROLE regress_chash_intruder;
CREATE TRIGGER intrude BEFORE UPDATE ON chash_rings FOR EACH ROW WHEN (pg_catalog.length(NEW.ring) > 0) EXECUTE FUNCTION suppress_redundant_updates_trigger();
RESET ROLE;
SELECT chash_add_node('x', 'r1');
DROP TRIGGER intrude ON chash_rings;
SELECT chash_add_node('x', 'r1');
-- Rows of history are checked like others.
SET ROLE regress_chash_intruder;
\set VERBOSITY terse
INSERT INTO chash_node_history (ring, node, from_epoch, to_epoch, weight) VALUES ('r1', repeat('x', 100000), 1, 3, 1);
INSERT INTO chash_node_history (ring, node, from_epoch, to_epoch, weight) VALUES ('r1', 'x', 1, 3, -5);
INSERT INTO chash_node_history (ring, node, from_epoch, to_epoch, weight) VALUES ('r1', 'x', 3, 3, 1);
INSERT INTO chash_node_history (ring, node, from_epoch, to_epoch, weight, tokens) VALUES ('r1', 'x', 1, 3, 1, '{1}');
INSERT INTO chash_node_history (ring, node, from_epoch, to_epoch, weight) VALUES ('nowhere', 'x', 1, 3, 1);
INSERT INTO chash_node_history (ring, node, from_epoch, to_epoch, weight) VALUES ('r1', 'a', 2, 3, 1);
SELECT chash_node_as_of('k', 2, 'r1');
\set VERBOSITY default
RESET ROLE;
-- What is restored before its ring waits for it: no other ring takes it over.
SELECT chash_create_ring('nowhere');
UPDATE chash_node_history SET ring = 'r1' WHERE ring = 'nowhere';
INSERT INTO chash_rings (ring) VALUES ('nowhere');
DELETE FROM chash_node_history WHERE ring = 'nowhere';
INSERT INTO chash_nodes (ring, node, epoch) VALUES ('nowhere', 'n', 7), ('nowhere', 'm', 6);
SELECT chash_node('k', 'nowhere');
INSERT INTO chash_nodes (ring, node) VALUES ('nowhere', 'o');
INSERT INTO chash_rings (ring, epoch, fingerprint, history_from) VALUES ('nowhere', 9, '00000000000000000000000000000000', 6);
SELECT chash_node('k', 'nowhere') IS NOT NULL AS routed, epoch FROM chash_rings WHERE ring = 'nowhere';
SELECT chash_remove_node('n', 'nowhere'), chash_node_as_of('k', 6, 'nowhere'), chash_node('k', 'nowhere');
SELECT fingerprint = chash_fingerprint(ring) AS intact FROM chash_rings WHERE ring = 'nowhere';
-- While a statement changes nodes, partitions can have more than one owner, or none.
SELECT chash_create_ring('p', 'partitions', partitions => 16);
SELECT chash_apply('{"base": {}, "n0": {"weight": 1}, "n1": {}}', 'p');
CREATE FUNCTION peek() RETURNS text LANGUAGE plpgsql VOLATILE AS $$ BEGIN RETURN chash_node('k', 'p'); END $$;
UPDATE chash_nodes SET weight = 0 WHERE ring = 'p' AND node <> 'base' AND peek() IS NOT NULL;
DROP FUNCTION peek;
-- Altered tables are refused.
BEGIN;
ALTER TABLE chash_nodes ADD COLUMN more text;
SELECT chash_node('k', 'r1');
ROLLBACK;
BEGIN;
ALTER TABLE chash_node_history DROP COLUMN zone;
SELECT chash_node_as_of('k', 3, 'r1');
ROLLBACK;
-- Epochs that a ring could not go on from.
INSERT INTO chash_rings (ring, epoch) VALUES ('late', 9223372036854775807);
DROP FUNCTION looked, look, mirror, open_cursor;
SELECT count(chash_drop_ring(ring)) FROM chash_rings;
REVOKE CREATE ON SCHEMA public FROM regress_chash_intruder;
REVOKE ALL ON chash_rings, chash_nodes, chash_node_history FROM regress_chash_intruder;
DROP ROLE regress_chash_intruder;
