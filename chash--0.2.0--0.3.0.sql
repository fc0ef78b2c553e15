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

REVOKE ALL ON FUNCTION chash_before_statement() FROM PUBLIC, pg_database_owner;

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
-- Lookup
-- ---------------------------------------------------------------------------

DROP FUNCTION chash_replicas(text, integer, text);
DROP FUNCTION chash_replicas(bytea, integer, text);
DROP FUNCTION chash_replicas(bigint, integer, text);
DROP FUNCTION chash_replicas(uuid, integer, text);
DROP FUNCTION chash_route(text, text);
DROP FUNCTION chash_route(bytea, text);
DROP FUNCTION chash_route(bigint, text);
DROP FUNCTION chash_route(uuid, text);
DROP FUNCTION chash_node_at(bigint, text);

CREATE FUNCTION chash_replicas(key text, n bigint, ring text DEFAULT 'default') RETURNS text[]
	AS 'MODULE_PATHNAME', 'chash_first_nodes_text' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 8;
CREATE FUNCTION chash_replicas(key bytea, n bigint, ring text DEFAULT 'default') RETURNS text[]
	AS 'MODULE_PATHNAME', 'chash_first_nodes_bytea' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 8;
CREATE FUNCTION chash_replicas(key bigint, n bigint, ring text DEFAULT 'default') RETURNS text[]
	AS 'MODULE_PATHNAME', 'chash_first_nodes_bigint' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 8;
CREATE FUNCTION chash_replicas(key uuid, n bigint, ring text DEFAULT 'default') RETURNS text[]
	AS 'MODULE_PATHNAME', 'chash_first_nodes_uuid' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 8;
COMMENT ON FUNCTION chash_replicas(text, bigint, text) IS 'The first n distinct live nodes clockwise from a key, the owner first; no zone is used twice before each has been used once, nor three times before each has been used twice. All live nodes if there are fewer than n. Errors: 22023 n below 1; 42704 unknown ring; 55000 no node with a weight above zero, or all such nodes down.';
COMMENT ON FUNCTION chash_replicas(bytea, bigint, text) IS 'As chash_replicas(text, bigint, text), for the raw bytes of a bytea key.';
COMMENT ON FUNCTION chash_replicas(bigint, bigint, text) IS 'As chash_replicas(text, bigint, text), for a bigint key, hashed as its decimal text.';
COMMENT ON FUNCTION chash_replicas(uuid, bigint, text) IS 'As chash_replicas(text, bigint, text), for a uuid key, hashed as its 36 lower-case characters.';

CREATE FUNCTION chash_route(key text, ring text DEFAULT 'default', OUT node text, OUT "position" bigint, OUT epoch bigint, OUT next_node text, OUT move_id bigint)
	AS 'MODULE_PATHNAME', 'chash_route_text' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 10;
CREATE FUNCTION chash_route(key bytea, ring text DEFAULT 'default', OUT node text, OUT "position" bigint, OUT epoch bigint, OUT next_node text, OUT move_id bigint)
	AS 'MODULE_PATHNAME', 'chash_route_bytea' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 10;
CREATE FUNCTION chash_route(key bigint, ring text DEFAULT 'default', OUT node text, OUT "position" bigint, OUT epoch bigint, OUT next_node text, OUT move_id bigint)
	AS 'MODULE_PATHNAME', 'chash_route_bigint' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 10;
CREATE FUNCTION chash_route(key uuid, ring text DEFAULT 'default', OUT node text, OUT "position" bigint, OUT epoch bigint, OUT next_node text, OUT move_id bigint)
	AS 'MODULE_PATHNAME', 'chash_route_uuid' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION chash_route(text, text) IS 'Where a key lives, with what goes with it: node as chash_node gives it, position, the ring''s epoch, and, while its range is being moved, the node that it goes to and the move. One row of NULLs for a NULL key. Errors as chash_node.';
COMMENT ON FUNCTION chash_route(bytea, text) IS 'As chash_route(text, text), for the raw bytes of a bytea key.';
COMMENT ON FUNCTION chash_route(bigint, text) IS 'As chash_route(text, text), for a bigint key, hashed as its decimal text.';
COMMENT ON FUNCTION chash_route(uuid, text) IS 'As chash_route(text, text), for a uuid key, hashed as its 36 lower-case characters.';

CREATE FUNCTION chash_node_at(ring_position bigint, ring text DEFAULT 'default') RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION chash_node_at(bigint, text) IS 'As chash_node, for a position instead of a key. Errors: 22003 a position outside of the ring''s circle (for xxh3 every bigint is inside); others as chash_node.';

CREATE FUNCTION chash_hash_support(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
REVOKE ALL ON FUNCTION chash_hash_support(internal) FROM PUBLIC, pg_database_owner;
COMMENT ON FUNCTION chash_hash_support(internal) IS 'Planner support: makes calls of chash_hash with and without the default hash equal, so that an index on the one serves the other.';
ALTER FUNCTION chash_hash(text, text) SUPPORT chash_hash_support;
ALTER FUNCTION chash_hash(bytea, text) SUPPORT chash_hash_support;
ALTER FUNCTION chash_hash(bigint, text) SUPPORT chash_hash_support;
ALTER FUNCTION chash_hash(uuid, text) SUPPORT chash_hash_support;
COMMENT ON FUNCTION chash_hash(text, text) IS 'Position of a key under a hash: xxh3 is XXH3_64bits of the key''s UTF-8 text, no seed, read as a signed 64-bit integer (xxHash 0.8). Immutable: made for expression indexes. Hash tags are not looked at; see chash_hash_tag. Error: 22023 unknown hash.';
COMMENT ON FUNCTION chash_hash(bytea, text) IS 'As chash_hash(text, text), for the raw bytes of a bytea key.';
COMMENT ON FUNCTION chash_hash(bigint, text) IS 'As chash_hash(text, text), for a bigint key, hashed as its decimal text.';
COMMENT ON FUNCTION chash_hash(uuid, text) IS 'As chash_hash(text, text), for a uuid key, hashed as its 36 lower-case characters.';

CREATE FUNCTION chash_hash_tag(key bytea) RETURNS bytea
	AS 'MODULE_PATHNAME', 'chash_hash_tag_sql' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION chash_hash_tag(text) IS 'The part of a key that rings with hash_tags hash: what stands between the first { and the next } if that is not empty, otherwise the whole key. For indexes on chash_hash(chash_hash_tag(key)).';
COMMENT ON FUNCTION chash_hash_tag(bytea) IS 'As chash_hash_tag(text), for the raw bytes of a bytea key.';

ALTER FUNCTION chash_check_route(text, text, bigint, text) VOLATILE;
ALTER FUNCTION chash_check_route(bytea, text, bigint, text) VOLATILE;
ALTER FUNCTION chash_check_route(bigint, text, bigint, text) VOLATILE;
ALTER FUNCTION chash_check_route(uuid, text, bigint, text) VOLATILE;
COMMENT ON FUNCTION chash_check_route(text, text, bigint, text) IS 'Refuses a caller whose map is out of date for this very key: raises RT001 unless chash_node gives that node for that key now. epoch is the version of the caller''s map. If the ring is not there yet (a replica that lags, or a transaction with an older snapshot), raises RT002; if it never was there (it was dropped and made anew since), RT001. In the statement that reads or writes the row, let it stand in FROM inside of WHERE EXISTS: there it runs first, and once. A CTE that nothing refers to is not run, nor is what EXISTS selects, nor an outer join that adds nothing. A NULL key passes, since it lives nowhere; 22004 a NULL node, epoch or ring; 22023 an epoch below 1; other errors as chash_node.';
COMMENT ON FUNCTION chash_check_route(bytea, text, bigint, text) IS 'As chash_check_route(text, text, bigint, text), for the raw bytes of a bytea key.';
COMMENT ON FUNCTION chash_check_route(bigint, text, bigint, text) IS 'As chash_check_route(text, text, bigint, text), for a bigint key, hashed as its decimal text.';
COMMENT ON FUNCTION chash_check_route(uuid, text, bigint, text) IS 'As chash_check_route(text, text, bigint, text), for a uuid key, hashed as its 36 lower-case characters.';

-- ---------------------------------------------------------------------------
-- Rings and nodes: changes, at a given epoch if need be
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
COMMENT ON FUNCTION chash_add_node(text, text, numeric, text, jsonb, bigint[], bigint) IS 'Adds a node to a ring and returns the new epoch. weight is 0 to 999999.999 with at most three decimals, relative to the other nodes; tokens, the positions of its points, are for placement tokens, which needs them. Errors: 42704 unknown ring; 42710 the ring has that node; 22023 a value that is not allowed; 54000 more than 16777216 points, or more nodes than partitions; 55000 the ring is not at epoch if_epoch (NULL: any), or comes by subscription.';
COMMENT ON FUNCTION chash_remove_node(text, text, bigint) IS 'Removes a node from a ring and returns the new epoch. Error: 42704 unknown ring or node.';
COMMENT ON FUNCTION chash_set_node(text, text, numeric, text, jsonb, bigint[], bigint) IS 'Changes what is given of a node, leaves what is NULL as it is, and returns the epoch, which is new unless nothing was different. (chash_apply can also set a zone or info to NULL.) Errors as chash_add_node; 42704 unknown ring or node.';
COMMENT ON FUNCTION chash_mark_down(text, text, bigint) IS 'Marks a node as down, so that lookups pass it over, and returns the epoch. It keeps its points: nothing moves. Error: 42704 unknown ring or node.';
COMMENT ON FUNCTION chash_mark_up(text, text, bigint) IS 'Marks a node as up again and returns the epoch. Error: 42704 unknown ring or node.';
COMMENT ON FUNCTION chash_apply(jsonb, text, jsonb, bigint) IS 'Makes several changes of a ring''s nodes as one epoch and returns it. changes is an object with a member per node: an object with any of weight, zone, info, tokens and state (up or down) adds the node or changes what is given; null removes it. A weight can be a string, such as "2.5". For example {"d": {"weight": 2, "zone": "b"}, "a": null}. pins must be NULL in this version. Errors as chash_add_node; 22023 malformed changes; 0A000 pins.';

-- Dropping it would take away what users have granted; only a default is new.
CREATE OR REPLACE FUNCTION chash_import(definition jsonb, ring text DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION chash_import(jsonb, text) IS 'Creates a ring from what chash_export gave, at the exported epoch, without history before it, and returns that epoch. The ring gets the name that it had unless another is given. Errors: 42710 the ring exists; 22023 the definition is damaged: a member is missing, unknown or not allowed, or the fingerprint does not match.';
COMMENT ON FUNCTION chash_create_ring(text, text, text, integer, integer, boolean, bytea, integer) IS 'Creates a ring without nodes and returns its epoch, 1. placement is vnodes, partitions or tokens; hash is xxh3; vnodes (1 to 65536, 256 by default) goes with placement vnodes and partitions (a power of two from 1 to 1048576, 16384 by default) with placement partitions; hash_tags hashes only what stands between the first { and the next } of a key; secret is for hashes that take one, and xxh3 does not; replicas (1 to 1000) is what plans assume. Errors: 42710 the ring exists; 22023 a value that is not allowed.';
COMMENT ON FUNCTION chash_drop_ring(text) IS 'Drops a ring with its nodes and its history. Error: 42704 unknown ring.';
COMMENT ON FUNCTION chash_copy_ring(text, text) IS 'Creates ring to_ring with the same settings and nodes as from_ring, thus the same fingerprint, at epoch 1 and without history; returns 1. Errors: 42704 from_ring is unknown; 42710 to_ring exists.';
COMMENT ON FUNCTION chash_prune_history(text, bigint) IS 'Forgets the ring''s history except the keep epochs before the present one (keep from 0), and returns how many epochs were forgotten. Errors: 42704 unknown ring; 22023 keep is negative.';
COMMENT ON FUNCTION chash_export(text) IS 'The whole definition of a ring with its epoch and fingerprint, info included, for chash_import and for programs that compute routes themselves. Error: 42704 unknown ring.';

-- ---------------------------------------------------------------------------
-- Reading and plans
-- ---------------------------------------------------------------------------

ALTER FUNCTION chash_export(text) CALLED ON NULL INPUT;
ALTER FUNCTION chash_fingerprint(text) CALLED ON NULL INPUT;
ALTER FUNCTION chash_points(text) CALLED ON NULL INPUT;
ALTER FUNCTION chash_balance(text) CALLED ON NULL INPUT;
COMMENT ON FUNCTION chash_fingerprint(text) IS 'Hash (32 hexadecimal digits, XXH3_128bits) of everything that decides ownership: placement, hash, vnodes, partitions, hash tags, and each node''s name, weight, zone, tokens and partitions; not info, not up or down. Equal fingerprints mean the same map on any machine. Error: 42704 unknown ring.';
COMMENT ON FUNCTION chash_points(text) IS 'Every point of a ring with the node that holds it, in the order of the circle; points that lost a tie for one position to a node with a smaller name are included. Error: 42704 unknown ring.';
COMMENT ON FUNCTION chash_ranges(text, text) IS 'The ranges of positions, both ends included, that each node owns, in the order of the circle; neighbours of one owner are merged, and a range that wraps is two rows. share is the part of the circle, 0 to 1. With a node, its ranges alone. Error: 42704 unknown ring or node.';
COMMENT ON FUNCTION chash_balance(text) IS 'For each node: its points, its share of the circle (0 to 1), the share expected from its weight, the ratio of the two (1 is perfect; NULL if none is expected), and a bar, where twenty characters are a ratio of 1. Error: 42704 unknown ring.';
COMMENT ON FUNCTION chash_rebalance_plan(text, jsonb, integer, jsonb) IS 'What would move if changes (as for chash_apply) were made: the ranges of positions, both ends included, whose owner would differ, with the owners before and after. Changes nothing. With replicas above 1 (NULL: the ring''s setting) a row says that to_node joins the replica set of the range and copies from from_node, the node that leaves it or else a holder; to_node is NULL where a node only leaves, from_node where there was none. Ordered by lo; neighbours with equal rows are merged; share is the part of the circle, 0 to 1. Without changes: what an open migration has still to move, which is nothing in this version. A NOTICE says why there are no rows. pins must be NULL in this version. Errors: 42704 unknown ring; 22023 malformed changes or replicas out of 1 to 1000; 0A000 pins; others as chash_add_node.';
COMMENT ON FUNCTION chash_epoch_diff(text, bigint, bigint, integer) IS 'What moved between two epochs of a ring, as chash_rebalance_plan gives it. to_epoch is the present epoch if NULL, from_epoch the one before to_epoch (no rows if there was none). Errors: 42704 unknown ring; 22023 an epoch that is still to come, that never was or that has been pruned away, or replicas out of 1 to 1000.';
COMMENT ON FUNCTION chash_ring_diff(text, text, integer) IS 'How two rings differ, as chash_rebalance_plan gives it: the ranges whose owner in to_ring is not that in from_ring. Errors: 42704 unknown ring; 22023 the rings hash keys differently, or replicas out of 1 to 1000.';
COMMENT ON FUNCTION chash_rebalance_summary(text, jsonb, integer) IS 'chash_rebalance_plan summed up: for each pair of nodes the number of ranges and the share of the circle that would move, and what part of the circle (0 to 1) each of the two holds before and after. Errors as chash_rebalance_plan.';

CREATE VIEW chash_node_list AS
SELECT ring, node, weight, zone, state, tokens, held_partitions, epoch FROM chash_nodes;
REVOKE ALL ON TABLE chash_node_list FROM PUBLIC, pg_database_owner;
GRANT SELECT ON TABLE chash_node_list TO PUBLIC;

COMMENT ON VIEW chash_node_list IS 'The nodes of every ring, without info: table chash_nodes as every role may read it.';
COMMENT ON COLUMN chash_node_list.ring IS 'The ring that the node belongs to.';
COMMENT ON COLUMN chash_node_list.node IS 'Name of the node.';
COMMENT ON COLUMN chash_node_list.weight IS 'Capacity relative to the other nodes; 0 holds nothing.';
COMMENT ON COLUMN chash_node_list.zone IS 'Failure domain (rack, availability zone). Nodes without one count as one zone together.';
COMMENT ON COLUMN chash_node_list.state IS 'up, or down: passed over by lookups, but keeping its points.';
COMMENT ON COLUMN chash_node_list.tokens IS 'Positions of the node''s points (placement tokens only, otherwise NULL).';
COMMENT ON COLUMN chash_node_list.held_partitions IS 'Numbers of the partitions that the node holds, from 0 (placement partitions only, otherwise NULL).';
COMMENT ON COLUMN chash_node_list.epoch IS 'Epoch of the ring in which this node last changed.';
COMMENT ON COLUMN chash_nodes.info IS 'Whatever else the application wants to know of the node, for example its DSN. Decides nothing, and is not readable by PUBLIC: view chash_node_list has the other columns.';
COMMENT ON FUNCTION chash_cache_rings() IS 'What is in the shared cache; view chash_cache has the same with the names of databases.';
COMMENT ON FUNCTION chash_cache_reset() IS 'Empties the shared cache, of all databases, and its counters; what transactions are using goes when they end. For superusers. Error: 42501 not a superuser.';

-- ---------------------------------------------------------------------------
-- Rights: what the role that created the extension had is the database owner's
-- ---------------------------------------------------------------------------

GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON TABLE chash_rings TO pg_database_owner WITH GRANT OPTION;
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON TABLE chash_nodes TO pg_database_owner WITH GRANT OPTION;
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON TABLE chash_node_history TO pg_database_owner WITH GRANT OPTION;
REVOKE ALL ON FUNCTION
	chash_add_node(text, text, numeric, text, jsonb, bigint[], bigint),
	chash_remove_node(text, text, bigint),
	chash_set_node(text, text, numeric, text, jsonb, bigint[], bigint),
	chash_mark_down(text, text, bigint),
	chash_mark_up(text, text, bigint),
	chash_apply(jsonb, text, jsonb, bigint)
	FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
	chash_create_ring(text, text, text, integer, integer, boolean, bytea, integer),
	chash_drop_ring(text),
	chash_add_node(text, text, numeric, text, jsonb, bigint[], bigint),
	chash_remove_node(text, text, bigint),
	chash_set_node(text, text, numeric, text, jsonb, bigint[], bigint),
	chash_mark_down(text, text, bigint),
	chash_mark_up(text, text, bigint),
	chash_apply(jsonb, text, jsonb, bigint),
	chash_copy_ring(text, text),
	chash_import(jsonb, text),
	chash_prune_history(text, bigint),
	chash_export(text)
	TO pg_database_owner WITH GRANT OPTION;

-- PostgreSQL takes all rights on what was just granted, those that users have granted included, for
-- what the extension came with, and leaves them out of dumps.  It came with those of the owner,
-- PUBLIC and pg_database_owner.
UPDATE pg_catalog.pg_init_privs AS i
SET initprivs = (
	SELECT pg_catalog.array_agg(item)
	FROM pg_catalog.unnest(i.initprivs) AS item, LATERAL (SELECT * FROM pg_catalog.aclexplode(ARRAY[item]) LIMIT 1) AS a
	WHERE a.grantee IN (0, a.grantor, 'pg_database_owner'::pg_catalog.regrole) AND a.grantor OPERATOR(pg_catalog.=) o.owner)
FROM pg_catalog.pg_extension AS e
	JOIN pg_catalog.pg_depend AS d ON d.refclassid OPERATOR(pg_catalog.=) e.tableoid AND d.refobjid OPERATOR(pg_catalog.=) e.oid AND d.deptype OPERATOR(pg_catalog.=) 'e'
	JOIN (
		SELECT tableoid, oid, relowner FROM pg_catalog.pg_class
		UNION ALL
		SELECT tableoid, oid, proowner FROM pg_catalog.pg_proc
	) AS o (classoid, objoid, owner) ON o.classoid OPERATOR(pg_catalog.=) d.classid AND o.objoid OPERATOR(pg_catalog.=) d.objid
WHERE e.extname OPERATOR(pg_catalog.=) 'chash' AND i.classoid OPERATOR(pg_catalog.=) d.classid AND i.objoid OPERATOR(pg_catalog.=) d.objid;
