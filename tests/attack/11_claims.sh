#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A user claims the job, the ranks and the communicator of another's training. He is a job of his own, both see the other in their remarks,
# and he sees nothing of the other.
source "$(dirname "$0")/lib.sh"

attack_daemon_start
attack_victim_start
attack_begin
# What a job's name, ranks and communicator are made of is in the victim's environment and easy to guess.
claims=()
victims=()
for rank in 0 1; do
	for user in victim attacker; do
		folder=$work/$user-claim.$rank
		if [ "$user" = victim ]; then
			as=("${as_victim[@]}")
			install -d -m 700 -o "$victim_uid" -g "$victim_uid" "$folder"
		else
			as=("${as_attacker[@]}")
			install -d -m 700 -o "$attacker_uid" -g "$attacker_uid" "$folder"
		fi
		RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 JOB_ID=4711 JOB_NUMBER=4711 LD_LIBRARY_PATH=$work/bin \
			"${as[@]}" "$work/bin/fixture_rank" loop "$folder/calls" "$work/go" "$folder/stop" >/dev/null 2>&1 &
		children+=($!)
		if [ "$user" = victim ]; then victims+=($!); else claims+=($!); fi
	done
done
known() { [ "$(query "select count(distinct pid) from ranks where job = '4711'")" -eq 4 ]; }
wait_for 30 known || fail "the four ranks are not known"
all_probed() { grep -aF "$work/bin/libnccl.so.2: " "$work/daemon.log" | grep -q ' attached'; }
wait_for 30 all_probed || fail "no probes on the library of the four ranks"
touch "$work/go" # a communicator that is older than the probes has no identity
mixed() { # communicators with members of two users, and all that have members of job 4711
	"$tracectl" ops --json 2>/dev/null | "$python_here" -c '
import json, os, sys
seen = mixed = 0
for one in json.load(sys.stdin)["communicators"]:
    if one["job"] == "4711":
        seen += 1
        mixed += len({os.stat("/proc/%d" % member["pid"]).st_uid for member in one["ranks"]}) > 1
print(seen, mixed)'
}
ops_of_both() { read -r seen shared < <(mixed) && [ "${seen:-0}" -ge 2 ]; }
ops_seen() { read -r seen shared < <(mixed) && [ "${seen:-0}" -ge 1 ]; }
wait_for 20 ops_seen || fail "the operations of the four are not seen"
wait_for 10 ops_of_both || true
echo "communicators of job 4711: ${seen:-0}, with members of two users: ${shared:-0}"
[ "${shared:-1}" -eq 0 ] || fail "a communicator has members of two users"
[ "$seen" -ge 2 ] || fail "only $seen communicators of the two jobs"

"$tracectl" ranks --json | "$python_here" -c '
import json, sys
ranks = [rank for rank in json.load(sys.stdin) if rank["job"] == "4711"]
users = sorted(rank["uid"] for rank in ranks)
expected = sorted([int(sys.argv[1]), int(sys.argv[2])] * 2)
if users != expected:
    sys.exit(f"users of the four ranks: {users}, not {expected}")
for rank in ranks:
    other = int(sys.argv[2]) if rank["uid"] == int(sys.argv[1]) else int(sys.argv[1])
    if f"user {other} claims this rank too" not in (rank["remark"] or ""):
        sys.exit("rank %d of user %d has no remark of the other: %s" % (rank["rank"], rank["uid"], rank["remark"]))
' "$victim_uid" "$attacker_uid" || fail "ranks does not distinguish the users"
"$tracectl" check >"$work/check" || true
grep -q "users $victim_uid and $attacker_uid both run a rank" "$work/check" || fail "check does not show the dispute"
[ "$(query "select count(distinct uid) from ranks where job = '4711'")" -eq 2 ] || fail "the store does not distinguish the users"

# Whoever is no member of a group of ours sees its own ranks and no other's.
"${as_attacker[@]}" "$tracectl" ranks --json >"$work/seen" || fail "ranks is refused to other users"
"$python_here" -c '
import json, sys
ranks = json.load(open(sys.argv[1]))
others = [rank["pid"] for rank in ranks if rank["uid"] != int(sys.argv[2])]
if others or not {int(pid) for pid in sys.argv[3:]} <= {rank["pid"] for rank in ranks}:
    sys.exit("sees %s, of others %s" % (sorted(rank["pid"] for rank in ranks), others))
' "$work/seen" "$attacker_uid" "${claims[@]}" || fail "the attacker sees other ranks than its own"
"${as_attacker[@]}" "$tracectl" ops --json >"$work/seen" || fail "ops is refused to other users"
for pid in "${victims[@]}" "${victim_pids[@]}"; do
	! grep -q "\"pid\": $pid\b" "$work/seen" || fail "the attacker sees operations of process $pid"
done
kill -9 "${claims[@]}" "${victims[@]}" 2>/dev/null || true
attack_status_under_1s
attack_victim_exact
attack_daemon_alive
attack_done
