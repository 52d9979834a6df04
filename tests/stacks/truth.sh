#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Python stacks read from outside are those that the program says it has.
#
#   truth.sh READER                                 this machine's Python for a few seconds, as in CI
#   truth.sh READER SECONDS ROUNDS PYTHON... [torch | compile]  each of these: a path, or ROOT:PATH for one in another root
#
# Prints a table of counts for each.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
reader=$1
seconds=${2:-5}
rounds=${3:-400}
shift $(($# < 3 ? $# : 3))
[ $# -gt 0 ] || set -- /usr/bin/python3
modules=()
case "${!#}" in
torch) modules=(torch) ;;
compile) modules=(torch compile) ;;
esac
[ ${#modules[@]} -eq 0 ] || set -- "${@:1:$#-1}"
command -v python3 >/dev/null || {
	echo "SKIP: needs python3"
	exit 77
}
work=$(mktemp -d)
inside=
program=
finish() {
	[ -z "$program" ] || kill "$program" 2>/dev/null || true
	rm -rf "$work" ${inside:+"$inside"}
}
trap finish EXIT
failed=0

# run ARGUMENT...: truth.py with these, until it says that it is ready; sets program and pid.
run() {
	timeout $((seconds + 60)) "${root[@]}" "${python#*:}" "${there}/truth.py" "$there/state" "$there/source.py" \
		"$seconds" $RANDOM "$@" >"$folder/ready" &
	program=$!
	read -r _ <"$folder/ready"
	# timeout runs it as its child; chroot becomes it.
	pid=$(pgrep -P "$program")
}

for python in "$@"; do
	root=()
	folder=$work
	there=$work
	[ "$python" = "${python#*:}" ] || {
		inside=${python%%:*}/tmp/truth
		rm -rf "$inside"
		mkdir -p "$inside"
		root=(unshare --mount-proc="${python%%:*}/proc" chroot "${python%%:*}")
		folder=$inside
		there=/tmp/truth
	}
	cp "$here/truth.py" "$folder"
	rm -f "$folder/ready"
	mkfifo "$folder/ready"
	echo "== $python ${modules[*]}"
	run "${modules[@]}"
	"$reader" "$pid" "$rounds" 1000 "$folder/state" >"$work/stacks" || failed=1
	wait "$program" || failed=1
	program=
	python3 "$here/judge.py" "$folder/source.py" <"$work/stacks" || failed=1

	run stop
	until grep -q '^State:.*T (stopped)' "/proc/$pid/status"; do sleep 0.05; done
	"$reader" "$pid" 1 0 >"$work/stacks" || failed=1
	python3 "$here/judge.py" --dump "$folder/state.dump" <"$work/stacks" || failed=1
	kill -9 "$pid"
	wait "$program" 2>/dev/null || true
	program=
	rm -rf ${inside:+"$inside"}
	inside=
done
exit $failed
