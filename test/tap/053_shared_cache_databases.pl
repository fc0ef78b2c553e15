# The databases of a server share the cache, and each has its own blocks there.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use PostgreSQL::Test::Utils;
use Test::More;

my ($server, $monitor) = start_with_shared_cache();

$monitor->query_safe(q{SELECT make('v', 'here'); SELECT chash_node('apple', 'here')});
$server->safe_psql('postgres', 'CREATE DATABASE origin');
$server->safe_psql('origin', q{CREATE EXTENSION chash; SELECT chash_create_ring('twin', vnodes => 8); SELECT chash_add_node('origin', 'twin')});
$server->safe_psql('origin', version_of('twin'));
$server->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE origin');
my $origin = open_session($server, 'origin');
my $copy = open_session($server, 'copy');
is($copy->query('SELECT version FROM chash_rings'), $origin->query('SELECT version FROM chash_rings'), 'a copied database has the same stamps');

sees($copy, 'twin', 'origin', 'and the same rings');
is($monitor->query_safe(q{SELECT database, epoch, builds, hits FROM chash_cache WHERE ring = 'twin' ORDER BY 1, 2}), "copy|2|1|0\norigin|2|1|0", 'of which it has blocks of its own');

# Changed without a new stamp.
$copy->query_safe(q{
	BEGIN;
	SET session_replication_role = replica;
	ALTER TABLE chash_nodes DISABLE TRIGGER USER;
	UPDATE chash_nodes SET node = 'copy';
	ALTER TABLE chash_nodes ENABLE ALWAYS TRIGGER chash_before_row;
	ALTER TABLE chash_nodes ENABLE ALWAYS TRIGGER chash_before_statement;
	ALTER TABLE chash_nodes ENABLE ALWAYS TRIGGER chash_after_statement;
	ALTER TABLE chash_nodes ENABLE ALWAYS TRIGGER chash_before_truncate;
	COMMIT;
});
sees($copy, 'twin', 'copy', 'changed there');
like($copy->{stderr}, qr/WARNING:  nodes of ring "twin" do not match/, 'with a warning');
$copy->{stderr} = '';
sees($origin, 'twin', 'origin', 'and not here');
$copy->query_safe(q{SELECT chash_set_node('copy', 'twin', weight => 2)});
sees($copy, 'twin', 'copy', 'changed again');
sees($origin, 'twin', 'origin', 'and not here');
is($monitor->query_safe(q{SELECT database, epoch FROM chash_cache WHERE ring = 'twin' ORDER BY 1, 2}), "copy|3\norigin|2", 'one block for each database');

# Who sees what.
$server->safe_psql('postgres', 'CREATE ROLE nobody_special LOGIN; CREATE ROLE watcher LOGIN IN ROLE pg_read_all_stats; CREATE ROLE trusted LOGIN');
my %databases_seen = (nobody_special => 'origin', watcher => 'copy origin postgres');
foreach my $role (sort keys %databases_seen)
{
	is($server->safe_psql('origin', q{SELECT string_agg(DISTINCT database, ' ' ORDER BY database) FROM chash_cache}, extra_params => [ '--username', $role ]),
		$databases_seen{$role}, "$role sees the rings of $databases_seen{$role}");
}
$server->safe_psql('postgres', 'GRANT EXECUTE ON FUNCTION chash_cache_reset() TO trusted');
foreach my $case ([ 'watcher', qr/permission denied for function chash_cache_reset/ ], [ 'trusted', qr/must be superuser/ ])
{
	my ($role, $message) = @$case;
	my ($out, $err);

	$server->psql('postgres', 'SELECT chash_cache_reset()', extra_params => [ '--username', $role ], stdout => \$out, stderr => \$err);
	like($err, $message, "$role may not empty the cache");
}
cmp_ok($monitor->query_safe('SELECT count(*) FROM chash_cache'), '>', 2, 'nor do they');

# Dropped databases.
$_->quit foreach $copy, $origin;
$server->safe_psql('postgres', 'DROP DATABASE copy');
is($monitor->query_safe(q{SELECT database IS NULL, epoch FROM chash_cache WHERE ring = 'twin' ORDER BY 1, 2}), "f|2\nt|3", 'a dropped database has no name');
wait_until(q{
	SELECT make('v', 'filler ' || i) FROM (SELECT count(*) AS i FROM chash_rings) AS n \gset
	SELECT chash_node('apple', 'filler ' || i) FROM (SELECT count(*) - 1 AS i FROM chash_rings) AS n \gset
	SELECT count(*) = 0 FROM chash_cache WHERE database IS NULL},
	'its blocks go when rings are built elsewhere');
is($monitor->query_safe(q{SELECT database FROM chash_cache WHERE ring = 'twin'}), 'origin', 'those of others stay');

# Other encodings.
foreach my $encoding ('LATIN1', 'SQL_ASCII')
{
	my $literal = $encoding ne 'SQL_ASCII' ? q{convert_from('\x72c3bc', 'UTF8')} : q{E'r\xc3\xbc'};
	my $database = lc($encoding);

	local $ENV{PGCLIENTENCODING} = 'SQL_ASCII';
	$server->safe_psql('postgres', "CREATE DATABASE $database TEMPLATE template0 ENCODING '$encoding' LOCALE 'C'");
	$server->safe_psql($database, "CREATE EXTENSION chash; SELECT chash_create_ring($literal, vnodes => 8); SELECT chash_add_node($literal, $literal)");
	my ($one, $other) = map { open_session($server, $database) } 1, 2;
	is($_->query("SELECT chash_node('apple', $literal) = $literal"), 't', "$encoding: a lookup") foreach $one, $other;
	is($one->query_safe("SELECT ring = $literal, builds, hits FROM chash_cache WHERE database = current_database()"), 't|1|1', "$encoding: what is in the cache");
	like($other->query_safe(q{SELECT count(*) FROM chash_cache WHERE database <> current_database() AND ring LIKE 'filler %'}), qr/^[1-9]/, "$encoding: what others have there");
	delete $ENV{PGCLIENTENCODING};
	is($server->safe_psql('postgres', "SELECT replace(encode(convert_to(ring, 'UTF8'), 'hex'), '3f', '') IN ('72', '72c3bc'), hits FROM chash_cache WHERE database = '$database'"),
		't|1', "$encoding: what another database sees of it");
	$_->quit foreach $one, $other;
}

$monitor->quit;
$server->stop;

done_testing();
