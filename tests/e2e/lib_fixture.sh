# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For tests with ranks of the fixture program (tests/fixtures) in place of trainings. Sources lib.sh.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
fixture=$build/tests/fixtures/fixture_rank
[ -x "$fixture" ] || skip "the fixture program is not built"

patience_s=20
rank_pids=()
truth_files=()
job_number=$$
pids() { local IFS=,; echo "${rank_pids[*]}"; }
ranks_known() { [ "$(query "select count(distinct pid) from ranks where pid in ($(pids))")" -eq "${#rank_pids[@]}" ]; }
# truths N: every rank has made N calls.
truths() {
	local file
	for file in "${truth_files[@]}"; do [ "$(wc -l <"$file")" -ge "$1" ] || return 1; done
}
# The library that a scenario calls, where it is not NCCL's: loop begins with L1 off, and has probes of L2.
declare -A library_of=([hccl]=libhccl [memory]=libcuda [loop]=libcuda)
fixture_probed() {
	[[ "$(grep -E "call: [^ ]*fixtures/$1[^ ]*: " "$work/daemon.log" | tail -n 1)" == *" attached" ]] && attached
}
# start_ranks SCENARIO COUNT: the ranks' first call waits until the daemon knows all of them and has its probes on their library.
start_ranks() {
	local rank
	rank_pids=()
	truth_files=()
	job_number=$((job_number + 1))
	rm -f "$work/go"
	for ((rank = 0; rank < $2; rank++)); do
		truth_files+=("$work/truth.$1.$rank")
		env RANK=$rank LOCAL_RANK=$rank WORLD_SIZE="$2" LOCAL_WORLD_SIZE="$2" JOB_NUMBER=$job_number \
			"$fixture" "$1" "$work/truth.$1.$rank" "$work/go" "$work/stop" &
		rank_pids+=($!)
		children+=($!)
	done
	wait_for "$patience_s" ranks_known || fail "the daemon does not know the ranks"
	wait_for "$patience_s" fixture_probed "${library_of[$1]:-libnccl}" || fail "no probes on the library that '$1' calls"
	touch "$work/go"
}
ranks() {
	local pid
	start_ranks "$@"
	for pid in "${rank_pids[@]}"; do wait "$pid" || fail "a rank of '$1' failed"; done
	flush
}
# check calls|memory [OPTIONS]: compares the store with the calls of the ranks started last.
check() {
	local i what=$1 pairs=()
	shift
	for i in "${!rank_pids[@]}"; do pairs+=("${rank_pids[i]}:${truth_files[i]}"); done
	"$python_here" "$source_dir/tests/e2e/fixture_compare.py" "$tracectl" "$what" "${pairs[@]}" "$@" ||
		fail "the store differs from the calls"
}
