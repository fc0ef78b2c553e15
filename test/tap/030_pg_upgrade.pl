# A cluster of an older PostgreSQL with the oldest chash, which pg_upgrade has turned
# into one of this version, routes every key as before, at the same epochs and
# fingerprints, and with the same history, rights and triggers; so it does when the
# extension has been updated; indexes and views on chash's functions go on working;
# and the next change of a ring makes its next epoch.
#
# This takes an older installation too, with chash: CHASH_OLD_PG_CONFIG names its
# pg_config (run.sh takes care of chash there).

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'pg_upgrade, since CHASH_OLD_PG_CONFIG names no older PostgreSQL'
  unless $ENV{CHASH_OLD_PG_CONFIG};

my $oldest = '0.1.0';
my $rings = 4;
my $keys = 100_000;

sub bindir_of
{
	my ($pg_config) = @_;
	my $bindir = qx{'$pg_config' --bindir};

	die "$pg_config failed" if $? != 0;
	chomp $bindir;
	return $bindir;
}

# Checksums are asked for, since not every version has them by default, and both
# clusters must agree.
my @initdb = ('--encoding=UTF8', '--locale=C', '--data-checksums');
my $old_bindir = bindir_of($ENV{CHASH_OLD_PG_CONFIG});
my $old = PostgreSQL::Test::Cluster->new('old', install_path => dirname($old_bindir));
my $new = PostgreSQL::Test::Cluster->new('new');

foreach my $server ($old, $new)
{
	$server->init(extra => [@initdb]);
	$server->append_conf('postgresql.conf', "jit = off\n");
	$server->append_conf('postgresql.conf', "shared_preload_libraries = 'chash'\n") if $ENV{CHASH_TEST_PRELOAD} // 1;
}
note 'from ' . $old->pg_version . ' to ' . $new->pg_version;
ok($old->pg_version < $new->pg_version, 'the old PostgreSQL is older than the new one');

# ---------------------------------------------------------------------------
# Before
# ---------------------------------------------------------------------------

$old->start;
$old->safe_psql('postgres', qq{
	CREATE SCHEMA rings;
	CREATE EXTENSION chash SCHEMA rings VERSION '$oldest';
	ALTER DATABASE postgres SET search_path = public, rings;
});
make_rings($old);
$old->safe_psql('postgres', qq{
	CREATE ROLE operator;
	GRANT EXECUTE ON FUNCTION chash_add_node, chash_mark_down TO operator;
	GRANT SELECT (info) ON chash_nodes TO operator;

	-- every tenth key of many has a tag that it shares with others
	CREATE TABLE keys AS
	SELECT i AS id, CASE i % 10 WHEN 0 THEN format('user:{%s}:%s', i / 100, i) ELSE 'ключ ' || i END AS key
	FROM generate_series(1, $keys) AS i;
	CREATE INDEX keys_position ON keys (chash_hash(key));
	CREATE INDEX keys_tag ON keys (chash_hash(chash_hash_tag(key)));
	CREATE VIEW places AS SELECT id, key, chash_node(key, 'cities') AS node FROM keys;

	CREATE TABLE routes AS
	SELECT ring, id, node, "position", route.epoch, chash_replicas(key, 3, ring) AS replicas
	FROM chash_rings, keys, LATERAL chash_route(key, ring) AS route
	WHERE ring <> 'empty';
});

# What must be the same afterwards; of routes not what the table says, which has
# been upgraded itself.
my @same = (
	'routes of all keys in all rings' => q{
		SELECT ring, count(*), count(DISTINCT node), md5(string_agg(format('%s %s %s %s %s',
			id, route.node, route."position", route.epoch, chash_replicas(key, 3, ring)), ', ' ORDER BY id))
		FROM chash_rings, keys, LATERAL chash_route(key, ring) AS route
		WHERE ring <> 'empty' GROUP BY ring ORDER BY ring},
	'what was recorded of them' => q{SELECT md5(string_agg(routes::text, ', ' ORDER BY ring, id)) FROM routes},
	'epochs, fingerprints and stamps' => q{
		SELECT ring, epoch, history_from, fingerprint, chash_fingerprint(ring), version
		FROM chash_rings ORDER BY ring},
	'exports' => q{SELECT chash_export(ring) FROM chash_rings ORDER BY ring},
	'hashes of keys of all types' => q{
		SELECT sum(chash_hash(key)::numeric), sum(chash_hash(convert_to(key, 'UTF8'))::numeric),
			sum(chash_hash(id)::numeric), sum(chash_hash(md5(key)::uuid)::numeric) FROM keys},
	'rows of the view' => q{SELECT count(*), count(DISTINCT node), md5(string_agg(places::text, ', ' ORDER BY id)) FROM places},
	'rights on functions' => q{
		SELECT p.oid::regprocedure, has_function_privilege('public', p.oid, 'EXECUTE'), has_function_privilege('operator', p.oid, 'EXECUTE')
		FROM pg_proc AS p WHERE proname LIKE 'chash%' AND proname NOT LIKE 'chash_cache%' ORDER BY p.oid::regprocedure::text COLLATE "C"},
	'rights on columns' => q{
		SELECT attrelid::regclass, attname, has_column_privilege('public', attrelid, attname, 'SELECT'), has_column_privilege('operator', attrelid, attname, 'SELECT')
		FROM pg_attribute WHERE attrelid IN ('chash_rings'::regclass, 'chash_nodes'::regclass, 'chash_node_history'::regclass) AND attnum > 0
		ORDER BY attrelid::regclass::text, attnum},
	'triggers' => q{
		SELECT tgrelid::regclass, tgname, tgenabled, tgfoid::regproc FROM pg_trigger
		WHERE tgrelid IN ('chash_rings'::regclass, 'chash_nodes'::regclass, 'chash_node_history'::regclass) AND NOT tgisinternal
		ORDER BY tgrelid::regclass::text, tgname},
	'whose rows are dumped' => q{
		SELECT config::regclass, condition FROM pg_extension, unnest(extconfig, extcondition) AS c (config, condition)
		WHERE extname = 'chash' ORDER BY config::regclass::text},
);
my $before = portrait($old);
my %before;
for (my $i = 0; $i < @same; $i += 2)
{
	$before{ $same[$i] } = $old->safe_psql('postgres', $same[ $i + 1 ]);
}
is($old->safe_psql('postgres', 'SELECT count(*), count(DISTINCT ring) FROM routes'),
	$rings * $keys . "|$rings", 'keys are routed before');
is($old->safe_psql('postgres', 'SELECT count(*) FROM chash_rings WHERE fingerprint = chash_fingerprint(ring)'),
	$rings + 1, 'fingerprints are right before');
$old->stop;

# ---------------------------------------------------------------------------
# The upgrade
# ---------------------------------------------------------------------------

# It leaves its scripts in the current directory.
my $directory = PostgreSQL::Test::Utils::tempdir;
chdir $directory or die "$directory: $!";
my $upgraded = run_log(
	[
		'pg_upgrade', '--no-sync',
		'--old-datadir', $old->data_dir, '--new-datadir', $new->data_dir,
		'--old-bindir', $old_bindir, '--new-bindir', bindir_of('pg_config'),
		'--old-port', $old->port, '--new-port', $new->port,
		'--socketdir', $new->host
	]);
ok($upgraded, 'pg_upgrade');
if (!$upgraded)
{
	diag(slurp_file($_)) foreach glob $new->data_dir . '/pg_upgrade_output.d/*/{*.txt,log/*.log}';
	BAIL_OUT('nothing was upgraded');
}
$new->start;

# ---------------------------------------------------------------------------
# After
# ---------------------------------------------------------------------------

# In a session that goes on to change the rings.
my $session = open_session($new);

sub is_as_before
{
	my ($when) = @_;

	is_portrait(portrait_of($session), $before, "$when: rings, nodes, history, plans and routes are as before");
	for (my $i = 0; $i < @same; $i += 2)
	{
		is($session->query_safe($same[ $i + 1 ]), $before{ $same[$i] }, "$when: $same[$i]: as before");
	}
	is($session->query_safe('SELECT count(*) FROM chash_rings WHERE fingerprint = chash_fingerprint(ring)'),
		$rings + 1, "$when: fingerprints are what the nodes give");
	return;
}

is_as_before('upgraded');

# The extension is as it was.  pg_upgrade leaves a script that updates it if there
# is a later version.
my $is_up_to_date = q{SELECT installed_version = default_version FROM pg_available_extensions WHERE name = 'chash'};
my $updates = "$directory/update_extensions.sql";
is($session->query_safe(q{SELECT extversion FROM pg_extension WHERE extname = 'chash'}), $oldest, 'upgraded: the extension is of the old version');
is(-e $updates ? 'f' : 't', $session->query_safe($is_up_to_date), 'upgraded: there is a script that updates it, if that is not the newest');
if (-e $updates)
{
	run_program($new, 'psql', '--no-psqlrc', '--quiet', '--set', 'ON_ERROR_STOP=1', '--file', $updates, 'postgres');
}
is($session->query_safe($is_up_to_date), 't', 'updated: the extension is of the newest version');
is_as_before('updated');

# All that belongs to it is what belongs to a new one.
my $members = q{
	SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
	WHERE deptype = 'e' AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'chash')
	ORDER BY pg_describe_object(classid, objid, objsubid) COLLATE "C"};
$new->safe_psql('postgres', 'CREATE DATABASE fresh TEMPLATE template0');
$new->safe_psql('postgres', 'ALTER DATABASE fresh SET search_path = public, rings');
$new->safe_psql('fresh', 'CREATE SCHEMA rings; CREATE EXTENSION chash SCHEMA rings');
is($session->query_safe($members), $new->safe_psql('fresh', $members), 'updated: the extension has what a new one has');

# Statistics are not taken along by every version.
$session->query_safe('ANALYZE');

# Each key is found in the index at the position that it had.
my $look_up = q{
	SELECT count(*) FROM routes AS r JOIN keys AS k ON chash_hash(k.key) = r."position" AND k.id = r.id
	WHERE r.ring = 'parts'};
$session->query_safe('SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_seqscan = off');
like($session->query_safe("EXPLAIN (COSTS OFF) $look_up"), qr/Index Scan using keys_position/, 'the index can be used');
is($session->query_safe($look_up), $keys, 'and has every key at its position');
$session->query_safe('RESET enable_hashjoin; RESET enable_mergejoin; RESET enable_seqscan');

# The two rings differ in what they hash, and have an index each.
foreach my $case ([ 'parts', 'keys_position', 'key' ], [ 'cities', 'keys_tag', 'chash_hash_tag(key)' ])
{
	my ($ring, $index, $hashed) = @$case;
	my $found = qq{
		SELECT id, to_node FROM chash_rebalance_plan('$ring', '{"later": {}}', replicas => 1) AS p
		JOIN keys ON chash_hash($hashed) BETWEEN p.lo AND p.hi};

	like($session->query_safe("EXPLAIN (COSTS OFF) $found"), qr/$index/, "$ring: a plan of moves uses the index");
	$session->query_safe("CREATE TABLE found_$ring AS $found");
	is( $session->query_safe(qq{
			SELECT count(*) > 1000, bool_and(to_node = 'later'),
				count(*) = (SELECT count(*) FROM chash_rebalance_plan('$ring', '{"later": {}}', replicas => 1) AS p
					JOIN keys ON chash_position(key, '$ring') BETWEEN p.lo AND p.hi)
			FROM found_$ring}),
		't|t|t', "$ring: and finds what it finds without");
}

# Changes, by function and directly.
is( $session->query_safe(q{
		SELECT ring, epoch + 1 = CASE placement
			WHEN 'tokens' THEN chash_add_node('later', ring, tokens => '{42}')
			ELSE chash_add_node('later', ring) END
		FROM chash_rings ORDER BY ring}),
	"cities|t\nempty|t\nparts|t\npruned|t\ntokens|t", 'a change makes the next epoch of each ring');
foreach my $ring ('parts', 'cities')
{
	is( $session->query_safe(qq{
			SELECT count(*) FROM routes JOIN keys USING (id) LEFT JOIN found_$ring USING (id)
			WHERE ring = '$ring' AND (found_$ring.id IS NOT NULL) <> (chash_node_as_of(key, (SELECT r.epoch FROM chash_rings AS r WHERE r.ring = '$ring'), '$ring')
				<> chash_node_as_of(key, routes.epoch, '$ring'))}),
		'0', "$ring: what has moved is what had been found");
}
is( $session->query_safe(q{
		SELECT count(*) FROM routes JOIN keys USING (id) JOIN places USING (id)
		WHERE ring = 'cities' AND places.node <> routes.node AND places.node <> 'later'}),
	'0', 'the view follows');
cmp_ok($session->query_safe(q{SELECT count(*) FROM places WHERE node = 'later'}), '>', 1000, 'to the new node');
$session->query_safe('CREATE TABLE before AS SELECT ring, epoch, fingerprint FROM chash_rings');
$session->query_safe(q{UPDATE chash_nodes SET weight = 2.5 WHERE node = 'later'});
is( $session->query_safe(q{
		SELECT count(*) FROM chash_rings AS r JOIN before AS b USING (ring)
		WHERE r.epoch = b.epoch + 1 AND r.fingerprint <> b.fingerprint AND r.fingerprint = chash_fingerprint(r.ring)}),
	$rings + 1, 'a direct change makes the next one');
$session->query_safe(q{
	SELECT chash_remove_node('later', 'cities'), chash_mark_up('東京', 'cities'), chash_mark_down('Zürich', 'cities'),
		chash_prune_history('parts', 1), chash_drop_ring('pruned'), chash_copy_ring('cities', 'copy')});
is( $session->query_safe(q{
		SELECT count(*) FROM routes JOIN keys USING (id)
		WHERE ring = 'cities' AND chash_node_as_of(key, (SELECT epoch FROM chash_rings WHERE ring = 'copy'), 'copy') IS DISTINCT FROM chash_node_as_of(key, routes.epoch, 'cities')}),
	'0', 'a node that is removed again leaves the rest as before');
make_proof($new);
proof_holds($session, 'lookups follow the tables');

# A dump of all that can be restored, as any other.
my $after = portrait_of($session);
$new->safe_psql('postgres', 'CREATE DATABASE restored TEMPLATE template0');
$new->safe_psql('postgres', 'ALTER DATABASE restored SET search_path = public, rings');
run_program($new, 'pg_dump', '--file', "$directory/dump.sql", 'postgres');
run_program($new, 'psql', '--no-psqlrc', '--quiet', '--set', 'ON_ERROR_STOP=1', '--file', "$directory/dump.sql", 'restored');
is_portrait(portrait($new, 'restored'), $after, 'a dump of the new cluster restores it all');

$session->quit;
$new->stop;
done_testing();
