# SPDX-License-Identifier: Apache-2.0
# bash completion for tracectl, which knows its verbs and options itself (ctl/verbs.def).

_tracectl()
{
	local cur=${COMP_WORDS[COMP_CWORD]} word

	[[ $cur == "=" ]] && cur=
	COMPREPLY=()
	while read -r word; do
		case $word in
		:file) mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$cur") ;;
		:folder) mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$cur") ;;
		*) COMPREPLY+=("$word") ;;
		esac
	done < <("${COMP_WORDS[0]}" complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
	[[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
	return 0
}

complete -F _tracectl tracectl
