#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The man page explains every measure that findings name. measured.sh SOURCE
set -euo pipefail
cd "$1"
mapfile -t names < <({
	sed -n 's/^HOST_[A-Z]*([A-Z_]*, [a-z_, ]*"\([a-z_]*\)".*/\1/p' analyzers/align/host_measures.def
	sed -n 's/^ACTIVITY([A-Z_]*, \([a-z_]*\),.*/\1/p' analyzers/steps/activities.def
	sed -n '/^FINDING_CAUSE(/ { n; s/^\t"\([a-z_][a-z_]*\)",.*/\1/p }' analyzers/finding/causes.def
	grep -rhoE --include='*.c' 'finding_add\([^"]*"[a-z_]+"' analyzers daemon | sed 's/.*"\(.*\)"/\1/' | grep -vxE 'ns|none'
} | sort -u)
# One of each source.
for name in run_delay forward xid memory_growth; do
	[[ " ${names[*]} " = *" $name "* ]] || {
		echo "$name: not among the names that were found"
		exit 1
	}
done
failed=0
for name in "${names[@]}"; do
	grep -qE "^\.It Cm (.* , )?$name( ,.*)?$" man/tracectl.1 || { echo "$name: not in man/tracectl.1" && failed=1; }
done
exit "$failed"
