#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What run.sh runs in a virtual machine: caps.sh and small.sh, with "all" also the tests of tests/kernel. Prints the output of those that
# fail.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
failed=0

# one NAME COMMAND...
one() {
	local log=/tmp/log started=$SECONDS status=0 name=$1 word
	shift
	"$@" >$log 2>&1 </dev/null || status=$?
	case $status in
	0) word=passed ;;
	77) word="skipped: $(grep -iE 'skip' $log | head -1)" ;;
	*) word=FAILED && failed=1 && grep -vE '^\[ +(OK|RUN) ' $log | cut -c 1-300 ;;
	esac
	echo "$name: $word, $((SECONDS - started)) s"
}

one caps "$here/caps.sh"
one small "$here/small.sh"
if [ "$1" = all ]; then
	for test in "$BUILD"/tests/kernel/test_*; do
		[ ! -x "$test" ] || one "${test##*/}" "$test"
	done
fi
exit $failed
