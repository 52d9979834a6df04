#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every source has a licence header; bpf/ has the kernel's licence. spdx.sh SOURCE
set -euo pipefail
cd "$1"
find analyzers bpf ctl daemon packaging proto stacks systemd tests \( -name '*.[ch]' -o -name '*.sh' -o -name '*.in' \
	-o -name '*.def' -o -name '*.proto' \) -not -path '*/build*' -type f -print0 | sort -z | xargs -0 awk '
	function judge() {
		if (files > 0 && !found) {
			print file ": its first lines do not say \"SPDX-License-Identifier: " want "\""
			bad = 1
		}
	}
	FNR == 1 {
		judge()
		file = FILENAME
		files++
		found = 0
		want = file ~ /^bpf\/.*(\.h|\.bpf\.c)$/ && file !~ /^bpf\/marker\// ? "GPL-2.0-only OR BSD-2-Clause" : "Apache-2.0"
	}
	FNR <= 3 { found = found || $0 ~ ("SPDX-License-Identifier: " want "( \\*/)?$") }
	END {
		judge()
		if (files <= 20) {
			print "only " files " sources found"
			bad = 1
		}
		exit bad
	}'
