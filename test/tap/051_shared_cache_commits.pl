# No version of a ring gets into the shared cache that was not committed.

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

$monitor->query_safe(q{SELECT make('v2', 'ring'); SELECT become('v' || i, 'ring') FROM generate_series(3, 5) AS i});
sees($b, 'ring', 'v5', 'before');
$a->query_safe('BEGIN');
$a->query_safe(q{SELECT become('v6 aborted', 'ring')});
sees($a, 'ring', 'v6 aborted', 'a transaction sees its own version 6');
my $aborted = $a->query_safe(q{SELECT fingerprint FROM chash_rings WHERE ring = 'ring'});
are_blocks('ring', 'epoch, pins', '5|0', 'which is not in the cache');
$b->query_safe('BEGIN');
$c->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
sees($_, 'ring', 'v5', 'readers see version 5') foreach $b, $c;
$a->query_safe('ROLLBACK');
sees($a, 'ring', 'v5', 'after ROLLBACK, who made version 6 sees version 5');
$monitor->query_safe(q{SELECT become('v6', 'ring')});
sees($a, 'ring', 'v6', 'another version 6, for who made the first one');
sees($b, 'ring', 'v6', 'for a READ COMMITTED reader');
sees($c, 'ring', 'v5', 'not for a REPEATABLE READ reader');
are_blocks('ring', 'epoch, pins', "5|2\n6|1", 'both are in the cache, until their readers are done');
$_->query_safe('COMMIT') foreach $b, $c;
sees($_, 'ring', 'v6', 'for all in the end') foreach $a, $b, $c;
are_blocks('ring', "epoch, fingerprint <> '$aborted'", '6|t', 'it alone is in the cache, and it is not the first one');

# Savepoints.
$a->query_safe(q{BEGIN; SAVEPOINT s; SELECT become('v7 aborted', 'ring')});
sees($a, 'ring', 'v7 aborted', 'a version in a subtransaction');
$a->query_safe('ROLLBACK TO s');
sees($a, 'ring', 'v6', 'it is gone after ROLLBACK TO SAVEPOINT');
are_blocks('ring', 'epoch, pins', '6|1', 'and the one in the cache is used again');
$a->query_safe(q{SELECT become('v7', 'ring'); RELEASE s});
sees($a, 'ring', 'v7', 'another one, released');
are_blocks('ring', 'epoch, pins', '6|1', 'is not in the cache either');
sees($b, 'ring', 'v6', 'nor seen by others');
$a->query_safe('COMMIT');
are_blocks('ring', 'epoch, pins', '6|0', 'nor is it right after COMMIT');
sees($a, 'ring', 'v7', 'but at the first lookup');
are_blocks('ring', 'epoch, builds', '7|1', 'by who has built it');
sees($b, 'ring', 'v7', 'and others');
are_blocks('ring', 'epoch, builds, hits', '7|1|1', 'find it there');

# Two-phase commit.
$a->query_safe(q{BEGIN; SELECT become('v8 rolled back', 'ring')});
sees($a, 'ring', 'v8 rolled back', 'a version that will be prepared');
$a->query_safe(q{PREPARE TRANSACTION 'v8'});
sees($_, 'ring', 'v7', 'is not seen when it is prepared') foreach $a, $b;
are_blocks('ring', 'epoch', '7', 'nor in the cache');
$b->query_safe(q{ROLLBACK PREPARED 'v8'});
$a->query_safe(q{BEGIN; SELECT become('v8', 'ring')});
sees($a, 'ring', 'v8', 'another one');
$a->query_safe(q{PREPARE TRANSACTION 'v8'});
$c->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
sees($_, 'ring', 'v7', 'is not seen when it is prepared') foreach $a, $b, $c;
$b->query_safe(q{COMMIT PREPARED 'v8'});
sees($c, 'ring', 'v7', 'nor by an older snapshot after COMMIT PREPARED');
sees($_, 'ring', 'v8', 'but by all others') foreach $a, $b;
are_blocks('ring', 'epoch, pins', "7|1\n8|0", 'both are in the cache');
$c->query_safe('COMMIT');
is_committed('nothing is in the cache that was not committed');

# Many at once, who commit, roll back and roll back to savepoints.
my $seconds = 6;
my $directory = PostgreSQL::Test::Utils::tempdir;
$monitor->query_safe(q{SELECT make('base', 'busy' || i) FROM generate_series(1, 3) AS i});
append_to_file("$directory/busy", <<'PGBENCH');
\set i random(1, 3)
\set v random(1, 5)
\set dice random(1, 3)
BEGIN;
SELECT FROM chash_rings WHERE ring = 'busy' || :i FOR UPDATE;
SELECT become(:v::text, 'busy' || :i);
SELECT * FROM proof.wrong;
SAVEPOINT s;
SELECT become('lost ' || :v, 'busy' || :i);
SELECT chash_node('apple', 'busy' || :i);
SELECT * FROM proof.wrong;
ROLLBACK TO s;
SELECT * FROM proof.wrong;
\if :dice = 1
ROLLBACK;
\else
COMMIT;
\endif
SELECT * FROM proof.wrong;
PGBENCH
my $output;
ok( IPC::Run::run(
		[
			'pgbench', '--no-vacuum', '--host', $server->host, '--port', $server->port, '--client=6', '--jobs=2', '--time', $seconds,
			'--max-tries=1000', '--file', "$directory/busy", 'postgres'
		],
		'>&', \$output),
	'no lookup was wrong while many change rings') or diag($output);
is_committed('nothing is in the cache that was not committed, after many changes at once');
is($monitor->query_safe(q{SELECT sum(pins) FROM chash_cache}), '0', 'nor any pin left');
sees($_, "busy1", $monitor->query_safe(q{SELECT node FROM chash_nodes WHERE ring = 'busy1'}), 'all see the last version') foreach $a, $b, $c;

$_->quit foreach $monitor, $a, $b, $c;
$server->stop;

done_testing();
