#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A store of metrics that fails is one sentence and an exit code. fleet.sh SOURCE BUILD
set -euo pipefail
[ -x "$2/libexec/ranktrace/fleet" ] || { echo "SKIP: nothing is built" && exit 77; }
exec python3 "$1/tests/fleet/failures.py" "$2/libexec/ranktrace"
