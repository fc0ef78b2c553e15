#!/usr/bin/env bash
#
# Tries every statement in the tables of docs/errors.md, and checks that it
# fails with the SQLSTATE, the message and (where the page has one) the DETAIL
# that the page says.  Each runs in a transaction of its own that is rolled
# back, in a database of its own on the server that PGHOST, PGPORT and PGUSER
# say, which must have chash installed.  The page's first ```sql block is the
# setup.  Needs to be superuser there.  Checks too that the page's lists of
# SQLSTATEs have every one that src raises, and every one of these tables.
#
#   bash test/errors.sh
#
# Prints "ok" or "not ok" for each statement and SQLSTATE, and "N passed, N failed" at the
# end; fails if one did.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

page=docs/errors.md
database=chash_errors_$$
work=$(mktemp -d)
createdb --template template0 --encoding UTF8 "$database"
trap 'rm -rf "$work"; dropdb --if-exists "$database" 2>/dev/null' EXIT
export PGDATABASE=$database PGOPTIONS='-c lc_messages=C' PGCLIENTENCODING=UTF8

awk '/^```sql$/ { inside = 1; next } /^```/ && inside { exit } inside' "$page" >"$work/setup.sql"
psql -X -q -v ON_ERROR_STOP=1 -f "$work/setup.sql" >/dev/null

# The rows of the tables whose first column is a statement: statement, SQLSTATE,
# message, DETAIL, one field a line.
awk '
	/^\| `/ {
		gsub(/\\\|/, "\001")
		count = split($0, cell, / \| /)
		if (count != 4) {
			print "docs/errors.md:" NR ": not four columns" > "/dev/stderr"
			exit 1
		}
		sub(/^\| /, "", cell[1])
		split(cell[3], message, /<br>/)
		print plain(cell[1]); print cell[2]; print plain(message[1]); print plain(message[2])
	}
	function plain(text)
	{
		gsub(/^`|`$/, "", text)
		gsub(/\001/, "|", text)
		return text
	}' "$page" >"$work/cases"

number=0
failed=0
while IFS= read -r statement && IFS= read -r sqlstate && IFS= read -r message && IFS= read -r detail; do
	number=$((number + 1))
	printf 'BEGIN;\n%s;\n' "$statement" |
		PGOPTIONS='-c client_min_messages=error' psql -X -q -v VERBOSITY=verbose >/dev/null 2>"$work/errors" || true
	expected="ERROR:  $sqlstate: $message"
	[ -z "$detail" ] || expected+=$'\n'"DETAIL:  $detail"
	actual=$(tr '\001-\011\013-\037\177' ' ' <"$work/errors" | awk -v detail="$detail" '
		/^(ERROR|FATAL|PANIC): / || /^psql: / || /server closed/ || (detail && /^DETAIL: /)')
	if [ "$actual" = "$expected" ]; then
		printf 'ok %d - %s\n' "$number" "$statement"
	else
		failed=$((failed + 1))
		printf 'not ok %d - %s\n' "$number" "$statement"
		printf '%s\n' "$expected" | sed 's/^/#   expected: /'
		printf '%s\n' "$actual" | sed 's/^/#   got:      /'
	fi
done <"$work/cases"

# The SQLSTATEs at the top of the page; those that src raises, by their names in
# PostgreSQL's list of them (or as MAKE_SQLSTATE spells them), and those below.
awk '/^## / { exit } /^\| / { print $0 }' "$page" | sed 's/^| \([^|]*\) |.*/\1/' |
	grep -oE '\b[0-9A-Z]{5}\b' | sort -u >"$work/listed"
awk 'NR == FNR { if ($3 ~ /^ERRCODE_/) state[$3] = $1; next } { print state[$1] }' \
	"$("${PG_CONFIG:-pg_config}" --sharedir)/errcodes.txt" \
	<(grep -rhoE '\bERRCODE_[A-Z_0-9]+' src | sort -u) >"$work/raised"
grep -rhoE "MAKE_SQLSTATE\([^)]*\)" src | sed "s/MAKE_SQLSTATE//; s/[^0-9A-Z]//g" >>"$work/raised"
sed -n '2~4p' "$work/cases" >>"$work/raised"
while IFS= read -r sqlstate; do
	number=$((number + 1))
	if grep -qx -- "$sqlstate" "$work/listed"; then
		printf 'ok %d - %s is listed\n' "$number" "$sqlstate"
	else
		failed=$((failed + 1))
		printf 'not ok %d - %s is raised, but not listed at the top of %s\n' "$number" "$sqlstate" "$page"
	fi
done < <(grep . "$work/raised" | sort -u)

printf '1..%d\n%d passed, %d failed\n' "$number" $((number - failed)) "$failed"
[ "$number" -gt 0 ] && [ "$failed" -eq 0 ]
