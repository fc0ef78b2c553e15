# A dump that is restored elsewhere routes every key as before, at the same epochs
# and fingerprints and with the same history, however it was made; a session that
# has seen it half restored remembers nothing of that; and the next change makes the
# next epoch.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $server = new_server('server');
make_rings($server);
my $original = portrait($server);
my $directory = PostgreSQL::Test::Utils::tempdir;

# What a database is given before anything is restored: a function by which a
# session can look at every ring at any time, without giving up at an error, and
# which says where lookups and tables differ.
my $watch = <<'SQL';
CREATE SCHEMA watch;
CREATE FUNCTION watch.rings() RETURNS text LANGUAGE plpgsql SET search_path = public, pg_catalog AS $$
DECLARE
	r record;
	seen text := '';
	by_points text;
	by_tables text;
BEGIN
	IF to_regclass('chash_rings') IS NULL THEN
		RETURN 'nothing';
	END IF;
	FOR r IN SELECT ring, epoch FROM chash_rings ORDER BY ring LOOP
		BEGIN
			SELECT string_agg(DISTINCT node, ' ' ORDER BY node), (SELECT string_agg(node, ' ' ORDER BY node) FROM chash_nodes AS n WHERE n.ring = r.ring AND weight > 0)
			INTO by_points, by_tables FROM chash_points(r.ring);
			IF by_points IS DISTINCT FROM by_tables THEN
				seen := seen || format(' WRONG: %s has points of (%s), and nodes (%s)', r.ring, by_points, by_tables);
			END IF;
			seen := seen || format(' %s:%s', r.ring, (SELECT count(*) FROM chash_nodes AS n WHERE n.ring = r.ring));
			PERFORM chash_node('key 1', r.ring), chash_node_as_of('key 1', r.epoch, r.ring);
		EXCEPTION WHEN object_not_in_prerequisite_state OR data_corrupted OR invalid_parameter_value THEN
			seen := seen || '!';
		END;
	END LOOP;
	RETURN seen;
END
$$;
SQL

# A new database with that, and a session that watches.
sub new_target
{
	my ($name, $with_extension) = @_;
	my $session;

	$server->safe_psql('postgres', "CREATE DATABASE $name TEMPLATE template0");
	$server->safe_psql($name, $watch);
	$server->safe_psql($name, 'CREATE EXTENSION chash') if $with_extension;
	$session = open_session($server, $name);

	# It will look at rings that are half restored, and is warned of these.
	$session->query_safe('SET client_min_messages = error');
	$session->query_safe('SELECT watch.rings()');
	return $session;
}

# What must be true of a database that has been restored.
sub is_restored
{
	my ($watcher, $database, $name) = @_;
	my $changed;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	unlike($watcher->query_safe('SELECT watch.rings()'), qr/WRONG|!.*!/, "$name: the session that watched sees every ring but the empty one");
	is_portrait(portrait_of($watcher), $original, "$name: everything is as in the original, to that session");
	is_portrait(portrait($server, $database), $original, "$name: and to a new one");

	# A further change, by function and directly, makes the next epoch.
	$changed = $watcher->query_safe(q{
		SELECT ring, epoch + 1 = CASE placement
			WHEN 'tokens' THEN chash_add_node('new', ring, tokens => '{42}')
			ELSE chash_add_node('new', ring) END
		FROM chash_rings ORDER BY ring});
	is($changed, "cities|t\nempty|t\nparts|t\npruned|t\ntokens|t", "$name: a further change makes the next epoch of each ring");
	$watcher->query_safe(q{CREATE TABLE before AS SELECT ring, epoch, fingerprint FROM chash_rings});
	$watcher->query_safe(q{UPDATE chash_nodes SET weight = 2.5 WHERE node = 'new'});
	is( $watcher->query_safe(q{
			SELECT count(*) FROM chash_rings AS r JOIN before AS b USING (ring)
			WHERE r.epoch = b.epoch + 1 AND r.fingerprint <> b.fingerprint AND r.fingerprint = chash_fingerprint(r.ring)}),
		'5', "$name: so does a direct one");
	is($watcher->query_safe(q{SELECT count(*) FROM chash_rings, chash_epoch_diff(ring) WHERE 'new' NOT IN (from_node, to_node)}),
		'0', "$name: which moves nothing but to the node it is about");
	is($watcher->query_safe(q{SELECT chash_node('key 1', ring) = chash_node_as_of('key 1', epoch, ring) FROM chash_rings WHERE ring = 'parts'}),
		't', "$name: and lookups follow");
	$watcher->quit;
	return;
}

# Restores a dump in plain SQL piece by piece, a table's data or a statement at a
# time, while another session watches, or the same one, in one transaction.
sub restore_in_pieces
{
	my ($file, $watcher, $database) = @_;
	my $restorer = $server->background_psql($database);
	my @pieces = ('');
	my %seen;

	$restorer->query_safe('BEGIN') unless defined $watcher;

	# psql refuses its own commands between \restrict and \unrestrict.
	foreach my $line (grep { !/^\\(un)?restrict/ } split /^/, slurp_file($file))
	{
		push @pieces, '' if $line =~ /^(COPY|INSERT|ALTER TABLE) /;
		$pieces[-1] .= $line;
	}
	foreach my $piece (@pieces)
	{
		$restorer->query_until(qr/^restored$/m, "$piece\n\\echo restored\n");
		is($restorer->{stderr}, '', "$database: restoring") if $restorer->{stderr} ne '';
		$seen{ ($watcher // $restorer)->query_safe('SELECT watch.rings()') } = 1;
	}
	$restorer->query_safe('COMMIT') unless defined $watcher;
	$restorer->quit;
	note "while it was restored: $_" foreach sort keys %seen;
	ok((grep { !/parts:/ } keys %seen) > 0, "$database: somebody has looked before all rings were there");
	is((grep { /WRONG/ } keys %seen), 0, "$database: and always as they were");
	return;
}

# pg_dump --disable-triggers leaves the triggers enabled, but not ALWAYS.
sub enable_triggers
{
	my ($watcher) = @_;
	my $others = q{
		FROM pg_trigger
		WHERE tgrelid IN ('chash_rings'::regclass, 'chash_nodes'::regclass, 'chash_node_history'::regclass)
			AND NOT tgisinternal AND tgenabled <> 'A'};

	unlike($watcher->query_safe('SELECT watch.rings()'), qr/WRONG/, 'disable_triggers: all is as it should be in the end');
	isnt($watcher->query_safe("SELECT count(*) $others"), '0', 'disable_triggers: triggers are not ENABLE ALWAYS any more');
	$server->psql('disable_triggers', q{SELECT chash_node('key', 'parts')}, stderr => \my $warning);
	like($warning, qr/WARNING: .*triggers of chash's tables do not all fire always/, 'disable_triggers: a lookup warns of that');
	$watcher->query_safe("SELECT format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', tgrelid::regclass, tgname) $others \\gexec");
	is($watcher->query_safe("SELECT count(*) $others"), '0', 'disable_triggers: until that is put right');
	return;
}

# name, options of pg_dump, whether the extension is there before
foreach my $way (
	[ 'plain', [], 0 ],
	[ 'inserts', ['--inserts'], 0 ],
	[ 'rows_per_insert', [ '--rows-per-insert=3', '--on-conflict-do-nothing' ], 0 ],
	[ 'data_only', ['--data-only'], 1 ],
	[ 'data_only_inserts', [ '--data-only', '--column-inserts' ], 1 ],
	[ 'disable_triggers', [ '--data-only', '--disable-triggers' ], 1 ])
{
	my ($name, $options, $with_extension) = @$way;
	my $file = "$directory/$name.sql";
	my $watcher = new_target($name, $with_extension);

	run_program($server, 'pg_dump', @$options, '--file', $file, 'postgres');
	$watcher->query_safe('SET client_min_messages = error') if $name eq 'disable_triggers';
	restore_in_pieces($file, $watcher, $name);
	enable_triggers($watcher) if $name eq 'disable_triggers';
	is_restored($watcher, $name, $name);
}

# All in one transaction, which looks at what it has restored so far.
foreach my $way ('plain', 'inserts')
{
	my $watcher = new_target("single_$way", 0);

	restore_in_pieces("$directory/$way.sql", undef, "single_$way");
	is_restored($watcher, "single_$way", "single transaction, $way");
}

# Two jobs side by side, with a look as often as possible.
my $watcher = new_target('jobs', 0);
run_program($server, 'pg_dump', '--format=custom', '--file', "$directory/custom", 'postgres');
my ($out, $err) = ('', '');
my $restore = IPC::Run::start(
	[ 'pg_restore', '--host', $server->host, '--port', $server->port, '--jobs=2', '--exit-on-error', '--dbname=jobs', "$directory/custom" ],
	'<', \undef, '>', \$out, '2>', \$err);
my $wrong = '';
while ($restore->pumpable)
{
	my $seen = $watcher->query_safe('SELECT watch.rings()');

	$wrong = $seen if $seen =~ /WRONG/;
	$restore->pump_nb;
}
is($wrong, '', 'jobs: the rings have been seen as they were all the time');
if (ok($restore->finish, 'pg_restore with two jobs'))
{
	is_restored($watcher, 'jobs', 'two jobs');
}
else
{
	diag($err);
	$watcher->quit;
}

# The databases need not have one encoding: keys and names are hashed as UTF-8.
$server->safe_psql('postgres', q{CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0});
$server->safe_psql('latin', q{
	SET client_encoding = 'UTF8';
	CREATE EXTENSION chash;
	SELECT chash_create_ring();
	SELECT chash_apply('{"Zürich": {"zone": "Süd"}, "Malmö": {}, "Évora": {}}');
	CREATE TABLE keys AS SELECT 'clé ' || i AS key FROM generate_series(1, 100) AS i;
	CREATE TABLE routes AS SELECT key, chash_node(key) AS node, chash_position(key) AS position FROM keys;
	CREATE TABLE fingerprint AS SELECT chash_fingerprint() AS fingerprint;
});
$server->safe_psql('postgres', q{CREATE DATABASE utf ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0});
run_program($server, 'pg_dump', '--file', "$directory/latin.sql", 'latin');
run_program($server, 'psql', '--no-psqlrc', '--quiet', '--set', 'ON_ERROR_STOP=1', '--file', "$directory/latin.sql", 'utf');
is( $server->safe_psql('utf', q{
		SELECT count(*), count(DISTINCT node), bool_and(octet_length(key) > length(key)),
			bool_and(node = chash_node(key) AND position = chash_position(key)),
			bool_and(fingerprint = chash_fingerprint())
		FROM routes, fingerprint}),
	'100|3|t|t|t', 'a database in LATIN1, restored in one in UTF8');

# Into a new cluster: an application's table of many keys with an index on their
# positions, a view and a materialized view that look up, and a ring named default that
# is not as it is made by default.
$server->safe_psql('postgres', 'CREATE DATABASE application TEMPLATE template0');
$server->safe_psql('application', q{
	CREATE EXTENSION chash;
	SELECT chash_create_ring(vnodes => 40, hash_tags => true, replicas => 3);
	SELECT chash_apply('{"a": {"weight": 2, "zone": "x"}, "b": {"zone": "y"}, "c": {"info": {"dsn": "host=c"}}, "d": {}}');
	SELECT chash_remove_node('d');
	SELECT chash_mark_down('c');
	CREATE TABLE customers AS
		SELECT 'customer ' || i AS key, chash_node('customer ' || i) AS node, chash_replicas('customer ' || i, 2) AS replicas,
			chash_node_as_of('customer ' || i, 2) AS former_node
		FROM generate_series(1, 100000) AS i;
	CREATE INDEX customers_by_position ON customers (chash_hash(key));
	CREATE VIEW routes AS SELECT key, chash_node(key) AS node FROM customers;
	CREATE MATERIALIZED VIEW nodes AS SELECT chash_node(key) AS node, count(*) FROM customers GROUP BY 1;
});
my $identity = q{SELECT r, chash_export() FROM (SELECT ring, placement, vnodes, hash_tags, replicas, epoch, history_from, fingerprint, chash_fingerprint() FROM chash_rings) AS r};
my $exported = $server->safe_psql('application', $identity);
my $other = new_server('other');
$other->safe_psql('postgres', "CREATE DATABASE $_ TEMPLATE template0") foreach 'plain', 'custom';
run_program($server, 'pg_dump', '--file', "$directory/application.sql", 'application');
run_program($server, 'pg_dump', '--format=custom', '--file', "$directory/application.custom", 'application');
run_program($other, 'psql', '--no-psqlrc', '--quiet', '--single-transaction', '--set', 'ON_ERROR_STOP=1', '--file', "$directory/application.sql", 'plain');
run_program($other, 'pg_restore', '--exit-on-error', '--dbname=custom', "$directory/application.custom");
foreach my $database ('plain', 'custom')
{
	my $join = q{
		SELECT count(*) AS keys FROM chash_rebalance_plan(changes => '{"e": {}}', replicas => 1) AS p
			JOIN customers AS k ON chash_hash(k.key) BETWEEN p.lo AND p.hi};
	my $moving;

	is( $other->safe_psql($database, q{
			SELECT count(*), count(DISTINCT node), bool_and(node = chash_node(key) AND replicas = chash_replicas(key, 2)
				AND former_node = chash_node_as_of(key, 2)) FROM customers}),
		'100000|2|t', "new cluster, $database: 100,000 keys are routed as before");
	is($other->safe_psql($database, $identity), $exported, "new cluster, $database: the customised default ring, its epoch and fingerprint");
	is( $other->safe_psql($database, q{
			SELECT count(*), bool_and(r.node = c.node) FROM routes AS r JOIN customers AS c USING (key)
			UNION ALL SELECT sum(count), bool_and(node IN ('a', 'b')) FROM nodes}),
		"100000|t\n100000|t", "new cluster, $database: so say the views");

	# The index is good for what it is there for.
	$other->safe_psql($database, 'ANALYZE customers');
	like($other->safe_psql($database, "EXPLAIN (COSTS OFF) $join"), qr/customers_by_position/, "new cluster, $database: a plan is joined by the index");
	$moving = $other->safe_psql($database, $join);
	cmp_ok($moving, '>', 10000, "new cluster, $database: a plan finds the keys that move");
	$other->safe_psql($database, q{SELECT chash_add_node('e')});
	is( $other->safe_psql($database, q{
			SELECT count(*) FROM customers WHERE chash_node_as_of(key, 5) <> chash_node_as_of(key, 4)}),
		$moving, "new cluster, $database: which are those that have moved then");
}

$other->stop;
$server->stop;
done_testing();
