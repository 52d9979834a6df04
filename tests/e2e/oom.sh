#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A request for memory that fails and ends its process at once: its line, that of the failed call beneath it, and what was taken just
# before are named from what was recorded, because nothing can be read of the process any more.
source "$(dirname "$0")/lib.sh"
[ -z "${TORCH_ROOT:-}" ] || skip "runs with the system's PyTorch only"
"$python" -c 'import ctypes; ctypes.CDLL("libc10.so.1.13")' 2>/dev/null || skip "no libc10 of PyTorch 1.13"

e2e_start memory.sample=4K budget.rank_percent=100 budget.cpu_percent=1000
"$tracectl" set L2=on >/dev/null
RANK=0 WORLD_SIZE=1 "$python" "$source_dir/tests/e2e/train/leak.py" "$work/start" "$work/truth" 3 "$build/fixtures/libcudart.so.13" ends >"$work/leak.log" 2>&1 &
children+=("$!")
followed() { "$tracectl" status | grep -q '[1-9][0-9]* ranks\? followed' && grep -q 'libc10[^ ]*: [1-9]' "$work/daemon.log" &&
	grep -q 'libcudart[^ ]*: [1-9]' "$work/daemon.log"; }
wait_for 30 followed || fail "its allocator is not followed: $(cat "$work/leak.log")"
touch "$work/start"
gone() { ! kill -0 "$1" 2>/dev/null; }
wait_for 30 gone "${children[0]}" || fail "it does not end"
children=()
named() { "$tracectl" memory oom | grep 'ask (leak.py:[0-9]*)'; }
wait_for 15 named || fail "a failed request whose process is gone has no line: $("$tracectl" memory oom)"
"$tracectl" memory oom
"$tracectl" memory oom --json >"$work/oom"
"$tracectl" memory errors --json >"$work/errors"
"$python_here" - "$work" <<'END' || fail "the failed request is not that of the script: $(cat "$work/oom" "$work/errors")"
import json, sys
failure, = json.load(open(sys.argv[1] + "/oom"))["oom"]
assert failure["asked_bytes"] == 1 << 31, failure
places = {place["where"].split(" ")[0]: place["live_bytes"] for place in failure["places"]}
assert all(place["alloc_bytes"] >= place["live_bytes"] for place in failure["places"]), failure
assert places["late"] == 64 << 20 and places["weights"] > 16 << 20, places
call, = [error for error in json.load(open(sys.argv[1] + "/errors"))["errors"] if error["bytes"] == 1 << 41]
assert call["where"].startswith("call (leak.py:"), call
END
"$tracectl" findings | grep 'ran out of memory of cuda:0 in ask (leak.py:[0-9]*): 2 GiB asked for' || fail "no finding of the failed request: $("$tracectl" findings)"
"$tracectl" memory --json | grep '"where": "late (leak.py:' || fail "what it held at its end has no lines: $("$tracectl" memory)"
e2e_done
