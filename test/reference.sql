-- Prints docs/reference.md, out of the catalog.  reference.sh runs it, with
-- psql -X -q -At, in an empty database.  It ends with an error if a function,
-- table or column of the extension has no comment, or if a function is in none
-- of the groups below.

\set ON_ERROR_STOP on
SET client_min_messages = warning;
SET search_path = public;

CREATE EXTENSION chash;
LOAD 'chash';

-- Where each function stands in the reference.
CREATE TEMP TABLE placed (number integer GENERATED ALWAYS AS IDENTITY, heading text, name text);
INSERT INTO placed (heading, name)
SELECT v.heading, name
FROM (VALUES
	(1, 'Lookup', '{chash_node,chash_replicas,chash_hash,chash_position,chash_route,chash_node_as_of,chash_check_route,chash_node_at,chash_hash_tag}'::text[]),
	(2, 'Changes', '{chash_create_ring,chash_drop_ring,chash_add_node,chash_remove_node,chash_set_node,chash_mark_down,chash_mark_up,chash_apply,chash_copy_ring,chash_import,chash_export,chash_prune_history}'),
	(3, 'Reading', '{chash_fingerprint,chash_points,chash_ranges,chash_balance}'),
	(4, 'Shared cache', '{chash_cache_rings,chash_cache_reset}'),
	(5, 'Plans', '{chash_rebalance_plan,chash_rebalance_summary,chash_epoch_diff,chash_ring_diff}'),
	(6, 'Inside', '{chash_before_statement,chash_after_statement,chash_before_truncate,chash_rings_before_row,chash_rings_after_row,chash_nodes_before_row,chash_history_before_row,chash_hash_support,chash_rows_support}')
) AS v(number, heading, names), unnest(names) WITH ORDINALITY AS u(name, place)
ORDER BY v.number, place;

-- Makes code of what stands for a name, a call or a constant in a comment, so
-- that Markdown shows it as it is.
CREATE FUNCTION pg_temp.marked(comment text) RETURNS text LANGUAGE sql AS $$
SELECT replace(replace(
	regexp_replace(
		regexp_replace(comment, '(\mchash_[a-z_]+(\(([a-z0-9_, \[\]]|\([a-z]+\))*\))?)', '`\1`', 'g'),
		'(\{"[^.]*\}+)', '`\1`', 'g'),
	' { ', ' `{` '), ' } ', ' `}` ')
$$;

CREATE TEMP TABLE functions AS
SELECT p.oid, p.proname AS name, p.provolatile, p.proisstrict, p.proparallel, p.prosecdef,
       regexp_replace(pg_get_function_arguments(p.oid), '(DEFAULT (''[^'']*''|NULL))::[a-z ]+(\[\])?', '\1', 'g') AS arguments,
       pg_get_function_result(p.oid) AS result,
       has_function_privilege('public', p.oid, 'EXECUTE') AS open,
       obj_description(p.oid, 'pg_proc') AS comment
FROM pg_depend AS d JOIN pg_proc AS p ON p.oid = d.objid
WHERE d.classid = 'pg_proc'::regclass AND d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass
  AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'chash');

CREATE TEMP TABLE tables AS
SELECT c.oid, c.relname AS name, obj_description(c.oid, 'pg_class') AS comment
FROM pg_depend AS d JOIN pg_class AS c ON c.oid = d.objid
WHERE d.classid = 'pg_class'::regclass AND d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass
  AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'chash') AND c.relkind IN ('r', 'v', 'm', 'p', 'f');

CREATE TEMP TABLE columns AS
SELECT t.oid, t.name AS table_name, a.attnum AS number, a.attname AS name,
       format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull,
       pg_get_expr(e.adbin, e.adrelid) AS "default",
       has_column_privilege('public', t.oid, a.attnum, 'SELECT') AS open,
       col_description(t.oid, a.attnum) AS comment
FROM tables AS t
JOIN pg_attribute AS a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef AS e ON e.adrelid = a.attrelid AND e.adnum = a.attnum;

DO $$
DECLARE
	missing text;
BEGIN
	SELECT string_agg(what, ', ' ORDER BY what) INTO missing
	FROM (SELECT 'function ' || oid::regprocedure FROM functions WHERE comment IS NULL
	      UNION ALL SELECT 'table ' || name FROM tables WHERE comment IS NULL
	      UNION ALL SELECT format('column %s.%s', table_name, name) FROM columns WHERE comment IS NULL) AS v(what);
	IF missing IS NOT NULL THEN
		RAISE EXCEPTION 'without a comment: %', missing;
	END IF;

	SELECT string_agg(name, ', ' ORDER BY name) INTO missing
	FROM (SELECT DISTINCT name FROM functions FULL JOIN placed USING (name)
	      WHERE functions.oid IS NULL OR placed.number IS NULL) AS v;
	IF missing IS NOT NULL THEN
		RAISE EXCEPTION 'these functions are not both in the extension and in a group of reference.sql: %', missing;
	END IF;
END
$$;

-- One row per paragraph, in order.
CREATE TEMP TABLE lines (number integer GENERATED ALWAYS AS IDENTITY, line text);

INSERT INTO lines (line) VALUES
('# Reference

`bash test/reference.sh` makes this page from the comments in the catalog. In psql, `\df+ chash_*` and
`\d+ chash_rings` show the same.

If a function has an argument `ring`, leaving it out means the ring `default` (in `chash_import`, the name in the
definition). NULL for it is refused with 22004, except by strict functions, which give NULL for any NULL argument. All
arguments can be given by name. [guide.md](guide.md) has examples, [errors.md](errors.md) lists the errors, and
[clients.md](clients.md) has the rules that give positions and owners.');

INSERT INTO lines (line)
WITH overloads AS (
	SELECT name, count(*) AS number,
	       CASE WHEN count(*) > 1 OR max(length(arguments || result)) < 100
	            THEN string_agg(format('%s(%s) RETURNS %s', name, arguments, result), E'\n' ORDER BY oid)
	            ELSE format(E'%s(\n    %s\n) RETURNS %s', name, replace(max(arguments), ', ', E',\n    '), max(result))
	       END AS signatures,
	       string_agg(CASE WHEN provolatile = 'i' THEN 'Immutable' WHEN provolatile = 's' THEN 'Stable' ELSE 'Volatile' END
	                  || CASE WHEN proisstrict THEN ', strict' ELSE ', not strict' END
	                  || CASE proparallel WHEN 's' THEN ', parallel safe' WHEN 'r' THEN ', parallel restricted' ELSE ', parallel unsafe' END
	                  || CASE WHEN prosecdef THEN ', security definer' ELSE '' END
	                  || CASE WHEN open THEN '. Any role may call it.'
                          WHEN name = 'chash_cache_reset' THEN '. For superusers, whatever has been granted.' ELSE '. For the owner of the database, and whoever is granted EXECUTE.' END,
	                  E'\n' ORDER BY oid) AS properties,
	       count(DISTINCT (provolatile, proisstrict, proparallel, prosecdef, open)) AS kinds,
	       string_agg(CASE WHEN arguments LIKE 'key bytea%' THEN '- bytea: ' WHEN arguments LIKE 'key bigint%' THEN '- bigint: '
	                       WHEN arguments LIKE 'key uuid%' THEN '- uuid: ' ELSE '' END
	                  || pg_temp.marked(comment)
	                  || CASE WHEN arguments LIKE 'key text%' THEN E'\n' ELSE '' END,
	                  E'\n' ORDER BY oid) AS comments
	FROM functions GROUP BY name
)
SELECT CASE WHEN placed.number = min(placed.number) OVER (PARTITION BY placed.heading)
            THEN '## ' || CASE placed.heading WHEN 'Inside' THEN 'What works inside' ELSE placed.heading END || E'\n\n' ELSE '' END
       || format(E'### %s\n\n```sql no-run\n%s\n```\n\n%s\n\n%s', placed.name, signatures,
                 rtrim(comments, E'\n'),
                 CASE WHEN kinds = 1 THEN split_part(properties, E'\n', 1) ELSE properties END)
FROM overloads JOIN placed USING (name)
WHERE placed.heading <> 'Inside'
ORDER BY placed.number;

INSERT INTO lines (line)
SELECT '## Tables and views' WHERE EXISTS (SELECT FROM tables);

INSERT INTO lines (line)
SELECT format(E'### %s\n\n%s\n\n| column | type | default | PUBLIC may read it | |\n|---|---|---|---|---|\n%s%s',
              t.name, pg_temp.marked(t.comment),
              (SELECT string_agg(format('| `%s` | %s%s | %s | %s | %s |', c.name, c.type,
                                        CASE WHEN c.attnotnull THEN ', not null' ELSE '' END,
                                        coalesce('`' || c."default" || '`', ''),
                                        CASE WHEN c.open THEN 'yes' ELSE 'no' END,
                                        replace(pg_temp.marked(c.comment), '|', '\|')), E'\n' ORDER BY c.number)
               FROM columns AS c WHERE c.oid = t.oid),
              (SELECT E'\n\nPrimary key: ' || string_agg('`' || a.attname || '`', ', ' ORDER BY k.place) || '.'
               FROM pg_index AS i, unnest(i.indkey::smallint[]) WITH ORDINALITY AS k(attnum, place), pg_attribute AS a
               WHERE i.indrelid = t.oid AND i.indisprimary AND a.attrelid = t.oid AND a.attnum = k.attnum))
FROM tables AS t ORDER BY t.oid;

INSERT INTO lines (line)
SELECT E'## Settings\n\n| setting | default | from | to | who may set it | |\n|---|---|---|---|---|---|\n'
       || string_agg(format('| `%s` | %s%s | %s | %s | %s | %s |', name, boot_val, coalesce(' ' || unit, ''), min_val, max_val,
                            CASE context WHEN 'user' THEN 'anyone, at any time' WHEN 'postmaster' THEN 'the server, when it starts' ELSE context END,
                            short_desc || coalesce(' ' || extra_desc, '')), E'\n' ORDER BY name)
FROM pg_settings WHERE name LIKE 'chash.%';

INSERT INTO lines (line)
SELECT E'## What works inside\n\nPostgreSQL calls these; you do not.\n\n| function | |\n|---|---|\n'
       || string_agg(format('| `%s` | %s |', f.oid::regprocedure, pg_temp.marked(f.comment)), E'\n' ORDER BY placed.number)
FROM functions AS f JOIN placed USING (name) WHERE placed.heading = 'Inside';

SELECT string_agg(line, E'\n\n' ORDER BY number) FROM lines;
