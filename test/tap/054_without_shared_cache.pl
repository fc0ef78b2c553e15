# Without a shared cache everything works, and view chash_cache says what to do.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;

use ChashTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $major = postgres_major();
my @servers = ([ 'chash.cache_size = 0', "\nchash.cache_size = 0\n", qr/Set "chash\.cache_size" above zero/, preload => 1 ]);
push @servers, [ 'not preloaded', '', qr/Add "chash" to "shared_preload_libraries", and restart/, preload => 0 ] if $major < 17;
push @servers, [ 'chash.cache_size = 0, not preloaded', "\nsession_preload_libraries = 'chash'\nchash.cache_size = 0\n", qr/Set "chash\.cache_size" above zero/, preload => 0 ] if $major >= 17;
foreach my $case (@servers)
{
	my ($what, $conf, $hint, @options) = @$case;
	my $name = $what =~ s/\W+/_/gr;
	my $without = new_server($name, @options, conf => $conf);
	my ($out, $err);

	make_proof($without);
	$without->safe_psql('postgres', q{SELECT chash_create_ring('r', vnodes => 8); SELECT chash_apply('{"a": {}, "b": {}}', 'r')});
	my $session = open_session($without);
	proof_holds($session, "$what: lookups are what the tables say");
	$session->quit;
	$without->psql('postgres', 'SELECT * FROM chash_cache', stdout => \$out, stderr => \$err);
	is($out, '', "$what: the view is empty");
	like($err, qr/^psql:.* NOTICE:  there is no shared cache of chash: each session builds rings for itself\n/, "$what: a notice says why");
	like($err, qr/HINT:  $hint/, "$what: and what to do");
	is($without->safe_psql('postgres', 'SELECT chash_cache_reset()'), '', "$what: there is nothing to empty");
	$without->stop;
}

done_testing();
