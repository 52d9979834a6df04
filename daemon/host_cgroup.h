/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For how long a process's control groups were held back by a CPU limit (cpu.max, or cfs_quota_us of version 1). A
 * limit may be set on any group above the process; those without one are found and then not read again until the next
 * look.
 */
#ifndef RANKTRACE_HOST_CGROUP_H
#define RANKTRACE_HOST_CGROUP_H

#include "daemon/util.h"

#define HOST_CGROUPS_MAX 16 /* limited groups above a process; levels that are looked at */

struct host_cgroup {
	bool known; /* the process is in a group whose counts can be read */
	size_t count;
	struct {
		char *path; /* of cpu.stat */
		uint64_t throttled_ns;
		bool fresh; /* not read before: says nothing yet */
	} group[HOST_CGROUPS_MAX];
};

/* Looks anew which groups the process is in and which have a limit. cgroup_root: "/sys/fs/cgroup". */
void host_cgroup_look(struct host_cgroup *cgroup, const char *proc_root, const char *cgroup_root, uint32_t pid);
/* Time held back since the call before, of the group where it was most, as the kernel adds it up over CPUs; false: not
 * known. */
bool host_cgroup_take(struct host_cgroup *cgroup, uint64_t *ret_throttled_ns);
void host_cgroup_free(struct host_cgroup *cgroup);

#endif
