#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Levels and switches of proto/levels.def are in the man page, the completion and the documents. levels.sh SOURCE
set -euo pipefail
cd "$1"
mapfile -t words < <(sed -n 's/^LEVEL([A-Z0-9_]*, "\([^"]*\)".*/\1/p' proto/levels.def)
[ ${#words[@]} -gt 4 ] || {
	echo "no levels found in proto/levels.def"
	exit 1
}
failed=0
for word in "${words[@]}"; do
	grep -qxF ".It Cm $word" man/tracectl.1 || { echo "$word: not in man/tracectl.1" && failed=1; }
	grep -qE "set\).*[\" ]${word//./\\.}= " ctl/completion/tracectl.bash || { echo "set $word: not in the completion" && failed=1; }
	grep -qE "print\).*[\" ]${word//./\\.} " ctl/completion/tracectl.bash || { echo "print $word: not in the completion" && failed=1; }
	for document in README.md docs/operations.md; do
		grep -qE "^\| (\`${word//./\\.}\`|${word//./\\.}) \|" "$document" || { echo "$word: not in the table of $document" && failed=1; }
	done
done
exit "$failed"
