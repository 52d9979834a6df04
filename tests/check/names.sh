#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A function's name says whose it is: it has two words or more, and is defined once in the tree. And a private header with
# one reader belongs into that reader. names.sh SOURCE
set -euo pipefail
cd "$1"
failed=0

# What C asks for by name; helpers of daemon/base/util.h, which have systemd's names.
allowed=' main streq freep closep fclosep closedirp '
functions=$(find analyzers bpf ctl daemon proto stacks -name '*.[ch]' -not -path '*/build*' -type f -print0 | sort -z | xargs -0 awk '
	# A definition begins in the first column; its name is the word before the first bracket, its body begins with "{".
	FNR == 1 { name = "" }
	/^[a-z].*[a-z0-9_]\(/ && !/;[[:space:]]*(\/\*.*\*\/)?$/ {
		head = $0
		sub(/^(_printf_\([^)]*\)|__attribute__\(\([^)]*\)\)|static|inline|[[:space:]])+/, "", head)
		sub(/__attribute__\(\(.*\)\) /, "", head)
		sub(/\(.*/, "", head)
		sub(/.*[[:space:]*]/, "", head)
		name = head
	}
	/;[[:space:]]*$/ { name = "" }
	/^\{/ { if (name != "") print name, FILENAME; name = "" }')
[ "$(wc -l <<<"$functions")" -gt 2000 ] || {
	echo "only $(wc -l <<<"$functions") functions found below $1"
	exit 1
}
while read -r count name; do
	[[ $allowed != *" $name "* ]] || continue
	if [[ $name != *_* ]]; then
		echo "$name has no prefix: $(awk -v name="$name" '$1 == name { printf "%s ", $2 }' <<<"$functions")"
		failed=1
	fi
	[ "$count" -gt 1 ] || continue
	echo "$name is defined $count times: $(awk -v name="$name" '$1 == name { printf "%s ", $2 }' <<<"$functions")"
	failed=1
done < <(cut -d' ' -f1 <<<"$functions" | sort | uniq -c)

# Public headers of a module with one reader so far, those that tests read, too, and one for each BPF program.
limit=10
mapfile -t single < <(grep -roE '"[a-z0-9_/.]+\.h"' analyzers bpf ctl daemon proto stacks --include='*.[ch]' | sort -u | awk -F: -v headers="$(
	find analyzers ctl daemon proto stacks -name '*.h' -not -path '*/build*' | sort)" '
	{
		gsub(/"/, "", $2)
		own = $2
		sub(/\.h$/, ".c", own)
		if ($1 != own) readers[$2]++
	}
	END {
		count = split(headers, header, "\n")
		for (i = 1; i <= count; i++) if (readers[header[i]] < 2) print header[i]
	}')
[ ${#single[@]} -lt $limit ] || {
	echo "${#single[@]} headers have one reader, fewer than $limit may:"
	printf '  %s\n' "${single[@]}"
	failed=1
}
exit "$failed"
