#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs the build dependencies of ranktrace, with --tests also those of its tests, with --torch PyTorch alone. Does
# nothing if everything is installed. Debian 12 and later, Ubuntu (apt); Fedora, CentOS Stream and derivatives, openEuler (dnf).
set -euo pipefail

wanted=${1:---build}
case "$wanted" in
--build | --tests | --torch) ;;
*)
	echo "usage: install-deps.sh [--tests|--torch]" >&2
	exit 2
	;;
esac

# One row per dependency: check, package for apt, package for dnf ("-": none).
build_rows=(
	"command cmake|cmake|cmake"
	"command ninja|ninja-build|ninja-build"
	"command pkg-config|pkg-config|pkgconf-pkg-config"
	"command gcc|gcc|gcc"
	"file /usr/include/stdio.h|libc6-dev|glibc-devel"
	"command clang|clang|clang"
	"command llvm-strip llvm-strip-*|llvm|llvm"
	"command bpftool|bpftool|bpftool"
	"library libbpf|libbpf-dev|libbpf-devel"
	"library libelf|libelf-dev|elfutils-libelf-devel"
	"library libdw|libdw-dev|elfutils-devel"
	"library libevent|libevent-dev|libevent-devel"
	"library libprotobuf-c|libprotobuf-c-dev|protobuf-c-devel"
	"command protoc-c|protobuf-c-compiler|protobuf-c-compiler"
	"library sqlite3|libsqlite3-dev|sqlite-devel"
	"library libsystemd|libsystemd-dev|systemd-devel"
	"library jansson|libjansson-dev|jansson-devel"
	"library libcurl|libcurl4-openssl-dev|libcurl-devel"
	"library zlib|zlib1g-dev|zlib-devel"
	"library capstone|libcapstone-dev|capstone-devel"
)
torch_rows=("python torch|python3-torch|python3-torch")
test_rows=(
	"library cmocka|libcmocka-dev|libcmocka-devel"
	"file /usr/include/sys/sdt.h /usr/include/*/sys/sdt.h|systemtap-sdt-dev|systemtap-sdt-devel"
	"command g++|g++|gcc-c++"
	"command python3|python3|python3"
	"command sqlite3|sqlite3|sqlite"
	"command shellcheck|shellcheck|ShellCheck"
	"command mandoc|mandoc|mandoc"
	"file /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a /usr/lib*/clang/*/lib/*/libclang_rt.fuzzer*.a|libclang-rt-dev|compiler-rt"
	"command ld.lld|lld|lld"
	"command rpmspec|rpm|rpm-build"
	"command systemd-analyze|systemd|systemd"
	"command systemd-socket-activate|systemd|systemd"
	"command init|systemd-sysv|systemd"
	"command systemd-nspawn|systemd-container|systemd-container"
	"command debootstrap|debootstrap|debootstrap"
	"command qemu-system-x86_64|qemu-system-x86|-"
	"command busybox|busybox-static|-"
	"command setpriv|util-linux|util-linux"
	"command pgrep|procps|procps-ng"
	"command wget|wget|wget"
	"command file|file|file"
)

there() {
	local kind=$1 name path
	shift
	for name in "$@"; do
		case "$kind" in
		command) for path in /usr/{local/,}{s,}bin/ {/s,/}bin/; do compgen -G "$path$name" >/dev/null && return 0; done ;;
		library) pkg-config --exists "$name" 2>/dev/null && return 0 ;;
		python) /usr/bin/python3 -c "import importlib.util as u, sys; sys.exit(u.find_spec('$name') is None)" 2>/dev/null && return 0 ;;
		file) compgen -G "$name" >/dev/null && return 0 ;;
		esac
	done
	return 1
}

if [ -x /usr/bin/apt-get ]; then
	column=2
elif [ -x /usr/bin/dnf ]; then
	column=3
else
	echo "install-deps.sh: neither apt-get nor dnf here; install what docs/operations.md lists by hand" >&2
	exit 1
fi

case "$wanted" in
--build) rows=("${build_rows[@]}") ;;
--torch) rows=("${torch_rows[@]}") ;;
--tests) rows=("${build_rows[@]}" "${torch_rows[@]}" "${test_rows[@]}") ;;
esac
missing=()
for row in "${rows[@]}"; do
	IFS='|' read -r -a cell <<<"$row"
	read -r -a probe <<<"${cell[0]}"
	there "${probe[@]}" && continue
	package=${cell[column - 1]}
	[[ "$package" = - || " ${missing[*]} " = *" $package "* ]] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" -ne 0 ]; then
	echo "install-deps.sh: run as root to install: ${missing[*]}" >&2
	exit 1
fi
echo "installing ${missing[*]}"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() {
	"$@" >"$log" 2>&1 </dev/null
}
failed() {
	tail -n 20 "$log" >&2
	echo "install-deps.sh: cannot install ${missing[*]}, see the output above; needs a network or a package mirror" >&2
	exit 1
}

if [ "$column" = 3 ]; then
	# Half of the -devel packages and ninja-build are in a repository that is off by default; enabled for this call only.
	dnf=(dnf -y -q)
	. /etc/os-release
	case "$ID" in
	centos | rocky | almalinux) dnf+=(--enablerepo=crb) ;;
	rhel) dnf+=(--enablerepo="codeready-builder-for-rhel-${VERSION_ID%%.*}-$(uname -m)-rpms") ;;
	esac
	known=() nowhere=()
	for package in "${missing[@]}"; do
		case "$package" in
		python3-torch | ShellCheck | debootstrap)
			# Other errors are reported by the installation.
			if ! quietly "${dnf[@]}" list "$package" && grep -qi 'no matching packages' "$log"; then
				nowhere+=("$package")
				continue
			fi
			;;
		esac
		known+=("$package")
	done
	missing=("${known[@]}")
	[ ${#missing[@]} -eq 0 ] || quietly "${dnf[@]}" install "${missing[@]}" || failed
	for package in "${nowhere[@]}"; do
		case "$package" in
		python3-torch) how="/usr/bin/python3 -m pip install torch installs PyTorch" ;;
		*) how="dnf install epel-release provides it on CentOS, RHEL and derivatives" ;;
		esac
		echo "install-deps.sh: no enabled repository has $package; $how" >&2
	done
	[ "$wanted" != --torch ] || [ ${#nowhere[@]} -eq 0 ] || exit 1
	exit 0
fi
export DEBIAN_FRONTEND=noninteractive
# Waits for the lock of the distribution's timers; updates package lists only if the installation fails.
apt=(apt-get -y -q -o DPkg::Lock::Timeout=300 install --no-install-recommends)
quietly "${apt[@]}" "${missing[@]}" && exit 0
quietly apt-get -q -o DPkg::Lock::Timeout=300 update || failed
quietly "${apt[@]}" "${missing[@]}" || failed
