# While sessions change rings, commit, roll back, roll back to savepoints, and drop and
# create rings, in all isolation levels, every lookup is what the tables say in the
# same statement: by the ring's points, and by the published rules applied to the rows
# of chash_nodes.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $seconds = 20;

my $server = new_server('server', conf => <<'CONF');
log_statement = none
max_prepared_transactions = 20
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

	-- One of the ways to change a ring.
	CREATE FUNCTION proof.change(name text) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		some_node text := 'n' || (random() * 3)::int;
		some_weight numeric := (random() * 4)::int / 2.0;
	BEGIN
		CASE (random() * 6)::int
		WHEN 0 THEN
			PERFORM chash_apply(jsonb_build_object(some_node, jsonb_build_object('weight', some_weight)), name);
		WHEN 1 THEN
			INSERT INTO chash_nodes (ring, node, weight) VALUES (name, some_node, some_weight)
			ON CONFLICT (ring, node) DO UPDATE SET weight = excluded.weight;
		WHEN 2 THEN
			DELETE FROM chash_nodes WHERE ring = name AND node = some_node;
		WHEN 3 THEN
			UPDATE chash_nodes SET weight = some_weight WHERE ring = name AND node <> 'base';
		WHEN 4 THEN
			UPDATE chash_nodes SET state = CASE state WHEN 'up' THEN 'down' ELSE 'up' END WHERE ring = name AND node = some_node;
		WHEN 5 THEN
			PERFORM chash_prune_history(name, 5);
			PERFORM chash_apply(jsonb_build_object(some_node, '{}'::jsonb), name);
		ELSE
			-- A change that is undone by an error, after it has been looked at.
			BEGIN
				DELETE FROM chash_nodes WHERE ring = name AND node <> 'base';
				IF EXISTS (SELECT FROM proof.wrong) THEN RETURN; END IF;
				PERFORM chash_add_node('base', name);
			EXCEPTION WHEN duplicate_object THEN
				NULL;
			END;
		END CASE;
	END
	$$;
});

# Pieces of the sessions' work.
my $look = "SELECT * FROM proof.wrong;\n";
my $ring = q{\set r random(0, 2)} . "\n";
my $change = q{SELECT proof.change((ARRAY['v1', 'v2', 'p1'])[:r + 1]);} . "\n";
my $end = "\\set dice random(1, 3)\n\\if :dice = 1\nROLLBACK;\n\\else\nCOMMIT;\n\\endif\n";

my %scripts = (
	'look' => [ 6, $look ],
	'look_read_committed' => [ 2, "BEGIN;\n$look\\sleep 5 ms\n$look$look" . "COMMIT;\n$look" ],
	'look_repeatable_read' => [ 3, "BEGIN ISOLATION LEVEL REPEATABLE READ;\n$look\\sleep 5 ms\n$look" . "COMMIT;\n$look" ],
	'look_serializable' => [ 2, "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY;\n$look\\sleep 5 ms\n$look" . "COMMIT;\n$look" ],
	'change' => [ 4, "$ring$change$look" ],
	'change_in_transaction' => [ 4, "${ring}BEGIN;\n$look$change$look$change$look$end$look" ],
	'change_in_savepoints' => [
		5,
		"${ring}BEGIN;\n$change" . "SAVEPOINT s;\n$change$look" . "ROLLBACK TO s;\n$look$change$look" . "SAVEPOINT t;\n$change" . "RELEASE t;\n$look" .
		"ROLLBACK TO s;\n$look$end$look"
	],
	'change_repeatable_read' => [ 2, "${ring}BEGIN ISOLATION LEVEL REPEATABLE READ;\n$look$change$look" . "SAVEPOINT s;\n$change$look" . "ROLLBACK TO s;\n$look$end$look" ],
	'change_serializable' => [ 1, "${ring}BEGIN ISOLATION LEVEL SERIALIZABLE;\n$change$look$end$look" ],
	'create_again' => [ 1, "BEGIN;\nSELECT pg_advisory_xact_lock(1);\nDELETE FROM chash_rings WHERE ring = 'churn';\n${look}SELECT proof.create_ring('churn');\n${look}SELECT proof.change('churn');\n$look$end$look" ],
	'truncate' => [
		1,
		"BEGIN;\nTRUNCATE chash_nodes;\nINSERT INTO chash_nodes (ring, node) SELECT ring, 'base' FROM chash_rings;\n${look}SELECT proof.change('v1');\n$look$end$look"
	],
	# (Nothing is looked up while it is prepared: that would wait for a TRUNCATE that
	# waits for it.)
	'two_phase' => [
		1,
		"${ring}BEGIN;\n$change$look" . "PREPARE TRANSACTION 'client :client_id';\n\\set dice random(1, 2)\n\\if :dice = 1\nROLLBACK PREPARED 'client :client_id';\n"
		  . "\\else\nCOMMIT PREPARED 'client :client_id';\n\\endif\n$look"
	]);

my @files;
foreach my $name (sort keys %scripts)
{
	append_to_file("$directory/$name", $scripts{$name}[1]);
	push @files, '--file', "$directory/$name\@$scripts{$name}[0]";
}

my ($out, $err) = ('', '');
my $ok = IPC::Run::run(
	[
		'pgbench', '--no-vacuum', '--host', $server->host, '--port', $server->port,
		'--client=8', '--jobs=2', '--time', $seconds, '--max-tries=1000', '--protocol=simple', @files, 'postgres'
	],
	'<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout($seconds + 120));

ok($ok, 'no lookup was wrong in a session that changes or looks') or diag($err);
note($out);
note($err);

# That something has happened at all.
foreach my $name (sort keys %scripts)
{
	my ($count) = $out =~ m{SQL script \d+: \S*/\Q$name\E\n.*?- (\d+) transactions}s;

	cmp_ok($count // 0, '>', 0, "$name: " . ($count // 0) . ' times');
}
my $session = open_session($server);
proof_holds($session, 'lookups are what the tables say at the end');
is($session->query(q{SELECT count(*) FROM chash_rings WHERE fingerprint = chash_fingerprint(ring)}), '4', 'and fingerprints are right');
cmp_ok($session->query(q{SELECT sum(epoch) FROM chash_rings}), '>', 50, 'after many epochs');

$session->quit;
$server->stop;
done_testing();
