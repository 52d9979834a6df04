#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A rank that hangs: what it is in, and in which step, is told while it hangs, by the daemon and by the store.
source "$(dirname "$0")/lib.sh"
[ -z "${TORCH_ROOT:-}" ] || skip "one PyTorch is enough for it"

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
    sys.stdin.read()  # until the test is done with us
PY
e2e_start
mkfifo "$work/gate"
RANK=2 WORLD_SIZE=4 "$python" "$work/hang.py" <"$work/gate" &
children+=($!)
pid=$!
exec 9>"$work/gate"
open="select count(*) from in_flight join ranks using (instance) where pid = $pid and name = 'wait for the parameter server'"
hangs() { [ "$(query "$open")" -eq 1 ]; }
wait_for 60 hangs || fail "the store does not show what hangs"
[ "$(query "select step from in_flight join ranks using (instance) where pid = $pid")" -eq 4 ] || fail "it hangs after step 3"
told() {
	"$tracectl" ranks --json | "$python_here" -c '
import json, sys
print(next(r["current"]["for_ns"] for r in json.load(sys.stdin)
           if r["pid"] == int(sys.argv[1]) and r["current"]["stage"] == "wait for the parameter server"))' "$pid"
}
first=$(told) || fail "the daemon does not show what hangs"
second=$(told) || fail "the daemon no longer shows what hangs"
[ "$second" -gt "$first" ] || fail "the time that it hangs does not grow"
grep -q 'wait for the param' <<<"$("$tracectl" ranks)" || fail "people are not shown what hangs"
exec 9>&-
wait_train
over() { [ "$(query "$open")" -eq 0 ]; }
wait_for 20 over || fail "what is over is still in flight"
e2e_stop
e2e_done
