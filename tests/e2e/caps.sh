#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An unprivileged user with the unit's four capabilities traces a training of root. With one missing, or in a private PID
# namespace, the daemon reports the lack.
source "$(dirname "$0")/lib.sh"

unit=$build/systemd/ranktraced.service
user=nobody
read -r -a capabilities < <(sed -n 's/^AmbientCapabilities=//p' "$unit")
[ "${#capabilities[@]}" -eq 4 ] || fail "the unit names ${#capabilities[@]} capabilities, not four: ${capabilities[*]}"
grep -q ambient-caps <<<"$(setpriv --help 2>/dev/null)" || skip "setpriv of this util-linux has no --ambient-caps"

# as_user CAPABILITY...: prints the command prefix for the daemon.
as_user() {
	local name list=-all
	for name in "$@"; do
		name=${name#CAP_}
		list+=,+${name,,}
	done
	echo setpriv "--reuid=$user" "--regid=$(id -g "$user")" --clear-groups --no-new-privs "--inh-caps=$list" \
		"--bounding-set=$list" "--ambient-caps=$list"
}

install -d -m 700 -o "$user" "$state"
touch "$work/daemon.log"
# The daemon creates the control socket, as in /run/ranktrace.
install -d -m 755 -o "$user" "$work/run"
export RANKTRACE_SOCKET=$work/run/control.sock
read -r -a daemon_prefix < <(as_user "${capabilities[@]}")
e2e_start
grep -E '^(Uid|Cap(Inh|Prm|Eff|Bnd|Amb))' "/proc/$daemon/status"
[ "$(awk '$1 == "Uid:" { print $2 }' "/proc/$daemon/status")" -eq "$(id -u "$user")" ] || fail "the daemon is not $user"
mask=$(awk '$1 == "CapEff:" { print $2 }' "/proc/$daemon/status")
[ "$mask" = "$(printf '%016x' $((1 << 2 | 1 << 19 | 1 << 38 | 1 << 39)))" ] || fail "effective capabilities are $mask"

echo "--- a training of root; script and environment readable by root only"
held plain RANK=0 WORLD_SIZE=1 -- --mode plain --steps 30 --hidden 768
pid=$last
wait_train
flush
compare "$truth/plain.0.json" 0 --pid "$pid" --shares dataloader,backward

echo "--- the same in a chroot of another mount namespace"
mkdir "$work/root" "$work/out"
cp "$source_dir/tests/e2e/train/train.py" "$work/out/"
cat >"$work/chroot.sh" <<'END'
root=$1 out=$2
shift 2
for folder in /usr /bin /lib /lib64 /etc /dev /proc "$out"; do
	[ -d "$folder" ] || continue
	mkdir -p "$root$folder"
	mount --rbind "$folder" "$root$folder" || exit
done
exec chroot "$root" "$@"
END
# exec: the shell's pid becomes the training's.
RANK=0 WORLD_SIZE=1 TRUTH="$work/out/chroot.%r.json" unshare --mount --propagation private sh "$work/chroot.sh" \
	"$work/root" "$work/out" "$python" "$work/out/train.py" --mode plain --steps 30 --hidden 768 >"$work/chroot.log" 2>&1 &
pid=$!
children+=("$pid")
wait_train
flush
compare "$work/out/chroot.0.json" 0 --pid "$pid" --shares dataloader,backward
# Steps alone prove nothing: another training may have attached the same files.
! grep "cannot open .* of process $pid:" "$work/daemon.log" || fail "files of a chroot cannot be opened"

echo "--- L3"
"$tracectl" set L3=true
held sched RANK=3 WORLD_SIZE=4 -- --mode plain --steps 30 --workers 2
pid=$last
wait_train
flush
compare "$truth/sched.3.json" 3 --pid "$pid"
off=$(query "select count(*) from offcpu where rank = 3")
echo "$off off-CPU intervals"
[ "$off" -gt 0 ] || fail "L3 is on, but rank 3 has no off-CPU intervals"
e2e_stop

echo "--- check reports what is missing"
for name in "${capabilities[@]}"; do
	rest=("${capabilities[@]/$name/}")
	# shellcheck disable=SC2046,SC2068
	$(as_user ${rest[@]}) "$build/daemon/ranktraced" --check --state-dir "$state" >"$work/check" || true
	grep -E "^(limited|missing) +$name +not held" "$work/check" || fail "check does not report missing $name"
done
unshare --pid --fork --mount-proc "$build/daemon/ranktraced" --check --state-dir "$state" >"$work/check" &&
	fail "check finds nothing missing in a private PID namespace"
grep -E '^missing +pid namespace' "$work/check" || fail "check does not report the private PID namespace"
grep -q 'hostPID: true' "$work/check" || fail "check suggests no remedy for the PID namespace"
e2e_done
