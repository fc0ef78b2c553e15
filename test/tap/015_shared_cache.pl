# The shared cache holds one block for each version of a ring, for all sessions, and
# only for as long as it is of use; no version gets there that was not committed,
# and no snapshot is ever answered from a version that it does not see.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use PostgreSQL::Test::Utils;
use Test::More;

# Before PostgreSQL 17 there is no shared cache without preloading.
my ($major) = `postgres --version` =~ /(\d+)/;
my @preload = $major < 17 ? (preload => 1) : ();
plan skip_all => 'there is no shared cache without preloading'
  if @preload && !($ENV{CHASH_TEST_PRELOAD} // 1);

my $server = new_server('server', @preload, conf => <<'CONF');
log_statement = none
max_prepared_transactions = 5
max_parallel_workers_per_gather = 2
min_parallel_table_scan_size = 0
parallel_setup_cost = 0
parallel_tuple_cost = 0
CONF
make_proof($server);
$server->safe_psql('postgres', q{
	-- A ring with a single node: wherever a key is looked up, the answer is the name
	-- of the version.
	CREATE FUNCTION become(version text, name text) RETURNS bigint LANGUAGE sql SET search_path = public AS $$
		SELECT chash_apply(
			(SELECT coalesce(jsonb_object_agg(node, null) FILTER (WHERE node <> version), '{}') FROM chash_nodes WHERE ring = name)
				|| jsonb_build_object(version, '{}'::jsonb), name)
	$$;
	CREATE FUNCTION make(version text, name text) RETURNS bigint LANGUAGE plpgsql SET search_path = public AS $$
	BEGIN
		PERFORM chash_create_ring(name, vnodes => 8);
		RETURN chash_add_node(version, name);
	END
	$$;
	CREATE TABLE keys AS SELECT 'key ' || i AS key FROM generate_series(1, 5000) AS i;
	ALTER TABLE keys SET (parallel_workers = 2);
	ANALYZE keys;

	-- Each map that was ever committed.  What is rolled back is rolled back here too.
	CREATE TABLE committed (
		xid xid8 DEFAULT pg_current_xact_id(), ring text, epoch bigint, fingerprint text, PRIMARY KEY (xid, ring)
	);
	CREATE FUNCTION note_commit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
	BEGIN
		INSERT INTO committed VALUES (DEFAULT, new.ring, new.epoch, new.fingerprint)
		ON CONFLICT (xid, ring) DO UPDATE SET epoch = excluded.epoch, fingerprint = excluded.fingerprint;
		RETURN null;
	END
	$$;
	CREATE TRIGGER note_commit AFTER INSERT OR UPDATE ON chash_rings FOR EACH ROW EXECUTE FUNCTION note_commit();
});

my $monitor = open_session($server);

# What there is of a ring in the cache, oldest epoch first.
sub blocks_of
{
	my ($ring, $columns, $past) = @_;

	return $monitor->query_safe("SELECT $columns FROM chash_cache WHERE ring = '$ring' AND database = current_database()"
		  . ' AND ' . ($past ? 'is_past' : 'NOT is_past') . ' ORDER BY epoch, last_used');
}

sub are_blocks
{
	my ($ring, $columns, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is(blocks_of($ring, $columns), $expected, $name);
}

# For what other processes do of themselves.
sub will_be_blocks
{
	my ($ring, $columns, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	$server->poll_query_until('postgres', "SELECT coalesce(string_agg(row::text, ' ' ORDER BY row::text), '') = '$expected' FROM (SELECT $columns FROM chash_cache WHERE ring = '$ring') AS row");
	return is($server->safe_psql('postgres', "SELECT coalesce(string_agg(row::text, ' ' ORDER BY row::text), '') FROM (SELECT $columns FROM chash_cache WHERE ring = '$ring') AS row"), $expected, $name);
}

sub is_committed
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is($monitor->query_safe(q{
			SELECT ring, epoch, fingerprint FROM chash_cache WHERE database = current_database() AND NOT is_past
			EXCEPT SELECT ring, epoch, fingerprint FROM committed}),
		'', $name);
}

sub version_of
{
	my ($ring) = @_;

	return "SELECT chash_node('apple', '$ring')";
}

sub sees
{
	my ($session, $ring, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is($session->query(version_of($ring)), $expected, $name);
}

sub wait_until
{
	my ($query, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return ok($server->poll_query_until('postgres', $query), $name);
}

# ---------------------------------------------------------------------------
# One block for all
# ---------------------------------------------------------------------------

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

# ---------------------------------------------------------------------------
# Pins
# ---------------------------------------------------------------------------

my ($a, $b, $c) = splice @sessions, 0, 3;
# The time limit is for a query, not for the session.
$_->set_query_timer_restart(1) foreach $monitor, $a, $b, $c;
$_->quit foreach @sessions;
$monitor->query_safe(q{SELECT make('v1', 'pins'); SELECT make('v1', 'other')});

sub pins
{
	my ($expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return are_blocks('pins', 'pins', $expected, "$name: $expected pins");
}

$a->query_safe('BEGIN');
pins('', 'before the first lookup');
sees($a, 'pins', 'v1', 'a lookup') foreach 1 .. 3;
pins(1, 'several lookups in one transaction');
$b->query_safe('BEGIN; ' . version_of('pins'));
pins(2, 'another session');
$a->query_safe('COMMIT');
pins(1, 'COMMIT');
$b->query_safe('ROLLBACK');
pins(0, 'ROLLBACK');
$a->query_safe('BEGIN; SAVEPOINT s; ' . version_of('pins'));
$a->query_safe('ROLLBACK TO s');
sees($a, 'pins', 'v1', 'a lookup after ROLLBACK TO SAVEPOINT');
pins(1, 'ROLLBACK TO SAVEPOINT');
$a->query_safe('RELEASE s');
error_of($a, 'SELECT 1/0');
pins(0, 'an error');
$a->query_safe('ROLLBACK');
$a->query_safe('BEGIN; ' . version_of('pins') . "; PREPARE TRANSACTION 'reader'");
pins(0, 'PREPARE TRANSACTION');
$a->query_safe(q{ROLLBACK PREPARED 'reader'});

# Errors while a function of chash has the ring, at several depths.  (No statement may
# follow, not even an empty one.)
my $failing = q{PERFORM FROM chash_ring_diff('pins', 'missing')};
my %failures = (
	'in a function of chash' => q{SELECT * FROM chash_ring_diff('pins', 'missing')},
	'in a block' => "DO \$\$ BEGIN $failing; END \$\$",
	'in a block of a transaction' => "BEGIN; DO \$\$ BEGIN $failing; END \$\$; ROLLBACK",
	'in a function' => 'SELECT failing()',
	'in a function, in a transaction' => 'BEGIN; SELECT failing(); ROLLBACK',
	'in a cursor' => q{BEGIN; DECLARE c CURSOR FOR SELECT 1 / (length(chash_node(key, 'pins')) - 2) FROM keys; FETCH c; ROLLBACK},
	'by a timeout' => q{SET statement_timeout = '50ms'; SELECT count(chash_node(a.key || b.key, 'pins')) FROM keys AS a, keys AS b});
$monitor->query_safe("CREATE FUNCTION failing() RETURNS void LANGUAGE plpgsql AS \$\$ BEGIN $failing; END \$\$");
foreach my $how (sort keys %failures)
{
	my $hits = blocks_of('pins', 'hits');

	like($a->query($failures{$how}) . $a->{stderr}, qr/ERROR/, "an error $how");
	$a->{stderr} = '';
	cmp_ok(blocks_of('pins', 'hits'), '>', $hits, "an error $how: the ring was in use");
	pins(0, "an error $how");
	$a->query_safe('RESET statement_timeout');
}
$a->query(qq{DO \$\$ BEGIN BEGIN $failing; EXCEPTION WHEN undefined_object THEN NULL; END; END \$\$});
pins(0, 'an error that was caught');

# Cursors.
$a->query_safe(q{BEGIN; DECLARE c CURSOR FOR SELECT chash_node(key, 'pins') FROM keys});
is($a->query('FETCH 2 FROM c'), "v1\nv1", 'a cursor');
$monitor->query_safe(q{SELECT become('v2', 'pins')});
sees($b, 'pins', 'v2', 'another session after a change');
is($a->query('FETCH 2 FROM c'), "v1\nv1", 'the cursor keeps its version');
are_blocks('pins', 'epoch, pins', "2|1\n3|0", 'which stays');
sees($a, 'pins', 'v2', 'while the transaction sees the new one');
are_blocks('pins', 'epoch, pins', "2|1\n3|1", 'and has both');
is($a->query('FETCH 2 FROM c'), "v1\nv1", 'the cursor keeps its version still');
$a->query_safe('CLOSE c; COMMIT');
are_blocks('pins', 'epoch, pins', '3|0', 'at its end, the old one goes');
$a->query_safe(q{BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT chash_node(key, 'pins') FROM keys});
is($a->query('FETCH 1 FROM c'), 'v2', 'a cursor WITH HOLD');
$a->query_safe('COMMIT');
pins(0, 'a cursor WITH HOLD after COMMIT');
$monitor->query_safe(q{SELECT become('v3', 'pins')});
is($a->query('FETCH ALL FROM c') =~ s/v2\n?//gr, '', 'which keeps what it had read');
$a->query_safe('CLOSE c');

# A procedure that commits, in the middle of reading.
$monitor->query_safe(q{
	CREATE PROCEDURE commits() LANGUAGE plpgsql AS $$
	DECLARE
		version text;
	BEGIN
		FOR version IN SELECT chash_node(key, 'pins') FROM keys LIMIT 3 LOOP
			RAISE NOTICE '% %, with % pins', version, chash_node(version, 'pins'), (SELECT sum(pins) FROM chash_cache WHERE ring = 'pins');
			COMMIT;
			RAISE NOTICE 'with % pins', (SELECT sum(pins) FROM chash_cache WHERE ring = 'pins');
		END LOOP;
	END
	$$
});
$a->query('CALL commits()');
is(join(', ', $a->{stderr} =~ /NOTICE:  (.*)/g), join(', ', ('v3 v3, with 1 pins', 'with 0 pins') x 3), 'a procedure that commits');
$a->{stderr} = '';

# Sessions that end.
foreach my $end ('terminated', 'closed', 'killed with its client')
{
	my $session = open_session($server);
	my $pid = $session->query_safe('SELECT pg_backend_pid()');

	$session->query_safe('BEGIN; ' . version_of('pins'));
	pins(1, "a session that will be $end");
	if ($end eq 'terminated') { $monitor->query_safe("SELECT pg_terminate_backend($pid)") }
	elsif ($end eq 'closed') { $session->quit }
	else { $session->{run}->signal('KILL') }
	wait_until("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid", "it is $end");
	pins(0, "a session that was $end");
	eval { $session->{run}->finish };
}
foreach my $end ('cancel', 'terminate')
{
	my $session = open_session($server);
	my $pid = $session->query_safe('SELECT pg_backend_pid()');

	$session->{stdin} .= "SELECT count(*) FROM keys WHERE chash_node(key, 'pins') <> pg_sleep(0.05)::text;\n";
	$session->{run}->pump_nb;
	wait_until(q{SELECT sum(pins) > 1 FROM chash_cache WHERE ring = 'pins'}, 'parallel workers have pins');
	$monitor->query_safe("SELECT pg_${end}_backend($pid)");
	wait_until(q{SELECT sum(pins) = 0 FROM chash_cache WHERE ring = 'pins'}, "pg_${end}_backend() makes an end of that");
	if ($end eq 'cancel') { $session->query(''); $session->quit }
	else { eval { $session->{run}->finish } }
}
will_be_blocks('pins', 'epoch, builds', '(4,1)', 'and all that was one block');

# ---------------------------------------------------------------------------
# What is not committed is nobody else's
# ---------------------------------------------------------------------------

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
# What no stamp tells of
# ---------------------------------------------------------------------------

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
	SELECT count(*) = 0 FROM chash_cache WHERE ring IN ('old', 'one', 'pins', 'ring', 'truncated', 'disguised', 'hidden')},
	'blocks of dropped rings go when other rings come');

# ---------------------------------------------------------------------------
# Databases
# ---------------------------------------------------------------------------

$server->safe_psql('postgres', 'CREATE DATABASE origin');
$server->safe_psql('origin', q{CREATE EXTENSION chash; SELECT chash_create_ring('twin', vnodes => 8); SELECT chash_add_node('origin', 'twin')});
$server->safe_psql('origin', version_of('twin'));
$server->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE origin');
my $origin = open_session($server, 'origin');
my $copy = open_session($server, 'copy');
is($copy->query('SELECT version FROM chash_rings'), $origin->query('SELECT version FROM chash_rings'), 'a copied database has the same stamps');

sees($copy, 'twin', 'origin', 'and the same rings');
is($monitor->query_safe(q{SELECT database, epoch, builds, hits FROM chash_cache WHERE ring = 'twin' ORDER BY 1, 2}), "copy|2|1|0\norigin|2|1|0", 'of which it has blocks of its own');

# Changed without a new stamp.
$copy->query_safe(q{
	BEGIN;
	SET session_replication_role = replica;
	ALTER TABLE chash_nodes DISABLE TRIGGER USER;
	UPDATE chash_nodes SET node = 'copy';
	ALTER TABLE chash_nodes ENABLE ALWAYS TRIGGER chash_before_row;
	ALTER TABLE chash_nodes ENABLE ALWAYS TRIGGER chash_before_statement;
	ALTER TABLE chash_nodes ENABLE ALWAYS TRIGGER chash_after_statement;
	ALTER TABLE chash_nodes ENABLE ALWAYS TRIGGER chash_before_truncate;
	COMMIT;
});
sees($copy, 'twin', 'copy', 'changed there');
sees($origin, 'twin', 'origin', 'and not here');
$copy->query_safe(q{SELECT chash_set_node('copy', 'twin', weight => 2)});
sees($copy, 'twin', 'copy', 'changed again');
sees($origin, 'twin', 'origin', 'and not here');
is($monitor->query_safe(q{SELECT database, epoch FROM chash_cache WHERE ring = 'twin' ORDER BY 1, 2}), "copy|3\norigin|2", 'one block for each database');

# Who sees what.
$server->safe_psql('postgres', 'CREATE ROLE nobody_special LOGIN; CREATE ROLE watcher LOGIN IN ROLE pg_read_all_stats; CREATE ROLE trusted LOGIN');
my %databases_seen = (nobody_special => 'origin', watcher => 'copy origin postgres');
foreach my $role (sort keys %databases_seen)
{
	is($server->safe_psql('origin', q{SELECT string_agg(DISTINCT database, ' ' ORDER BY database) FROM chash_cache}, extra_params => [ '--username', $role ]),
		$databases_seen{$role}, "$role sees the rings of $databases_seen{$role}");
}
$server->safe_psql('postgres', 'GRANT EXECUTE ON FUNCTION chash_cache_reset() TO trusted');
foreach my $case ([ 'watcher', qr/permission denied for function chash_cache_reset/ ], [ 'trusted', qr/must be superuser/ ])
{
	my ($role, $message) = @$case;
	my ($out, $err);

	$server->psql('postgres', 'SELECT chash_cache_reset()', extra_params => [ '--username', $role ], stdout => \$out, stderr => \$err);
	like($err, $message, "$role may not empty the cache");
}
cmp_ok($monitor->query_safe('SELECT count(*) FROM chash_cache'), '>', 2, 'nor do they');

# Dropped databases.
$_->quit foreach $copy, $origin;
$server->safe_psql('postgres', 'DROP DATABASE copy');
is($monitor->query_safe(q{SELECT database IS NULL, epoch FROM chash_cache WHERE ring = 'twin' ORDER BY 1, 2}), "f|2\nt|3", 'a dropped database has no name');
wait_until(q{
	SELECT make('v', 'filler ' || i) FROM (SELECT count(*) AS i FROM chash_rings) AS n \gset
	SELECT chash_node('apple', 'filler ' || i) FROM (SELECT count(*) - 1 AS i FROM chash_rings) AS n \gset
	SELECT count(*) = 0 FROM chash_cache WHERE database IS NULL},
	'its blocks go when rings are built elsewhere');
is($monitor->query_safe(q{SELECT database FROM chash_cache WHERE ring = 'twin'}), 'origin', 'those of others stay');

# Other encodings.
foreach my $case ([ 'LATIN1', "r\xc3\xbc", '' ], [ 'SQL_ASCII', "r\xc3\xbc", '' ], [ 'SQL_ASCII', "r\xfc", ' and a name that is not UTF-8' ])
{
	my ($encoding, $name, $remark) = @$case;
	my $literal = $name =~ /\xc3/ && $encoding ne 'SQL_ASCII' ? q{convert_from('\x72c3bc', 'UTF8')} : $name =~ /\xc3/ ? q{E'r\xc3\xbc'} : q{E'r\xfc'};
	my $database = lc($encoding) . length($name);

	local $ENV{PGCLIENTENCODING} = 'SQL_ASCII';
	$server->safe_psql('postgres', "CREATE DATABASE $database TEMPLATE template0 ENCODING '$encoding' LOCALE 'C'");
	$server->safe_psql($database, "CREATE EXTENSION chash; SELECT chash_create_ring($literal, vnodes => 8); SELECT chash_add_node($literal, $literal)");
	my ($one, $other) = map { open_session($server, $database) } 1, 2;
	is($_->query("SELECT chash_node('apple', $literal) = $literal"), 't', "$encoding$remark: a lookup") foreach $one, $other;
	is($one->query_safe("SELECT ring = $literal, builds, hits FROM chash_cache WHERE database = current_database()"), 't|1|1', "$encoding$remark: what is in the cache");
	like($other->query_safe(q{SELECT count(*) FROM chash_cache WHERE database <> current_database() AND ring LIKE 'filler %'}), qr/^[1-9]/, "$encoding$remark: what others have there");
	delete $ENV{PGCLIENTENCODING};
	is($server->safe_psql('postgres', "SELECT replace(encode(convert_to(ring, 'UTF8'), 'hex'), '3f', '') IN ('72', '72c3bc'), hits FROM chash_cache WHERE database = '$database'"),
		't|1', "$encoding$remark: what another database sees of it");
	$_->quit foreach $one, $other;
}

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

# ---------------------------------------------------------------------------
# No shared cache
# ---------------------------------------------------------------------------

my @servers = ([ 'chash.cache_size = 0', "\nchash.cache_size = 0\n", qr/Set "chash\.cache_size" above zero/, preload => 1 ]);
push @servers, [ 'not preloaded', '', qr/Add "chash" to "shared_preload_libraries", and restart/, preload => 0 ] if $major < 17;
push @servers, [ 'chash.cache_size = 0, not preloaded', "\nsession_preload_libraries = 'chash'\nchash.cache_size = 0\n", qr/Set "chash\.cache_size" above zero/, preload => 0 ] if $major >= 17;
foreach my $case (@servers)
{
	my ($what, $conf, $hint, @options) = @$case;
	my $name = $what =~ s/\W+/_/gr;
	my $without = new_server($name, @options, conf => $conf);
	my ($out, $err);

	make_proof($without);
	$without->safe_psql('postgres', q{SELECT chash_create_ring('r', vnodes => 8); SELECT chash_apply('{"a": {}, "b": {}}', 'r')});
	my $session = open_session($without);
	proof_holds($session, "$what: lookups are what the tables say");
	$session->quit;
	$without->psql('postgres', 'SELECT * FROM chash_cache', stdout => \$out, stderr => \$err);
	is($out, '', "$what: the view is empty");
	like($err, qr/^psql:.* NOTICE:  there is no shared cache of chash: each session builds rings for itself\n/, "$what: a notice says why");
	like($err, qr/HINT:  $hint/, "$what: and what to do");
	is($without->safe_psql('postgres', 'SELECT chash_cache_reset()'), '', "$what: there is nothing to empty");
	$without->stop;
}

done_testing();
