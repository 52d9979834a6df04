#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds everything as every build type with gcc and clang; warnings are errors. Then builds and tries one of each extension of
# docs/extending.md (tests/check/places.sh --build). Runs no other test.
#
#   tests/builds.sh [COMPILER|TYPE]...
#       COMPILER  gcc, clang; both without one
#       TYPE      Release, Debug, RelWithDebInfo, MinSizeRel; all four without one
#
# BUILD_DIR moves the build folders, JOBS sets the number of compilers at a time. Exit status: 0 all build, 1 one does
# not, 2 wrong usage.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${BUILD_DIR:-$source/build}/types
jobs=${JOBS:-$(nproc)}

usage() { sed -n '3,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
refuse() {
	echo "tests/builds.sh: $1 (tests/builds.sh --help)" >&2
	exit 2
}

compilers=()
types=()
for word in "$@"; do
	case $word in
	-h | --help) usage && exit 0 ;;
	gcc | clang) compilers+=("$word") ;;
	Release | Debug | RelWithDebInfo | MinSizeRel) types+=("$word") ;;
	*) refuse "'$word' is no compiler (gcc, clang) and no build type (Release, Debug, RelWithDebInfo, MinSizeRel)" ;;
	esac
done
[[ $jobs =~ ^[1-9][0-9]*$ ]] || refuse "JOBS is '$jobs', not a number from 1"
[ ${#compilers[@]} -gt 0 ] || compilers=(gcc clang)
[ ${#types[@]} -gt 0 ] || types=(Release Debug RelWithDebInfo MinSizeRel)

"$source/packaging/install-deps.sh" --tests
mkdir -p "$build"
status=0
for compiler in "${compilers[@]}"; do
	for type in "${types[@]}"; do
		folder=$build/$compiler-$type
		started=$SECONDS
		if cmake -S "$source" -B "$folder" -G Ninja -DCMAKE_C_COMPILER="$compiler" -DCMAKE_BUILD_TYPE="$type" \
			-DRANKTRACE_WERROR=ON >"$folder.log" 2>&1 && ninja -C "$folder" -j "$jobs" -k 0 >>"$folder.log" 2>&1; then
			echo "$compiler $type: built in $((SECONDS - started)) s"
		else
			grep -E ': (fatal )?error: |^CMake Error|undefined reference' "$folder.log" | sort -u >&2 || tail -n 20 "$folder.log" >&2
			echo "$compiler $type: does not build; log: $folder.log" >&2
			status=1
		fi
	done
done
folder=$build/${compilers[0]}-${types[0]}
started=$SECONDS
if "$source/tests/check/places.sh" "$source" "$folder" --build >"$build/places.log" 2>&1; then
	echo "extensions: built and tried in $((SECONDS - started)) s"
else
	tail -n 20 "$build/places.log" >&2
	status=1
fi
exit "$status"
