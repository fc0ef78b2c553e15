# With the SQL script of an older version the library goes on looking up, and refuses
# changes with a hint to update; the update makes of each version the same objects as a
# fresh installation, with the rings as they were.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $server = new_server('server');
my $directory = PostgreSQL::Test::Utils::tempdir;
my $newest = $server->safe_psql('postgres', q{SELECT default_version FROM pg_available_extensions WHERE name = 'chash'});
my @versions = split /\n/, $server->safe_psql('postgres', q{
	SELECT version FROM pg_available_extension_versions WHERE name = 'chash'
	ORDER BY string_to_array(version, '.')::int[]});

note("versions: @versions, by default $newest");
is((grep { $_ eq $newest } @versions), 1, 'the version that is installed by default is there');
is($versions[0], '0.1.0', 'and so is the first');

# ---------------------------------------------------------------------------
# Every function is called
# ---------------------------------------------------------------------------

# Functions, and what calls them, one after the other.  Each outcome, which may be an
# error, must be the same in all versions that have the function.
my @calls = (
	[ 'chash_create_ring(text,text,text,integer,integer,boolean,bytea,integer)' => q{
		SELECT chash_create_ring('x', vnodes => 16, hash_tags => true), chash_create_ring('p', 'partitions', partitions => 8), chash_create_ring('t', 'tokens')} ],
	[ 'chash_create_ring(text,text,text,integer,integer,boolean,bytea,integer)' => q{SELECT chash_create_ring('x', vnodes => 7)} ],
	[ 'chash_add_node(text,text,numeric,text,jsonb,bigint[],bigint)' => q{
		SELECT chash_add_node('a', 'x', weight => 2, zone => 'z', info => '{"dsn": "host=a"}'), chash_add_node('b', 'x'),
			chash_add_node('a', 'p'), chash_add_node('a', 't', tokens => '{0,10}')} ],
	[ 'chash_apply(jsonb,text,jsonb,bigint)' => q{SELECT chash_apply('{"c": {}, "d": {"state": "down"}, "a": {"zone": null}}', 'x')} ],
	[ 'chash_set_node(text,text,numeric,text,jsonb,bigint[],bigint)' => q{SELECT chash_set_node('b', 'x', weight => 0.5)} ],
	[ 'chash_mark_down(text,text,bigint)' => q{SELECT chash_mark_down('c', 'x')} ],
	[ 'chash_mark_up(text,text,bigint)' => q{SELECT chash_mark_up('c', 'x')} ],
	[ 'chash_remove_node(text,text,bigint)' => q{SELECT chash_remove_node('b', 'x')} ],
	[ 'chash_node_at(bigint,text)' => q{SELECT array_agg(chash_node_at(i * 1000000000000000000, 'x')) FROM generate_series(-9, 9) AS i} ],
	[ 'chash_hash_tag(text)' => q{SELECT chash_hash_tag('a{b}c'), chash_hash_tag('{}')} ],
	[ 'chash_hash_tag(bytea)' => q{SELECT chash_hash_tag('a{b}c'::bytea), chash_hash_tag('{}'::bytea)} ],
	[ 'chash_hash_support(internal)' => q{EXPLAIN SELECT FROM chash_hash(1, 'xxh3')} ],
	[ 'chash_fingerprint(text)' => q{SELECT chash_fingerprint(ring), chash_fingerprint(ring) = fingerprint FROM chash_rings WHERE length(ring) = 1 ORDER BY ring} ],
	[ 'chash_points(text)' => q{SELECT * FROM chash_points('x')} ],
	[ 'chash_ranges(text,text)' => q{SELECT * FROM chash_ranges('x'), chash_ranges('p') AS p WHERE p.hi = x'7fffffffffffffff'::bigint} ],
	[ 'chash_balance(text)' => q{SELECT * FROM chash_balance('x')} ],
	[ 'chash_rebalance_plan(text,jsonb,integer,jsonb)' => q{SELECT * FROM chash_rebalance_plan('x', '{"e": {}, "a": null}', replicas => 2)} ],
	[ 'chash_rebalance_summary(text,jsonb,integer)' => q{SELECT * FROM chash_rebalance_summary('x', '{"e": {}, "a": null}')} ],
	[ 'chash_epoch_diff(text,bigint,bigint,integer)' => q{SELECT * FROM chash_epoch_diff('x', 3, 5)} ],
	[ 'chash_ring_diff(text,text,integer)' => q{SELECT * FROM chash_ring_diff('x', 'p')} ],
	[ 'chash_copy_ring(text,text)' => q{SELECT chash_copy_ring('x', 'y')} ],
	[ 'chash_export(text)' => q{SELECT chash_export('y') = chash_export('x'), chash_export('x')} ],
	[ 'chash_import(jsonb,text)' => q{SELECT chash_import(chash_export('x'), 'z')} ],
	[ 'chash_prune_history(text,bigint)' => q{SELECT chash_prune_history('x', 2)} ],
	[ 'chash_rows_support(internal)' => q{EXPLAIN SELECT FROM chash_points('x')} ],
	[ 'chash_nodes_before_row()' => q{INSERT INTO chash_nodes (ring, node) VALUES ('p', 'b'), ('p', 'c') RETURNING *} ],
	[ 'chash_after_statement()' => q{UPDATE chash_nodes SET weight = 3 WHERE ring = 'p' AND node = 'b' RETURNING *} ],
	[ 'chash_before_statement()' => q{DELETE FROM chash_nodes WHERE ring = 'p' AND node = 'c' RETURNING *} ],
	[ 'chash_history_before_row()' => q{UPDATE chash_node_history SET weight = 7 WHERE ring = 'x'} ],
	[ 'chash_rings_before_row()' => q{UPDATE chash_rings SET replicas = 3 WHERE ring = 'p' RETURNING epoch} ],
	[ 'chash_rings_after_row()' => q{DELETE FROM chash_rings WHERE ring = 'y' RETURNING epoch} ],
	[ 'chash_after_statement()' => q{SELECT * FROM chash_nodes WHERE ring = 'p' ORDER BY node} ],
	[ 'chash_before_truncate()' => q{BEGIN; TRUNCATE chash_nodes; SELECT ring, epoch FROM chash_rings WHERE length(ring) = 1 ORDER BY ring; ROLLBACK} ],
	[ 'chash_cache_rings()' => q{SELECT count(*) >= 0 FROM chash_cache_rings()} ],
	[ 'chash_cache_reset()' => q{SELECT chash_cache_reset()} ]);

# The functions that have a variant for each type of keys.
my %keys = (
	text => q{'key {' || i || '}'},
	bytea => q{convert_to('key ' || i, 'UTF8')},
	bigint => q{i::bigint * 1000000007},
	uuid => q{md5(i::text)::uuid});
my @of_keys = (
	[ 'chash_node(KEY,text)' => q{chash_node(key, 'x'), chash_node(key, 'p'), chash_node(key, 't')} ],
	[ 'chash_replicas(KEY,integer,text)' => q{chash_replicas(key, 2, 'x'), chash_replicas(key, 1, 'p')} ],
	[ 'chash_replicas(KEY,bigint,text)' => q{chash_replicas(key, 2, 'x'), chash_replicas(key, 1, 'p')} ],
	[ 'chash_hash(KEY,text)' => q{chash_hash(key), chash_hash(key, 'xxh3')} ],
	[ 'chash_position(KEY,text)' => q{chash_position(key, 'x')} ],
	[ 'chash_route(KEY,text)' => q{chash_route(key, 'x')} ],
	[ 'chash_node_as_of(KEY,bigint,text)' => q{chash_node_as_of(key, 3, 'x')} ],
	[ 'chash_check_route(KEY,text,bigint,text)' => q{chash_check_route(key, chash_node(key, 'x'), 4, 'x')} ],
	[ 'chash_check_route(KEY,text,bigint,text)' => q{chash_check_route(key, 'another', 4, 'x')} ]);
foreach my $call (@of_keys)
{
	my ($function, $expressions) = @$call;
	my ($after) = grep { $calls[$_][0] eq 'chash_copy_ring(text,text)' } 0 .. $#calls;

	splice @calls, $after, 0,
	  map { [ $function =~ s/KEY/$_/r, "SELECT $expressions FROM (SELECT $keys{$_} AS key FROM generate_series(1, 20) AS i) AS k" ] } sort keys %keys;
}

sub outcome_of
{
	my ($session, $statement) = @_;
	my $out = $session->query("$statement\n;\n\\if :ERROR\n\\echo failed: :SQLSTATE :LAST_ERROR_MESSAGE\n\\endif");

	$session->{stderr} = '';
	return $out;
}

# Calls them in a session, and gives the outcomes.
sub call_functions
{
	my ($session) = @_;
	my %has = map { $_ => 1 } split /\n/, $session->query_safe(q{
		SET client_min_messages = warning;
		SELECT objid::regprocedure FROM pg_depend
		WHERE refclassid = 'pg_extension'::regclass AND classid = 'pg_proc'::regclass AND deptype = 'e'
			AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'chash')});
	my %outcomes;

	foreach my $call (@calls)
	{
		my ($function, $statement) = @$call;

		$outcomes{"$function: $statement"} = outcome_of($session, $statement) if $has{$function};
		$has{$function} = 'called' if $has{$function};
	}
	outcome_of($session, 'SELECT chash_drop_ring(ring) FROM chash_rings WHERE length(ring) = 1');
	$has{'chash_drop_ring(text)'} = 'called';
	return (\%outcomes, [ grep { $has{$_} ne 'called' } sort keys %has ]);
}

# Calls everything that can be called, with NULL for each argument.
my $call_with_nulls = q{
	DO $$
	DECLARE
		call text;
	BEGIN
		FOR call IN
			SELECT format('SELECT %s(%s)', p.proname, (SELECT string_agg(format('NULL::%s', type::regtype), ', ') FROM unnest(p.proargtypes) AS type))
			FROM pg_depend AS d JOIN pg_proc AS p ON p.oid = d.objid
			WHERE d.refclassid = 'pg_extension'::regclass AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
				AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'chash')
				AND p.prokind = 'f' AND p.prorettype NOT IN ('trigger'::regtype, 'internal'::regtype)
		LOOP
			BEGIN
				EXECUTE call;
			EXCEPTION WHEN OTHERS THEN
				NULL;
			END;
		END LOOP;
	END
	$$};

# ---------------------------------------------------------------------------
# Everything that the extension consists of, as lines
# ---------------------------------------------------------------------------

# (An owner can grant anyway, whether it is written down or not.)
my $catalogs = q{
CREATE FUNCTION pg_temp.acl(acl aclitem[]) RETURNS text LANGUAGE sql AS $$
	SELECT CASE WHEN acl IS NULL THEN 'by default' ELSE
		(SELECT coalesce(string_agg(concat_ws(' ', grantee::regrole, privilege_type, is_grantable AND grantee <> grantor, grantor::regrole), ', ' ORDER BY grantee::regrole::text, privilege_type), 'none')
			FROM aclexplode(acl)) END
$$;
WITH members AS (
	SELECT classid, objid FROM pg_depend
	WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
		AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'chash')
),
relations AS (SELECT c.* FROM pg_class AS c JOIN members ON classid = 'pg_class'::regclass AND objid = oid),
lines AS (
	SELECT format('member %s', pg_describe_object(classid, objid, 0)) AS line FROM members
	UNION ALL
	SELECT format('extension: version %s, owner %s, schema %s, relocatable %s, comment %s', extversion, extowner::regrole, extnamespace::regnamespace, extrelocatable, obj_description(oid, 'pg_extension'))
	FROM pg_extension WHERE extname = 'chash'
	UNION ALL
	SELECT format('dumped %s where %L', config, condition)
	FROM pg_extension, LATERAL (SELECT relation::regclass AS config, condition FROM unnest(extconfig, extcondition) AS _ (relation, condition)) AS _
	WHERE extname = 'chash'
	UNION ALL
	SELECT format('function %s: %s owner %s, acl %s, comment %s', p.oid::regprocedure, pg_get_functiondef(p.oid), proowner::regrole, pg_temp.acl(proacl), obj_description(p.oid, 'pg_proc'))
	FROM pg_proc AS p JOIN members ON classid = 'pg_proc'::regclass AND objid = p.oid WHERE prokind IN ('f', 'p')
	UNION ALL
	SELECT format('relation %s: kind %s, owner %s, acl %s, options %s, persistence %s, replica identity %s, row security %s, comment %s',
		oid::regclass, relkind, relowner::regrole, pg_temp.acl(relacl), reloptions, relpersistence, relreplident, relrowsecurity, obj_description(oid, 'pg_class'))
	FROM relations
	UNION ALL
	SELECT format('column %s of %s: %s %s, type %s, collation %s, not null %s, identity %s, generated %s, storage %s, default %s, acl %s, comment %s',
		row_number() OVER (PARTITION BY r.oid ORDER BY attnum), r.oid::regclass, attname, attnum > 0, format_type(atttypid, atttypmod), attcollation::regcollation,
		attnotnull, attidentity, attgenerated, attstorage, pg_get_expr(adbin, adrelid), pg_temp.acl(attacl), col_description(r.oid, attnum))
	FROM relations AS r JOIN pg_attribute AS a ON attrelid = r.oid AND attnum > 0 AND NOT attisdropped
		LEFT JOIN pg_attrdef ON adrelid = r.oid AND adnum = attnum
	UNION ALL
	SELECT format('constraint %s of %s: %s, %s', conname, r.oid::regclass, pg_get_constraintdef(c.oid), obj_description(c.oid, 'pg_constraint'))
	FROM relations AS r JOIN pg_constraint AS c ON conrelid = r.oid
	UNION ALL
	SELECT format('index of %s: %s', r.oid::regclass, pg_get_indexdef(indexrelid))
	FROM relations AS r JOIN pg_index ON indrelid = r.oid
	UNION ALL
	SELECT format('trigger of %s: %s, enabled %s, %s', r.oid::regclass, pg_get_triggerdef(t.oid), tgenabled, obj_description(t.oid, 'pg_trigger'))
	FROM relations AS r JOIN pg_trigger AS t ON tgrelid = r.oid
	UNION ALL
	SELECT format('view %s: %s', oid::regclass, pg_get_viewdef(oid)) FROM relations WHERE relkind IN ('v', 'm')
	UNION ALL
	SELECT format('sequence %s: %s', seqrelid::regclass, to_jsonb(s) - 'seqrelid') FROM pg_sequence AS s JOIN relations ON seqrelid = oid
	UNION ALL
	SELECT format('initial privileges of %s: %s', pg_describe_object(classoid, i.objoid, objsubid), pg_temp.acl(initprivs))
	FROM pg_init_privs AS i JOIN members ON classid = classoid AND objid = i.objoid
)
SELECT replace(line, chr(10), ' ') FROM lines ORDER BY line COLLATE "C"};

sub objects_of
{
	my ($database) = @_;

	return [ split /\n/, $server->safe_psql($database, "SET client_min_messages = warning; $catalogs") ];
}

# ---------------------------------------------------------------------------

sub new_database
{
	my ($name, $version) = @_;

	$server->safe_psql('postgres', "CREATE DATABASE $name TEMPLATE template0");
	$server->safe_psql($name, "CREATE EXTENSION chash VERSION '$version'") if defined $version;
	return;
}

sub is_version
{
	my ($database, $version, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is($server->safe_psql($database, q{SELECT extversion FROM pg_extension WHERE extname = 'chash'}), $version, $name);
}

# Compares the outcomes of what both versions have.
sub are_outcomes
{
	my ($got, $expected, $name) = @_;
	my @both = grep { exists $expected->{$_} } sort keys %$got;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is_deeply({ map { $_ => $got->{$_} } @both }, { map { $_ => $expected->{$_} } @both }, "$name: " . @both . ' calls');
}

# What a fresh installation has and does.
my $objects = objects_of('postgres');
cmp_ok(scalar(grep { /^function chash_/ } @$objects), '>', 50, 'a fresh installation has functions');
my $session = open_session($server);
my ($outcomes) = call_functions($session);
$session->quit;
is_deeply(
	[ sort { $a cmp $b } map { $outcomes->{$_} =~ /^failed: (\S+)/m ? "$1 " . s/\(.*//sr : () } keys %$outcomes ],
	[ '22023 chash_ring_diff', '42710 chash_create_ring', '55000 chash_history_before_row', ('RT001 chash_check_route') x 4 ], 'no calls fail but those that are meant to');

make_rings($server);
my $rings = portrait($server);

# What must be refused while the script is older, and what the error says.
my @changes = (
	q{SELECT chash_add_node('more', 'cities')},
	q{SELECT chash_create_ring('more')},
	q{SELECT chash_drop_ring('cities')},
	q{SELECT chash_prune_history('cities', 0)},
	q{SELECT chash_import(chash_export('cities'), 'more')},
	q{INSERT INTO chash_nodes (ring, node) VALUES ('cities', 'more')},
	q{UPDATE chash_nodes SET weight = 3},
	q{UPDATE chash_rings SET replicas = 3},
	q{DELETE FROM chash_nodes},
	q{DELETE FROM chash_rings},
	q{TRUNCATE chash_nodes},
	q{TRUNCATE chash_rings, chash_nodes, chash_node_history});
my $refusal = '55000 the tables of chash are those of an older version';

# Puts the rings of database postgres into one that has an older version, as that has
# written them.
sub put_rings
{
	my ($database) = @_;

	foreach my $table ('chash_rings', 'chash_nodes', 'chash_node_history')
	{
		my $columns = $server->safe_psql($database, qq{
			SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
			WHERE attrelid = '$table'::regclass AND attnum > 0 AND NOT attisdropped});
		my $rows = $server->safe_psql('postgres', "COPY (SELECT $columns FROM $table) TO STDOUT");

		$server->safe_psql($database, "ALTER TABLE $table DISABLE TRIGGER USER; COPY $table ($columns) FROM STDIN;\n$rows\n\\.\n");
	}
	$server->safe_psql($database, q{
		DO $$
		DECLARE
			what record;
		BEGIN
			FOR what IN SELECT tgrelid::regclass AS "table", tgname FROM pg_trigger WHERE tgname LIKE 'chash%'
			LOOP
				EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', what.table, what.tgname);
			END LOOP;
		END
		$$});
	return;
}

foreach my $version (@versions)
{
	my $database = 'v' . $version =~ tr/./_/r;
	my $other;
	my $got;

	new_database($database, $version);
	is_version($database, $version, "$version can be installed");
	$session = open_session($server, $database);
	$other = open_session($server, $database);
	if ($version eq $newest)
	{
		my $not_called;

		($got, $not_called) = call_functions($session);
		are_outcomes($got, $outcomes, "$version: functions do the same");
		is("@$not_called", '', "$version: and all of them have been called");
		make_rings($server, $database);
	}
	else
	{
		put_rings($database);
		is(error_of($session, $_), $refusal, "$version: refused before the update: $_") foreach @changes;
	}
	is(outcome_of($session, $call_with_nulls), '', "$version: functions can be called with NULLs");
	is_portrait(portrait_of($other), $rings, "$version: rings are as in $newest");

	# Dumped, and restored with the newest version.
	run_program($server, 'pg_dump', '--file', "$directory/$version.sql", $database);
	new_database("${database}_restored");
	run_program($server, 'psql', '--no-psqlrc', '--quiet', '--set', 'ON_ERROR_STOP=1', '--file', "$directory/$version.sql", "${database}_restored");
	is_version("${database}_restored", $newest, "$version: a dump is restored");
	is_portrait(portrait($server, "${database}_restored"), $rings, "$version: rings are kept by it");

	# Updated, while sessions know the rings.
	$session->query_safe(q{PREPARE route AS SELECT chash_node('key 1', 'cities'), epoch FROM chash_route('key 1', 'parts')});
	$got = $session->query_safe('EXECUTE route');
	$server->safe_psql($database, 'ALTER EXTENSION chash UPDATE');
	is_version($database, $newest, "$version: updated");
	is_deeply(objects_of($database), $objects, "$version: after the update all objects are as in a fresh installation");
	is($session->query_safe('EXECUTE route'), $got, "$version: a session goes on after the update");
	is_portrait(portrait_of($other), $rings, "$version: rings are kept by the update");
	is($server->safe_psql($database, 'SELECT count(*) FROM chash_rings WHERE digest IS NULL'), '0', "$version: all have a digest");
	($got) = call_functions($session);
	are_outcomes($got, $outcomes, "$version: after the update functions do the same");
	$other->query_safe(q{SELECT chash_apply('{"Zürich": null, "another": {"weight": 100}}', 'cities')});
	is($session->query_safe('EXECUTE route') =~ s/\|.*//r, 'another', "$version: changes are seen after the update");
	$_->quit foreach $session, $other;
}

$server->stop;
done_testing();
