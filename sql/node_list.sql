-- Who may not read info lists nodes by a view that has all else.
SELECT chash_create_ring(), chash_add_node('a', weight => 2, zone => 'east', info => '{"dsn": "host=a"}'), chash_add_node('b');
SELECT attname FROM pg_attribute WHERE attrelid = 'chash_nodes'::regclass AND attnum > 0
EXCEPT SELECT attname FROM pg_attribute WHERE attrelid = 'chash_node_list'::regclass;
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'chash_node_list'::regclass AND attnum > 0
EXCEPT SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'chash_nodes'::regclass;
CREATE ROLE regress_chash_reader;
SET ROLE regress_chash_reader;
SELECT * FROM chash_node_list ORDER BY node;
SELECT * FROM chash_nodes;
INSERT INTO chash_node_list (node) VALUES ('c');
DELETE FROM chash_node_list;
RESET ROLE;
DROP ROLE regress_chash_reader;
SELECT chash_drop_ring();
