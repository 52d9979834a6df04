#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tracectl stack: where ranks are that hang in a lock, a loop, a stop, a read, an uninterruptible sleep, a container and a data
# loader's worker; the finding of a hang holds it. Lines are those of the script.
source "$(dirname "$0")/lib.sh"
[ -z "${TORCH_ROOT:-}" ] || skip "runs with the system's PyTorch only"

script=$source_dir/tests/e2e/train/stuck.py
export TRAINING_LIBRARY=$build/tests/e2e/libtorch_launch.so
line() { grep -n "# line of $1\$" "$script" | cut -d: -f1; }
e2e_start
if "$tracectl" stack >"$work/none" 2>&1; then fail "stacks of no rank"; fi
grep -q 'no training rank runs on this node' "$work/none" || fail "no rank: $(cat "$work/none")"
# Opened for writing, too, so that the rank waits in its read.
mkfifo "$work/gate"
exec 9<>"$work/gate"
start() {
	local rank=$1 size=$2
	shift 2
	RANK=$rank WORLD_SIZE=$size MASTER_ADDR=127.0.0.1 MASTER_PORT=$((29650 + size)) "$python" "$script" "$@" >"$work/rank$rank.log" 2>&1 9>&- &
	children+=($!)
}
for rank in 0 1 2; do start "$rank" 3 train "$work/go" read "$work/gate"; done
for rank in 0 1; do TORCHELASTIC_RUN_ID=pair start "$rank" 2 pair "$work/go"; done
trained=("${children[@]}")
start 10 20 lock
start 12 20 stop
start 13 20 loader
# In uninterruptible sleep; and in a container, with an interpreter that is replaced while it runs.
mkfifo "$work/disk"
on_cleanup() { exec 8<>"$work/disk"; } # lets the child go that rank 14 waits for
start 14 20 disk "$work/disk"
mkdir "$work/bin"
cp "$(readlink -f "$python")" "$work/bin/"
copy=$work/bin/$(basename "$(readlink -f "$python")")
RANK=15 WORLD_SIZE=20 MASTER_ADDR=127.0.0.1 MASTER_PORT=29670 PYTHONHOME=$("$python" -c 'import sys; print(sys.prefix)') \
	unshare --mount --pid --fork --kill-child --mount-proc "$copy" "$script" lock >"$work/rank15.log" 2>&1 9>&- &
children+=($!)

# stands RANK ROLE FUNCTION KIND: the innermost Python frame of the main thread.
stands() {
	"$tracectl" stack --rank "$1" --json >"$work/json" 2>/dev/null || return 1
	"$python_here" - "$work/json" "$1" "$2" "$3" "$(line "$4")" <<'PY'
import json, sys
path, rank, role, function, line = sys.argv[1:]
for process in json.load(open(path))["processes"]:
    for thread in process["threads"]:
        frames = [f for f in thread["frames"] if f["kind"] == "python" and "stuck.py" in (f["file"] or "")]
        if (process["rank"] == int(rank) and process["role"] == role and thread["main"] and frames
                and frames[-1]["function"].endswith(function) and frames[-1]["line"] == int(line)):
            sys.exit(0)
sys.exit(1)
PY
}
training() { [ "$(query "select count(*) from steps where instance = $(instance "$1")")" -gt 20 ]; }
for pid in "${trained[@]}"; do wait_for 90 training "$pid" || fail "process $pid does not train"; done
start 11 20 loop
looping=${children[-1]}
touch "$work/go"
wait_for 30 stands 1 rank read_batch read || fail "rank 1 is not where it reads: $("$tracectl" stack --rank 1 2>&1)"
stands 10 rank hold_lock lock || fail "rank 10 is not in its lock: $("$tracectl" stack --rank 10 2>&1)"
wait_for 20 stands 11 rank spin loop || fail "rank 11 is not in its loop: $("$tracectl" stack --rank 11 2>&1)"
kill -STOP "$looping" # it was seen; what follows needs the processor
stands 12 rank stop_here stop || fail "rank 12 is not where it was stopped: $("$tracectl" stack --rank 12 2>&1)"
wait_for 20 stands 13 child __getitem__ loader || fail "the worker of rank 13 is not in its item: $("$tracectl" stack --rank 13 2>&1)"
wait_for 20 stands 14 rank wait_for_disk disk || fail "rank 14 is not where it sleeps: $("$tracectl" stack --rank 14 2>&1)"
grep -q '"state": "D"' "$work/json" || fail "rank 14 is not in uninterruptible sleep: $(cat "$work/json")"
echo upgraded >"$work/new"
mv "$work/new" "$copy"
wait_for 20 stands 15 rank hold_lock lock || fail "rank 15 is not in its lock: $("$tracectl" stack --rank 15 2>&1)"

"$tracectl" stack --rank 0-2 >"$work/text"
grep -q "^rank 1 is alone in read_batch (stuck.py:$(line read))" "$work/text" || fail "who is alone: $(head -3 "$work/text")"
grep -q "waits: read [0-9]* ($work/gate)" "$work/text" || fail "the read does not name the FIFO: $(cat "$work/text")"
grep -q "ProcessGroupGloo" "$work/text" || fail "no native frames"
"$tracectl" stack --rank 12 | grep -q 'is stopped' || fail "rank 12 is not shown as stopped"

# The finding holds the line, and its stacks are stored.
held() { [ "$(query "select count(*) from findings where kind = 'hang' and sentence like '%rank 1 is alone in read_batch (stuck.py:$(line read))%'")" -ge 1 ]; }
wait_for 40 held || fail "no finding names the line: $("$tracectl" findings --all --verbose)"
stored() {
	[ "$(query "select count(distinct stacks.rank) from stacks join findings using (finding)
		where kind = 'hang' and findings.rank = 1 and main = 1 and frames is not null")" -eq 3 ]
}
wait_for 10 stored || fail "the stacks of the three ranks are not stored: $(query "select finding, rank, main from stacks")"
grep -q 'stack of rank 1, which is alone' <<<"$("$tracectl" findings --all --verbose)" || fail "findings --verbose shows no stack"

# Of two ranks of which one has begun a step, stages name nobody; the stacks do.
named() {
	[ "$(query "select count(*) from findings where kind = 'hang' and rank = 1 and cause = 'missing' and host is not null and confidence > 0.8
		and sentence like '%rank 1 is alone in hold_lock (stuck.py:$(line lock))%'")" -ge 1 ]
}
wait_for 40 named || fail "the stacks name no rank: $("$tracectl" findings --all --verbose)
$(query "select rank, instance, max(start_ns), progress_ns, step_end_ns, steps, stage from standings group by instance")"

# Bad input, and other users.
refused() {
	local code=0
	"${@:3}" >"$work/refused" 2>&1 || code=$?
	[ "$code" -eq "$1" ] && grep -q "$2" "$work/refused" || fail "${*:3}: exit $code, $(cat "$work/refused")"
}
refused 1 'no such rank runs on this node' "$tracectl" stack --rank 7
refused 2 'takes ranks as in' "$tracectl" stack --rank x
if command -v setpriv >/dev/null; then
	chmod 755 "$work"
	refused 1 'are of other users' setpriv --reuid 65534 --regid 65534 --clear-groups "$tracectl" stack
fi
kill -9 "${children[@]}"
children=()
on_cleanup
e2e_stop
e2e_done
