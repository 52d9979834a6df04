#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A source has at most 1,000 lines. size.sh SOURCE
set -euo pipefail
cd "$1"
failed=0
while read -r file; do
	lines=$(wc -l <"$file")
	[ "$lines" -le 1000 ] || {
		echo "$file: $lines lines, at most 1000"
		failed=1
	}
done < <(find analyzers bpf ctl daemon proto stacks tests -name '*.[ch]' -not -path '*/build*' -type f | sort)
exit "$failed"
