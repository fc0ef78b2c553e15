#!/usr/bin/env bash
#
# Makes docs/reference.md out of the catalog of a server that has chash
# installed: the one that PGHOST, PGPORT and PGUSER say.  Works in a database of
# its own, which is gone at the end.
#
#   bash test/reference.sh > docs/reference.md    makes it
#   bash test/reference.sh --check                compares it with what there is
#
# Fails if a function, table or column of the extension has no comment.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ $# -gt 1 ] || [ "${1:---check}" != --check ]; then
	echo "usage: bash test/reference.sh [--check]" >&2
	exit 2
fi

database=chash_reference_$$
page=$(mktemp)
createdb --template template0 "$database"
trap 'rm -f "$page"; dropdb --if-exists "$database" 2>/dev/null' EXIT

psql -X -q -At -d "$database" -f test/reference.sql >"$page"
if [ $# -eq 0 ]; then
	cat "$page"
else
	diff -u --label docs/reference.md --label "what the catalog says" docs/reference.md "$page"
fi
