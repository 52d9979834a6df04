#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Sources are as clang-format writes them, by .clang-format. Other versions than 14 differ from it. format.sh SOURCE
set -euo pipefail
cd "$1"
program=$(command -v clang-format-14 || command -v clang-format || true)
if [ -z "$program" ] || [[ $("$program" --version) != *" version 14."* ]]; then
	echo "SKIP: no clang-format 14"
	exit 77
fi
mapfile -t files < <(find analyzers bpf ctl daemon docs proto stacks tests -name '*.[ch]' -not -path '*/build*' -not -name '*.skel.h' -type f)
[ ${#files[@]} -gt 500 ] || {
	echo "only ${#files[@]} sources found"
	exit 1
}
wrong=$(printf '%s\n' "${files[@]}" | xargs -n 40 "$program" --dry-run 2>&1 | sed -n 's/^\([^:]*\):.*-Wclang-format-violations.*/\1/p' | sort -u)
[ -z "$wrong" ] || {
	echo "$wrong"
	echo "run: clang-format -i FILE..."
	exit 1
}
