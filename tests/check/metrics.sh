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
count=0
while read -r name unit; do
	count=$((count + 1))
	[ -z "$unit" ] || [[ $name = *_$unit ]] || bad "$name does not end with its unit, $unit"
	[[ $name != *_total && $name != *_info ]] || bad "$name: the suffix follows from the type"
done < <(sed -nE 's/^METRIC\(([a-z_]+), [A-Z]+, "([a-z]*)",.*/\1 \2/p' daemon/metrics/metrics.def)
[ "$count" -ge 40 ] || bad "only $count metrics found"

known=$(sed -nE 's/^\| `(ranktrace_[a-z_]+)` \| ([a-z]+) .*/\1 \2/p' docs/metrics.md |
	awk '{ print $1 } $2 == "histogram" { print $1 "_bucket"; print $1 "_sum"; print $1 "_count" }')
used=0
while IFS=: read -r file name; do
	used=$((used + 1))
	grep -qxF "$name" <<<"$known" || bad "$file: there is no metric $name"
done < <(grep -rhoE --include='*.yml' --include='*.json' --include=fleet.md -H '\branktrace_[a-z_]+' packaging docs/fleet.md | sort -u)
[ "$used" -gt 3 ] || bad "only $used uses of metrics found"
[ "$failed" -eq 0 ] || exit 1

[ -d packaging/prometheus ] || exit 0
command -v promtool >/dev/null || {
	echo "skipped: rules are not tested: no promtool here (package prometheus)"
	exit 77
}
promtool check rules packaging/prometheus/*.rules.yml
promtool test rules packaging/prometheus/tests/*.yml
