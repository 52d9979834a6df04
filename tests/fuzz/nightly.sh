#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every parser fuzzed for a while, sizes included, with limits of time and memory as failures. Seeds are kept.
#
#   tests/fuzz/nightly.sh [--seconds N] [NAME]...    60 s each; NAME: fuzz_NAME.c; all without one
#
# BUILD is a build with RANKTRACE_FUZZ (build/sanitized is made if missing). FUZZ_KEEP is the folder for what is kept (BUILD's
# fuzz-kept): NAME/ with every input that reached something new, smallest set, which the next run starts from; NAME.found/ with
# inputs that failed. JOBS targets run at a time. Exit status: 0 nothing found, 1 something, 2 wrong usage.
set -euo pipefail
folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source=$(cd "$folder/../.." && pwd)
BUILD=${BUILD:-$source/build/sanitized}
keep=${FUZZ_KEEP:-$BUILD/fuzz-kept}
jobs=${JOBS:-$(nproc)}
seconds=60
# What an input may stand for, and what a target may take for it. The sanitizer needs several times its memory.
export FUZZ_AMPLIFY_MAX=$((32 << 20))
INPUT_SECONDS_MAX=25
RSS_MIB_MAX=2048
MALLOC_MIB_MAX=256 # of one request

refuse() {
	echo "tests/fuzz/nightly.sh: $1 (tests/fuzz/nightly.sh --help)" >&2
	exit 2
}
names=()
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help)
		sed -n '3,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
		exit 0
		;;
	--seconds)
		[[ ${2:-} =~ ^[1-9][0-9]*$ ]] || refuse "--seconds takes a number from 1"
		seconds=$2
		shift
		;;
	-*) refuse "there is no option '$1'" ;;
	*)
		[ -f "$folder/fuzz_$1.c" ] || refuse "there is no parser '$1'"
		names+=("$1")
		;;
	esac
	shift
done
if [ ${#names[@]} -eq 0 ]; then
	for file in "$folder"/fuzz_*.c; do
		file=${file##*/fuzz_}
		names+=("${file%.c}")
	done
fi
[ -e "$BUILD/build.ninja" ] || cmake -S "$source" -B "$BUILD" -G Ninja -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	-DRANKTRACE_TESTS=ON -DRANKTRACE_FUZZ=ON -DRANKTRACE_SANITIZE=address,undefined >/dev/null
ninja -C "$BUILD" -j"$jobs" "${names[@]/#/fuzz_}" >/dev/null || refuse "the targets do not build in $BUILD"

logs=$(mktemp -d "${TMPDIR:-/tmp}/ranktrace-fuzz.XXXXXX")
trap 'rm -rf "$logs"' EXIT
# one NAME: 0 if nothing was found.
one() {
	local name=$1 status=0 smaller=$logs/$1.smaller
	mkdir -p "$keep/$name" "$keep/$name.found" "$smaller"
	"$BUILD/tests/fuzz/fuzz_$name" -max_total_time="$seconds" -max_len=65536 -timeout="$INPUT_SECONDS_MAX" -rss_limit_mb="$RSS_MIB_MAX" \
		-malloc_limit_mb="$MALLOC_MIB_MAX" -artifact_prefix="$keep/$name.found/" -print_final_stats=1 "$keep/$name" "$folder/corpus/$name" \
		>"$logs/$name.log" 2>&1 || status=1
	# The smallest set that reaches the same. A merge that fails keeps what there is.
	if [ "$status" -eq 0 ] && "$BUILD/tests/fuzz/fuzz_$name" -merge=1 -rss_limit_mb="$RSS_MIB_MAX" -timeout="$INPUT_SECONDS_MAX" "$smaller" \
		"$keep/$name" "$folder/corpus/$name" >"$logs/$name.merge" 2>&1; then
		find "$keep/$name" -type f -delete
		find "$smaller" -type f -exec cp {} "$keep/$name/" \;
	fi
	echo "$status" >"$logs/$name.status"
}
for name in "${names[@]}"; do
	while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
	one "$name" &
done
wait

failed=0
printf '%-14s %10s %10s %8s %10s  %s\n' parser inputs 'a second' seeds 'MiB' result
for name in "${names[@]}"; do
	log=$logs/$name.log
	figure() { sed -n "s/^stat::$1: *//p" "$log" | tail -n 1; }
	result=held
	if [ "$(cat "$logs/$name.status")" -ne 0 ]; then
		result=$(grep -aoE -m 1 'ERROR: .*|SUMMARY: .*' "$log" || true)
		result="FOUND ${result:-$(tail -n 1 "$log")}"
		failed=1
	fi
	printf '%-14s %10s %10s %8s %10s  %s\n' "$name" "$(figure number_of_executed_units)" "$(figure average_exec_per_sec)" \
		"$(find "$keep/$name" -type f | wc -l)" "$(figure peak_rss_mb)" "$result"
done
[ "$failed" -eq 0 ] || echo "inputs that failed are in $keep/NAME.found/"
exit "$failed"
