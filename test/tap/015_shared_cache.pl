# The shared cache holds one block for each version of a ring, for all sessions, and
# only for as long as it is of use.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use PostgreSQL::Test::Utils;
use Test::More;

my ($server, $monitor) = start_with_shared_cache();

$monitor->query_safe(q{SELECT make('v1', 'one'); SELECT become('v2', 'one')});
are_blocks('one', '*', '', 'changes alone put nothing into the cache');
my @sessions = map { open_session($server) } 1 .. 12;
sees($_, 'one', 'v2', 'a lookup') foreach @sessions;
are_blocks('one', 'epoch, points, builds, hits, fallbacks, pins', '3|8|1|11|0|0', 'one built it, and all others found it');
are_blocks('one', q{bytes > 0 AND bytes % 4096 = 0, fingerprint = chash_fingerprint('one'), last_used BETWEEN now() - interval '1 hour' AND now()},
	't|t|t', 'what else is told of it');

# All begin at the same moment.
$monitor->query_safe(q{SELECT become('v3', 'one'); SELECT pg_advisory_lock(1)});
$_->{stdin} .= "SELECT pg_advisory_lock_shared(1);\n" . version_of('one') . ";\nSELECT pg_advisory_unlock_shared(1);\n" foreach @sessions;
$_->{run}->pump_nb foreach @sessions;
wait_until(q{SELECT count(*) = 12 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}, 'all are waiting');
$monitor->query_safe('SELECT pg_advisory_unlock(1)');
is(join(' ', map { $_->query('') =~ /(v\d)/ ? $1 : 'nothing' } @sessions), join(' ', ('v3') x 12), 'all see the version that nobody had built');
is($monitor->query_safe(q{SELECT count(*), bool_and(builds BETWEEN 1 AND 12 AND pins = 0 AND fallbacks = 0) FROM chash_cache WHERE ring = 'one' AND epoch = 4}),
	'1|t', 'and there is one block of it');
are_blocks('one', 'epoch', '4', 'and the one before is gone');

my ($a, $b, $c) = splice @sessions, 0, 3;
# The time limit is for a query, not for the session.
$_->set_query_timer_restart(1) foreach $monitor, $a, $b, $c;
$_->quit foreach @sessions;

# ---------------------------------------------------------------------------
# Old versions
# ---------------------------------------------------------------------------

$monitor->query_safe(q{SELECT make('v2', 'old')});
$a->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
$c->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
sees($a, 'old', 'v2', 'a REPEATABLE READ reader of version 2');
foreach my $epoch (3 .. 22)
{
	$monitor->query_safe("SELECT become('v$epoch', 'old')");
	$b->query(version_of('old')) eq "v$epoch" or fail("version $epoch");
	$a->query(version_of('old')) eq 'v2' or fail('the reader sees version 2');
}
sees($a, 'old', 'v2', 'the reader still sees version 2');
are_blocks('old', 'epoch, pins', "2|1\n22|0", 'which has stayed in the cache, and of the others only the last one');
sees($c, 'old', 'v2', 'a snapshot as old that has not looked before sees version 2 too');
sees($b, 'old', 'v22', 'while others see the last one');
$a->query_safe('COMMIT');
sees($c, 'old', 'v2', 'also when the other has gone');
$c->query_safe('COMMIT');
sees($_, 'old', 'v22', 'in the end all see the last one') foreach $a, $b, $c;
$monitor->query_safe(q{SELECT become('v23', 'old')});
sees($a, 'old', 'v23', 'the next version');
are_blocks('old', 'epoch, pins', '23|0', 'is left alone');

# An old version that comes late.
$monitor->query_safe(q{SELECT make('v2', 'late')});
$a->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$monitor->query_safe(q{SELECT become('v3', 'late')});
sees($b, 'late', 'v3', 'the newer version first');
sees($a, 'late', 'v2', 'then the older one');
are_blocks('late', 'epoch, pins', "2|1\n3|0", 'does not drive it out');
$a->query_safe('COMMIT');
sees($b, 'late', 'v3', 'which is found');
are_blocks('late', 'epoch, builds, hits', "2|1|0\n3|1|1", 'as it was');

# Past epochs.
is($a->query(q{SELECT string_agg(chash_node_as_of('apple', epoch, 'old'), ' ' ORDER BY epoch) FROM unnest('{2,7,23}'::int[]) AS epoch}), 'v2 v7 v23', 'what was in past epochs');
is(blocks_of('old', 'epoch, fingerprint IS NULL, builds, hits, pins', 1), "2|t|1|0|0\n7|t|1|0|0\n23|t|1|0|0", 'is in the cache');
is($b->query(q{SELECT string_agg(chash_node_as_of('apple', epoch, 'old'), ' ' ORDER BY epoch) FROM unnest('{23,7,2}'::int[]) AS epoch}), 'v2 v7 v23', 'another session');
is(blocks_of('old', 'epoch, builds, hits, pins', 1), "2|1|1|0\n7|1|1|0\n23|1|1|0", 'finds it there');
are_blocks('old', 'epoch, hits', '23|0', 'apart from the present');
$a->query_safe(q{BEGIN; SELECT become('v24 aborted', 'old')});
is($a->query(q{SELECT chash_node_as_of('apple', 24, 'old')}), 'v24 aborted', 'a past that is not committed');
is($a->query(q{SELECT chash_node_as_of('apple', 23, 'old')}), 'v23', 'and one that is, under a stamp that is not');
is(blocks_of('old', 'epoch, pins', 1), "2|0\n7|0\n23|0", 'are not in the cache');
$a->query_safe('ROLLBACK');

# ---------------------------------------------------------------------------
# chash_cache_reset
# ---------------------------------------------------------------------------

$monitor->query_safe(q{SELECT make('v2', 'reset'); SELECT become('v3', 'reset')});
$a->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; ' . version_of('reset'));
$b->query_safe(q{BEGIN; DECLARE c CURSOR FOR SELECT chash_node(key, 'reset') FROM keys; FETCH 10 FROM c});
$monitor->query_safe('SELECT chash_cache_reset()');
is($monitor->query_safe(q{SELECT ring, epoch, pins FROM chash_cache}), 'reset|3|2', 'what is in use stays');
sees($a, 'reset', 'v3', 'for its users');
sees($c, 'reset', 'v3', 'and others');
are_blocks('reset', 'epoch, pins, builds', "3|2|1\n3|0|1", 'build it again');
$server->safe_psql('postgres', q{
	SELECT chash_node('apple', ring) FROM chash_rings WHERE EXISTS (SELECT FROM chash_nodes AS n WHERE n.ring = chash_rings.ring);
	SELECT become('v4', 'reset'); SELECT chash_node('apple', 'reset')});
sees($a, 'reset', 'v3', 'whatever comes into the cache meanwhile');
is($b->query('FETCH ALL FROM c') =~ s/v3\n?//gr, '', 'a cursor too');
$_->query_safe('COMMIT') foreach $a, $b;
are_blocks('reset', 'epoch, pins', '4|0', 'it goes with its users');
$monitor->query_safe('SELECT chash_cache_reset()');
is($monitor->query_safe('SELECT count(*) FROM chash_cache'), '0', 'if nothing is in use, the cache is empty');
proof_holds($_, 'lookups are what the tables say') foreach $a, $b, $c;

$_->quit foreach $monitor, $a, $b, $c;
$server->stop;

done_testing();
