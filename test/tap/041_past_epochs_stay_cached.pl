# Built rings of past epochs stay of use when a node is marked down or up, and for other
# sessions: they are not built again.  Whatever happens to the ring, they say what was.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use Test::More;

# Before PostgreSQL 17 there is no shared cache without preloading.
my ($major) = `postgres --version` =~ /(\d+)/;
my @preload = $major < 17 ? (preload => 1) : ();
plan skip_all => 'there is no shared cache without preloading'
  if @preload && !($ENV{CHASH_TEST_PRELOAD} // 1);

my $server = new_server('server', @preload);
$server->safe_psql('postgres', q{
	SELECT chash_create_ring('v', vnodes => 64), chash_apply('{"a": {}, "b": {}}', 'v');
	SELECT chash_add_node('c', 'v'), chash_set_node('a', 'v', weight => 2), chash_remove_node('b', 'v');
	SELECT chash_create_ring('p', 'partitions', partitions => 64), chash_apply('{"a": {}, "b": {}}', 'p');
	SELECT chash_add_node('c', 'p'), chash_set_node('a', 'p', weight => 2), chash_remove_node('b', 'p');

	-- Which nodes each epoch from 2 to 5 had.
	CREATE FUNCTION past(ring text) RETURNS text LANGUAGE sql AS $$
		SELECT string_agg(nodes, ' ' ORDER BY e) FROM (
			SELECT e, string_agg(DISTINCT chash_node_as_of(k, e, ring), '') AS nodes
			FROM generate_series(2, 5) AS e, generate_series(1, 100) AS k GROUP BY e) AS epochs
	$$;
	CREATE VIEW cached AS
		SELECT ring, epoch, builds FROM chash_cache WHERE is_past AND epoch BETWEEN 2 AND 4 ORDER BY ring, epoch;
});
my $a = open_session($server);
my $b = open_session($server);

foreach my $ring ('v', 'p')
{
	my $other = $ring eq 'v' ? 'p' : 'v';
	my $built = join "\n", map { "$_|1" } 2 .. 4;
	my $cached = "SELECT epoch, builds FROM cached WHERE ring = '$ring'";

	is($a->query("SELECT past('$ring')"), 'ab abc abc ac', "$ring: past epochs");
	is($a->query($cached), $built, "$ring: each is built once");
	is($b->query("SELECT past('$ring')"), 'ab abc abc ac', "$ring: in another session");
	is($b->query($cached), $built, "$ring: which builds none");

	# Each of these is an epoch that changes nothing of where keys live.
	foreach my $change (
		"SELECT chash_mark_down('a', '$ring')", "SELECT chash_mark_up('a', '$ring')",
		"UPDATE chash_nodes SET state = 'down' WHERE ring = '$ring' AND node = 'c'", "SELECT chash_apply('{\"c\": {\"state\": \"up\"}}', '$ring')",
		"SELECT chash_set_node('a', '$ring', info => '{\"dsn\": \"a\"}')", "UPDATE chash_rings SET replicas = 3 WHERE ring = '$ring'")
	{
		$a->query_safe($change);
		is($_->query("SELECT past('$ring')"), 'ab abc abc ac', "$change: the past is what it was") foreach $a, $b;
		is($a->query($cached), $built, "$change: and is not built again");
	}
	foreach my $change ("SELECT chash_set_node('c', '$ring', weight => 3)", "SELECT chash_add_node('d', '$ring')")
	{
		$a->query_safe($change);
		is($_->query("SELECT past('$ring')"), 'ab abc abc ac', "$change: the past is what it was") foreach $a, $b;
	}

	# In the transaction that makes a change, and when that is rolled back.
	$a->query_safe("BEGIN; SELECT chash_mark_down('a', '$ring')");
	is($a->query("SELECT past('$ring')"), 'ab abc abc ac', "$ring: the past, in a transaction that changes the present");
	is($b->query("SELECT past('$ring')"), 'ab abc abc ac', "$ring: while another one does");
	$a->query_safe('ROLLBACK');
	is($a->query("SELECT past('$ring')"), 'ab abc abc ac', "$ring: when it is rolled back");
	is($a->query("SELECT min(epoch), max(epoch), count(*) >= 3 FROM cached WHERE ring = '$ring'"), '2|4|t', "$ring: the past is cached");

	# Pruned.
	$a->query_safe("SELECT chash_prune_history('$ring', (SELECT epoch FROM chash_rings WHERE ring = '$ring') - 4)");
	foreach my $session ($a, $b)
	{
		like(error_of($session, "SELECT chash_node_as_of(1, 3, '$ring')"), qr/^22023 /, "$ring: what is pruned is gone");
		is($session->query("SELECT string_agg(DISTINCT chash_node_as_of(k, 4, '$ring'), '') FROM generate_series(1, 100) AS k"), 'abc', "$ring: what is left is there");
	}

	# Another ring of the name.
	$a->query_safe("BEGIN; SELECT chash_drop_ring('$ring'); SELECT chash_create_ring('$ring'), chash_apply('{\"x\": {}, \"y\": {}}', '$ring'), chash_add_node('z', '$ring'), chash_remove_node('x', '$ring'), chash_remove_node('y', '$ring'); COMMIT");
	is($_->query("SELECT past('$ring')"), 'xy xyz yz z', "$ring: the past of another ring of that name") foreach $a, $b;
}

# A history that is restored row by row makes the past what it was.
$a->query_safe(q{
	SELECT chash_create_ring('saved', vnodes => 16), chash_apply('{"a": {}}', 'saved'), chash_add_node('b', 'saved'), chash_remove_node('a', 'saved'), chash_add_node('c', 'saved');
	CREATE TABLE saved_ring AS SELECT * FROM chash_rings WHERE ring = 'saved';
	CREATE TABLE saved_nodes AS SELECT * FROM chash_nodes WHERE ring = 'saved';
	CREATE TABLE saved_history AS SELECT * FROM chash_node_history WHERE ring = 'saved';
});
is($_->query(q{SELECT past('saved')}), 'a ab b bc', 'before') foreach $a, $b;
$a->query_safe(q{
	SELECT chash_drop_ring('saved');
	INSERT INTO chash_rings SELECT * FROM saved_ring;
	INSERT INTO chash_nodes SELECT * FROM saved_nodes;
});
like(error_of($b, q{SELECT chash_node_as_of(1, 2, 'saved')}), qr/^55000 /, 'restored without its history') for 1 .. 2;
$a->query_safe('INSERT INTO chash_node_history SELECT * FROM saved_history');
is($_->query(q{SELECT past('saved')}), 'a ab b bc', 'restored with its history') foreach $b, $a;

$_->quit foreach $a, $b;
$server->stop;
done_testing();
