# The owner of a database who is no superuser installs chash, manages rings, passes
# rights on, and dumps and restores his database.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $server = new_server('server');
my $directory = PostgreSQL::Test::Utils::tempdir;

$server->safe_psql('postgres', q{
	CREATE ROLE olga LOGIN;
	CREATE ROLE guest LOGIN;
	CREATE DATABASE shop OWNER olga;
	CREATE DATABASE shop_again OWNER olga;
});

my $olga = open_session($server, 'shop', '--username', 'olga');
my $guest = open_session($server, 'shop', '--username', 'guest');

is($olga->query(q{SELECT rolsuper FROM pg_roles WHERE rolname = current_user}), 'f', 'the owner is no superuser');
like(error_of($guest, 'CREATE EXTENSION chash'), qr/^42501 /, 'not everybody can install it');
is(error_of($olga, 'CREATE EXTENSION chash'), '', 'she can');

# By functions.
is($olga->query(q{SELECT chash_create_ring('r', vnodes => 64)}), '1', 'creates a ring');
is($olga->query(q{SELECT chash_add_node('a', 'r', info => '{"dsn": "host=a"}'), chash_add_node('b', 'r', weight => 2, zone => 'z')}), '2|3', 'adds nodes');
is($olga->query(q{SELECT chash_apply('{"c": {}, "a": {"weight": 0.5}}', 'r')}), '4', 'makes several changes at once');
is($olga->query(q{SELECT chash_mark_down('c', 'r'), chash_mark_up('c', 'r'), chash_set_node('c', 'r', zone => 'y')}), '5|6|7', 'marks down and up, sets');
is($olga->query(q{SELECT chash_copy_ring('r', 'copy'), chash_import(chash_export('r'), 'import')}), '1|7', 'copies, exports and imports');
is($olga->query(q{SELECT chash_remove_node('c', 'r'), chash_drop_ring('copy')}), '8|', 'removes a node, drops a ring');
is($olga->query(q{SELECT chash_prune_history('import', 0)}), '0', 'prunes history');

# Directly.
is($olga->query(q{INSERT INTO chash_rings (ring, placement, partitions) VALUES ('p', 'partitions', 64) RETURNING epoch}), '1', 'inserts a ring');
is($olga->query(q{INSERT INTO chash_nodes (ring, node) VALUES ('p', 'x'), ('p', 'y'), ('p', 'z') RETURNING epoch}), "2\n2\n2", 'inserts nodes');
is($olga->query(q{UPDATE chash_nodes SET weight = 2, info = '{"dsn": "host=y"}' WHERE node = 'y' RETURNING epoch}), '3', 'updates one');
is($olga->query(q{DELETE FROM chash_nodes WHERE node = 'z'; DELETE FROM chash_rings WHERE ring = 'import'; SELECT count(*) FROM chash_rings}), '2', 'deletes a node, and a ring');
is($olga->query(q{SELECT info ->> 'dsn' FROM chash_nodes WHERE info IS NOT NULL ORDER BY node}), "host=a\nhost=y", 'reads info');
is($olga->query(q{SELECT string_agg(ring || epoch || (fingerprint = chash_fingerprint(ring)), ' ' ORDER BY ring) FROM chash_rings}), 'p4true r8true', 'the rings are right');

# Dump and restore; of the rights that she has passed on, see 019_rights_of_the_owner.pl.
my $before = portrait($server, 'shop');
run_program($server, 'pg_dump', '--username', 'olga', '--file', "$directory/shop.sql", 'shop');
run_program($server, 'psql', '--username', 'olga', '--no-psqlrc', '--quiet', '--set', 'ON_ERROR_STOP=1', '--file', "$directory/shop.sql", 'shop_again');
is_portrait(portrait($server, 'shop_again'), $before, 'her dump is restored by her');
is($server->safe_psql('shop_again', q{SET SESSION AUTHORIZATION olga; SELECT chash_add_node('n', 'p') = epoch + 1 FROM chash_rings WHERE ring = 'p'}),
	't', 'and she goes on there');

# Others.
is($guest->query(q{SELECT chash_node('key', 'r') = chash_node_at(chash_hash('key'), 'r')}), 't', 'somebody else looks up');
like(error_of($guest, q{SELECT chash_add_node('z', 'p')}), qr/^42501 /, 'and cannot change');
is(error_of($olga, 'GRANT EXECUTE ON FUNCTION chash_add_node TO guest'), '', 'until she passes the right on');
is($guest->query(q{SELECT chash_add_node('z', 'p')}), '5', 'then can');

# Her own extension to drop.
is(error_of($olga, 'DROP EXTENSION chash'), '', 'she drops it');
like(error_of($olga, q{SELECT chash_node('key', 'r')}), qr/^42883 /, 'and it is gone');

$_->quit foreach $olga, $guest;
$server->stop;
done_testing();
