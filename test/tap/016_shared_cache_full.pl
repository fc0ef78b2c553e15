# Whatever does not fit into the shared cache is right all the same: it is counted, said
# once in the server's log, not tried over and over, and gets its room when there is some;
# what finds no room makes no other ring go, and what finds it no more than need be; and no
# memory is lost on the way.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use PostgreSQL::Test::Utils;
use Test::More;

my @preload = needs_shared_cache();

my $seed = $ENV{CHASH_TEST_SEED} // int(rand(1000000));
srand($seed);
diag("CHASH_TEST_SEED=$seed");

my $rings = 300;
my $server = new_server('server', @preload, conf => <<'CONF');
log_statement = none
chash.cache_size = 128kB
CONF
$server->safe_psql('postgres', qq{
	-- One node each, by whose name the ring is known.
	CREATE FUNCTION make(ring text, vnodes int) RETURNS void LANGUAGE plpgsql AS \$\$
	BEGIN
		PERFORM chash_create_ring(ring, vnodes => vnodes);
		PERFORM chash_add_node('of ' || ring, ring);
	END
	\$\$;
	SELECT make('small ' || i, 8) FROM generate_series(1, $rings) AS i;
	SELECT make('large', 4000);
	SELECT make('too large', 20000);

	-- Rings of this session's database that have a block.
	CREATE VIEW blocks AS SELECT * FROM chash_cache WHERE bytes > 0;
});
my $monitor = open_session($server);

# The lines of the server's log that say that there was no room.
sub log_lines
{
	my ($pattern) = @_;
	my @lines = slurp_file($server->logfile) =~ /LOG:  $pattern/g;

	return scalar @lines;
}

sub lookup
{
	my ($ring) = @_;

	return "SELECT chash_node('apple', '$ring')";
}

sub is_answered
{
	my ($session, $ring) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is($session->query(lookup($ring)), "of $ring", "ring \"$ring\" is looked up");
}

# Looks up again and again, as it may have to wait, until the ring has its block.
sub will_fit
{
	my ($ring, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return ok(
		$server->poll_query_until('postgres', lookup($ring) . " \\gset\n SELECT count(*) > 0 FROM blocks WHERE ring = '$ring'"),
		$name);
}

# ---------------------------------------------------------------------------
# Too many, and too large
# ---------------------------------------------------------------------------

# Each in a transaction of its own, all at the same moment.
my $all = join ";\n", map { lookup("small $_") } 1 .. $rings;
my $answers = join "\n", map { "of small $_" } 1 .. $rings;
is($monitor->query_safe($all), $answers, 'more rings than there is room for');
is(log_lines('no room for ring'), 1, 'one line in the log says so');
cmp_ok($monitor->query_safe('SELECT count(*) FROM blocks'), '>', 0, 'some have found room');
cmp_ok($monitor->query_safe('SELECT sum(bytes) FROM blocks'), '<=', 128 * 1024, 'there is not more of it');
is($monitor->query_safe($all), $answers, 'once more');
my $other = open_session($server);
is($other->query_safe($all), $answers, 'another session');
is(log_lines('no room for ring'), 1, 'nothing more is said');
cmp_ok($monitor->query_safe('SELECT sum(fallbacks) FROM chash_cache WHERE bytes = 0'), '>', 0, 'but it is counted');
$monitor->query_safe('SELECT chash_cache_reset()');
is_answered($_, 'too large') foreach $monitor, $other, $monitor;
is(log_lines('ring "too large" is too large'), 1, 'one that is larger than the cache is said to be too large, once');
is($monitor->query_safe(q{SELECT bytes, builds, fallbacks FROM chash_cache WHERE ring = 'too large'}), '0|2|2', 'it is counted');
is($monitor->query_safe('SELECT sum(pins) FROM chash_cache'), '0', 'nothing is pinned');

# ---------------------------------------------------------------------------
# All of it in use
# ---------------------------------------------------------------------------

# Every block is pinned, and stays what it is.
$monitor->query_safe('SELECT chash_cache_reset()');
my $holder = open_session($server);
# The time limit is for a query, not for the session.
$_->set_query_timer_restart(1) foreach $monitor, $other, $holder;
is($holder->query_safe("BEGIN;\n$all"), $answers, 'a transaction that looks up all rings');
my $held = $monitor->query_safe('SELECT count(*) FROM blocks WHERE pins = 1');
cmp_ok($held, '>', 0, 'has what fits pinned');
is($monitor->query_safe('SELECT count(*) FROM blocks'), $held, 'and nothing else is there');
is(log_lines('no room for ring'), 2, 'after chash_cache_reset() it is said again');
is_answered($_, 'large') foreach $monitor, $other;
is($monitor->query_safe('SELECT count(*) FROM blocks WHERE pins = 1'), $held, 'while others look up what finds no room');
is($other->query_safe($all), $answers, 'or the same');
is($holder->query_safe($all), $answers, 'it reads what it had');
is(log_lines('no room for ring'), 2, 'nothing more is said');
$holder->query_safe('COMMIT');
will_fit('large', 'when it is over, what had found no room gets it');
is($holder->query_safe($all), $answers, 'all are right still');

# chash_cache_reset() takes nothing from its users.
$server->poll_query_until('postgres', 'SELECT sum(pins) = 0 FROM chash_cache');
$monitor->query_safe('SELECT chash_cache_reset()');
$holder->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ;\n$all");
$held = $monitor->query_safe(q{SELECT string_agg(ring, ',' ORDER BY ring) FROM blocks});
foreach my $round (1 .. 3)
{
	$monitor->query_safe(q{SELECT chash_cache_reset(); SELECT chash_apply('{"new": {}}', 'small 1'); SELECT chash_apply('{"new": null}', 'small 1')});
	is($other->query_safe($all), $answers, 'others, after chash_cache_reset()');
	is($holder->query_safe($all), $answers, 'a user of all that was there');
}
is($monitor->query_safe(q{SELECT string_agg(ring, ',' ORDER BY ring) FROM blocks WHERE pins > 0}), $held, 'which is still there');
$holder->query_safe('ROLLBACK');
is($monitor->query_safe('SELECT sum(pins) FROM chash_cache'), '0', 'until the end of the transaction');
$monitor->query_safe('SELECT chash_cache_reset()');
is($monitor->query_safe('SELECT count(*) FROM chash_cache'), '0', 'then the cache can be emptied');

# ---------------------------------------------------------------------------
# Nothing goes in vain
# ---------------------------------------------------------------------------

# Rings of three pages each, side by side, until one that found no room shows that there
# is less than that left.
$server->safe_psql('postgres', q{
	SELECT make('three ' || i, 700) FROM generate_series(1, 12) AS i;
	SELECT make('six', 1450);
	SELECT make('wide', 4800);
});
$monitor->query_safe('SELECT chash_cache_reset()');
is_answered($monitor, "three $_") foreach 1 .. 12;
my @three = split /\n/, $monitor->query_safe(q{SELECT ring FROM blocks ORDER BY substr(ring, 7)::int});
is_deeply(\@three, [ map { "three $_" } 1 .. @three ], scalar(@three) . ' rings of three pages are side by side');
is($monitor->query_safe('SELECT DISTINCT bytes FROM blocks'), 3 * 4096, 'of three pages each');
cmp_ok(scalar @three, '>=', 8, 'there are enough of them');

sub blocks_named
{
	my ($pattern) = @_;

	return $monitor->query_safe("SELECT string_agg(substr(ring, 7), ' ' ORDER BY substr(ring, 7)::int) FROM blocks WHERE ring LIKE '$pattern'");
}

# Whatever was used until now may go.
sub let_age
{
	$monitor->query_safe('SELECT pg_sleep(1.2)');
	return;
}

# With one of them in use, in the middle, the wide ring cannot fit; so nothing goes for it,
# however often it is tried.
my $all_three = join ' ', 1 .. @three;
$holder->query_safe('BEGIN');
is_answered($holder, 'three 5');
let_age();
foreach my $round (1 .. 3)
{
	is_answered($other, 'wide');
	let_age();
}
is($monitor->query_safe(q{SELECT bytes, fallbacks FROM chash_cache WHERE ring = 'wide'}), '0|1', 'a ring that can have no room for the sake of one in use finds none');
is(blocks_named('three %'), $all_three, 'and nothing had to go for it');
is($other->query_safe(lookup('three 1')), 'of three 1', 'another session finds the others');
is($monitor->query_safe(q{SELECT sum(builds), max(builds) FROM blocks}), scalar(@three) . '|1', 'which have been built once');
$holder->query_safe('COMMIT');
will_fit('wide', 'when that is not in use any more, it gets its room');

# Of what may go, the oldest goes, if it is where the room can be.
$monitor->query_safe('SELECT chash_cache_reset()');
is_answered($monitor, $_) foreach @three;
is_answered($monitor, "three $_") foreach 3, 7, 4, 1, 2, 5, 6, 8 .. @three;
let_age();
is_answered($monitor, 'six');
is($monitor->query_safe(q{SELECT bytes FROM blocks WHERE ring = 'six'}), 6 * 4096, 'a ring as large as two of them finds room');
is(blocks_named('three %'), (join ' ', grep { $_ != 3 && $_ != 4 } 1 .. @three), 'two have made way that are next to each other, the oldest such, and no other');

# To be counted is no reason for another ring to go.
$monitor->query_safe('SELECT chash_cache_reset()');
my $places = 0;
while ($places < $rings)
{
	is_answered($monitor, 'small ' . ($places + 1));
	last if $monitor->query_safe('SELECT count(*) FROM blocks') == $places;
	$places++;
}
my $all_places = join ' ', 1 .. $places;
cmp_ok($places, '<', 30, "$places rings have taken all the places");
let_age();
is_answered($holder, 'too large');
is(blocks_named('small %'), $all_places, 'one more, for which there is neither place nor room, takes none');
is($monitor->query_safe('SELECT count(*) FROM chash_cache WHERE ring IS NULL AND fallbacks > 0'), '1', 'and is counted nevertheless');
let_age();
is_answered($monitor, 'small ' . ($places + 2));
is(blocks_named('small %'), (join ' ', 2 .. $places, $places + 2), 'one that fits takes the place of the oldest');

# ---------------------------------------------------------------------------
# No storm
# ---------------------------------------------------------------------------

# A session builds once what finds no room, however often it looks, for longer than it
# takes until the ring is offered again.
$monitor->query_safe('SELECT chash_cache_reset()');
is_answered($monitor, 'too large');
my $before = $monitor->query_safe('SELECT extract(epoch FROM clock_timestamp())');
my $statements = 0;
while ($statements < 500 || $monitor->query_safe("SELECT extract(epoch FROM clock_timestamp()) < $before + 2.5") eq 't')
{
	is($monitor->query_safe(join ";\n", (lookup('too large')) x 100), join("\n", ('of too large') x 100), '100 lookups') if $statements % 500 == 0;
	$monitor->query_safe(join ";\n", (lookup('too large')) x 100) if $statements % 500 != 0;
	$statements += 100;
}
is($monitor->query_safe(q{SELECT count(*) FROM generate_series(1, 100000) AS i WHERE chash_node(i, 'too large') = 'of too large'}), '100000', 'and as many in one statement');
is($monitor->query_safe(q{SELECT builds, fallbacks FROM chash_cache WHERE ring = 'too large'}), '1|1', "$statements statements of one session: it was built once");
{
	my $third = open_session($server);

	is_answered($third, 'too large') foreach 1 .. 10;
	$third->quit;
}
is($monitor->query_safe(q{SELECT builds, fallbacks FROM chash_cache WHERE ring = 'too large'}), '2|2', 'and once by another');

# ---------------------------------------------------------------------------
# Nothing is lost
# ---------------------------------------------------------------------------

# The largest ring that an empty cache takes, to within a page.
my ($fits, $does_not) = (4000, 20000);
while ($does_not - $fits > 200)
{
	my $vnodes = int(($fits + $does_not) / 2);

	$monitor->query_safe("SELECT chash_cache_reset(); SELECT make('largest $vnodes', $vnodes)");
	is($monitor->query(lookup("largest $vnodes")), "of largest $vnodes", "a ring of $vnodes points");
	if ($monitor->query_safe("SELECT count(*) FROM blocks WHERE ring = 'largest $vnodes'")) { $fits = $vnodes }
	else { $does_not = $vnodes }
}
my $largest = "largest $fits";
$monitor->query_safe("SELECT make('$largest', $fits)") if $fits == 4000;
cmp_ok($fits, '>', 5000, "the largest block is of $fits points");

# Several sessions take and leave blocks of all sizes, each its own way; what is wrong
# raises an error.
my $seconds = 8;
my $directory = PostgreSQL::Test::Utils::tempdir;
$server->safe_psql('postgres', q{
	SELECT make('size ' || i, CASE WHEN i % 5 = 0 THEN i * 75 ELSE i * 12 END) FROM generate_series(1, 60) AS i;
	CREATE FUNCTION look(ring text) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		IF chash_node('apple', ring) <> 'of ' || ring THEN
			RAISE EXCEPTION 'wrong lookup: % for ring %', chash_node('apple', ring), ring;
		END IF;
		IF random() < 0.1 THEN
			-- Another version.
			PERFORM chash_apply('{"spare": {"weight": 0}}', ring);
			PERFORM chash_apply('{"spare": null}', ring);
		END IF;
	END
	$$;
	CREATE FUNCTION check_blocks() RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		IF (SELECT sum(bytes) > 128 * 1024 OR min(bytes) < 0 OR min(pins) < 0 OR max(pins) > 100 FROM chash_cache) THEN
			RAISE EXCEPTION 'the cache is in disorder: %', (SELECT json_agg(c) FROM chash_cache AS c);
		END IF;
	END
	$$;
});
append_to_file("$directory/one", <<'PGBENCH');
\set a random(1, 60)
SELECT look('size ' || :a);
PGBENCH
append_to_file("$directory/several", <<'PGBENCH');
\set a random(1, 60)
\set b random(1, 60)
\set c random(1, 60)
\set dice random(1, 3)
BEGIN;
SELECT chash_node('apple', 'size ' || :a), chash_node('apple', 'size ' || :b);
\sleep :c ms
SELECT chash_node('apple', 'size ' || :c);
\if :dice = 1
ROLLBACK;
\else
COMMIT;
\endif
SELECT look('size ' || :b);
SELECT check_blocks();
PGBENCH
append_to_file("$directory/reset", "SELECT chash_cache_reset();\nSELECT check_blocks();\n\\sleep 50 ms\n");
my $output;
ok( IPC::Run::run(
		[
			'pgbench', '--no-vacuum', '--host', $server->host, '--port', $server->port, '--client=8', '--jobs=2', '--time', $seconds,
			"--random-seed=$seed", '--max-tries=1000', '--file', "$directory/one\@5", '--file', "$directory/several\@5", '--file', "$directory/reset\@1",
			'postgres'
		],
		'>&', \$output),
	'sessions that take and leave blocks at random') or diag($output);
$server->poll_query_until('postgres', 'SELECT coalesce(sum(pins), 0) = 0 FROM chash_cache');
is($monitor->query_safe('SELECT check_blocks(), coalesce(sum(pins), 0) FROM chash_cache'), '|0', 'no pin is left');
$monitor->query_safe('SELECT chash_cache_reset()');
is($monitor->query_safe('SELECT count(*) FROM chash_cache'), '0', 'nothing is left after chash_cache_reset()');
is_answered($monitor, $largest);
is($monitor->query_safe("SELECT count(*) FROM blocks WHERE ring = '$largest'"), '1', 'the largest block fits again, at once');
is($monitor->query_safe(q{SELECT sum(bytes) = max(bytes) FROM blocks}), 't', 'it is the only one');
will_fit('size 60', 'and has to give way for another');
is(log_lines('(?:server process|PANIC)'), 0, 'all that without a crash');

$_->quit foreach $monitor, $other, $holder;
$server->stop;
done_testing();
