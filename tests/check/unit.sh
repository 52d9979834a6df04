#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# systemd accepts the units, and their exposure is limited to what loading BPF needs. unit.sh SOURCE BUILD
set -euo pipefail
command -v systemd-analyze >/dev/null || {
	echo "skipped: no systemd-analyze here"
	exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# verify needs the program, which is not installed.
for service in ranktraced ranktrace-report; do
	sed -E 's#^(ExecStart|ExecReload)=[^ ]*#\1=/bin/true#' "$2/systemd/$service.service" >"$work/$service.service"
done
cp "$2/systemd/ranktraced.socket" "$1/systemd/ranktrace-report.timer" "$1/systemd/ranktraced-metrics.socket" "$work/"
units=(./ranktraced.service ./ranktraced.socket ./ranktrace-report.service ./ranktrace-report.timer ./ranktraced-metrics.socket)
cd "$work"
said=$(systemd-analyze verify --man=no "${units[@]}" 2>&1) || {
	echo "$said"
	exit 1
}
# verify only warns of an unknown directive; here it is an error.
said=$(grep -E '^\S*ranktrace(d|d-metrics|-report)\.(service|socket|timer)' <<<"$said" || true)
[ -z "$said" ] || {
	echo "$said"
	exit 1
}
# Of 100, smaller is better: systemd 252 gives 16 and 4. The limits have a margin, as the rating depends on the version.
for service in ranktraced:23 ranktrace-report:12; do
	systemd-analyze security --offline=yes --threshold="${service#*:}" "./${service%:*}.service" >said 2>&1 || {
		cat said
		exit 1
	}
	tail -n 1 said
done
# Under memory pressure the kernel ends workers first: they write their own oom_score_adj (worker_child.c).
if grep -nE '^(ReadOnlyPaths|InaccessiblePaths)=.*/proc' ./ranktraced.service; then exit 1; fi
# CAP_SYS_ADMIN, which includes the others, is only for old kernels and opt-in (old-kernel.conf).
! grep -n '^[^#]*CAP_SYS_ADMIN' ./*.service
