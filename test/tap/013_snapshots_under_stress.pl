# While sessions change rings, commit, roll back, roll back to savepoints, prepare
# transactions that others finish, and drop and create rings, in all isolation levels,
# every lookup is what the tables say in the same statement.
#
# What a session does depends on the seed alone, which is printed and can be set
# (CHASH_TEST_SEED), as can the number of seconds (CHASH_TEST_SECONDS): pgbench draws
# all random numbers, each session's from a sequence of its own.  Only how the sessions'
# statements mix is up to the machine.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $server = new_server('server', conf => <<'CONF');
log_statement = none
max_prepared_transactions = 100
deadlock_timeout = 100ms
CONF
my $directory = PostgreSQL::Test::Utils::tempdir;
make_proof($server);
$server->safe_psql('postgres', q{
	-- Each ring keeps one node that nobody touches, so that there is an answer.
	CREATE FUNCTION proof.create_ring(name text) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		IF name LIKE 'p%' THEN
			PERFORM chash_create_ring(name, 'partitions', partitions => 16);
		ELSE
			PERFORM chash_create_ring(name, vnodes => 8);
		END IF;
		PERFORM chash_add_node('base', name);
	END
	$$;
	SELECT proof.create_ring(name) FROM unnest('{v1,v2,p1,churn}'::text[]) AS name;

	-- To be called for each row of a statement that changes them: sees those that are
	-- changed already, which may leave partitions without an owner.
	CREATE FUNCTION proof.look_meanwhile() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
	BEGIN
		RETURN proof.look() IS NOT NULL;
	EXCEPTION WHEN object_not_in_prerequisite_state THEN
		RETURN true;
	END
	$$;

	-- One of the ways to change a ring, of which there are eight.
	CREATE FUNCTION proof.change(name text, way int, node_number int, doubled_weight int) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		some_node text := 'n' || node_number;
		some_weight numeric := doubled_weight / 2.0;
	BEGIN
		CASE way
		WHEN 1 THEN
			PERFORM chash_apply(jsonb_build_object(some_node, jsonb_build_object('weight', some_weight)), name);
		WHEN 2 THEN
			INSERT INTO chash_nodes (ring, node, weight) VALUES (name, some_node, some_weight)
			ON CONFLICT (ring, node) DO UPDATE SET weight = excluded.weight;
		WHEN 3 THEN
			DELETE FROM chash_nodes WHERE ring = name AND node = some_node;
		WHEN 4 THEN
			UPDATE chash_nodes SET weight = some_weight WHERE ring = name AND node <> 'base';
		WHEN 5 THEN
			UPDATE chash_nodes SET state = CASE state WHEN 'up' THEN 'down' ELSE 'up' END WHERE ring = name AND node = some_node;
		WHEN 6 THEN
			PERFORM chash_prune_history(name, 5);
			PERFORM chash_apply(jsonb_build_object(some_node, '{}'::jsonb), name);
		WHEN 7 THEN
			-- A change that is undone by an error, after it has been looked at.
			BEGIN
				DELETE FROM chash_nodes WHERE ring = name AND node <> 'base';
				PERFORM proof.look();
				PERFORM chash_add_node('base', name);
			EXCEPTION WHEN duplicate_object THEN
				NULL;
			END;
		WHEN 8 THEN
			UPDATE chash_nodes SET weight = some_weight WHERE ring = name AND node <> 'base' AND proof.look_meanwhile();
		END CASE;
	END
	$$;

	-- The first two replicas, by the ring's points; and the owner in the epoch before,
	-- by the rows of chash_nodes and its history.
	CREATE VIEW proof.more_lookups AS
	SELECT r.ring, k.key, r.epoch, chash_replicas(k.key, 2, r.ring) AS replicas,
		(SELECT array_agg(node ORDER BY first)
			FROM (SELECT node, min(turn) AS first
				FROM (SELECT p.node, row_number() OVER (ORDER BY p.position >= chash_hash(k.key) DESC, p.position, p.node COLLATE "C") AS turn
					FROM chash_points(r.ring) AS p
					JOIN chash_nodes AS n ON n.ring = r.ring AND n.node = p.node AND n.state = 'up') AS walk
				GROUP BY node ORDER BY first LIMIT 2) AS firsts) AS replicas_by_points,
		CASE WHEN r.epoch > r.history_from AND past.nodes > 0 THEN chash_node_as_of(k.key, r.epoch - 1, r.ring) END AS as_of,
		CASE WHEN r.epoch > r.history_from AND past.nodes > 0 THEN past.node END AS as_of_by_nodes
	FROM chash_rings AS r CROSS JOIN proof.keys AS k
	CROSS JOIN LATERAL (
		SELECT count(*) AS nodes, (array_agg(points.node ORDER BY points.turn))[1] AS node
		FROM (
			SELECT n.node, row_number() OVER (ORDER BY p.position >= chash_hash(k.key) DESC, p.position, n.node COLLATE "C") AS turn
			FROM (SELECT node, weight FROM chash_nodes WHERE ring = r.ring AND epoch < r.epoch
				UNION ALL SELECT node, weight FROM chash_node_history WHERE ring = r.ring AND from_epoch < r.epoch AND to_epoch >= r.epoch) AS n,
				generate_series(0, greatest(1, round(r.vnodes * n.weight))::int - 1) AS i,
				LATERAL (SELECT chash_hash(n.node || '#' || i) AS position) AS p
			WHERE r.placement = 'vnodes' AND n.weight > 0
			UNION ALL
			SELECT n.node, row_number() OVER (ORDER BY i >= floor((chash_hash(k.key)::numeric + 2::numeric ^ 63) / (2::numeric ^ 64 / r.partitions)) DESC, i)
			FROM (SELECT node, held_partitions FROM chash_nodes WHERE ring = r.ring AND epoch < r.epoch
				UNION ALL SELECT node, held_partitions FROM chash_node_history WHERE ring = r.ring AND from_epoch < r.epoch AND to_epoch >= r.epoch) AS n,
				unnest(n.held_partitions) AS i
			WHERE r.placement = 'partitions') AS points) AS past
	WHERE EXISTS (SELECT FROM chash_nodes AS n WHERE n.ring = r.ring AND n.weight > 0 AND n.state = 'up')
	OFFSET 0;

	-- How many lookups were compared; raises an error if one is wrong.
	CREATE VIEW proof.compared AS
	SELECT count(*) + count(proof.complain(l::text)) FILTER (WHERE
			looked_up IS NULL OR looked_up IS DISTINCT FROM by_points OR looked_up IS DISTINCT FROM by_nodes) AS lookups
	FROM proof.lookups AS l;
	CREATE VIEW proof.more_compared AS
	SELECT count(replicas) + count(as_of) + count(proof.complain(l::text)) FILTER (WHERE
			replicas IS NULL OR replicas IS DISTINCT FROM replicas_by_points OR as_of IS DISTINCT FROM as_of_by_nodes) AS lookups
	FROM proof.more_lookups AS l;

	-- The same, with a plan that a session makes once.
	CREATE FUNCTION proof.look() RETURNS bigint LANGUAGE plpgsql AS $$
	BEGIN
		RETURN (SELECT lookups FROM proof.compared);
	END
	$$;
	CREATE FUNCTION proof.look_further() RETURNS bigint LANGUAGE plpgsql AS $$
	BEGIN
		RETURN (SELECT lookups FROM proof.more_compared);
	END
	$$;

	-- What has been done.
	CREATE TABLE proof.done (work text, lookups bigint, committed bigint, rolled_back bigint, prepared bigint);
});
my $shared = $server->safe_psql('postgres', q{
	SET client_min_messages = warning;
	DO $$BEGIN PERFORM chash_node('key', 'v1'); END$$;
	SELECT count(*) FROM chash_cache}) > 0;
my $seed = $ENV{CHASH_TEST_SEED} // int(rand(1_000_000_000));
my $seconds = $ENV{CHASH_TEST_SECONDS} // ($shared ? 60 : 20);

note("CHASH_TEST_SEED=$seed CHASH_TEST_SECONDS=$seconds, " . ($shared ? 'with' : 'without') . ' a shared cache');

# ---------------------------------------------------------------------------
# Pieces of the sessions' work.  Variables of pgbench count what is done.
# ---------------------------------------------------------------------------

my $add = "\\set lookups :lookups + :seen\n";
my $look_plainly = "SELECT lookups AS seen FROM proof.compared \\gset\n$add";
my $look = "SELECT proof.look() AS seen \\gset\n$add";
my $look_further = "SELECT proof.look_further() AS seen \\gset\n$add";
my $pause = "\\set pause random(1, 5)\n\\sleep :pause ms\n";

my $ring = "\\set ring random(1, 3)\n";
my $change = change_of("(ARRAY['v1', 'v2', 'p1'])[:ring]");
my $savepoint = "SAVEPOINT s;\n\\set kept :changes\n";
my $rollback_to = "ROLLBACK TO s;\n\\set rolled_back :rolled_back + :changes - :kept\n\\set changes :kept\n";
my $commit = "COMMIT;\n\\set committed :committed + :changes\n";
my $rollback = "ROLLBACK;\n\\set rolled_back :rolled_back + :changes\n";
my $end = one_of([ 2, $commit ], [ 1, $rollback ]);

sub change_of
{
	my ($name) = @_;

	return "\\set way random(1, 8)\n\\set node random(0, 3)\n\\set weight random(0, 4)\n"
	  . "SELECT proof.change($name, :way, :node, :weight);\n\\set changes :changes + 1\n";
}

# A script that does one of several things, each as often as its number says.
my $choices = 0;

sub one_of
{
	my (@cases) = @_;
	my $choice = 'choice_' . ++$choices;
	my ($script, $sum) = ('', 0);

	foreach my $case (@cases)
	{
		my ($often, $work) = @$case;

		$sum += $often;
		$script .= ($script eq '' ? '\if' : '\elif') . " :$choice <= $sum\n$work";
	}
	return "\\set $choice random(1, $sum)\n$script\\endif\n";
}

# The same for whole transactions, which are named.
sub script_of
{
	my (%work) = @_;
	my $script = join '', map { "\\set $_ 0\n" } qw(lookups changes committed rolled_back prepared);

	return $script . one_of(
		map {
			[ $work{$_}[0], "$work{$_}[1]INSERT INTO proof.done VALUES ('$_', :lookups, :committed, :rolled_back, :prepared);\n" ]
		} sort keys %work);
}

# What sessions do that stay.
my %work = (
	'look' => [ 5, $look ],
	'look plainly' => [ 2, $look_plainly ],
	'look further' => [ 2, $look_further ],
	'look, READ COMMITTED' => [ 2, "BEGIN;\n$look$pause$look$look_further" . "COMMIT;\n$look" ],
	'look, REPEATABLE READ' => [ 3, "BEGIN ISOLATION LEVEL REPEATABLE READ;\n$look$pause$look$pause$look_further" . "COMMIT;\n$look" ],
	'look, SERIALIZABLE' => [ 2, "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY;\n$look$pause$look" . "COMMIT;\n$look" ],
	'change' => [ 4, "$ring$change\\set committed 1\n$look" ],
	'change in a transaction' => [ 4, "${ring}BEGIN;\n$look$change$look_further$change$look$end$look" ],
	'change in savepoints' => [
		5,
		"${ring}BEGIN;\n$change$savepoint$change$look$rollback_to$look$change$look_further" .
		"SAVEPOINT t;\n$change" . "RELEASE t;\n$look$rollback_to$look$end$look"
	],
	'change, REPEATABLE READ' => [ 2, "${ring}BEGIN ISOLATION LEVEL REPEATABLE READ;\n$look$change$look$savepoint$change$look$rollback_to$look$end$look" ],
	'change, SERIALIZABLE' => [ 1, "${ring}BEGIN ISOLATION LEVEL SERIALIZABLE;\n$change$look$end$look" ],
	'create again' => [
		1,
		"BEGIN;\nSELECT pg_advisory_xact_lock(1);\nDELETE FROM chash_rings WHERE ring = 'churn';\n$look" .
		"SELECT proof.create_ring('churn');\n\\set changes 2\n$look" . change_of(q{'churn'}) . "$look$end$look"
	],
	'truncate' => [
		1,
		"BEGIN;\nTRUNCATE chash_nodes;\nINSERT INTO chash_nodes (ring, node) SELECT ring, 'base' FROM chash_rings;\n\\set changes 2\n" .
		$look . change_of(q{'v1'}) . "$look$end$look"
	],
	# (Nothing is looked up while it is prepared: that would wait for a TRUNCATE that
	# waits for it.)
	'prepare and finish' => [
		1,
		"${ring}BEGIN;\n$change$look" . "PREPARE TRANSACTION 'own :client_id';\n\\set prepared 1\n" .
		one_of([ 2, "COMMIT PREPARED 'own :client_id';\n\\set committed 1\n" ], [ 1, "ROLLBACK PREPARED 'own :client_id';\n\\set rolled_back 1\n" ]) . $look
	],
	'prepare' => [
		2,
		"\\set serial :serial + 1\n${ring}BEGIN;\n$change$look$change$look_further" . "PREPARE TRANSACTION 'left :client_id :serial';\n\\set prepared 2\n"
	]);
$work{'empty the cache'} = [ 1, "SELECT chash_cache_reset();\n$look" ] if $shared;

# What sessions do that come for one transaction.
my %short_work = (
	'come and look' => [ 4, $look_plainly ],
	'come and look further' => [ 1, $look_further ],
	'come and look, REPEATABLE READ' => [ 3, "BEGIN ISOLATION LEVEL REPEATABLE READ;\n$look$pause$look" . "COMMIT;\n$look" ],
	'come and change' => [ 1, "${ring}BEGIN;\n$change$look$end" ]);

# One session, new each time too, finishes what others have left prepared.  It never
# waits for a ring, since they may be waiting for it.
my %finishing_work = (
	'finish' => [
		1,
		"$pause\\set gid 0\nSELECT coalesce(min(gid), '') AS gid, count(*) AS found FROM (SELECT gid FROM pg_prepared_xacts WHERE gid LIKE 'left %' ORDER BY prepared LIMIT 1) AS first \\gset\n" .
		"\\if :found\n" . one_of([ 2, "COMMIT PREPARED ':gid';\n\\set committed 2\n" ], [ 1, "ROLLBACK PREPARED ':gid';\n\\set rolled_back 2\n" ]) . "\\endif\n"
	]);

# ---------------------------------------------------------------------------
# The run
# ---------------------------------------------------------------------------

my %pgbench;

sub start_pgbench
{
	my ($name, $work, @options) = @_;
	my %run = (out => '', err => '');

	append_to_file("$directory/$name", script_of(%$work));
	$run{process} = IPC::Run::start(
		[
			'pgbench', '--no-vacuum', '--host', $server->host, '--port', $server->port,
			'--random-seed', $seed, '--max-tries=1000', '--protocol=simple', '--define=serial=0',
			@options, '--file', "$directory/$name", 'postgres'
		],
		'<', \undef, '>', \$run{out}, '2>', \$run{err}, IPC::Run::timeout($seconds + 180));
	$pgbench{$name} = \%run;
	return;
}

start_pgbench('finishing', \%finishing_work, '--connect', '--client=1', '--time', $seconds + 600);
start_pgbench('coming', \%short_work, '--connect', '--client=3', '--time', $seconds);
start_pgbench('staying', \%work, '--client=8', '--jobs=2', '--time', $seconds);
foreach my $name ('staying', 'coming')
{
	ok($pgbench{$name}{process}->finish, "no lookup was wrong in sessions that are $name")
	  or diag("CHASH_TEST_SEED=$seed\n$pgbench{$name}{err}");
	note($pgbench{$name}{out});
	note($pgbench{$name}{err});
}
$pgbench{finishing}{process}->pump_nb;
unlike($pgbench{finishing}{err}, qr/error/, 'what sessions left prepared could be finished by others');
$pgbench{finishing}{process}->kill_kill;

my $session = open_session($server);
$session->query_safe(q{SELECT format('ROLLBACK PREPARED %L', gid) FROM pg_prepared_xacts \gexec});
note($session->query(q{
	SELECT format('%s compared lookups; changes: %s committed, %s rolled back, %s of them prepared',
		sum(lookups), sum(committed), sum(rolled_back), sum(prepared))
	FROM proof.done}));
note($session->query(q{SELECT format('%s: %s times', work, count(*)) FROM proof.done GROUP BY work ORDER BY work}));

# That something has happened at all.
foreach my $name (sort keys %work, keys %short_work, keys %finishing_work)
{
	cmp_ok($session->query("SELECT count(*) FROM proof.done WHERE work = '$name'"), '>', 0, "$name: has happened");
}
is($session->query(q{SELECT sum(lookups) > 1000, sum(committed) > 50, sum(rolled_back) > 20 FROM proof.done}),
	't|t|t', 'lookups were compared, changes were committed and rolled back');
is( $session->query(q{
		SELECT sum(committed) > 0, sum(rolled_back) > 0 FROM proof.done WHERE work = 'finish'
		UNION ALL SELECT sum(committed) > 0, sum(rolled_back) > 0 FROM proof.done WHERE work = 'prepare and finish'}),
	"t|t\nt|t", 'prepared transactions were committed and rolled back, by the session that prepared them and by another');
proof_holds($session, 'lookups are what the tables say at the end');
is($session->query(q{SELECT count(*) FROM chash_rings WHERE fingerprint = chash_fingerprint(ring)}), '4', 'and fingerprints are right');
is($session->query(q{SELECT count(*) FROM chash_cache WHERE pins > 0}), '0', 'nothing in the shared cache is in use') if $shared;

$session->quit;
$server->stop;
done_testing();
