# Every committed change of a ring sends one notice on channel chash, with the ring
# and its epoch; what is rolled back sends none.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use Test::More;

my $server = new_server('server', conf => "max_prepared_transactions = 2\n");
my $listener = open_session($server);
my $changer = open_session($server);
my $mark = 0;

$listener->query_safe('LISTEN chash');

# Executes statements, and compares the notices that come of them.
sub notifies
{
	my ($name, $statements, @expected) = @_;
	my $out = '';
	my @notices;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	$changer->query_safe($statements);
	$mark++;
	$changer->query_safe("NOTIFY chash, 'mark $mark'");
	$out .= $listener->query_safe('SELECT 1') . "\n" until $out =~ /"mark $mark"/;
	@notices = $out =~ /notification "chash" with payload "(.*)" received/g;
	pop @notices;
	is_deeply(\@notices, \@expected, $name);
	return;
}

sub notice
{
	my ($ring, $epoch) = @_;

	return qq({"ring": "$ring", "epoch": $epoch});
}

notifies('a ring is created', q{SELECT chash_create_ring('r')}, notice('r', 1));
notifies('a node is added', q{SELECT chash_add_node('a', 'r')}, notice('r', 2));
notifies('several changes as one epoch', q{SELECT chash_apply('{"b": {}, "c": {"weight": 2}, "a": {"zone": "z"}}', 'r')}, notice('r', 3));
notifies('marked down, and up', q{SELECT chash_mark_down('b', 'r'); SELECT chash_mark_up('b', 'r')}, notice('r', 4), notice('r', 5));
notifies('nothing is different', q{SELECT chash_set_node('b', 'r', weight => 1)});
notifies('info', q{SELECT chash_set_node('b', 'r', info => '{"dsn": "secret"}')}, notice('r', 6));
notifies('a lookup and a plan', q{SELECT chash_node('key', 'r'), (SELECT count(*) FROM chash_rebalance_plan('r', '{"d": {}}'))});

notifies('two changes in one transaction', q{BEGIN; SELECT chash_add_node('d', 'r'); SELECT chash_remove_node('d', 'r'); COMMIT}, notice('r', 7), notice('r', 8));
notifies('rolled back', q{BEGIN; SELECT chash_add_node('d', 'r'); ROLLBACK});
notifies('a savepoint is rolled back',
	q{BEGIN; SELECT chash_add_node('d', 'r'); SAVEPOINT s; SELECT chash_add_node('e', 'r'); ROLLBACK TO s; SELECT chash_add_node('f', 'r'); COMMIT},
	notice('r', 9), notice('r', 10));
notifies('a savepoint is released, within one that is rolled back',
	q{BEGIN; SAVEPOINT o; SAVEPOINT i; SELECT chash_add_node('g', 'r'); RELEASE i; ROLLBACK TO o; SELECT chash_remove_node('f', 'r'); COMMIT},
	notice('r', 11));
notifies('released, and kept', q{BEGIN; SAVEPOINT o; SAVEPOINT i; SELECT chash_add_node('g', 'r'); RELEASE i; RELEASE o; COMMIT}, notice('r', 12));
notifies('an exception that is handled', q{
	DO $$
	BEGIN
		PERFORM chash_add_node('h', 'r');
		BEGIN
			PERFORM chash_add_node('i', 'r');
			PERFORM chash_add_node('h', 'r');
		EXCEPTION WHEN duplicate_object THEN
			NULL;
		END;
	END
	$$}, notice('r', 13));
is(error_of($changer, q{SELECT chash_add_node('h', 'r')}), '42710 ring "r" already has a node "h"', 'a change that fails');
notifies('sends nothing', q{SELECT 1});

notifies('direct INSERT of two nodes', q{INSERT INTO chash_nodes (ring, node) VALUES ('r', 'x'), ('r', 'y')}, notice('r', 14));
notifies('direct UPDATE of two nodes', q{UPDATE chash_nodes SET weight = 2 WHERE node IN ('x', 'y')}, notice('r', 15));
notifies('direct DELETE of two nodes', q{DELETE FROM chash_nodes WHERE node IN ('x', 'y')}, notice('r', 16));
notifies('the number of copies', q{UPDATE chash_rings SET replicas = 2}, notice('r', 17));
notifies('history is pruned', q{SELECT chash_prune_history('r', 3)});

notifies('a ring with partitions is created and filled',
	q{SELECT chash_create_ring('p', 'partitions', partitions => 64); SELECT chash_apply('{"a": {}, "b": {}, "c": {}}', 'p')},
	notice('p', 1), notice('p', 2));
notifies('a node that takes partitions of all others', q{SELECT chash_add_node('d', 'p')}, notice('p', 3));
notifies('one statement, two rings', q{UPDATE chash_nodes SET weight = 3 WHERE node = 'a'}, notice('p', 4), notice('r', 18));
notifies('a copy, and an import', q{SELECT chash_copy_ring('p', 'copy'); SELECT chash_import(chash_export('p'), 'import')}, notice('copy', 1), notice('import', 4));

notifies('a ring is dropped', q{SELECT chash_drop_ring('copy')}, notice('copy', 'null'));
notifies('dropped, and created again', q{BEGIN; SELECT chash_drop_ring('import'); SELECT chash_create_ring('import'); COMMIT}, notice('import', 'null'), notice('import', 1));
notifies('the drop is rolled back', q{BEGIN; SELECT chash_drop_ring('import'); ROLLBACK});
notifies('TRUNCATE of the nodes', q{TRUNCATE chash_nodes}, notice('p', 5), notice('r', 19));
notifies('a name that JSON has to quote', q{SELECT chash_create_ring('"Ä\ '' ')}, '{"ring": "\"Ä\\\\ \' ", "epoch": 1}');
is($server->safe_psql('postgres', q{SELECT '{"ring": "\"Ä\\\\ '' ", "epoch": 1}'::jsonb ->> 'ring'}), q{"Ä\ ' }, 'and that JSON gives back');
notifies('a direct DELETE of a ring', q{DELETE FROM chash_rings WHERE ring = 'import'}, notice('import', 'null'));

# NOTIFY and two-phase commit do not go together in PostgreSQL.
notifies('PREPARE TRANSACTION and COMMIT PREPARED',
	q{BEGIN; SELECT chash_add_node('q', 'r'); PREPARE TRANSACTION 'q'; COMMIT PREPARED 'q'});
is($server->safe_psql('postgres', q{SELECT epoch FROM chash_rings WHERE ring = 'r'}), '20', 'the change is there all the same');
notifies('the next change is announced again', q{SELECT chash_remove_node('q', 'r')}, notice('r', 21));

$listener->quit;
$changer->quit;
$server->stop;
done_testing();
