#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Self-tests of the GPU comparisons on synthetic data: they must be able to fail. gpu_scripts.sh SOURCE
set -euo pipefail
cd "$1/tests/e2e/gpu"
export PYTHONDONTWRITEBYTECODE=1
for script in l1_compare.py l1_missing.py l2_alloc.py l2_memory.py steady.py; do
	python3 "$script" self-test >/tmp/gpu_scripts.$$ || {
		cat "/tmp/gpu_scripts.$$"
		rm -f "/tmp/gpu_scripts.$$"
		exit 1
	}
done
rm -f "/tmp/gpu_scripts.$$"
