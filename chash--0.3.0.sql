\echo Use "CREATE EXTENSION chash" to load this file. \quit

-- CREATE EXTENSION has set search_path to the target schema alone, so that
-- every name below is created there, and resolved there or in pg_catalog.

-- Rights go to PUBLIC and to pg_database_owner, which is whoever owns the database:
-- a dump says so too, and a role that is named in it may be gone by then.

-- ---------------------------------------------------------------------------
-- Tables: the truth.  All of them go into a dump.
--
-- There are no foreign keys: a parallel pg_restore does not know of those
-- between tables of an extension, and loads them in any order.  The triggers
-- see to it that there is no node without its ring.
-- ---------------------------------------------------------------------------

CREATE TABLE chash_rings (
	ring text COLLATE "C" DEFAULT 'default' PRIMARY KEY,
	placement text COLLATE "C" NOT NULL DEFAULT 'vnodes',
	hash text COLLATE "C" NOT NULL DEFAULT 'xxh3',
	vnodes integer,
	partitions integer,
	hash_tags boolean NOT NULL DEFAULT false,
	replicas integer NOT NULL DEFAULT 1,
	epoch bigint NOT NULL,
	fingerprint text COLLATE "C" NOT NULL,
	history_from bigint NOT NULL,
	version uuid NOT NULL,
	digest uuid,
	replicated boolean NOT NULL DEFAULT false
);
REVOKE ALL ON TABLE chash_rings FROM PUBLIC, pg_database_owner;
GRANT SELECT ON TABLE chash_rings TO PUBLIC;
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON TABLE chash_rings TO pg_database_owner WITH GRANT OPTION;

COMMENT ON TABLE chash_rings IS 'The hash rings, one row each. The functions write it; direct INSERT, UPDATE and DELETE are checked and take effect in the same way.';
COMMENT ON COLUMN chash_rings.ring IS 'Name of the ring: 1 to 255 bytes of UTF-8 without control characters. Never changes.';
COMMENT ON COLUMN chash_rings.placement IS 'How nodes and weights become points: vnodes, partitions or tokens. Fixed at creation.';
COMMENT ON COLUMN chash_rings.hash IS 'Hash of keys and of point names: xxh3. Fixed at creation.';
COMMENT ON COLUMN chash_rings.vnodes IS 'Points of a node of weight 1, 1 to 65536 (placement vnodes only, otherwise NULL). Fixed at creation.';
COMMENT ON COLUMN chash_rings.partitions IS 'Number of equal partitions of the circle, a power of two from 1 to 1048576 (placement partitions only, otherwise NULL). Fixed at creation.';
COMMENT ON COLUMN chash_rings.hash_tags IS 'Whether only the part of a key between its first { and the next } is hashed. Fixed at creation.';
COMMENT ON COLUMN chash_rings.replicas IS 'Copies that the application keeps of each row, 1 to 1000: what plans assume when their argument replicas is NULL.';
COMMENT ON COLUMN chash_rings.epoch IS 'Version number of the ring: 1 when created, up by one with each change. Maintained by chash.';
COMMENT ON COLUMN chash_rings.fingerprint IS 'Fingerprint of the map at this epoch, as chash_fingerprint computes it. Maintained by chash.';
COMMENT ON COLUMN chash_rings.history_from IS 'Oldest epoch that chash_node_as_of and chash_epoch_diff can still answer for. Maintained by chash.';
COMMENT ON COLUMN chash_rings.version IS 'Random stamp of the ring''s history, never used twice: built rings of past epochs are kept by it. Maintained by chash.';
COMMENT ON COLUMN chash_rings.digest IS 'Digest of all that a built ring holds (name, epoch, replicas, fingerprint, nodes that are down): what is built from the nodes is kept only if it has this digest. NULL while a statement is changing the ring. Maintained by chash.';
COMMENT ON COLUMN chash_rings.replicated IS 'Whether the ring came by logical replication; then it cannot be changed here while the subscription lasts. Maintained by chash.';

CREATE TABLE chash_nodes (
	ring text COLLATE "C" NOT NULL DEFAULT 'default',
	node text COLLATE "C" NOT NULL,
	weight numeric NOT NULL DEFAULT 1,
	zone text COLLATE "C",
	state text COLLATE "C" NOT NULL DEFAULT 'up',
	tokens bigint[],
	held_partitions integer[],
	info jsonb,
	epoch bigint NOT NULL,
	PRIMARY KEY (ring, node)
);
REVOKE ALL ON TABLE chash_nodes FROM PUBLIC, pg_database_owner;
GRANT SELECT (ring, node, weight, zone, state, tokens, held_partitions, epoch) ON TABLE chash_nodes TO PUBLIC;
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON TABLE chash_nodes TO pg_database_owner WITH GRANT OPTION;

COMMENT ON TABLE chash_nodes IS 'The nodes of every ring. The functions write it; direct INSERT, UPDATE and DELETE are checked and take effect in the same way, each statement as one epoch.';
COMMENT ON COLUMN chash_nodes.ring IS 'The ring that the node belongs to.';
COMMENT ON COLUMN chash_nodes.node IS 'Name of the node: 1 to 255 bytes of UTF-8 without control characters. Never changes.';
COMMENT ON COLUMN chash_nodes.weight IS 'Capacity relative to the other nodes, 0 to 999999.999 with at most three decimals; 0 holds nothing.';
COMMENT ON COLUMN chash_nodes.zone IS 'Failure domain (rack, availability zone). Nodes without one count as one zone together.';
COMMENT ON COLUMN chash_nodes.state IS 'up, or down: passed over by lookups, but keeping its points.';
COMMENT ON COLUMN chash_nodes.tokens IS 'Positions of the node''s points (placement tokens only, otherwise NULL).';
COMMENT ON COLUMN chash_nodes.held_partitions IS 'Numbers of the partitions that the node holds, from 0 (placement partitions only, otherwise NULL). Maintained by chash.';
COMMENT ON COLUMN chash_nodes.info IS 'Whatever else the application wants to know of the node, for example its DSN. Decides nothing, and is not readable by PUBLIC: view chash_node_list has the other columns.';
COMMENT ON COLUMN chash_nodes.epoch IS 'Epoch of the ring in which this row last changed. Maintained by chash: leave it out when inserting.';

CREATE TABLE chash_node_history (
	ring text COLLATE "C" NOT NULL,
	node text COLLATE "C" NOT NULL,
	from_epoch bigint NOT NULL,
	to_epoch bigint NOT NULL,
	weight numeric NOT NULL,
	zone text COLLATE "C",
	tokens bigint[],
	held_partitions integer[],
	PRIMARY KEY (ring, node, from_epoch)
);
REVOKE ALL ON TABLE chash_node_history FROM PUBLIC, pg_database_owner;
GRANT SELECT ON TABLE chash_node_history TO PUBLIC;
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON TABLE chash_node_history TO pg_database_owner WITH GRANT OPTION;

COMMENT ON TABLE chash_node_history IS 'What nodes were like in past epochs. Maintained by chash; shortened by chash_prune_history.';
COMMENT ON COLUMN chash_node_history.ring IS 'The ring that the node belonged to.';
COMMENT ON COLUMN chash_node_history.node IS 'Name of the node.';
COMMENT ON COLUMN chash_node_history.from_epoch IS 'First epoch in which the node was like this.';
COMMENT ON COLUMN chash_node_history.to_epoch IS 'First epoch in which it was so no more.';
COMMENT ON COLUMN chash_node_history.weight IS 'Weight of the node in those epochs.';
COMMENT ON COLUMN chash_node_history.zone IS 'Zone of the node in those epochs.';
COMMENT ON COLUMN chash_node_history.tokens IS 'Tokens of the node in those epochs.';
COMMENT ON COLUMN chash_node_history.held_partitions IS 'Partitions that the node held in those epochs.';

SELECT pg_catalog.pg_extension_config_dump('chash_rings', '');
SELECT pg_catalog.pg_extension_config_dump('chash_nodes', '');
SELECT pg_catalog.pg_extension_config_dump('chash_node_history', '');

-- ---------------------------------------------------------------------------
-- Triggers: direct DML, restore and replication are as safe as the functions.
-- SECURITY DEFINER, since whoever may write one of the tables need not be able
-- to write the others.
-- ---------------------------------------------------------------------------

CREATE FUNCTION chash_before_statement() RETURNS trigger
	AS 'MODULE_PATHNAME' LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
CREATE FUNCTION chash_after_statement() RETURNS trigger
	AS 'MODULE_PATHNAME' LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
CREATE FUNCTION chash_before_truncate() RETURNS trigger
	AS 'MODULE_PATHNAME' LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
CREATE FUNCTION chash_rings_before_row() RETURNS trigger
	AS 'MODULE_PATHNAME' LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
CREATE FUNCTION chash_rings_after_row() RETURNS trigger
	AS 'MODULE_PATHNAME' LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
CREATE FUNCTION chash_nodes_before_row() RETURNS trigger
	AS 'MODULE_PATHNAME' LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
CREATE FUNCTION chash_history_before_row() RETURNS trigger
	AS 'MODULE_PATHNAME' LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

REVOKE ALL ON FUNCTION chash_before_statement(), chash_after_statement(), chash_before_truncate(), chash_rings_before_row(),
	chash_rings_after_row(), chash_nodes_before_row(), chash_history_before_row() FROM PUBLIC, pg_database_owner;

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

-- ---------------------------------------------------------------------------
-- Lookup
-- ---------------------------------------------------------------------------

CREATE FUNCTION chash_node(key text, ring text DEFAULT 'default') RETURNS text
	AS 'MODULE_PATHNAME', 'chash_node_text' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2;
CREATE FUNCTION chash_node(key bytea, ring text DEFAULT 'default') RETURNS text
	AS 'MODULE_PATHNAME', 'chash_node_bytea' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2;
CREATE FUNCTION chash_node(key bigint, ring text DEFAULT 'default') RETURNS text
	AS 'MODULE_PATHNAME', 'chash_node_bigint' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2;
CREATE FUNCTION chash_node(key uuid, ring text DEFAULT 'default') RETURNS text
	AS 'MODULE_PATHNAME', 'chash_node_uuid' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION chash_node(text, text) IS 'Node where a key lives: its owner, or the next live node clockwise while the owner is down. NULL for a NULL key. The key is hashed as its UTF-8 text. Errors: 42704 unknown ring; 55000 no node with a weight above zero, or all such nodes down.';
COMMENT ON FUNCTION chash_node(bytea, text) IS 'As chash_node(text, text), for the raw bytes of a bytea key.';
COMMENT ON FUNCTION chash_node(bigint, text) IS 'As chash_node(text, text), for a bigint key, hashed as its decimal text.';
COMMENT ON FUNCTION chash_node(uuid, text) IS 'As chash_node(text, text), for a uuid key, hashed as its 36 lower-case characters.';

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

CREATE FUNCTION chash_hash_support(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
REVOKE ALL ON FUNCTION chash_hash_support(internal) FROM PUBLIC, pg_database_owner;
COMMENT ON FUNCTION chash_hash_support(internal) IS 'Planner support: makes calls of chash_hash with and without the default hash equal, so that an index on the one serves the other.';

CREATE FUNCTION chash_hash(key text, hash text DEFAULT 'xxh3') RETURNS bigint
	AS 'MODULE_PATHNAME', 'chash_hash_text' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1 SUPPORT chash_hash_support;
CREATE FUNCTION chash_hash(key bytea, hash text DEFAULT 'xxh3') RETURNS bigint
	AS 'MODULE_PATHNAME', 'chash_hash_bytea' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1 SUPPORT chash_hash_support;
CREATE FUNCTION chash_hash(key bigint, hash text DEFAULT 'xxh3') RETURNS bigint
	AS 'MODULE_PATHNAME', 'chash_hash_bigint' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1 SUPPORT chash_hash_support;
CREATE FUNCTION chash_hash(key uuid, hash text DEFAULT 'xxh3') RETURNS bigint
	AS 'MODULE_PATHNAME', 'chash_hash_uuid' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1 SUPPORT chash_hash_support;
COMMENT ON FUNCTION chash_hash(text, text) IS 'Position of a key under a hash: xxh3 is XXH3_64bits of the key''s UTF-8 text, no seed, read as a signed 64-bit integer (xxHash 0.8). Immutable: made for expression indexes. Hash tags are not looked at; see chash_hash_tag. Error: 22023 unknown hash.';
COMMENT ON FUNCTION chash_hash(bytea, text) IS 'As chash_hash(text, text), for the raw bytes of a bytea key.';
COMMENT ON FUNCTION chash_hash(bigint, text) IS 'As chash_hash(text, text), for a bigint key, hashed as its decimal text.';
COMMENT ON FUNCTION chash_hash(uuid, text) IS 'As chash_hash(text, text), for a uuid key, hashed as its 36 lower-case characters.';

CREATE FUNCTION chash_position(key text, ring text DEFAULT 'default') RETURNS bigint
	AS 'MODULE_PATHNAME', 'chash_position_text' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2;
CREATE FUNCTION chash_position(key bytea, ring text DEFAULT 'default') RETURNS bigint
	AS 'MODULE_PATHNAME', 'chash_position_bytea' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2;
CREATE FUNCTION chash_position(key bigint, ring text DEFAULT 'default') RETURNS bigint
	AS 'MODULE_PATHNAME', 'chash_position_bigint' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2;
CREATE FUNCTION chash_position(key uuid, ring text DEFAULT 'default') RETURNS bigint
	AS 'MODULE_PATHNAME', 'chash_position_uuid' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION chash_position(text, text) IS 'Position of a key on a ring: under that ring''s hash, and with its hash tags. Error: 42704 unknown ring.';
COMMENT ON FUNCTION chash_position(bytea, text) IS 'As chash_position(text, text), for the raw bytes of a bytea key.';
COMMENT ON FUNCTION chash_position(bigint, text) IS 'As chash_position(text, text), for a bigint key, hashed as its decimal text.';
COMMENT ON FUNCTION chash_position(uuid, text) IS 'As chash_position(text, text), for a uuid key, hashed as its 36 lower-case characters.';

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

CREATE FUNCTION chash_node_as_of(key text, epoch bigint, ring text DEFAULT 'default') RETURNS text
	AS 'MODULE_PATHNAME', 'chash_node_as_of_text' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 4;
CREATE FUNCTION chash_node_as_of(key bytea, epoch bigint, ring text DEFAULT 'default') RETURNS text
	AS 'MODULE_PATHNAME', 'chash_node_as_of_bytea' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 4;
CREATE FUNCTION chash_node_as_of(key bigint, epoch bigint, ring text DEFAULT 'default') RETURNS text
	AS 'MODULE_PATHNAME', 'chash_node_as_of_bigint' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 4;
CREATE FUNCTION chash_node_as_of(key uuid, epoch bigint, ring text DEFAULT 'default') RETURNS text
	AS 'MODULE_PATHNAME', 'chash_node_as_of_uuid' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 4;
COMMENT ON FUNCTION chash_node_as_of(text, bigint, text) IS 'Owner of a key in a past or the present epoch of a ring, whether that node is up or down. Errors: 22023 an epoch that is still to come, that never was or that has been pruned away; 42704 unknown ring; 55000 the ring had no node with a weight above zero then.';
COMMENT ON FUNCTION chash_node_as_of(bytea, bigint, text) IS 'As chash_node_as_of(text, bigint, text), for the raw bytes of a bytea key.';
COMMENT ON FUNCTION chash_node_as_of(bigint, bigint, text) IS 'As chash_node_as_of(text, bigint, text), for a bigint key, hashed as its decimal text.';
COMMENT ON FUNCTION chash_node_as_of(uuid, bigint, text) IS 'As chash_node_as_of(text, bigint, text), for a uuid key, hashed as its 36 lower-case characters.';

CREATE FUNCTION chash_check_route(key text, node text, epoch bigint, ring text DEFAULT 'default') RETURNS void
	AS 'MODULE_PATHNAME', 'chash_check_route_text' LANGUAGE C VOLATILE PARALLEL SAFE COST 4;
CREATE FUNCTION chash_check_route(key bytea, node text, epoch bigint, ring text DEFAULT 'default') RETURNS void
	AS 'MODULE_PATHNAME', 'chash_check_route_bytea' LANGUAGE C VOLATILE PARALLEL SAFE COST 4;
CREATE FUNCTION chash_check_route(key bigint, node text, epoch bigint, ring text DEFAULT 'default') RETURNS void
	AS 'MODULE_PATHNAME', 'chash_check_route_bigint' LANGUAGE C VOLATILE PARALLEL SAFE COST 4;
CREATE FUNCTION chash_check_route(key uuid, node text, epoch bigint, ring text DEFAULT 'default') RETURNS void
	AS 'MODULE_PATHNAME', 'chash_check_route_uuid' LANGUAGE C VOLATILE PARALLEL SAFE COST 4;
COMMENT ON FUNCTION chash_check_route(text, text, bigint, text) IS 'Refuses a caller whose map is out of date for this very key: raises RT001 unless chash_node gives that node for that key now. epoch is the version of the caller''s map. If the ring is not there yet (a replica that lags, or a transaction with an older snapshot), raises RT002; if it never was there (it was dropped and made anew since), RT001. In the statement that reads or writes the row, let it stand in FROM inside of WHERE EXISTS: there it runs first, and once. A CTE that nothing refers to is not run, nor is what EXISTS selects, nor an outer join that adds nothing. A NULL key passes, since it lives nowhere; 22004 a NULL node, epoch or ring; 22023 an epoch below 1; other errors as chash_node.';
COMMENT ON FUNCTION chash_check_route(bytea, text, bigint, text) IS 'As chash_check_route(text, text, bigint, text), for the raw bytes of a bytea key.';
COMMENT ON FUNCTION chash_check_route(bigint, text, bigint, text) IS 'As chash_check_route(text, text, bigint, text), for a bigint key, hashed as its decimal text.';
COMMENT ON FUNCTION chash_check_route(uuid, text, bigint, text) IS 'As chash_check_route(text, text, bigint, text), for a uuid key, hashed as its 36 lower-case characters.';

CREATE FUNCTION chash_node_at(ring_position bigint, ring text DEFAULT 'default') RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION chash_node_at(bigint, text) IS 'As chash_node, for a position instead of a key. Errors: 22003 a position outside of the ring''s circle (for xxh3 every bigint is inside); others as chash_node.';

CREATE FUNCTION chash_hash_tag(key text) RETURNS text
	AS 'MODULE_PATHNAME', 'chash_hash_tag_sql' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
CREATE FUNCTION chash_hash_tag(key bytea) RETURNS bytea
	AS 'MODULE_PATHNAME', 'chash_hash_tag_sql' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1;
COMMENT ON FUNCTION chash_hash_tag(text) IS 'The part of a key that rings with hash_tags hash: what stands between the first { and the next } if that is not empty, otherwise the whole key. For indexes on chash_hash(chash_hash_tag(key)).';
COMMENT ON FUNCTION chash_hash_tag(bytea) IS 'As chash_hash_tag(text), for the raw bytes of a bytea key.';

-- ---------------------------------------------------------------------------
-- Rings and nodes: changes.  SECURITY DEFINER, and not for PUBLIC: EXECUTE is
-- the right to change rings.
-- ---------------------------------------------------------------------------

CREATE FUNCTION chash_create_ring(ring text DEFAULT 'default', placement text DEFAULT 'vnodes', hash text DEFAULT 'xxh3', vnodes integer DEFAULT NULL, partitions integer DEFAULT NULL, hash_tags boolean DEFAULT NULL, secret bytea DEFAULT NULL, replicas integer DEFAULT 1) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
CREATE FUNCTION chash_drop_ring(ring text DEFAULT 'default') RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
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
CREATE FUNCTION chash_copy_ring(from_ring text, to_ring text) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
CREATE FUNCTION chash_import(definition jsonb, ring text DEFAULT NULL) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
CREATE FUNCTION chash_prune_history(ring text DEFAULT 'default', keep bigint DEFAULT 100) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
CREATE FUNCTION chash_export(ring text DEFAULT 'default') RETURNS jsonb
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 1000;

REVOKE ALL ON FUNCTION
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
	FROM PUBLIC, pg_database_owner;
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

COMMENT ON FUNCTION chash_create_ring(text, text, text, integer, integer, boolean, bytea, integer) IS 'Creates a ring without nodes and returns its epoch, 1. placement is vnodes, partitions or tokens; hash is xxh3; vnodes (1 to 65536, 256 by default) goes with placement vnodes and partitions (a power of two from 1 to 1048576, 16384 by default) with placement partitions; hash_tags hashes only what stands between the first { and the next } of a key; secret is for hashes that take one, and xxh3 does not; replicas (1 to 1000) is what plans assume. Errors: 42710 the ring exists; 22023 a value that is not allowed.';
COMMENT ON FUNCTION chash_drop_ring(text) IS 'Drops a ring with its nodes and its history. Error: 42704 unknown ring.';
COMMENT ON FUNCTION chash_add_node(text, text, numeric, text, jsonb, bigint[], bigint) IS 'Adds a node to a ring and returns the new epoch. weight is 0 to 999999.999 with at most three decimals, relative to the other nodes; tokens, the positions of its points, are for placement tokens, which needs them. Errors: 42704 unknown ring; 42710 the ring has that node; 22023 a value that is not allowed; 54000 more than 16777216 points, or more nodes than partitions; 55000 the ring is not at epoch if_epoch (NULL: any), or comes by subscription.';
COMMENT ON FUNCTION chash_remove_node(text, text, bigint) IS 'Removes a node from a ring and returns the new epoch. Error: 42704 unknown ring or node.';
COMMENT ON FUNCTION chash_set_node(text, text, numeric, text, jsonb, bigint[], bigint) IS 'Changes what is given of a node, leaves what is NULL as it is, and returns the epoch, which is new unless nothing was different. (chash_apply can also set a zone or info to NULL.) Errors as chash_add_node; 42704 unknown ring or node.';
COMMENT ON FUNCTION chash_mark_down(text, text, bigint) IS 'Marks a node as down, so that lookups pass it over, and returns the epoch. It keeps its points: nothing moves. Error: 42704 unknown ring or node.';
COMMENT ON FUNCTION chash_mark_up(text, text, bigint) IS 'Marks a node as up again and returns the epoch. Error: 42704 unknown ring or node.';
COMMENT ON FUNCTION chash_apply(jsonb, text, jsonb, bigint) IS 'Makes several changes of a ring''s nodes as one epoch and returns it. changes is an object with a member per node: an object with any of weight, zone, info, tokens and state (up or down) adds the node or changes what is given; null removes it. A weight can be a string, such as "2.5". For example {"d": {"weight": 2, "zone": "b"}, "a": null}. pins must be NULL in this version. Errors as chash_add_node; 22023 malformed changes; 0A000 pins.';
COMMENT ON FUNCTION chash_copy_ring(text, text) IS 'Creates ring to_ring with the same settings and nodes as from_ring, thus the same fingerprint, at epoch 1 and without history; returns 1. Errors: 42704 from_ring is unknown; 42710 to_ring exists.';
COMMENT ON FUNCTION chash_import(jsonb, text) IS 'Creates a ring from what chash_export gave, at the exported epoch, without history before it, and returns that epoch. The ring gets the name that it had unless another is given. Errors: 42710 the ring exists; 22023 the definition is damaged: a member is missing, unknown or not allowed, or the fingerprint does not match.';
COMMENT ON FUNCTION chash_prune_history(text, bigint) IS 'Forgets the ring''s history except the keep epochs before the present one (keep from 0), and returns how many epochs were forgotten. Errors: 42704 unknown ring; 22023 keep is negative.';
COMMENT ON FUNCTION chash_export(text) IS 'The whole definition of a ring with its epoch and fingerprint, info included, for chash_import and for programs that compute routes themselves. Error: 42704 unknown ring.';

-- ---------------------------------------------------------------------------
-- Rings and nodes: reading
-- ---------------------------------------------------------------------------

CREATE FUNCTION chash_rows_support(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
REVOKE ALL ON FUNCTION chash_rows_support(internal) FROM PUBLIC, pg_database_owner;
COMMENT ON FUNCTION chash_rows_support(internal) IS 'Planner support: how many rows the set-returning functions give, from the ring itself where its name is a constant.';

CREATE FUNCTION chash_fingerprint(ring text DEFAULT 'default') RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 1000;
CREATE FUNCTION chash_points(ring text DEFAULT 'default') RETURNS TABLE ("position" bigint, node text)
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 1000 ROWS 10000 SUPPORT chash_rows_support;
CREATE FUNCTION chash_ranges(ring text DEFAULT 'default', node text DEFAULT NULL) RETURNS TABLE (lo bigint, hi bigint, node text, share double precision)
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 1000 ROWS 10000 SUPPORT chash_rows_support;
CREATE FUNCTION chash_balance(ring text DEFAULT 'default') RETURNS TABLE (node text, weight numeric, zone text, points bigint, share double precision, expected double precision, ratio double precision, bar text)
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 1000 ROWS 100 SUPPORT chash_rows_support;

COMMENT ON FUNCTION chash_fingerprint(text) IS 'Hash (32 hexadecimal digits, XXH3_128bits) of everything that decides ownership: placement, hash, vnodes, partitions, hash tags, and each node''s name, weight, zone, tokens and partitions; not info, not up or down. Equal fingerprints mean the same map on any machine. Error: 42704 unknown ring.';
COMMENT ON FUNCTION chash_points(text) IS 'Every point of a ring with the node that holds it, in the order of the circle; points that lost a tie for one position to a node with a smaller name are included. Error: 42704 unknown ring.';
COMMENT ON FUNCTION chash_ranges(text, text) IS 'The ranges of positions, both ends included, that each node owns, in the order of the circle; neighbours of one owner are merged, and a range that wraps is two rows. share is the part of the circle, 0 to 1. With a node, its ranges alone. Error: 42704 unknown ring or node.';
COMMENT ON FUNCTION chash_balance(text) IS 'For each node: its points, its share of the circle (0 to 1), the share expected from its weight, the ratio of the two (1 is perfect; NULL if none is expected), and a bar, where twenty characters are a ratio of 1. Error: 42704 unknown ring.';

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

-- ---------------------------------------------------------------------------
-- Plans
-- ---------------------------------------------------------------------------

CREATE FUNCTION chash_rebalance_plan(ring text DEFAULT 'default', changes jsonb DEFAULT NULL, replicas integer DEFAULT NULL, pins jsonb DEFAULT NULL)
	RETURNS TABLE (lo bigint, hi bigint, from_node text, to_node text, share double precision)
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 10000 ROWS 1000 SUPPORT chash_rows_support;
CREATE FUNCTION chash_epoch_diff(ring text DEFAULT 'default', from_epoch bigint DEFAULT NULL, to_epoch bigint DEFAULT NULL, replicas integer DEFAULT NULL)
	RETURNS TABLE (lo bigint, hi bigint, from_node text, to_node text, share double precision)
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 10000 ROWS 1000 SUPPORT chash_rows_support;
CREATE FUNCTION chash_ring_diff(from_ring text, to_ring text, replicas integer DEFAULT NULL)
	RETURNS TABLE (lo bigint, hi bigint, from_node text, to_node text, share double precision)
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 10000 ROWS 1000 SUPPORT chash_rows_support;
CREATE FUNCTION chash_rebalance_summary(ring text DEFAULT 'default', changes jsonb DEFAULT NULL, replicas integer DEFAULT NULL)
	RETURNS TABLE (from_node text, to_node text, ranges bigint, share double precision, from_before double precision, from_after double precision, to_before double precision, to_after double precision)
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE COST 10000 ROWS 100 SUPPORT chash_rows_support;

COMMENT ON FUNCTION chash_rebalance_plan(text, jsonb, integer, jsonb) IS 'What would move if changes (as for chash_apply) were made: the ranges of positions, both ends included, whose owner would differ, with the owners before and after. Changes nothing. With replicas above 1 (NULL: the ring''s setting) a row says that to_node joins the replica set of the range and copies from from_node, the node that leaves it or else a holder; to_node is NULL where a node only leaves, from_node where there was none. Ordered by lo; neighbours with equal rows are merged; share is the part of the circle, 0 to 1. Without changes: what an open migration has still to move, which is nothing in this version. A NOTICE says why there are no rows. pins must be NULL in this version. Errors: 42704 unknown ring; 22023 malformed changes or replicas out of 1 to 1000; 0A000 pins; others as chash_add_node.';
COMMENT ON FUNCTION chash_epoch_diff(text, bigint, bigint, integer) IS 'What moved between two epochs of a ring, as chash_rebalance_plan gives it. to_epoch is the present epoch if NULL, from_epoch the one before to_epoch (no rows if there was none). Errors: 42704 unknown ring; 22023 an epoch that is still to come, that never was or that has been pruned away, or replicas out of 1 to 1000.';
COMMENT ON FUNCTION chash_ring_diff(text, text, integer) IS 'How two rings differ, as chash_rebalance_plan gives it: the ranges whose owner in to_ring is not that in from_ring. Errors: 42704 unknown ring; 22023 the rings hash keys differently, or replicas out of 1 to 1000.';
COMMENT ON FUNCTION chash_rebalance_summary(text, jsonb, integer) IS 'chash_rebalance_plan summed up: for each pair of nodes the number of ranges and the share of the circle that would move, and what part of the circle (0 to 1) each of the two holds before and after. Errors as chash_rebalance_plan.';

-- ---------------------------------------------------------------------------
-- The shared cache
-- ---------------------------------------------------------------------------

CREATE FUNCTION chash_cache_rings(OUT database_oid oid, OUT ring text, OUT epoch bigint, OUT is_past boolean, OUT fingerprint text, OUT points bigint, OUT bytes bigint, OUT pins integer, OUT hits bigint, OUT builds bigint, OUT fallbacks bigint, OUT last_used timestamp with time zone)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL SAFE COST 1000 ROWS 100;
CREATE FUNCTION chash_cache_reset() RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
REVOKE ALL ON FUNCTION chash_cache_reset() FROM PUBLIC, pg_database_owner;

CREATE VIEW chash_cache AS
SELECT d.datname AS database, c.ring, c.epoch, c.is_past, c.fingerprint, c.points, c.bytes, c.pins, c.hits, c.builds, c.fallbacks, c.last_used
FROM chash_cache_rings() AS c
	LEFT JOIN pg_catalog.pg_database AS d ON d.oid OPERATOR(pg_catalog.=) c.database_oid;
REVOKE ALL ON TABLE chash_cache FROM PUBLIC, pg_database_owner;
GRANT SELECT ON TABLE chash_cache TO PUBLIC;

COMMENT ON FUNCTION chash_cache_rings() IS 'What is in the shared cache; view chash_cache has the same with the names of databases.';
COMMENT ON FUNCTION chash_cache_reset() IS 'Empties the shared cache, of all databases, and its counters; what transactions are using goes when they end. For superusers. Error: 42501 not a superuser.';
COMMENT ON VIEW chash_cache IS 'The built rings in shared memory, one row for each version of a ring, and at times one without a name that counts those for which there was not even a row. Those of other databases are shown to members of pg_read_all_stats only. Empty if there is no shared cache.';
COMMENT ON COLUMN chash_cache.database IS 'The database that the ring is in; NULL if it has been dropped.';
COMMENT ON COLUMN chash_cache.ring IS 'Name of the ring; NULL in the row that counts those without a row of their own.';
COMMENT ON COLUMN chash_cache.epoch IS 'Epoch of the ring that was built.';
COMMENT ON COLUMN chash_cache.is_past IS 'Whether it was built for questions about that epoch as a past one, as chash_node_as_of asks them.';
COMMENT ON COLUMN chash_cache.fingerprint IS 'Fingerprint of the map; NULL for a past epoch.';
COMMENT ON COLUMN chash_cache.points IS 'Number of its points.';
COMMENT ON COLUMN chash_cache.bytes IS 'Shared memory that it takes; 0 if there was no room for it.';
COMMENT ON COLUMN chash_cache.pins IS 'Sessions whose transaction is using it.';
COMMENT ON COLUMN chash_cache.hits IS 'How often a transaction found it here.';
COMMENT ON COLUMN chash_cache.builds IS 'How often it was built.';
COMMENT ON COLUMN chash_cache.fallbacks IS 'How often a session kept it for itself, since there was no room.';
COMMENT ON COLUMN chash_cache.last_used IS 'When a transaction last began to use it.';

-- ---------------------------------------------------------------------------
-- Nobody has a right but by what is said above: default privileges of whoever
-- runs this script have given some to other roles.  This must stand at the end.
-- ---------------------------------------------------------------------------

DO LANGUAGE plpgsql $$
DECLARE
	revocation pg_catalog.text;
BEGIN
	FOR revocation IN
		SELECT DISTINCT pg_catalog.format('REVOKE ALL ON %s %s FROM %I', o.kind, o.name, r.rolname)
		FROM pg_catalog.pg_extension AS e
			JOIN pg_catalog.pg_depend AS d ON d.refclassid OPERATOR(pg_catalog.=) e.tableoid AND d.refobjid OPERATOR(pg_catalog.=) e.oid
			JOIN (
				SELECT tableoid, oid, 'TABLE', oid::pg_catalog.regclass::pg_catalog.text, relowner, relacl FROM pg_catalog.pg_class
				UNION ALL
				SELECT tableoid, oid, 'FUNCTION', oid::pg_catalog.regprocedure::pg_catalog.text, proowner, proacl FROM pg_catalog.pg_proc
			) AS o (classid, oid, kind, name, owner, acl) ON o.classid OPERATOR(pg_catalog.=) d.classid AND o.oid OPERATOR(pg_catalog.=) d.objid,
			LATERAL pg_catalog.aclexplode(o.acl) AS a
			JOIN pg_catalog.pg_roles AS r ON r.oid OPERATOR(pg_catalog.=) a.grantee
		WHERE e.extname OPERATOR(pg_catalog.=) 'chash' AND d.deptype OPERATOR(pg_catalog.=) 'e'
			AND r.oid OPERATOR(pg_catalog.<>) o.owner AND r.rolname OPERATOR(pg_catalog.<>) 'pg_database_owner'
	LOOP
		EXECUTE revocation;
	END LOOP;
END
$$;
