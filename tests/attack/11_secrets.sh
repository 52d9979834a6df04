#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Secrets in the arguments of a training reach neither store nor log nor answers; other users learn nothing of its processes;
# an environment of 1.5 MB hides nothing, and one that the kernel does not give is refused with a sentence.
source "$(dirname "$0")/lib.sh"

attack_daemon_start
attack_victim_start
attack_begin
secret=s3cr3t-$$-value
attack_install "$build/tests/e2e/libtorch_launch.so"
library="__import__('ctypes').CDLL('$work/bin/libtorch_launch.so')" # what maps a training library is a rank
as() { # as UID VARIABLES PYTHON ARGUMENTS...: a process that maps a training library, in the background
	local uid=$1 variables=$2 code=$3
	shift 3
	"$python_here" - "$uid" "$variables" "$python" "$code" "$@" <<'PY' &
import os
import sys

uid, variables, python, code, *arguments = sys.argv[1:]
os.setgroups([])
os.setresgid(*[int(uid)] * 3)
os.setresuid(*[int(uid)] * 3)
# In this order: the kernel keeps it.
environment = {}
if variables:
    for i in range(15):
        environment[f"FILLER_{i}"] = "x" * 100000
environment |= dict(pair.split("=", 1) for pair in variables.split())
environment["OMP_NUM_THREADS"] = "1"
os.execve(python, [python, "-c", code, *arguments], environment)
PY
	last=$!
	children+=("$last")
}
idle="$library; __import__('time').sleep(600)"
as "$victim_uid" "" "$idle" --api-key "$secret" "--password=$secret" "https://me:$secret@host/" "TOKEN=$secret" --lr 1
secretive=$last
as "$victim_uid" "RANK=7 WORLD_SIZE=8 JOB_ID=large" "$idle"
large=$last
# The kernel's limit is passed by telling it that the environment is somewhere else.
as "$attacker_uid" "RANK=1 WORLD_SIZE=2 JOB_ID=moved" "
import ctypes, mmap, os, time
libc = ctypes.CDLL(None, use_errno=True)
stat = open('/proc/self/stat').read().rsplit(')', 1)[1].split()
codes = [int(x) for x in stat[23:26]]
size = 16 << 20
area = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
area.write(b'x' * size)
at = ctypes.addressof(ctypes.c_char.from_buffer(area))
brk = libc.sbrk
brk.restype = ctypes.c_void_p
def field(i): return int(stat[i - 3])
words = [field(26), field(27), field(45), field(46), field(47), brk(0), field(28), field(48), field(49), at, at + size, 0]
class Map(ctypes.Structure):
    _fields_ = [('words', ctypes.c_uint64 * 12), ('auxv_size', ctypes.c_uint32), ('exe_fd', ctypes.c_uint32)]
m = Map((ctypes.c_uint64 * 12)(*words), 0, 0xffffffff)
r = libc.prctl(35, 14, ctypes.byref(m), ctypes.sizeof(m), 0)
print('moved:', r, ctypes.get_errno(), flush=True)
$library
time.sleep(600)
"
moved=$last

wait_for 60 rank_known "$secretive" || fail "the training with secrets is not known"
wait_for 60 rank_known "$large" || fail "the training with a large environment is not known"
[ "$(query "select rank || '/' || world_size || ' ' || job from ranks where pid = $large")" = "7/8 large" ] ||
	fail "1.5 MB of environment hide the rank: $(query "select rank, world_size, job from ranks where pid = $large")"

"$tracectl" ranks --json >"$work/answer"
grep -q -- '--api-key \*\*\*' "$work/answer" || fail "the command line is not shown masked: $(grep command "$work/answer")"
grep -q -- '--lr 1' "$work/answer" || fail "more than the secrets is masked"
flush
for place in "$state" "$work/daemon.log" "$work/answer"; do
	! grep -rqa "$secret" "$place" || fail "the secret is in ${place#"$work"/}"
done

if [ "$(tr -d '\0' <"/proc/$moved/environ" | wc -c)" -gt 8000000 ]; then
	refused() { grep -q "process $moved of user $attacker_uid has more than 6 MiB of environment" "$work/daemon.log"; }
	wait_for 60 refused || fail "an environment of 16 MiB is not refused with a sentence"
	"$tracectl" check >"$work/check" || true
	grep -q "user $attacker_uid: a process has an environment larger" "$work/check" || fail "check does not show the suspect"
else
	echo "not tested here: an environment that was moved"
fi

"${as_attacker[@]}" "$tracectl" ranks --json >"$work/seen"
! grep -qE "\"pid\": ($secretive|$large)\b" "$work/seen" || fail "another user sees the command lines: $(cat "$work/seen")"
"${as_attacker[@]}" "$tracectl" status --json >"$work/seen"
"$python_here" -c '
import json, sys
for collector in json.load(open(sys.argv[1]))["collectors"]:
    if collector["notes"]:
        sys.exit("notes: %s" % collector["notes"])' "$work/seen" || fail "another user gets the notes of status"
attack_status_under_1s
attack_victim_exact
attack_daemon_alive
attack_done
