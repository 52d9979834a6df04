#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A source has at most 1,000 lines. size.sh SOURCE
set -euo pipefail
cd "$1"
long=$(find analyzers bpf ctl daemon proto stacks tests -name '*.[ch]' -not -path '*/build*' -type f -exec \
	awk 'FNR == 1001 { print FILENAME ": more than 1000 lines" }' {} +)
[ -z "$long" ] || {
	echo "$long"
	exit 1
}
