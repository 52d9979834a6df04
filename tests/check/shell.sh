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
shellcheck -S warning "${scripts[@]}"
