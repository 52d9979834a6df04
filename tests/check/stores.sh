#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Stores that earlier versions wrote give every tool's results of then. stores.sh SOURCE BUILD
set -euo pipefail
exec python3 "$1/tests/fixtures/stores/compare.py" "$2/libexec/ranktrace"
