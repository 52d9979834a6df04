#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The shipped configuration and ranktrace.conf(5) document the same keys with the same defaults. config.sh SOURCE BUILD
# tests/unit/test_config.c compares the shipped file with the daemon.
set -euo pipefail
shipped=$(sed -n 's/^\[\(.*\)\]$/[\1]/p; s/^#\([a-z_]* = .*\)$/\1/p' "$2/systemd/ranktrace.conf")
manual=$(sed -n 's/^\.Ss Bq \([a-z]*\)$/[\1]/p; s/^\.It Cm \([a-z_]* = .*\)$/\1/p' "$2/man/ranktrace.conf.5")
[ "$(wc -l <<<"$shipped")" -gt 10 ] || {
	echo "no keys found in ranktrace.conf"
	exit 1
}
if ! diff <(echo "$shipped") <(echo "$manual"); then
	echo "ranktrace.conf (<) and ranktrace.conf.5 (>) differ"
	exit 1
fi
