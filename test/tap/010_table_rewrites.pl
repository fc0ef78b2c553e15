# Lookups are right while the tables of chash and PostgreSQL's own are rewritten and
# reindexed under them, and rings change.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $seconds = 6;

my $server = new_server('server', conf => "log_statement = none\n");
my $directory = PostgreSQL::Test::Utils::tempdir;
make_proof($server);
$server->safe_psql('postgres', q{
	SELECT chash_create_ring('v', vnodes => 8);
	SELECT chash_apply('{"base": {}, "b": {}}', 'v');
	SELECT chash_create_ring('p', 'partitions', partitions => 32);
	SELECT chash_apply('{"base": {}, "b": {}}', 'p');
});

append_to_file("$directory/look", "SELECT * FROM proof.wrong;\n");
append_to_file("$directory/bare", q{
SELECT count(*) FROM proof.keys WHERE chash_node(key, 'v') NOT IN (SELECT node FROM chash_nodes WHERE ring = 'v');
});
append_to_file("$directory/change", q{
\set weight random(0, 3)
SELECT chash_apply(jsonb_build_object('b', jsonb_build_object('weight', :weight::int)), ring) FROM chash_rings;
\sleep 20 ms
});

my ($out, $err) = ('', '');
my $load = IPC::Run::start(
	[
		'pgbench', '--no-vacuum', '--host', $server->host, '--port', $server->port,
		'--client=4', '--jobs=2', '--time', $seconds, '--max-tries=100', '--protocol=prepared',
		'--file', "$directory/look\@4", '--file', "$directory/bare\@4", '--file', "$directory/change\@1",
		'postgres'
	],
	'<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout($seconds + 120));

my $session = open_session($server);
my $rounds = 0;
my @failures;

while ($load->pumpable)
{
	foreach my $statement (
		'VACUUM FULL chash_rings', 'VACUUM FULL chash_nodes', 'VACUUM FULL chash_node_history',
		'REINDEX TABLE CONCURRENTLY chash_rings', 'REINDEX TABLE chash_nodes',
		'CLUSTER chash_nodes USING chash_nodes_pkey', 'ALTER TABLE chash_rings SET (fillfactor = 90)',
		'ANALYZE chash_nodes, chash_rings', 'VACUUM FULL pg_class', 'VACUUM FULL pg_proc')
	{
		my $error = error_of($session, $statement);

		# Of locks on catalogs one may be a victim, here as anywhere.
		push @failures, "$statement: $error" if $error ne '' && $error !~ /^40P01 /;
		$load->pump_nb if $load->pumpable;
	}
	$rounds++;
}
ok($load->finish, 'all lookups were right');
diag($err) if $err =~ /wrong lookup|aborted/;
note($out);
is_deeply(\@failures, [], 'every rewrite went through');
cmp_ok($rounds, '>', 1, "there were $rounds rounds of rewrites");
foreach my $script ('look', 'bare', 'change')
{
	my ($count) = $out =~ m{SQL script \d+: \S*/$script\n.*?- (\d+) transactions}s;

	cmp_ok($count // 0, '>', 20, "$script: " . ($count // 0) . ' times');
}
proof_holds($session, 'lookups are what the tables say at the end');
cmp_ok($server->safe_psql('postgres', q{SELECT min(epoch) FROM chash_rings}), '>', 10, 'at a later epoch');

# Identities of tables that change while a session has rings in its cache, and within
# a transaction that is rolled back.
$session->query_safe('BEGIN; CLUSTER chash_rings USING chash_rings_pkey');
$session->query_safe(q{SELECT chash_set_node('b', 'v', weight => 4)});
proof_holds($session, 'within a transaction that rewrites');
$session->query_safe('ROLLBACK');
proof_holds($session, 'and after it was rolled back');

$session->quit;
$server->stop;
done_testing();
