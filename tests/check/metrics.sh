#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# docs/metrics.md is what metrics.def gives; names have their unit; rules and dashboards name metrics that exist, and promtool
# accepts the rules and their tests. metrics.sh SOURCE BUILD
set -euo pipefail
cd "$1"
failed=0
bad() {
	echo "$1"
	failed=1
}
"$2/docs/metrics-doc" | diff docs/metrics.md - ||
	bad "docs/metrics.md is not what daemon/metrics/metrics.def says: cmake --build $2 --target metrics-md"
names=$(sed -nE 's/^METRIC\(([a-z_]+), [A-Z]+, "([a-z]*)",.*/\1 \2/p' daemon/metrics/metrics.def)
count=$(wc -l <<<"$names")
wrong=$(awk '
	$2 != "" && $1 !~ "_" $2 "$" { print $1 " does not end with its unit, " $2 }
	$1 ~ /_(total|info)$/ { print $1 ": the suffix follows from the type" }' <<<"$names")
[ -z "$wrong" ] || bad "$wrong"
[ "$count" -ge 40 ] || bad "only $count metrics found"

known=$(sed -nE 's/^\| `(ranktrace_[a-z_]+)` \| ([a-z]+) .*/\1 \2/p' docs/metrics.md |
	awk '{ print $1 } $2 == "histogram" { print $1 "_bucket"; print $1 "_sum"; print $1 "_count" }')
uses=$(grep -rhoE --include='*.yml' --include='*.json' --include=fleet.md -H '\branktrace_[a-z_]+' packaging docs/fleet.md | sort -u)
used=$(wc -l <<<"$uses")
unknown=$(awk -F: 'NR == FNR { known[$1] = 1; next } !known[$2] { print $1 ": there is no metric " $2 }' <(echo "$known") - <<<"$uses")
[ -z "$unknown" ] || bad "$unknown"
[ "$used" -gt 3 ] || bad "only $used uses of metrics found"
[ "$failed" -eq 0 ] || exit 1

[ -d packaging/prometheus ] || exit 0
command -v promtool >/dev/null || {
	echo "skipped: rules are not tested: no promtool here (package prometheus)"
	exit 77
}
promtool check rules packaging/prometheus/*.rules.yml
promtool test rules packaging/prometheus/tests/*.yml
