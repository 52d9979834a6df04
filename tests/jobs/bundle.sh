#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Copies our programs and the libraries that they need, apart from the C library, to a folder that a machine without packages can
# run: daemon/ranktraced, ctl/tracectl, libexec/ranktrace/, lib/, marker/ (the NCCL plugin). gpu.sh uses it there.
#
#   tests/jobs/bundle.sh [BUILD] [DIR]     default: build, build/jobs-bundle
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$source/build}
out=${2:-$build/jobs-bundle}
rm -rf "$out"
mkdir -p "$out"/{daemon,ctl,libexec/ranktrace/worker,lib,marker}
install -s "$build/daemon/ranktraced" "$out/daemon/"
install -s "$build/ctl/tracectl" "$out/ctl/"
for folder in libexec/ranktrace libexec/ranktrace/worker; do
	find "$build/$folder" -maxdepth 1 -type f -exec install -s {} "$out/$folder/" ';'
done
install "$build/bpf/marker/libnccl-profiler-ranktrace.so" "$out/marker/"
find "$out"/daemon "$out"/ctl "$out"/libexec -type f -exec ldd {} + |
	awk '$3 ~ /^\// { print $3 }' | sort -u | grep -vE '/(libc|libm|libpthread|libdl|librt|libresolv|ld-linux[^/]*)\.so' |
	while read -r library; do cp -L "$library" "$out/lib/"; done
du -sh "$out"
