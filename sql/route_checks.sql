-- chash_check_route, where it can stand in a statement that writes, and which epochs it refuses.
SELECT chash_create_ring(), chash_apply('{"a": {}, "b": {}}');
CREATE TABLE orders (id bigint PRIMARY KEY, item text);
CREATE TABLE source (id bigint, item text);
INSERT INTO source VALUES (42, 'tea');
-- What a statement does: CHECK in it stands for a check that fails.
CREATE FUNCTION outcome(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	number int;
BEGIN
	EXECUTE replace(statement, 'CHECK', 'chash_check_route(42, ''nobody'', 2)');
	GET DIAGNOSTICS number = ROW_COUNT;
	RAISE EXCEPTION 'took back' USING ERRCODE = 'TB000', DETAIL = number;
EXCEPTION
	WHEN SQLSTATE 'RT001' THEN
		RETURN 'refused';
	WHEN SQLSTATE 'TB000' THEN
		GET STACKED DIAGNOSTICS statement = PG_EXCEPTION_DETAIL;
		RETURN CASE statement WHEN '0' THEN 'nothing written' ELSE 'WRITTEN UNCHECKED' END;
END $$;
-- These always check.
SELECT statement, outcome(statement) FROM unnest(ARRAY[
	'INSERT INTO orders SELECT 42, ''tea'' FROM CHECK',
	'INSERT INTO orders SELECT s.* FROM source s, CHECK',
	'INSERT INTO orders SELECT s.* FROM source s JOIN CHECK ON true',
	'INSERT INTO orders SELECT s.* FROM source s, LATERAL (SELECT CHECK) c',
	'INSERT INTO orders SELECT 42, ''tea'' FROM (SELECT CHECK) c',
	'INSERT INTO orders SELECT 42, ''tea'' FROM (SELECT CHECK OFFSET 0) c',
	'WITH c AS (SELECT CHECK) INSERT INTO orders SELECT 42, ''tea'' FROM c',
	'WITH c AS MATERIALIZED (SELECT CHECK) INSERT INTO orders SELECT 42, ''tea'' FROM c',
	'WITH c AS NOT MATERIALIZED (SELECT CHECK) INSERT INTO orders SELECT 42, ''tea'' FROM c',
	'INSERT INTO orders SELECT 42, ''tea'' WHERE EXISTS (SELECT FROM CHECK)',
	'INSERT INTO orders SELECT 42, ''tea'' WHERE (SELECT true FROM CHECK)',
	'INSERT INTO orders SELECT 42, ''tea'' WHERE CHECK IS NOT NULL',
	'INSERT INTO orders SELECT 42, ''tea'' WHERE 1 IN (SELECT 1 FROM CHECK)',
	'INSERT INTO orders SELECT 42, (SELECT ''tea'' FROM CHECK)',
	'INSERT INTO orders SELECT DISTINCT 42, ''tea'' FROM CHECK',
	'INSERT INTO orders SELECT 42, min(''tea'') FROM CHECK',
	'INSERT INTO orders VALUES (42, (SELECT ''tea'' FROM CHECK))',
	'INSERT INTO orders VALUES (42, ''tea'') RETURNING CHECK',
	'MERGE INTO orders USING (SELECT 42 AS id FROM CHECK) n ON n.id = orders.id WHEN NOT MATCHED THEN INSERT VALUES (n.id, ''tea'')',
	'UPDATE source SET item = ''tea'' FROM CHECK WHERE id = 42',
	'UPDATE source SET item = ''tea'' WHERE id = 42 AND EXISTS (SELECT FROM CHECK)',
	'UPDATE source SET item = ''tea'' WHERE id = 42 AND CHECK IS NOT NULL',
	'UPDATE source SET item = (SELECT ''tea'' FROM CHECK)',
	'DELETE FROM source USING CHECK WHERE id = 42',
	'DELETE FROM source WHERE id = 42 AND EXISTS (SELECT FROM CHECK)',
	'SELECT count(*) FROM (SELECT CHECK) c']) statement;
-- With no row to write, these refuse too: the check is made once, and first.  So do reads.
SELECT statement, outcome(statement) FROM unnest(ARRAY[
	'UPDATE orders SET item = ''tea'' WHERE id = 42 AND EXISTS (SELECT FROM CHECK)',
	'DELETE FROM orders WHERE id = 42 AND EXISTS (SELECT FROM CHECK)',
	'SELECT * FROM orders WHERE id = 42 AND EXISTS (SELECT FROM CHECK)',
	'SELECT * FROM orders WHERE id = 42 AND (SELECT true FROM CHECK)']) statement;
-- These need not come to the check when there is no row; then nothing is written.
SELECT statement, outcome(statement) <> 'WRITTEN UNCHECKED' AS safe FROM unnest(ARRAY[
	'UPDATE orders SET item = ''tea'' FROM CHECK WHERE id = 42',
	'UPDATE orders SET item = ''tea'' WHERE id = 42 AND CHECK IS NOT NULL',
	'DELETE FROM orders WHERE id = 42 RETURNING CHECK',
	'INSERT INTO orders SELECT 42, ''tea'' FROM CHECK LIMIT 0',
	'INSERT INTO orders SELECT 42, ''tea'' FROM (SELECT CHECK LIMIT 0) c',
	'INSERT INTO orders SELECT o.* FROM orders o, CHECK']) statement;
-- And these are traps: PostgreSQL does not run what nothing depends on.
SELECT statement, outcome(statement) FROM unnest(ARRAY[
	'WITH c AS (SELECT CHECK) INSERT INTO orders VALUES (42, ''tea'')',
	'WITH c AS MATERIALIZED (SELECT CHECK) INSERT INTO orders VALUES (42, ''tea'')',
	'INSERT INTO orders SELECT 42, ''tea'' WHERE EXISTS (SELECT CHECK)',
	'INSERT INTO orders SELECT s.* FROM source s WHERE EXISTS (SELECT CHECK FROM source)',
	'INSERT INTO orders SELECT s.* FROM source s LEFT JOIN (SELECT DISTINCT 42 AS id FROM CHECK) c USING (id)',
	'INSERT INTO orders SELECT s.* FROM source s LEFT JOIN CHECK ON false']) statement;
-- The safe form lets pass whoever is right, once for each row.
INSERT INTO orders SELECT 42, 'tea' FROM chash_check_route(42, chash_node(42), 2);
UPDATE orders SET item = 'coffee' WHERE id = 42 AND EXISTS (SELECT FROM chash_check_route(42, chash_node(42), 2)) RETURNING *;
SELECT o.item FROM orders o, chash_check_route(o.id, chash_node(o.id), 2);
-- A NULL key lives nowhere, and passes.
SELECT 'passed' FROM chash_check_route(NULL::bigint, 'a', 2);
-- An epoch that the ring has not come to.  Where it is changed, it cannot be late.
SELECT chash_check_route(42, 'a', 3);
SELECT chash_drop_ring(), chash_create_ring();
SELECT chash_add_node('a');
SELECT chash_check_route(42, 'a', 3);
-- Except under an older snapshot: here a cursor's.
BEGIN;
DECLARE checks CURSOR FOR SELECT chash_check_route(42, 'a', 3);
SELECT chash_add_node('b');
FETCH checks;
ROLLBACK;
-- What was rolled back never was.
SELECT chash_check_route(42, 'a', 3);
DROP FUNCTION outcome;
DROP TABLE orders, source;
SELECT chash_drop_ring();
