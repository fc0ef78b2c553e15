#!/usr/bin/env bash
#
# Runs chash's tests and counts them: "N passed, N failed" is the last line, and
# the exit status is not zero if anything failed.  Installs what is missing,
# works in a temporary directory, leaves nothing behind (see setup.sh).
#
#   bash test/run.sh                  everything, which takes six to eight minutes
#   bash test/run.sh regress tap      these stages alone
#
# Settings in the environment:
#
#   PG_CONFIG             the PostgreSQL to test with (see setup.sh)
#   PROVE_TESTS           the files of stage tap to run, instead of all
#   CHASH_OLD_PG_CONFIG   pg_config of an older PostgreSQL, to test pg_upgrade from
#
# The stages, in order:
#
#   format      C code is laid out as .clang-format says
#   hygiene     conventions that a program can check
#   build       chash compiles without a warning
#   unit        test/unit, and once more under the address and undefined
#               behaviour sanitizers
#   regress     sql/ against expected/
#   isolation   test/isolation, sessions side by side
#   tap         test/tap, which start servers of their own
#   model       the reference model in test/model against golden vectors and
#               against the extension; the model of a migration, exhaustively
#   readme      the examples of README.md and docs/
#   drivers     the examples of docs/drivers.md in other languages, with the
#               drivers that are there; the others are skipped
#   docs        docs/errors.md against what happens, docs/reference.md against
#               the comments in the database
#   demo        test/demo.sql

# shellcheck source=test/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

# Warnings of -Wextra that PostgreSQL's own headers give rise to.
HEADER_EXCEPTIONS='-Wno-sign-compare -Wno-unused-parameter'
WARNINGS="-Wall -Wextra -Werror $HEADER_EXCEPTIONS"

# No part of a stage may take longer than this many seconds.
TIME_LIMIT=1200

usage()
{
	die "usage: bash test/run.sh [STAGE ...]   with any of: ${STAGES[*]}"
}

stages=("$@")
[ "${#stages[@]}" -gt 0 ] || stages=("${STAGES[@]}")
known_stages "${stages[@]}" || usage

needs=(build test)
[[ " ${stages[*]} " != *" drivers "* ]] || needs+=(drivers)
setup_begin run.sh "${needs[@]}" -- "$@"

# ---------------------------------------------------------------------------
# Counting
# ---------------------------------------------------------------------------

passed=0
failed=0
skipped=0

pass()
{
	passed=$((passed + 1))
}

fail()
{
	failed=$((failed + 1))
	printf '  not ok: %s\n' "$*"
}

# What was skipped, and why; a line for each.
reasons=()

skip()
{
	skipped=$((skipped + 1))
	reasons+=("$*")
}

# Prints the end of a log, set off from the rest, without what went well.
show()
{
	{ grep -v '^ok ' "$1" || true; } | tail -n "${2:-40}" | sed 's/^/  | /'
}

# check NAME COMMAND...: one test, passed if the command succeeds.
check()
{
	local name=$1 log=$CHASH_TMP/log/check.log

	shift
	if "$@" >"$log" 2>&1; then
		pass
	else
		fail "$name"
		show "$log"
	fi
}

# How many lines of a log match.
count()
{
	grep -cE -e "$1" "$2" || true
}

# Adds numbers of passed, failed and skipped tests that a stage's part reports.
# A part that reports no failure but ends badly, or reports nothing at all, has
# failed once more.  Succeeds if nothing failed.
part_start=0
add_counts()
{
	local name=$1 status=$2 ok=$3 not_ok=$4 left_out=${5:-0}

	printf '  %s: %d ok, %d not ok, %d s\n' "$name" "$ok" "$not_ok" $((SECONDS - part_start))
	part_start=$SECONDS
	passed=$((passed + ok))
	failed=$((failed + not_ok))
	skipped=$((skipped + left_out))
	if [ "$not_ok" -gt 0 ]; then
		printf '  not ok: %s\n' "$name"
	elif [ "$status" -eq 124 ]; then
		fail "$name: not finished after $TIME_LIMIT seconds"
	elif [ "$status" -ne 0 ]; then
		fail "$name: ended with status $status"
	elif [ $((ok + left_out)) -eq 0 ]; then
		fail "$name: no test was run"
	else
		return 0
	fi
	return 1
}

# The same from a log in the Test Anything Protocol, in which prove has its own way
# of saying that a whole file was skipped.  The last argument is the
# number of failures that have no line of their own there.
add_tap_counts()
{
	local name=$1 status=$2 log=$3 unseen=${4:-0} ok not_ok skips todos

	ok=$(count '^ok ' "$log")
	not_ok=$(count '^not ok ' "$log")
	skips=$(count '^ok .*# *(skip|SKIP)' "$log")
	todos=$(count '^not ok .*# *(todo|TODO)' "$log")
	mapfile -t -O "${#reasons[@]}" reasons < <(sed -nE \
		-e 's/^([^ ]+) \.+ skipped: (.*)/\1: \2/p' \
		-e "s!^(1\\.\\.0|ok .*) # *(skip|SKIP) *(.*)!$name: \\3!p" "$log")
	add_counts "$name" "$status" $((ok - skips)) $((not_ok - todos + unseen)) \
		$((skips + todos + $(count '^1\.\.0 # *(skip|SKIP)|^[^ ]+ \.+ skipped: ' "$log")))
}

# ---------------------------------------------------------------------------
# Building, once, when a stage first needs it
# ---------------------------------------------------------------------------

built=
need_build()
{
	local log=$CHASH_TMP/log/build.log

	if [ -z "$built" ]; then
		setup_installation
		built=no
		if setup_build "$WARNINGS" >"$log" 2>&1; then
			built=yes
		else
			printf '  chash does not build:\n'
			show "$log"
		fi
	fi
	[ "$built" = yes ]
}

started=
need_cluster()
{
	need_build || return 1
	if [ -z "$started" ]; then
		setup_cluster
		started=yes
	fi
}

# elsewhere COMMAND...: runs it with a server that has chash not preloaded, and that
# was not made for UTF8.
elsewhere()
{
	need_build || return 0
	with_other_cluster "$@"
}

# fresh_database NAME: creates it and makes it the one to connect to.
fresh_database()
{
	dropdb --if-exists "$1" 2>/dev/null
	createdb "$1"
	export PGDATABASE=$1
}

# ---------------------------------------------------------------------------
# Stages
# ---------------------------------------------------------------------------

c_files()
{
	find src test -name '*.[ch]' | sort
}

# Prints how the files would have to be changed.
layout_is_right()
{
	local program=$1 file files bad=0

	mapfile -t files < <(c_files)
	[ "${#files[@]}" -gt 0 ] || return 1
	for file in "${files[@]}"; do
		"$program" "$file" | diff -u --label "$file" --label "$file, by clang-format" "$file" - || bad=1
	done
	return $bad
}

stage_format()
{
	local program

	if program=$(find_clang_format); then
		check "layout of C files (clang-format -i puts it right)" layout_is_right "$program"
	else
		skip "layout of C files: needs clang-format 14"
	fi
}

# src/ring is for programs outside of PostgreSQL too: its files may include each
# other and the C library, and nothing that is found among PostgreSQL's headers.
ring_is_free_of_postgresql()
{
	local directory file header bad=0

	directory=$("$PG_CONFIG" --includedir-server)
	[ -n "$(find src/ring -name '*.c')" ] || return 1
	while IFS=: read -r file header; do
		header=$(printf '%s\n' "$header" | sed 's/.*[<"]\(.*\)[>"].*/\1/')
		[ ! -f "$(dirname "$file")/$header" ] || continue
		if [ -f "$directory/$header" ] || [ -f "src/$header" ] || [[ $header == ../* ]]; then
			printf '%s includes %s\n' "$file" "$header"
			bad=1
		fi
	done < <(grep -rE '^[[:space:]]*#[[:space:]]*include' --include='*.[ch]' src/ring)
	return $bad
}

# Each directory of src may include headers of those after it, and none before it.
ROOMS='api migrate change cache store ring'
includes_point_one_way()
{
	local room above='' bad=0

	for room in $ROOMS; do
		if [ -n "$above" ] && [ -d "src/$room" ] &&
			grep -rnE "^#include \"\.\./($above)/" --include='*.[ch]' "src/$room"; then
			bad=1
		fi
		above+=${above:+|}$room
	done
	return $bad
}

# SQL functions have the names that they have in SQL.
ring_names_are_of_the_ring()
{
	! grep -rnE '^chash_ring_\w+\(' --include='*.c' src | grep -vE '^src/ring/|PG_FUNCTION_ARGS'
}

version_tests_are_in_compat_h()
{
	! grep -rnE 'PG_VERSION_NUM|PG_MAJORVERSION' --include='*.[ch]' src | grep -v '^src/compat\.h:'
}

# Every place where chash's version stands has the same one.
version_is_the_same_everywhere()
{
	local version

	version=$(sed -n "s/^default_version *= *'\(.*\)'.*/\1/p" chash.control)
	printf 'chash.control: %s\n' "$version"
	[ -n "$version" ] || return 1
	[ -f "chash--$version.sql" ] || ls chash--*--"$version.sql" || return 1
	"$PYTHON" - "$version" <<-'PYTHON' || return 1
		import json, re, sys
		version = sys.argv[1]
		meta = json.load(open("META.json"))
		changes = re.findall(r"^## .*?(\d+\.\d+\.\d+)", open("CHANGELOG.md").read(), re.M)
		makefile = re.findall(r"^EXTVERSION *= *(.*)$", open("Makefile").read(), re.M)
		found = {
		    "Makefile, EXTVERSION": makefile[0] if makefile else version,
		    "META.json, version": meta["version"],
		    "META.json, provides, version": meta["provides"]["chash"]["version"],
		    "META.json, provides, file": meta["provides"]["chash"]["file"],
		    "CHANGELOG.md, newest heading": changes[0] if changes else None,
		}
		for where, what in found.items():
		    print(f"{where}: {what}")
		scripts = (f"chash--{version}.sql", f"--{version}.sql")
		sys.exit(any(what != version and not str(what).endswith(scripts) for what in found.values()))
	PYTHON
}

stage_hygiene()
{
	check "src/ring includes no header of PostgreSQL" ring_is_free_of_postgresql
	check "each directory of src includes only those below it" includes_point_one_way
	check "functions of src/ring alone are named chash_ring_*" ring_names_are_of_the_ring
	check "PG_VERSION_NUM stands in src/compat.h alone" version_tests_are_in_compat_h
	check "the version is the same everywhere" version_is_the_same_everywhere
}

# As packaging does it: in another directory, from sources that nobody can write to,
# and to be installed elsewhere.  Neither warnings nor speed matter.
builds_in_another_directory()
{
	local build=$CHASH_TMP/build options=(-s PG_CONFIG="$CHASH_PG_CONFIG" with_llvm=no PG_CFLAGS='-std=gnu11 -O0')

	mkdir -p "$build/elsewhere"
	copy_source . "$build/source"
	chmod -R a-w "$build/source"
	make -C "$build/elsewhere" -f "$build/source/Makefile" "${options[@]}" -j "$(getconf _NPROCESSORS_ONLN)" all &&
		make -C "$build/elsewhere" -f "$build/source/Makefile" "${options[@]}" DESTDIR="$build/root" install &&
		[ "$(find "$build/root" -name 'chash*.sql' | wc -l)" -eq "$(find . -maxdepth 1 -name 'chash--*.sql' | wc -l)" ] &&
		find "$build/root" -name chash.so | grep .
}

# Nothing of what has been built, for JIT compilation too, stays when a header changes.
headers_are_followed()
{
	local files file log=$CHASH_TMP/log/headers.log bad=0

	mapfile -t files < <(find src -name '*.o' -o -name '*.bc')
	make -s -q PG_CONFIG="$CHASH_PG_CONFIG" "${files[@]}" || { printf 'not all is up to date\n'; return 1; }
	make -n PG_CONFIG="$CHASH_PG_CONFIG" --what-if=src/compat.h "${files[@]}" >"$log"
	for file in "${files[@]}"; do
		grep -q -- " -o $file " "$log" || { printf 'not made again: %s\n' "$file"; bad=1; }
	done
	return $bad
}

stage_build()
{
	if need_build; then
		pass
		check "what is built follows headers" headers_are_followed
		check "build in another directory" builds_in_another_directory
		chmod -R u+w "$CHASH_TMP/build"
		rm -rf "$CHASH_TMP/build"
	else
		fail "build with $WARNINGS"
	fi
}

# unit_tests NAME [VARIABLE=VALUE]
unit_tests()
{
	local name=$1 log=$CHASH_TMP/log/unit.log status=0

	shift
	# In a copy without what has been built so far, by another compiler line.
	copy_source . "$CHASH_TMP/unit"
	limited "$TIME_LIMIT" make -C "$CHASH_TMP/unit/test/unit" check "$@" >"$log" 2>&1 || status=$?
	add_tap_counts "$name" $status "$log" || show "$log"
	rm -rf "$CHASH_TMP/unit"
}

stage_unit()
{
	unit_tests "unit tests"
	unit_tests "unit tests with sanitizers" SANITIZE=1
}

# pg_regress NAME DIFFS VARIABLE=: "make installcheck" runs pg_regress and then
# pg_isolation_regress, unless the variable with the names of their tests is
# empty; DIFFS is where it leaves its differences.
pg_regress()
{
	local name=$1 diffs=$2 variable=$3 log=$CHASH_TMP/log/regress.log status=0 ok not_ok

	if ! need_cluster; then
		fail "$name: nothing to test"
		return
	fi
	limited "$TIME_LIMIT" make -s installcheck PG_CONFIG="$CHASH_PG_CONFIG" "$variable" >"$log" 2>&1 || status=$?
	# "test NAME ... ok" up to PostgreSQL 15, "ok 1 - NAME" since.
	ok=$(count '^ok +[0-9]+ |^(test| ) .*\.\.\. ok( |$)' "$log")
	not_ok=$(count '^not ok +[0-9]+ |^(test| ) .*\.\.\. (FAILED|failed)' "$log")
	if ! add_counts "$name" $status "$ok" "$not_ok"; then
		grep -E '^not ok|FAILED|failed' "$log" | sed 's/^/  | /' || true
		if [ -f "$diffs" ]; then
			show "$diffs" 100
		else
			show "$log"
		fi
	fi
}

stage_regress()
{
	pg_regress "regression tests" regression.diffs ISOLATION=
	elsewhere pg_regress "regression tests without preloading" regression.diffs ISOLATION=
}

stage_isolation()
{
	pg_regress "isolation tests" output_iso/regression.diffs REGRESS=
	elsewhere pg_regress "isolation tests without preloading" output_iso/regression.diffs REGRESS=
}

# Builds chash for the older PostgreSQL as well, in a private installation of that.
build_old()
{
	local root=$CHASH_TMP/old pg_config

	pg_complete "$CHASH_OLD_PG_CONFIG" || {
		printf '%s is not the pg_config of a PostgreSQL that chash can be built for\n' "$CHASH_OLD_PG_CONFIG"
		return 1
	}
	pg_config=$root$("$CHASH_OLD_PG_CONFIG" --bindir)/pg_config
	private_installation "$CHASH_OLD_PG_CONFIG" "$root" && copy_source . "$root/source" &&
		make -s -C "$root/source" PG_CONFIG="$pg_config" COPT="$WARNINGS" all install || return 1
	export CHASH_OLD_PG_CONFIG=$pg_config
}

stage_tap()
{
	local log=$CHASH_TMP/log/tap.log

	if [ -n "${CHASH_OLD_PG_CONFIG:-}" ] && ! build_old >"$log" 2>&1; then
		fail "TAP tests: chash does not build for the older PostgreSQL"
		show "$log"
		return
	fi
	tap_tests "TAP tests" 1
	tap_tests "TAP tests without preloading" 0
}

# progress LOG: copies what prove prints to a log, and names each file that ends.
progress()
{
	local line file=

	while IFS= read -r line; do
		printf '%s\n' "$line" >>"$1"
		if [[ $line =~ ^test/tap/([^\ ]+)\ \.+ ]]; then
			file=${BASH_REMATCH[1]}
		fi
		if [ -n "$file" ] && [[ $line =~ ^(.*\ \.+\ )?(ok|skipped:|Failed|Dubious) ]] && [[ $line != "ok "* ]]; then
			printf '    %s: %s\n' "$file" "${BASH_REMATCH[2]%:}"
			file=
		fi
	done
}

# tap_tests NAME PRELOAD
tap_tests()
{
	local name=$1 log=$CHASH_TMP/log/tap.log pgxs reader status=0 died

	if ! need_build; then
		fail "$name: nothing to test"
		return
	fi
	pgxs=$(cd "$(dirname "$("$CHASH_PG_CONFIG" --pgxs)")/../.." && pwd)
	if [ ! -d "$pgxs/src/test/perl/PostgreSQL/Test" ]; then
		skip "$name: this PostgreSQL comes without its Perl modules for tests"
		return
	fi
	export CHASH_TEST_PRELOAD=$2
	: >"$log"
	mkfifo "$CHASH_TMP/tap"
	progress "$log" <"$CHASH_TMP/tap" &
	reader=$!
	# The modules take these for a setting of the servers that they start.
	limited "$TIME_LIMIT" env -u PGHOST -u PGPORT -u PGUSER -u PGDATABASE \
		make -s prove_installcheck PG_CONFIG="$CHASH_PG_CONFIG" ${PROVE_TESTS:+PROVE_TESTS="$PROVE_TESTS"} \
		PROVE_FLAGS="--jobs $(getconf _NPROCESSORS_ONLN) --verbose" >"$CHASH_TMP/tap" 2>&1 || status=$?
	# Whoever a test has left behind may hold the pipe open.
	for _ in 1 2 3 4 5; do
		kill -0 "$reader" 2>/dev/null || break
		sleep 1
	done
	kill "$reader" 2>/dev/null || true
	wait "$reader" || true
	rm "$CHASH_TMP/tap"
	# A file that breaks off between two tests has no "not ok" line.
	died=$(count '^test/tap/.*\(Wstat: .*Failed: 0\)$' "$log")
	if ! add_tap_counts "$name" $status "$log" "$died"; then
		# The rest of what begins like this is what was sent to a session, and came back.
		grep -E '^not ok|^# {1,6}(Failed|at|got|expected|Looks like)' "$log" | head -n 60 | sed 's/^/  | /' || true
		sed -n '/^Test Summary Report/,$p' "$log" | sed 's/^/  | /'
		# What such a file says goes to a log of its own.
		sed -n 's|^test/tap/\(.*\)\.pl *(Wstat: .*|\1|p' "$log" | while read -r file; do
			find tmp_check -name "regress_log_$file" | while read -r log; do
				printf '  end of %s:\n' "${log##*/}"
				show "$log"
			done
		done
	fi
	rm -rf tmp_check
}

# model_test NAME PROGRAM ARGUMENT...: counts what "N passed, N failed" in its
# output says; without such a line the program is one test.
model_test()
{
	local name=$1 program=test/model/$2 log=$CHASH_TMP/log/model.log status=0 line ok not_ok

	shift 2
	if [ ! -f "$program" ]; then
		fail "$name: $program is missing"
		return
	fi
	limited "$TIME_LIMIT" "$PYTHON" "$program" "$@" >"$log" 2>&1 || status=$?
	line=$(grep -oE '[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1 || true)
	if [ -n "$line" ]; then
		read -r ok _ not_ok _ <<<"$line"
	else
		ok=$((status == 0)) not_ok=$((status != 0))
	fi
	add_counts "$name" $status "$ok" "$not_ok" || show "$log"
}

# Every state that the protocol of a migration can come to.
migration_model()
{
	local name="the protocol of a migration holds, and is caught when broken"
	local log=$CHASH_TMP/log/migration.log status=0

	limited "$TIME_LIMIT" make -C test/model/migration check >"$log" 2>&1 || status=$?
	add_tap_counts "$name" $status "$log" || show "$log"
}

stage_model()
{
	migration_model
	model_test "the model keeps the rules" self_test.py
	model_test "golden vectors are what the model computes" golden.py --check
	if need_cluster; then
		fresh_database model
		model_test "golden vectors are what the extension computes" golden.py --extension
		model_test "the extension does what the model does" compare.py
	else
		fail "model: nothing to compare with"
	fi
}

stage_readme()
{
	local log=$CHASH_TMP/log/readme.log status=0

	if ! need_cluster; then
		fail "examples: nothing to run them with"
		return
	fi
	limited "$TIME_LIMIT" bash test/readme.sh >"$log" 2>&1 || status=$?
	add_tap_counts "examples of the documentation" $status "$log" ||
		grep -v '^ok ' "$log" | sed 's/^/  | /' || true
}

stage_drivers()
{
	local log=$CHASH_TMP/log/drivers.log status=0

	if ! need_cluster; then
		fail "examples for drivers: nothing to run them with"
		return
	fi
	mkdir "$CHASH_TMP/drivers"
	limited "$TIME_LIMIT" "$PYTHON" test/drivers/examples.py docs/drivers.md "$CHASH_TMP/drivers" >"$log" 2>&1 || status=$?
	add_tap_counts "examples for drivers" $status "$log" ||
		grep -v '^ok ' "$log" | sed 's/^/  | /' || true
	rm -rf "$CHASH_TMP/drivers"
}

stage_docs()
{
	local log=$CHASH_TMP/log/docs.log status=0

	if ! need_cluster; then
		fail "documentation: nothing to compare it with"
		return
	fi
	limited "$TIME_LIMIT" bash test/errors.sh >"$log" 2>&1 || status=$?
	add_tap_counts "errors of docs/errors.md" $status "$log" ||
		grep -v '^ok ' "$log" | sed 's/^/  | /' || true
	check "docs/reference.md is what the comments say" bash test/reference.sh --check
}

stage_demo()
{
	if need_cluster; then
		fresh_database demo
		check "test/demo.sql" limited "$TIME_LIMIT" psql -X -f test/demo.sql
	else
		fail "demo: nothing to run it with"
	fi
}

# ---------------------------------------------------------------------------

[ $# -gt 0 ] || say "All stages take six to eight minutes, the longest of them (tap) half of it."
for stage in "${stages[@]}"; do
	before=("$passed" "$failed" "$skipped")
	start=$SECONDS
	part_start=$SECONDS
	printf '%s\n' "$stage"
	"stage_$stage"
	printf '  %d ok, %d not ok, %d skipped, %d s\n' $((passed - before[0])) $((failed - before[1])) \
		$((skipped - before[2])) $((SECONDS - start))
done

setup_end

if [ "${#reasons[@]}" -gt 0 ]; then
	printf 'Skipped, because what they need is not here; this is no fault of chash:\n'
	printf '  %s\n' "${reasons[@]}" | sort | uniq -c | sed -E 's/^( +)1 /\1/; s/^ +([0-9]+) +(.*)/  \2 (\1 times)/; s/^ +/  /'
fi
summary="$passed passed, $failed failed"
[ "$skipped" -eq 0 ] || summary+=", $skipped skipped"
printf '%s\n' "$summary"
[ "$failed" -eq 0 ]
