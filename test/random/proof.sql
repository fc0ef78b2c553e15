-- What the sessions of nested_changes.py need in their database.  Everything is named in
-- full, since triggers run with the search_path of chash's own functions.

CREATE SCHEMA proof;

-- A ring that is dropped and made anew under its name is another ring.  (Written by the
-- owner's triggers, if there are any.)  Nothing is ever changed here, so that nobody has
-- to wait, or to fail, on account of this table.
CREATE TABLE proof.incarnations (ring text COLLATE "C", incarnation bigserial, PRIMARY KEY (ring, incarnation));

-- A ring's row and its nodes, and what lookups say of a few keys, all in one statement.
CREATE VIEW proof.rows AS
SELECT r.ring,
	EXISTS (SELECT FROM public.chash_nodes AS n WHERE n.ring = r.ring AND n.weight > 0 AND n.state = 'up') AS routable,
	json_build_array(r.ring, (SELECT max(i.incarnation) FROM proof.incarnations AS i WHERE i.ring = r.ring),
		r.placement, r.vnodes, r.partitions, r.hash_tags, r.replicas, r.epoch, r.history_from, r.fingerprint,
		(SELECT json_agg(json_build_array(n.node, n.weight * 1000, n.zone, n.state, n.tokens, n.held_partitions, n.info, n.epoch) ORDER BY n.node)
			FROM public.chash_nodes AS n WHERE n.ring = r.ring)) AS rows
FROM public.chash_rings AS r;

CREATE VIEW proof.rings AS
SELECT json_build_array(rows, CASE WHEN routable THEN json_build_array(
		public.chash_node('key 1', ring), public.chash_node('key 2', ring), public.chash_node('key 3', ring),
		public.chash_node('{tag}4', ring), public.chash_node('{tag}5', ring), public.chash_node(6, ring),
		array_to_string(public.chash_replicas('key 7', 2, ring), ' '), array_to_string(public.chash_replicas(8, 3, ring), ' ')) END)::text AS line
FROM proof.rows;

-- The same for the middle of a statement, where partitions may lack an owner.
CREATE FUNCTION proof.routes_meanwhile(ring text) RETURNS json LANGUAGE plpgsql AS $$
BEGIN
	RETURN json_build_array(
		public.chash_node('key 1', ring), public.chash_node('key 2', ring), public.chash_node('key 3', ring),
		public.chash_node('{tag}4', ring), public.chash_node('{tag}5', ring), public.chash_node(6, ring),
		array_to_string(public.chash_replicas('key 7', 2, ring), ' '), array_to_string(public.chash_replicas(8, 3, ring), ' '));
EXCEPTION WHEN OTHERS THEN
	RETURN to_json(SQLSTATE || ' ' || SQLERRM);
END
$$;

-- What a session sees in the middle of its statements goes to pg_temp.seen, and is rolled
-- back with them.
CREATE FUNCTION proof.look() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO pg_temp.seen (lines)
	SELECT array_agg(json_build_array(rows, CASE WHEN routable THEN proof.routes_meanwhile(ring) END)::text) FROM proof.rows;
END
$$;

-- Runs statements, and looks after each.
CREATE FUNCTION proof.run(VARIADIC statements text[]) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	statement text;
BEGIN
	FOREACH statement IN ARRAY statements LOOP
		EXECUTE statement;
		PERFORM proof.look();
	END LOOP;
	RETURN true;
END
$$;

-- The same, but only at the first of several calls with one number.
CREATE FUNCTION proof.run_once(number int, VARIADIC statements text[]) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	ran text := coalesce(current_setting('proof.ran', true), '');
BEGIN
	IF strpos(ran, format(' %s ', number)) = 0 THEN
		PERFORM set_config('proof.ran', format('%s %s ', right(ran, 100), number), false);
		PERFORM proof.run(VARIADIC statements);
	END IF;
	RETURN true;
END
$$;

-- The same, undone by an error; one of the statements', or one that is raised after them.
CREATE FUNCTION proof.attempt(fail boolean, VARIADIC statements text[]) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	BEGIN
		PERFORM proof.run(VARIADIC statements);
		IF fail THEN
			RAISE EXCEPTION 'undone' USING ERRCODE = 'PROOF';
		END IF;
	EXCEPTION WHEN OTHERS THEN
		INSERT INTO pg_temp.seen (problem) VALUES (SQLSTATE || ' ' || SQLERRM);
	END;
	PERFORM proof.look();
	RETURN true;
END
$$;

-- The owner's triggers on chash_nodes: each runs a statement that it finds in the setting
-- of its name, once, after as many rows as the number before it says.
CREATE FUNCTION proof.meanwhile() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	setting text := current_setting('proof.' || tg_name, true);
	rows int;
BEGIN
	IF setting <> '' THEN
		rows := split_part(setting, ' ', 1)::int;
		IF rows > 0 THEN
			PERFORM set_config('proof.' || tg_name, format('%s%s', rows - 1, substr(setting, strpos(setting, ' '))), false);
			RETURN CASE tg_op WHEN 'DELETE' THEN old ELSE new END;
		END IF;
		PERFORM set_config('proof.' || tg_name, '', false);
		EXECUTE substr(setting, strpos(setting, ' '));
		PERFORM proof.look();
	END IF;
	RETURN CASE tg_op WHEN 'DELETE' THEN old ELSE new END;
END
$$;
