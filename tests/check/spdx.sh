#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every source has a licence header; bpf/ has the kernel's licence. spdx.sh SOURCE
set -euo pipefail
cd "$1"
failed=0
files=0
while read -r file; do
	want="Apache-2.0"
	case "$file" in
	bpf/*.h | bpf/*.bpf.c) [[ "$file" = bpf/marker/* ]] || want="GPL-2.0-only OR BSD-2-Clause" ;;
	esac
	files=$((files + 1))
	head -n 3 "$file" | grep -qE "SPDX-License-Identifier: $want( \*/)?$" || {
		echo "$file: its first lines do not say 'SPDX-License-Identifier: $want'"
		failed=1
	}
done < <(find analyzers bpf ctl daemon packaging proto stacks systemd tests \( -name '*.[ch]' -o -name '*.sh' -o -name '*.in' \
	-o -name '*.def' -o -name '*.proto' \) -not -path '*/build*' -type f | sort)
[ "$files" -gt 20 ] || {
	echo "only $files sources found below $1"
	exit 1
}
exit "$failed"
