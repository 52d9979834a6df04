#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Attacks the daemon and its tools as a user without privileges, beside a victim that must lose nothing.
#
#   tests/attack/run.sh [NAME]...
#   tests/attack/run.sh --together SECONDS
#       NAME        a number (8), a name (links) or both (08_links); all without one
#       --together  all that attack a daemon at one time, again and again, on one daemon beside one victim
#
# BUILD is the build folder (build/ci, else build), with tests built. Needs root: the daemon itself runs as a plain user with
# the unit's four capabilities in a memory cgroup of 512 MiB, the attacker as uid 65534. Ends with a table; the logs of
# attacks that failed come before it. Exit status: 0 all held, 1 one did not, 2 wrong usage.
set -euo pipefail
folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source=$(cd "$folder/../.." && pwd)
BUILD=${BUILD:-$([ -d "$source/build/ci" ] && echo "$source/build/ci" || echo "$source/build")}
export BUILD

refuse() {
	echo "tests/attack/run.sh: $1 (tests/attack/run.sh --help)" >&2
	exit 2
}
chosen=()
for word in "$@"; do
	case $word in
	-h | --help)
		sed -n '3,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
		exit 0
		;;
	--together)
		[[ $# -eq 2 && $2 =~ ^[1-9][0-9]*$ ]] || refuse "--together takes a number of seconds and nothing else"
		exec "$folder/together.sh" "$2"
		;;
	-*) refuse "there is no option '$word'" ;;
	esac
	found=
	for script in "$folder"/[0-9][0-9]_*.sh; do
		name=$(basename "$script" .sh)
		[ "$word" = "$name" ] || [ "$word" = "${name#*_}" ] || { [[ $word =~ ^[0-9]+$ ]] && [ $((10#$word)) -eq $((10#${name%%_*})) ]; } || continue
		found=1
		chosen+=("$script")
	done
	[ -n "$found" ] || refuse "there is no attack '$word'"
done
[ "$#" -gt 0 ] || chosen=("$folder"/[0-9][0-9]_*.sh)
[ -x "$BUILD/daemon/ranktraced" ] || refuse "nothing is built in $BUILD"

logs=$(mktemp -d "${TMPDIR:-/tmp}/ranktrace-attacks.XXXXXX")
trap 'rm -rf "$logs"' EXIT
figure() { sed -n "s/^$2=//p" "$logs/$1.figures" 2>/dev/null | tail -n 1; }
table=()
failed=0
for script in "${chosen[@]}"; do
	name=$(basename "$script" .sh)
	started=$SECONDS
	code=0
	ATTACK_FIGURES=$logs/$name.figures "$script" >"$logs/$name.log" 2>&1 </dev/null || code=$?
	case $code in
	0) result=held why= ;;
	77) result=skipped why=$(sed -n 's/^SKIP: //p' "$logs/$name.log" | head -n 1) ;;
	*)
		result=FAILED why=$(sed -n 's/^FAIL: //p' "$logs/$name.log" | head -n 1)
		failed=$((failed + 1))
		echo "---- $name"
		cat "$logs/$name.log"
		;;
	esac
	# A limit that could not be set is shown also where the attack held.
	[ -n "$why" ] || why=$(sed -n 's/^NOTE: //p' "$logs/$name.log" | head -n 1)
	table+=("$(printf '%-24s %-8s %7d %10s %8s %10s %8s %8s  %s' "$name" "$result" "$((SECONDS - started))" \
		"$(figure "$name" status_ms)" "$(figure "$name" loop_ms)" "$(figure "$name" memory_mib)" "$(figure "$name" steps)" \
		"$(figure "$name" calls)" "$why")")
	echo "$name: $result"
done
echo
printf '%-24s %-8s %7s %10s %8s %10s %8s %8s  %s\n' attack result seconds "status ms" "loop ms" "memory MiB" steps calls note
printf '%s\n' "${table[@]}"
[ "$failed" -eq 0 ]
