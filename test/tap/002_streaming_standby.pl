# A streaming standby answers lookups, follows every change, in sessions old and new,
# refuses changes of its own, and goes on where the primary was when it is promoted.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use PostgreSQL::Test::Cluster;
use Test::More;

# Nothing must clean up rows that an old snapshot on the standby still sees.
my $primary = new_server('primary', allows_streaming => 1, conf => <<'CONF');
autovacuum = off
max_prepared_transactions = 2
CONF
make_rings($primary);
make_proof($primary);

$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', 'hot_standby_feedback = on');
$standby->start;

# Sessions that stay open all the time.
my $writer = open_session($primary);
my $reader = open_session($standby);

# Makes a change, waits until the standby has it, and says how apple is routed
# there by the very next statement.
my $route = q{SELECT chash_node('apple', 'fruit'), epoch FROM chash_route('apple', 'fruit')};
my $route_in_new_session = $route;

sub after
{
	my ($change) = @_;

	$writer->query_safe($change);
	$primary->wait_for_catchup($standby);
	return $reader->query($route);
}

# The same for a session that is open all the time and one that has just begun.
sub follows
{
	my ($change, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is(after($change), $expected, $name);
	is_routed_anew($expected, $name);
	return;
}

sub is_routed_anew
{
	my ($expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is($standby->safe_psql('postgres', $route_in_new_session), $expected, "$name: in a new session");
	return;
}

# What the shared cache of a server has of the ring, if there is one: the epochs, and
# how often each was built.
sub cached
{
	my ($server) = @_;

	return $server->safe_psql('postgres', q{
		SET client_min_messages = warning;
		SELECT epoch, builds FROM chash_cache WHERE ring = 'fruit' AND bytes > 0 AND NOT is_past ORDER BY epoch});
}

is(after(''), '', 'a ring that is not there yet');
$reader->{stderr} = '';
is_portrait(portrait_of($reader), portrait($primary), 'everything on the standby is as on the primary');

# With nodes a and b, apple lives on b; with c on c; with d instead of c on d.
follows(q{SELECT chash_create_ring('fruit'); SELECT chash_apply('{"a": {}, "b": {}}', 'fruit')},
	'b|2', 'a new ring');
follows(q{SELECT chash_add_node('c', 'fruit')}, 'c|3', 'a node is added');
follows(q{SELECT chash_mark_down('c', 'fruit')}, 'b|4', 'marked down');
follows(q{SELECT chash_mark_up('c', 'fruit')}, 'c|5', 'marked up');
follows(q{DELETE FROM chash_nodes WHERE ring = 'fruit' AND node = 'c'}, 'b|6', 'deleted by a direct DELETE');
follows(q{BEGIN; SAVEPOINT s; SELECT chash_add_node('c', 'fruit'); ROLLBACK TO s; SELECT chash_add_node('d', 'fruit'); COMMIT},
	'd|7', 'another one is added after a savepoint was rolled back');
follows(q{SELECT chash_remove_node('d', 'fruit')}, 'b|8', 'removed');
my $shared = cached($standby) ne '';
is(cached($standby), '8|1', 'built once for all sessions of the standby') if $shared;

# What is not committed is not seen.
follows(q{BEGIN; SELECT chash_add_node('c', 'fruit'); SELECT pg_switch_wal()}, 'b|8', 'a change that is not committed');
follows(q{ROLLBACK}, 'b|8', 'rolled back');
follows(q{BEGIN; SELECT chash_add_node('c', 'fruit'); PREPARE TRANSACTION 'c'}, 'b|8', 'a change that is prepared');
follows(q{ROLLBACK PREPARED 'c'}, 'b|8', 'rolled back');
follows(q{BEGIN; SELECT chash_add_node('d', 'fruit'); PREPARE TRANSACTION 'd'}, 'b|8', 'another one that is prepared');
follows(q{COMMIT PREPARED 'd'}, 'd|9', 'committed');

# So many subtransactions that the standby does not know them all.
my $many = join '', map { "SAVEPOINT s$_; UPDATE chash_nodes SET weight = 1 + $_ % 2 WHERE ring = 'fruit' AND node = 'a';" } 1 .. 150;
follows(qq{BEGIN; $many SELECT chash_add_node('c', 'fruit'); SELECT chash_remove_node('d', 'fruit')}, 'd|9', 'hundreds of subtransactions');
follows(q{COMMIT}, 'c|161', 'committed');

# One transaction on the standby, under either isolation level.
$reader->query_safe(q{PREPARE route AS } . $route);
$route = 'EXECUTE route';
$reader->query_safe('BEGIN');
is($reader->query($route), 'c|161', 'READ COMMITTED');
is(after(q{SELECT chash_remove_node('c', 'fruit')}), 'b|162', 'sees a change in its next statement');
$reader->query_safe('COMMIT');

$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
is($reader->query($route), 'b|162', 'REPEATABLE READ');
is(after(q{SELECT chash_add_node('d', 'fruit')}), 'b|162', 'keeps its view');
is(after(q{SELECT chash_add_node('other', 'tokens', tokens => '{1}')}), 'b|162', 'whatever changes');
proof_holds($reader, 'which is that of the tables');
$reader->query_safe('COMMIT');
is($reader->query($route), 'd|163', 'the next transaction sees the change');
proof_holds($reader, 'lookups on the standby are what the tables say');

# The standby is for reading.
foreach my $change (
	q{chash_create_ring('new')}, q{chash_drop_ring('fruit')}, q{chash_add_node('z', 'fruit')},
	q{chash_remove_node('a', 'fruit')}, q{chash_set_node('a', 'fruit', weight => 9)},
	q{chash_mark_down('a', 'fruit')}, q{chash_mark_up('a', 'fruit')}, q{chash_apply('{"a": null}', 'fruit')},
	q{chash_copy_ring('fruit', 'new')}, q{chash_import(chash_export('fruit'), 'new')}, q{chash_prune_history('fruit', 0)})
{
	like(error_of($reader, "SELECT $change"), qr/^25006 /, "$change is refused");
}
is($reader->query(q{SELECT chash_export('fruit') ->> 'epoch'}), '163', 'chash_export is not');
is($reader->query(q{SELECT count(*) > 0 FROM chash_rebalance_plan('fruit', '{"e": {}}')}), 't', 'nor is a plan');
is_portrait(portrait_of($reader), portrait($primary), 'everything on the standby is as on the primary still');

# Every lookup, with the cache cold and warm.
my $lookups = q{
	SELECT chash_node('apple', 'fruit'), chash_replicas('apple', 2, 'fruit'), chash_node_at(chash_position('apple', 'fruit'), 'fruit'),
		chash_node_as_of('apple', 163, 'fruit'), chash_check_route('apple', 'd', 163, 'fruit'),
		chash_fingerprint('fruit') = (SELECT fingerprint FROM chash_rings WHERE ring = 'fruit')};
$standby->safe_psql('postgres', 'SELECT chash_cache_reset()') if $shared;
foreach my $when ('nothing cached', 'a warm cache')
{
	is($reader->query($lookups), 'd|{d,b}|d|d||t', "every lookup works, with $when");
	is($standby->safe_psql('postgres', $lookups), 'd|{d,b}|d|d||t', "every lookup works, with $when, in a new session");
}

# A restart of the standby, while the primary changes.
$reader->quit;
$standby->stop;
$writer->query_safe(q{SELECT chash_add_node('c', 'fruit')});
$standby->start;
$reader = open_session($standby);
$reader->query_safe('PREPARE route AS '
	  . q{SELECT chash_node('apple', 'fruit'), epoch FROM chash_route('apple', 'fruit')});
follows('', 'c|164', 'the standby has been down meanwhile');

# Promotion, under a session that is open and knows the ring, with a change that is
# prepared.
follows(q{BEGIN; SELECT chash_mark_down('c', 'fruit'); PREPARE TRANSACTION 'down'}, 'c|164', 'a change that is prepared');
my $before = portrait_of($reader);
$writer->quit;
$primary->stop;
$standby->promote;
is($reader->query($route), 'c|164', 'promoted: the same answer');
is_portrait(portrait_of($reader), $before, 'everything is as on the former primary');
$standby->safe_psql('postgres', q{COMMIT PREPARED 'down'});
is($reader->query($route), 'd|165', 'what was prepared on the former primary is committed');
is_routed_anew('d|165', 'what was prepared on the former primary is committed');
is($reader->query(q{SELECT chash_remove_node('c', 'fruit')}), '166', 'a change works now');
is($reader->query($route), 'd|166', 'and is seen');
is_routed_anew('d|166', 'and is seen');
is($reader->query(q{BEGIN; SELECT chash_add_node('c', 'fruit')}), '167', 'another one');
is($reader->query($route), 'c|167', 'is seen in its transaction');
$reader->query_safe('ROLLBACK');
is($reader->query($route), 'd|166', 'and is no more when that is rolled back');
is_routed_anew('d|166', 'and is no more when that is rolled back');
is($standby->safe_psql('postgres', q{SELECT chash_add_node('c', 'fruit'), chash_node('apple', 'fruit')}), '167|d', 'another one, by another session');
is($reader->query($route), 'c|167', 'is seen by the first');
is_routed_anew('c|167', 'is seen by the first');
proof_holds($reader, 'lookups on the promoted server are what the tables say');
is(cached($standby), '167|1', 'the shared cache has what is current, built once') if $shared;

$reader->quit;
$standby->stop;
done_testing();
