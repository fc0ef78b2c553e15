# A session does not grow by lookups, however many, nor by changes of rings, nor by
# looking at many rings or epochs beyond what chash.local_cache_size lets it keep.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use Test::More;

plan skip_all => 'needs /proc' unless -r '/proc/self/status' && slurp('/proc/self/status') =~ /^RssAnon:/m;

my $server = new_server('server', conf => <<'CONF');
log_statement = none
max_parallel_workers_per_gather = 0
CONF
my $megabyte = 1024;
my $tolerance = 3 * $megabyte;

$server->safe_psql('postgres', q{
	SELECT chash_create_ring();
	INSERT INTO chash_nodes (node, zone) SELECT 'node ' || i, 'zone ' || i % 5 FROM generate_series(1, 50) AS i;
	SELECT chash_create_ring('small', vnodes => 16);
	INSERT INTO chash_nodes (ring, node) SELECT 'small', 'node ' || i FROM generate_series(1, 10) AS i;
	SELECT chash_create_ring('parts', 'partitions');
	INSERT INTO chash_nodes (ring, node) SELECT 'parts', 'node ' || i FROM generate_series(1, 50) AS i;
	SELECT chash_create_ring('tags', hash_tags => true);
	INSERT INTO chash_nodes (ring, node, state) SELECT 'tags', 'node ' || i, CASE WHEN i % 2 = 0 THEN 'down' ELSE 'up' END FROM generate_series(1, 50) AS i;
});

sub slurp
{
	my ($name) = @_;

	open my $file, '<', $name or die "$name: $!";
	local $/ = undef;
	return <$file>;
}

# Memory of a process that is its own, in kilobytes.
sub memory_of
{
	my ($pid) = @_;

	return slurp("/proc/$pid/status") =~ /^RssAnon:\s+(\d+) kB/m ? $1 : die "no RssAnon";
}

# Executes a small version of a statement, and then the whole, in one session, and
# compares how much memory the session has after the one with the most that it has
# while it executes the other.
sub does_not_grow
{
	my ($name, $small, $large, $expected, $setup) = @_;
	my $session = open_session($server);
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	my ($before, $peak, $growth);
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	$session->query_safe($setup) if defined $setup;
	$session->query_safe($small);
	$session->query_safe($small);
	$before = $peak = memory_of($pid);

	$session->{stdin} .= "$large;\n\\echo done\n";
	until ($session->{stdout} =~ /^done$/m)
	{
		my $now = memory_of($pid);

		$peak = $now if $now > $peak;
		$session->{run}->pump_nb;
		select(undef, undef, undef, 0.02);
	}
	$peak = memory_of($pid) if memory_of($pid) > $peak;
	$growth = $peak - $before;
	is($session->{stdout}, "${expected}done\n", "$name: the result");
	cmp_ok($growth, '<', $tolerance, "$name: grows from $before kB by $growth kB");
	$session->{stdout} = '';
	$session->quit;
	return;
}

# count(lookup of k) over that many keys, without a temporary file for them.
sub over
{
	my ($lookup, $keys) = @_;
	my $outer = $keys / 1000;

	return "SELECT count($lookup) FROM generate_series(1, $outer) AS a, LATERAL generate_series(a * 1000, a * 1000 + 999) AS k";
}

sub lookups_do_not_grow
{
	my ($lookup, $keys) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	does_not_grow("$keys of $lookup", over($lookup, 10_000), over($lookup, $keys), "$keys\n");
	return;
}

lookups_do_not_grow('chash_node(k)', 10_000_000);
lookups_do_not_grow(q{chash_node('key ' || k)}, 10_000_000);
lookups_do_not_grow(q{chash_node('user:{' || k || '}:cart', 'tags')}, 2_000_000);
lookups_do_not_grow(q{chash_node(('key ' || k)::bytea, 'parts')}, 2_000_000);
lookups_do_not_grow('chash_replicas(k, 3)', 2_000_000);
lookups_do_not_grow(q{chash_replicas('key ' || k, 60, 'tags')}, 200_000);
lookups_do_not_grow('(chash_route(k)).node', 1_000_000);
lookups_do_not_grow('chash_node_at(k::bigint << 40)', 2_000_000);
lookups_do_not_grow('chash_hash(k)', 2_000_000);
lookups_do_not_grow(q{chash_check_route(k, chash_node(k), 1)}, 1_000_000);
lookups_do_not_grow(q{chash_node_as_of(k, 2)}, 2_000_000);

# The ring's name from row to row.
lookups_do_not_grow(q{chash_node(k, (ARRAY['default', 'parts', 'tags'])[1 + k % 3])}, 1_000_000);
lookups_do_not_grow(q{chash_replicas(k, 2 + k % 5, (ARRAY['default', 'parts', 'tags'])[1 + k % 3])}, 300_000);

# A statement for each lookup, and one transaction for each.
my $many = 'SET client_min_messages = error; DO $$ BEGIN FOR i IN 1 .. %d LOOP PERFORM chash_node(i), chash_replicas(i, 2); %s END LOOP; END $$; SELECT 1';
does_not_grow('100,000 statements', sprintf($many, 1000, ''), sprintf($many, 100_000, ''), "1\n");
does_not_grow('100,000 transactions', sprintf($many, 1000, 'COMMIT;'), sprintf($many, 100_000, 'COMMIT;'), "1\n");

# 10,000 changes, each of them looked up, in transactions of their own.
my $changes = q{DO $$
	BEGIN
		FOR i IN 1 .. %d LOOP
			PERFORM chash_set_node('node ' || 1 + i %% 10, 'small', weight => 1 + i %% 7);
			IF chash_node(i, 'small') IS NULL OR chash_replicas(i, 2, 'small') IS NULL THEN RAISE 'no node'; END IF;
			IF i %% 3 = 0 THEN ROLLBACK; ELSE COMMIT; END IF;
		END LOOP;
	END $$; SELECT count(*) FROM chash_nodes WHERE ring = 'small'};
does_not_grow('10,000 changes and lookups', sprintf($changes, 500), sprintf($changes, 10_000), "10\n", q{SET chash.local_cache_size = '1MB'});

# Failures leave nothing behind either.
my $failures = q{DO $$
	BEGIN
		FOR i IN 1 .. %d LOOP
			BEGIN
				PERFORM chash_add_node('node 1');
			EXCEPTION WHEN duplicate_object THEN
				PERFORM chash_node(i);
			END;
			COMMIT;
		END LOOP;
	END $$; SELECT 1};
does_not_grow('2,000 changes that fail', sprintf($failures, 200), sprintf($failures, 2000), "1\n");

# What is kept is bounded: many rings, and many epochs of one.
$server->safe_psql('postgres', q{
	SELECT count(chash_create_ring('ring ' || i)) FROM generate_series(1, 300) AS i;
	INSERT INTO chash_nodes (ring, node) SELECT 'ring ' || r, 'node ' || n FROM generate_series(1, 300) AS r, generate_series(1, 20) AS n;
});
my $rings = q{SELECT count(DISTINCT chash_node('key ' || i, 'ring ' || i)) > 1 FROM generate_series(1, %d) AS i};
does_not_grow('300 rings', sprintf($rings, 30), sprintf($rings, 300), "t\n", q{SET chash.local_cache_size = '1MB'});
my $epochs = q{SELECT count(DISTINCT chash_node_as_of(epoch, epoch, 'small')) > 1 FROM generate_series(2, %d) AS epoch};
does_not_grow('1,000 epochs', sprintf($epochs, 200), sprintf($epochs, 1000), "t\n", q{SET chash.local_cache_size = '1MB'});

$server->stop;
done_testing();
