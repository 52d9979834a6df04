# shellcheck shell=bash
# shellcheck disable=SC2034,SC2119,SC2120,SC2154 # for those that source it
# SPDX-License-Identifier: Apache-2.0
# For tests on machines with cards, first of all: source "$(dirname "$0")/lib.sh" OUT. They need root, a python3 with PyTorch (PYTHON) and our
# programs (BUILD), which may come from tests/jobs/bundle.sh, with their libraries in lib/.
#
# Gives source_dir, here, build, out, python and tracectl; work, a folder that is removed at the end. daemon_start LOG starts a daemon with
# $work/ranktrace.conf; daemon_stop stops it. At the end the processes in `ranks` are killed and the daemon is stopped; then at_end is called, if
# there is such a function.
set -uo pipefail
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
here=$source_dir/tests/e2e/gpu
build=$(cd "${BUILD:?the folder of the programs}" && pwd)
mkdir -p "${1:?a folder for the results}"
out=$(cd "$1" && pwd)
python=${PYTHON:-python3}
work=$(mktemp -d)
mountpoint -q /sys/kernel/tracing || mount -t tracefs nodev /sys/kernel/tracing
mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf
export RANKTRACE_SOCKET=$work/control.sock RANKTRACE_LIBEXEC=$build/libexec/ranktrace RANKTRACE_STATE_DIR=$work/state
tracectl=$work/tracectl
# The bundle's libraries are for our programs alone.
for program in daemon/ranktraced ctl/tracectl; do
	printf '#!/bin/sh\nLD_LIBRARY_PATH=%q exec %q "$@"\n' "$build/lib" "$build/$program" >"$work/${program##*/}"
	chmod +x "$work/${program##*/}"
done
# configure [LINE]...: more lines of the configuration.
configure() { printf '%s\n' '[daemon]' "probes_base_dir = $source_dir/bpf/probes.d" "$@" >"$work/ranktrace.conf"; }
configure
daemon='' ranks=() failures=0
daemon_start() {
	"$work/ranktraced" --config "$work/ranktrace.conf" --state-dir "$work/state" --socket "$RANKTRACE_SOCKET" 2>>"$1" &
	daemon=$!
	for _ in $(seq 100); do "$tracectl" status >/dev/null 2>&1 && break; sleep 0.1; done
}
daemon_stop() {
	[ -z "$daemon" ] || { kill "$daemon" && wait "$daemon"; }
	daemon=''
}
bad() {
	echo "FAIL: $1"
	failures=$((failures + 1))
}
# wants PART: it is one of $parts.
wants() { case " $parts " in *" $1 "*) true ;; *) false ;; esac; }
# run_ranks NAME CARDS COMMAND...: as ranks of job NAME, in the background, each with a log in OUT.
run_ranks() {
	local name=$1 cards=$2 rank port=$((20000 + RANDOM % 20000))
	shift 2
	ranks=()
	for ((rank = 0; rank < cards; rank++)); do
		RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=$cards MASTER_ADDR=127.0.0.1 MASTER_PORT=$port TORCHELASTIC_RUN_ID=$name OMP_NUM_THREADS=4 \
			"$@" >"$out/$name.$rank.log" 2>&1 &
		ranks+=("$!")
	done
}
# Until all have ended; fails where one failed.
wait_ranks() {
	local pid failed=0
	for pid in "${ranks[@]}"; do wait "$pid" || failed=1; done
	ranks=()
	return $failed
}
end_test() {
	local pid
	for pid in ${ranks[@]+"${ranks[@]}"}; do kill -CONT "$pid" 2>/dev/null; kill -9 "$pid" 2>/dev/null; done
	daemon_stop
	if declare -F at_end >/dev/null; then at_end; fi
	rm -rf "$work"
}
trap end_test EXIT
