# chash works in any schema, can be moved to another, dropped and created again, all
# that in the middle of sessions that use it, and in transactions that are rolled
# back.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use Test::More;

my $server = new_server('server');
my $fill = q{
	SELECT S.chash_create_ring();
	INSERT INTO S.chash_nodes (node) VALUES ('a'), ('b');
};

# Statements with S for the schema.
sub in_schema
{
	my ($schema, $statements) = @_;

	return $statements =~ s/\bS\./$schema./gr;
}

# With nodes a and b, apple lives on b and peach on a; with c, apple on c; with d
# instead, both on d.
my $routes = q{SELECT S.chash_node('apple'), S.chash_node('peach'), epoch FROM S.chash_route('apple')};

# ---------------------------------------------------------------------------
# In a schema of its own, and moved to another
# ---------------------------------------------------------------------------

$server->safe_psql('postgres', 'CREATE DATABASE moved');
$server->safe_psql('moved', q{
	CREATE SCHEMA "a schema"; CREATE SCHEMA t; CREATE SCHEMA u;
	CREATE EXTENSION chash SCHEMA "a schema";
});
$server->safe_psql('moved', in_schema('"a schema"', $fill));

my $mover = open_session($server, 'moved');
my $other = open_session($server, 'moved');
my $held = open_session($server, 'moved');

is($_->query(in_schema('"a schema"', $routes)), 'b|a|2', 'installed in a schema with a name to be quoted') foreach $mover, $other;

# One that goes by its search_path.
$held->query_safe('SET search_path = "a schema", t, u');
$held->query_safe('PREPARE routes AS ' . $routes =~ s/S\.//gr);
is($held->query('EXECUTE routes'), 'b|a|2', 'prepared, by search_path');
like(error_of($mover, q{SELECT chash_node('apple')}), qr/^42883 /, 'not found without the name of the schema');
is($server->safe_psql('moved', q{SELECT "a schema".chash_add_node('c')}), '3', 'changed there');
is($other->query(in_schema('"a schema"', $routes)), 'c|a|3', 'and seen');
is($held->query('EXECUTE routes'), 'c|a|3', 'by what was prepared, too');

$mover->query_safe('ALTER EXTENSION chash SET SCHEMA t');
is($mover->query(in_schema('t', $routes)), 'c|a|3', 'moved: the same answer in the session that moved it');
is($other->query(in_schema('t', $routes)), 'c|a|3', 'and in another');
is($held->query('EXECUTE routes'), 'c|a|3', 'and of what was prepared before');
like(error_of($other, q{SELECT "a schema".chash_node('apple')}), qr/^42883 /, 'not by the old name');
is($other->query(q{SELECT t.chash_add_node('d'), t.chash_remove_node('c')}), '4|5', 'changes by function');
is($mover->query(q{INSERT INTO t.chash_nodes (node) VALUES ('x'); DELETE FROM t.chash_nodes WHERE node = 'x' RETURNING node}), 'x', 'direct changes');
is($_->query(in_schema('t', $routes)), 'd|d|7', 'both seen') foreach $mover, $other;
is($held->query('EXECUTE routes'), 'd|d|7', 'by what was prepared, too');
is($mover->query(q{SELECT t.chash_node_as_of('apple', 3), t.chash_node_as_of('apple', 2)}), 'c|b', 'history moved with it');

# A move that is rolled back.
$mover->query_safe('BEGIN');
$mover->query_safe('ALTER EXTENSION chash SET SCHEMA u');
is($mover->query(in_schema('u', $routes)), 'd|d|7', 'moved within a transaction');
is($mover->query(q{SELECT u.chash_remove_node('d')}), '8', 'and changed');
is($mover->query(in_schema('u', $routes)), 'b|a|8', 'and seen');
$mover->query_safe('ROLLBACK');
is($mover->query(in_schema('t', $routes)), 'd|d|7', 'rolled back: where and as it was');
is($other->query(in_schema('t', $routes)), 'd|d|7', 'in another session too');
$mover->query_safe('BEGIN; SAVEPOINT s; ALTER EXTENSION chash SET SCHEMA u');
is($mover->query(in_schema('u', $routes)), 'd|d|7', 'moved within a savepoint');
$mover->query_safe('ROLLBACK TO s');
is($mover->query(in_schema('t', $routes)), 'd|d|7', 'rolled back');
is($mover->query(q{SELECT t.chash_remove_node('d')}), '8', 'and changed');
$mover->query_safe('COMMIT');
is($other->query(in_schema('t', $routes)), 'b|a|8', 'and seen');

# A schema that gets another name.
$mover->query_safe('DROP SCHEMA u; ALTER SCHEMA t RENAME TO u');
is($other->query(in_schema('u', $routes)), 'b|a|8', 'the schema is renamed');
is($other->query(q{SELECT u.chash_add_node('c')}), '9', 'changed under the new name');
is($mover->query(in_schema('u', $routes)), 'c|a|9', 'and seen');
is($held->query('EXECUTE routes'), 'c|a|9', 'by what was prepared, too');
$_->quit foreach $mover, $other, $held;

# ---------------------------------------------------------------------------
# Dropped and created again
# ---------------------------------------------------------------------------

my $session = open_session($server);
$other = open_session($server);
$routes = in_schema('public', $routes);
$fill = in_schema('public', $fill);

# A ring with the same name, the same epochs, and other nodes.
my $refill = $fill =~ s/'a'/'c'/r =~ s/'b'/'d'/r;

$session->query_safe($fill);
$_->query_safe("PREPARE routes AS $routes") foreach $session, $other;
$session->query_safe(q{
	CREATE FUNCTION owner() RETURNS text LANGUAGE plpgsql AS $$
	DECLARE owner text;
	BEGIN owner := chash_node('apple'); RETURN owner; END $$});

sub all_say
{
	my ($expected, $name) = @_;
	my ($owner) = $expected =~ /^(\w+)/;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is($session->query($routes), $expected, "$name: the session that did it");
	is($session->query('EXECUTE routes'), $expected, "$name: what it had prepared");
	is($session->query('SELECT owner()'), $owner, "$name: its function");
	is($other->query('EXECUTE routes'), $expected, "$name: another session");
	is($other->query('SELECT owner()'), $owner, "$name: its function");
	return;
}

all_say('b|a|2', 'at first');
$session->query_safe('DROP EXTENSION chash');
like(error_of($session, $routes), qr/^42883 /, 'dropped: there are no functions, for the session that did it');
like(error_of($other, $routes), qr/^42883 /, 'nor for another');
like(error_of($other, 'SELECT owner()'), qr/^42883 /, 'nor for a function');
$session->query_safe('CREATE EXTENSION chash');
like(error_of($session, $routes), qr/^42704 /, 'created again: there is no ring');
like(error_of($other, $routes), qr/^42704 /, 'nor for another');
$session->query_safe($refill);
all_say('c|d|2', 'created again');

# The same within one transaction.
$session->query_safe('BEGIN');
$session->query_safe('DROP EXTENSION chash');
$session->query_safe('CREATE EXTENSION chash');
$session->query_safe($fill);
is($session->query($routes), 'b|a|2', 'created again within a transaction');
is($session->query('SELECT owner()'), 'b', 'its function');
$session->query_safe('ROLLBACK');
all_say('c|d|2', 'rolled back');

$session->query_safe('BEGIN');
is($session->query('SELECT owner()'), 'c', 'looked up before');
$session->query_safe('SAVEPOINT s');
$session->query_safe('DROP EXTENSION chash');
$session->query_safe('CREATE EXTENSION chash');
$session->query_safe($fill);
is($session->query($routes), 'b|a|2', 'created again within a savepoint');
$session->query_safe('ROLLBACK TO s');
is($session->query($routes), 'c|d|2', 'rolled back to it');
is($session->query('SELECT owner()'), 'c', 'its function');
$session->query_safe('DROP EXTENSION chash');
$session->query_safe('CREATE EXTENSION chash');
$session->query_safe($fill);
is($session->query($routes), 'b|a|2', 'created again');
$session->query_safe('COMMIT');
all_say('b|a|2', 'committed');
is($other->query(q{SELECT chash_add_node('c')}), '3', 'a change');
all_say('c|a|3', 'changed');

$_->quit foreach $session, $other;
$server->stop;
done_testing();
