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
#   bash test/bench/table.sh --output FILE.tsv    writes the figures to a file too, for page.py
#
# More options: bash test/bench/table.sh --help.  docs/performance.md says what is
# measured and how.

# shellcheck source=test/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

# The file is opened here, where we are still who was called: the rest may run as
# another user, in another directory.
if [ -z "${CHASH_TMP:-}" ]; then
	arguments=()
	exec 3>/dev/null
	while [ $# -gt 0 ]; do
		case $1 in
			--output) exec 3>"${2:?--output needs a file}"; shift ;;
			--output=*) exec 3>"${1#*=}" ;;
			*) arguments+=("$1") ;;
		esac
		shift
	done
	set -- --write 3 "${arguments[@]}"
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
pg_ctl -D "$CHASH_TMP/data" -l "$CHASH_TMP/log/server.log" -w restart >/dev/null

"$PYTHON" test/bench/measure.py "$@"
