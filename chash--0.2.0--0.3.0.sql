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

-- ---------------------------------------------------------------------------
-- Changes that are made only at a given epoch
-- ---------------------------------------------------------------------------

DROP FUNCTION chash_add_node(text, text, numeric, text, jsonb, bigint[]);
DROP FUNCTION chash_remove_node(text, text);
DROP FUNCTION chash_set_node(text, text, numeric, text, jsonb, bigint[]);
DROP FUNCTION chash_mark_down(text, text);
DROP FUNCTION chash_mark_up(text, text);
DROP FUNCTION chash_apply(jsonb, text, jsonb);

CREATE FUNCTION chash_add_node(node text, ring text DEFAULT 'default', weight numeric DEFAULT 1, zone text DEFAULT NULL, info jsonb DEFAULT NULL, tokens bigint[] DEFAULT NULL, if_epoch bigint DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
CREATE FUNCTION chash_remove_node(node text, ring text DEFAULT 'default', if_epoch bigint DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
CREATE FUNCTION chash_set_node(node text, ring text DEFAULT 'default', weight numeric DEFAULT NULL, zone text DEFAULT NULL, info jsonb DEFAULT NULL, tokens bigint[] DEFAULT NULL, if_epoch bigint DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
CREATE FUNCTION chash_mark_down(node text, ring text DEFAULT 'default', if_epoch bigint DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
CREATE FUNCTION chash_mark_up(node text, ring text DEFAULT 'default', if_epoch bigint DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
CREATE FUNCTION chash_apply(changes jsonb, ring text DEFAULT 'default', pins jsonb DEFAULT NULL, if_epoch bigint DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
REVOKE ALL ON FUNCTION
	chash_add_node(text, text, numeric, text, jsonb, bigint[], bigint),
	chash_remove_node(text, text, bigint),
	chash_set_node(text, text, numeric, text, jsonb, bigint[], bigint),
	chash_mark_down(text, text, bigint),
	chash_mark_up(text, text, bigint),
	chash_apply(jsonb, text, jsonb, bigint)
	FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
	chash_add_node(text, text, numeric, text, jsonb, bigint[], bigint),
	chash_remove_node(text, text, bigint),
	chash_set_node(text, text, numeric, text, jsonb, bigint[], bigint),
	chash_mark_down(text, text, bigint),
	chash_mark_up(text, text, bigint),
	chash_apply(jsonb, text, jsonb, bigint)
	TO @extowner@ WITH GRANT OPTION;
COMMENT ON FUNCTION chash_add_node(text, text, numeric, text, jsonb, bigint[], bigint) IS 'Adds a node to a ring and returns the new epoch. weight is 0 to 999999.999 with at most three decimals, relative to the other nodes; tokens, the positions of its points, are for placement tokens, which needs them. Errors: 42704 unknown ring; 42710 the ring has that node; 22023 a value that is not allowed; 54000 more than 16777216 points, or more nodes than partitions; 55000 the ring is not at epoch if_epoch (NULL: any), or comes by subscription.';
COMMENT ON FUNCTION chash_remove_node(text, text, bigint) IS 'Removes a node from a ring and returns the new epoch. Error: 42704 unknown ring or node.';
COMMENT ON FUNCTION chash_set_node(text, text, numeric, text, jsonb, bigint[], bigint) IS 'Changes what is given of a node, leaves what is NULL as it is, and returns the epoch, which is new unless nothing was different. (chash_apply can also set a zone or info to NULL.) Errors as chash_add_node; 42704 unknown ring or node.';
COMMENT ON FUNCTION chash_mark_down(text, text, bigint) IS 'Marks a node as down, so that lookups pass it over, and returns the epoch. It keeps its points: nothing moves. Error: 42704 unknown ring or node.';
COMMENT ON FUNCTION chash_mark_up(text, text, bigint) IS 'Marks a node as up again and returns the epoch. Error: 42704 unknown ring or node.';
COMMENT ON FUNCTION chash_apply(jsonb, text, jsonb, bigint) IS 'Makes several changes of a ring''s nodes as one epoch and returns it. changes is an object with a member per node: an object with any of weight, zone, info, tokens and state (up or down) adds the node or changes what is given; null removes it. For example {"d": {"weight": 2, "zone": "b"}, "a": null}. pins must be NULL in this version. Errors as chash_add_node; 22023 malformed changes; 0A000 pins.';
