#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `ranktraced --check` says to an unprivileged user with the unit's four capabilities, under the running kernel: what works
# there, and one sentence for each thing that does not.
source "$(dirname "$0")/../e2e/lib.sh"

# expected RELEASE: topics that are limited or missing, by what Debian's kernels lack or ask for. Their patch asks for
# CAP_SYS_ADMIN to sample where kernel.perf_event_paranoid is 3, their default; perf uprobes ask for it everywhere.
expected() {
	case $1 in
	5.10.*) echo "sampling uprobes" ;; # cookies are not looked at without uprobes
	6.1.*) echo "sampling uprobes" ;;
	*) echo "sampling" ;;
	esac
}

# as_nobody COMMAND...
as_nobody() {
	local list=-all,+bpf,+perfmon,+sys_ptrace,+dac_read_search
	setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups --no-new-privs "--inh-caps=$list" "--bounding-set=$list" \
		"--ambient-caps=$list" "$@"
}

# said TOPICS: of these, what check finds lacking, sorted, in the file $work/check.
said() {
	"$python_here" - "$work/check" "$@" <<'END'
import json, sys
about = set(sys.argv[2:])
print(*sorted({i["topic"] for i in json.load(open(sys.argv[1])) if i["verdict"] != "ok" and i["topic"] in about}))
END
}
topics=(btf "ring buffer" tp_btf uprobes sampling "locked memory" CAP_BPF CAP_PERFMON CAP_SYS_PTRACE CAP_DAC_READ_SEARCH)

# checked OPTIONS...: what check finds. It exits with 1 where something is missing.
checked() {
	local status=0
	as_nobody "$build/daemon/ranktraced" --check --state-dir "$state" "$@" || status=$?
	[ "$status" -le 1 ] || fail "check ended with status $status"
}

install -d -m 700 -o nobody "$state"
ulimit -l unlimited
checked --json >"$work/check"
checked
found=$(said "${topics[@]}")
echo "on Linux $(uname -r), perf_event_paranoid $(cat /proc/sys/kernel/perf_event_paranoid): $found"
[ "$found" = "$(expected "$(uname -r)")" ] || fail "check reports '$found', '$(expected "$(uname -r)")' expected"

echo "--- 64 KiB of locked memory"
ulimit -l 64
checked --json >"$work/check"
as_nobody "$build/daemon/ranktraced" --state-dir "$state" --socket "$work/s" >"$work/log" 2>&1 &
daemon_here=$!
ended() { ! kill -0 "$daemon_here" 2>/dev/null; }
case $(uname -r) in
5.10.*) wait_for 20 ended || fail "the daemon runs in spite of the limit on locked memory" ;;
*) sleep 3 ;;
esac
kill "$daemon_here" 2>/dev/null || true
wait "$daemon_here" || true
case $(uname -r) in
5.10.*)
	[ "$(said "locked memory")" = "locked memory" ] || fail "check does not report the limit on locked memory"
	grep "the limit on locked memory, 64 KiB, is too small" "$work/log" || fail "the log does not name the limit on locked memory"
	;;
*) [ -z "$(said "locked memory")" ] || fail "check reports a limit on locked memory that this kernel does not have" ;;
esac
echo "caps: done"
