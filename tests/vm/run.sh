#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The kernel side under other kernels: Debian's, each in a virtual machine on an emulated processor (qemu without KVM).
#
#   run.sh [--quick] [VERSION...]      5.10, 6.1, 6.12, newest; all without one
#   run.sh [VERSION...] -- COMMAND...  runs a command there instead, "bash" for a shell
#
# The virtual machine has this machine's root, read only, with empty /tmp, /var/tmp and /run, so that it runs the programs
# of $BUILD (build/ci without it) with the libraries they were built for. It runs caps.sh, small.sh and, without --quick, the tests of
# tests/kernel. Kernels are kept in ${RANKTRACE_KERNELS:-/var/tmp/ranktrace-kernels}; "newest" is renewed after a week.
# Exit status: 0 all pass, 1 one failed, 2 wrong usage, 77 nothing can be tested here.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source=$(cd "$here/../.." && pwd)
source "$source/tests/e2e/lib_debian.sh"
kernels=${RANKTRACE_KERNELS:-/var/tmp/ranktrace-kernels}
modules=(virtio virtio_ring virtio_pci virtio_pci_modern_dev virtio_pci_legacy_dev netfs fscache 9pnet 9pnet_virtio 9p overlay brd)
limit_s=1800 # of one machine; the slowest takes a quarter of it on two free processors

refuse() {
	echo "run.sh: $1" >&2
	sed -n '5,6s/^# *//p' "${BASH_SOURCE[0]}" >&2
	exit 2
}
skip() { echo "SKIP: $1"; exit 77; }

# suite_of VERSION: Debian's suite with that kernel.
suite_of() {
	case $1 in
	5.10) echo bullseye ;;
	6.1) echo bookworm ;;
	6.12) echo trixie ;;
	newest) echo sid ;;
	*) return 1 ;;
	esac
}

versions=()
job=("$here/guest.sh" all)
# Two emulated processors wait for each other, and take the machine's time for it. The tests of tests/kernel need them.
cpus=2
while [ $# -gt 0 ]; do
	case $1 in
	--quick)
		job=("$here/guest.sh" quick)
		cpus=1
		;;
	--)
		shift
		[ $# -gt 0 ] || refuse "no command after --"
		job=("$@")
		break
		;;
	*)
		suite_of "$1" >/dev/null || refuse "there is no kernel '$1'"
		versions+=("$1")
		;;
	esac
	shift
done
[ ${#versions[@]} -gt 0 ] || versions=(5.10 6.1 6.12 newest)
build=$(cd "${BUILD:-$source/build/ci}" && pwd) || refuse "there is no build folder ${BUILD:-$source/build/ci}"
[ "$(uname -m)" = x86_64 ] || skip "kernels of x86-64 only"
for program in qemu-system-x86_64 busybox apt-get dpkg-deb; do
	command -v $program >/dev/null || skip "no $program (packaging/install-deps.sh --tests installs it)"
done

work=$(mktemp -d /tmp/ranktrace-vm.XXXXXX) # not in TMPDIR: the guest has a /dev of its own
trap 'rm -rf "$work"' EXIT

# fetch SUITE FOLDER: unpacks its newest kernel, without installing it. Since 2026 its files are in packages beside it.
fetch() {
	local apt from image lists=$work/apt.$1
	from=$(debian_mirror)
	wget -q -T 20 -t 2 -O /dev/null "$from/dists/$1/Release" || skip "the mirror $from cannot be reached"
	mkdir -p "$lists/lists/partial" "$lists/archives/partial" "$2"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $from $1 main" >"$lists/sources.list"
	apt=(-q -o "Dir::Etc::SourceList=$lists/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State=$lists"
		-o "Dir::Cache=$lists" -o Dir::State::status=/dev/null -o Acquire::Languages=none -o Acquire::Retries=3
		-o APT::Sandbox::User=root)
	apt-get "${apt[@]}" update
	image=$(apt-cache "${apt[@]}" depends linux-image-amd64 | awk '$1 == "Depends:" && $2 ~ /^linux-image-[0-9]/ { print $2 }')
	(
		cd "$lists"
		# shellcheck disable=SC2046
		apt-get "${apt[@]}" download "$image" $(apt-cache "${apt[@]}" depends "$image" |
			awk '$1 == "Depends:" && $2 ~ /^linux-(binary|modules)-[0-9]/ { print $2 }')
		for package in *.deb; do dpkg-deb -x "$package" "$2"; done
	)
}

# ready VERSION: its kernel is in $kernels. One process at a time fetches it.
ready() {
	local folder=$kernels/$1 lock
	mkdir -p "$kernels"
	exec {lock}>"$folder.lock"
	flock "$lock"
	if [ ! -d "$folder" ] || { [ "$1" = newest ] && [ -n "$(find "$folder" -maxdepth 0 -mtime +7)" ]; }; then
		rm -rf "$folder" "$folder.part"
		fetch "$(suite_of "$1")" "$folder.part" >"$folder.log" 2>&1 || {
			tail "$folder.log" >&2
			echo "FAIL: cannot fetch the kernel $1" >&2
			exit 1
		}
		touch "$folder.part"
		mv "$folder.part" "$folder"
	fi
	exec {lock}>&-
}

# initramfs VERSION: busybox, the modules that mount the root and make a disk in memory, and init.sh.
initramfs() {
	local name file folder=$work/initramfs.$1
	mkdir -p "$folder"/{bin,modules,proc,sys,dev}
	cp "$(command -v busybox)" "$folder/bin/busybox"
	for name in $(busybox --list); do [ "$name" = busybox ] || ln -s busybox "$folder/bin/$name"; done
	for name in "${modules[@]}"; do
		file=$(find "$kernels/$1" -name "$name.ko*" | head -1)
		case $file in
		*.xz) xz -dc "$file" >"$folder/modules/$name.ko" ;;
		*.ko) cp "$file" "$folder/modules/" ;;
		esac
	done
	cp "$here/init.sh" "$folder/init"
	chmod +x "$folder/init"
	printf 'source=%q\nbuild=%q\nresults=%q\n' "$source" "$build" "$work/results" >"$folder/place"
	(cd "$folder" && find . | busybox cpio -o -H newc 2>/dev/null) >"$work/initramfs"
}

# boot VERSION: runs the job there; its exit status is in $work/results/status. An old processor, and pages that are not
# filled when they are taken: all that -cpu max can emulate takes twice the time.
boot() {
	rm -rf "$work/results"
	mkdir "$work/results"
	printf 'export BUILD=%q\ncd %q\n' "$build" "$source" >"$work/results/job"
	printf '%q ' "${job[@]}" >>"$work/results/job"
	timeout "$limit_s" qemu-system-x86_64 -accel tcg,thread=multi -cpu Nehalem -m 2048 -smp "$cpus" -nographic -no-reboot -nic none \
		-kernel "$(find "$kernels/$1" -name 'vmlinuz*' | head -1)" -initrd "$work/initramfs" \
		-append "console=ttyS0 quiet panic=-1 mitigations=off init_on_alloc=0" \
		-fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap \
		-device virtio-9p-pci,fsdev=root,mount_tag=root \
		-fsdev "local,id=results,path=$work/results,security_model=none" \
		-device virtio-9p-pci,fsdev=results,mount_tag=results
}

failed=0
for version in "${versions[@]}"; do
	started=$SECONDS
	ready "$version"
	initramfs "$version"
	echo "== Linux $version"
	# The BIOS clears the screen.
	boot "$version" 2>&1 | sed -u '1,/Booting from ROM/d; s/\r$//; s/^\x1bc.*\x1b\[2J//'
	status=$(cat "$work/results/status" 2>/dev/null) || status="the kernel died or had no time"
	echo "== Linux $version: $((SECONDS - started)) s, ${status/#0/passed}"
	[ "$status" = 0 ] || failed=1
done
exit $failed
