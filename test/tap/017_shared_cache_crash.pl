# However sessions end that are building rings, putting them into the shared cache and
# using them, by kill -9, SIGTERM, cancelled or by a timeout, at any moment: the server is
# right afterwards, and nothing stays pinned or taken.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my @preload = needs_shared_cache();

my $crashes = $ENV{CHASH_TEST_CRASHES} // 100;
my $interruptions = $ENV{CHASH_TEST_INTERRUPTIONS} // 100;
my $seed = $ENV{CHASH_TEST_SEED} // int(rand(1000000));
srand($seed);
diag("CHASH_TEST_SEED=$seed");

my $server = new_server('server', @preload, conf => <<'CONF');
log_statement = none
restart_after_crash = on
chash.cache_size = 4MB
checkpoint_timeout = 1h
CONF
$server->safe_psql('postgres', q{
	-- Rings of one node, small and large ones; the node's name is that of the version.
	CREATE FUNCTION become(version text, name text) RETURNS void LANGUAGE sql SET search_path = public AS $$
		SELECT chash_apply(
			(SELECT jsonb_object_agg(node, null) FILTER (WHERE node <> version) FROM chash_nodes WHERE ring = name)
				|| jsonb_build_object(version, '{}'::jsonb), name)
	$$;
	CREATE FUNCTION make(name text, vnodes int) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM chash_create_ring(name, vnodes => vnodes);
		PERFORM chash_add_node('first', name);
	END
	$$;
	SELECT make('ring ' || i, vnodes) FROM unnest('{8,1000,10000,40000}'::int[]) WITH ORDINALITY AS v (vnodes, i);

	-- One that takes the most part of the cache.
	SELECT make('big', 65536);
	SELECT chash_set_node('first', 'big', weight => 3);

	CREATE FUNCTION look(name text) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		answer text;
		version text;
	BEGIN
		SELECT chash_node('apple', name), node INTO answer, version FROM chash_nodes WHERE ring = name;
		IF answer IS DISTINCT FROM version THEN
			RAISE EXCEPTION 'wrong lookup: % instead of %', answer, version;
		END IF;
	END
	$$;

	-- Changes rings and looks at them, for ever.
	CREATE PROCEDURE work(seed float8) LANGUAGE plpgsql AS $$
	DECLARE
		name text;
	BEGIN
		PERFORM setseed(seed);
		LOOP
			name := 'ring ' || 1 + floor(random() * 4);
			IF random() < 0.5 THEN
				PERFORM FROM chash_rings WHERE ring = name FOR UPDATE;
				PERFORM become(md5(random()::text), name);
				PERFORM look(name);
				IF random() < 0.3 THEN
					ROLLBACK;
				ELSE
					COMMIT;
				END IF;
			END IF;
			PERFORM look(name);
			PERFORM look('ring ' || 1 + floor(random() * 4));
			COMMIT;
		END LOOP;
	END
	$$;
});

# What there is to be seen after lookups of all rings in an empty cache.
my $check = q{
	SELECT chash_cache_reset() \g /dev/null
	SELECT look(ring) FROM chash_rings WHERE ring LIKE 'ring _' \g /dev/null
	SELECT string_agg(ring, ',' ORDER BY ring), bool_and(bytes > 0 AND pins = 0 AND builds = 1 AND hits = 0 AND fallbacks = 0), bool_and(c.epoch = r.epoch AND c.fingerprint = r.fingerprint)
	FROM chash_cache AS c LEFT JOIN chash_rings AS r USING (ring)};
my $expected = 'ring 1,ring 2,ring 3,ring 4|t|t';

sub big_one_fits
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is(
		$server->safe_psql('postgres', q{
			SELECT chash_cache_reset() \g /dev/null
			SELECT look('big') \g /dev/null
			SELECT ring, bytes > 3000000, pins FROM chash_cache}),
		'big|t|0', $name);
}

is($server->safe_psql('postgres', $check), $expected, 'before');
big_one_fits('there is room for the big ring');

# ---------------------------------------------------------------------------
# kill -9
# ---------------------------------------------------------------------------

# Starts sessions that work.  Returns them.
sub start_workers
{
	my ($count) = @_;

	return map {
		my ($out, $number) = ('', rand());
		my $connection = $server->connstr('postgres') . " application_name=worker";

		[ IPC::Run::start([ 'psql', '-XAtq', '-d', $connection, '-c', "CALL work($number)" ], '<', \undef, '>&', \$out), \$out ]
	} 1 .. $count;
}

sub worker_pids
{
	my ($count) = @_;
	my $deadline = time + $PostgreSQL::Test::Utils::timeout_default;

	while (time < $deadline)
	{
		my @pids = split /\n/, $server->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE application_name = 'worker' AND query LIKE 'CALL%'});

		return @pids if @pids == $count;
		usleep(5000);
	}
	die 'workers have not started';
}

sub wait_for_server
{
	my $deadline = time + $PostgreSQL::Test::Utils::timeout_default;

	# (Nothing is written to a psql that may have gone before it reads.)
	while (time < $deadline)
	{
		return 1
		  if IPC::Run::run([ 'psql', '-XAtq', '-d', $server->connstr('postgres'), '-c', 'SELECT 1' ],
			'<', \undef, '>', \my $out, '2>', \my $err);
		usleep(10000);
	}
	return 0;
}

my $wrong = 0;
foreach my $round (1 .. $crashes)
{
	my @workers = start_workers(3);
	my @pids = worker_pids(3);
	my $result;

	usleep(rand(100000));
	kill('KILL', $pids[ int(rand(@pids)) ]) == 1 or die 'the victim has gone by itself';
	$_->[0]->finish foreach @workers;
	wait_for_server() or die "the server does not come back in round $round";
	$result = $server->safe_psql('postgres', $check);
	next if $result eq $expected;
	diag("round $round: $result");
	$wrong++;
}
is($wrong, 0, "after each of $crashes crashes, lookups are right and the cache is in order");
big_one_fits('there is room for the big ring still');

# ---------------------------------------------------------------------------
# Terminated, cancelled, out of time
# ---------------------------------------------------------------------------

my $monitor = open_session($server);
# The time limit is for a query, not for the session.
$monitor->set_query_timer_restart(1);
my $start = $monitor->query_safe('SELECT pg_postmaster_start_time()');
my @sessions;
my %count = (cancel => 0, terminate => 0, timeout => 0);

sub replace_session
{
	my ($i) = @_;
	my $session = open_session($server);

	$session->set_query_timer_restart(1);
	$sessions[$i] = [ $session, $session->query_safe('SELECT pg_backend_pid()') ];
	return;
}

replace_session($_) foreach 0 .. 3;
while ($count{cancel} + $count{terminate} + $count{timeout} < $interruptions)
{
	my @ends;

	# Each session works until it is stopped, in its own way.
	foreach my $i (0 .. 3)
	{
		my $end = ('cancel', 'terminate', 'timeout')[ int(rand(3)) ];
		my ($session, $pid) = @{ $sessions[$i] };
		my $timeout = $end eq 'timeout' ? 20 + int(rand(150)) : 0;

		$session->{stdin} .= "SET statement_timeout = $timeout;\nCALL work(" . rand() . ");\n";
		$session->{run}->pump_nb;
		push @ends, $end;
		$count{$end}++;
	}
	usleep(rand(150000));
	foreach my $i (0 .. 3)
	{
		my ($session, $pid) = @{ $sessions[$i] };
		# One that is out of time may have ended already.
		my $called = "SELECT count(*) > 0 FROM pg_stat_activity WHERE pid = $pid AND query LIKE 'CALL%'";

		$server->poll_query_until('postgres', $called) or die 'a worker has not started' if $monitor->query_safe($called) ne 't';
		$monitor->query_safe("SELECT pg_$ends[$i]_backend($pid)") if $ends[$i] ne 'timeout';
	}

	# None of them does anything more of itself.
	$server->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE query LIKE 'CALL%' AND state = 'active'})
	  or die 'a worker does not end';
	my $pins = $monitor->query_safe('SELECT coalesce(sum(pins), 0) FROM chash_cache');
	if ($pins ne '0')
	{
		diag("$pins pins after @ends");
		$wrong++;
	}
	foreach my $i (0 .. 3)
	{
		my ($session, $pid) = @{ $sessions[$i] };

		if ($ends[$i] eq 'terminate')
		{
			eval { $session->{run}->finish };
			replace_session($i);
			next;
		}
		$session->query('SET statement_timeout = 0');
		$session->{stderr} = '';
		next if $session->query(q{SELECT bool_and(node = chash_node('apple', ring)) FROM chash_nodes WHERE ring LIKE 'ring _'}) eq 't';
		diag("wrong answers after $ends[$i]: $session->{stderr}");
		$wrong++;
	}
}
is($wrong, 0, "after $count{terminate} terminations, $count{cancel} cancellations and $count{timeout} timeouts no pin is left, and lookups are right");
is($monitor->query_safe('SELECT pg_postmaster_start_time()'), $start, 'without a restart');
$_->[0]->quit foreach @sessions;
is($server->safe_psql('postgres', $check), $expected, 'the cache is in order');
big_one_fits('there is room for the big ring still');

my $log = slurp_file($server->logfile);
unlike($log, qr/wrong lookup/, 'no session has seen anything wrong');
unlike($log, qr/PANIC|TRAP|signal 11|signal 6/, 'nor crashed of itself');
my $restarts = () = $log =~ /all server processes terminated; reinitializing/g;
is($restarts, $crashes, 'the server has restarted as often as a session was killed');

$monitor->quit;
$server->stop;
done_testing();
