#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An exception that passes probed functions must reach the script as if we were not there, with every level on.
source "$(dirname "$0")/lib.sh"

e2e_start
"$tracectl" set L3=true
cat >"$work/raise.py" <<'PY'
import os, sys, time, torch
from torch.autograd import Function

class Fails(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        raise ValueError("on purpose")

optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(3))], lr=0.1)
while not os.path.exists(sys.argv[1]):  # until the probes are there
    time.sleep(0.02)
caught = 0
for _ in range(20):
    optimizer.zero_grad()
    x = torch.ones(3, requires_grad=True)
    try:
        Fails.apply(x).sum().backward()
    except ValueError:
        caught += 1
    try:
        torch.save({"x": x}, "/no/such/folder/file.pt")
    except (RuntimeError, OSError):
        caught += 1
    torch.ones(3, requires_grad=True).sum().backward()
    optimizer.step()
print("caught", caught)
sys.exit(0 if caught == 40 else 1)
PY
RANK=0 WORLD_SIZE=1 "$python" "$work/raise.py" "$work/go" >"$work/raise.log" 2>&1 &
pid=$!
children+=("$pid")
wait_for 60 probed "$pid" || fail "no probes on process $pid"
touch "$work/go"
wait "$pid" || { cat "$work/raise.log"; fail "the job was harmed"; }
cat "$work/raise.log"
flush
steps=$(steps_of "$pid")
echo "$steps steps stored, 20 in the script"
[ "$steps" -eq 20 ] || fail "exceptions in backward disturb the steps"
e2e_done
