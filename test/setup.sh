# shellcheck shell=bash
#
# What the scripts in this directory share; they source it, it does nothing by
# itself.  It makes a place where chash can be built and tried out without a
# trace: a temporary copy of the source tree, a private copy of the PostgreSQL
# installation that chash is installed into, and a throwaway cluster that can be
# reached through a Unix socket in the same temporary directory only.  All of it
# is removed when the script ends, however it ends.
#
# The temporary directory is below TMPDIR if programs can be run there, or else
# below /tmp or /var/tmp.
#
# PG_CONFIG in the environment chooses a PostgreSQL installation; without it the
# newest one that can build extensions is taken.
#
# A script calls, in this order:
#
#   setup_begin SCRIPT NEED... -- ARGUMENT...
#       installs what is missing and goes on in the temporary copy, as an
#       ordinary user.  SCRIPT is the script's own name, NEED is "build",
#       "test" or "drivers", and the ARGUMENTs are the script's own.
#   setup_installation    makes the private installation
#   setup_build COPT      builds chash with these compiler options, and installs it there
#   setup_cluster         starts the throwaway cluster, with chash preloaded
#   with_other_cluster COMMAND...   runs a command with another one meanwhile
#   limited SECONDS COMMAND...   runs a command for no longer than that
#   setup_end             removes everything (also done at exit)
#
# and can use CHASH_TMP (the temporary directory), CHASH_PG_CONFIG (pg_config of
# the private installation) and PYTHON (an interpreter that has xxhash).

set -euo pipefail

CHASH_OLDEST_POSTGRESQL=15

# The stages of run.sh, in order.
STAGES=(format hygiene build unit regress isolation tap model readme drivers docs demo)

say()
{
	printf '%s\n' "$*"
}

die()
{
	printf '%s\n' "$*" >&2
	exit 1
}

# known_stages STAGE...: are all of these among them?
known_stages()
{
	local stage

	for stage in "$@"; do
		[[ " ${STAGES[*]} " == *" $stage "* ]] || return 1
	done
}

# ---------------------------------------------------------------------------
# What is there, and what is missing
# ---------------------------------------------------------------------------

have()
{
	command -v "$1" >/dev/null 2>&1
}

have_header()
{
	have gcc && printf '#include <%s>\n' "$1" | gcc -E -x c - >/dev/null 2>&1
}

have_perl_module()
{
	have perl && perl -M"$1" -e 1 >/dev/null 2>&1
}

# Prints a python that can import xxhash.  The first one on PATH need not be the
# one that the system's packages belong to.
find_python()
{
	local python

	for python in python3 /usr/bin/python3; do
		if "$python" -c 'import xxhash' >/dev/null 2>&1; then
			printf '%s\n' "$python"
			return 0
		fi
	done
	return 1
}

# Prints clang-format of the version that .clang-format is written for.  Other
# versions lay out some lines differently.
find_clang_format()
{
	local program

	for program in clang-format clang-format-14; do
		if "$program" --version 2>/dev/null | grep -q 'version 14\.'; then
			printf '%s\n' "$program"
			return 0
		fi
	done
	return 1
}

pg_major()
{
	"$1" --version | sed -n 's/^PostgreSQL \([0-9]*\).*/\1/p'
}

# Has this installation a server, and all that building an extension takes?
pg_complete()
{
	local bindir

	bindir=$("$1" --bindir 2>/dev/null) || return 1
	[ -x "$bindir/postgres" ] && [ -x "$bindir/initdb" ] && [ -x "$bindir/psql" ] &&
		[ -f "$("$1" --pgxs)" ] && [ -f "$("$1" --includedir-server)/postgres.h" ] &&
		[ "$(pg_major "$1")" -ge "$CHASH_OLDEST_POSTGRESQL" ]
}

# Prints pg_config of the installation to use.  On Debian the programs of each
# major version are in a directory of their own, newest last.
find_pg_config()
{
	local candidate

	if [ -n "${PG_CONFIG:-}" ]; then
		candidate=$(command -v "$PG_CONFIG") && pg_complete "$candidate" || return 1
		readlink -f "$candidate"
		return 0
	fi

	{
		command -v pg_config || true
		find /usr/lib/postgresql -maxdepth 3 -path '*/bin/pg_config' 2>/dev/null | sort -rV
	} | while read -r candidate; do
		if pg_complete "$candidate"; then
			printf '%s\n' "$candidate"
			break
		fi
	done | grep .
}

# Prints the major version whose Debian packages to install: one that is partly
# there, else the one that the metapackage "postgresql" stands for.
debian_pg_major()
{
	local major

	major=$({
		find /usr/include/postgresql -maxdepth 3 -path '*/server/postgres.h' 2>/dev/null |
			cut -d/ -f5 | sort -rn
		find /usr/lib/postgresql -maxdepth 3 -path '*/bin/postgres' 2>/dev/null |
			cut -d/ -f5 | sort -rn
	} | awk -v oldest="$CHASH_OLDEST_POSTGRESQL" '$1 >= oldest { print; exit }') || true
	if [ -z "$major" ]; then
		major=$(apt-cache depends postgresql 2>/dev/null |
			sed -n 's/^ *Depends: postgresql-\([0-9][0-9]*\)$/\1/p') || true
	fi
	printf '%s\n' "${major:-unknown}"
}

# Prints the Debian packages that are missing, one a line.  The NEEDs are
# "build", for what it takes to build and run chash, and "test".
missing_packages()
{
	local need major

	for need in "$@"; do
		case $need in
			build)
				have gcc || echo gcc
				have_header stdio.h || echo libc6-dev
				have make || echo make
				have_header xxhash.h || echo libxxhash-dev
				if ! find_pg_config >/dev/null; then
					major=$(debian_pg_major)
					if [ "$major" = unknown ]; then
						printf '%s\n' postgresql postgresql-server-dev-all
					else
						printf '%s\n' "postgresql-$major" "postgresql-server-dev-$major"
					fi
				fi
				;;
			test)
				find_python >/dev/null || printf '%s\n' python3 python3-xxhash
				{ have prove && have_perl_module Test::More; } || echo perl
				have_perl_module IPC::Run || echo libipc-run-perl
				{ have clang-format || find_clang_format >/dev/null; } || echo clang-format
				;;
		esac
	done
}

# ---------------------------------------------------------------------------
# Installing
# ---------------------------------------------------------------------------

# Can this script become root, if need be by asking for a password?
can_be_root()
{
	[ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null || { have sudo && [ -t 0 ] && [ -t 2 ]; }
}

as_root()
{
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	else
		sudo "$@"
	fi
}

# The server's package makes a cluster of its own, and starts it, where there
# was no PostgreSQL before.  Nobody has asked for that here, so this setting
# keeps it from doing so while the packages are being installed.
# shellcheck disable=SC2016
INSTALL_SCRIPT='
	directory=/etc/postgresql-common/createcluster.d
	setting=$directory/chash-setup.conf
	undo() { rm -f "$setting"; rmdir "$directory" 2>/dev/null || true; }
	if ! ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; then
		trap undo EXIT
		trap "exit 1" HUP INT TERM
		mkdir -p "$directory"
		echo "create_main_cluster = false" >"$setting"
	fi
	DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
'

install_missing()
{
	local packages wanted log=$CHASH_TMP/log/install.log

	if [ -n "${PG_CONFIG:-}" ] && ! find_pg_config >/dev/null; then
		die "PG_CONFIG=$PG_CONFIG is not the pg_config of a PostgreSQL $CHASH_OLDEST_POSTGRESQL or later" \
			"with server, psql and the files for building extensions."
	fi

	mapfile -t packages < <(missing_packages "$@")
	[ "${#packages[@]}" -gt 0 ] || return 0

	if ! have apt-get || ! can_be_root; then
		die "Please install these first (the names are those of Debian's packages," \
			"PostgreSQL $CHASH_OLDEST_POSTGRESQL or later): ${packages[*]}"
	fi

	# Before sudo asks for a password.
	wanted=${packages[*]}
	say "Installing what is missing: $wanted"
	# A list that cannot be fetched need not be one that matters.  Only with
	# lists is it known what "postgresql" stands for, so look again.
	as_root apt-get update >"$log" 2>&1 || true
	mapfile -t packages < <(missing_packages "$@")
	[ "${packages[*]}" = "$wanted" ] || say "  now known to be: ${packages[*]}"
	if ! as_root sh -c "$INSTALL_SCRIPT" sh "${packages[@]}" >>"$log" 2>&1; then
		tail -n 20 "$log" >&2
		die "Could not install: ${packages[*]}"
	fi
	export CHASH_INSTALLED="${packages[*]}"

	mapfile -t packages < <(missing_packages "$@")
	[ "${#packages[@]}" -eq 0 ] ||
		die "Still missing after the installation: ${packages[*]}" \
			"(PostgreSQL $CHASH_OLDEST_POSTGRESQL or later)"
}

# Prints the Debian packages that the examples of docs/drivers.md take and that
# are missing, one a line.
missing_drivers()
{
	/usr/bin/python3 -c 'import psycopg' >/dev/null 2>&1 || echo python3-psycopg
	/usr/bin/python3 -c 'import psycopg2' >/dev/null 2>&1 || echo python3-psycopg2
	/usr/bin/python3 -c 'import asyncpg' >/dev/null 2>&1 || echo python3-asyncpg
	have_perl_module DBD::Pg || echo libdbd-pg-perl
	[ -f /usr/share/java/postgresql.jar ] || echo libpostgresql-jdbc-java
	have javac || echo default-jdk-headless
	# Debian's npm is hundreds of packages: without it, Debian's own copy will do.
	{ have node && { have npm || [ -d /usr/share/nodejs/pg ]; }; } || printf '%s\n' nodejs node-pg
	# With systemd, the package would leave a service running.
	[ -d /run/systemd/system ] || [ -x /usr/sbin/pgbouncer ] || echo pgbouncer
}

# Installs what root can get of them.  Nothing fails without: the examples that
# take what is missing are skipped.
install_drivers()
{
	local packages package known=() log=$CHASH_TMP/log/drivers.log

	[ "$(id -u)" -eq 0 ] && have apt-get || return 0
	mapfile -t packages < <(missing_drivers)
	[ "${#packages[@]}" -gt 0 ] || return 0
	[ -n "${CHASH_INSTALLED:-}" ] || apt-get update >"$log" 2>&1 || true
	for package in "${packages[@]}"; do
		! apt-cache show "$package" >/dev/null 2>&1 || known+=("$package")
	done
	[ "${#known[@]}" -gt 0 ] || return 0
	say "Installing drivers ..."
	say "  ${known[*]}"
	sh -c "$INSTALL_SCRIPT" sh "${known[@]}" >>"$log" 2>&1 && return 0
	for package in "${known[@]}"; do
		sh -c "$INSTALL_SCRIPT" sh "$package" >>"$log" 2>&1 || say "  $package could not be installed"
	done
}

# ---------------------------------------------------------------------------
# The temporary directory
# ---------------------------------------------------------------------------

# Stops every server whose data directory is in the temporary directory: ours,
# and any that a test was interrupted before it could stop.
stop_servers()
{
	local pidfile pid bindir

	[ -x "${CHASH_PG_CONFIG:-}" ] || return 0
	bindir=$("$CHASH_PG_CONFIG" --bindir)
	find "$CHASH_TMP" -name postmaster.pid 2>/dev/null | while read -r pidfile; do
		read -r pid <"$pidfile" || continue
		# A file left by a server that was killed may name somebody else's process.
		if [ -d /proc/self ] && [[ $(readlink "/proc/$pid/exe") != "$CHASH_TMP"/*/postgres ]]; then
			continue
		fi
		"$bindir/pg_ctl" -D "$(dirname "$pidfile")" -m immediate -w stop >/dev/null 2>&1 || true
	done
}

# limited SECONDS COMMAND...: ends the command, and what it has started, when it
# takes longer, with status 124, or when this script is ended.
limited_command=
limited()
{
	local status=0

	timeout --kill-after=10 "$@" &
	limited_command=$!
	wait "$limited_command" || status=$?
	limited_command=
	return "$status"
}

# Also what was copied from where nobody may write.
remove_tree()
{
	rm -rf "$1" 2>/dev/null || { chmod -R u+rwX "$1" && rm -rf "$1"; } 2>/dev/null
}

setup_end()
{
	trap '' HUP INT TERM
	if [ -n "$limited_command" ]; then
		kill "$limited_command" 2>/dev/null || true
		wait "$limited_command" || true
		limited_command=
	fi
	if [ -n "${CHASH_TMP:-}" ]; then
		stop_servers
		cd /
		# Once more if something was still writing.
		remove_tree "$CHASH_TMP" || { sleep 2 && rm -rf "$CHASH_TMP"; }
		CHASH_TMP=
	fi
	trap - HUP INT TERM
}

setup_traps()
{
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	trap setup_end EXIT
}

# Copies the source tree, without what a build or a test run left in it.  The
# copy can be written to, even if the tree cannot.
copy_source()
{
	mkdir -p "$2"
	tar -C "$1" --mode=u+rwX --exclude=./.git --exclude='*.o' --exclude='*.bc' --exclude='*.so' \
		--exclude=__pycache__ --exclude=./results --exclude=./output_iso --exclude=./tmp_check \
		--exclude=./log --exclude='./regression.*' -cf - . | tar -C "$2" -xf -
}

# PostgreSQL refuses to run as root.  Prints who is to run it instead.
ordinary_user()
{
	if [ "$(id -u)" -ne 0 ]; then
		id -un
	elif id postgres >/dev/null 2>&1; then
		echo postgres
	else
		echo nobody
	fi
}

# as_ordinary_user COMMAND...: goes on with it as this user.
as_ordinary_user()
{
	local user

	user=$(ordinary_user)
	if [ "$(id -u)" -ne 0 ]; then
		exec "$@"
	fi
	exec setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups \
		env USER="$user" LOGNAME="$user" "$@"
}

# The longest name of a directory in which sockets, and those of the servers that
# TAP tests start, have names of no more than 107 bytes.
LONGEST_DIRECTORY=50

# Can the ordinary user run a program in this directory?
can_run_in()
{
	[ "${#1}" -le "$LONGEST_DIRECTORY" ] &&
		{ [ "$(id -u)" -ne 0 ] || chown "$(ordinary_user)" "$1"; } &&
		printf '#!/bin/sh\n' >"$1/probe" &&
		chmod 755 "$1/probe" &&
		(as_ordinary_user "$1/probe") 2>/dev/null &&
		rm "$1/probe"
}

# Makes the temporary directory, and sets CHASH_TMP to its name.
make_temporary_directory()
{
	local base

	for base in ${TMPDIR:+"$TMPDIR"} /tmp /var/tmp; do
		CHASH_TMP=$(mktemp -d "$base/chash.XXXXXX" 2>/dev/null) || continue
		CHASH_TMP=$(cd "$CHASH_TMP" && pwd -P)
		! can_run_in "$CHASH_TMP" || return 0
		rm -rf "$CHASH_TMP"
		CHASH_TMP=
		say "Programs cannot be run below $base by user $(ordinary_user), or its name is too long; trying elsewhere."
	done
	die "There is no place for temporary files: set TMPDIR to a directory that user $(ordinary_user) can" \
		"run programs in (not mounted noexec), of less than $((LONGEST_DIRECTORY - 13)) bytes."
}

setup_begin()
{
	local script=$1 needs=() root variable

	shift
	while [ "$1" != -- ]; do
		needs+=("$1")
		shift
	done
	shift
	root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

	# In the temporary copy already?
	if [ -n "${CHASH_TMP:-}" ] && [ "$root" = "$CHASH_TMP/source" ]; then
		setup_traps
		exec </dev/null
		cd "$root"
		pg_complete "$PG_CONFIG" || die "$PG_CONFIG cannot be used by $(id -un)."
		PYTHON=$(find_python) || PYTHON=
		export PYTHON
		return 0
	fi

	make_temporary_directory
	setup_traps
	mkdir "$CHASH_TMP/tmp" "$CHASH_TMP/log"
	install_missing "${needs[@]}"
	[[ " ${needs[*]} " != *" drivers "* ]] || install_drivers
	PG_CONFIG=$(find_pg_config)
	copy_source "$root" "$CHASH_TMP/source"

	# What the caller has set for other databases is not meant for this one.
	for variable in $(compgen -e PG || true); do
		[ "$variable" = PG_CONFIG ] || unset "$variable"
	done
	unset MAKEFLAGS MAKELEVEL LANGUAGE CHASH_PG_CONFIG
	export CHASH_TMP PG_CONFIG LC_ALL=C.UTF-8 TMPDIR="$CHASH_TMP/tmp" HOME="$CHASH_TMP/tmp"

	cd "$CHASH_TMP/source"
	[ "$(id -u)" -ne 0 ] || chown -R "$(ordinary_user):" "$CHASH_TMP"
	as_ordinary_user bash "$CHASH_TMP/source/test/$script" "$@"
}

# ---------------------------------------------------------------------------
# The private installation, and the cluster
# ---------------------------------------------------------------------------

# PostgreSQL's programs look for their other files relative to where they
# themselves are.  So a copy of the installation, with the same directories
# below another root, is one that chash can be installed into without touching
# the real one.  Headers and libraries are only linked to.
private_installation()
{
	local pg_config=$1 root=$2 bindir directory option program

	bindir=$("$pg_config" --bindir)
	mkdir -p "$root$bindir"
	# By name: in some systems this directory has everything else in it too.
	for program in initdb postgres psql pgbench createdb dropdb createuser dropuser \
		clusterdb reindexdb vacuumdb "$bindir"/pg_*; do
		program=$bindir/${program##*/}
		[ ! -f "$program" ] || cp -pL "$program" "$root$bindir/"
	done
	for option in --pkglibdir --sharedir; do
		directory=$("$pg_config" $option)
		mkdir -p "$root$directory"
		cp -a "$directory/." "$root$directory/"
		chmod -R u+rwX "$root$directory"
	done
	for option in --includedir --pkgincludedir --includedir-server --libdir; do
		directory=$("$pg_config" $option)
		mkdir -p "$(dirname "$root$directory")"
		[ -e "$root$directory" ] || ln -s "$directory" "$root$directory"
	done
}

setup_installation()
{
	local root=$CHASH_TMP/root bindir

	private_installation "$PG_CONFIG" "$root"
	bindir=$root$("$PG_CONFIG" --bindir)

	# Programs that also stand in front of the real ones on PATH, so that every
	# script, and every test, gets these.
	export CHASH_PG_CONFIG=$bindir/pg_config
	export PATH=$bindir:$PATH
}

# Builds chash and installs it into the private installation.
setup_build()
{
	make -s -j "$(getconf _NPROCESSORS_ONLN)" PG_CONFIG="$CHASH_PG_CONFIG" COPT="$1" all &&
		make -s PG_CONFIG="$CHASH_PG_CONFIG" COPT="$1" install
}

# start_cluster NAME PORT ENCODING PRELOAD: makes and starts a server, and makes it
# the one to connect to.
start_cluster()
{
	local data=$CHASH_TMP/$1 log=$CHASH_TMP/log/$1.log

	if ! initdb -D "$data" -U postgres -A trust -E "$3" --locale=C --no-sync >"$log" 2>&1; then
		cat "$log" >&2
		die "initdb failed."
	fi
	cat >>"$data/postgresql.conf" <<-CONF
		listen_addresses = ''
		unix_socket_directories = '$CHASH_TMP'
		port = $2
		fsync = off
		synchronous_commit = off
		full_page_writes = off
		shared_preload_libraries = '$4'
	CONF
	if ! pg_ctl -D "$data" -l "$log" -w start >/dev/null; then
		tail -n 20 "$log" >&2
		die "The server did not start."
	fi
	export PGHOST=$CHASH_TMP PGPORT=$2 PGUSER=postgres PGDATABASE=postgres
}

setup_cluster()
{
	start_cluster data 5432 UTF8 chash
	export PGCLIENTENCODING=UTF8
}

# Before PostgreSQL 17 there is no shared cache without preloading, and since then
# it is had in another way.  And not every server is made for UTF8.
with_other_cluster()
{
	# A server would take it for its own.
	unset PGCLIENTENCODING
	start_cluster other 5433 LATIN1 ''
	"$@"
	pg_ctl -D "$CHASH_TMP/other" -m fast -w stop >/dev/null
	rm -rf "$CHASH_TMP/other"
	export PGPORT=5432 PGCLIENTENCODING=UTF8
}
