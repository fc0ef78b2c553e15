# Sessions change rings by random statements, nested in each other (CTEs, functions in
# RETURNING, triggers of the owner, exception blocks), with savepoints, in all isolation
# levels, with TRUNCATE, ALTER TABLE and rings that are dropped and made anew: rings,
# epochs, history, fingerprints and routes are always those of a model.
#
# test/random has the statements and the model.  What is done depends on the seed, which
# is printed and can be set (CHASH_TEST_SEED), as can the number of seconds
# (CHASH_TEST_SECONDS) or of transactions (CHASH_TEST_TRANSACTIONS).  Two programs do it
# side by side, each in a database of its own.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $python = $ENV{PYTHON} || 'python3';
my $programs = 2;
my $seed = $ENV{CHASH_TEST_SEED} // int(rand(1_000_000_000));
my $transactions = $ENV{CHASH_TEST_TRANSACTIONS};
my $seconds = $ENV{CHASH_TEST_SECONDS} // (defined $transactions ? 86400 : 20);

# What must have been done for the test to have tested anything.
my @done = (
	'transactions, READ COMMITTED', 'transactions, REPEATABLE READ', 'transactions, SERIALIZABLE', 'transactions, of one statement',
	'WITH', 'RETURNING', 'WHERE', 'exception block', 'SAVEPOINT', 'ROLLBACK TO', 'statements foretold',
	'lookups within statements', 'questions about the past', 'looks at what is committed');

plan skip_all => 'this needs Python with xxhash'
  unless IPC::Run::run([ $python, '-c', 'import xxhash' ], '>', '/dev/null', '2>', '/dev/null');

my $server = new_server('server', conf => <<'CONF');
log_statement = none
autovacuum = off
deadlock_timeout = 20ms
CONF
my @runs;

note("CHASH_TEST_SEED=$seed");
$ENV{PGHOST} = $server->host;
$ENV{PGPORT} = $server->port;
foreach my $number (1 .. $programs)
{
	my @limit = defined $transactions ? ('--transactions', int($transactions / $programs)) : ();
	my %run = (out => '', err => '', database => "random$number");

	$server->safe_psql('postgres', "CREATE DATABASE $run{database}");
	local $ENV{PGDATABASE} = $run{database};
	$run{process} = IPC::Run::start(
		[
			$python, '-B', "$FindBin::RealBin/../random/nested_changes.py",
			'--seed', $seed + $number - 1, '--seconds', $seconds, @limit
		],
		'<', \undef, '>', \$run{out}, '2>', \$run{err});
	push @runs, \%run;
}

my (%counts, @differences);
foreach my $run (@runs)
{
	ok($run->{process}->finish, "no difference in $run->{database}") or push @differences, "$run->{out}$run->{err}";
	$counts{$1} += $2 while $run->{out} =~ /^(.+): (\d+)$/mg;
	note($1) if $run->{out} =~ /^(no difference .*)$/m;
}
note(map { "$_: $counts{$_}\n" } sort keys %counts);
foreach my $what (@done)
{
	cmp_ok($counts{$what} // 0, '>', 0, "$what: has happened");
}
unlike(slurp_file($server->logfile), qr/PANIC|terminated by signal|TRAP:/, 'the server has not crashed');
$server->stop;
# Last, where the end of a log has it.
diag($_) foreach @differences;
done_testing();
