# Databases of different encodings route the same text alike.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('encodings');
$node->init;
$node->start;

$node->safe_psql('postgres',
	"CREATE DATABASE $_->[0] TEMPLATE template0 ENCODING '$_->[1]' LOCALE 'C'")
  for (['utf8', 'UTF8'], ['latin1', 'LATIN1'], ['ascii', 'SQL_ASCII']);

# SQL for a text, given its bytes in UTF-8.  Under SQL_ASCII a text is those
# bytes; elsewhere it is converted.
sub quoted
{
	my ($database, $bytes) = @_;
	my $hex = unpack('H*', $bytes);

	return "convert_from('\\x$hex', 'UTF8')" unless $database eq 'ascii';
	$hex =~ s/(..)/\\x$1/g;
	return "E'$hex'";
}

# SQL for the bytes of a text in UTF-8, as hexadecimal digits.
sub hex_of
{
	my ($database, $expression) = @_;
	my $encoding = $database eq 'ascii' ? 'SQL_ASCII' : 'UTF8';

	return "encode(convert_to($expression, '$encoding'), 'hex')";
}

my $ring = "r\xc3\xa9seau";
my $name = "n\xc3\xbcd\xc3\xbf";
my $zone = "z\xc3\xb4ne";
my $key = "\xc3\xa9";
my %results;

foreach my $database ('utf8', 'latin1', 'ascii')
{
	my $r = quoted($database, $ring);

	$node->safe_psql($database, 'CREATE EXTENSION chash');
	$node->safe_psql($database, "SELECT chash_create_ring($r)");
	$node->safe_psql($database,
			"SELECT chash_add_node("
		  . quoted($database, $name)
		  . ", $r, zone => "
		  . quoted($database, $zone) . ")");
	$node->safe_psql($database, "SELECT chash_add_node(n, $r) FROM unnest('{a,b,z}'::text[]) n");

	my $node_of_key = "chash_node(k || " . quoted($database, $key) . ", $r)";
	my $replicas = "array_to_string(chash_replicas(k, 4, $r), ',')";
	$results{$database} = {
		hash => $node->safe_psql($database, 'SELECT chash_hash(' . quoted($database, $key) . ')'),
		fingerprint => $node->safe_psql($database, "SELECT chash_fingerprint($r)"),
		nodes => $node->safe_psql($database,
			    'SELECT string_agg('
			  . hex_of($database, $node_of_key)
			  . ", ' ' ORDER BY k) FROM generate_series(1, 500) k"),
		replicas => $node->safe_psql($database,
			    'SELECT string_agg('
			  . hex_of($database, $replicas)
			  . ", ' ' ORDER BY k) FROM generate_series(1, 500) k"),
	};
}

like($results{utf8}{nodes}, qr/6ec3bc64c3bf/, 'a node whose name is not ASCII owns keys');
foreach my $what ('hash', 'fingerprint', 'nodes', 'replicas')
{
	is($results{latin1}{$what}, $results{utf8}{$what}, "LATIN1 and UTF8 give the same $what");
	is($results{ascii}{$what}, $results{utf8}{$what},
		"SQL_ASCII gives the same $what for the bytes of UTF-8");
}

# The byte that is this letter in LATIN1 is another key under SQL_ASCII.
isnt($node->safe_psql('ascii', q{SELECT chash_hash(E'\xe9')}),
	$results{utf8}{hash}, 'SQL_ASCII takes bytes as they are');

# Names are UTF-8 even there, or another database could not take them.
$node->safe_psql('ascii', q{SELECT chash_create_ring(), chash_add_node('a')});
foreach my $call (
	q{chash_create_ring(E'r\xe9seau')}, q{chash_copy_ring('default', E'\xc0\x80')}, q{chash_add_node(E'\xff')},
	q{chash_add_node('e', zone => E'z\xc3')}, q{chash_apply(jsonb_build_object(E'\xe9', '{}'::jsonb))})
{
	my ($status, $out, $error) = $node->psql('ascii', "SELECT $call");

	like($error, qr/ERROR:  name of a (ring|node|zone) is not valid UTF-8/, "SQL_ASCII refuses $call");
}
foreach my $insert (q{chash_rings (ring) VALUES (E'\xe9')}, q{chash_nodes (node) VALUES (E'b\xe9')})
{
	my ($status, $out, $error) = $node->psql('ascii', "INSERT INTO $insert");

	like($error, qr/is not valid UTF-8.*Its byte number \d, 0xe9/s, "SQL_ASCII refuses $insert");
}

# An export goes from one encoding to another.
my $export = $node->safe_psql('utf8',
	'SELECT ' . hex_of('utf8', 'chash_export(' . quoted('utf8', $ring) . ')::text'));
$node->safe_psql('latin1',
	"SELECT chash_import(convert_from('\\x$export', 'UTF8')::jsonb, 'imported')");
is($node->safe_psql('latin1', "SELECT chash_fingerprint('imported')"),
	$results{utf8}{fingerprint}, 'an export can be imported under another encoding');

# What the other encoding cannot write is refused as a whole.
my ($status, $out, $error) = $node->psql('latin1',
	q{SELECT chash_import(jsonb_set(chash_export('imported'), '{nodes,0,node}', to_jsonb(E'\u4e16'::text)))});
isnt($status, 0, 'a name that the encoding does not have is refused');

$node->stop;
done_testing();
