# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Shared by the end-to-end tests: a private daemon in a temporary folder, real trainings, assertions.
# A test sources this file, calls e2e_start, and ends with e2e_done. Exit 77 is a skip and prints its reason.
set -euo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=${BUILD:?the build folder, given by ctest}
python=${PYTHON:-/usr/bin/python3}
tracectl=$build/ctl/tracectl
work=$(mktemp -d "${TMPDIR:-/tmp}/ranktrace-e2e.XXXXXX")
chmod 755 "$work"
state=$work/state
export RANKTRACE_SOCKET=$work/control.sock RANKTRACE_LIBEXEC=$build/libexec/ranktrace
export OMP_NUM_THREADS=1
daemon=
children=()

skip() { echo "SKIP: $1"; exit 77; }
fail() {
	echo "FAIL: $1" >&2
	[ ! -s "$work/daemon.log" ] || tail -40 "$work/daemon.log" >&2
	"$tracectl" status 2>/dev/null | head -60 >&2 || true
	exit 1
}
e2e_cleanup() {
	local pid
	for pid in "${children[@]}" $daemon; do kill -9 "$pid" 2>/dev/null || true; done
	wait 2>/dev/null || true
	[ "$(type -t on_cleanup)" != function ] || on_cleanup
	rm -rf "$work" "${TORCH_ROOT:+$TORCH_ROOT$work}"
}
trap e2e_cleanup EXIT

python_here=$(command -v python3)
[ "$(id -u)" -eq 0 ] || skip "needs root to load BPF programs"
if [ -n "${TORCH_ROOT:-}" ]; then
	[ -x "$TORCH_ROOT$python" ] || skip "no root with PyTorch in $TORCH_ROOT (tests/e2e/roots.sh makes it)"
	python_name="PyTorch of $(basename "$TORCH_ROOT")"
else
	"$python" -c 'import importlib.util as u, sys; sys.exit(not u.find_spec("torch"))' 2>/dev/null || skip "$python has no torch"
	python_name=$python
fi
echo "training with $python_name"

# e2e_start [SECTION.KEY=VALUE ...]: starts a daemon with $daemon_prefix, and waits until it answers.
daemon_prefix=()
e2e_start() {
	local pair
	{
		printf '[daemon]\nprobes_base_dir = %s\n' "$source_dir/bpf/probes.d"
		for pair in "$@"; do printf '[%s]\n%s = %s\n' "${pair%%.*}" "$(cut -d. -f2- <<<"${pair%%=*}")" "${pair#*=}"; done
	} >"$work/ranktrace.conf"
	: >"$work/started"
	"${daemon_prefix[@]}" "$build/daemon/ranktraced" --foreground --config "$work/ranktrace.conf" --state-dir "$state" --socket "$RANKTRACE_SOCKET" \
		2>>"$work/daemon.log" &
	daemon=$!
	for _ in $(seq 100); do
		# No program is started before there is a socket newer than that of a daemon before it.
		[ "$RANKTRACE_SOCKET" -nt "$work/started" ] && "$tracectl" status >/dev/null 2>&1 && return 0
		kill -0 "$daemon" 2>/dev/null || fail "the daemon did not start"
		sleep "$pause_s"
	done
	fail "the daemon does not answer"
}
e2e_stop() {
	kill -TERM "$daemon"
	wait "$daemon" || fail "the daemon did not stop cleanly"
	daemon=
}
# query SQL: one line of CSV per row, no header.
query() { "$tracectl" query --csv "$1" | tail -n +2 | tr -d '\r'; }
# instance PID: SQL for the process's instance in the store. Other trainings may run on the machine.
instance() { echo "(select max(instance) from ranks where pid = $1)"; }
# steps_of PID: number of its stored steps. stepping PID N: more than N.
steps_of() { query "select count(*) from steps where instance = $(instance "$1")"; }
stepping() { [ "$(steps_of "$1")" -gt "$2" ]; }
# learned PID: it steps for long enough that its usual step is known: 5 s of warming, 10 s of learning, and 3 s more.
learned() { [ "$(query "select coalesce(max(start_ns) - min(start_ns), 0) / 1000000000 from steps where instance = $(instance "$1")")" -ge 18 ]; }
flush() { sleep 1.6; } # rows are written within a second
# wait_for SECONDS COMMAND...: until the command succeeds, three times that long at most. Between two tries it sleeps pause_s, as a question
# to the daemon or its store takes some 20 ms of the processor that the trainings need; of an emulated one, half a second.
pause_s=0.25
wait_for() {
	local until_s=$((SECONDS + $1 * 3))
	shift
	while ! "$@"; do
		[ "$SECONDS" -lt "$until_s" ] || return 1
		sleep "$pause_s"
	done
}
# train NAME [ENV=VALUE...] -- ARGS: runs the training script in the background; its own measurements go to
# $truth/NAME.RANK.json, its pid to $last. With TORCH_ROOT it runs in that root, as in a container.
truth=$work
train() {
	local name=$1 env=() run=("$python" "$source_dir/tests/e2e/train/train.py") folder=$work
	shift
	while [ "$1" != -- ]; do
		env+=("$1")
		shift
	done
	shift
	if [ -n "${TORCH_ROOT:-}" ]; then
		truth=$TORCH_ROOT$work
		mkdir -p "$truth"
		# Once: another training may be reading it.
		[ -e "$truth/train.py" ] || cp "$source_dir/tests/e2e/train/train.py" "$truth/"
		run=(chroot "$TORCH_ROOT" "$python" "$folder/train.py")
	fi
	env TRUTH="$folder/$name.%r.json" "${env[@]}" "${run[@]}" "$@" >"$work/$name.log" 2>&1 &
	last=$!
	children+=("$last")
}
# hold NAME [ENV=VALUE...] -- ARGS: as train, but it waits before its first step. release NAME PID...: its first step begins,
# once the daemon has its probes on these processes. held: both; probes that are let go since the training before ended are
# back a moment after the new one is known. Other trainings may run on the machine, with another PyTorch.
torch_probes() {
	local lines library
	if [ -n "${TORCH_ROOT:-}" ]; then
		lines=$(grep -F "call: $TORCH_ROOT/" "$work/daemon.log")
	else
		lines=$(grep -vF "call: ${RANKTRACE_ROOTS:-/var/tmp/ranktrace-roots}/" "$work/daemon.log")
	fi
	for library in libtorch_cpu libtorch_python; do
		# By file: a test that runs beside may have let go another one later.
		awk -v library="/$library" '$3 == "call:" && index($4, library) { on[$4] = / attached$/ }
			END { for (file in on) found += on[file]; exit !found }' <<<"$lines" || return 1
	done
}
# attached: no probe is still to be attached. A library of many probes logs several lines until then.
attached() {
	local status
	status=$("$tracectl" status --json) && [[ $status == *'"attaching":'* && ! $status =~ \"attaching\":\ *true ]]
}
rank_known() { [ -n "$(query "select 1 from ranks where pid = $1")" ]; }
probed() { rank_known "$1" && torch_probes && attached; }
hold() { train "$@" --wait 300 --start-file "$work/$1.start"; }
release() {
	local name=$1 pid
	shift
	for pid in "$@"; do wait_for 60 probed "$pid" || fail "no probes on process $pid"; done
	touch "$truth/$name.start"
}
held() {
	hold "$@"
	wait_for 60 rank_known "$last" || fail "process $last is not known"
	sleep 2
	release "$1" "$last"
}
compare() { "$python_here" "$source_dir/tests/e2e/compare.py" "$tracectl" "$@" || fail "the store differs from the script's measurements"; }
wait_train() {
	local pid
	for pid in "${children[@]}"; do
		wait "$pid" || { cat "$work"/*.log >&2; fail "the training failed"; }
	done
	children=()
}
e2e_done() { echo "PASS"; }
