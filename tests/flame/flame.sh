#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tracectl profile and diff on a made store: formats, contents, options, errors; the pages in Chromium where it is
# installed. flame.sh BUILD
set -euo pipefail
build=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/ranktrace-flame.XXXXXX")
trap 'rm -rf "$work"' EXIT
export TZ=UTC RANKTRACE_LIBEXEC=$build/libexec/ranktrace RANKTRACE_STATE_DIR=$work/state
unset RANKTRACE_TRACECTL

fail() {
	echo "FAIL: $1" >&2
	exit 1
}
tracectl() { "$build/ctl/tracectl" "$@"; }
# Exit code and sentence of a command that fails.
refused() { # code, pattern, command...
	local code=0 wanted=$1 pattern=$2
	shift 2
	"$@" >"$work/stdout" 2>"$work/stderr" || code=$?
	[ "$code" = "$wanted" ] || fail "$*: exit code $code"
	grep -qE "$pattern" "$work/stderr" || fail "$*: $(head -c 300 "$work/stderr")"
}

"$build/tests/flame/make_profile_store" "$work/state" "$(date +%s)"
cd "$work"

tracectl profile --profile 2
[ -s profile-2.html ] || fail "no profile-2.html"
tracectl profile --profile 2 --rank 1 -o one.html
tracectl profile --profile 3 -o many.html
for suffix in folded speedscope.json pb.gz; do tracectl profile --profile 2 -o "two.$suffix"; done
grep -q '^rank 1;<module> (train.py:120);main (train.py:54);forward (gpt.py:40);burn (<gpt>&"x".py:54) [0-9]*$' two.folded ||
	fail "two.folded"
python3 "$here/check_formats.py" two.folded two.speedscope.json two.pb.gz

tracectl diff --rank 1 --profile 2 >diff.txt
head -1 diff.txt | grep -qE '^rank 1 spends (2[7-9]|3[0-3])(\.[0-9])? ms a step in burn \(.*:54\), its peers 0$' || fail "diff: $(head -1 diff.txt)"
tracectl diff --rank 0 --profile 1 | head -1 | grep -q '^no function of rank 0 takes longer than those of its peers, beyond noise$' ||
	fail "a clean comparison names something"
tracectl diff --rank 1 --before 1 --profile 2 | head -1 | grep -q ', before 0$' || fail "diff --before"
tracectl diff --rank 1 --profile 2 --past | head -1 | grep -q ', before 0$' || fail "diff --past"
tracectl diff --rank 1 --profile 2 --until 250s | head -1 | grep -q ', before 0$' || fail "diff --until"
refused 1 'nothing to compare with' tracectl diff --rank 1 --profile 2 --until 1h
tracectl diff --rank 1 --profile 2 --json | python3 -c '
import json, sys
diff = json.load(sys.stdin)
first = diff["functions"][0]
assert diff["unit"] == "step" and diff["peers"] == 3, diff
assert first["function"] == "burn" and first["line"] == 54 and first["sure"], first
assert first["caller"]["function"] == "forward", first
assert not any(f["sure"] and f["function"] == "step" for f in diff["functions"])
'
tracectl diff --rank 1 --profile 2 -o diff.html

refused 1 'no profile 9 of these ranks' tracectl profile --profile 9
refused 1 'none of the 12 stored profiles' tracectl diff --rank 77
refused 2 'takes html, folded' tracectl profile --profile 2 --format svg
refused 2 'takes on, off or both' tracectl profile --profile 2 --cpu idle
refused 2 'need a new profile' tracectl profile --profile 2 --for 3s
refused 2 'is no number of a profile' tracectl profile --profile -1
refused 2 'the rank to compare' tracectl diff --rank 0-1
refused 2 'exclude each other' tracectl diff --rank 1 --json -o x.html
refused 1 'it is a folder' tracectl profile --profile 2 -o "$work"
# No daemon takes a profile.
refused 3 'no daemon answers' tracectl --socket "$work/none" --state-dir "$work/state" profile --for 1s
refused 2 'at most 60s' tracectl sample --for 61s
refused 2 'tracectl profile: --for' tracectl profile --for 0s
refused 2 'samples a second' tracectl sample --hz 1000

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
[ -n "$browser" ] || {
	echo "no Chromium here: the pages were not opened"
	exit 0
}
python3 "$here/check_pages.py" "$browser" profile-2.html one.html many.html diff.html
