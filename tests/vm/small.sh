#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The daemon with every level and two fixture ranks under the running kernel: each call is in the store once, each collector
# records, and `tracectl check` says what this kernel lacks, and nothing else.
source "$(dirname "$0")/../e2e/lib_fixture.sh"

# A virtual machine may have little of a processor.
patience_s=120
pause_s=1

# lacks RELEASE: topics that check reports, by what the kernel lacks.
lacks() {
	case $1 in
	5.10.*) echo "cookies uprobes" ;; # 5.15, 6.6
	6.1.*) echo "uprobes" ;;          # 6.6
	esac
}
# Sorted; what depends on the kernel and not on the machine.
reported() {
	"$tracectl" check --json >"$work/check"
	"$python_here" - "$work/check" <<'END'
import json, sys
about = {"btf", "ring buffer", "tp_btf", "uprobes", "cookies"}
items = json.load(open(sys.argv[1]))
items = items["items"] if isinstance(items, dict) else items
print(*sorted(i["topic"] for i in items
              if i["verdict"] != "ok" and (i["topic"] in about or "kernel refuses" in i["sentence"])))
END
}

e2e_start budget.rank_percent=100 # on an emulated processor probes are slow; a level in windows misses calls
for level in L1 L2 L3; do
	"$tracectl" set $level=true >"$work/set" || fail "$level cannot be turned on"
	cat "$work/set"
	# A collector whose program the kernel refuses says so here.
	! grep -E "without|refuse|cannot" "$work/set" || fail "a part of $level is missing"
done
ranks all 2
check calls
for table in offcpu file_calls syscalls system_sums; do
	[ "$(query "select count(*) from $table where instance in (select instance from ranks where pid in ($(pids)))")" -gt 0 ] ||
		fail "there is no row of the ranks in $table"
done
"$tracectl" check
found=$(reported)
[ "$found" = "$(lacks "$(uname -r)")" ] || fail "check reports '$found' on Linux $(uname -r), '$(lacks "$(uname -r)")' expected"
places=$("$tracectl" status | grep -c "without their place in native code: the kernel lacks bpf_find_vma" || true)
case $(uname -r) in
5.10.*) [ "$places" = 1 ] || fail "status does not say that signals have no place" ;;
*) [ "$places" = 0 ] || fail "status says that signals have no place" ;;
esac
e2e_stop
e2e_done
