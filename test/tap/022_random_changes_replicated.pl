# Two subscribers of one coordinator route alike, at the same epochs, after each of many
# random changes, in sessions that stay connected.
#
# The changes depend on the seed alone, which is printed and can be set
# (CHASH_TEST_SEED).

use strict;
use warnings FATAL => 'all';

# Replication that has stopped at an error would be waited for this long.
BEGIN { $ENV{PG_TEST_TIMEOUT_DEFAULT} //= 60; }

use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use Test::More;

my $changes = 50;
my $seed = $ENV{CHASH_TEST_SEED} // int(rand(1_000_000_000));

note("CHASH_TEST_SEED=$seed");

# ---------------------------------------------------------------------------
# Random changes
# ---------------------------------------------------------------------------

# The nodes of each ring, as this test knows them.
my %rings;
my %placements = (
	vnodes => 'vnodes => 16',
	partitions => q{placement => 'partitions', partitions => 64},
	tokens => q{placement => 'tokens'});
my $serial = 0;

sub one_of
{
	return $_[ int(rand(@_)) ];
}

sub weight
{
	return one_of(0.25, 0.5, 1, 1, 2, 3.125);
}

sub zone
{
	return one_of(q{'x'}, q{'y'}, q{'Ζ'}, 'NULL');
}

sub tokens
{
	return "'{" . join(',', map { int(rand(2_000_000_000)) - 1_000_000_000 . '000000000' } 1 .. 3) . "}'::bigint[]";
}

sub create_ring
{
	my $placement = one_of(sort keys %placements);
	my $ring = $placement . ++$serial;

	$rings{$ring} = {};
	return ("SELECT chash_create_ring('$ring', $placements{$placement})", map { add_node($ring) } 1 .. 3);
}

sub add_node
{
	my ($ring) = @_;
	my $node = 'n' . ++$serial;
	my $tokens = $ring =~ /^tokens/ ? ', tokens => ' . tokens() : '';

	$rings{$ring}{$node} = 1;
	return "SELECT chash_add_node('$node', '$ring', weight => " . weight() . ', zone => ' . zone() . "$tokens)";
}

# The ways to change a ring, given the ring and one of its nodes: each gives statements.
my %ways = (
	add => sub { add_node($_[0]) },
	insert => sub {
		my ($ring) = @_;
		my $node = 'n' . ++$serial;

		$rings{$ring}{$node} = 1;
		return "INSERT INTO chash_nodes (ring, node, weight, tokens) VALUES ('$ring', '$node', "
		  . weight() . ', ' . ($ring =~ /^tokens/ ? tokens() : 'NULL') . ')';
	},
	remove => sub {
		my ($ring, $node) = @_;

		delete $rings{$ring}{$node};
		return one_of("SELECT chash_remove_node('$node', '$ring')", "DELETE FROM chash_nodes WHERE ring = '$ring' AND node = '$node'");
	},
	weight => sub { "SELECT chash_set_node('$_[1]', '$_[0]', weight => " . weight() . ')' },
	weights => sub { "UPDATE chash_nodes SET weight = weight * 2 WHERE ring = '$_[0]'" },
	zone => sub { "UPDATE chash_nodes SET zone = " . zone() . " WHERE ring = '$_[0]' AND node = '$_[1]'" },
	info => sub { "SELECT chash_set_node('$_[1]', '$_[0]', info => '{\"serial\": " . ++$serial . "}')" },
	down => sub { "SELECT chash_mark_down('$_[1]', '$_[0]')" },
	up => sub { "SELECT chash_mark_up(node, ring) FROM chash_nodes WHERE ring = '$_[0]' AND state = 'down'" },
	apply => sub {
		my ($ring, $node) = @_;
		my $new = 'n' . ++$serial;
		my $tokens = $ring =~ /^tokens/ ? ", 'tokens', " . tokens() : '';

		delete $rings{$ring}{$node};
		$rings{$ring}{$new} = 1;
		return "SELECT chash_apply(jsonb_build_object('$node', NULL, '$new', jsonb_build_object('weight', " . weight()
		  . ", 'zone', " . zone() . "$tokens)), '$ring')";
	},
	copy => sub {
		my ($ring) = @_;
		my $copy = "$ring copy" . ++$serial;

		$rings{$copy} = { %{ $rings{$ring} } };
		return "SELECT chash_copy_ring('$ring', '$copy')";
	},
	prune => sub { "SELECT chash_prune_history('$_[0]', 3)" },
	create => sub { create_ring() },
	drop => sub {
		my ($ring) = @_;

		delete $rings{$ring};
		return one_of("SELECT chash_drop_ring('$ring')", "DELETE FROM chash_rings WHERE ring = '$ring'");
	},
	undone => sub {
		return ('SAVEPOINT undone', "DELETE FROM chash_nodes WHERE ring = '$_[0]' AND node = '$_[1]'", 'ROLLBACK TO undone',
			"SELECT chash_set_node('$_[1]', '$_[0]', weight => " . weight() . ')');
	});

# Gives name and statements of one change.  No ring loses its last node, and there are
# neither too few rings nor too many.
sub random_change
{
	my ($way) = @_;
	my $ring = one_of(sort keys %rings);
	my $node = one_of(sort keys %{ $rings{$ring} });

	$way = 'add' if $way =~ /^(remove|apply)$/ && keys %{ $rings{$ring} } < 3;
	$way = 'create' if $way eq 'drop' && keys %rings < 4;
	$way = 'drop' if $way =~ /^(create|copy)$/ && keys %rings > 8;
	return ("$way in $ring", $ways{$way}->($ring, $node));
}

# ---------------------------------------------------------------------------
# The run
# ---------------------------------------------------------------------------

my $publisher = new_server('publisher', allows_streaming => 'logical');
my @names = ('first', 'second');
my %subscribers = map { $_ => new_server($_, allows_streaming => 'logical') } @names;
my $writer = open_session($publisher);

srand($seed);
$writer->query_safe(join ";\n", map { create_ring() } 1 .. 4);
$writer->query_safe('CREATE PUBLICATION rings FOR TABLE public.chash_rings, public.chash_nodes, public.chash_node_history');
foreach my $name (@names)
{
	my $connection = $publisher->connstr . " dbname=postgres application_name=$name";

	make_proof($subscribers{$name});
	$subscribers{$name}->safe_psql('postgres', "CREATE SUBSCRIPTION $name CONNECTION '$connection' PUBLICATION rings");
}
$subscribers{$_}->wait_for_subscription_sync($publisher, $_) foreach @names;
my %readers = map { $_ => open_session($subscribers{$_}) } @names;

# What a server says of every ring.  (A ring whose nodes are all down has no routes.)
my $routes = q{
	WITH keys AS (SELECT 'key ' || i AS key FROM generate_series(1, 20) AS i)
	SELECT ring, epoch, history_from, fingerprint, fingerprint = chash_fingerprint(ring) AS computed,
		(SELECT array_agg(chash_node_as_of(key, epoch, ring) ORDER BY key) FROM keys) AS owners,
		CASE WHEN ring IN (SELECT ring FROM chash_nodes WHERE state = 'up' AND weight > 0)
			THEN (SELECT array_agg(chash_replicas(key, 3, ring)::text || chash_node(key, ring) ORDER BY key) FROM keys) END AS routes,
		CASE WHEN epoch > history_from THEN (SELECT count(*) FROM chash_epoch_diff(ring)) END AS moved
	FROM chash_rings ORDER BY ring};

# Every way has its turn, in random order; some changes are several at once, of several
# rings.
my @turns;
my $before = $writer->query_safe($routes);
my $different = 0;
foreach my $number (1 .. $changes)
{
	@turns = sort { $a->[1] <=> $b->[1] } map { [ $_, rand ] } sort keys %ways unless @turns;
	my ($name, @statements) = random_change(shift(@turns)->[0]);
	my $expected;

	while (rand() < 0.3)
	{
		my ($and, @more) = random_change((one_of(sort keys %ways)));

		$name .= ", $and";
		push @statements, @more;
	}
	note("change $number:\n" . join(";\n", @statements));
	$writer->query_safe(join ";\n", 'BEGIN', @statements, 'COMMIT');
	$publisher->wait_for_catchup($_) foreach @names;
	$expected = $writer->query_safe($routes);
	$different++ if $expected ne $before;
	$before = $expected;
	foreach my $subscriber (@names)
	{
		is($readers{$subscriber}->query_safe($routes), $expected, "change $number, $subscriber subscriber: $name");
	}
}
cmp_ok($different, '>', $changes / 2, "$different of $changes changes made a difference");
foreach my $subscriber (@names)
{
	proof_holds($readers{$subscriber}, "$subscriber subscriber: lookups are what the tables say");
	is_portrait(portrait_of($readers{$subscriber}), portrait($publisher), "$subscriber subscriber: everything is as on the publisher");
	$readers{$subscriber}->quit;
	$subscribers{$subscriber}->stop;
}
note($writer->query(q{SELECT format('%s rings, %s nodes, %s epochs', count(*), (SELECT count(*) FROM chash_nodes), sum(epoch)) FROM chash_rings}));
$writer->quit;
$publisher->stop;
done_testing();
