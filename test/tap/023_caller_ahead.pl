# A caller may have heard of an epoch that a ring has not come to.  A standby, and who
# gets the ring by subscription, are late, and say RT002; where the ring is changed, it was
# made anew, and the caller has to ask again: RT001.

use strict;
use warnings FATAL => 'all';

BEGIN { $ENV{PG_TEST_TIMEOUT_DEFAULT} //= 60; }

use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use Test::More;

my $primary = new_server('primary', allows_streaming => 'logical');
$primary->safe_psql('postgres', q{SELECT chash_create_ring('fruit'), chash_apply('{"a": {}, "b": {}}', 'fruit')});
$primary->backup('backup');

# What a check of epoch 3 says; the ring is at epoch 2.
sub says
{
	my ($server) = @_;
	my $session = open_session($server);

	my $said = error_of($session, q{SELECT chash_check_route('apple', chash_node('apple', 'fruit'), 3, 'fruit')});

	$session->quit;
	return $said;
}

like(says($primary), qr/^RT001 .*never was at the caller's 3/, 'where the ring is changed');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;
$primary->wait_for_catchup($standby);
like(says($standby), qr/^RT002 .*behind the caller's 3/, 'on a standby');

my $subscriber = new_server('subscriber', allows_streaming => 'logical');
$primary->safe_psql('postgres', 'CREATE PUBLICATION rings FOR TABLE chash_rings, chash_nodes, chash_node_history');
$subscriber->safe_psql('postgres',
	q{CREATE SUBSCRIPTION rings CONNECTION '} . $primary->connstr . q{ dbname=postgres' PUBLICATION rings});
$subscriber->wait_for_subscription_sync($primary, 'rings');
like(says($subscriber), qr/^RT002 .*behind the caller's 3/, 'on a subscriber');
$subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION rings DISABLE');
like(says($subscriber), qr/^RT002 .*behind the caller's 3/, 'on a subscriber that has been stopped');
$subscriber->safe_psql('postgres', q{CREATE DATABASE other});
$subscriber->safe_psql('other', q{CREATE EXTENSION chash});
$subscriber->safe_psql('other', q{SELECT chash_create_ring('fruit'), chash_apply('{"a": {}, "b": {}}', 'fruit')});
like(error_of(open_session($subscriber, 'other'), q{SELECT chash_check_route('apple', 'a', 3, 'fruit')}),
	qr/^RT001 /, 'in another database, that the subscription is not in');
$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION rings');
like(says($subscriber), qr/^RT001 /, 'on a subscriber after a failover');

$standby->promote;
like(says($standby), qr/^RT001 /, 'on a standby after a failover');

done_testing();
