#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What windows of levels cost a launch-bound training on two cards, in SECONDS_OF (default 420) seconds, once the guard has put the levels beyond its
# budget into windows. Levels are turned on before, as what `tracectl set` has just turned on is whole for an hour. What L0 costs, which is on all the
# time, cost.sh measures (CASES="off L0"). Needs root and a python3 with PyTorch; the programs may come from
# tests/jobs/bundle.sh. Prints the figures, and what the guard says at the end.
#
#   BUILD=DIR tests/e2e/gpu/steady.sh OUT      PYTHON=python3   SECONDS_OF=420   CARDS=2
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh" "${1:-}"
seconds=${SECONDS_OF:-420}
# A finding would turn levels on as a whole.
configure 'log_level = debug' '[findings]' 'raise = no' 'profile = no'

rm -f "$out/end" "$out/daemon.log"
daemon_start "$out/daemon.log"
"$tracectl" set L1=on L2=on L3=on >/dev/null
daemon_stop
daemon_start >("$python" "$here/steady.py" stamp >"$out/daemon.log")
run_ranks steady "${CARDS:-2}" "$python" "$here/steady.py" train "$out"
sleep "$seconds"
"$tracectl" status >"$out/status"
sed -n '/^levels/,/^budget/p' "$out/status"
touch "$out/end"
wait_ranks || { tail -3 "$out"/steady.*.log; bad "the training"; }
daemon_stop
grep -o 'guard: L.*' "$out/daemon.log"
"$python" "$here/steady.py" report "$out"
[ $failures = 0 ]
