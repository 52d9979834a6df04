#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Daemons are killed at random moments of a training with all levels on: no segment is damaged, at most LOST_MS_MAX of steps
# before a kill is not stored, and no step is stored twice.
#
#   tests/e2e/kills.sh [KILLS [DAEMONS]]    default 5 kills of one daemon, as in CI; 1000 of 4 in a nightly run (half an hour:
#                                           a life takes 3.5 s, of which the start of the BPF programs is 2). Each of
#                                           several daemons watches the same training and has a state folder of its own.
#
# The lost time is that from the end of the newest stored step to the kill. Rows wait for at most a second; the rest is the
# step that was not over, and the transaction.
source "$(dirname "$0")/lib.sh"
KILLS=${1:-5}
DAEMONS=${2:-1}
LOST_MS_MAX=1300
[[ $KILLS =~ ^[1-9][0-9]{0,5}$ ]] || fail "KILLS is a number from 1, not '$KILLS'"
[[ $DAEMONS =~ ^[1-9]$ ]] || fail "DAEMONS is a number from 1 to 9, not '$DAEMONS'"

newest() { query "select coalesce(max(start_ns + duration_ns), 0) from steps where instance = $rank_instance and start_ns > $1"; }
more() { [ "$(newest "$before")" -gt 0 ]; }

# What is written in place of them are the files changed since the last kill; with the last one, all are looked through.
check_files() {
	local db
	for db in "$state"/db/*.db; do
		[ "$1" = all ] || [ "$db" -nt "$work/checked" ] || [ ! -e "$work/checked" ] || continue
		[ "$(sqlite3 -readonly "$db" 'pragma quick_check')" = ok ] || fail "$db is damaged after kill $kill"
		echo file >>"$work/lives"
	done
	touch "$work/checked"
}

# One life: its loss in ms, or "nothing", in $work/lives.
live_and_die() {
	local life_ns killed_ns last_ns ms
	life_ns=$(date +%s%N)
	# Before the first rows are written, in that, after it, and the same around the next ones.
	ms=$((200 + RANDOM % 4000))
	sleep "$((ms / 1000)).$(printf '%03d' $((ms % 1000)))"
	kill -0 "${children[@]}" 2>/dev/null || fail "the training ended"
	kill -0 "$daemon" 2>/dev/null || fail "the daemon ended before kill $kill: $(tail -3 "$work/daemon.log")"
	killed_ns=$(date +%s%N)
	kill -9 "$daemon"
	wait "$daemon" 2>/dev/null || true
	daemon=
	# Damage remains, here or in a file that is set aside: reading all that changed takes longer than a life.
	[ $((kill % 10)) -ne 0 ] || check_files changed
	last_ns=$("$tracectl" query --state-dir "$state" --csv "select coalesce(max(start_ns + duration_ns), 0) from steps where instance = $rank_instance and start_ns > $life_ns" |
		tail -1 | tr -d '\r')
	# How long a daemon needs until it has its probes is the machine's: of a life without rows nothing is known.
	[ "$last_ns" -gt 0 ] && echo "lost $(((killed_ns - last_ns) / 1000000))" >>"$work/lives" || echo nothing >>"$work/lives"
}

# The lives of one daemon, in a process and folder of their own.
lives() {
	local kill twice table
	trap 'kill -9 $daemon 2>/dev/null || true' EXIT
	RANDOM=$((BASHPID % 32768))
	work=$work/$1
	state=$work/state
	export RANKTRACE_SOCKET=$work/control.sock
	mkdir "$work"
	e2e_start daemon.nice=0 # as in a cgroup of its own
	"$tracectl" set L1=true L2=true L3=true L1.launches=true >/dev/null || fail "not all levels can be turned on"
	wait_for 60 stepping "$trained" 50 || fail "the training did not start"
	rank_instance=$(query "select max(instance) from ranks where pid = $trained")
	for kill in $(seq "$2"); do
		live_and_die
		e2e_start daemon.nice=0
	done
	check_files all
	flush
	damaged=$(find "$state/db" -name '*.corrupt*' | wc -l)
	[ "$damaged" -eq 0 ] || fail "$damaged segments were set aside as damaged"
	twice=$(query "select count(*) from (select 1 from steps group by instance, step having count(*) > 1)")
	[ "$twice" -eq 0 ] || fail "$twice steps are stored twice"
	for table in stages collectives offcpu_sums $blocks; do
		[ "$(query "select count(*) from $table")" -gt 0 ] || fail "no rows of $table: not all levels recorded"
	done
	before=$(newest 0)
	wait_for 20 more || fail "no steps are recorded after the last kill"
	e2e_stop
}

for rank in 0 1; do
	train ddp RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 20000)) -- \
		--mode ddp --steps 10000000 --hidden 64 --batch 16 --sleep-data 50
	[ "$rank" -eq 1 ] || trained=$last
done
report_blocks() {
	RANK=0 WORLD_SIZE=1 MASTER_PORT=29674 exec "$python" - >"$work/blocks.log" 2>&1 <<'END'
import ctypes, time, torch
report = ctypes.CDLL("libc10.so.1.13")._ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE
report.argtypes, report.restype = [ctypes.c_int64] * 4 + [ctypes.c_uint16], None
block, size, held = 0, 1 << 20, 0
while True:
    held += size
    report(0x7F0000000000 + (block << 24), size, held, 1 << 30, 1)
    if block >= 64:
        held -= size
        report(0x7F0000000000 + (block - 64 << 24), -size, held, 1 << 30, 1)
    block += 1
    time.sleep(0.005)
END
}
# A rank whose allocator reports blocks, as that of a card does: PyTorch's on the CPU does not without its profiler.
blocks=
if "$python" -c 'import ctypes; ctypes.CDLL("libc10.so.1.13")' 2>/dev/null; then
	blocks=memory_curve
	report_blocks &
	children+=($!)
fi
daemons=()
for of in $(seq "$DAEMONS"); do
	lives "$of" $(((KILLS + of - 1) / DAEMONS)) &
	daemons+=($!)
done
for pid in "${daemons[@]}"; do wait "$pid" || fail "see above"; done

cat "$work"/*/lives >"$work/lives"
mapfile -t sorted < <(sed -n 's/^lost //p' "$work/lives" | sort -n)
[ $((${#sorted[@]} * 10)) -ge "$KILLS" ] || fail "only ${#sorted[@]} of $KILLS lives stored a row"
at() { echo "${sorted[$(((${#sorted[@]} - 1) * $1 / 100))]}"; }
echo "$KILLS kills, $(grep -c file "$work/lives") files checked, $(grep -c nothing "$work/lives" || true) before the first row; lost: median $(at 50) ms," \
	"95 of 100 below $(at 95) ms, at most $(at 100) ms"
[ "$(at 100)" -le "$LOST_MS_MAX" ] || fail "a kill lost $(at 100) ms"
for pid in "${children[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
children=()
e2e_done
