-- Statements whose rows, triggers and ends do not come as usual.
SET client_min_messages = warning;
CREATE VIEW rings_now AS
SELECT r.ring, r.epoch, r.fingerprint = chash_fingerprint(r.ring) AS fingerprint_is_right, r.digest IS NOT NULL AS settled,
	ARRAY(SELECT n.node || ' ' || n.epoch FROM chash_nodes n WHERE n.ring = r.ring ORDER BY n.node) AS nodes
FROM chash_rings r WHERE r.ring LIKE 'un\_%';

-- A ring is dropped and its name taken again by one statement: what belongs to the new one stays.
SELECT chash_create_ring('un_again', vnodes => 8);
DELETE FROM chash_rings WHERE ring = 'un_again' RETURNING chash_create_ring('un_again', vnodes => 8), chash_add_node('a', 'un_again');
SELECT * FROM rings_now;
SELECT chash_node('k', 'un_again');
WITH gone AS (DELETE FROM chash_rings WHERE ring = 'un_again' RETURNING *)
INSERT INTO chash_rings SELECT * FROM gone;
SELECT * FROM rings_now;
SELECT chash_drop_ring('un_again');
SELECT chash_create_ring('un_again', vnodes => 8);
WITH gone AS (DELETE FROM chash_rings WHERE ring = 'un_again' RETURNING ring),
	come AS (INSERT INTO chash_rings (ring, vnodes) SELECT ring, 8 FROM gone RETURNING ring)
INSERT INTO chash_nodes (ring, node) SELECT ring, 'a' FROM come;
SELECT * FROM rings_now;
SELECT chash_drop_ring('un_again');

-- The owner's trigger adds a node to each ring that is created, also to a copy.
SELECT chash_create_ring('un_source', vnodes => 8), chash_add_node('a', 'un_source'), chash_add_node('b', 'un_source');
CREATE FUNCTION un_add() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM public.chash_add_node('x', NEW.ring);
	RETURN NULL;
END $$;
CREATE TRIGGER un_add AFTER INSERT ON chash_rings FOR EACH ROW EXECUTE FUNCTION un_add();
SELECT chash_copy_ring('un_source', 'un_copy');
DROP TRIGGER un_add ON chash_rings;
SELECT * FROM rings_now ORDER BY ring;
SELECT chash_drop_ring('un_copy');

-- Rows changed without a statement on the table itself, and halves of statements.
CREATE TABLE un_parent (LIKE chash_nodes);
ALTER TABLE chash_nodes INHERIT un_parent;
UPDATE un_parent SET weight = 4 WHERE node = 'a';
ALTER TABLE chash_nodes NO INHERIT un_parent;
ALTER TABLE chash_nodes DISABLE TRIGGER chash_before_statement;
UPDATE chash_nodes SET weight = 4 WHERE node = 'a';
ALTER TABLE chash_nodes ENABLE ALWAYS TRIGGER chash_before_statement;
ALTER TABLE chash_nodes DISABLE TRIGGER chash_after_statement;
UPDATE chash_nodes SET weight = 4 WHERE node = 'a';
ALTER TABLE chash_nodes ENABLE ALWAYS TRIGGER chash_after_statement;
SELECT * FROM rings_now;

-- A change after replicated rows in one transaction.
SET session_replication_role = replica;
BEGIN;
UPDATE chash_nodes SET epoch = 3 WHERE ring = 'un_source' AND node = 'a';
SELECT chash_add_node('c', 'un_source');
COMMIT;
RESET session_replication_role;
SELECT * FROM rings_now;

-- A CHECK constraint of the owner that changes nodes is no statement of chash's own.
CREATE FUNCTION un_check(node text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	IF node = 'caller' THEN
		UPDATE public.chash_nodes AS n SET epoch = 77 WHERE n.node = 'a';
	END IF;
	RETURN true;
END $$;
ALTER TABLE chash_nodes ADD CONSTRAINT un_check CHECK (un_check(node));
SELECT chash_add_node('caller', 'un_source');
ALTER TABLE chash_nodes DROP CONSTRAINT un_check;
SELECT * FROM rings_now;

-- Past epochs are built anew when history comes with a change of state alone.
SELECT chash_node_as_of('k', 3, 'un_source');
WITH down AS (UPDATE chash_nodes SET state = 'down' WHERE ring = 'un_source' AND node = 'b' RETURNING ring)
INSERT INTO chash_node_history (ring, node, from_epoch, to_epoch, weight) SELECT ring, 'late', 1, 4, 1000 FROM down;
SELECT chash_node_as_of('k', 3, 'un_source');

SELECT chash_drop_ring('un_source');
DROP VIEW rings_now;
DROP TABLE un_parent;
DROP FUNCTION un_add(), un_check(text);
