#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# All tests, from a clean clone: tests/run.sh [LABEL]...   (unit, check, kernel, e2e, fault, fuzz; none: all)
#
# Two builds: gcc as it is shipped, for every test; clang with address and undefined-behaviour sanitizers and the fuzz
# targets, for unit and fuzz. ctest runs both and its words are the last. BUILD_DIR moves the build folders.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${BUILD_DIR:-$source/build}
jobs=${JOBS:-$(nproc)}

known=(unit check kernel e2e fault fuzz)
for label in "$@"; do
	[[ " ${known[*]} " = *" $label "* ]] || {
		echo "usage: tests/run.sh [${known[*]}]..." >&2
		exit 2
	}
done

# $1: labels that this build has. Prints those of the command line among them as a pattern; fails where none is left.
pattern() {
	local wanted=("${@:2}") label chosen=()
	[ ${#wanted[@]} -gt 0 ] || wanted=("${known[@]}")
	for label in $1; do
		[[ " ${wanted[*]} " = *" $label "* ]] && chosen+=("$label")
	done
	[ ${#chosen[@]} -gt 0 ] || return 1
	local IFS='|'
	echo "^(${chosen[*]})\$"
}

# $1: folder, the rest: options of cmake. Says something only where it fails.
build() {
	local folder=$1
	shift
	if ! { cmake -S "$source" -B "$folder" -G Ninja "$@" && ninja -C "$folder" -j "$jobs"; } >"$folder.log" 2>&1; then
		tail -n 60 "$folder.log" >&2
		echo "tests/run.sh: the build failed; all of it: $folder.log" >&2
		exit 1
	fi
}

# $1: folder, $2: pattern of labels. ctest's closing lines are held back until the reasons of skipped tests are told.
test_build() {
	local log=$1/run.log status=0
	(cd "$1" && ctest --output-on-failure --no-tests=error -L "$2") 2>&1 | tee "$log" |
		awk '/% tests passed/ { hold = 1 } !hold { print; fflush() }' || status=$?
	if grep -q '\*\*\*Skipped' "$log"; then
		echo "Skipped, and why:"
		skipped_reasons "$1" "$log"
		echo
	fi
	sed -n '/% tests passed/,$p' "$log"
	return "$status"
}

skipped_reasons() {
	local all=$1/Testing/Temporary/LastTest.log name
	sed -n 's/.*Test *#[0-9]*: *\([^ ]*\) .*\*\*\*Skipped.*/\1/p' "$2" | while read -r name; do
		printf '  %s: %s\n' "$name" "$(awk -v name="$name" '
			$0 ~ /^[0-9]+\/[0-9]+ Test(ing)?: / { inside = ($NF == name) }
			inside && /SKIP|[Ss]kip/ && !/^Test / { print; exit }' "$all" 2>/dev/null)"
	done
}

status=0
"$source/packaging/install-deps.sh" --tests
mkdir -p "$build"

first=$(pattern "unit check kernel e2e fault" "$@" || true)
second=$(pattern "unit fuzz" "$@" || true)
if [ -n "$second" ]; then
	echo "== clang, sanitizers, fuzz targets: $build/sanitized"
	build "$build/sanitized" -DCMAKE_C_COMPILER=clang -DRANKTRACE_FUZZ=ON -DRANKTRACE_SANITIZE=address,undefined \
		-DCMAKE_INSTALL_PREFIX=/usr
	# Undefined behaviour fails its test, as a bad address does.
	UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 test_build "$build/sanitized" "$second" || status=$?
fi
if [ -n "$first" ]; then
	echo "== gcc: $build/release"
	build "$build/release" -DCMAKE_C_COMPILER=gcc -DCMAKE_INSTALL_PREFIX=/usr
	test_build "$build/release" "$first" || status=$?
fi
exit "$status"
