#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The spec parses with stubs of the distributions' macros, has the build's version, creates the user where the macro for it is
# missing, and lists existing licences. rpm.sh SOURCE
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
# Macros with their own options need "-" as the list.
for macro in cmake cmake_build cmake_install ctest; do
	stubs+=(-D "$macro(-) true")
done
for macro in systemd_post systemd_preun systemd_postun systemd_postun_with_restart; do
	stubs+=(-D "$macro(-) true")
done
# parse OPTION...: parses the spec with additional options.
parse() {
	parsed=$(rpmspec "${stubs[@]}" "$@" -P "$spec")
	grep -q '^%files' <<<"$parsed"
	! grep -nE '%(cmake|ctest|_unitdir|_presetdir|_sysusersdir|systemd_[a-z_]*)' <<<"$parsed" || exit 1
}
parse -D 'sysusers_create_compat(-) true' -D 'sysusers_requires_compat Requires(pre): shadow-utils'
grep -q '^Requires(pre): shadow-utils$' <<<"$parsed"
! grep '^systemd-sysusers' <<<"$parsed" || exit 1
parse --undefine sysusers_create_compat --undefine sysusers_requires_compat
grep -q '^systemd-sysusers /usr/lib/sysusers.d/ranktrace.conf ' <<<"$parsed"
while read -r file; do [ -s "$file" ] || exit 1; done < <(sed -n 's/^%license //p' "$spec" | tr ' ' '\n')
