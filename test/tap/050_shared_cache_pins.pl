# Whoever uses a block of the shared cache has it pinned, once, until the end of the
# transaction, however that comes.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use PostgreSQL::Test::Utils;
use Test::More;

my ($server, $monitor) = start_with_shared_cache();
my ($a, $b, $c) = map { open_session($server) } 1 .. 3;
# The time limit is for a query, not for the session.
$_->set_query_timer_restart(1) foreach $monitor, $a, $b, $c;

$monitor->query_safe(q{SELECT make('v1', 'pins'); SELECT make('v1', 'other')});

# For what other processes do of themselves.
sub will_be_blocks
{
	my ($ring, $columns, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	$server->poll_query_until('postgres', "SELECT coalesce(string_agg(row::text, ' ' ORDER BY row::text), '') = '$expected' FROM (SELECT $columns FROM chash_cache WHERE ring = '$ring') AS row");
	return is($server->safe_psql('postgres', "SELECT coalesce(string_agg(row::text, ' ' ORDER BY row::text), '') FROM (SELECT $columns FROM chash_cache WHERE ring = '$ring') AS row"), $expected, $name);
}

sub pins
{
	my ($expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return are_blocks('pins', 'pins', $expected, "$name: $expected pins");
}

$a->query_safe('BEGIN');
pins('', 'before the first lookup');
sees($a, 'pins', 'v1', 'a lookup') foreach 1 .. 3;
pins(1, 'several lookups in one transaction');
$b->query_safe('BEGIN; ' . version_of('pins'));
pins(2, 'another session');
$a->query_safe('COMMIT');
pins(1, 'COMMIT');
$b->query_safe('ROLLBACK');
pins(0, 'ROLLBACK');
$a->query_safe('BEGIN; SAVEPOINT s; ' . version_of('pins'));
$a->query_safe('ROLLBACK TO s');
sees($a, 'pins', 'v1', 'a lookup after ROLLBACK TO SAVEPOINT');
pins(1, 'ROLLBACK TO SAVEPOINT');
$a->query_safe('RELEASE s');
error_of($a, 'SELECT 1/0');
pins(0, 'an error');
$a->query_safe('ROLLBACK');
$a->query_safe('BEGIN; ' . version_of('pins') . "; PREPARE TRANSACTION 'reader'");
pins(0, 'PREPARE TRANSACTION');
$a->query_safe(q{ROLLBACK PREPARED 'reader'});

# Errors while a function of chash has the ring, at several depths.  (No statement may
# follow, not even an empty one.)
my $failing = q{PERFORM FROM chash_ring_diff('pins', 'missing')};
my %failures = (
	'in a function of chash' => q{SELECT * FROM chash_ring_diff('pins', 'missing')},
	'in a block' => "DO \$\$ BEGIN $failing; END \$\$",
	'in a block of a transaction' => "BEGIN; DO \$\$ BEGIN $failing; END \$\$; ROLLBACK",
	'in a function' => 'SELECT failing()',
	'in a function, in a transaction' => 'BEGIN; SELECT failing(); ROLLBACK',
	'in a cursor' => q{BEGIN; DECLARE c CURSOR FOR SELECT 1 / (length(chash_node(key, 'pins')) - 2) FROM keys; FETCH c; ROLLBACK},
	'by a timeout' => q{SET statement_timeout = '50ms'; SELECT count(chash_node(a.key || b.key, 'pins')) FROM keys AS a, keys AS b});
$monitor->query_safe("CREATE FUNCTION failing() RETURNS void LANGUAGE plpgsql AS \$\$ BEGIN $failing; END \$\$");
foreach my $how (sort keys %failures)
{
	my $hits = blocks_of('pins', 'hits');

	like($a->query($failures{$how}) . $a->{stderr}, qr/ERROR/, "an error $how");
	$a->{stderr} = '';
	cmp_ok(blocks_of('pins', 'hits'), '>', $hits, "an error $how: the ring was in use");
	pins(0, "an error $how");
	$a->query_safe('RESET statement_timeout');
}
$a->query(qq{DO \$\$ BEGIN BEGIN $failing; EXCEPTION WHEN undefined_object THEN NULL; END; END \$\$});
pins(0, 'an error that was caught');

# Cursors.
$a->query_safe(q{BEGIN; DECLARE c CURSOR FOR SELECT chash_node(key, 'pins') FROM keys});
is($a->query('FETCH 2 FROM c'), "v1\nv1", 'a cursor');
$monitor->query_safe(q{SELECT become('v2', 'pins')});
sees($b, 'pins', 'v2', 'another session after a change');
is($a->query('FETCH 2 FROM c'), "v1\nv1", 'the cursor keeps its version');
are_blocks('pins', 'epoch, pins', "2|1\n3|0", 'which stays');
sees($a, 'pins', 'v2', 'while the transaction sees the new one');
are_blocks('pins', 'epoch, pins', "2|1\n3|1", 'and has both');
is($a->query('FETCH 2 FROM c'), "v1\nv1", 'the cursor keeps its version still');
$a->query_safe('CLOSE c; COMMIT');
are_blocks('pins', 'epoch, pins', '3|0', 'at its end, the old one goes');
$a->query_safe(q{BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT chash_node(key, 'pins') FROM keys});
is($a->query('FETCH 1 FROM c'), 'v2', 'a cursor WITH HOLD');
$a->query_safe('COMMIT');
pins(0, 'a cursor WITH HOLD after COMMIT');
$monitor->query_safe(q{SELECT become('v3', 'pins')});
is($a->query('FETCH ALL FROM c') =~ s/v2\n?//gr, '', 'which keeps what it had read');
$a->query_safe('CLOSE c');

# A procedure that commits, in the middle of reading.
$monitor->query_safe(q{
	CREATE PROCEDURE commits() LANGUAGE plpgsql AS $$
	DECLARE
		version text;
	BEGIN
		FOR version IN SELECT chash_node(key, 'pins') FROM keys LIMIT 3 LOOP
			RAISE NOTICE '% %, with % pins', version, chash_node(version, 'pins'), (SELECT sum(pins) FROM chash_cache WHERE ring = 'pins');
			COMMIT;
			RAISE NOTICE 'with % pins', (SELECT sum(pins) FROM chash_cache WHERE ring = 'pins');
		END LOOP;
	END
	$$
});
$a->query('CALL commits()');
is(join(', ', $a->{stderr} =~ /NOTICE:  (.*)/g), join(', ', ('v3 v3, with 1 pins', 'with 0 pins') x 3), 'a procedure that commits');
$a->{stderr} = '';

# Sessions that end.
foreach my $end ('terminated', 'closed', 'killed with its client')
{
	my $session = open_session($server);
	my $pid = $session->query_safe('SELECT pg_backend_pid()');

	$session->query_safe('BEGIN; ' . version_of('pins'));
	pins(1, "a session that will be $end");
	if ($end eq 'terminated') { $monitor->query_safe("SELECT pg_terminate_backend($pid)") }
	elsif ($end eq 'closed') { $session->quit }
	else { $session->{run}->signal('KILL') }
	wait_until("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid", "it is $end");
	pins(0, "a session that was $end");
	eval { $session->{run}->finish };
}
foreach my $end ('cancel', 'terminate')
{
	my $session = open_session($server);
	my $pid = $session->query_safe('SELECT pg_backend_pid()');

	$session->{stdin} .= "SELECT count(*) FROM keys WHERE chash_node(key, 'pins') <> pg_sleep(0.05)::text;\n";
	$session->{run}->pump_nb;
	wait_until(q{SELECT sum(pins) > 1 FROM chash_cache WHERE ring = 'pins'}, 'parallel workers have pins');
	$monitor->query_safe("SELECT pg_${end}_backend($pid)");
	wait_until(q{SELECT sum(pins) = 0 FROM chash_cache WHERE ring = 'pins'}, "pg_${end}_backend() makes an end of that");
	if ($end eq 'cancel') { $session->query(''); $session->quit }
	else { eval { $session->{run}->finish } }
}
will_be_blocks('pins', 'epoch, builds', '(4,1)', 'and all that was one block');

$_->quit foreach $monitor, $a, $b, $c;
$server->stop;

done_testing();
