\echo Use "ALTER EXTENSION chash UPDATE" to load this file. \quit

-- ---------------------------------------------------------------------------
-- Tables
-- ---------------------------------------------------------------------------

ALTER TABLE chash_rings ADD COLUMN digest uuid, ADD COLUMN replicated boolean NOT NULL DEFAULT false;
-- Checked by the triggers: a column's type would round before they see it.
ALTER TABLE chash_nodes ALTER COLUMN weight TYPE numeric;
ALTER TABLE chash_node_history ALTER COLUMN weight TYPE numeric;

COMMENT ON COLUMN chash_rings.version IS 'Random stamp of the ring''s history, never used twice: built rings of past epochs are kept by it. Maintained by chash.';
COMMENT ON COLUMN chash_rings.digest IS 'Digest of all that a built ring holds (name, epoch, replicas, fingerprint, nodes that are down): what is built from the nodes is kept only if it has this digest. NULL while a statement is changing the ring. Maintained by chash.';
COMMENT ON COLUMN chash_rings.replicated IS 'Whether the ring came by logical replication; then it cannot be changed here while the subscription lasts. Maintained by chash.';
COMMENT ON COLUMN chash_nodes.weight IS 'Capacity relative to the other nodes, 0 to 999999.999 with at most three decimals; 0 holds nothing.';

-- ---------------------------------------------------------------------------
-- Triggers
-- ---------------------------------------------------------------------------

DROP TRIGGER chash_before_row ON chash_rings;
DROP TRIGGER chash_after_row ON chash_rings;
DROP TRIGGER chash_after_statement ON chash_rings;
DROP TRIGGER chash_before_truncate ON chash_rings;
DROP TRIGGER chash_before_row ON chash_nodes;
DROP TRIGGER chash_after_row ON chash_nodes;
DROP TRIGGER chash_after_insert ON chash_nodes;
DROP TRIGGER chash_after_update ON chash_nodes;
DROP TRIGGER chash_after_delete ON chash_nodes;
DROP TRIGGER chash_before_truncate ON chash_nodes;
DROP TRIGGER chash_before_row ON chash_node_history;
DROP TRIGGER chash_after_statement ON chash_node_history;
DROP TRIGGER chash_before_truncate ON chash_node_history;
DROP FUNCTION chash_nodes_after_row();
DROP FUNCTION chash_nodes_after_statement();

CREATE FUNCTION chash_before_statement() RETURNS trigger
	AS 'MODULE_PATHNAME' LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

REVOKE ALL ON FUNCTION chash_before_statement() FROM PUBLIC;

COMMENT ON FUNCTION chash_before_statement() IS 'Trigger: a statement begins to change rings.';
COMMENT ON FUNCTION chash_after_statement() IS 'Trigger: completes the changes of a statement: owners of partitions, history, fingerprint, epoch.';
COMMENT ON FUNCTION chash_before_truncate() IS 'Trigger: makes TRUNCATE do what DELETE of all rows does.';
COMMENT ON FUNCTION chash_rings_before_row() IS 'Trigger: checks a row of chash_rings.';
COMMENT ON FUNCTION chash_rings_after_row() IS 'Trigger: removes what belonged to a dropped ring, and sends NOTIFY chash when the transaction commits.';
COMMENT ON FUNCTION chash_nodes_before_row() IS 'Trigger: checks a row of chash_nodes, makes changes of one ring wait for each other, and writes the new epoch into the row.';
COMMENT ON FUNCTION chash_history_before_row() IS 'Trigger: checks a row of chash_node_history, and keeps what is recorded from being changed.';

CREATE TRIGGER chash_before_statement BEFORE INSERT OR UPDATE OR DELETE ON chash_rings
	FOR EACH STATEMENT EXECUTE FUNCTION chash_before_statement();
CREATE TRIGGER chash_before_row BEFORE INSERT OR UPDATE OR DELETE ON chash_rings
	FOR EACH ROW EXECUTE FUNCTION chash_rings_before_row();
CREATE TRIGGER chash_after_row AFTER INSERT OR UPDATE OR DELETE ON chash_rings
	FOR EACH ROW EXECUTE FUNCTION chash_rings_after_row();
CREATE TRIGGER chash_after_statement AFTER INSERT OR UPDATE OR DELETE ON chash_rings
	FOR EACH STATEMENT EXECUTE FUNCTION chash_after_statement();
CREATE TRIGGER chash_before_truncate BEFORE TRUNCATE ON chash_rings
	FOR EACH STATEMENT EXECUTE FUNCTION chash_before_truncate();
CREATE TRIGGER chash_before_statement BEFORE INSERT OR UPDATE OR DELETE ON chash_nodes
	FOR EACH STATEMENT EXECUTE FUNCTION chash_before_statement();
CREATE TRIGGER chash_before_row BEFORE INSERT OR UPDATE OR DELETE ON chash_nodes
	FOR EACH ROW EXECUTE FUNCTION chash_nodes_before_row();
CREATE TRIGGER chash_after_statement AFTER INSERT OR UPDATE OR DELETE ON chash_nodes
	FOR EACH STATEMENT EXECUTE FUNCTION chash_after_statement();
CREATE TRIGGER chash_before_truncate BEFORE TRUNCATE ON chash_nodes
	FOR EACH STATEMENT EXECUTE FUNCTION chash_before_truncate();
CREATE TRIGGER chash_before_statement BEFORE INSERT OR UPDATE OR DELETE ON chash_node_history
	FOR EACH STATEMENT EXECUTE FUNCTION chash_before_statement();
CREATE TRIGGER chash_before_row BEFORE INSERT OR UPDATE OR DELETE ON chash_node_history
	FOR EACH ROW EXECUTE FUNCTION chash_history_before_row();
CREATE TRIGGER chash_after_statement AFTER INSERT OR UPDATE OR DELETE ON chash_node_history
	FOR EACH STATEMENT EXECUTE FUNCTION chash_after_statement();
CREATE TRIGGER chash_before_truncate BEFORE TRUNCATE ON chash_node_history
	FOR EACH STATEMENT EXECUTE FUNCTION chash_before_truncate();

-- Logical replication and session_replication_role = replica must not pass
-- them by.
ALTER TABLE chash_rings ENABLE ALWAYS TRIGGER chash_before_statement;
ALTER TABLE chash_rings ENABLE ALWAYS TRIGGER chash_before_row;
ALTER TABLE chash_rings ENABLE ALWAYS TRIGGER chash_after_row;
ALTER TABLE chash_rings ENABLE ALWAYS TRIGGER chash_after_statement;
ALTER TABLE chash_rings ENABLE ALWAYS TRIGGER chash_before_truncate;
ALTER TABLE chash_nodes ENABLE ALWAYS TRIGGER chash_before_statement;
ALTER TABLE chash_nodes ENABLE ALWAYS TRIGGER chash_before_row;
ALTER TABLE chash_nodes ENABLE ALWAYS TRIGGER chash_after_statement;
ALTER TABLE chash_nodes ENABLE ALWAYS TRIGGER chash_before_truncate;
ALTER TABLE chash_node_history ENABLE ALWAYS TRIGGER chash_before_statement;
ALTER TABLE chash_node_history ENABLE ALWAYS TRIGGER chash_before_row;
ALTER TABLE chash_node_history ENABLE ALWAYS TRIGGER chash_after_statement;
ALTER TABLE chash_node_history ENABLE ALWAYS TRIGGER chash_before_truncate;

-- Rings get their digests.
UPDATE chash_rings SET replicas = replicas;

