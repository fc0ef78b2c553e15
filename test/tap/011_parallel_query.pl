# Parallel workers answer with the ring that the statement sees, changes of the
# transaction that are not committed included.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use Test::More;

my $server = new_server('server', conf => <<'CONF');
max_parallel_workers = 4
max_parallel_workers_per_gather = 2
min_parallel_table_scan_size = 0
parallel_setup_cost = 0
parallel_tuple_cost = 0
parallel_leader_participation = off
CONF

# With nodes a and b, apple lives on b; with c on c; with d instead on d.
$server->safe_psql('postgres', q{
	SELECT chash_create_ring();
	SELECT chash_apply('{"a": {}, "b": {}}');
	CREATE TABLE keys AS SELECT 'apple' AS key, i FROM generate_series(1, 2000) AS i;
	ALTER TABLE keys SET (parallel_workers = 2);
	ANALYZE keys;
});

my $session = open_session($server);
my $other = open_session($server);

# The leader stays out of it, so that what is returned is what workers say.
my $query = q{SELECT chash_node(key) AS owner, chash_replicas(key, 2) AS copies, (chash_route(key)).epoch, chash_node_as_of(key, 2) AS before, count(*)
	FROM keys GROUP BY 1, 2, 3, 4};

sub workers_say
{
	my ($expected, $name) = @_;
	my $plan = $session->query("EXPLAIN (ANALYZE, VERBOSE, COSTS off, TIMING off, SUMMARY off) $query");
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	like($plan, qr/Workers Launched: 2\n(?s:.*)Parallel Seq Scan/, "$name: workers are used");
	is($session->query($query), $expected, "$name: what they say");
	return;
}

workers_say('b|{b,a}|2|b|2000', 'committed');
is($session->query(q{SELECT sum(count) FROM (SELECT count(*) FROM keys WHERE chash_node(key) = 'b' GROUP BY i % 3) AS g}), '2000', 'in a filter');

foreach my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	$session->query_safe("BEGIN ISOLATION LEVEL $level");
	$session->query_safe(q{SELECT chash_add_node('c')});
	workers_say('c|{c,b}|3|b|2000', "$level, changed but not committed");
	is($other->query(q{SELECT chash_node('apple')}), 'b', "$level: nobody else sees that");
	$session->query_safe('SAVEPOINT s');
	$session->query_safe(q{UPDATE chash_nodes SET weight = 0 WHERE node = 'c'; INSERT INTO chash_nodes (node) VALUES ('d')});
	workers_say('d|{d,b}|5|b|2000', "$level, changed in a subtransaction");
	$session->query_safe('ROLLBACK TO s');
	workers_say('c|{c,b}|3|b|2000', "$level, after ROLLBACK TO SAVEPOINT");
	$session->query_safe(q{SELECT chash_drop_ring(); SELECT chash_create_ring(); SELECT chash_add_node('x'); SELECT chash_add_node('y')});
	workers_say($session->query_safe(q{SELECT chash_node('apple') || '|' || chash_replicas('apple', 2)::text || '|3|x|2000'}), "$level, another ring");
	$session->query_safe('ROLLBACK');
	workers_say('b|{b,a}|2|b|2000', "$level, after ROLLBACK");
}

# Every statement in workers, whether or not it is worth it.
my $setting = $server->safe_psql('postgres', q{SELECT name FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query')});
$session->query_safe("SET $setting = on");
$session->query_safe('BEGIN');
$session->query_safe(q{SELECT chash_add_node('c')});
is($session->query(q{SELECT chash_node('apple'), chash_node_at(chash_position('apple')), (chash_route('apple')).epoch, chash_fingerprint() = fingerprint FROM chash_rings}),
	'c|c|3|t', "$setting: a change that is not committed");
is($session->query(q{SELECT count(DISTINCT node) FROM chash_points()}), '3', "$setting: its points");
is($session->query(q{SELECT count(*) > 0 FROM chash_rebalance_plan(changes => '{"c": null}')}), 't', "$setting: a plan");
is($session->query(q{SELECT chash_remove_node('c')}), '4', "$setting: another change");
is($session->query(q{SELECT chash_node('apple')}), 'b', "$setting: seen");
like(error_of($session, q{SELECT chash_node('apple', 'none')}), qr/^42704 ring "none" does not exist/, "$setting: an error");
$session->query_safe('ROLLBACK');
is($session->query(q{SELECT chash_node('apple')}), 'b', "$setting: after ROLLBACK");

$_->quit foreach $session, $other;
$server->stop;
done_testing();
