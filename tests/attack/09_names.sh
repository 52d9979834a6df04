#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A rank whose job, program and stages have names with escape sequences, U+009B, line breaks, marks of direction and markup. On
# a terminal and in the daemon's log none of them acts or forges a line; in files and pipes CSV and JSON are well-formed.
source "$(dirname "$0")/lib.sh"

# shellcheck disable=SC1003 # a backslash ends OSC
hostile=$'x\nforged\e[2J\e]0;title\a\e\\\xc2\x9b31m\xe2\x80\xae\xe2\x81\xa6\xe2\x80\x8b<script>alert(1)</script>'
attack_daemon_start
attack_victim_start
attack_begin
cat >"$attacker_dir/named.py" <<'PY'
import os, sys, time, torch
name = os.environ["HOSTILE"]
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(3))], lr=0.1)
while not os.path.exists("go"):
    time.sleep(0.02)
def turn():
    time.sleep(0.02)
names = [key for key in ("co_name", "co_qualname") if hasattr(turn.__code__, key)]  # stacks have the latter, of Python 3.11
turn.__code__ = turn.__code__.replace(co_filename="/job/\x9b31m\u202e.py", **dict.fromkeys(names, "u\x1b[2J\n"))
while not os.path.exists("stop"):
    with torch.autograd.profiler.record_function(name):
        optimizer.zero_grad()
    torch.ones(3, requires_grad=True).sum().backward()
    optimizer.step()
    turn()
PY
HOSTILE=$hostile TORCHELASTIC_RUN_ID=$hostile RANK=0 WORLD_SIZE=1 attacker_start "$python" named.py "$hostile"
pid=$last
wait_for 60 rank_known "$pid" || fail "the daemon does not know the attacker's rank"
sleep 1
attacker touch go
wait_for 20 stepping "$pid" 20 || fail "the attacker's rank has no steps"

shows() { "$python" "$source_dir/tests/attack/terminal.py" "$work/shown" "$tracectl" "$@" || fail "tracectl $1 on a terminal"; }
# The same where there may be nothing to show.
shows_if_any() {
	"$python" "$source_dir/tests/attack/terminal.py" "$work/shown" "$tracectl" "$@" 2>"$work/said" || ! grep -a '^FAIL' "$work/said" ||
		fail "tracectl $1 on a terminal"
}
shows ranks
grep -aq 'x?forge' "$work/shown" || fail "tracectl ranks does not show the job: $(cat "$work/shown")"
shows ranks --json
shows status
shows check || true
shows ops
shows query "select * from ranks"
shows query --csv "select job, command from ranks"
grep -aq 'forged?\[2J' "$work/shown" || fail "query --csv does not show the job"
shows query --json "select job, command from ranks"
shows query --csv "select distinct name from stages"
shows findings --all
shows report --since 1h
shows report --since 1h --json
shows analyze --verbose
for _ in $(seq 20); do # most of the time it is in the function
	shows stack
	! grep -aq 'u?\[2J' "$work/shown" || break
done
[ -n "${ATTACK_TOGETHER:-}" ] || grep -aq 'u?\[2J' "$work/shown" || fail "tracectl stack does not show the function: $(cat "$work/shown")"
shows stack --json
shows_if_any why --rank 0 --since 1m
shows_if_any profile --rank 0 --for 2s --format folded -o -
shows_if_any memory
attack_status_under_1s

echo "--- in files and pipes CSV and JSON have the same names, and are well-formed"
"$tracectl" query --csv "select distinct name, job from stages join ranks using (instance) where pid = $pid and name like 'x%'" >"$work/csv"
"$tracectl" query --json "select distinct name, job from stages join ranks using (instance) where pid = $pid and name like 'x%'" >"$work/json"
"$python_here" - "$work/csv" "$work/json" <<'PY' || fail "CSV or JSON is not what the job is called"
import csv, json, sys
with open(sys.argv[1], newline="", encoding="utf-8") as file:
    rows = list(csv.reader(file))
with open(sys.argv[2], encoding="utf-8") as file:
    stored = json.load(file)
assert rows[1:] == [[row["name"], row["job"]] for row in stored] and len(rows) == 2 and "forged" in rows[1][0], (rows, stored)
PY
"$tracectl" report --since 1h --html -o "$work/report.html"
! grep -q '<script>alert' "$work/report.html" || fail "the report has markup of a name"
attacker touch stop
attack_victim_exact
attack_daemon_alive
! grep -aP '^forged|[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xaf]' "$work/daemon.log" ||
	fail "the daemon's log has a forged line or an escape sequence"
grep -aq "$pid" "$work/daemon.log" || fail "the daemon's log says nothing of the rank"
attack_done
