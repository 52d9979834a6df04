#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Memory of devices (L2): what a line of a real PyTorch's program keeps grows from step to step, which is a finding that names the line.
source "$(dirname "$0")/lib.sh"
[ -z "${TORCH_ROOT:-}" ] || skip "runs with the system's PyTorch only"
"$python" -c 'import ctypes; ctypes.CDLL("libc10.so.1.13")' 2>/dev/null || skip "no libc10 of PyTorch 1.13"

e2e_start memory.sample=4K budget.rank_percent=100 budget.cpu_percent=1000
"$tracectl" set L2=on >/dev/null
touch "$work/start"
job=memory-leak
TORCHELASTIC_RUN_ID=$job RANK=0 WORLD_SIZE=1 "$python" "$source_dir/tests/e2e/train/leak.py" "$work/start" "$work/truth" 300 "$build/fixtures/libcudart.so.13" card >"$work/keep.log" 2>&1 &
keeper=$!
children+=("$keeper")
leaks() { "$tracectl" findings --job "$job" | grep -q 'leaks memory of cuda:0 .*; most of it is held by keep (leak.py:[0-9]*)'; }
wait_for 90 leaks || fail "no finding of the leak: $("$tracectl" findings --job "$job"; "$tracectl" memory leaks --job "$job")"
"$tracectl" memory live --job "$job" | grep -q 'it grows by .* an hour: tracectl memory leaks' || fail "live does not name the leak: $("$tracectl" memory live --job "$job")"
"$tracectl" memory leaks --job "$job"
"$tracectl" memory leaks --job "$job" --json >"$work/leaks"
"$python_here" - "$work/leaks" "$keeper" <<'END' || fail "the leak is not that of its line: $(cat "$work/leaks")"
import json, sys
pool, = [pool for pool in json.load(open(sys.argv[1]))["leaks"] if pool["pid"] == int(sys.argv[2])]
assert pool["kind"] == "cuda" and 0 < pool["slope_low_bytes_per_s"] <= pool["slope_bytes_per_s"] <= pool["slope_high_bytes_per_s"], pool
assert max(pool["places"], key=lambda place: place["grown_bytes"])["where"].startswith("keep (leak.py:"), pool
END
kill -9 "$keeper" # what it held at its end is there all the same, but for what it took since its last snapshot: 3 MiB a second
killed() { "$tracectl" memory --job "$job" --json | "$python_here" -c 'import json, sys
pool, = [pool for pool in json.load(sys.stdin)["live"] if pool["pid"] == int(sys.argv[1])]
sys.exit(not (pool["ended"] and sum(place["live_bytes"] for place in pool["places"]) > 0.8 * pool["allocated_bytes"]))' "$keeper"; }
wait_for 10 killed || fail "a killed process has no last snapshot: $("$tracectl" memory --job "$job" --json)"
over() { ! "$tracectl" findings --job "$job" | grep 'leaks memory of cuda:0'; }
wait_for 10 over || fail "the leak of a process that has ended is not over: $("$tracectl" findings --job "$job")"
"$tracectl" findings --job "$job" | grep 'leaked memory of cuda:0 .*; most of it was held by keep (leak.py:[0-9]*)' ||
	fail "a leak that is over has lost its line: $("$tracectl" findings --job "$job")"
e2e_done
