#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Records the output that README.md and docs/ show, and puts it in. record.sh [BUILD]
#
# One job of two ranks on the CPU: its data loading is slow, two processes share a CPU with rank 0, rank 1 does not come
# to an operation. Needs root, PyTorch and a build with tests; takes three minutes. A block of a document is replaced
# if the line before it is <!-- recorded: NAME --> (update.py).
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
build=$(realpath "${1:-$source_dir/build}")
work=$(mktemp -d "${TMPDIR:-/tmp}/ranktrace-record.XXXXXX")
mkdir "$work/out"
export RANKTRACE_SOCKET=$work/control.sock RANKTRACE_LIBEXEC=$build/libexec/ranktrace PATH=$build/ctl:$PATH TZ=UTC
unset RANKTRACE_STATE_DIR
pids=()
cleanup() {
	for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
	wait 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT

# record NAME COMMAND...: its output.
record() {
	local name=$1
	shift
	"$@" >"$work/out/$name" 2>&1 || echo "(exit status $?)" >>"$work/out/$name"
	# Paths as of an installation, and the kernel's version without its build.
	sed -i "s|\(Linux [0-9.]*\)[^ ]* on|\1 on|; s|$work/state|/var/lib/ranktrace|g; s|$work/control|/run/ranktrace/control|g; s|$work/||g" "$work/out/$name"
}
# query NAME: the answer to the SQL of the documents behind the line <!-- sql: NAME -->.
query() {
	local sql
	sql=$(awk -v marker="<!-- sql: $1 -->" '
		$0 == marker { found = 1; next } found && /^```sql$/ { inside = 1; next } inside && /^```$/ { exit } inside' "$source_dir"/docs/*.md)
	[ -n "$sql" ] || { echo "record.sh: no SQL named $1 in docs/" >&2; exit 1; }
	record "$1" tracectl query "$sql"
}

printf '[daemon]\nprobes_base_dir = %s\n[findings]\nraise = no\n' "$source_dir/bpf/probes.d" >"$work/ranktrace.conf"
"$build/daemon/ranktraced" --config "$work/ranktrace.conf" --state-dir "$work/state" --socket "$RANKTRACE_SOCKET" 2>"$work/log" &
daemon=$!
pids+=("$daemon")
for _ in $(seq 100); do
	tracectl status >/dev/null 2>&1 && break
	sleep 0.1
done
cp "$source_dir/tests/e2e/train/train.py" "$work/"
cd "$work"
for rank in 0 1; do
	RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29511 OMP_NUM_THREADS=1 \
		TORCHELASTIC_RUN_ID=llama-7b taskset -c "$rank" /usr/bin/python3 train.py --mode ddp --hidden 768 --steps 1000000 \
		--sleep-data 5 --dawdle-file "slow.$rank" --stall-file "stalled.$rank" >"$work/rank.$rank" 2>&1 &
	pids+=($!)
done
tracectl set L1=true >/dev/null
sleep 40 # until the usual step is known
record check tracectl check
record print tracectl print all

echo 150 >slow.1
sleep 15
record findings-verbose tracectl findings --verbose --rank 1
rm slow.1
sleep 12

record set-l3 tracectl set L3=true --for 10m
printf '#!/usr/bin/python3\nwhile True: pass\n' >"$work/backup"
chmod +x "$work/backup"
for _ in 0 1; do
	taskset -c 0 "$work/backup" &
	pids+=($!)
done
sleep 20
record findings-preempted tracectl findings --verbose --rank 0
query offcpu
kill "${pids[-1]}" "${pids[-2]}"
sleep 12
record status tracectl status

touch stalled.1
sleep 6
record ops-missing tracectl ops
record ranks-missing tracectl ranks
sleep 36
record findings-hang tracectl findings --verbose --rank 1
query in-flight
rm stalled.1
sleep 8

record findings-end tracectl findings
record dump tracectl dump --since 1h -o "$work/dump"
query slowest
query stages
query stragglers
query collectives
query minutes
query drops
query samples
query costs

kill -TERM "$daemon"
wait "$daemon"
record down tracectl status
"$build/tests/report/make_report_store" twelve "$work/day" 1795240800 16 8 300 300
"$build/tests/report/make_report_store" healthy "$work/healthy" 1795240800 2 4 300 300
record report-day tracectl report --until '2026-11-21 06:00' --dir "$work/day"
record report-healthy tracectl report --until '2026-11-21 06:00' --dir "$work/healthy"

# Other work on the machine hides a verdict that the documents describe.
for pair in findings-verbose:dataloader findings-preempted:preemption findings-hang:hang ops-missing:MISSING_RANKS offcpu:backup; do
	grep -q "${pair#*:}" "$work/out/${pair%:*}" || { echo "record.sh: no ${pair#*:} in ${pair%:*}; repeat it on an idle machine" >&2; exit 1; }
done
python3 "$source_dir/tests/docs/update.py" "$work/out" "$source_dir/README.md" "$source_dir"/docs/*.md
