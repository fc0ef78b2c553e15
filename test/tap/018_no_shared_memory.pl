# Where the operating system has no shared memory to give, lookups are right all the same:
# each session builds rings for itself, and the server's log says why, once.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use PostgreSQL::Test::Utils;
use Test::More;

# A server with chash preloaded would not start at all.
plan skip_all => 'before PostgreSQL 17 shared memory is had when the server starts, or never' if postgres_major() < 17;

my $server = new_server('server', preload => 0, conf => <<'CONF');
log_statement = none
dynamic_shared_memory_type = posix
chash.cache_size = 2000GB
CONF
$server->safe_psql('postgres', q{
	SELECT chash_create_ring();
	SELECT chash_apply('{"a": {}, "b": {}, "c": {}}');
});
make_proof($server);

my @sessions = map { open_session($server) } 1 .. 3;
foreach my $round (1 .. 3)
{
	proof_holds($_, "round $round: a session looks up keys") foreach @sessions;
	$server->safe_psql('postgres', "SELECT chash_set_node('a', weight => $round + 1)");
	proof_holds($_, "round $round: and again after a change") foreach @sessions;
}

# Also in a transaction, which goes on, and in its savepoints.
my $fresh = open_session($server);
$fresh->query_safe('BEGIN');
$fresh->query_safe('SAVEPOINT s');
proof_holds($fresh, 'a new session looks up a key in a savepoint');
$fresh->query_safe('ROLLBACK TO s');
is($fresh->query_safe(q{SELECT chash_node('apple') IS NOT NULL}), 't', 'which can be rolled back');
$fresh->query_safe('COMMIT');
is($fresh->query_safe('SELECT count(*) FROM pg_locks WHERE NOT granted'), '0', 'nothing is left that others wait for');

my ($out, $notice) = ('', '');
$server->psql('postgres', 'SELECT count(*) FROM chash_cache', stdout => \$out, stderr => \$notice);
is($out, '0', 'view chash_cache is empty');
like($notice, qr/there is no shared cache of chash/, 'and says that there is none');

my @lines = slurp_file($server->logfile) =~ /LOG:  could not get shared memory for built rings/g;
is(scalar @lines, 1, 'one line in the log says why');

# With less of it, all is well again, as soon as it is tried again; at once in a server that starts.
$server->append_conf('postgresql.conf', 'chash.cache_size = 4MB');
$_->quit foreach @sessions, $fresh;
$server->restart;
is($server->safe_psql('postgres', q{SELECT chash_node('apple') IS NOT NULL; SELECT builds > 0 FROM chash_cache}), "t\nt", 'with less, rings are shared');

$server->stop;
done_testing();
