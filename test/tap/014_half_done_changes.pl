# Whoever looks in the middle of a change, by a function in the very statement that
# makes it, by a trigger, or between two rows of a restore, gets the answer of the
# tables as they are at that moment; the statement itself keeps to the ring that it
# began with; and nothing of that is remembered for later.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use Test::More;

my $server = new_server('server');
make_proof($server);
$server->safe_psql('postgres', q{
	SELECT chash_create_ring('v', vnodes => 16);
	SELECT chash_apply('{"a": {}, "b": {}}', 'v');
	SELECT chash_create_ring('w', vnodes => 16);
	SELECT chash_apply('{"a": {}}', 'w');

	-- Which nodes there are at this moment, after looking at every ring.
	CREATE FUNCTION look() RETURNS text LANGUAGE plpgsql VOLATILE SET search_path = public AS $$
	DECLARE
		nodes text;
	BEGIN
		PERFORM FROM proof.wrong;
		SELECT string_agg(DISTINCT node, '' ORDER BY node) INTO nodes FROM chash_points('v');
		RETURN nodes;
	END
	$$;
	CREATE FUNCTION look_by_trigger() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
	BEGIN
		RAISE NOTICE '% %: %', tg_when, tg_op, look();
		RETURN coalesce(new, old);
	END
	$$;
});
my $session = open_session($server);
my $other = open_session($server);

# What a VOLATILE function says after each row, and what chash_node says, which is
# STABLE, and goes by the snapshot of the statement.  With nodes a and b, key 3 lives
# on the same node before and after each statement's first row.
my $owner = $session->query(q{SELECT chash_node('key 3', 'v')});

$session->query_safe('BEGIN');
is($session->query(q{INSERT INTO chash_nodes (ring, node) VALUES ('v', 'c'), ('w', 'x'), ('v', 'd'), ('v', 'e') RETURNING look(), chash_node('key 3', 'v')}),
	"abc|$owner\nabc|$owner\nabcd|$owner\nabcde|$owner", 'INSERT of several nodes');
is($session->query('SELECT look()'), 'abcde', 'INSERT, afterwards');
proof_holds($session, 'INSERT: lookups are what the tables say');
$owner = $session->query(q{SELECT chash_node('key 3', 'v')});
like($session->query(q{UPDATE chash_nodes SET weight = 0 WHERE ring = 'v' AND node IN ('c', 'd') RETURNING look(), chash_node('key 3', 'v') = '} . $owner . q{'}),
	qr/^ab[cd]e\|t\nabe\|t$/, 'UPDATE of several nodes');
is($session->query('SELECT look()'), 'abe', 'UPDATE, afterwards');
proof_holds($session, 'UPDATE: lookups are what the tables say');
$owner = $session->query(q{SELECT chash_node('key 3', 'v')});
like($session->query(q{DELETE FROM chash_nodes WHERE ring = 'v' AND node IN ('b', 'e') RETURNING look(), chash_node('key 3', 'v') = '} . $owner . q{'}),
	qr/^a[be]\|t\na\|t$/, 'DELETE of several nodes');
is($session->query('SELECT look()'), 'a', 'DELETE, afterwards');
proof_holds($session, 'DELETE: lookups are what the tables say');
is($other->query('SELECT look()'), 'ab', 'nobody else sees any of that');
$session->query_safe('ROLLBACK');
is($session->query('SELECT look()'), 'ab', 'and nothing of it is left');

# Statements that fail half way.
like(error_of($session, q{INSERT INTO chash_nodes (ring, node) VALUES ('v', 'c'), ('v', 'd'), ('v', 'a') RETURNING look()}), qr/^23505 /, 'an INSERT that fails at its third node');
is($session->query('SELECT look()'), 'ab', 'leaves nothing');
$session->query_safe('BEGIN; SAVEPOINT s');
like(error_of($session, q{UPDATE chash_nodes SET weight = CASE node WHEN 'a' THEN 2 ELSE -1 END WHERE ring = 'v' AND look() IS NOT NULL RETURNING look()}), qr/^22023 /, 'an UPDATE that fails at its second node');
$session->query_safe('ROLLBACK TO s');
is($session->query('SELECT look()'), 'ab', 'leaves nothing');
proof_holds($session, 'and lookups are what the tables say');
$session->query_safe('COMMIT');

# Common table expressions that write: all of a statement goes by one snapshot.
is( $session->query(q{
		WITH added AS (INSERT INTO chash_nodes (ring, node, weight) VALUES ('v', 'c', 1000) RETURNING node)
		SELECT node, chash_node('key 3', 'v') IN ('a', 'b'), (SELECT epoch FROM chash_route('key 3', 'v')) FROM added}),
	'c|t|2', 'a statement that adds a node does not see it');
is($session->query(q{SELECT chash_node('key 3', 'v'), (SELECT epoch FROM chash_route('key 3', 'v'))}), 'c|3', 'the next one does');
is($session->query(q{SELECT chash_node('key 3', 'v'), chash_remove_node('c', 'v'), chash_node('key 3', 'v'), (chash_route('key 3', 'v')).epoch}),
	'c|4|c|3', 'a statement that removes it by a function still sees it');
is($session->query(q{SELECT chash_node('key 3', 'v') IN ('a', 'b'), (chash_route('key 3', 'v')).epoch}), 't|4', 'the next one does not');

# Functions that change several rows of the tables, watched by triggers.
$server->safe_psql('postgres', q{
	CREATE TRIGGER zz_before BEFORE INSERT OR UPDATE OR DELETE ON chash_nodes FOR EACH ROW EXECUTE FUNCTION look_by_trigger();
	CREATE TRIGGER zz_after AFTER INSERT OR UPDATE OR DELETE ON chash_nodes FOR EACH ROW EXECUTE FUNCTION look_by_trigger();
	CREATE TRIGGER zz_after_ring AFTER INSERT OR UPDATE OR DELETE ON chash_rings FOR EACH ROW EXECUTE FUNCTION look_by_trigger();
});
$session->query(q{SELECT chash_apply('{"c": {}, "d": {}, "a": {"weight": 2}, "b": null}', 'v')});
my @notices = $session->{stderr} =~ /NOTICE:  (\w+ \w+: \w+)/g;
unlike($session->{stderr}, qr/ERROR/, 'nothing wrong is seen while several nodes are changed by a function');
$session->{stderr} = '';
is_deeply(
	[ grep { /^AFTER (INSERT|DELETE)/ } @notices ],
	[ 'AFTER DELETE: a', 'AFTER INSERT: ac', 'AFTER INSERT: acd' ],
	'each of them is seen as soon as it is made') or diag(join "\n", @notices);
$server->safe_psql('postgres', q{DROP TRIGGER zz_before ON chash_nodes; DROP TRIGGER zz_after ON chash_nodes; DROP TRIGGER zz_after_ring ON chash_rings});
is($session->query('SELECT look()'), 'acd', 'the result');
is($other->query('SELECT look()'), 'acd', 'to another session too');

# A restore by single rows, with a look after each, in one transaction.
$session->query_safe(q{
	CREATE TEMPORARY TABLE saved_ring AS SELECT * FROM chash_rings WHERE ring = 'v';
	CREATE TEMPORARY TABLE saved_nodes AS SELECT * FROM chash_nodes WHERE ring = 'v';
	SELECT chash_drop_ring('v');
	BEGIN;
	INSERT INTO chash_rings SELECT * FROM saved_ring;
});
foreach my $node ('a', 'c', 'd')
{
	$session->query_safe("INSERT INTO chash_nodes SELECT * FROM saved_nodes WHERE node = '$node'");
	is($session->query('SELECT look()'), substr('acd', 0, index('acd', $node) + 1), "restored up to node $node");
}
$session->query_safe('COMMIT');
is($other->query('SELECT look()'), 'acd', 'restored');
is($session->query(q{SELECT r.epoch = s.epoch AND r.fingerprint = s.fingerprint AND r.fingerprint = chash_fingerprint('v') FROM chash_rings AS r JOIN saved_ring AS s USING (ring)}),
	't', 'at the same epoch and fingerprint');

$_->quit foreach $session, $other;
$server->stop;
done_testing();
