#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The installed files and the package's file list are equal. files.sh SOURCE BUILD
set -euo pipefail
prefix=$(sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' "$2/CMakeCache.txt")
[ "$prefix" = /usr ] || {
	echo "skipped: this build is for $prefix and the package is for /usr"
	exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
DESTDIR=$work/root cmake --install "$2" >/dev/null
# Distributions without merged /usr have units in /lib/systemd; the package's macros use /usr/lib.
installed=$(cd "$work/root" && find . -not -type d | sed 's|^\./|/|; s|^/lib/|/usr/lib/|' | sort)
libdir=/usr/lib
arch_libdir=/usr/$(sed -n 's/^CMAKE_INSTALL_LIBDIR:PATH=//p' "$2/CMakeCache.txt")
patterns=$(sed -n '/^%files/,/^%changelog/p' "$1/packaging/rpm/ranktrace.spec" | sed -E '
	/^%(files|changelog|license|doc|dir)/d; /^$/d; s/^%(config|attr)\([^)]*\) //
	s|%\{_sbindir\}|/usr/sbin|; s|%\{_bindir\}|/usr/bin|; s|%\{_libexecdir\}|/usr/libexec|; s|%\{_datadir\}|/usr/share|
	s|%\{_docdir\}|/usr/share/doc|; s|%\{_mandir\}|/usr/share/man|; s|%\{_sysconfdir\}|/etc|
	s|%\{_unitdir\}|'$libdir'/systemd/system|; s|%\{_presetdir\}|'$libdir'/systemd/system-preset|
	s|%\{_libdir\}|'"$arch_libdir"'|
	s|%\{_sysusersdir\}|'$libdir'/sysusers.d|')
failed=0
while read -r pattern; do
	# shellcheck disable=SC2053 # intended as a pattern
	while read -r file; do [[ $file = $pattern || $file = $pattern/* ]] && continue 2; done <<<"$installed"
	echo "in the package's list but not installed: $pattern"
	failed=1
done <<<"$patterns"
while read -r file; do
	# shellcheck disable=SC2053
	while read -r pattern; do [[ $file = $pattern || $file = $pattern/* ]] && continue 2; done <<<"$patterns"
	echo "installed but not in the package's list: $file"
	failed=1
done <<<"$installed"
exit "$failed"
