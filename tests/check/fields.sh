#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ranktraced(8) documents the fields of findings in the journal, their words and message ids, and nothing else;
# ranktrace-report(8) those of the report.
# fields.sh SOURCE BUILD
set -euo pipefail
cd "$1"
section=$(sed -n '/^\.Sh FINDINGS$/,/^\.Sh CONTAINERS$/p' "$2/man/ranktraced.8")
failed=0
compare() { # what: in the source, in the manual, one a line
	[ "$(wc -l <<<"$2")" -ge "$4" ] || {
		echo "$1: too few found in the source"
		failed=1
	}
	diff <(sort -u <<<"$2") <(sort -u <<<"$3") || {
		echo "$1: the source (<) and the manual (>) do not say the same"
		failed=1
	}
}
words() { sed -n 's/^FINDING_[A-Z]*([A-Z_]*, \([a-z_]*\),.*/\1/p' "analyzers/finding/$1.def"; }
list() { sed -n "/^\.It Ev RANKTRACE_$1\b/,/^\.El/s/^\.It Cm \(.*\)/\1/p" <<<"$section"; }

compare fields "$(grep -oh '"RANKTRACE_[A-Z_]*=' daemon/findings/online_publish.c | tr -d '"=')" \
	"$(grep -v RANKTRACE_COMPONENT <<<"$section" | grep -o 'RANKTRACE_[A-Z_]*')" 15
compare ids "$(grep -oh 'MESSAGE_ID=[0-9a-f]\{32\}' daemon/findings/online_publish.c | cut -d= -f2)" \
	"$(grep -o '\b[0-9a-f]\{32\}\b' <<<"$section")" 4
compare kinds "$(words kinds)" "$(list KIND)" 6
compare causes "$(words causes)" "$(list CAUSE)" 15

report=analyzers/report/journal.c
section=$(sed -n '/^\.Sh JOURNAL$/,/^\.Sh FILES$/p' man/ranktrace-report.8 | sed '/^\.Bd/,/^\.Ed/d')
compare "fields of the report" "$(grep -oh '"RANKTRACE_[A-Z_]*=' "$report" | tr -d '"=')" \
	"$(grep -o 'RANKTRACE_[A-Z_]*' <<<"$section")" 16
compare "id of the report" "$(grep -oh 'MESSAGE_ID=[0-9a-f]\{32\}' "$report" | cut -d= -f2)" \
	"$(grep -o '\b[0-9a-f]\{32\}\b' <<<"$section")" 1
compare "verdicts of the report" "$(sed -n 's/.*verdicts\[REPORT_VERDICT_MAX\] = {\(.*\)};/\1/p' "$report" | grep -o '[a-z_]*')" \
	"$(sed -n '/^\.It Ev RANKTRACE_VERDICT/,/^\.It/p' <<<"$section" | grep '^\.Cm' | grep -o '[a-z_]\{3,\}')" 4
exit "$failed"
