#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `tracectl why` on real ranks: slow data loading, then another process on a rank's CPUs: at least 90 % of the excess is given
# to it, and the parts add up.
source "$(dirname "$0")/lib.sh"
[ -z "${TORCH_ROOT:-}" ] || skip "runs with the system's PyTorch only"
export RANKTRACE_STATE_DIR=$state

e2e_start
"$tracectl" set L3=true >/dev/null
port=$((20000 + RANDOM % 20000))
pids=()
for rank in 0 1; do
	train "ddp$rank" RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank OMP_NUM_THREADS=1 TORCHELASTIC_RUN_ID=why MASTER_ADDR=127.0.0.1 MASTER_PORT=$port -- \
		--mode ddp --steps 100000 --sleep-data 20 --hidden 128 --dawdle-file "$work/dawdle.$rank"
	pids+=("$last")
done
wait_for 90 stepping "${pids[0]}" 150 || fail "the ranks store no steps"

# why NAME RANK FROM UNTIL WANTED [OTHERS]: expressions of a part p. The parts WANTED have 90 to 110 % of the excess, without
# that of OTHERS.
why() {
	echo "--- $1"
	"$tracectl" why --job why --rank "$2" --since "$3" --until "$4"
	"$tracectl" why --job why --json --rank "$2" --since "$3" --until "$4" | "$python_here" -c 'import json, sys
r = json.load(sys.stdin)
given = sum(p["excess_ns"] for p in r["parts"] if eval(sys.argv[1]))
whole = r["excess_ns"] - sum(p["excess_ns"] for p in r["parts"] if eval(sys.argv[2]))
total = sum(p["excess_ns"] for p in r["parts"]) + r["residual_ns"]
print("%.1f of %.1f ms a step" % (given / 1e6, whole / 1e6))
sys.exit(not (r["excess_ns"] > 5e6 and 0.9 <= given / whole <= 1.1 and abs(total - r["excess_ns"]) < 1e4))' "$5" "${6:-False}" || fail "$1 is not explained"
}
now() { date '+%F %T'; }

echo 100 >"$work/dawdle.1"
sleep 2
from=$(now)
sleep 6
until=$(now)
rm "$work/dawdle.1"
flush
why "slow data loading" 1 "$from" "$until" 'p["activity"] == "dataloader"'
# The sleep of the data set is in a line of its own: it is one system call.
line=$(grep -n 'time.sleep(float(file.read() or 0) / 1e3)' "$source_dir/tests/e2e/train/train.py" | cut -d: -f1)
"$tracectl" why --job why --rank 1 --since "$from" --until "$until" >"$work/why"
grep -qE "^in long system calls of .*dawdle \\(train.py:$line\\).* (9[0-9]|1[0-4][0-9])(\\.[0-9]+)? ms a step" "$work/why" || fail "why does not name line $line: $(cat "$work/why")"
why "its peer waits" 0 "$from" "$until" 'p["what"] in ("waiting", "blocked")'

done_so_far=$(steps_of "${pids[0]}")
wait_for 60 stepping "${pids[0]}" $((done_so_far + 100)) || fail "the ranks store no usual steps"
burners=()
for _ in 1 2 3 4; do
	sh -c 'while :; do :; done' &
	burners+=("$!")
	children+=("$!")
done
for pid in "${burners[@]}"; do taskset -p -c 0 "$pid" >/dev/null; done
for task in "/proc/${pids[1]}/task"/*; do taskset -p -c 0 "${task##*/}" >/dev/null; done
for task in "/proc/${pids[0]}/task"/*; do taskset -p -c 1 "${task##*/}" >/dev/null; done
sleep 2
from=$(now)
sleep 6
until=$(now)
kill "${burners[@]}"
flush
# The machine may have other load, so that the rank also waits for its peer: these processes do not take that.
why "other processes on its CPU" 1 "$from" "$until" 'p["what"] == "ready"' 'p["what"] in ("waiting", "blocked")'
# Not in a pipe: grep -q ends at the first match, and what still writes then fails.
grep -qE 'preempted by: .*(sh|dash|bash) \(pid' <<<"$("$tracectl" why --job why --rank 1 --since "$from" --until "$until")" || fail "the preemptor is not named"
step=$(query "select step from steps where instance = $(instance "${pids[1]}") order by start_ns desc limit 1 offset 20")
"$tracectl" why --job why --rank 1 --step "$step" --json >/dev/null || fail "step $step is not explained"
reads=$(query "select coalesce(sum(count), 0) from file_calls where operation = 'read' and instance = $(instance "${pids[1]}")")
[ "$reads" -ge 20 ] || fail "rank 1 reads a file with each batch, and $reads reads are stored"
grep -q '"what": "reads of files"' <<<"$("$tracectl" why --job why --json --rank 1 --since "$from" --until "$until")" || fail "reads of files are no cause"
opens=$(query "select coalesce(sum(count), 0) from file_calls where operation = 'open' and instance = $(instance "${pids[1]}")")
[ "$opens" -ge 20 ] || fail "rank 1 opens a file with each batch, and $opens opens are stored"
calls=$(query "select coalesce(sum(count), 0) from syscalls where call in ('open', 'openat') and instance = $(instance "${pids[1]}")")
[ "$calls" -ge 20 ] || fail "rank 1 opens a file with each batch, and $calls such system calls are stored"
places=$(query "select count(*) from offcpu o join (select distinct id, frames from call_stacks) s on s.id = o.stack where s.frames like '%kernel %' and o.instance = $(instance "${pids[0]}")")
[ "$places" -ge 20 ] || fail "rank 0 waits in each step, and $places waits have a stack of the kernel"
wakers=$(query "select count(*) from offcpu where waker_name is not null and instance = $(instance "${pids[0]}")")
[ "$wakers" -ge 20 ] || fail "rank 0 waits in each step, and $wakers wakers are stored"
echo "why: done"
