#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each verb's options are the same in its help, in the man page and in the completion. options.sh SOURCE BUILD
set -euo pipefail
cd "$1"
tracectl=$2/ctl/tracectl
[ -x "$tracectl" ] && [ -d "$2/libexec/ranktrace" ] || { echo "SKIP: nothing is built" && exit 77; }
export RANKTRACE_LIBEXEC=$2/libexec/ranktrace RANKTRACE_SOCKET=/nonexistent
# Of every verb, or what only the daemon gives to its programs and to itself.
common=' help version socket state-dir extend window size-max age-max check '
failed=0
complain() { echo "$1" && failed=1; }
# documents FLAG: a line ".It ... Fl FLAG" of $man. By the shell alone: a program for each option takes ten times as long.
documents() {
	local item=$'\n.It [^\n]*Fl '$1$'[ \n]'
	[[ $'\n'$man$'\n' =~ $item ]]
}
verbs=$("$tracectl" help | awk '/^Verbs:/ { on = 1; next } /^$/ { on = 0 } on { print $1 }')
[ "$(wc -w <<<"$verbs")" -gt 12 ] || complain "tracectl help does not list its verbs"
mapfile -t completed < <(bash -c '
	source ctl/completion/tracectl.bash
	for verb in '"$(tr '\n' ' ' <<<"$verbs")"'; do
		COMP_WORDS=('"$tracectl"' "$verb" --) COMP_CWORD=2 COMPREPLY=()
		_tracectl
		echo "$verb ${COMPREPLY[*]}"
	done' 2>/dev/null)
for verb in $verbs; do
	help=$("$tracectl" help "$verb") || complain "tracectl help $verb fails"
	# The verb's section of the man page.
	man=$(awk -v verb="$verb" '/^\.Ss / { on = ($2 == verb) } /^\.Sh / { on = 0 } on' man/tracectl.1)
	[ -n "$man" ] || complain "$verb: not in man/tracectl.1"
	line=$(printf '%s\n' "${completed[@]}" | grep "^$verb ") || complain "$verb: not completed"
	for option in $(grep -oE -- '(^|[^-a-z])--[a-z][a-z-]+' <<<"$help" | sed 's/.*--//' | sort -u); do
		[[ $common != *" $option "* ]] || continue
		[[ " $line " = *" --$option "* ]] || complain "$verb --$option: not in the completion"
		# An option for programs alone stands with the common ones, "-o" may stand for --output.
		documents "-$option" || [ "$option" = json ] || { [ "$option" = output ] && documents o; } || complain "$verb --$option: not in man/tracectl.1"
	done
	for option in $(grep -oE -- ' --[a-z][a-z-]+' <<<"$line" | sed 's/.*--//'); do
		[[ $common = *" $option "* ]] || [[ $help$'\n' =~ --${option}[^a-z-] ]] || complain "$verb --$option: completed, and not in its help"
	done
done
exit "$failed"
