# SPDX-License-Identifier: Apache-2.0
# bash completion for tracectl: verbs, levels, switches and values, files after --socket and --state-dir.

_tracectl_verbs()
{
	tracectl help 2>/dev/null | awk '/^Verbs:/ { on = 1; next } /^$/ { on = 0 } on { print $1 }'
}

_tracectl()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} verb= i words=

	# bash splits at "=": LEVEL=VALUE comes as three words.
	[[ $cur == "=" ]] && cur=
	[[ $prev == "=" ]] && prev="${COMP_WORDS[COMP_CWORD - 2]}="
	[[ ${COMP_WORDS[COMP_CWORD]} == "=" ]] && prev="$prev="
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--socket | --state-dir | --dir | --from-systrace) ((i++)) ;;
		-*) ;;
		*)
			verb=${COMP_WORDS[i]}
			break
			;;
		esac
	done
	case $prev in
	--socket)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	-o | --output)
		# A file of a report or a trace, a folder of dumps.
		if [[ $verb == dump ]]; then words=-d; else words=-f; fi
		mapfile -t COMPREPLY < <(compgen "$words" -- "$cur")
		return
		;;
	--state-dir | --dir | --from-systrace | --keep)
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
		return
		;;
	--rank) words="0 0-7" ;;
	--level) words="L0 L1 L2 L3 L0,L1" ;;
	--for) words="1m 10m 1h" ;;
	--since | --until) words="10m 1h 12h 1d 7d" ;;
	L[0-3]= | L[0-3].*=) [[ $verb == set ]] && words="true false" ;;
	*)
		case $verb in
		"") words="$(_tracectl_verbs) --socket --state-dir --json --version --help" ;;
		set) words="L0= L1= L2= L3= L1.launches= --for --json" ;;
		interval) words="L1= L2= L3= --json" ;;
		print) words="L0 L1 L2 L3 L1.launches all --json" ;;
		help) words=$(_tracectl_verbs) ;;
		ops) words="--rank --json --socket" ;;
		status | ranks | check) words="--json --socket" ;;
		findings) words="--since --rank --all --verbose --follow --csv --json --state-dir" ;;
		report) words="--since --until --job --text --markdown --json --html --output --dir --compare-max --state-dir --journal --keep --keep-max" ;;
		timeline) words="--since --until --rank --job --output --chrome --dir --verbose --state-dir" ;;
		analyze)
			words="--since --until --dir --from-systrace --job --rank --all --verbose --csv --json --state-dir"
			words+=" --slow-percent --gain-percent --job-percent --hang-after --hang-busy-after"
			[[ " ${COMP_WORDS[*]} " == *" --dir "* && $cur != -* ]] && {
				mapfile -t COMPREPLY < <(compgen -d -- "$cur")
				return
			}
			;;
		dump) words="--since --rank --level --output --json --state-dir" ;;
		query) words="--csv --json --timeout --tables --state-dir" ;;
		esac
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
	[[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}

complete -F _tracectl tracectl
