#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A process that rewrites its interpreter's memory in a loop: its stacks are read in bounded time, right or refused, and counted.
# hostile.sh READER [PYTHON]
set -euo pipefail
reader=$1
python=${2:-/usr/bin/python3}
command -v "$python" >/dev/null || {
	echo "SKIP: needs $python"
	exit 77
}
work=$(mktemp -d)
program=
trap '[ -z "$program" ] || kill "$program" 2>/dev/null || true; rm -rf "$work"' EXIT
mkfifo "$work/ready"
"$python" "$(dirname "$0")/hostile.py" 20 >"$work/ready" &
program=$!
read -r _ <"$work/ready"
timeout 15 "$reader" "$program" 300 500 >"$work/stacks" || {
	echo "FAIL: the reader ended with $?"
	exit 1
}
python3 - "$work/stacks" <<'PY'
import collections
import json
import sys

counts, longest_ns, wrong = collections.Counter(), 0, []
for row in map(json.loads, open(sys.argv[1], encoding="utf-8")):
    longest_ns = max(longest_ns, row.get("round_ns", 0))
    names = [frame[0].rsplit(".", 1)[-1] for frame in row.get("frames", [])]
    if "refused" in row:
        counts["refused: " + row["refused"]] += 1
    elif names[:1] == ["_bootstrap"] and names[-1] == "sleeper":
        counts["of the thread: right"] += 1
    elif names[:2] == ["<module>", "main"]:
        counts["of the other one"] += 1
    elif names:
        wrong.append(names)
    elif "frames" in row:
        counts["of the thread: none"] += 1
print("%s, longest round %.1f ms, wrong %s" % (dict(counts), longest_ns / 1e6, wrong[:3]))
refused = sum(count for name, count in counts.items() if name.startswith("refused"))
sys.exit(not (counts["of the thread: right"] and refused and not wrong))
PY
