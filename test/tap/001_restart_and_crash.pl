# Rings survive a restart and a crash of the server as they were committed, and
# what was not committed is gone.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use Test::More;

my $server = new_server('server');
make_rings($server);
my $before = portrait($server);

$server->restart;
is_portrait(portrait($server), $before, 'everything is the same after a restart');

$server->stop('immediate');
$server->start;
is_portrait(portrait($server), $before, 'everything is the same after a crash');

# A committed change and three that are open, one of which has been looked up.
my $committed = open_session($server);
my $open = open_session($server);
my $savepoint = open_session($server);
my $dropping = open_session($server);

$savepoint->query_safe(q{
	BEGIN;
	SAVEPOINT within;
	SELECT chash_remove_node('p2', 'parts');
	RELEASE SAVEPOINT within;
});
$dropping->query_safe(q{
	BEGIN;
	SELECT chash_drop_ring('tokens');
	SELECT chash_create_ring('tokens', vnodes => 8);
	SELECT chash_add_node('other', 'tokens');
});
is($dropping->query(q{SELECT chash_node('key 1', 'tokens')}), 'other', 'a ring replaced, seen by who replaced it');
$open->query_safe(q{
	BEGIN;
	SELECT chash_create_ring('uncommitted');
	SELECT chash_add_node('u', 'uncommitted');
});
is($open->query(q{SELECT chash_node('key 1', 'uncommitted')}), 'u', 'a new ring, seen by who made it');

is($committed->query(q{SELECT chash_set_node('Zürich', 'cities', weight => 1)}), '7', 'a change is committed');
my $after = portrait_of($committed);
isnt(join("\n", @$after), join("\n", @$before), 'that change moved something');

# What the sessions have written reaches the disk, committed or not.
$server->safe_psql('postgres', 'CHECKPOINT');
is($committed->query(q{SELECT chash_mark_up('東京', 'cities')}), '8', 'a change is committed after the checkpoint');
$after = portrait_of($committed);

$server->stop('immediate');
$_->{run}->finish foreach $committed, $open, $savepoint, $dropping;
$server->start;
is_portrait(portrait($server), $after, 'after the crash, everything is as it was committed');
is($server->safe_psql('postgres', q{SELECT count(*) FROM chash_rings WHERE ring = 'uncommitted'}), '0', 'the ring that was not committed is gone');

is($server->safe_psql('postgres', q{SELECT chash_add_node('p7', 'parts')}), '8', 'the next change makes the next epoch');
is($server->safe_psql('postgres', q{SELECT count(*) > 0 FROM chash_epoch_diff('parts') WHERE to_node = 'p7' AND from_node <> 'p7'}), 't', 'and moves ranges to the new node');
is($server->safe_psql('postgres', q{SELECT count(*) FROM chash_epoch_diff('parts') WHERE to_node <> 'p7'}), '0', 'to that node alone');

$server->stop;
done_testing();
