# Rings are managed by whoever owns the database: whoever has installed chash there, also
# when that role is gone, and with its grants to others; after a dump and restore by the
# owner or by a superuser, in a database that is made from another one, and after pg_upgrade.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $directory = PostgreSQL::Test::Utils::tempdir;
my $server = new_server('server');

$server->safe_psql('postgres', q{
	CREATE ROLE olga LOGIN;
	CREATE ROLE petra LOGIN;
	CREATE ROLE guest LOGIN;
	CREATE ROLE builder LOGIN;
	CREATE ROLE dba SUPERUSER LOGIN;
	CREATE DATABASE shop OWNER olga;
});

# Runs statements as a role; dies if one fails.
sub as
{
	my ($role, $on, $database, $statements) = @_;

	return $on->safe_psql($database, $statements, extra_params => [ '--username', $role ]);
}

# Every right that a role has on chash's objects, and may pass on; a line each.
sub rights_of
{
	my ($on, $database, $role) = @_;

	return $on->safe_psql($database, qq{
		SELECT r FROM (
			SELECT 'function ' || oid::regprocedure || ' ' || p FROM pg_proc,
				unnest(ARRAY['EXECUTE', 'EXECUTE WITH GRANT OPTION']) AS p
			WHERE proname LIKE 'chash%' AND has_function_privilege('$role', oid, p)
			UNION ALL
			SELECT 'table ' || oid::regclass || ' ' || p || o FROM pg_class,
				unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) AS p,
				unnest(ARRAY['', ' WITH GRANT OPTION']) AS o
			WHERE relname LIKE 'chash%' AND relkind IN ('r', 'v') AND has_table_privilege('$role', oid, p || o)
			UNION ALL
			SELECT 'column ' || attrelid::regclass || '.' || attname || ' ' || p FROM pg_attribute,
				unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'REFERENCES']) AS p
			WHERE attrelid::regclass::text LIKE '%chash_nodes' AND attnum > 0 AND has_column_privilege('$role', attrelid, attname, p)
		) AS all_rights (r)
		ORDER BY r COLLATE "C"});
}

# A role can do all that managing rings takes, and leaves everything as it was.
sub manages
{
	my ($on, $database, $role, $name) = @_;
	my $session = open_session($on, $database, '--username', $role);
	my @failed;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	foreach my $statement (
		q{SELECT chash_create_ring('managed', vnodes => 8)},
		q{SELECT chash_add_node('m', 'managed', info => '{"dsn": "host=m"}')},
		q{SELECT chash_apply('{"n": {}, "o": {"weight": 2}}', 'managed')},
		q{SELECT chash_set_node('n', 'managed', weight => 3), chash_mark_down('o', 'managed'), chash_mark_up('o', 'managed'), chash_remove_node('o', 'managed')},
		q{SELECT chash_copy_ring('managed', 'copied'), chash_import(chash_export('managed'), 'imported')},
		q{UPDATE chash_nodes SET weight = 2 WHERE ring = 'managed'},
		q{INSERT INTO chash_nodes (ring, node) VALUES ('managed', 'p')},
		q{SELECT info FROM chash_nodes WHERE ring = 'managed'},
		q{SELECT chash_prune_history('managed')},
		q{GRANT EXECUTE ON FUNCTION chash_mark_up TO guest},
		q{GRANT INSERT ON chash_rings TO guest},
		q{REVOKE EXECUTE ON FUNCTION chash_mark_up FROM guest},
		q{REVOKE INSERT ON chash_rings FROM guest},
		q{DELETE FROM chash_rings WHERE ring IN ('copied', 'imported')},
		q{SELECT chash_drop_ring('managed')})
	{
		my $error = error_of($session, $statement);

		push @failed, "$statement: $error" if $error ne '';
	}
	$session->quit;
	return is_deeply(\@failed, [], "$name: $role manages rings");
}

sub does_not_manage
{
	my ($on, $database, $role, $name) = @_;
	my $session = open_session($on, $database, '--username', $role);
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	like(error_of($session, q{SELECT chash_create_ring('managed')}), qr/^42501 /, "$name: $role makes no rings");
	like(error_of($session, q{INSERT INTO chash_rings (ring) VALUES ('managed')}), qr/^42501 /, "$name: not even directly");
	like(error_of($session, q{SELECT info FROM chash_nodes}), qr/^42501 /, "$name: and does not read info");
	$session->quit;
	return;
}

# ---------------------------------------------------------------------------
# Who installed it is gone
# ---------------------------------------------------------------------------

as('olga', $server, 'shop', q{
	CREATE EXTENSION chash;
	GRANT EXECUTE ON FUNCTION chash_add_node TO guest;
	GRANT SELECT (info), UPDATE (weight) ON chash_nodes TO guest;
});
make_rings($server, 'shop');
manages($server, 'shop', 'olga', 'installed');
does_not_manage($server, 'shop', 'petra', 'installed');

my @roles = ('public', 'pg_database_owner', 'petra', 'guest');
my %rights_before = map { $_ => rights_of($server, 'shop', $_) } 'public', 'pg_database_owner', 'olga', 'guest';
like($rights_before{guest}, qr/^column chash_nodes.info SELECT$/m, 'guest has been granted one thing');
like($rights_before{guest}, qr/^function chash_add_node\(.*\) EXECUTE$/m, 'and another');
unlike($rights_before{olga}, qr/TRIGGER|REFERENCES/, 'olga has nothing of what would let her run code as the owner of the tables');

$server->safe_psql('shop', 'REASSIGN OWNED BY olga TO petra; DROP ROLE olga');
manages($server, 'shop', 'petra', 'reassigned');
$rights_before{petra} = delete $rights_before{olga};

# The same of a database, however it came to be.
sub is_as_in_shop
{
	my ($on, $database, $name) = @_;
	my $changed;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is(rights_of($on, $database, $_), $rights_before{$_}, "$name: rights of $_") foreach @roles;
	manages($on, $database, 'petra', $name);
	$changed = as('guest', $on, $database, q{SELECT chash_add_node('guest', 'parts') = epoch + 1 FROM chash_rings WHERE ring = 'parts'});
	is($changed, 't', "$name: guest does what was granted to guest");
	as('petra', $on, $database, q{SELECT chash_remove_node('guest', 'parts')});
	return;
}
my $portrait = portrait($server, 'shop');
is_as_in_shop($server, 'shop', 'reassigned');

# ---------------------------------------------------------------------------
# Dump and restore
# ---------------------------------------------------------------------------

$server->safe_psql('shop', 'CREATE DATABASE dumped TEMPLATE shop OWNER petra');
$portrait = portrait($server, 'dumped');
run_program($server, 'pg_dump', '--username', 'petra', '--file', "$directory/plain.sql", 'dumped');
run_program($server, 'pg_dump', '--username', 'petra', '--format=custom', '--file', "$directory/custom", 'dumped');
unlike(slurp_file("$directory/plain.sql"), qr/^(?:GRANT|REVOKE).*"?\d{5,}"?;$/m, 'the dump names no role that is gone');

# Into a server that has never heard of olga, and where another superuser does it.
my $other = new_server('other');
$other->safe_psql('postgres', q{
	CREATE ROLE petra LOGIN;
	CREATE ROLE guest LOGIN;
	CREATE ROLE dba SUPERUSER LOGIN;
});
$other->safe_psql('postgres', "CREATE DATABASE $_ OWNER petra TEMPLATE template0")
  foreach qw(plain_superuser custom_superuser plain_owner custom_owner no_privileges);
my @psql = ('psql', '--no-psqlrc', '--quiet');
run_program($other, @psql, '--username', 'dba', '--set', 'ON_ERROR_STOP=1', '--file', "$directory/plain.sql", 'plain_superuser');
run_program($other, 'pg_restore', '--username', 'dba', '--exit-on-error', '--dbname=custom_superuser', "$directory/custom");
foreach my $database (qw(plain_superuser custom_superuser))
{
	is_portrait(portrait($other, $database), $portrait, "$database: rings are as they were");
	is_as_in_shop($other, $database, $database);
}

# The owner may not say whose the grants to guest are, but may make them.
my ($out, $err);
IPC::Run::run([ @psql, '--host', $other->host, '--port', $other->port, '--username', 'petra', '--file', "$directory/plain.sql", 'plain_owner' ],
	'<', \undef, '>', \$out, '2>', \$err);
is((join '', grep { !/ERROR:  permission denied to set session authorization/ } split /^/, $err), '', 'plain_owner: nothing else fails');
is_portrait(portrait($other, 'plain_owner'), $portrait, 'plain_owner: rings are as they were');
is_as_in_shop($other, 'plain_owner', 'plain_owner');

# So pg_restore does it by way of psql.
run_program($server, 'pg_restore', '--file', "$directory/from_custom.sql", "$directory/custom");
IPC::Run::run([ @psql, '--host', $other->host, '--port', $other->port, '--username', 'petra', '--file', "$directory/from_custom.sql", 'custom_owner' ],
	'<', \undef, '>', \$out, '2>', \$err);
is_portrait(portrait($other, 'custom_owner'), $portrait, 'custom_owner: rings are as they were');
is_as_in_shop($other, 'custom_owner', 'custom_owner');

# Without grants of one's own there is nothing that the owner may not do.
run_program($other, 'pg_restore', '--username', 'petra', '--no-privileges', '--exit-on-error', '--dbname=no_privileges', "$directory/custom");
is_portrait(portrait($other, 'no_privileges'), $portrait, 'no_privileges: rings are as they were');
manages($other, 'no_privileges', 'petra', 'no_privileges');
is(rights_of($other, 'no_privileges', 'guest'), $rights_before{public}, 'no_privileges: guest has no right but everybody\'s');
$other->stop;

# ---------------------------------------------------------------------------
# Other ways to come by a database with chash
# ---------------------------------------------------------------------------

# From a template.
is_as_in_shop($server, 'dumped', 'from a template');

# A superuser installs it for the owner.
$server->safe_psql('postgres', 'CREATE DATABASE for_petra OWNER petra');
as('dba', $server, 'for_petra', 'CREATE EXTENSION chash');
manages($server, 'for_petra', 'petra', 'installed by a superuser');
manages($server, 'for_petra', 'dba', 'installed by a superuser');
does_not_manage($server, 'for_petra', 'guest', 'installed by a superuser');

# The database gets another owner; or its owner is a role with members.
$server->safe_psql('postgres', 'ALTER DATABASE for_petra OWNER TO guest');
manages($server, 'for_petra', 'guest', 'the owner is another one');
does_not_manage($server, 'for_petra', 'petra', 'the owner is another one');
$server->safe_psql('postgres', 'CREATE ROLE team; GRANT team TO petra; ALTER DATABASE for_petra OWNER TO team');
manages($server, 'for_petra', 'petra', 'the owner is a team');
does_not_manage($server, 'for_petra', 'guest', 'the owner is a team');

# Whoever may create objects in a database can install chash; the rings are the owner's.
$server->safe_psql('postgres', 'CREATE DATABASE built OWNER petra; GRANT CREATE ON DATABASE built TO builder');
as('builder', $server, 'built', 'CREATE EXTENSION chash');
does_not_manage($server, 'built', 'builder', 'installed by another role');
manages($server, 'built', 'petra', 'installed by another role');
as('petra', $server, 'built', 'GRANT EXECUTE ON FUNCTION chash_create_ring TO builder');
is(as('builder', $server, 'built', q{SELECT chash_create_ring('ring')}), '1', 'until the owner grants it');

# ---------------------------------------------------------------------------
# Publishing takes the owner of the tables
# ---------------------------------------------------------------------------

my $petra = open_session($server, 'shop', '--username', 'petra');
my $tables = 'TABLE chash_rings, chash_nodes, chash_node_history';
like(error_of($petra, "CREATE PUBLICATION rings FOR $tables"), qr/^42501 must be owner of table chash_rings/, 'the owner of the database cannot publish rings');
is($server->psql('shop', "SET client_min_messages = error; CREATE PUBLICATION rings FOR $tables"), 0, 'a superuser can');
$petra->quit;
$server->safe_psql('shop', 'DROP PUBLICATION rings');

# ---------------------------------------------------------------------------
# pg_upgrade
# ---------------------------------------------------------------------------

my $new = PostgreSQL::Test::Cluster->new('new');

$new->init(extra => [ '--encoding=UTF8', '--locale=C' ]);
$new->append_conf('postgresql.conf', "jit = off\n");
$new->append_conf('postgresql.conf', "shared_preload_libraries = 'chash'\n") if $ENV{CHASH_TEST_PRELOAD} // 1;
$server->stop;

# It leaves its scripts in the current directory.
chdir $directory or die "$directory: $!";
my $bindir = `pg_config --bindir`;
chomp $bindir;
my $upgraded = run_log(
	[
		'pg_upgrade', '--no-sync',
		'--old-datadir', $server->data_dir, '--new-datadir', $new->data_dir,
		'--old-bindir', $bindir, '--new-bindir', $bindir,
		'--old-port', $server->port, '--new-port', $new->port,
		'--socketdir', $new->host
	]);
ok($upgraded, 'pg_upgrade');
if ($upgraded)
{
	$new->start;
	is_as_in_shop($new, 'shop', 'upgraded');
	$portrait = portrait($new, 'shop');
	$new->safe_psql('postgres', 'CREATE DATABASE restored OWNER petra TEMPLATE template0');
	run_program($new, 'pg_dump', '--username', 'petra', '--file', "$directory/upgraded.sql", 'shop');
	run_program($new, @psql, '--username', 'dba', '--set', 'ON_ERROR_STOP=1', '--file', "$directory/upgraded.sql", 'restored');
	is_portrait(portrait($new, 'restored'), $portrait, 'upgraded, and restored: rings are as they were');
	is_as_in_shop($new, 'restored', 'upgraded, and restored');
	$new->stop;
}
else
{
	diag(slurp_file($_)) foreach glob $new->data_dir . '/pg_upgrade_output.d/*/{*.txt,log/*.log}';
}

done_testing();
