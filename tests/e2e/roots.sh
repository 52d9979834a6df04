#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every kind of training loop (modes.sh), or another test, with the PyTorch of another Debian suite, in a root of its own
# as in a container. Mounts are made in a mount namespace of this test, so none is left behind.
#
#   roots.sh SUITE [TEST]       runs the test (modes without one); makes the root where it is missing
#   roots.sh --make SUITE...    makes the roots only
#
# A root is in ${RANKTRACE_ROOTS:-/var/tmp/ranktrace-roots}/SUITE and serves all tests and the next run.
set -euo pipefail

usage() {
	sed -n '6,7s/^# *//p' "${BASH_SOURCE[0]}" >&2
	exit 2
}
make_only=no
if [ "${1:-}" = --make ]; then
	make_only=yes
	shift
fi
[ $# -gt 0 ] || usage
suite=$1
test=${2:-modes}
here=$(cd "$(dirname "$0")" && pwd)
source "$here/lib_debian.sh"
roots=${RANKTRACE_ROOTS:-/var/tmp/ranktrace-roots}
root=$roots/$suite

skip() { echo "SKIP: $1"; exit 77; }
[ "$(id -u)" -eq 0 ] || skip "needs root to make another root and to load BPF programs"
if [ "$make_only" = no ] && [ -z "${RANKTRACE_ROOTS_UNSHARED:-}" ]; then
	RANKTRACE_ROOTS_UNSHARED=1 exec unshare --mount --propagation private "$0" "$@"
fi

make_root() {
	local from log=$roots/$suite.log
	command -v debootstrap >/dev/null || skip "no debootstrap (packaging/install-deps.sh --tests installs it)"
	from=$(debian_mirror)
	wget -q -T 20 -t 2 -O /dev/null "$from/dists/$suite/Release" || skip "the mirror $from cannot be reached"
	echo "making $root from $from"
	rm -rf --one-file-system "$root.part"
	if ! {
		debootstrap --variant=minbase "$suite" "$root.part" "$from" &&
			echo force-unsafe-io >"$root.part/etc/dpkg/dpkg.cfg.d/unsafe-io" &&
			DEBIAN_FRONTEND=noninteractive chroot "$root.part" apt-get install -y -q --no-install-recommends \
				-o Acquire::Retries=3 python3-torch &&
			chroot "$root.part" apt-get clean
	} >"$log" 2>&1; then
		tail -20 "$log" >&2
		echo "FAIL: cannot create $root" >&2
		exit 1
	fi
	mv "$root.part" "$root"
}

# ready SUITE: its root is there. One process at a time makes it.
ready() {
	local lock
	suite=$1
	root=$roots/$suite
	mkdir -p "$roots"
	exec {lock}>"$roots/$suite.lock"
	flock "$lock"
	[ -x "$root/usr/bin/python3" ] || make_root
	exec {lock}>&-
}

started=$SECONDS
if [ "$make_only" = yes ]; then
	for suite in "$@"; do
		started=$SECONDS
		ready "$suite"
		echo "$root: ready in $((SECONDS - started)) s"
	done
	exit 0
fi
ready "$suite"
# The root may be some minutes old and no longer cached. A disk that is slower than the limits of readers is not judged here.
cat "$root"/usr/lib/*/libtorch*.so* >/dev/null
echo "$root: $(chroot "$root" dpkg-query -W -f '${Package} ${Version}\n' python3 python3-torch | paste -sd' '), \
ready in $((SECONDS - started)) s"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
TORCH_ROOT=$root exec "$here/$test.sh"
