#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every shell script passes shellcheck. shell.sh SOURCE
set -euo pipefail
command -v shellcheck >/dev/null || {
	echo "skipped: no shellcheck here"
	exit 77
}
cd "$1"
mapfile -t scripts < <(find . -path './.git' -prune -o -path './build*' -prune -o -type f \( -name '*.sh' -o -path './.ci/run' \) -print | sort)
[ ${#scripts[@]} -gt 3 ]
# SC2154, SC2034: variables that a sourced lib.sh sets or reads. SC2207: words of a command's output split on purpose.
shellcheck -S warning -e SC2154,SC2034,SC2207 "${scripts[@]}"
