#!/usr/bin/env bash
#
# Runs the examples of the documentation: every ```sql block of README.md and of
# docs/*.md, in order, each page in a fresh database.  Prints "ok" or "not ok"
# for each, and "N passed, N failed" at the end.  Like run.sh, which calls it, it
# leaves nothing behind (see setup.sh).
#
#   bash test/readme.sh                          all pages
#   bash test/readme.sh README.md docs/x.md      these alone
#
# How to write an example:
#
#   - ```sql starts a block that is run, ```sql no-run one that is not.
#   - A ```text block, or one without a language, that directly follows is what
#     psql -X -q prints for it: results in its default layout, each followed by
#     an empty line, but no "CREATE TABLE" or "INSERT 0 1".  It has to be the
#     same, except for space at the ends of lines and empty lines at its end.
#   - Without it the block only has to run without an error.
#   - If it has a line with ERROR: in front, the block is meant to fail: all of
#     it is run nevertheless, and the messages are part of what it prints.
#   - ```sql in shard_a, shard_b is run in each of these databases, which are
#     created when they are first named; nothing may follow to compare it with.
#   - ```python run starts a program that is run, where Python has xxhash: it
#     prints what the comments on its lines with print say.
#   - Every block is a session of its own.  A page's databases go with the page.
#   - A page that does not create the extension itself finds it there.

# shellcheck source=test/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

# In a cluster that run.sh has started, or in one of our own?
if [ -z "${CHASH_TMP:-}" ] || [ "${PGHOST:-}" != "$CHASH_TMP" ]; then
	setup_begin readme.sh build -- "$@"
	setup_installation
	setup_build ""
	setup_cluster
fi

work=$(mktemp -d "$CHASH_TMP/readme.XXXXXX")

# Writes the examples of a page into $work as LINE.sql and, where output is given,
# LINE.out, LINE being the number of the line that the block starts at; LINE.in
# has the databases to run it in, if the block names any.
extract()
{
	awk -v work="$work" '
		/^```/ && !inside {
			inside = 1
			file = ""
			if ($0 ~ /^```sql([ \t]+in [^`]+)?[ \t]*$/) {
				line = sprintf("%06d", NR)
				file = work "/" line ".sql"
				printf "" > file
				follows = 2
				if (sub(/^```sql[ \t]+in /, "")) {
					gsub(/,/, " ")
					print > (work "/" line ".in")
					close(work "/" line ".in")
					follows = 1
				}
			} else if ($0 ~ /^```python run[ \t]*$/) {
				file = work "/" sprintf("%06d", NR) ".py"
				printf "" > file
				follows = 1
			} else if (follows && $0 ~ /^```(text)?[ \t]*$/) {
				file = work "/" line ".out"
				printf "" > file
			}
			if (follows)
				follows--
			next
		}
		/^```/ {
			inside = 0
			if (file)
				close(file)
			next
		}
		inside {
			if (file)
				print > file
			next
		}
		/[^ \t]/ { follows = 0 }
	' "$1"
}

trimmed()
{
	sed 's/[[:space:]]*$//' "$1" | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}'
}

# Runs a program and compares what it prints with its comments.
run_program()
{
	diff -u --label expected --label actual <(sed -n 's/^print(.*) *# //p' "$1") <("$PYTHON" "$1" 2>&1)
}

# Runs one block and compares what it prints.
run_block()
{
	local sql=$1 expected=${1%.sql}.out databases=${1%.sql}.in database

	if [ -f "$databases" ]; then
		for database in $(cat "$databases"); do
			if [[ " ${created[*]} " != *" $database "* ]]; then
				createdb "$database" 2>&1 || return 1
				created+=("$database")
			fi
			psql -X -q -v ON_ERROR_STOP=1 -d "$database" <"$sql" 2>&1 || return 1
		done
	elif [ ! -f "$expected" ]; then
		psql -X -q -v ON_ERROR_STOP=1 <"$sql" 2>&1
	elif grep -q '^ERROR: ' "$expected"; then
		psql -X -q <"$sql" >"$work/actual" 2>&1
		diff -u --label expected --label actual <(trimmed "$expected") <(trimmed "$work/actual")
	else
		if ! psql -X -q -v ON_ERROR_STOP=1 <"$sql" >"$work/actual" 2>"$work/errors"; then
			cat "$work/errors"
			return 1
		fi
		diff -u --label expected --label actual <(trimmed "$expected") <(trimmed "$work/actual")
	fi
}

pages=("$@")
shopt -s nullglob
[ "${#pages[@]}" -gt 0 ] || pages=(README.md docs/*.md)

number=0
passed=0
failed=0

result()
{
	number=$((number + 1))
	if [ "$1" -eq 0 ]; then
		passed=$((passed + 1))
		printf 'ok %d - %s\n' "$number" "$2"
	else
		failed=$((failed + 1))
		printf 'not ok %d - %s\n' "$number" "$2"
	fi
}

for page in "${pages[@]}"; do
	if [ ! -f "$page" ]; then
		result 1 "$page is missing"
		continue
	fi
	rm -f "$work"/*
	extract "$page"
	dropdb --if-exists examples 2>/dev/null
	createdb examples
	created=(examples)
	export PGDATABASE=examples
	if ! grep -rqi --include='*.sql' 'CREATE EXTENSION.*chash' "$work"; then
		psql -X -q -c 'CREATE EXTENSION chash'
	fi
	for block in "$work"/*.sql "$work"/*.py; do
		line=$(basename "${block%.*}" | sed 's/^0*//')
		run=run_block
		if [ "${block##*.}" = py ]; then
			[ -n "${PYTHON:-}" ] || continue
			run=run_program
		fi
		if "$run" "$block" >"$work/log"; then
			result 0 "$page:$line"
		else
			result 1 "$page:$line"
			sed 's/^/#   /' "$work/log"
		fi
	done
	export PGDATABASE=postgres
	for database in "${created[@]}"; do
		dropdb --force "$database"
	done
done

[ "$number" -gt 0 ] || result 1 "there are no examples"
rm -rf "$work"
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
