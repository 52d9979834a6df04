#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Includes and calls go one way: between top-level folders (bpf <- analyzers <- daemon, proto <- ctl, proto <- daemon,
# analyzers/base <- stacks) and
# between the modules within them, without a circle; analyzers/base depends on nothing, and ctl may have it.
# layering.sh SOURCE BUILD
set -euo pipefail
cd "$1"
failed=0

# $1: what the files are; $2: pattern of quoted includes they may use; $3: pattern of includes in <> they may not use;
# the rest: the files.
allow() {
	local what=$1 quoted=$2 forbidden=$3 bad
	shift 3
	[ $# -gt 0 ] || return 0
	bad=$({
		grep -HnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$@" | grep -vE "include[[:space:]]*\"($quoted)\""
		grep -HnE "^[[:space:]]*#[[:space:]]*include[[:space:]]*<($forbidden)" "$@"
	} || true)
	[ -n "$bad" ] || return 0
	echo "$what may not include:"
	echo "$bad"
	failed=1
}

list() {
	find "$1" -name "$2" -not -path '*/build*' 2>/dev/null | sort
}

mapfile -t bpf_headers < <(list bpf '*.h' | grep -v '^bpf/marker/')
mapfile -t bpf_programs < <(list bpf '*.bpf.c')
# One file of the report writes to the journal.
journal=analyzers/report/journal.c
mapfile -t analyzers < <(list analyzers '*.[ch]' | grep -vE "^(analyzers/dump/dump_encode\.c|$journal)\$")
mapfile -t dump_encode < <(list analyzers/dump 'dump_encode.c')
mapfile -t proto < <(list proto '*.[ch]')
mapfile -t ctl < <(list ctl '*.[ch]')
mapfile -t base < <(list analyzers/base '*.[ch]')
mapfile -t daemon < <(list daemon '*.[ch]')
# The worker and the daemon speak a message of control.proto; the worker is one of daemon/worker.
mapfile -t stacks < <(list stacks '*.[ch]' | grep -vE '^stacks/(capture|reply)/|^stacks/main_')
mapfile -t stack_worker < <(list stacks '*.[ch]' | grep -E '^stacks/(capture|reply)/|^stacks/main_')
[ ${#bpf_headers[@]} -gt 0 ] && [ ${#daemon[@]} -gt 0 ] || {
	echo "no sources found below $1"
	exit 1
}

allow "bpf headers" 'bpf/[^"]*' 'event2|sqlite3|protobuf-c|jansson|systemd|gelf|libelf' "${bpf_headers[@]}"
allow "BPF programs" 'bpf/[^"]*' '[^lba]|libelf|l[^i]' "${bpf_programs[@]}"
allow "analyzers" '(analyzers|bpf)/[^"]*' 'bpf/|event2|protobuf-c|systemd|gelf|libelf' "${analyzers[@]}"
allow "analyzers/base" 'analyzers/base/[^"]*' 'bpf/|event2|sqlite3|protobuf-c|jansson|systemd|gelf|libelf' "${base[@]}"
allow "the report's way to the journal" '(analyzers|bpf)/[^"]*' 'bpf/|event2|protobuf-c|gelf|libelf' "$journal"
# The dumps are protobuf, and proto/ has their formats.
allow "the dumps' encoder" '(analyzers|bpf)/[^"]*|proto/systrace\.pb-c\.h' 'bpf/|event2|sqlite3|systemd|gelf|libelf' "${dump_encode[@]}"
allow "proto" 'proto/[^"]*' 'bpf/|event2|sqlite3|jansson|systemd|gelf|libelf' "${proto[@]}"
allow "ctl" '(ctl|proto|analyzers/base)/[^"]*' 'bpf/|event2|systemd|gelf|libelf' "${ctl[@]}"
allow "stacks" '(stacks|analyzers/base)/[^"]*|bpf/(profile|event)\.h|daemon/base/util\.h' 'bpf/|event2|sqlite3|protobuf-c|systemd' "${stacks[@]}"
allow "the worker that reads stacks" '(stacks|analyzers/base|proto)/[^"]*|bpf/(profile|event)\.h|daemon/base/(util|procfs)\.h|daemon/worker/worker\.h' 'bpf/|event2|sqlite3|systemd' "${stack_worker[@]}"
# A folder's own headers.
private=$(grep -rnoE --include='*.[ch]' '#include "[^"]*_internal\.h"' analyzers bpf ctl daemon stacks |
	awk -F'[:"]' '{ from = $1; to = $4; sub("/[^/]*$", "", from); sub("/[^/]*$", "", to); if (from != to) print $1 ": " $4 }')
[ -z "$private" ] || {
	echo "headers of another folder alone:"
	echo "$private"
	failed=1
}
# Generated: skeletons of BPF programs, and the list of system calls.
allow "daemon" '(daemon|analyzers|proto|bpf)/[^"]*|stacks/reply/reply\.h|[a-z_]+\.skel\.h|syscall_list\.h' 'jansson_never' "${daemon[@]}"

# Files of a process in /proc are read by workers and threads: a lookup can spin in the kernel, and a read can wait, for as long
# as a user wants. The loop reads its own and its workers' alone.
readers='daemon/(base/procfs|worker/worker|ranks/rank_(read|watch|scan|card)|findings/host_sample)\.c'
in_loop=$(grep -nE '\bprocfs_(stat|status|resident|schedstat|wait_channel|exe|command|environ|cgroup|libraries|each|children)\(' "${daemon[@]}" |
	grep -vE "^$readers:|/\\*.*procfs_|^daemon/base/procfs\.h:|\"/proc\", \(uint32_t\)getpid\(\)" || true)
[ -z "$in_loop" ] || {
	echo "what may run in the loop may not read files of processes:"
	echo "$in_loop"
	failed=1
}

# $1: what the edges are. stdin: "FROM TO" a line. tsort names the modules of a circle.
acyclic() {
	local edges circle
	edges=$(sort -u)
	[ "$(wc -l <<<"$edges")" -gt 30 ] || {
		echo "too few $1 between modules found"
		failed=1
		return
	}
	circle=$(tsort <<<"$edges" 2>&1 >/dev/null) || {
		echo "$1 between modules form a circle:"
		sed 's/^tsort: //' <<<"$circle"
		failed=1
	}
}

# A module is a folder.
acyclic includes < <(grep -HoE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"[^"]+/[^"/]+"' "${analyzers[@]}" "${daemon[@]}" "${stacks[@]}" "${stack_worker[@]}" |
	sed -E 's|/[^/]*:.*"([^"]*)/[^/"]*"$| \1|' | awk '$1 != $2')

# Calls between objects: a symbol defined in one module and undefined in another.
# An object without a source is from an earlier build.
mapfile -t objects < <(cd "$2" && find analyzers ctl daemon stacks -name '*.c.o' 2>/dev/null | while read -r object; do
	source=${object%%/*}/${object#*.dir/}
	[[ ! -e $OLDPWD/${source%.o} ]] || echo "$object"
done)
[ ${#objects[@]} -gt 300 ] || {
	echo "calls: ${#objects[@]} objects of analyzers, ctl, daemon and stacks are built one by one in $2: too few to judge"
	exit 1
}
acyclic calls < <(cd "$2" && nm -A -P "${objects[@]}" | awk '
	{
		module = $1
		sub(/:$/, "", module)
		sub(/\/[^\/]*$/, "", module)
		sub(/\/CMakeFiles\/[^\/]*\.dir/, "", module)
	}
	$3 ~ /^[TDBRCV]$/ { defines[$2] = module }
	$3 == "U" { uses[module " " $2] }
	END {
		for (use in uses) {
			split(use, part, " ")
			if (part[2] in defines && defines[part[2]] != part[1])
				print part[1], defines[part[2]]
		}
	}')
exit "$failed"
