# What the tests of this directory have in common: servers with chash, rings of
# every kind, and ways to say all that can be seen of the rings of a database.
package ChashTest;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(
  new_server run_program open_session error_of
  make_rings portrait portrait_of is_portrait
  make_proof proof_holds
  postgres_major needs_shared_cache start_with_shared_cache
  blocks_of are_blocks is_committed version_of sees wait_until
);

# Starts a server with chash in database postgres.  Options are those of
# PostgreSQL::Test::Cluster's init, and: conf, further lines of configuration;
# preload, whether chash is preloaded, which CHASH_TEST_PRELOAD in the environment
# says otherwise (yes, if it says nothing).
sub new_server
{
	my ($name, %options) = @_;
	my $conf = delete $options{conf} // '';
	my $preload = delete $options{preload} // $ENV{CHASH_TEST_PRELOAD} // 1;
	my $server = PostgreSQL::Test::Cluster->new($name);

	$conf .= "\nshared_preload_libraries = 'chash'\n" if $preload;

	$server->init(extra => [ '--encoding=UTF8', '--locale=C' ], %options);
	$server->append_conf('postgresql.conf', "jit = off\n$conf");
	$server->start;
	$server->safe_psql('postgres', 'CREATE EXTENSION chash');
	return $server;
}

# Runs one of PostgreSQL's programs on a server; dies if it fails.  Returns what
# it has printed.
sub run_program
{
	my ($server, $program, @arguments) = @_;
	my ($out, $err);

	IPC::Run::run(
		[
			$program, '--host', $server->host, '--port', $server->port,
			'--no-password', @arguments
		],
		'<', \undef, '>', \$out, '2>', \$err)
	  or die "$program @arguments: $err";
	return $out;
}

# Opens a session that goes on after an error.
sub open_session
{
	my ($server, $database, @parameters) = @_;

	return $server->background_psql($database // 'postgres',
		on_error_stop => 0, extra_params => [@parameters]);
}

# Runs a statement that is expected to fail, in a session.  Returns SQLSTATE and
# message, or nothing at all if the statement succeeds.
sub error_of
{
	my ($session, $statement) = @_;
	my $out = $session->query(
		"$statement\n;\n\\if :ERROR\n\\echo failed: :SQLSTATE :LAST_ERROR_MESSAGE\n\\endif");

	$session->{stderr} = '';
	return $out =~ /^failed: (.*)/m ? $1 : '';
}

# ---------------------------------------------------------------------------
# Rings
# ---------------------------------------------------------------------------

# A ring of each placement, with a history.
my $rings = <<'SQL';
-- vnodes, and everything that a node can have
SELECT chash_create_ring('cities', vnodes => 32, hash_tags => true, replicas => 2);
SELECT chash_apply($${
	"Zürich": {"weight": 2, "zone": "europe", "info": {"dsn": "host=10.0.0.1 password='it''s \\ \"quoted\"'", "racks": [1, null]}},
	"東京": {"zone": "asia"},
	"a\\b\"c'd{e},f;--": {"weight": 0.5, "zone": "Ελλάδα"},
	"NULL": {"zone": "null"},
	"spare": {"weight": 0}
}$$, 'cities');
SELECT chash_mark_down('東京', 'cities');
SELECT chash_set_node('Zürich', 'cities', weight => 3.125);
SELECT chash_remove_node('NULL', 'cities');
SELECT chash_set_node('spare', 'cities', info => 'null');

-- partitions, whose owners depend on history
SELECT chash_create_ring('parts', 'partitions', partitions => 256);
SELECT chash_apply('{"p1": {}, "p2": {}, "p3": {"weight": 2}}', 'parts');
SELECT chash_add_node('p4', 'parts', zone => 'z');
SELECT chash_remove_node('p1', 'parts');
SELECT chash_set_node('p2', 'parts', weight => 1.5);
UPDATE chash_nodes SET info = '{"kind": "partitions"}' WHERE ring = 'parts';
SELECT chash_add_node('p1', 'parts');

-- tokens, both ends of the circle among them
SELECT chash_create_ring('tokens', 'tokens');
SELECT chash_apply('{
	"t1": {"tokens": [-9223372036854775808, 0, 9223372036854775807]},
	"t2": {"tokens": [-4611686018427387904, 77]},
	"t3": {"tokens": [4611686018427387904], "zone": "z"}
}', 'tokens');
SELECT chash_set_node('t2', 'tokens', tokens => '{5, -5, 4611686018427387900}');
SELECT chash_mark_down('t3', 'tokens');
SELECT chash_remove_node('t1', 'tokens');

-- one whose oldest history has been pruned away, and one without nodes
SELECT chash_copy_ring('parts', 'pruned');
SELECT chash_remove_node('p4', 'pruned');
SELECT chash_add_node('p5', 'pruned');
SELECT chash_add_node('p6', 'pruned');
SELECT chash_prune_history('pruned', 1);
SELECT chash_create_ring('empty');
SQL

sub make_rings
{
	my ($server, $database) = @_;

	$server->safe_psql($database // 'postgres', $rings);
	return;
}

# All that can be seen of the rings of a database, as lines: the rows themselves,
# fingerprints, the routes of 1,000 keys, those of fewer keys in every epoch, and
# what moved from each epoch to the next.  Only the stamps are left out, which are
# never the same.
my $portrait = <<'SQL';
WITH rings AS MATERIALIZED (
	SELECT *, EXISTS (SELECT FROM chash_nodes AS n WHERE n.ring = r.ring AND weight > 0 AND state = 'up') AS routable
	FROM chash_rings AS r
)
SELECT format('ring %s: %s %s %s %s %s %s, epochs %s to %s, %s %s, %s points',
	ring, placement, hash, vnodes, partitions, hash_tags, replicas, history_from, epoch, fingerprint,
	CASE WHEN chash_fingerprint(ring) = fingerprint THEN 'as computed' ELSE 'WRONG' END,
	(SELECT count(*) FROM chash_points(ring)))
	FROM rings
UNION ALL
SELECT format('node %s/%s: %s %L %s %s %s %L, since epoch %s', ring, node, weight, zone, state, tokens, held_partitions, info, epoch)
	FROM chash_nodes
UNION ALL
SELECT format('history %s/%s: epochs %s to %s, %s %L %s %s', ring, node, from_epoch, to_epoch - 1, weight, zone, tokens, held_partitions)
	FROM chash_node_history
UNION ALL
SELECT format('route %s/%s: %s, then %s', ring, key, chash_node(key, ring), chash_replicas(key, 3, ring))
	FROM rings, LATERAL (SELECT 'key ' || i AS key FROM generate_series(1, 1000) AS i) AS keys WHERE routable
UNION ALL
SELECT format('route in epoch %s %s/%s: %s', as_of, ring, key, chash_node_as_of(key, as_of, ring))
	FROM rings AS r, generate_series(history_from, epoch) AS as_of, (SELECT 'key ' || i AS key FROM generate_series(1, 50) AS i) AS keys
	WHERE EXISTS (SELECT FROM chash_nodes AS n WHERE n.ring = r.ring AND n.epoch <= as_of AND weight > 0)
		OR EXISTS (SELECT FROM chash_node_history AS h WHERE h.ring = r.ring AND from_epoch <= as_of AND to_epoch > as_of AND weight > 0)
UNION ALL
SELECT format('moved in epoch %s %s: %s to %s, %s to %s', as_of, ring, lo, hi, from_node, to_node)
	FROM rings, generate_series(history_from + 1, epoch) AS as_of, LATERAL chash_epoch_diff(ring, as_of - 1, as_of)
ORDER BY 1
SQL

sub portrait
{
	my ($server, $database) = @_;

	return [ split /\n/, $server->safe_psql($database // 'postgres', $portrait) ];
}

# The same, as an open session sees it.
sub portrait_of
{
	my ($session) = @_;

	return [ split /\n/, $session->query_safe($portrait) ];
}

# Compares two portraits, which must not be empty.
sub is_portrait
{
	my ($got, $expected, $name) = @_;
	my $routes = grep { /^route / } @$expected;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	die "no routes to compare" unless $routes > 0;
	return is_deeply($got, $expected, $name);
}

# ---------------------------------------------------------------------------
# Lookups against the tables
# ---------------------------------------------------------------------------

# View proof.lookups has for each ring and each of a few keys what chash_node says,
# what the ring's points say, and what follows from the rows of chash_nodes by the
# published rules; proof.wrong raises an error where they differ, and has no rows.
my $proof = <<'SQL';
CREATE SCHEMA proof;
CREATE TABLE proof.keys AS SELECT 'key ' || i AS key FROM generate_series(1, 6) AS i;

CREATE VIEW proof.lookups AS
SELECT r.ring, k.key, r.epoch, chash_node(k.key, r.ring) AS looked_up,
	(SELECT p.node
		FROM chash_points(r.ring) AS p
		JOIN chash_nodes AS n ON n.ring = r.ring AND n.node = p.node AND n.state = 'up'
		ORDER BY p.position >= chash_hash(k.key) DESC, p.position, p.node COLLATE "C" LIMIT 1) AS by_points,
	CASE r.placement
	WHEN 'vnodes' THEN
		(SELECT n.node
			FROM chash_nodes AS n, generate_series(0, greatest(1, round(r.vnodes * n.weight))::int - 1) AS i,
				LATERAL (SELECT chash_hash(n.node || '#' || i) AS position) AS p
			WHERE n.ring = r.ring AND n.weight > 0 AND n.state = 'up'
			ORDER BY p.position >= chash_hash(k.key) DESC, p.position, n.node COLLATE "C" LIMIT 1)
	WHEN 'tokens' THEN
		(SELECT n.node
			FROM chash_nodes AS n, unnest(n.tokens) AS position
			WHERE n.ring = r.ring AND n.weight > 0 AND n.state = 'up'
			ORDER BY position >= chash_hash(k.key) DESC, position, n.node COLLATE "C" LIMIT 1)
	WHEN 'partitions' THEN
		(SELECT n.node
			FROM chash_nodes AS n, unnest(n.held_partitions) AS i
			WHERE n.ring = r.ring AND n.state = 'up'
			ORDER BY i >= floor((chash_hash(k.key)::numeric + 2::numeric ^ 63) / (2::numeric ^ 64 / r.partitions)) DESC, i LIMIT 1)
	END AS by_nodes
FROM chash_rings AS r CROSS JOIN proof.keys AS k
WHERE EXISTS (SELECT FROM chash_nodes AS n WHERE n.ring = r.ring AND n.weight > 0 AND n.state = 'up')
OFFSET 0;

CREATE FUNCTION proof.complain(what text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'wrong lookup: %', what USING ERRCODE = 'PROOF';
END
$$;

CREATE VIEW proof.wrong AS
SELECT proof.complain(l::text) FROM proof.lookups AS l
WHERE looked_up IS NULL OR looked_up IS DISTINCT FROM by_points OR looked_up IS DISTINCT FROM by_nodes;
SQL

sub make_proof
{
	my ($server, $database) = @_;

	$server->safe_psql($database // 'postgres', $proof);
	return;
}

# Passes if there are lookups, and what they say is what the tables say.
sub proof_holds
{
	my ($session, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is(
		$session->query(
			'SELECT (SELECT count(*) FROM proof.lookups) > 0, (SELECT count(*) FROM proof.wrong)'),
		't|0',
		$name);
}

# ---------------------------------------------------------------------------
# The shared cache
# ---------------------------------------------------------------------------

sub postgres_major
{
	my ($major) = `postgres --version` =~ /(\d+)/;

	return $major;
}

# Before PostgreSQL 17 there is no shared cache without preloading: ends the test
# there if that is what is to be tested.  Returns options for new_server.
sub needs_shared_cache
{
	return () if postgres_major() >= 17;
	plan skip_all => 'there is no shared cache without preloading'
	  unless $ENV{CHASH_TEST_PRELOAD} // 1;
	return (preload => 1);
}

# The server of the functions below, and a session that watches its cache.
my ($server, $monitor);

my $versions = <<'SQL';
-- A ring with a single node: wherever a key is looked up, the answer is the name
-- of the version.
CREATE FUNCTION become(version text, name text) RETURNS bigint LANGUAGE sql SET search_path = public AS $$
	SELECT chash_apply(
		(SELECT coalesce(jsonb_object_agg(node, null) FILTER (WHERE node <> version), '{}') FROM chash_nodes WHERE ring = name)
			|| jsonb_build_object(version, '{}'::jsonb), name)
$$;
CREATE FUNCTION make(version text, name text) RETURNS bigint LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
	PERFORM chash_create_ring(name, vnodes => 8);
	RETURN chash_add_node(version, name);
END
$$;
CREATE TABLE keys AS SELECT 'key ' || i AS key FROM generate_series(1, 5000) AS i;
ALTER TABLE keys SET (parallel_workers = 2);
ANALYZE keys;

-- Each map that was ever committed.  What is rolled back is rolled back here too.
CREATE TABLE committed (
	xid xid8 DEFAULT pg_current_xact_id(), ring text, epoch bigint, fingerprint text, PRIMARY KEY (xid, ring)
);
CREATE FUNCTION note_commit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
	INSERT INTO committed VALUES (DEFAULT, new.ring, new.epoch, new.fingerprint)
	ON CONFLICT (xid, ring) DO UPDATE SET epoch = excluded.epoch, fingerprint = excluded.fingerprint;
	RETURN null;
END
$$;
CREATE TRIGGER note_commit AFTER INSERT OR UPDATE ON chash_rings FOR EACH ROW EXECUTE FUNCTION note_commit();
SQL

sub start_with_shared_cache
{
	$server = new_server('server', needs_shared_cache(), conf => <<'CONF');
log_statement = none
max_prepared_transactions = 5
max_parallel_workers_per_gather = 2
min_parallel_table_scan_size = 0
parallel_setup_cost = 0
parallel_tuple_cost = 0
CONF
	make_proof($server);
	$server->safe_psql('postgres', $versions);
	$monitor = open_session($server);
	return ($server, $monitor);
}

# What there is of a ring in the cache, oldest epoch first.
sub blocks_of
{
	my ($ring, $columns, $past) = @_;

	return $monitor->query_safe("SELECT $columns FROM chash_cache WHERE ring = '$ring' AND database = current_database()"
		  . ' AND ' . ($past ? 'is_past' : 'NOT is_past') . ' ORDER BY epoch, last_used');
}

sub are_blocks
{
	my ($ring, $columns, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is(blocks_of($ring, $columns), $expected, $name);
}

# Every block of a present version is one that was committed.
sub is_committed
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is($monitor->query_safe(q{
			SELECT ring, epoch, fingerprint FROM chash_cache WHERE database = current_database() AND NOT is_past
			EXCEPT SELECT ring, epoch, fingerprint FROM committed}),
		'', $name);
}

sub version_of
{
	my ($ring) = @_;

	return "SELECT chash_node('apple', '$ring')";
}

sub sees
{
	my ($session, $ring, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is($session->query(version_of($ring)), $expected, $name);
}

sub wait_until
{
	my ($query, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return ok($server->poll_query_until('postgres', $query), $name);
}

1;
