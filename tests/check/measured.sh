#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The man page explains every measure that findings name. measured.sh SOURCE
set -euo pipefail
cd "$1"
mapfile -t names < <({
	sed -n 's/^\t\[JUDGE_[A-Z_]*\] = {"\([a-z_]*\)".*/\1/p' analyzers/judge/judge_episode.c
	sed -n 's/^ACTIVITY([A-Z_]*, \([a-z_]*\),.*/\1/p' analyzers/steps/activities.def
	grep -hoE 'finding_add\([^"]*"[a-z_]+"' analyzers/judge/*.c analyzers/detect/*.c | sed 's/.*"\(.*\)"/\1/' | grep -vx ns
} | sort -u)
[ ${#names[@]} -gt 15 ] || {
	echo "no names of measures found"
	exit 1
}
failed=0
for name in "${names[@]}"; do
	grep -qE "^\.It Cm (.* , )?$name( ,.*)?$" man/tracectl.1 || { echo "$name: not in man/tracectl.1" && failed=1; }
done
exit "$failed"
