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
for service in ranktraced ranktrace-report; do
	sed -E 's#^(ExecStart|ExecReload)=[^ ]*#\1=/bin/true#' "$2/systemd/$service.service" >"$work/$service.service"
done
cp "$2/systemd/ranktraced.socket" "$1/systemd/ranktrace-report.timer" "$work/"
units=(./ranktraced.service ./ranktraced.socket ./ranktrace-report.service ./ranktrace-report.timer)
cd "$work"
said=$(systemd-analyze verify --man=no "${units[@]}" 2>&1) || {
	echo "$said"
	exit 1
}
# An unknown directive is only a remark to verify, and a mistake to us.
said=$(grep -E '^\S*ranktrace(d|-report)\.(service|socket|timer)' <<<"$said" || true)
[ -z "$said" ] || {
	echo "$said"
	exit 1
}
# Of 100, smaller is better: systemd 252 gives 16 and 4. What it counts changes with its version, so there is room.
for service in ranktraced:23 ranktrace-report:12; do
	systemd-analyze security --offline=yes --threshold="${service#*:}" "./${service%:*}.service" >said 2>&1 || {
		cat said
		exit 1
	}
	tail -n 1 said
done
# The one capability that would give all others is for old kernels and by choice alone (old-kernel.conf).
! grep -n '^[^#]*CAP_SYS_ADMIN' ./*.service
