#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The generator of training jobs, without training: its score, its truth, its plans. jobs.sh SOURCE
set -euo pipefail
export PYTHONDONTWRITEBYTECODE=1
exec python3 "$1/tests/jobs/test_jobs.py"
