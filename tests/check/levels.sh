#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Levels and switches of proto/levels.def are in the man page, the completion and the documents. levels.sh SOURCE BUILD
set -euo pipefail
cd "$1"
tracectl=$2/ctl/tracectl
[ -x "$tracectl" ] || { echo "SKIP: nothing is built" && exit 77; }
mapfile -t words < <(sed -n 's/^LEVEL([A-Z0-9_]*, "\([^"]*\)".*/\1/p' proto/levels.def)
[ ${#words[@]} -gt 4 ] || {
	echo "no levels found in proto/levels.def"
	exit 1
}
failed=0
for word in "${words[@]}"; do
	grep -qxF ".It Cm $word" man/tracectl.1 || { echo "$word: not in man/tracectl.1" && failed=1; }
	"$tracectl" complete set "" | grep -qxF "$word=" || { echo "set $word: not in the completion" && failed=1; }
	"$tracectl" complete print "" | grep -qxF "$word" || { echo "print $word: not in the completion" && failed=1; }
	for document in README.md docs/operations.md; do
		grep -qE "^\| (\`${word//./\\.}\`|${word//./\\.}) \|" "$document" || { echo "$word: not in the table of $document" && failed=1; }
	done
done
exit "$failed"
