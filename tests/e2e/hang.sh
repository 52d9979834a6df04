#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A hung rank: daemon and store report its stage and step during the hang.
source "$(dirname "$0")/lib.sh"
[ -z "${TORCH_ROOT:-}" ] || skip "runs with the system's PyTorch only"

cat >"$work/hang.py" <<'PY'
import sys, time, torch
from torch.autograd.profiler import record_function
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
with record_function("wait for the parameter server"):
    sys.stdin.read()  # until the test ends
PY
e2e_start
mkfifo "$work/gate"
RANK=2 WORLD_SIZE=4 "$python" "$work/hang.py" <"$work/gate" &
children+=($!)
pid=$!
exec 9>"$work/gate"
open="select count(*) from in_flight join ranks using (instance) where pid = $pid and name = 'wait for the parameter server'"
hangs() { [ "$(query "$open")" -eq 1 ]; }
wait_for 60 hangs || fail "the store has no stage in flight"
[ "$(query "select step from in_flight join ranks using (instance) where pid = $pid")" -eq 4 ] || fail "the stage in flight is not of step 4"
in_flight_ns() {
	"$tracectl" ranks --json | "$python_here" -c '
import json, sys
print(next(r["current"]["for_ns"] for r in json.load(sys.stdin)
           if r["pid"] == int(sys.argv[1]) and r["current"]["stage"] == "wait for the parameter server"))' "$pid"
}
first=$(in_flight_ns) || fail "tracectl shows no stage in flight"
second=$(in_flight_ns) || fail "tracectl no longer shows the stage in flight"
[ "$second" -gt "$first" ] || fail "the time in flight does not grow"
grep -q 'wait for the param' <<<"$("$tracectl" ranks)" || fail "the text output does not show the stage in flight"
exec 9>&-
wait_train
over() { [ "$(query "$open")" -eq 0 ]; }
wait_for 20 over || fail "the rank ended but its stage is in flight"
e2e_stop
e2e_done
