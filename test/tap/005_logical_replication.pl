# Rings that are published by logical replication route alike on the subscriber,
# after the initial copy and after every change, at the same epochs and fingerprints
# and with the same history, also for a session that is open all the time.

use strict;
use warnings FATAL => 'all';

# Replication that has stopped at an error would be waited for this long.
BEGIN { $ENV{PG_TEST_TIMEOUT_DEFAULT} //= 60; }

use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use Test::More;

my $publisher = new_server('publisher', allows_streaming => 'logical');
my $subscriber = new_server('subscriber', allows_streaming => 'logical');
make_rings($publisher);
make_proof($subscriber);

# A session that has looked before anything arrives, and one whose snapshot stays.
my $reader = open_session($subscriber);
like(error_of($reader, q{SELECT chash_node('key 1', 'parts')}), qr/^42704 /, 'before the subscription there is no ring');

$publisher->safe_psql('postgres',
	'CREATE PUBLICATION rings FOR TABLE public.chash_rings, public.chash_nodes, public.chash_node_history');
my $connection = $publisher->connstr . ' dbname=postgres application_name=rings';
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION rings CONNECTION '$connection' PUBLICATION rings");
$subscriber->wait_for_subscription_sync($publisher, 'rings');
is_portrait(portrait_of($reader), portrait($publisher), 'initial copy');
proof_holds($reader, 'initial copy: lookups are what the tables say');

# Makes a change on the publisher, and compares what the session on the subscriber
# sees as soon as it has arrived.
sub follows
{
	my ($name, $change) = @_;
	my $before = portrait($publisher);
	my $after;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	$publisher->safe_psql('postgres', $change);
	$publisher->wait_for_catchup('rings');
	$after = portrait($publisher);
	is_portrait(portrait_of($reader), $after, $name);
	isnt(join("\n", @$before), join("\n", @$after), "$name: something changed");
	return;
}

follows('a node is added', q{SELECT chash_add_node('Łódź', 'cities', zone => 'europe', info => '{"dsn": "host=lodz"}')});
follows('marked down', q{SELECT chash_mark_down('Łódź', 'cities')});
follows('marked up', q{SELECT chash_mark_up('Łódź', 'cities')});
follows('given another weight', q{SELECT chash_set_node('Łódź', 'cities', weight => 2.75)});
follows('several changes at once', q{SELECT chash_apply('{"Łódź": {"zone": null, "info": null}, "spare": {"weight": 1}, "東京": null, "Göteborg": {}}', 'cities')});
follows('removed', q{SELECT chash_remove_node('Łódź', 'cities')});
follows('partitions: a node is added', q{SELECT chash_add_node('p9', 'parts', weight => 3)});
follows('partitions: a node is removed', q{SELECT chash_remove_node('p3', 'parts')});
follows('partitions: weights are changed directly', q{UPDATE chash_nodes SET weight = weight * 2 WHERE ring = 'parts' AND node IN ('p1', 'p2')});
follows('tokens are changed', q{SELECT chash_set_node('t2', 'tokens', tokens => '{-1, 1}')});
follows('several rings in one transaction', q{
	BEGIN;
	SELECT chash_add_node('z', 'cities');
	SAVEPOINT s;
	SELECT chash_remove_node('p9', 'parts');
	ROLLBACK TO s;
	SELECT chash_mark_down('p9', 'parts');
	SELECT chash_add_node('t9', 'tokens', tokens => '{1000}');
	SELECT chash_remove_node('z', 'cities');
	COMMIT});
follows('direct INSERT and DELETE', q{
	INSERT INTO chash_nodes (ring, node, zone) VALUES ('cities', 'i1', 'x'), ('cities', 'i2', 'y'), ('parts', 'i3', 'x');
	DELETE FROM chash_nodes WHERE node = 'i1'});
follows('the number of copies', q{UPDATE chash_rings SET replicas = 4 WHERE ring = 'parts'});
follows('history is pruned', q{SELECT chash_prune_history('cities', 2)});
follows('a ring is copied', q{SELECT chash_copy_ring('parts', 'copy')});
follows('a ring is created', q{SELECT chash_create_ring('new', vnodes => 16); INSERT INTO chash_nodes (ring, node) SELECT 'new', 'n' || i FROM generate_series(1, 20) AS i});
follows('a ring is dropped and created again', q{BEGIN; SELECT chash_drop_ring('new'); SELECT chash_create_ring('new', vnodes => 8); SELECT chash_add_node('m', 'new'); COMMIT});
follows('a ring is dropped', q{SELECT chash_drop_ring('copy')});
follows('a ring is deleted directly', q{DELETE FROM chash_rings WHERE ring = 'pruned'});
proof_holds($reader, 'lookups are what the tables say');

# A transaction on the subscriber keeps what its snapshot shows.
my $seen = q{SELECT chash_node('key 1', 'new'), epoch FROM chash_route('key 1', 'new')};
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
is($reader->query($seen), 'm|2', 'a REPEATABLE READ transaction');
$publisher->safe_psql('postgres', q{SELECT chash_apply('{"m": null, "k": {}}', 'new')});
$publisher->wait_for_catchup('rings');
is($subscriber->safe_psql('postgres', $seen), 'k|3', 'a change arrives');
is($reader->query($seen), 'm|2', 'and the transaction does not see it');
$reader->query_safe('COMMIT');
is($reader->query($seen), 'k|3', 'the next one does');

# TRUNCATE is replicated too.
$publisher->safe_psql('postgres', 'TRUNCATE chash_nodes');
$publisher->wait_for_catchup('rings');
like(error_of($reader, q{SELECT chash_node('key 1', 'new')}), qr/^55000 /, 'TRUNCATE of the nodes: nothing to route to');
my $epochs = q{SELECT ring, epoch, history_from, fingerprint, fingerprint = chash_fingerprint(ring) FROM chash_rings ORDER BY ring};
is($reader->query($epochs), $publisher->safe_psql('postgres', $epochs), 'TRUNCATE of the nodes: an epoch, as on the publisher');
follows('filled again', q{INSERT INTO chash_nodes (ring, node) VALUES ('cities', 'a'), ('cities', 'b'), ('parts', 'c'), ('new', 'd')});
my $as_of = q{SELECT key, chash_node_as_of(key, epoch - 2, ring) FROM chash_rings, (VALUES ('key 1'), ('key 2')) AS k (key) WHERE ring = 'parts'};
is($reader->query($as_of), $publisher->safe_psql('postgres', $as_of), 'what was before the TRUNCATE is on record');
$publisher->safe_psql('postgres', 'TRUNCATE chash_rings CASCADE');
$publisher->wait_for_catchup('rings');
is($reader->query('SELECT count(*) FROM chash_rings'), '0', 'TRUNCATE of the rings: none is left');
like(error_of($reader, q{SELECT chash_node('key 1', 'new')}), qr/^42704 /, 'and none is found');

# A subscriber that goes on alone changes rings as the publisher did.
make_rings($publisher);
$publisher->wait_for_catchup('rings');
is_portrait(portrait_of($reader), portrait($publisher), 'the rings from the beginning');
$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION rings');
foreach my $server ($publisher, $subscriber)
{
	$server->safe_psql('postgres', q{
		SELECT chash_add_node('same', 'parts');
		SELECT chash_set_node('Zürich', 'cities', weight => 1);
		DELETE FROM chash_nodes WHERE node = 't3';
	});
}
is_portrait(portrait_of($reader), portrait($publisher), 'the same changes on both sides make the same rings');

# A session that poses as replication: what it writes is checked, and seen by others.
my $poser = open_session($subscriber);
my $epoch = $subscriber->safe_psql('postgres', q{SELECT epoch FROM chash_rings WHERE ring = 'cities'});
$poser->query_safe('SET session_replication_role = replica');
like(error_of($poser, q{UPDATE chash_nodes SET weight = -1 WHERE ring = 'cities'}), qr/^22023 /, 'session_replication_role = replica: a weight is checked');
$poser->query_safe(q{UPDATE chash_nodes SET weight = 0.25 WHERE ring = 'cities' AND node = 'Zürich'});
is($reader->query(q{SELECT epoch, fingerprint = chash_fingerprint(ring) FROM chash_rings WHERE ring = 'cities'}), $epoch + 1 . '|t', 'session_replication_role = replica: a change makes an epoch');
proof_holds($reader, 'session_replication_role = replica: and is seen');
$poser->quit;
$reader->quit;

# Tables that arrive one after the other, with a look after each.
foreach my $order ([ 'chash_rings', 'chash_nodes', 'chash_node_history' ], [ 'chash_node_history', 'chash_nodes', 'chash_rings' ])
{
	my @tables = @$order;
	my $name = "first_$tables[0]";

	$subscriber->safe_psql('postgres', "CREATE DATABASE $name");
	$subscriber->safe_psql($name, 'CREATE EXTENSION chash');
	$publisher->safe_psql('postgres', "CREATE PUBLICATION $name");
	$subscriber->safe_psql($name, "CREATE SUBSCRIPTION $name CONNECTION '" . $connection =~ s/application_name=rings/application_name=$name/r . "' PUBLICATION $name");
	$reader = open_session($subscriber, $name);
	foreach my $table (@tables)
	{
		$publisher->safe_psql('postgres', "ALTER PUBLICATION $name ADD TABLE public.$table");
		$subscriber->safe_psql($name, "ALTER SUBSCRIPTION $name REFRESH PUBLICATION");
		$subscriber->wait_for_subscription_sync($publisher, $name, $name);
		isnt(error_of($reader, q{SELECT chash_node('key 1', 'parts')}), '', "$name: no route when $table has arrived") if $table ne $tables[-1] && $tables[-1] ne 'chash_node_history';
		error_of($reader, q{SELECT chash_node('key 1', 'cities'), chash_node('key 1', 'parts'), chash_node('key 1', 'tokens'), chash_node_as_of('key 1', 2, 'parts')});
	}
	is_portrait(portrait_of($reader), portrait($publisher), "$name: all is there when all tables are");
	$publisher->safe_psql('postgres', q{SELECT chash_add_node('} . $name . q{', ring) FROM chash_rings WHERE placement <> 'tokens'});
	$publisher->wait_for_catchup($name);
	is_portrait(portrait_of($reader), portrait($publisher), "$name: and changes are followed");
	$reader->quit;
	$subscriber->safe_psql($name, "DROP SUBSCRIPTION $name");
}

$subscriber->stop;
$publisher->stop;
done_testing();
