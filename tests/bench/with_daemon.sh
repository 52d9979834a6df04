#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# with_daemon.sh TABLES COMMAND...: runs the command beside a daemon of its own that reads the probe tables of folder TABLES.
# The command finds RANKTRACE_SOCKET, TRACECTL (the program) and DAEMON_PID in its environment. Exit: the command's, or 77
# without root.
set -euo pipefail
build=$(readlink -f "${RANKTRACE_BENCH_BIN:?}/../..")
tables=$(readlink -f "${1:?}")
shift
[ "$(id -u)" -eq 0 ] || { echo "with_daemon: needs root to load BPF programs" >&2; exit 77; }
scratch=$(mktemp -d "${RANKTRACE_BENCH_DIR:-${TMPDIR:-/var/tmp}}/ranktrace-bench.XXXXXX")
daemon=
trap '[ -z "$daemon" ] || kill -TERM "$daemon" 2>/dev/null || true; wait; rm -rf "$scratch"' EXIT

export RANKTRACE_SOCKET=$scratch/control.sock RANKTRACE_LIBEXEC=$build/libexec/ranktrace TRACECTL=$build/ctl/tracectl
printf '[daemon]\nprobes_base_dir = %s\n' "$tables" >"$scratch/ranktrace.conf"
"$build/daemon/ranktraced" --foreground --config "$scratch/ranktrace.conf" --state-dir "$scratch/state" \
	--socket "$RANKTRACE_SOCKET" 2>"$scratch/daemon.log" &
daemon=$!
for _ in $(seq 100); do
	"$TRACECTL" status >/dev/null 2>&1 && break
	kill -0 "$daemon" 2>/dev/null || { cat "$scratch/daemon.log" >&2; exit 1; }
	sleep 0.1
done
DAEMON_PID=$daemon "$@"
