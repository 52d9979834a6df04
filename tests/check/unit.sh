#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# systemd accepts the units, and their exposure stays at what a daemon that loads BPF needs. unit.sh SOURCE BUILD
set -euo pipefail
command -v systemd-analyze >/dev/null || {
	echo "skipped: no systemd-analyze here"
	exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# verify wants the program to exist, and it is not installed.
sed 's|^ExecStart=[^ ]*|ExecStart=/bin/true|' "$2/systemd/ranktraced.service" >"$work/ranktraced.service"
cp "$2/systemd/ranktraced.socket" "$work/"
cd "$work"
said=$(systemd-analyze verify --man=no ./ranktraced.service ./ranktraced.socket 2>&1) || {
	echo "$said"
	exit 1
}
# An unknown directive is only a remark to verify, and a mistake to us.
said=$(grep -E '^\S*ranktraced\.(service|socket)' <<<"$said" || true)
[ -z "$said" ] || {
	echo "$said"
	exit 1
}
# 25 of 100 is passed with our four capabilities and no longer with CAP_SYS_ADMIN.
systemd-analyze security --offline=yes --threshold=25 ./ranktraced.service >said 2>&1 || {
	cat said
	exit 1
}
tail -n 1 said
