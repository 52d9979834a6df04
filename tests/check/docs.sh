#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# README.md and docs/: size, links, verbs, paths and glossary. docs.sh SOURCE
set -euo pipefail
cd "$1"
failed=0
bad() {
	echo "$1"
	failed=1
}

bytes=$(wc -c <README.md)
[ "$bytes" -le 12288 ] || bad "README.md: $bytes bytes, at most 12288"

mapfile -t documents < <(printf '%s\n' README.md docs/*.md)
[ ${#documents[@]} -ge 9 ] || bad "only ${#documents[@]} documents found"

# anchors FILE: anchors of its headings: lower case, blanks to dashes, no punctuation; a duplicate ends in -1.
anchors() {
	awk '/^```/ { code = !code } !code && /^#+ / { sub(/^#+ +/, ""); print }' "$1" | tr 'A-Z ' 'a-z-' | sed 's/[^a-z0-9_-]//g' |
		awk '{ print seen[$0]++ ? $0 "-" seen[$0] - 1 : $0 }'
}

declare -A known # FILE#ANCHOR; read once a file, not once a link
learn() {
	local anchor
	[ -z "${known[$1#]:-}" ] || return 0
	known[$1#]=1
	while read -r anchor; do known[$1#$anchor]=1; done < <(anchors "$1")
}
links=0
for document in "${documents[@]}"; do
	folder=${document%/*}
	[ "$folder" != "$document" ] || folder=.
	while read -r link; do
		case "$link" in http://* | https://* | mailto:*) continue ;; esac
		links=$((links + 1))
		target=${link%%#*}
		file=$document
		[ -z "$target" ] || file=$folder/$target
		[ -e "$file" ] || {
			bad "$document: link to $link: no such file"
			continue
		}
		[[ "$link" = *'#'* ]] || continue
		learn "$file"
		[ -n "${known[$file#${link#*#}]:-}" ] || bad "$document: link to $link: no such heading"
	done < <(grep -oE '\]\([^) ]+\)' "$document" | sed 's/^](//; s/)$//')
done
[ "$links" -gt 20 ] || bad "only $links relative links found"

# Verbs of tracectl; a word in capitals stands for any.
mapfile -t verbs < <({
	sed -nE 's/^(VERB|PROGRAM)\(([a-z]+),.*/\2/p' ctl/verbs.def 2>/dev/null || true
	sed -nE 's/^\t\{"([a-z]+)", .*/\1/p' ctl/verbs.c
} | sort -u)
[ ${#verbs[@]} -ge 10 ] || bad "only ${#verbs[@]} verbs found in ctl/"
used=0
while IFS=: read -r document verb; do
	used=$((used + 1))
	[[ " ${verbs[*]} " = *" $verb "* ]] || bad "$document: there is no verb tracectl $verb"
done < <(grep -oE '(^|[`$ ])tracectl [a-z]+' /dev/null "${documents[@]}" | sed -E 's/:.*tracectl /:/' | sort -u)
[ "$used" -gt 20 ] || bad "only $used uses of verbs found"

# Paths of this repository in backquotes exist.
paths=0
while IFS=: read -r document path; do
	[[ "$path" != *[A-Z][A-Z]* || "$path" = *RESULTS.md ]] || continue # NAME, VERB
	[[ "$path" != bpf/*.\* && "$path" != *\** ]] || continue
	paths=$((paths + 1))
	[ -e "$path" ] || bad "$document: there is no $path"
done < <(grep -oE '`(analyzers|bpf|ctl|daemon|docs|man|packaging|proto|systemd|tests)/[^` ]*`' /dev/null "${documents[@]}" | tr -d '`' | sort -u)
[ "$paths" -gt 20 ] || bad "only $paths paths found"

# The manual explains evidence: what the code adds by a name in its text, and that of causes.
manual=$(awk '/^\.Cm evidence$/ { on = 1 } on && /^\.El/ { exit } on && /^\.It Cm/' man/tracectl.1)
named=0
while read -r name; do
	named=$((named + 1))
	grep -qwF "$name" <<<"$manual" || bad "man/tracectl.1: evidence $name is not explained"
done < <({
	find analyzers daemon -name '*.c' -exec cat {} + | tr '\n' ' ' | grep -oE 'finding_add\([^,"]*,[[:space:]]*"[a-z_]+"' | grep -oE '"[a-z_]+"'
	sed -nE 's/^\t("[a-z_]+"), .*/\1/p' analyzers/finding/causes.def
} | tr -d '"' | sort -u)
[ "$named" -gt 20 ] || bad "only $named pieces of evidence found"

for word in rank job node card step stage mark operation communicator group level probe site collector record sink sample segment \
	tier "step frame" detector verdict finding cause evidence; do
	grep -qF "| **$word** |" docs/glossary.md || bad "docs/glossary.md: $word is not explained"
done
for word in activity episode gauge growth peers role usual window workers; do # in the row of another
	grep -qF "**$word**" docs/glossary.md || bad "docs/glossary.md: $word is not explained"
done
exit "$failed"
