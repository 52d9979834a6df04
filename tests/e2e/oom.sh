#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A request for memory that fails and ends its process at once: its line, that of the failed call beneath it, and what was taken just
# before are named from what was recorded, because nothing can be read of the process any more. What another process holds of its card, by a
# library that stands in for NVML, is the reason.
source "$(dirname "$0")/lib.sh"
[ -z "${TORCH_ROOT:-}" ] || skip "runs with the system's PyTorch only"
"$python" -c 'import ctypes; ctypes.CDLL("libc10.so.1.13")' 2>/dev/null || skip "no libc10 of PyTorch 1.13"

cards=$work/cards
# card [PID]: of 80 GiB the rank has 5 and another process 55.
card() {
	printf '0 uuid GPU-01234567-89ab\n0 minor 0\n0 memory_total %d\n0 memory_used %d\n0 memory_reserved %d\n' $((80 << 30)) $((60 << 30)) $((1 << 30)) >"$cards.new"
	[ $# = 0 ] || printf '0 processes %d %d %d %d\n' "$1" $((5 << 30)) $$ $((55 << 30)) >>"$cards.new"
	mv "$cards.new" "$cards"
}
card
daemon_prefix=(env "LD_LIBRARY_PATH=$build/fixtures/cards" "RANKTRACE_CARDS=$cards")
e2e_start memory.sample=4K budget.rank_percent=100 budget.cpu_percent=1000
"$tracectl" set L2=on >/dev/null
RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 CUDA_VISIBLE_DEVICES=0 "$python" "$source_dir/tests/e2e/train/leak.py" "$work/start" "$work/truth" 3 "$build/fixtures/libcudart.so.13" ends >"$work/leak.log" 2>&1 &
children+=("$!")
followed() { "$tracectl" status | grep -q '[1-9][0-9]* ranks\? followed' && grep -q 'libc10[^ ]*: [1-9]' "$work/daemon.log" &&
	grep -q 'libcudart[^ ]*: [1-9]' "$work/daemon.log"; }
wait_for 30 followed || fail "its allocator is not followed: $(cat "$work/leak.log")"
card "${children[0]}"
on_card() { "$tracectl" ranks --json | grep -q '"card_uuid": "GPU-01234567-89ab"'; }
wait_for 15 on_card || fail "its card is not known: $("$tracectl" ranks --json)"
sleep 2.5 # two readings
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
assert failure["asked_bytes"] == 1 << 31 and failure["cause"] == "neighbour", failure
assert [failure[key] >> 30 for key in ("card_bytes", "card_free_bytes", "others_bytes")] == [80, 19, 55], failure
places = {place["where"].split(" ")[0]: place["live_bytes"] for place in failure["places"]}
assert all(place["alloc_bytes"] >= place["live_bytes"] for place in failure["places"]), failure
assert places["late"] == 64 << 20 and places["weights"] > 16 << 20, places
call, = [error for error in json.load(open(sys.argv[1] + "/errors"))["errors"] if error["bytes"] == 1 << 41]
assert call["where"].startswith("call (leak.py:"), call
END
"$tracectl" findings | grep 'ran out of memory of cuda:0 in ask (leak.py:[0-9]*): 2 GiB asked for.*; other processes hold 55 GiB of the card' || fail "no finding of the failed request: $("$tracectl" findings)"
"$tracectl" memory --json | grep '"where": "late (leak.py:' || fail "what it held at its end has no lines: $("$tracectl" memory)"
e2e_done
