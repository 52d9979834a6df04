#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each row of the probe tables has a name of its own in its folder: a later one would replace it. probes.sh SOURCE BUILD
set -euo pipefail
twice=$(cat "$1"/bpf/probes.d/*.conf | grep '^\[probe "' | sort | uniq -d)
[ -z "$twice" ] || {
	echo "bpf/probes.d has two rows of one name: $twice"
	exit 1
}
