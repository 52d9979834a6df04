#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: roots.sh SUITE [TEST]. Runs modes.sh, or another test, with the PyTorch of another Debian suite in its own root, as in
# a container. A missing root is created in ${RANKTRACE_ROOTS:-/var/tmp/ranktrace-roots}/SUITE and kept for later runs. Mounts
# are in a private mount namespace.
set -euo pipefail

suite=${1:?usage: roots.sh SUITE [TEST]}
test=${2:-modes}
here=$(cd "$(dirname "$0")" && pwd)
roots=${RANKTRACE_ROOTS:-/var/tmp/ranktrace-roots}
root=$roots/$suite

skip() { echo "SKIP: $1"; exit 77; }
[ "$(id -u)" -eq 0 ] || skip "needs root to create a root and to load BPF programs"
if [ -z "${RANKTRACE_ROOTS_UNSHARED:-}" ]; then
	RANKTRACE_ROOTS_UNSHARED=1 exec unshare --mount --propagation private "$0" "$@"
fi

# The machine's Debian mirror, or debootstrap's default.
mirror() {
	{
		sed -n 's/^URIs:[[:space:]]*//p' /etc/apt/sources.list.d/*.sources
		sed -n 's/^deb[[:space:]]\+\(\[[^]]*\][[:space:]]*\)\?\([^[:space:]]*\).*/\2/p' /etc/apt/sources.list \
			/etc/apt/sources.list.d/*.list
		sed -n 's/^DEF_\(HTTPS_\)\?MIRROR="\(.*\)"/\2/p' "$(command -v debootstrap)"
	} 2>/dev/null | tr ' ' '\n' | grep -E '^https?://.*/debian/?$' | head -1
}

make_root() {
	local from log=$roots/$suite.log
	command -v debootstrap >/dev/null || skip "no debootstrap (packaging/install-deps.sh --tests installs it)"
	from=$(mirror)
	from=${from%/}
	wget -q -T 20 -t 2 -O /dev/null "$from/dists/$suite/Release" || skip "the mirror $from cannot be reached"
	echo "creating $root from $from"
	mkdir -p "$roots"
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

started=$SECONDS
[ -x "$root/usr/bin/python3" ] || make_root
echo "$root: $(chroot "$root" dpkg-query -W -f '${Package} ${Version}\n' python3 python3-torch | paste -sd' '), \
ready in $((SECONDS - started)) s"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
TORCH_ROOT=$root exec "$here/$test.sh"
