# A subscriber's rings are changed on the publisher alone: local changes are refused while
# the subscription is there, and allowed after a failover; where rows are made to differ in
# spite of that, lookups and the log say so, routes are not confirmed, and replication goes on.

use strict;
use warnings FATAL => 'all';

# Replication that has stopped at an error would be waited for this long.
BEGIN { $ENV{PG_TEST_TIMEOUT_DEFAULT} //= 60; }

use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $publisher = new_server('publisher', allows_streaming => 'logical');
my $subscriber = new_server('subscriber', allows_streaming => 'logical');

# Rings that are there before the subscription, and one that comes after it.
$publisher->safe_psql('postgres', q{
	CREATE PUBLICATION rings FOR TABLE public.chash_rings, public.chash_nodes, public.chash_node_history;
	SELECT chash_create_ring('copied', vnodes => 16), chash_apply('{"a": {}, "b": {}, "c": {}}', 'copied'), chash_remove_node('c', 'copied');
	SELECT chash_create_ring('dealt', 'partitions', partitions => 64), chash_apply('{"a": {}, "b": {}}', 'dealt');
});
# A ring of the subscriber's own.
$subscriber->safe_psql('postgres', q{SELECT chash_create_ring('own', vnodes => 16), chash_apply('{"a": {}, "b": {}}', 'own')});
my $connection = $publisher->connstr . ' dbname=postgres application_name=rings';
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION rings CONNECTION '$connection' PUBLICATION rings");
$subscriber->wait_for_subscription_sync($publisher, 'rings');

sub change
{
	my ($statement) = @_;

	$publisher->safe_psql('postgres', $statement);
	$publisher->wait_for_catchup('rings');
	return;
}
change(q{SELECT chash_create_ring('later', vnodes => 16), chash_apply('{"a": {}, "b": {}, "c": {}}', 'later'), chash_set_node('a', 'later', weight => 2)});

# What there is to be seen of the rings that come from the publisher.
my $seen = q{
	SELECT r.ring, r.epoch, r.fingerprint, r.fingerprint = chash_fingerprint(r.ring), n.node, n.weight, n.state, n.epoch, n.held_partitions,
		(SELECT string_agg(chash_node(k, r.ring), '' ORDER BY k) FROM generate_series(1, 100) AS k), (SELECT count(*) FROM chash_node_history AS h WHERE h.ring = r.ring)
	FROM chash_rings AS r JOIN chash_nodes AS n USING (ring) WHERE r.ring <> 'own' ORDER BY 1, 5};
my $before = $publisher->safe_psql('postgres', $seen);
is($subscriber->safe_psql('postgres', $seen), $before, 'the subscriber has the rings');

# ---------------------------------------------------------------------------
# Local changes
# ---------------------------------------------------------------------------

my $session = open_session($subscriber);
my @changes = (
	q{SELECT chash_add_node('x', '%s')},
	q{SELECT chash_remove_node('b', '%s')},
	q{SELECT chash_set_node('a', '%s', weight => 5)},
	q{SELECT chash_set_node('a', '%s', info => '{"local": true}')},
	q{SELECT chash_mark_down('a', '%s')},
	q{SELECT chash_apply('{"x": {}, "b": null}', '%s')},
	q{SELECT chash_prune_history('%s', 0)},
	q{SELECT chash_drop_ring('%s')},
	q{INSERT INTO chash_nodes (ring, node) VALUES ('%s', 'x')},
	q{UPDATE chash_nodes SET weight = 5 WHERE ring = '%s' AND node = 'a'},
	q{DELETE FROM chash_nodes WHERE ring = '%s' AND node = 'b'},
	q{UPDATE chash_rings SET replicas = 2 WHERE ring = '%s'},
	q{DELETE FROM chash_rings WHERE ring = '%s'});
sub changes_are_refused
{
	my ($when) = @_;

	foreach my $ring ('copied', 'dealt', 'later')
	{
		foreach my $change (@changes)
		{
			my $statement = sprintf $change, $ring;

			like(error_of($session, $statement), qr/^55000 /, "$when: $statement is refused");
		}
	}
	foreach my $table ('chash_nodes', 'chash_rings')
	{
		like(error_of($session, "TRUNCATE $table"), qr/^55000 /, "$when: TRUNCATE $table is refused");
	}
	is($session->query($seen), $before, "$when: nothing has changed");
	return;
}
changes_are_refused('with the subscription');
is($session->query(q{SELECT chash_add_node('c', 'own'), chash_remove_node('a', 'own')}), '3|4', 'its own ring can be changed');
is($session->query(q{SELECT chash_copy_ring('copied', 'fork'), chash_add_node('d', 'fork')}), '1|2', 'a copy of a ring is its own');
is($session->query(q{SELECT chash_drop_ring('fork')}), '', 'and can be dropped');
$session->query_safe('BEGIN; SAVEPOINT s');
like(error_of($session, q{SELECT chash_add_node('d', 'own'), chash_add_node('x', 'copied')}), qr/^55000 /, 'a change of both kinds');
$session->query_safe('ROLLBACK TO s; COMMIT');
is($session->query(q{SELECT epoch, fingerprint = chash_fingerprint(ring) FROM chash_rings WHERE ring = 'own'}), '4|t', 'leaves nothing');
$session->query_safe('ALTER SUBSCRIPTION rings DISABLE');
changes_are_refused('with the subscription disabled');
$session->query_safe('ALTER SUBSCRIPTION rings ENABLE');

# ---------------------------------------------------------------------------
# Rows that are made to differ
# ---------------------------------------------------------------------------

sub by_hand
{
	my ($statement) = @_;

	$subscriber->safe_psql('postgres', qq{
		BEGIN;
		ALTER TABLE chash_nodes DISABLE TRIGGER USER;
		$statement;
		DO \$\$
		DECLARE
			name text;
		BEGIN
			FOR name IN SELECT tgname FROM pg_trigger WHERE tgrelid = 'chash_nodes'::regclass AND NOT tgisinternal
			LOOP
				EXECUTE format('ALTER TABLE chash_nodes ENABLE ALWAYS TRIGGER %I', name);
			END LOOP;
		END \$\$;
		COMMIT});
	return;
}

# Warnings of lookups that name the ring, and of anything else.
sub warnings_of
{
	my ($statement) = @_;

	$session->{stderr} = '';
	$session->query($statement);
	my @warnings = $session->{stderr} =~ /WARNING:.*/g;
	$session->{stderr} = '';
	return join "\n", @warnings;
}
sub log_warnings
{
	my ($ring) = @_;
	my $log = slurp_file($subscriber->logfile);

	return scalar(() = $log =~ /WARNING:.*"$ring".*after replication/g);
}
my $check = q{SELECT chash_check_route(k, chash_node(k, '%s'), (SELECT epoch FROM chash_rings WHERE ring = '%1$s'), '%1$s') FROM generate_series(1, 20) AS k};

is(warnings_of(q{SELECT chash_node(1, 'later')}), '', 'lookups give no warning');
is(error_of($session, sprintf $check, 'later'), '', 'routes are confirmed');
by_hand(q{UPDATE chash_nodes SET weight = 9 WHERE ring = 'later' AND node = 'a'});
foreach my $name ('the session', 'another one')
{
	like(warnings_of(q{SELECT chash_node(1, 'later')}), qr/"later"/, "$name: a lookup warns of rows that differ");
	like(error_of($session, sprintf $check, 'later'), qr/^55000 /, "$name: routes are not confirmed");
	is(warnings_of(q{SELECT chash_node(1, 'copied')}), '', "$name: there is no warning of another ring");
	is(error_of($session, sprintf $check, 'copied'), '', "$name: whose routes are confirmed");
	is($session->query(q{SET client_min_messages = error; SELECT count(*) FROM chash_points('later') WHERE node = 'a'}), '144', "$name: lookups say what the rows say");
	$session->quit;
	$session = open_session($subscriber);
}
is($publisher->safe_psql('postgres', q{SELECT epoch FROM chash_rings WHERE ring = 'later'}), $session->query(q{SELECT epoch FROM chash_rings WHERE ring = 'later'}), 'at the same epoch');

# Changes of other rings do not say anything of it; the next one of the ring does, and the
# worker goes on.
change(q{SELECT chash_set_node('a', 'copied', weight => 3)});
is(log_warnings('later'), 0, 'a change of another ring: no warning in the log');
change(q{SELECT chash_set_node('b', 'later', weight => 2)});
cmp_ok(log_warnings('later'), '>=', 1, 'a change of the ring: a warning in the log');
is(log_warnings('copied'), 0, 'and none of the other ring');
like(error_of($session, sprintf $check, 'later'), qr/^55000 /, 'routes are not confirmed then either');
change(q{SELECT chash_add_node('d', 'later'), chash_remove_node('c', 'later')});
is($session->query(q{SELECT string_agg(node || trim_scale(weight), ' ' ORDER BY node) FROM chash_nodes WHERE ring = 'later'}), 'a9 b2 d1', 'replication goes on');
change(q{SELECT chash_add_node('c', 'copied')});
is(error_of($session, sprintf $check, 'copied'), '', 'of other rings too');

# Partitions that are given to another node, and a node that is not there any more.
by_hand(q{UPDATE chash_nodes SET held_partitions = CASE node WHEN 'a' THEN held_partitions[2:] ELSE ARRAY(SELECT p FROM unnest(held_partitions || (SELECT held_partitions[1] FROM chash_nodes WHERE ring = 'dealt' AND node = 'a')) AS p ORDER BY p) END WHERE ring = 'dealt'});
like(error_of($session, sprintf $check, 'dealt'), qr/^55000 /, 'partitions of another node: routes are not confirmed');
change(q{SELECT chash_set_node('a', 'dealt', info => '{"rack": 1}')});
by_hand(q{DELETE FROM chash_nodes WHERE ring = 'copied' AND node = 'c'});
like(error_of($session, sprintf $check, 'copied'), qr/^55000 /, 'a node that has gone: routes are not confirmed');

# The publisher's rows put it right again, where they come.
change(q{SELECT chash_set_node('a', 'later', weight => 4)});
my $warnings = log_warnings('later');
is(error_of($session, sprintf $check, 'later'), '', 'the row that differed has been changed on the publisher: routes are confirmed');
is(warnings_of(q{SELECT chash_node(1, 'later')}), '', 'without a warning');
change(q{SELECT chash_set_node('b', 'later', weight => 1)});
is(log_warnings('later'), $warnings, 'nor is there another in the log');
my $routes = q{SELECT string_agg(chash_node(k, 'later'), '' ORDER BY k), chash_fingerprint('later') FROM generate_series(1, 100) AS k};
is($session->query($routes), $publisher->safe_psql('postgres', $routes), 'both sides route alike');

# ---------------------------------------------------------------------------
# Failover
# ---------------------------------------------------------------------------

$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION rings');
my ($epoch) = $session->query(q{SELECT epoch FROM chash_rings WHERE ring = 'later'});
is($session->query(q{SELECT chash_add_node('local', 'later')}), $epoch + 1, 'without the subscription the ring can be changed');
$session->query_safe(q{UPDATE chash_nodes SET weight = 2 WHERE ring = 'later' AND node = 'local'});
$session->query_safe(q{UPDATE chash_rings SET replicas = 2 WHERE ring = 'later'});
is($session->query(q{SELECT epoch, fingerprint = chash_fingerprint(ring), (SELECT count(*) FROM chash_nodes AS n WHERE n.ring = r.ring AND node = 'local') FROM chash_rings AS r WHERE ring = 'later'}),
	$epoch + 3 . '|t|1', 'in every way, and is intact');
is(error_of($session, sprintf $check, 'later'), '', 'its routes are confirmed');
is($session->query(q{SELECT chash_prune_history('later', 0) > 0, chash_drop_ring('later')}), 't|', 'and it can be dropped');

$session->quit;
$_->stop foreach $subscriber, $publisher;
done_testing();
