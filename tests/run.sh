#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds twice and runs all tests, from a clean clone.
#
#   tests/run.sh [LABEL]...
#       LABEL  unit, check, kernel, e2e, attack, fuzz; all without one
#
# Two builds: gcc as it is packaged, for what watches the machine, whole programs and checks (build/ci); clang with sanitizers
# and fuzz targets, for unit and fuzz (build/sanitized). Warnings are errors in both. tests/builds.sh builds everything with
# both compilers and as each build type.
# Tests that judge time run alone (label realtime); end-to-end tests one at a time, those with label beside two at a time. Beside
# the others, everything that only needs the processor (virtual machines, the rest of the build, the second build, their tests)
# uses the time in which they wait. A test that fails beside others runs once more at the end, alone, and both are printed: what it
# waits for may only have come late. A newer PyTorch, of a suite that changes daily, is tried by hand: ctest -L rolling in
# build/ci. Each phase prints its seconds, and those of CPU time.
#
# BUILD_DIR moves the build folders, JOBS sets the number of jobs at a time. Exit status: 0 all pass, 1 a build or a
# test fails, 2 wrong usage.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${BUILD_DIR:-$source/build}
jobs=${JOBS:-$(nproc)}
# The Python that packages belong to. A wrapper of a version manager, as in some PATH, takes up to a second for each start.
export PATH=/usr/bin:$PATH
# Undefined behaviour fails its test, as a bad address does. Freed memory is used again after 2 MiB, not 256: most of the time of
# tests that allocate much goes into new pages.
export ASAN_OPTIONS=quarantine_size_mb=2:thread_local_quarantine_size_kb=64 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
known=(unit check kernel e2e attack fuzz)

refuse() {
	echo "tests/run.sh: $1 (tests/run.sh --help)" >&2
	exit 2
}
labels=()
for word in "$@"; do
	case $word in
	-h | --help)
		sed -n '3,18s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
		exit 0
		;;
	-*) refuse "there is no option '$word'" ;;
	esac
	[[ " ${known[*]} " = *" $word "* ]] || refuse "there is no label '$word'; labels are ${known[*]}"
	labels+=("$word")
done
[ ${#labels[@]} -gt 0 ] || labels=("${known[@]}")
[[ $jobs =~ ^[1-9][0-9]*$ ]] || refuse "JOBS is '$jobs', not a number from 1"
mkdir -p "$build" 2>/dev/null && [ -w "$build" ] || refuse "cannot write to the build folder $build"
build=$(cd "$build" && pwd)
: >"$build/again.list"

# pattern LABEL...: those that the command line chose, as a regular expression; fails where it chose none.
pattern() {
	local label chosen=()
	for label in "$@"; do
		[[ " ${labels[*]} " = *" $label "* ]] && chosen+=("$label")
	done
	[ ${#chosen[@]} -gt 0 ] || return 1
	local IFS='|'
	echo "^(${chosen[*]})\$"
}

# CPU time of ended children, in $cpu_s. A tick is 10 ms.
children_cpu() {
	local stat
	read -r -a stat <"/proc/$BASHPID/stat"
	cpu_s=$(((stat[15] + stat[16]) / 100))
}

# phase NAME COMMAND...: runs it, then prints its time.
phase() {
	local name=$1 started=$SECONDS status=0 before_s cpu_s
	shift
	children_cpu
	before_s=$cpu_s
	"$@" || status=$?
	children_cpu
	echo "== $name: $((SECONDS - started)) s, $((cpu_s - before_s)) s of CPU$([ "$status" -eq 0 ] || echo ', failed')"
	return "$status"
}

# build PRESET TARGET [OPTION...]: prints only a failure.
build() {
	local preset=$1 target=$2 folder=$build/$1
	shift 2
	if ! { cmake -S "$source" --preset "$preset" -B "$folder" "$@" && ninja -C "$folder" -j "$jobs" "$target"; } >"$folder.log" 2>&1; then
		tail -n 60 "$folder.log" >&2
		echo "tests/run.sh: the build failed; its log: $folder.log" >&2
		return 1
	fi
}

# run FOLDER OPTION...: ctest there. Reasons of skipped tests come before ctest's closing lines.
run() {
	local folder=$1 log=$1/run.log status=0 started=$SECONDS
	shift
	(cd "$folder" && ctest --output-on-failure --no-tests=error "$@") 2>&1 | tee "$log" |
		sed -u '/% tests passed/,$d' || status=$?
	if grep -q '\*\*\*Skipped' "$log"; then
		echo "Skipped, and why:"
		skipped_reasons "$folder" "$log"
		echo
	fi
	if grep -q '\*\*\*\(Failed\|Exception\|Timeout\)' "$log"; then
		echo "Failed, and why:"
		sed -n -E 's/^.*Test +#[0-9]+: ([^ ]+) .*\*\*\*([A-Za-z]+).*/\1: \2/p; /^FAIL: |error: Failure|ERROR: [A-Za-z]*Sanitizer/p' "$log" | sed 's/^/  /'
		echo
	fi
	echo "== ctest $folder: $((SECONDS - started)) s"
	sed -n '/% tests passed/,$p' "$log"
	return "$status"
}

# beside NAME FOLDER OPTION...: a phase of tests while other work runs. Tests that fail are added to again.list.
beside() {
	local failed
	phase "$1" run "${@:2}" && return
	failed=$(sed -n -E 's/^.*Test +#[0-9]+: ([^ ]+) .*\*\*\*(Failed|Exception|Timeout).*/\1/p' "$2/run.log")
	[ -n "$failed" ] || return 1 # a phase without a test fails as well
	sed "s|^|$2 |" <<<"$failed" >>"$build/again.list"
}

# What failed beside other work, alone. More than three failures are not for want of a processor.
failed_again() {
	local folder names failed=0
	[ -s "$build/again.list" ] || return 0
	echo "== failed beside other work: $(cut -d' ' -f2 "$build/again.list" | paste -sd' ')"
	[ "$(wc -l <"$build/again.list")" -le 3 ] || return 1
	for folder in $(cut -d' ' -f1 "$build/again.list" | sort -u); do
		names=$(sed -n "s|^$folder ||p" "$build/again.list" | sed 's/\./\\./g' | paste -sd'|')
		phase "the same, alone" run "$folder" -R "^($names)\$" || failed=1
	done
	[ "$failed" -ne 0 ] || echo "== passed alone"
	return "$failed"
}

skipped_reasons() {
	local all=$1/Testing/Temporary/LastTest.log name
	sed -n 's/.*Test *#[0-9]*: *\([^ ]*\) .*\*\*\*Skipped.*/\1/p' "$2" | while read -r name; do
		printf '  %s: %s\n' "$name" "$(awk -v name="$name" '
			$0 ~ /^[0-9]+\/[0-9]+ Test(ing)?: / { inside = ($NF == name) }
			inside && /SKIP|[Ss]kip/ && !/^Test / { print; exit }' "$all" 2>/dev/null)"
	done
}

# Files of unit tests are in memory where it suffices: on a disk their databases wait for it.
in_memory() {
	local free
	free=$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1)
	[ -w /dev/shm ] && [ "${free:-0}" -gt 1000000 ] || return 0
	export TMPDIR=/dev/shm
}

# What needs the processor and no exact time. A subfolder has its own records: two ctest in one folder disturb each other.
calculations() {
	local status=0
	in_memory
	if [ -n "$quick" ]; then
		phase "gcc: build of whole programs" build ci optimized -DRANKTRACE_TESTS=ON &&
			beside "gcc: whole programs and checks" "$build/ci/tests" -j "$jobs" -L "$quick" || status=1
	fi
	if [ -n "$sanitized" ]; then
		if phase "clang, sanitizers, fuzz targets: build" build sanitized sanitized; then
			beside "clang, sanitizers: tests" "$build/sanitized" -j "$jobs" -L "$sanitized" -LE '^optimized$' || status=1
		else
			status=1
		fi
	fi
	return "$status"
}

# What runs beside the tests that watch the machine. Virtual machines come first, and not last in turn for a processor: with little
# of one, a kernel needs it for its own timers.
side() {
	local status=0
	renice -n 10 -p "$BASHPID" >/dev/null 2>&1 || true # a user may not, where this runs at nice 15
	if [[ " ${labels[*]} " = *" e2e "* ]]; then
		beside "other kernels" "$build/ci/tests/vm" -L '^vm$' || status=1
	fi
	renice -n 19 -p "$BASHPID" >/dev/null
	calculations || status=1
	return "$status"
}

roots_pid=
side_pid=
cleanup() {
	local pid
	# Not the packages: what installs them must come to its end.
	for pid in $side_pid $roots_pid; do kill -TERM -- "-$pid" 2>/dev/null || true; done
}
trap cleanup EXIT
trap 'exit 130' INT TERM

sanitized=$(pattern unit fuzz || true)
quick=$(pattern unit check || true)
quick=${quick/unit/optimized}
watching=$(pattern kernel e2e attack || true)
unwatched=$(comm -13 <(printf '%s\n' "${labels[@]}" | sort) <(printf '%s\n' "${known[@]}" | sort) | paste -sd'|')
unwatched="^(${unwatched:-none})\$"
status=0
started=$SECONDS
phase "packages of the build" "$source/packaging/install-deps.sh"
set -m # a process group of its own, as of all that runs beside
phase "packages of the tests" "$source/packaging/install-deps.sh" --tests >"$build/packages.log" 2>&1 </dev/null &
packages_pid=$!
set +m
if [ -n "$quick$watching" ]; then
	phase "gcc: build of what is packaged" build ci all -DRANKTRACE_TESTS=OFF || status=1
fi
wait "$packages_pid" || status=1
cat "$build/packages.log"
[ "$status" -eq 0 ] || exit 1
if [[ " ${labels[*]} " = *" e2e "* ]] && [ "$(id -u)" -eq 0 ]; then
	# Downloads, for the most part. A failure is reported by the tests that need the root.
	set -m
	phase "root of another suite" nice "$source/tests/e2e/roots.sh" --make trixie >"$build/roots.log" 2>&1 </dev/null &
	roots_pid=$!
	set +m
fi
if [ -n "$watching" ]; then
	phase "gcc: build of the tests that watch the machine" build ci watching -DRANKTRACE_TESTS=ON || exit 1
fi
if [ -n "$watching" ]; then
	set -m
	side >"$build/calculations.log" 2>&1 </dev/null &
	side_pid=$!
	set +m
	beside "gcc: tests that judge no time" "$build/ci" -j "$jobs" -L "$watching" -LE '^(realtime|vm|beside)$' || status=1
	if [[ " ${labels[*]} " = *" e2e "* ]]; then
		beside "gcc: tests that run beside each other" "$build/ci" -j "$jobs" -L '^beside$' || status=1
	fi
	phase "wait for what runs beside" wait "$side_pid" || status=1
	side_pid=
	cat "$build/calculations.log"
	if [ -n "$roots_pid" ]; then
		wait "$roots_pid" || true
		roots_pid=
		cat "$build/roots.log"
	fi
	echo "== $((SECONDS - started)) s so far"
	phase "gcc: tests that judge time" run "$build/ci" -L '^realtime$' -LE "$unwatched" || status=1
else
	calculations || status=1
fi
failed_again || status=1
exit "$status"
