#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The built man pages are mdoc that mandoc accepts, and render as written. man.sh SOURCE BUILD
set -euo pipefail
command -v mandoc >/dev/null || {
	echo "skipped: no mandoc here"
	exit 77
}
cd "$2/man"
pages=(*.[1-8])
[ ${#pages[@]} -ge 4 ] || {
	echo "too few man pages in $2/man"
	exit 1
}
failed=0
complain() { echo "$1" && failed=1; }

# A manual tree of the built pages only, for mandoc to resolve .Xr.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for page in "${pages[@]}"; do
	mkdir -p "$work/man${page##*.}"
	cp "$page" "$work/man${page##*.}/"
done

render() { # renderer, page
	case "$1" in
	mandoc-*) mandoc -T"${1#mandoc-}" -O width=78 "$2" ;;
	groff-*) groff -mdoc -rLL=78n -ww -P-c -T"${1#groff-}" "$2" 2>"$work/errors" ;;
	esac | sed 's/.\x08//g' >"$work/text"
}
renderers=(mandoc-utf8 mandoc-ascii)
! command -v groff >/dev/null || renderers+=(groff-utf8 groff-ascii)

export LC_ALL=C.UTF-8
for page in "${pages[@]}"; do
	grep -q '^\.Dd ' "$page" || complain "$page: not mdoc"
	! grep -n '@[A-Z_]*@' "$page" || complain "$page: a variable is not filled in"
	MANPATH=$work mandoc -Tlint -W style "$page" >"$work/lint" 2>&1 || complain "$page: mandoc -Tlint complains"
	grep -v 'outdated mandoc.db' "$work/lint" || true
	for renderer in "${renderers[@]}"; do
		: >"$work/errors"
		render "$renderer" "$page"
		[ ! -s "$work/errors" ] || complain "$page, $renderer: $(head -n 3 "$work/errors")"
		[ "$(wc -l <"$work/text")" -gt 40 ] || complain "$page, $renderer: no text"
		! grep -nE '.{79}' "$work/text" || complain "$page, $renderer: wider than 78 columns"
		# .Ql encloses all words of its line: two on a line nest.
		! grep -nE "’’|‘[^’]*‘" "$work/text" || complain "$page, $renderer: nested quotes"
		# Readers paste commands into a shell: no typographic quote or hyphen in a display.
		while IFS= read -r line; do
			grep -qF -- "$line" "$work/text" || complain "$page, $renderer: not rendered as written: $line"
		done < <(sed -n '/^\.Bd -literal/,/^\.Ed/p' "$page" | grep -v '^\.' | sed "s/\\\\(aq/'/g; s/\\\\-/-/g")
	done
done
exit "$failed"
