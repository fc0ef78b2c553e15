#!/usr/bin/env bash
#
# Measures anew and brings docs/performance.md up to date: the tables between its
# markers, and the charts in docs/charts.
#
#   bash test/bench/refresh.sh [OPTION ...]       options are those of table.sh
#   bash test/bench/refresh.sh --only plans       measures this section alone;
#                                                 what was measured of the others
#                                                 before (measured.tsv) stays
#   bash test/bench/refresh.sh --no-measuring     only writes and draws again

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

here=test/bench
if [ "${1:-}" != --no-measuring ]; then
	new=$(mktemp)
	trap 'rm -f "$new"' EXIT
	bash "$here/table.sh" "$@" --output "$new"
	python3 "$here/report.py" merge "$new" "$here/measured.tsv"
fi
python3 "$here/report.py" page "$here/measured.tsv" docs/performance.md
python3 "$here/charts.py" "$here/measured.tsv" docs/charts
