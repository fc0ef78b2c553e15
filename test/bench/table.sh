#!/usr/bin/env bash
#
# Measures how fast chash is, and what else about it is a number, and prints one
# table: each figure beside its yardstick, as ratios within one run.  Installs
# what is missing, works in a temporary directory with a cluster of its own, and
# leaves nothing behind (see ../setup.sh).
#
#   bash test/bench/table.sh                      everything, about ten minutes
#   bash test/bench/table.sh --quick              less of it, for a first look
#   bash test/bench/table.sh --only lookups,core  these sections alone
#   bash test/bench/table.sh --output FILE        writes the figures to FILE too:
#                                                 Markdown if it ends in .md, else
#                                                 tab-separated for report.py
#
# More options: bash test/bench/table.sh --help.  What is measured and how is
# told in docs/performance.md, which refresh.sh brings up to date.

# shellcheck source=test/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

# What some sections need, and do without (saying so) where it cannot be had:
# PL/Proxy as a peer, valgrind for counting instructions.
install_optional()
{
	local pg_config packages=()

	pg_config=$(find_pg_config) || return 0
	[ -f "$("$pg_config" --pkglibdir)/plproxy.so" ] ||
		packages+=("postgresql-$(pg_major "$pg_config")-plproxy")
	have valgrind || packages+=(valgrind)
	[ "${#packages[@]}" -gt 0 ] && have apt-get && can_be_root || return 0
	say "Installing for comparison: ${packages[*]}"
	as_root apt-get update >/dev/null 2>&1 || true
	for package in "${packages[@]}"; do
		as_root sh -c "$INSTALL_SCRIPT" sh "$package" >/dev/null 2>&1 || say "  could not install $package"
	done
}

# The file is opened here, where we are still who was called: the rest may run as
# another user, in another directory.
if [ -z "${CHASH_TMP:-}" ]; then
	arguments=()
	format=tsv
	exec 3>/dev/null
	while [ $# -gt 0 ]; do
		case $1 in
			--output) file=${2:?--output needs a file}; shift ;;
			--output=*) file=${1#*=} ;;
			*) arguments+=("$1") ;;
		esac
		shift
	done
	if [ -n "${file:-}" ]; then
		exec 3>"$file"
		[[ $file != *.md ]] || format=md
	fi
	set -- "--write-$format" 3 "${arguments[@]}"
	[[ " $* " == *" --help "* || " $* " == *" -h "* ]] || install_optional
fi

setup_begin bench/table.sh build test -- "$@"

if [[ " $* " == *" --help "* || " $* " == *" -h "* ]]; then
	"$PYTHON" test/bench/measure.py --help
	exit
fi

say "Building ..."
setup_installation
setup_build "" >"$CHASH_TMP/log/build.log" 2>&1 || { cat "$CHASH_TMP/log/build.log" >&2; exit 1; }
for program in ring balance; do
	gcc -O3 -DNDEBUG -Isrc/ring -o "$CHASH_TMP/bench_$program" "test/bench/bench_$program.c" \
		src/ring/[a-z]*.c
done
gcc -O3 -fPIC -shared -I"$("$CHASH_PG_CONFIG" --includedir-server)" -o "$CHASH_TMP/floor.so" \
	test/bench/floor.c
setup_cluster
cat >>"$CHASH_TMP/data/postgresql.conf" <<-CONF
	chash.cache_size = '256MB'
	shared_buffers = 1GB
	maintenance_work_mem = 512MB
	max_wal_size = 8GB
	checkpoint_timeout = 1h
	autovacuum = off
	jit = off
	max_connections = 250
	max_parallel_workers_per_gather = 0
	max_parallel_maintenance_workers = 0
CONF
setup_preload chash

"$PYTHON" test/bench/measure.py "$@"
