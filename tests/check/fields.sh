#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ranktraced(8) documents the fields of findings in the journal, their words and message ids, and nothing else.
# fields.sh SOURCE BUILD
set -euo pipefail
cd "$1"
section=$(sed -n '/^\.SH FINDINGS$/,/^\.SH CONTAINERS$/p' man/ranktraced.8 | sed 's/\\-/-/g')
failed=0
compare() { # what: in the source, in the manual, one a line
	[ "$(wc -l <<<"$2")" -ge "$4" ] || {
		echo "$1: too few found in the source"
		failed=1
	}
	diff <(sort -u <<<"$2") <(sort -u <<<"$3") || {
		echo "$1: the source (<) and ranktraced.8 (>) do not say the same"
		failed=1
	}
}
words() { sed -n "s/^FINDING_$1([A-Z_]*, \"\\([a-z_]*\\)\".*/\\1/p" analyzers/detect/finding_words.def; }
paragraph() { sed -n "/^\\.BR* .*RANKTRACE_$1\\b/,/^\\.TP/p" <<<"$section" | grep -v '^\.' | grep -o '[a-z_]*[a-z]'; }

compare fields "$(grep -oh '"RANKTRACE_[A-Z_]*=' daemon/findings_tell.c | tr -d '"=')" \
	"$(grep -v RANKTRACE_COMPONENT <<<"$section" | grep -o 'RANKTRACE_[A-Z_]*')" 15
compare ids "$(grep -oh 'MESSAGE_ID=[0-9a-f]\{32\}' daemon/findings_tell.c | cut -d= -f2)" \
	"$(grep -o '\b[0-9a-f]\{32\}\b' <<<"$section")" 4
compare kinds "$(words KIND)" "$(paragraph KIND)" 6
compare causes "$(words CAUSE)" "$(paragraph CAUSE)" 15
exit "$failed"
