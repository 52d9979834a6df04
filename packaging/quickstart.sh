#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh clone to first results: installs build dependencies, builds, starts the daemon, traces the trainings of this
# machine (or runs a small one of two ranks if there is none), shows the results, and stops all processes it started.
# Installs only packages of the distribution; all state is in a temporary folder.
#
#   packaging/quickstart.sh [--seconds N] [--keep]
#       --seconds N   time to trace (default 20)
#       --keep        keep the state folder for tracectl query --state-dir
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
seconds=20
keep=no
while [ $# -gt 0 ]; do
	case $1 in
	--seconds)
		[[ ${2:-} =~ ^[1-9][0-9]{0,3}$ ]] || { echo "quickstart: --seconds takes a whole number from 1 to 9999" >&2; exit 2; }
		seconds=$2
		shift 2
		;;
	--keep) keep=yes; shift ;;
	-h | --help) sed -n '3,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
	*) echo "quickstart: unknown option '$1' (--seconds N, --keep)" >&2; exit 2 ;;
	esac
done
if [ "$(id -u)" -ne 0 ]; then
	echo "quickstart: installs packages and loads BPF programs, so it must be run as root" >&2
	exit 1
fi

state=$(mktemp -d "${TMPDIR:-/tmp}/ranktrace-quickstart.XXXXXX")
chmod 755 "$state"
export RANKTRACE_SOCKET=$state/control.sock
build=${BUILD_DIR:-$here/build}/quickstart
pids=()
stop() {
	local pid
	for pid in "${pids[@]}"; do
		kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true
	done
	if [ "$keep" = no ]; then rm -rf "$state"; fi
}
trap stop EXIT
interrupted() {
	if [ "$keep" = no ]; then state_is="its state is removed"; else state_is="its state is kept in $state"; fi
	printf '\nquickstart: interrupted; its processes are stopped, and %s\n' "$state_is" >&2
	exit 130
}
trap interrupted INT TERM

step() { printf '\n\033[1m[%s] %s\033[0m\n' "$1" "$2"; }
fail() {
	echo "quickstart: $1" >&2
	[ ! -s "$state/daemon.log" ] || sed 's/^/  /' "$state/daemon.log" >&2
	exit 1
}

step 1/5 "Install build dependencies"
"$here/packaging/install-deps.sh"
echo "All dependencies are installed."

step 2/5 "Build (the first time takes a minute or more)"
cmake -S "$here" -B "$build" -G Ninja -DCMAKE_INSTALL_PREFIX=/usr -DRANKTRACE_TESTS=OFF \
	>"$state/build.log" 2>&1 &&
	ninja -C "$build" >>"$state/build.log" 2>&1 || { tail -40 "$state/build.log" >&2; fail "the build failed"; }
export RANKTRACE_LIBEXEC=$build/libexec/ranktrace
tracectl=$build/ctl/tracectl
"$tracectl" --version

step 3/5 "Start the daemon (state in $state)"
if RANKTRACE_SOCKET='' "$tracectl" status >/dev/null 2>&1; then
	echo "A ranktraced is running already and continues; this is a second one."
fi
cat >"$state/ranktrace.conf" <<CONF
[daemon]
state_dir = $state/state
socket = $RANKTRACE_SOCKET
probes_base_dir = $here/bpf/probes.d
CONF
"$build/daemon/ranktraced" --foreground --config "$state/ranktrace.conf" 2>"$state/daemon.log" &
pids+=($!)
for _ in $(seq 100); do
	"$tracectl" status >/dev/null 2>&1 && break
	kill -0 "${pids[0]}" 2>/dev/null || fail "the daemon did not start"
	sleep 0.1
done
"$tracectl" status >/dev/null || fail "the daemon does not answer"
"$tracectl" set L3=true L1=true

step 4/5 "Trace for $seconds s"
sleep 2
ranks() { "$tracectl" query "select count(*) as n from ranks where ended = 0" --csv | tail -1 | tr -d '\r'; }
if [ "$(ranks)" -gt 0 ]; then
	echo "Trainings of this machine:"
	"$tracectl" ranks
	sleep "$seconds"
	"$tracectl" ranks
	selection="1"
else
	echo "No training is running, so this runs one: two ranks, DDP over gloo, on the CPU (packaging/demo_train.py)."
	python=
	for candidate in python3 /usr/bin/python3; do
		# Find it without importing: a process that loads torch would become a rank.
		if "$candidate" -c 'import importlib.util as u, sys; sys.exit(not u.find_spec("torch"))' 2>/dev/null; then
			python=$candidate
			break
		fi
	done
	[ -n "$python" ] || { "$here/packaging/install-deps.sh" --torch; python=/usr/bin/python3; }
	port=$((20000 + RANDOM % 10000))
	selection="job = 'quickstart-$port'"
	for rank in 0 1; do
		TORCHELASTIC_RUN_ID=quickstart-$port RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 \
			MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
			"$python" "$here/packaging/demo_train.py" "$seconds" 2>"$state/train.$rank.log" &
		pids+=($!)
	done
	sleep $((seconds / 2))
	printf '\nIn the middle of it:\n'
	"$tracectl" ranks
	printf '\n'
	"$tracectl" ops
	for pid in "${pids[@]:1}"; do
		wait "$pid" || { cat "$state"/train.*.log >&2; fail "the training failed"; }
	done
fi
sleep 1.5 # rows are written within a second

step 5/5 "Results"
# "limit -1" evaluates it once and not per row, as "as materialized" in SQLite 3.35 and later.
query() { printf '\n%s\n' "$1"; "$tracectl" query "with r as (select * from ranks where $selection limit -1) $2"; }
query "Ranks:" "
	select rank, world_size as world, local_rank as local, pid, count(*) as steps,
	       round(avg(duration_ns) / 1e6, 2) as mean_step_ms, round(max(duration_ns) / 1e6, 2) as longest_step_ms
	from r join steps s using (instance, rank) group by instance order by rank, pid"
query "The last three steps of each rank, with their stages (ms):" "
	select s.rank, r.pid, s.step, round(s.duration_ns / 1e6, 2) as step_ms,
	       round(sum(case when stage = 'dataloader' then t.duration_ns else 0 end) / 1e6, 2) as dataloader,
	       round(sum(case when stage = 'forward' then t.duration_ns else 0 end) / 1e6, 2) as forward,
	       round(sum(case when stage = 'backward' then t.duration_ns else 0 end) / 1e6, 2) as backward,
	       round(sum(case when stage = 'zero_grad' then t.duration_ns else 0 end) / 1e6, 2) as zero_grad,
	       round(sum(case when stage = 'optimizer' then t.duration_ns else 0 end) / 1e6, 2) as optimizer
	from r join steps s using (instance) join stages t on t.instance = s.instance and t.step = s.step
	where s.step > (select max(step) - 3 from steps m where m.instance = s.instance)
	group by s.instance, s.step order by s.step, s.rank, r.pid limit 24"
query "Where the time of the steps went, by stage (gc is Python's garbage collection, within the others):" "
	select t.rank, r.pid, stage, count(*) as times, round(avg(t.duration_ns) / 1e6, 3) as mean_ms,
	       round(max(t.duration_ns) / 1e6, 3) as longest_ms,
	       round(100.0 * sum(t.duration_ns) /
	             (select sum(duration_ns) from steps s where s.instance = t.instance), 1) as percent
	from r join stages t using (instance) where step is not null
	group by t.instance, stage order by t.rank, r.pid, sum(t.duration_ns) desc"
query "Collectives: what was communicated, and how far apart the ranks of this node called the same one:" "
	select communicator, op, bytes, count(*) as times, max(members) as members, round(avg(apart_ns) / 1e6, 3) as mean_apart_ms,
	       round(max(apart_ns) / 1e6, 3) as longest_apart_ms, round(avg(shortest_ns) / 1e6, 3) as mean_ms
	from (select communicator, seq, op, bytes, count(*) as members, max(host_start_ns) - min(host_start_ns) as apart_ns,
	             min(host_duration_ns) as shortest_ns
	      from r join collectives c using (instance) where peer is null and seq_from <> 'attach' group by communicator, seq, op, bytes)
	group by communicator, op, bytes order by times desc limit 8"
query "What preempted the threads of the ranks (waits of 1 ms and more):" "
	select o.rank, r.pid, thread_name as thread,
	       case when previous_pid = 0 then '(idle)' else previous_name end as preemptor, previous_pid as preemptor_pid,
	       count(*) as times, round(sum(run_delay_ns) / 1e6, 1) as waited_ms
	from r join offcpu o using (instance) where run_delay_ns >= 1000000
	group by o.instance, thread_name, previous_pid, previous_name order by waited_ms desc limit 8"
echo "(A preemptor_pid that equals pid is another thread of the same rank: it has more busy threads than CPUs.)"
printf '\nFindings: what is slow or hangs, since when, why, and at what cost:\n'
"$tracectl" findings
printf '\nWhat was collected, and what it cost:\n'
"$tracectl" status

cat <<END

Done in $SECONDS s; the daemon stops now. To go on, start one:
  mkdir -p -m 700 ~root/ranktrace
  $build/daemon/ranktraced --state-dir ~root/ranktrace --socket ~root/ranktrace/sock &
  export RANKTRACE_SOCKET=~root/ranktrace/sock PATH=$build/ctl:\$PATH
  tracectl status                      probes, events, losses, and the daemon's own cost
  tracectl ranks                       which process is which rank, and its current stage
  tracectl set L1=true --for 10m       every collective of every rank
  tracectl ops                         where each rank stands in its collectives, and who is missing when a job hangs
  tracectl stack                       where all threads of the ranks are, Python and native, and who is elsewhere than the rest
  tracectl findings                    what is slow or hangs, since when, why, and at what cost
  tracectl report                      the slow cards of the day on one page; --html -o FILE
  tracectl timeline -o x.pftrace       the last ten minutes for ui.perfetto.dev
  tracectl set L3=true --for 10m       off-CPU intervals and what preempted the ranks, for ten minutes
  tracectl query --tables              the tables of the store, column by column
  tracectl query "select rank, avg(duration_ns)/1e6 ms from steps group by rank"
  tracectl check                       what works on this machine, and what to do about the rest
Or install it, as README.md says: cmake --install $build (into /usr), then the service ranktraced.
END
[ "$keep" = no ] || echo "The state is kept: tracectl query --state-dir $state/state '...'"
