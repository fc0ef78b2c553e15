-- PL/pgSQL may check the constraints of a domain without an active snapshot, where a COMMIT has
-- ended the one that there was.  Whatever reads a ring takes one for itself.
SELECT chash_create_ring(), chash_apply('{"a": {}, "b": {}, "c": {}}');
CREATE ROLE regress_chash_nobody;
-- A domain for each function, and a loop over values of it: each gets into the loop's variable
-- right after a COMMIT.
CREATE VIEW asked AS
SELECT call, format('CREATE DOMAIN checked AS %s CHECK (VALUE IS NULL OR %s IS NOT NULL)', type, call) AS domain,
       format($do$
              DO $body$
              DECLARE
                  number int := 0;
                  value checked;
              BEGIN
                  FOR value IN SELECT %L::%s FROM generate_series(1, 3) LOOP
                      number := number + length(chash_node(number));
                      COMMIT;
                  END LOOP;
                  RAISE NOTICE '%s, %% times', number;
              END $body$ $do$, value, type, replace(call, 'VALUE', type)) AS loop
  FROM (SELECT replace(call, 'KEY', 'VALUE'), type, value
          FROM (VALUES ('text', 'apple'), ('bytea', '\x00ff'), ('bigint', '42'),
                       ('uuid', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')) AS k(type, value),
               unnest('{chash_node(KEY),"chash_replicas(KEY, 2)",chash_position(KEY),(chash_route(KEY)).node,
                        "chash_node_as_of(KEY, 2)","chash_check_route(KEY, chash_node(KEY), 2)",chash_hash(KEY)}'::text[]) AS call
        UNION ALL
        SELECT * FROM (VALUES ('chash_node_at(VALUE)', 'bigint', '7'), ('chash_fingerprint(VALUE)', 'text', 'default'),
                              ('chash_export(VALUE)', 'text', 'default')) AS v) AS a(call, type, value);
\set ECHO none
SELECT step FROM asked, unnest(ARRAY[domain, loop, 'DROP DOMAIN checked']) WITH ORDINALITY AS s(step, number)
 ORDER BY call, domain, number \gexec
\set ECHO all
-- The same for a role without any rights on chash.
GRANT CREATE ON SCHEMA public TO regress_chash_nobody;
GRANT SELECT ON asked TO regress_chash_nobody;
SET ROLE regress_chash_nobody;
\set ECHO none
SELECT step FROM asked, unnest(ARRAY[domain, loop, 'DROP DOMAIN checked']) WITH ORDINALITY AS s(step, number)
 WHERE call LIKE 'chash_node(%' ORDER BY call, domain, number \gexec
\set ECHO all
RESET ROLE;
-- Each check sees what is committed when it is made: here by the loop itself, which goes on
-- until a key lives elsewhere.
SELECT chash_apply('{"a": null, "c": null}');
CREATE DOMAIN on_b AS text CHECK (VALUE IS NULL OR chash_node(VALUE) = 'b');
DO $$
DECLARE
	here on_b;
BEGIN
	FOR here IN SELECT k::text FROM generate_series(1, 3) k LOOP
		IF here = '2' THEN
			PERFORM chash_apply('{"b": null, "c": {}}');
		END IF;
		RAISE NOTICE '% lives on b', here;
		COMMIT;
	END LOOP;
END $$;
-- Errors are what they always are.
CREATE DOMAIN nowhere AS text CHECK (VALUE IS NULL OR chash_node(VALUE, 'nowhere') IS NOT NULL);
DO $$
DECLARE
	here nowhere;
BEGIN
	FOR here IN SELECT NULL UNION ALL SELECT 'apple' LOOP
		COMMIT;
	END LOOP;
END $$;
DROP DOMAIN on_b, nowhere;
DROP VIEW asked;
REVOKE CREATE ON SCHEMA public FROM regress_chash_nobody;
DROP ROLE regress_chash_nobody;
SELECT chash_drop_ring();
