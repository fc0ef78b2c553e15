# Any role may look up, plan and read; changing rings and reading info is for whoever
# has been given the right; and nothing that a role plants in its search_path or its
# temporary schema is taken for one of chash's own objects.  Default privileges make no
# difference.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use Test::More;

my $server = new_server('server');
$server->safe_psql('postgres', q{
	CREATE ROLE nobody LOGIN;
	CREATE ROLE adder LOGIN;
	CREATE ROLE writer LOGIN;
	GRANT EXECUTE ON FUNCTION chash_add_node TO adder;
	GRANT SELECT, INSERT, UPDATE, DELETE ON chash_nodes TO writer;
	SELECT chash_create_ring();
	SELECT chash_apply('{"a": {"info": {"dsn": "password=secret"}}, "b": {"zone": "z"}}');
	SELECT chash_set_node('b', weight => 2);
	SELECT chash_create_ring('parts', 'partitions', partitions => 64);
	SELECT chash_apply('{"p": {}, "q": {}}', 'parts');
});

sub session_of
{
	my ($role) = @_;

	return open_session($server, 'postgres', '--username', $role);
}

# ---------------------------------------------------------------------------
# A role without any right
# ---------------------------------------------------------------------------

my $nobody = session_of('nobody');

sub may
{
	my ($session, $statement, $expected) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is($session->query($statement), $expected, "may: $statement");
	return;
}

sub may_not
{
	my ($session, $statement, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	like(error_of($session, $statement), qr/^42501 permission denied for $what/, "may not: $statement");
	return;
}

may($nobody, q{SELECT chash_node('apple'), chash_node('apple'::bytea), chash_node(42), chash_node('6f1ed002-ab5c-4b9b-9a3f-3e1f0d6f1a00'::uuid) IN ('a', 'b')}, 'b|b|b|t');
may($nobody, q{SELECT chash_replicas('apple', 2), chash_node_at(chash_position('apple')), (chash_route('apple')).epoch}, '{b,a}|b|3');
may($nobody, q{SELECT chash_node_as_of('apple', 2), chash_check_route('apple', 'b', 3)}, 'b|');
may($nobody, q{SELECT chash_hash('apple') = chash_position('apple'), chash_hash_tag('{x}y')}, 't|x');
may($nobody, q{SELECT count(*) FROM chash_points()}, '768');
may($nobody, q{SELECT count(DISTINCT node), round(sum(share)::numeric, 6) FROM chash_ranges()}, '2|1.000000');
may($nobody, q{SELECT count(*) FROM chash_balance()}, '2');
may($nobody, q{SELECT count(*) > 0 FROM chash_rebalance_plan(changes => '{"c": {}}')}, 't');
may($nobody, q{SELECT count(*) > 0 FROM chash_rebalance_summary(changes => '{"c": {}}')}, 't');
may($nobody, q{SELECT count(*) > 0 FROM chash_epoch_diff()}, 't');
may($nobody, q{SELECT count(*) > 0 FROM chash_ring_diff('default', 'parts')}, 't');
may($nobody, q{SELECT chash_fingerprint() = fingerprint FROM chash_rings WHERE ring = 'default'}, 't');
may($nobody, q{SELECT ring, node, weight, zone, state, tokens, epoch FROM chash_nodes WHERE ring = 'default' ORDER BY node}, "default|a|1.000||up||2\ndefault|b|2.000|z|up||3");
may($nobody, q{SELECT count(held_partitions) FROM chash_nodes}, '2');
may($nobody, q{SELECT count(*) FROM chash_node_history}, '1');

foreach my $statement ('SELECT info FROM chash_nodes', 'SELECT * FROM chash_nodes', 'SELECT chash_nodes FROM chash_nodes',
	'COPY chash_nodes TO STDOUT', q{SELECT 1 FROM chash_nodes WHERE info IS NOT NULL},
	q{INSERT INTO chash_nodes (node) VALUES ('x')}, 'UPDATE chash_nodes SET weight = 3', 'DELETE FROM chash_nodes', 'TRUNCATE chash_nodes',
	'SELECT node FROM chash_nodes FOR UPDATE')
{
	may_not($nobody, $statement, 'table chash_nodes');
}
foreach my $table ('chash_rings', 'chash_node_history')
{
	may_not($nobody, "INSERT INTO $table DEFAULT VALUES", "table $table");
	may_not($nobody, "UPDATE $table SET ring = ring", "table $table");
	may_not($nobody, "DELETE FROM $table", "table $table");
	may_not($nobody, "TRUNCATE $table CASCADE", "table $table");
}
foreach my $call (
	q{chash_create_ring('x')}, q{chash_drop_ring()}, q{chash_add_node('x')}, q{chash_remove_node('a')},
	q{chash_set_node('a', weight => 3)}, q{chash_mark_down('a')}, q{chash_mark_up('a')}, q{chash_apply('{"a": null}')},
	q{chash_copy_ring('default', 'x')}, q{chash_import('{}')}, q{chash_prune_history()}, q{chash_export()})
{
	my ($function) = $call =~ /^(\w+)/;

	may_not($nobody, "SELECT $call", "function $function");
}

# Trigger functions are not for other tables, where they would run as their owner.
foreach my $function (split /\n/, $server->safe_psql('postgres', q{
		SELECT proname FROM pg_proc JOIN pg_depend ON classid = 'pg_proc'::regclass AND objid = pg_proc.oid
		WHERE deptype = 'e' AND prorettype = 'trigger'::regtype ORDER BY proname COLLATE "C"}))
{
	may_not($nobody,
		"CREATE TEMPORARY TABLE IF NOT EXISTS mine (); CREATE TRIGGER t BEFORE TRUNCATE ON mine EXECUTE FUNCTION $function()",
		"function $function");
}

# Whatever a role is told about errors of others, it is not told what info says.
is($nobody->query(q{SELECT count(*) FROM pg_stats WHERE tablename = 'chash_nodes' AND attname = 'info'}), '0', 'statistics of info are not to be seen');

# ---------------------------------------------------------------------------
# Default privileges
# ---------------------------------------------------------------------------

# All rights on what belongs to chash, but for what everybody may do anyway.
my $rights = q{
	WITH o (class, object, part, acl) AS (
		SELECT tableoid, oid, 0, coalesce(relacl, acldefault('r', relowner)) FROM pg_class
		UNION ALL SELECT 'pg_class'::regclass, attrelid, attnum, attacl FROM pg_attribute
		UNION ALL SELECT tableoid, oid, 0, coalesce(proacl, acldefault('f', proowner)) FROM pg_proc
	), rights AS (
		SELECT pg_describe_object(class, object, part) AS what, a.grantee, a.privilege_type, a.is_grantable
		FROM o JOIN pg_depend AS d ON d.classid = class AND d.objid = object, aclexplode(acl) AS a
		WHERE d.refclassid = 'pg_extension'::regclass AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'chash')
	)
	SELECT what, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END AS who, privilege_type, is_grantable
	FROM rights AS r
	WHERE grantee = 0 OR NOT EXISTS (
		SELECT FROM rights AS p WHERE p.grantee = 0 AND p.what = r.what AND p.privilege_type = r.privilege_type)
	ORDER BY 1, 2, 3};
$server->safe_psql('postgres', q{
	CREATE ROLE "some ""role";
	CREATE DATABASE ordinary TEMPLATE template0;
	CREATE DATABASE generous TEMPLATE template0;
});
$server->safe_psql('ordinary', 'CREATE EXTENSION chash');
$server->safe_psql('generous', q{
	ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC, nobody, "some ""role", pg_database_owner;
	ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO nobody, "some ""role", pg_database_owner;
	ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON TABLES TO adder WITH GRANT OPTION;
	ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON FUNCTIONS TO adder, pg_database_owner WITH GRANT OPTION;
	CREATE TABLE mine ();
	CREATE EXTENSION chash;
});
is($server->safe_psql('generous', q{SELECT has_table_privilege('adder', 'mine', 'TRIGGER'), has_table_privilege('nobody', 'mine', 'DELETE')}), 't|t',
	'what is created is open to others by default');
is($server->safe_psql('generous', $rights), $server->safe_psql('ordinary', $rights), 'but what chash creates is not');
is( $server->safe_psql('generous', q{
		SELECT has_table_privilege('pg_database_owner', 'chash_nodes', 'TRIGGER'), has_table_privilege('nobody', 'chash_nodes', 'SELECT'),
			has_column_privilege('adder', 'chash_nodes', 'info', 'SELECT'), has_column_privilege('adder', 'chash_nodes', 'node', 'SELECT'),
			has_function_privilege('some "role', 'chash_drop_ring(text)', 'EXECUTE'), has_function_privilege('some "role', 'chash_fingerprint(text)', 'EXECUTE')}),
	'f|f|f|t|f|t', 'neither TRIGGER, info nor changing rings');

# ---------------------------------------------------------------------------
# Single rights
# ---------------------------------------------------------------------------

my $adder = session_of('adder');

may($adder, q{SELECT chash_add_node('c', info => '{"dsn": "mine"}')}, '4');
may($adder, q{SELECT chash_node('apple')}, 'c');
may($adder, q{SELECT chash_add_node('r', 'parts')}, '3');
may_not($adder, q{SELECT chash_remove_node('c')}, 'function chash_remove_node');
may_not($adder, q{INSERT INTO chash_nodes (node) VALUES ('d')}, 'table chash_nodes');
may_not($adder, q{SELECT info FROM chash_nodes}, 'table chash_nodes');

# The right to write one table is enough to change nodes by it: what follows in the
# others is chash's own doing.
my $writer = session_of('writer');

may($writer, q{INSERT INTO chash_nodes (node, zone) VALUES ('d', 'z') RETURNING epoch}, '5');
may($writer, q{UPDATE chash_nodes SET weight = 3 WHERE ring = 'default' AND node = 'd' RETURNING epoch}, '6');
may($writer, q{DELETE FROM chash_nodes WHERE node = 'q' RETURNING ring}, 'parts');
may($writer, q{SELECT ring, epoch, fingerprint = chash_fingerprint(ring) FROM chash_rings ORDER BY ring}, "default|6|t\nparts|4|t");
may_not($writer, q{UPDATE chash_rings SET epoch = epoch + 1}, 'table chash_rings');
may_not($writer, q{SELECT chash_add_node('e')}, 'function chash_add_node');

# ---------------------------------------------------------------------------
# Things planted in the search_path and in the temporary schema
# ---------------------------------------------------------------------------

$server->safe_psql('postgres', q{
	CREATE SCHEMA evil;
	GRANT ALL ON SCHEMA evil TO adder, writer, nobody;
	CREATE TABLE caught (who text);
	GRANT INSERT, SELECT ON caught TO PUBLIC;
});

$server->safe_psql('postgres', q{
	SET ROLE adder;
	CREATE FUNCTION evil.catch(what text) RETURNS text LANGUAGE plpgsql AS $$
		BEGIN INSERT INTO public.caught VALUES (current_user || ': ' || what); RETURN what; END $$;
	CREATE FUNCTION evil.equal(text, text) RETURNS boolean LANGUAGE plpgsql AS $$
		BEGIN PERFORM evil.catch('text = text'); RETURN false; END $$;
	CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.equal);
	CREATE FUNCTION evil.equal(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS $$
		BEGIN PERFORM evil.catch('bigint = bigint'); RETURN false; END $$;
	CREATE OPERATOR evil.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.equal);
	CREATE OPERATOR evil.<= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.equal);
	CREATE OPERATOR evil.> (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.equal);
	CREATE FUNCTION evil.plus(bigint, integer) RETURNS bigint LANGUAGE plpgsql AS $$
		BEGIN PERFORM evil.catch('bigint + integer'); RETURN 1000; END $$;
	CREATE OPERATOR evil.+ (LEFTARG = bigint, RIGHTARG = integer, FUNCTION = evil.plus);
	CREATE FUNCTION evil.bool_or(boolean) RETURNS boolean LANGUAGE sql AS 'SELECT evil.catch(''bool_or'') IS NULL';
	CREATE FUNCTION evil.chash_hash(key text, hash text DEFAULT 'xxh3') RETURNS bigint LANGUAGE sql AS 'SELECT length(evil.catch(''chash_hash''))::bigint';
	CREATE FUNCTION evil.chash_fingerprint(ring text DEFAULT 'default') RETURNS text LANGUAGE sql AS 'SELECT evil.catch(''chash_fingerprint'')';
	CREATE FUNCTION evil.chash_nodes_before_row() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN PERFORM evil.catch('trigger'); RETURN NULL; END $$;
	CREATE DOMAIN evil.text AS pg_catalog.text CHECK (evil.catch(VALUE) = '');
	CREATE DOMAIN evil.jsonb AS pg_catalog.jsonb CHECK (evil.catch(VALUE::pg_catalog.text) = '');
	RESET ROLE;
	CREATE TABLE evil.chash_rings (LIKE public.chash_rings);
	CREATE TABLE evil.chash_nodes (LIKE public.chash_nodes);
	CREATE TABLE evil.chash_node_history (LIKE public.chash_node_history);
	CREATE TABLE evil.new_rows (LIKE public.chash_nodes);
	CREATE TABLE evil.old_rows (LIKE public.chash_nodes);
	INSERT INTO evil.chash_rings SELECT 'default', 'vnodes', 'xxh3', 1, NULL, false, 1, 77, 'evil', 1, gen_random_uuid(), NULL, false;
	INSERT INTO evil.chash_nodes VALUES ('default', 'evil', 1, NULL, 'up', NULL, NULL, NULL, 77);
	GRANT ALL ON ALL TABLES IN SCHEMA evil TO PUBLIC;
});

my $before = $server->safe_psql('postgres', q{SELECT string_agg(chash_node('key ' || i), ' ' ORDER BY i) FROM generate_series(1, 100) AS i});
my $routes = q{SELECT string_agg(public.chash_node('key ' OPERATOR(pg_catalog.||) i), ' ' ORDER BY i) FROM pg_catalog.generate_series(1, 100) AS i};

foreach my $way (
	[ 'a schema before pg_catalog', 'SET search_path = evil, pg_catalog, public' ],
	[ 'the temporary schema', q{
		CREATE TEMPORARY TABLE chash_rings AS TABLE evil.chash_rings;
		CREATE TEMPORARY TABLE chash_nodes AS TABLE evil.chash_nodes;
		CREATE TEMPORARY TABLE chash_node_history AS TABLE evil.chash_node_history;
		CREATE TEMPORARY TABLE new_rows AS TABLE evil.chash_nodes;
		CREATE TEMPORARY TABLE old_rows AS TABLE evil.chash_nodes;
		SET search_path = pg_temp, evil, pg_catalog, public} ],
	[ 'nothing', q{SET search_path = ''} ])
{
	my ($what, $setup) = @$way;
	my $epoch = $server->safe_psql('postgres', q{SELECT epoch FROM chash_rings WHERE ring = 'default'});
	my $fooled = session_of('adder');
	my $direct = session_of('writer');

	$fooled->query_safe($setup);
	$direct->query_safe($setup);
	is($fooled->query(q{SELECT 'a'::pg_catalog.text = 'a'::pg_catalog.text}), $what eq 'nothing' ? 't' : 'f', "search_path is $what: whether the trap is set");
	is($fooled->query($routes), $before, "search_path is $what: routes are as before");
	is($fooled->query(q{SELECT public.chash_fingerprint() OPERATOR(pg_catalog.=) fingerprint FROM public.chash_rings WHERE ring OPERATOR(pg_catalog.=) 'default'}),
		't', "search_path is $what: the fingerprint is right");
	is($fooled->query(q{SELECT public.chash_add_node('x')}), $epoch + 1, "search_path is $what: a node is added");
	isnt($fooled->query($routes), $before, "search_path is $what: which is seen");
	is($fooled->query(q{SELECT public.chash_add_node('x', 'parts')}) > 0, 1, "search_path is $what: with partitions too");
	is($direct->query(q{UPDATE public.chash_nodes SET weight = 2 WHERE node OPERATOR(pg_catalog.=) 'x' AND ring OPERATOR(pg_catalog.=) 'default' RETURNING epoch}),
		$epoch + 2, "search_path is $what: a direct UPDATE");
	is($direct->query(q{INSERT INTO public.chash_nodes (ring, node) VALUES ('default', 'y') RETURNING epoch}), $epoch + 3, "search_path is $what: a direct INSERT");
	is($direct->query(q{DELETE FROM public.chash_nodes WHERE node OPERATOR(pg_catalog.=) ANY (ARRAY['x', 'y'])}), '', "search_path is $what: a direct DELETE");
	is($direct->query($routes), $before, "search_path is $what: routes are as before again");
	is($server->safe_psql('postgres', q{SELECT string_agg(DISTINCT who, ', ') FROM caught WHERE who LIKE 'postgres:%'}), '', "search_path is $what: nothing was run as the owner");
	is($server->safe_psql('postgres', q{SELECT epoch, fingerprint = chash_fingerprint() FROM chash_rings WHERE ring = 'default'}),
		$epoch + 4 . '|t', "search_path is $what: each change made an epoch");
	$_->quit foreach $fooled, $direct;
}
is($server->safe_psql('postgres', q{SELECT count(*), min(node) FROM evil.chash_nodes}), '1|evil', 'the planted tables are as they were');
is($server->safe_psql('postgres', q{SELECT count(*) > 0 FROM caught WHERE who LIKE 'adder:%'}), 't', 'the trap has caught the one who set it');

$_->quit foreach $nobody, $adder, $writer;
$server->stop;
done_testing();
