#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# docs/limits.md is what limits.def gives, and the code uses each limit of it. limits.sh SOURCE BUILD
set -euo pipefail
cd "$1"
failed=0
"$2/docs/limits-doc" | diff docs/limits.md - || {
	echo "docs/limits.md is not what daemon/core/limits.def says: cmake --build $2 --target limits-md"
	failed=1
}
count=0
while read -r macro id; do
	name=$id
	[ "$macro" = LIMIT_OF ] || name=LIMIT_$id
	grep -rqw --include='*.[ch]' "$name" daemon bpf analyzers || {
		echo "no code uses $name"
		failed=1
	}
	count=$((count + 1))
done < <(sed -n 's/^\(LIMIT\|LIMIT_OF\)(\([A-Za-z_]*\),.*/\1 \2/p' daemon/core/limits.def)
[ "$count" -ge 20 ] || {
	echo "only $count limits found in limits.def"
	failed=1
}
exit "$failed"
