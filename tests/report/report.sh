#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tracectl report on stores of synthetic days: output formats, contents, options, errors.
#
#   report.sh BUILD [small]    small: without the days of 16 nodes, which take minutes to read with sanitizers
set -euo pipefail
build=$1
large=yes
[ "${2:-}" != small ] || large=
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/ranktrace-report.XXXXXX")
trap 'rm -rf "$work"' EXIT
export TZ=UTC RANKTRACE_LIBEXEC=$build/libexec/ranktrace
unset RANKTRACE_STATE_DIR RANKTRACE_REPORT_KEEP RANKTRACE_REPORT_DIRS
until_s=1795240800 # Sat 21 Nov 2026 06:00 UTC

fail() {
	echo "FAIL: $1" >&2
	exit 1
}
report() { "$build/ctl/tracectl" report --until '2026-11-21 06:00' "$@"; }
day() { "$build/tests/report/make_report_store" "$1" "$work/$2" "$until_s" "$3" "$4" 300 300; }

day healthy healthy 2 4
day slow one 1 1
day gaps gaps 2 4
day recurring recurring 1 4
pairs=(healthy:healthy one:slow gaps:healthy recurring:slow)
if [ -n "$large" ]; then
	day twelve twelve 16 8
	day twelve+ nodes 16 2
	pairs+=(twelve:slow)
fi

for pair in "${pairs[@]}"; do
	name=${pair%:*}
	report --dir "$work/$name" --html -o "$work/$name.html"
	report --dir "$work/$name" --json -o "$work/$name.json"
	report --dir "$work/$name" --markdown >"$work/$name.md"
	python3 "$here/check_json.py" "$work/$name.json" "${pair#*:}" || fail "$name.json"
done
if [ -n "$large" ]; then
	# Sixteen stores take long to read: once for all forms.
	RANKTRACE_REPORT_KEEP=$work/kept.nodes report --dir "$work/nodes" --markdown >"$work/nodes.md"
	for form in html json; do cp "$work/kept.nodes/latest.$form" "$work/nodes.$form"; done
	python3 "$here/check_json.py" "$work/nodes.json" slow || fail "nodes.json"
	grep -q ', ranks 0,2-3 only$' <<<"$(report --dir "$work/twelve" --rank 0,2-3)" || fail "--rank is not reported"
	[ "$(report --dir "$work/twelve" | grep -cE '^ +[0-9]+  (Fri|Sat)')" -eq 12 ] || fail "not twelve findings"
	grep -q 'card 1 of node009' <<<"$(report --dir "$work"/nodes/node00[089])" || fail "several folders after --dir are not taken"
fi
python3 "$here/check_page.py" "$work"/*.html || fail "the pages"
python3 "$here/check_contrast.py" "$work/one.html" || fail "the colours are too close"
sed 's/--mute:#57606a/--mute:#a7b0ba/' "$work/one.html" >"$work/pale.html"
python3 "$here/check_contrast.py" "$work/pale.html" >/dev/null && fail "check_contrast.py accepts pale text"
# The check of the page can fail.
sed 's|</h1>|<script src=x></script><b></h1>|' "$work/one.html" >"$work/bad.html"
python3 "$here/check_page.py" "$work/bad.html" >/dev/null && fail "check_page.py accepts a script"

[ "$(report --dir "$work/healthy" | wc -l)" -eq 1 ] || fail "a healthy fleet is not one line"
grep -q '^  node001, all of its 4 ranks: Fri 20 Nov 14:' <<<"$(report --dir "$work/gaps")" || fail "the gap is not reported"
grep -q '^  1: recurred 5 times since Fri 20 Nov 10:00, 2 h 15 min in all' <<<"$(report --dir "$work/recurring")" ||
	fail "recurrences are not grouped"
grep -q 'rank 0 of llama-70b: 5 short slow-downs, 1 min 40 s in all' "$work/recurring.html" || fail "short slow-downs are not counted"
grep -q 'median of 3 peers' "$work/recurring.html" || fail "no plot compares the rank with its peers"
[ "$("$build/libexec/ranktrace/findings" --state-dir "$work/recurring" --since '2026-11-20 06:00' | grep -cE ' (closed|open) ')" -eq 3 ] ||
	fail "findings are not grouped"
[ "$("$build/libexec/ranktrace/findings" --state-dir "$work/recurring" --since '2026-11-20 06:00' --episodes | grep -cE ' (closed|open) ')" -eq 13 ] ||
	fail "--episodes does not show each one"
grep -q 'Slow-down by rank and time' "$work/healthy.html" || fail "no heat map"
grep -q 'card 0 of node000' <<<"$(report --dir "$work/one/db")" || fail "a db folder is not taken"
cp -r "$work/one/db" "$work/renamed"
grep -q 'card 0 of node000' <<<"$(report --dir "$work/renamed")" || fail "a renamed db folder is not accepted"
grep -q '^Nothing was watched' <<<"$(report --state-dir "$work/one" --job other)" || fail "--job does not filter"

# refused STATUS SENTENCE ARGUMENT...
refused() {
	local status=$1 sentence=$2 got=0
	shift 2
	report "$@" >"$work/out" 2>"$work/err" || got=$?
	[ "$got" -eq "$status" ] || fail "$*: exit $got, not $status"
	grep -q "$sentence" "$work/err" && [ "$(wc -l <"$work/err")" -eq 1 ] || fail "$*: $(cat "$work/err")"
}
refused 2 'exclude each other' --state-dir "$work/one" --json --html
refused 2 'takes a time ago' --state-dir "$work/one" --since yesterday
refused 2 'not before --until' --state-dir "$work/one" --since 2026-11-22
refused 2 "unexpected 'x'" --state-dir "$work/one" x
refused 2 'takes ranks as in 0,3-7' --state-dir "$work/one" --rank 3-
refused 2 'number from 1 to' --state-dir "$work/one" --keep-max 0
refused 1 'cannot read the store' --state-dir "$work/nowhere"
mkdir "$work/none"
refused 1 'is no store of ranktrace' --dir "$work/none"
refused 1 'cannot read' --dir "$work/nowhere"
refused 2 'takes a length of time' --state-dir "$work/one" --compare-max 2026-11-21
refused 2 'takes a length of time' --state-dir "$work/one" --compare-max -5
refused 1 'cannot write /dev/full' --state-dir "$work/one" -o /dev/full
# A missing folder does not hide the others.
status=0
report --dir "$work/nowhere" "$work/one" >"$work/out" 2>"$work/err" || status=$?
[ "$status" -eq 1 ] && grep -q 'cannot read .*nowhere' "$work/err" && grep -q 'card 0 of node000' "$work/out" ||
	fail "a missing folder: exit $status, $(cat "$work/err")"

RANKTRACE_REPORT_KEEP=$work/kept RANKTRACE_REPORT_KEEP_MAX=1 RANKTRACE_REPORT_DIRS=$work/healthy:$work/one report --state-dir "$work/one" >/dev/null
RANKTRACE_REPORT_KEEP=$work/kept RANKTRACE_REPORT_KEEP_MAX=1 RANKTRACE_REPORT_DIRS=$work/healthy \
	"$build/libexec/ranktrace/report" --until '2026-11-21 07:00' >"$work/out"
grep -q 'on 2 nodes' "$work/out" || fail "RANKTRACE_REPORT_DIRS is ignored"
[ "$(ls "$work/kept")" = "$(printf '%s\n' latest.html latest.json latest.txt report-20261121T070000Z.{html,json,txt})" ] ||
	fail "kept: $(ls "$work/kept")"
cmp -s "$work/out" "$work/kept/latest.txt" || fail "latest.txt differs from the output"
echo PASS
