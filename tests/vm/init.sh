#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Process 1 of a virtual machine of run.sh, in busybox: mounts the machine's own root, read only, with empty folders in memory
# and the folder of results; runs the job there and turns the machine off.
# shellcheck disable=SC2034,SC2154
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev

# Modules in any order: those that need others load in a later round.
for round in 1 2 3 4 5; do
	for module in /modules/*.ko; do insmod "$module" 2>/dev/null && rm "$module"; done
done

mkdir -p /lower /machine
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,ro,cache=loose root /lower || poweroff -f
mount --bind /lower /machine
for folder in tmp run var/tmp; do mount -t tmpfs tmpfs /machine/$folder; done
ln -s /proc/self/fd /dev/fd
mount --move /dev /machine/dev
mount --move /proc /machine/proc
mount --move /sys /machine/sys
# The folders may be below one that is empty now.
# shellcheck disable=SC1091
. /place # sets source, build and results
for folder in "$source" "$build"; do mkdir -p "/machine$folder" && mount --bind "/lower$folder" "/machine$folder"; done
mkdir -p "/machine$results" /machine/dev/shm
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 results "/machine$results"
mount -t tmpfs tmpfs /machine/dev/shm
mount -t tracefs tracefs /machine/sys/kernel/tracing
mount -t cgroup2 cgroup2 /machine/sys/fs/cgroup
ip link set lo up
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin chroot /machine /bin/bash "$results/job"
echo $? >"/machine$results/status"
poweroff -f
