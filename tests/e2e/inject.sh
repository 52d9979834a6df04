#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Real ranks broken on purpose, a run of each of a few kinds, and a clean one: who is broken is named with its cause, nobody
# else is. All kinds, and more runs of each: tests/inject/inject.py.
source "$(dirname "$0")/lib.sh"

cpus=$(nproc)
[ "$cpus" -ge 2 ] || skip "needs two CPUs: ranks that share one slow each other"
[ -z "${TORCH_ROOT:-}" ] || skip "runs with the machine's own PyTorch only"
"$python_here" "$source_dir/tests/inject/inject.py" --tracectl "$tracectl" --daemon "$build/daemon/ranktraced" --python "$python" \
	--kinds "${KINDS:-clean,compute,dataloader,hog,stop,type}" --clean 15 || fail "a run missed, or accused somebody else"
e2e_done
