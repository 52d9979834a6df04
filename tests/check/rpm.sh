#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The spec parses with the macros of the distributions stubbed, and its version is the build's. rpm.sh SOURCE
set -euo pipefail
cd "$1"
spec=packaging/rpm/ranktrace.spec
version=$(sed -n 's/^project(ranktrace VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
grep -q "^Version: *$version\$" "$spec" || {
	echo "$spec: not version $version of CMakeLists.txt"
	exit 1
}
command -v rpmspec >/dev/null || {
	echo "skipped: no rpmspec here (the version was compared)"
	exit 77
}
stubs=(-D '_sourcedir packaging/rpm' -D '_unitdir /usr/lib/systemd/system' -D '_presetdir /usr/lib/systemd/system-preset'
	-D '_sysusersdir /usr/lib/sysusers.d' -D '_hardened_build 1')
# Macros with options of their own take "-" as the list: all that follows is theirs.
for macro in cmake cmake_build cmake_install ctest; do
	stubs+=(-D "$macro(-) true")
done
for macro in systemd_post systemd_preun systemd_postun systemd_postun_with_restart sysusers_create_compat; do
	stubs+=(-D "$macro(-) true")
done
parsed=$(rpmspec "${stubs[@]}" -P "$spec")
grep -q '^%files' <<<"$parsed"
! grep -nE '%(cmake|ctest|_unitdir|_presetdir|_sysusersdir|systemd_[a-z_]*)' <<<"$parsed"
