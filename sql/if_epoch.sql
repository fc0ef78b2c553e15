-- A change with if_epoch is made only if the ring is still at that epoch.
SELECT chash_create_ring(vnodes => 16), chash_apply('{"a": {}, "b": {}}', if_epoch => 1);
SELECT chash_add_node('c', if_epoch => 2), chash_set_node('c', weight => 2, if_epoch => 3), chash_mark_down('c', if_epoch => 4), chash_mark_up('c', if_epoch => 5), chash_remove_node('c', if_epoch => 6);

-- The plan was made for another epoch.
SELECT chash_apply('{"d": {}}', if_epoch => 6);
SELECT chash_add_node('d', if_epoch => 8);
SELECT chash_set_node('a', weight => 3, if_epoch => 0);
SELECT chash_mark_down('a', if_epoch => -1);
SELECT chash_mark_up('a', if_epoch => 9223372036854775807);
SELECT chash_remove_node('a', if_epoch => 1);
SELECT epoch, fingerprint = chash_fingerprint() AS intact, (SELECT string_agg(node, ' ' ORDER BY node) FROM chash_nodes) AS nodes FROM chash_rings;

-- Where nothing differs the epoch has to be right all the same; NULL asks for none.
SELECT chash_mark_up('a', if_epoch => 6);
SELECT chash_mark_up('a', if_epoch => 7), chash_mark_up('a', if_epoch => NULL), chash_apply('{}', if_epoch => NULL);

-- A statement that has touched the ring stands for the epoch that it began with.
UPDATE chash_nodes SET weight = 2 WHERE node = 'a' RETURNING chash_add_node('e', if_epoch => 7);
SELECT epoch, fingerprint = chash_fingerprint() AS intact FROM chash_rings;
SELECT chash_drop_ring();
