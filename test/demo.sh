#!/usr/bin/env bash
#
# Shows chash at work on 100,000 rows: routes them, plans for one more node, adds
# it, and checks the plan against the rows (demo.sql has the details).  Installs
# the packages that it needs if they are missing; apart from those it leaves
# nothing behind, since chash is built and run in a temporary directory with a
# PostgreSQL server of its own (see setup.sh).
#
#   bash test/demo.sh

# shellcheck source=test/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

setup_begin demo.sh build -- "$@"

say "Building chash for $("$PG_CONFIG" --version | cut -d' ' -f1,2) ..."
setup_installation
if ! setup_build "" >"$CHASH_TMP/log/build.log" 2>&1; then
	cat "$CHASH_TMP/log/build.log" >&2
	die "chash does not build."
fi

say "Starting a server of its own ..."
setup_cluster
createdb demo
psql -X -d demo -f test/demo.sql || die "The demonstration failed."

directory=$CHASH_TMP
setup_end
[ ! -e "$directory" ] || die "$directory could not be removed."
if [ -n "${CHASH_INSTALLED:-}" ]; then
	say "Plan and rows agreed, and nothing was left behind but the packages installed at the start."
else
	say "Plan and rows agreed, and nothing was left behind."
fi
