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

mkdir -p /lower /root
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,ro,cache=loose root /lower || poweroff -f
mount --bind /lower /root
for folder in tmp run var/tmp; do mount -t tmpfs tmpfs /root/$folder; done
ln -s /proc/self/fd /dev/fd
mount --move /dev /root/dev
mount --move /proc /root/proc
mount --move /sys /root/sys
# The folders may be below one that is empty now.
# shellcheck disable=SC1091
. /place # sets source, build and results
for folder in "$source" "$build"; do mkdir -p "/root$folder" && mount --bind "/lower$folder" "/root$folder"; done
mkdir -p "/root$results" /root/dev/shm
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 results "/root$results"
mount -t tmpfs tmpfs /root/dev/shm
mount -t tracefs tracefs /root/sys/kernel/tracing
mount -t cgroup2 cgroup2 /root/sys/fs/cgroup
ip link set lo up
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin chroot /root /bin/bash "$results/job"
echo $? >"/root$results/status"
poweroff -f
