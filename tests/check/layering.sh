#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Includes go one way: bpf <- analyzers <- daemon, proto <- ctl, proto <- daemon; analyzers/base depends on nothing, and
# ctl may have it. layering.sh SOURCE
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
# One file of the report talks to the journal, as it must.
journal=analyzers/report/journal.c
mapfile -t analyzers < <(list analyzers '*.[ch]' | grep -vE "^(analyzers/dump/dump_encode\.c|$journal)\$")
mapfile -t dump_encode < <(list analyzers/dump 'dump_encode.c')
mapfile -t proto < <(list proto '*.[ch]')
mapfile -t ctl < <(list ctl '*.[ch]')
mapfile -t base < <(list analyzers/base '*.[ch]')
mapfile -t daemon < <(list daemon '*.[ch]')
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
allow "daemon" '(daemon|analyzers|proto|bpf)/[^"]*|[a-z_]+\.skel\.h' 'jansson_never' "${daemon[@]}"
exit "$failed"
