# What docs/operations.md says of subscribers works: a ring that differs from the publisher's
# is put right by copying the rings anew; subscribers can be updated before their publisher,
# and go on where it was updated first; after the publisher has gone the subscription can be
# dropped, and the rings changed.

use strict;
use warnings FATAL => 'all';

BEGIN { $ENV{PG_TEST_TIMEOUT_DEFAULT} //= 60; }

use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $publisher = new_server('publisher', allows_streaming => 'logical');
my $subscriber = new_server('subscriber', allows_streaming => 'logical');
$publisher->safe_psql('postgres', q{
	CREATE PUBLICATION rings FOR TABLE public.chash_rings, public.chash_nodes, public.chash_node_history;
	SELECT chash_create_ring('near', vnodes => 16), chash_apply('{"a": {}, "b": {}, "c": {}}', 'near'), chash_remove_node('c', 'near');
	SELECT chash_create_ring('dealt', 'partitions', partitions => 64), chash_apply('{"a": {}, "b": {}}', 'dealt');
});
$subscriber->safe_psql('postgres', q{SELECT chash_create_ring('own', vnodes => 16), chash_add_node('a', 'own')});

sub subscribe
{
	my $connection = $publisher->connstr . ' dbname=postgres application_name=rings';

	$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION rings CONNECTION '$connection' PUBLICATION rings");
	$subscriber->wait_for_subscription_sync($publisher, 'rings');
	return;
}
sub intact
{
	return $subscriber->safe_psql('postgres', q{SELECT string_agg(ring || ' ' || (fingerprint = chash_fingerprint(ring)), ', ' ORDER BY ring) FROM chash_rings});
}
my $seen = q{
	SELECT r.ring, r.epoch, r.fingerprint, n.node, n.weight, n.epoch, n.held_partitions, (SELECT count(*) FROM chash_node_history AS h WHERE h.ring = r.ring),
		(SELECT string_agg(chash_node(k, r.ring), '' ORDER BY k) FROM generate_series(1, 100) AS k)
	FROM chash_rings AS r JOIN chash_nodes AS n USING (ring) WHERE r.ring <> 'own' ORDER BY 1, 4};

subscribe();
is($subscriber->safe_psql('postgres', q{SELECT string_agg(ring || ' ' || replicated, ', ' ORDER BY ring) FROM chash_rings}),
	'dealt true, near true, own false', 'column replicated tells which rings come by subscription');
$subscriber->safe_psql('postgres', q{
	SET session_replication_role = replica;
	ALTER TABLE chash_nodes DISABLE TRIGGER chash_before_row, DISABLE TRIGGER chash_before_statement, DISABLE TRIGGER chash_after_statement;
	UPDATE chash_nodes SET weight = 9 WHERE ring = 'near' AND node = 'a';
	ALTER TABLE chash_nodes ENABLE ALWAYS TRIGGER chash_before_row, ENABLE ALWAYS TRIGGER chash_before_statement, ENABLE ALWAYS TRIGGER chash_after_statement;
});
is(intact(), 'dealt true, near false, own true', 'a ring differs');

# Copied anew.
$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION rings');
$subscriber->safe_psql('postgres', 'DELETE FROM chash_rings WHERE replicated');
is(intact(), 'own true', 'a ring of its own stays');
subscribe();
is(intact(), 'dealt true, near true, own true', 'copied anew, no ring differs');
is($subscriber->safe_psql('postgres', $seen), $publisher->safe_psql('postgres', $seen), 'and all are as on the publisher');
$publisher->safe_psql('postgres', q{SELECT chash_add_node('d', 'near'), chash_set_node('a', 'dealt', weight => 2)});
$publisher->wait_for_catchup('rings');
is($subscriber->safe_psql('postgres', $seen), $publisher->safe_psql('postgres', $seen), 'changes arrive');

# A subscriber with the script of an older version waits for its update.
$subscriber->safe_psql('postgres', 'CREATE DATABASE late');
$subscriber->safe_psql('late', q{CREATE EXTENSION chash VERSION '0.2.0'});
my $connection = $publisher->connstr . ' dbname=postgres application_name=late';
$subscriber->safe_psql('late', "CREATE SUBSCRIPTION late CONNECTION '$connection' PUBLICATION rings");
$subscriber->wait_for_log(qr/"public.chash_rings" is missing replicated columns/);
$subscriber->safe_psql('late', 'ALTER EXTENSION chash UPDATE');
$subscriber->wait_for_subscription_sync($publisher, 'late', 'late');
is($subscriber->safe_psql('late', $seen), $publisher->safe_psql('postgres', $seen), 'a subscriber that was updated late has the rings');
$publisher->safe_psql('postgres', q{SELECT chash_set_node('a', 'dealt', weight => 1)});
$publisher->wait_for_catchup($_) foreach 'rings', 'late';
is($subscriber->safe_psql('late', $seen), $publisher->safe_psql('postgres', $seen), 'and gets changes');
$subscriber->safe_psql('late', 'DROP SUBSCRIPTION late');

# A publisher with the older script; this library would not change its rings.
my $ring = q{'near', 'vnodes', 'xxh3', 16, NULL, false, 1, 4, '%s', 4, gen_random_uuid()};
$publisher->safe_psql('postgres', 'CREATE DATABASE early');
$publisher->safe_psql('early', q{
	CREATE EXTENSION chash VERSION '0.2.0';
	ALTER TABLE chash_rings DISABLE TRIGGER USER;
	ALTER TABLE chash_nodes DISABLE TRIGGER USER;
	INSERT INTO chash_rings VALUES (} . sprintf($ring, $publisher->safe_psql('postgres', q{SELECT chash_fingerprint('near')})) . q{);
	INSERT INTO chash_nodes (ring, node, epoch) VALUES ('near', 'a', 2), ('near', 'b', 2), ('near', 'd', 4);
	CREATE PUBLICATION rings FOR TABLE public.chash_rings, public.chash_nodes, public.chash_node_history;
});
$subscriber->safe_psql('postgres', 'CREATE DATABASE early');
$subscriber->safe_psql('early', 'CREATE EXTENSION chash');
$connection = $publisher->connstr . ' dbname=early application_name=early';
$subscriber->safe_psql('early', "CREATE SUBSCRIPTION early CONNECTION '$connection' PUBLICATION rings");
$subscriber->wait_for_subscription_sync($publisher, 'early', 'early');
my $routed = q{SELECT epoch, fingerprint = chash_fingerprint('near'), digest IS NOT NULL, (SELECT string_agg(chash_node(k, 'near'), '' ORDER BY k) FROM generate_series(1, 100) AS k) FROM chash_rings WHERE ring = 'near'};
my $expected = $publisher->safe_psql('postgres', q{SELECT string_agg(chash_node(k, 'near'), '' ORDER BY k) FROM generate_series(1, 100) AS k});
my ($status, $output, $errors) = $subscriber->psql('early', $routed);
is($output, "4|t|f|$expected", 'what an older publisher has is copied, without a digest');
is($errors, '', 'without a warning');
$publisher->safe_psql('early', 'ALTER EXTENSION chash UPDATE');
$publisher->safe_psql('early', q{SELECT chash_add_node('e', 'near')});
$publisher->wait_for_catchup('early');
is($subscriber->safe_psql('early', $routed), $publisher->safe_psql('early', $routed), 'when the publisher has been updated too, changes arrive');
like($subscriber->safe_psql('early', $routed), qr/^5\|t\|t\|/, 'with digest');
unlike(slurp_file($subscriber->logfile), qr/after replication/, 'nothing has differed');
$subscriber->safe_psql('early', 'DROP SUBSCRIPTION early');

# Failover.
my $routes = $subscriber->safe_psql('postgres', $seen);
$publisher->stop('immediate');
my $session = open_session($subscriber);
like(error_of($session, q{SELECT chash_add_node('e', 'near')}), qr/^55000 /, 'without the publisher, but with the subscription, changes are refused');
$session->query_safe('ALTER SUBSCRIPTION rings DISABLE');
$session->query_safe('ALTER SUBSCRIPTION rings SET (slot_name = NONE)');
$session->query_safe('DROP SUBSCRIPTION rings');
is($session->query($seen), $routes, 'without the subscription all is as before');
is($session->query(q{SELECT chash_add_node('e', 'near'), chash_remove_node('b', 'dealt')}), '5|5', 'the rings go on from their epochs');
is(intact(), 'dealt true, near true, own true', 'and are intact');

$session->quit;
$subscriber->stop;
done_testing();
