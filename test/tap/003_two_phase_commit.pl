# A prepared change of a ring is seen by nobody until COMMIT PREPARED and by
# everybody right after, leaves no trace after ROLLBACK PREPARED, in the shared cache
# neither, and survives a restart in between.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use Test::More;

my $server = new_server('server', conf => "max_prepared_transactions = 5\n");
$server->safe_psql('postgres', q{SELECT chash_create_ring(); SELECT chash_apply('{"a": {}, "b": {}}')});
make_proof($server);

# With nodes a and b, apple lives on b; with c on c; with d on d.
my $route = q{SELECT chash_node('apple'), epoch FROM chash_route('apple')};

# What the shared cache has, if there is one: the epochs, and how often each was built.
my $cache = q{SELECT epoch, builds FROM chash_cache WHERE bytes > 0 AND NOT is_past ORDER BY ring, epoch};
$server->safe_psql('postgres', $route);
my $shared = $server->safe_psql('postgres', "SET client_min_messages = warning; $cache") ne '';

# Passes if the shared cache has just that; without one, too.
sub is_cached
{
	my ($expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return unless $shared;
	is($server->safe_psql('postgres', $cache), $expected, "$name: in the shared cache");
	return;
}

my ($changer, $other, $keeper);

sub open_sessions
{
	$changer = open_session($server);
	$other = open_session($server);
	$keeper = open_session($server);
	$keeper->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
	$keeper->query_safe($route);
	return;
}

sub close_sessions
{
	$keeper->query_safe('COMMIT');
	$_->quit foreach $changer, $other, $keeper;
	return;
}

sub are_routed
{
	my ($expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is($changer->query($route), $expected, "$name: in the session that changed the ring");
	is($other->query($route), $expected, "$name: in another");
	is($server->safe_psql('postgres', $route), $expected, "$name: in a new one");
	return;
}

open_sessions();
are_routed('b|2', 'before');

# Committed, by another session, while a READ COMMITTED transaction is open.
$other->query_safe('BEGIN');
$changer->query_safe('BEGIN');
$changer->query_safe(q{SELECT chash_add_node('c')});
is($changer->query($route), 'c|3', 'the transaction sees its own change');
is_cached('2|1', 'not yet prepared');
$changer->query_safe(q{PREPARE TRANSACTION 'add c'});
are_routed('b|2', 'prepared');
is_cached('2|1', 'prepared');
$changer->query_safe(q{SET lock_timeout = '100ms'});
like(error_of($changer, q{SELECT chash_add_node('d')}), qr/^55P03 /, 'a change waits for what is prepared');
$changer->query_safe('RESET lock_timeout');
$server->safe_psql('postgres', q{COMMIT PREPARED 'add c'});
are_routed('c|3', 'committed');
is($keeper->query($route), 'b|2', 'an older snapshot does not see it');
is_cached("2|1\n3|1", 'committed, and built once for all who see it');
$other->query_safe('COMMIT');
close_sessions();

# Rolled back; then another change takes the same epoch.
open_sessions();
$changer->query_safe('BEGIN');
$changer->query_safe('SAVEPOINT s');
$changer->query_safe(q{SELECT chash_remove_node('c')});
$changer->query_safe('RELEASE s');
is($changer->query($route), 'b|4', 'the transaction sees its own change');
$changer->query_safe(q{PREPARE TRANSACTION 'remove c'});
are_routed('c|3', 'prepared');
$changer->query_safe(q{ROLLBACK PREPARED 'remove c'});
are_routed('c|3', 'rolled back');
is_cached('3|1', 'rolled back, what only an older snapshot saw is gone');
is($other->query(q{SELECT chash_apply('{"c": null, "d": {}}')}), '4', 'another change');
are_routed('d|4', 'the same epoch');
is_cached("3|1\n4|1", 'the same epoch');
is($server->safe_psql('postgres', q{SELECT chash_node_as_of('apple', 3)}), 'c', 'history knows of nothing else');
close_sessions();

# Direct changes of both tables; a restart and a crash in between.
foreach my $stop ('fast', 'immediate')
{
	my $epoch = $stop eq 'fast' ? 4 : 6;

	open_sessions();
	$changer->query_safe('BEGIN');
	$changer->query_safe(q{DELETE FROM chash_nodes WHERE node = 'd'});
	$changer->query_safe(q{UPDATE chash_rings SET replicas = replicas + 1});
	is($changer->query($route), 'b|' . ($epoch + 2), 'the transaction sees its own changes');
	$changer->query_safe(q{PREPARE TRANSACTION 'delete d'});
	are_routed("d|$epoch", 'prepared');

	$server->stop($stop);
	$_->{run}->finish foreach $changer, $other, $keeper;
	$server->start;

	open_sessions();
	are_routed("d|$epoch", "prepared, and the server restarted ($stop)");
	if ($stop eq 'fast')
	{
		$other->query_safe(q{ROLLBACK PREPARED 'delete d'});
		are_routed('d|4', 'rolled back');
		$other->query_safe(q{SELECT chash_set_node('a', weight => 2); SELECT chash_set_node('a', weight => 1)});
	}
	else
	{
		$other->query_safe(q{COMMIT PREPARED 'delete d'});
		are_routed('b|8', 'committed');
		is($server->safe_psql('postgres', q{SELECT replicas, fingerprint = chash_fingerprint() FROM chash_rings}), '2|t', 'both changes are there');
	}
	proof_holds($other, 'lookups are what the tables say');
	close_sessions();
}

# A ring that is created, and one that is dropped.
open_sessions();
$changer->query_safe(q{BEGIN; SELECT chash_create_ring('new'); SELECT chash_add_node('n', 'new'); PREPARE TRANSACTION 'new'});
like(error_of($other, q{SELECT chash_node('apple', 'new')}), qr/^42704 ring "new" does not exist/, 'a ring whose creation is prepared');
$other->query_safe(q{COMMIT PREPARED 'new'});
is($other->query(q{SELECT chash_node('apple', 'new')}), 'n', 'its creation is committed');
is($changer->query(q{SELECT chash_node('apple', 'new')}), 'n', 'and seen in the other session');
$changer->query_safe(q{BEGIN; SELECT chash_drop_ring('new'); PREPARE TRANSACTION 'drop'});
is($other->query(q{SELECT chash_node('apple', 'new')}), 'n', 'its drop is prepared');
$changer->query_safe(q{COMMIT PREPARED 'drop'});
like(error_of($other, q{SELECT chash_node('apple', 'new')}), qr/^42704 ring "new" does not exist/, 'its drop is committed');
close_sessions();

$server->stop;
done_testing();
