# What changes rings without a new stamp, as TRUNCATE, another file or disabled triggers
# do, leaves nothing wrong in the shared cache, for any snapshot.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use PostgreSQL::Test::Utils;
use Test::More;

my ($server, $monitor) = start_with_shared_cache();
my ($a, $b, $c) = map { open_session($server) } 1 .. 3;
# The time limit is for a query, not for the session.
$_->set_query_timer_restart(1) foreach $monitor, $a, $b, $c;
$monitor->query_safe(q{SELECT make('v23', 'old')});

# TRUNCATE, under a snapshot that is older.
$monitor->query_safe(q{SELECT make('v2', 'truncated')});
sees($b, 'truncated', 'v2', 'before TRUNCATE');
$a->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$c->query_safe(q{BEGIN; CREATE TEMPORARY TABLE saved AS SELECT * FROM chash_nodes; TRUNCATE chash_nodes});
like(error_of($c, version_of('truncated')), qr/^55000 ring "truncated" has no node/, 'TRUNCATE, for who does it');
$c->query_safe('ROLLBACK');
sees($_, 'truncated', 'v2', 'after ROLLBACK') foreach $a, $b, $c;
$a->query_safe('COMMIT; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$c->query_safe('BEGIN; CREATE TEMPORARY TABLE saved AS SELECT * FROM chash_nodes; TRUNCATE chash_nodes; COMMIT');
like(error_of($a, version_of('truncated')), qr/^55000 ring "truncated" has no node/, 'TRUNCATE, under an older snapshot');
like(error_of($b, version_of('truncated')), qr/^55000 ring "truncated" has no node/, 'and under a new one');
$a->query_safe('ROLLBACK');
$c->query_safe(q{INSERT INTO chash_nodes (ring, node) SELECT ring, node FROM saved});
proof_holds($_, 'the nodes are back') foreach $a, $b, $c;

# Tables that get another file.
foreach my $command ('VACUUM FULL chash_nodes', 'CLUSTER chash_rings USING chash_rings_pkey', 'VACUUM FULL chash_node_history', 'REINDEX TABLE chash_rings', 'VACUUM (FREEZE) chash_rings, chash_nodes')
{
	$monitor->query_safe($command);
	proof_holds($a, "$command: lookups are what the tables say");
	proof_holds($b, "$command: in another session");
}
$a->query_safe('BEGIN; CLUSTER chash_nodes USING chash_nodes_pkey');
sees($a, 'truncated', 'v2', 'CLUSTER in a transaction');
$a->query_safe('ROLLBACK');
proof_holds($_, 'after its ROLLBACK') foreach $a, $b, $c;

# Whoever disables triggers changes rows without a new stamp.  Before each of these steps
# sessions take a snapshot, and look at the ring before the step, after it, or when others
# have looked after the triggers are enabled again.  What each of them is told has to be
# what it was when the snapshot was taken.
my @enable = map { "ALTER TABLE chash_nodes ENABLE ALWAYS TRIGGER $_" }
  split ' ', 'chash_before_statement chash_before_row chash_after_statement chash_before_truncate';
my @steps = (
	q{ALTER TABLE chash_nodes DISABLE TRIGGER USER},
	q{UPDATE chash_nodes SET node = 'v2 in disguise' WHERE ring = 'disguised'},
	@enable,
	q{SELECT become('v3', 'disguised')});
my $enabled = $#steps - 1;
$monitor->query_safe(q{SELECT make('v2', 'disguised'); SELECT make('v2', 'bystander')});
sees($monitor, 'disguised', 'v2', 'before the triggers are disabled');

# Has been in one transaction all the time.
$b->query_safe('BEGIN');
sees($b, 'bystander', 'v2', 'a READ COMMITTED transaction');
my @readers;
foreach my $step (0 .. $#steps)
{
	my $expected = $step < 2 ? 'v2' : 'v2 in disguise';

	foreach my $looks ('before', 'after', 'late')
	{
		my $reader = open_session($server);

		$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
		if ($looks eq 'before')
		{
			$reader->query(version_of('bystander'));
			sees($reader, 'disguised', $expected, "before step $step");
		}
		push @readers, [ $reader, $expected, "a snapshot of step $step, looked at $looks", $looks eq 'late' ? $enabled : 0 ];
	}
	$server->safe_psql('postgres', $steps[$step]);
	$expected = $step < 1 ? 'v2' : $step <= $enabled ? 'v2 in disguise' : 'v3';
	is($server->safe_psql('postgres', version_of('disguised')), $expected, "step $step: a new session");
	is($b->query(version_of('disguised')), $expected, "step $step: a READ COMMITTED transaction");
	foreach my $reader (grep { $_->[3] <= $step } @readers)
	{
		is($reader->[0]->query(version_of('disguised')), $reader->[1], "step $step: $reader->[2]");
	}
}
foreach my $session ($b, map { $_->[0] } @readers)
{
	$session->{stderr} = '';
	$session->query_safe('COMMIT');
	sees($session, 'disguised', 'v3', 'in the end');
	$session->quit if $session != $b;
}

# What a READ COMMITTED transaction builds while triggers are disabled, and knows nothing of
# it yet, is not given to a snapshot that is older.
$monitor->query_safe(q{SELECT make('v2', 'hidden')});
$a->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
$b->query_safe('BEGIN');
$_->query(version_of('bystander')) foreach $a, $b;
$server->safe_psql('postgres', "$steps[0]; UPDATE chash_nodes SET node = 'v2 in disguise' WHERE ring = 'hidden'");
is($b->query(version_of('hidden')), 'v2 in disguise', 'a READ COMMITTED transaction sees what was done without triggers');
is($a->query(version_of('hidden')), 'v2', 'and an older snapshot does not');
$server->safe_psql('postgres', join ';', @enable);
is($b->query(version_of('hidden')), 'v2 in disguise', 'nor when triggers are enabled again');
is($a->query(version_of('hidden')), 'v2', 'each of them');
foreach my $session ($a, $b)
{
	$session->{stderr} = '';
	$session->query_safe('COMMIT');
}
sees($_, 'hidden', 'v2 in disguise', 'until it is over') foreach $a, $b, $c;

# A name that is too long, as triggers would have said, keeps nobody from anything.
$server->safe_psql('postgres', join ";\n",
	'BEGIN',
	'ALTER TABLE chash_rings DISABLE TRIGGER USER',
	$steps[0],
	q{INSERT INTO chash_rings (ring, placement, hash, vnodes, hash_tags, replicas, epoch, fingerprint, history_from, version)
		SELECT repeat('ü', 130), placement, hash, vnodes, hash_tags, replicas, epoch, fingerprint, history_from, gen_random_uuid() FROM chash_rings WHERE ring = 'hidden'},
	q{INSERT INTO chash_nodes (ring, node, weight, state, epoch) SELECT repeat('ü', 130), 'long', weight, state, epoch FROM chash_nodes WHERE ring = 'hidden'},
	@enable,
	(map { "ALTER TABLE chash_rings ENABLE ALWAYS TRIGGER $_" } split ' ', 'chash_before_statement chash_before_row chash_after_row chash_after_statement chash_before_truncate'),
	'COMMIT');
is($server->safe_psql('postgres', q{SELECT chash_node('apple', repeat('ü', 130))}), 'long', 'a name that is too long');
$monitor->query_safe(q{SELECT become('v3', 'hidden')});
sees($_, 'hidden', 'v3', 'other rings are looked up') foreach $a, $b;
are_blocks('hidden', 'epoch', $monitor->query_safe(q{SELECT epoch FROM chash_rings WHERE ring = 'hidden'}), 'and shown');

# Dropped and created again, under the same name and with the same epoch.
sees($a, 'old', 'v23', 'before DROP EXTENSION');
my ($epoch) = $monitor->query_safe(q{SELECT epoch FROM chash_rings WHERE ring = 'bystander'});
$monitor->query_safe(q{SET client_min_messages = warning; BEGIN; DROP EXTENSION chash CASCADE; CREATE EXTENSION chash});
$monitor->query_safe(q{SELECT make('new', 'bystander')});
sees($monitor, 'bystander', 'new', 'a new extension, for who made it');
is($monitor->query_safe(q{SELECT count(*) FROM chash_cache WHERE ring = 'bystander' AND pins > 0}), '0', 'its ring is not in the cache');
$monitor->query_safe('ROLLBACK');
sees($_, 'bystander', 'v2', 'the old one is back') foreach $monitor, $a, $b;
$monitor->query_safe(q{DROP EXTENSION chash CASCADE; DROP SCHEMA proof CASCADE; CREATE EXTENSION chash; SELECT make('new', 'bystander')});
make_proof($server);
is($monitor->query_safe(q{SELECT epoch FROM chash_rings}), $epoch, 'the same epoch in a new extension');
sees($_, 'bystander', 'new', 'the new one') foreach $monitor, $a, $b;
like(error_of($c, version_of('old')), qr/^42704 ring "old" does not exist/, 'rings that are gone are gone');
proof_holds($_, 'lookups are what the tables say') foreach $a, $b, $c;

# Lookups find rooms of theirs among those of rings that are gone.
wait_until(q{
	SELECT make('v', 'filler ' || i) FROM (SELECT count(*) AS i FROM chash_rings) AS n \gset
	SELECT chash_node('apple', 'filler ' || i) FROM (SELECT count(*) - 1 AS i FROM chash_rings) AS n \gset
	SELECT count(*) = 0 FROM chash_cache WHERE ring IN ('old', 'truncated', 'disguised', 'hidden')},
	'blocks of dropped rings go when other rings come');

$_->quit foreach $monitor, $a, $b, $c;
$server->stop;

done_testing();
