/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the operating system gave and took from one process, between two looks: /proc/PID/stat, the schedstat of one of
 * its threads, and the CPU limits of its control groups. Reads a few small files and stops nobody. Counts that went
 * back (a process number used again, a thread that is another one) say nothing, never something huge.
 */
#ifndef RANKTRACE_DAEMON_FINDINGS_HOST_SAMPLE_H
#define RANKTRACE_DAEMON_FINDINGS_HOST_SAMPLE_H

#include "daemon/base/util.h"

/*
 * For how long a process's control groups were held back by a CPU limit (cpu.max, or cfs_quota_us of version 1). A
 * limit may be set on any group above the process; those without one are found and then not read again until the next
 * look.
 */

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

#define HOST_UNKNOWN UINT64_MAX
#define HOST_CGROUP_LOOK_NS NSEC_PER_SEC /* between looks at which control groups have a limit */

struct host_sample {
	uint64_t start_ns, duration_ns; /* CLOCK_MONOTONIC */
	uint64_t cpu_ns;		/* in it, of the process */
	uint64_t run_delay_ns;		/* in it, of the thread; HOST_UNKNOWN, as all that follow */
	uint64_t throttled_ns;		/* at most duration_ns */
	uint64_t major_faults;
	uint64_t resident_bytes; /* at its end */
	uint64_t cpu_total_ns;	 /* since the process began */
	char state;		 /* at its end: R, S, D, T, t, Z */
};

struct host_sampler;

/* start_time_ns: as procfs_stat() says it of the process that is meant. */
int host_sampler_new(const char *proc_root, const char *cgroup_root, uint32_t pid, uint64_t start_time_ns,
	struct host_sampler **ret);
struct host_sampler *host_sampler_free(struct host_sampler *sampler);
/* 1: a sample since the call before; 0: there was none before, or no time has passed, and only state and totals are
 * told; -ESRCH: the process is gone. */
int host_sampler_take(struct host_sampler *sampler, uint32_t thread_id, uint64_t now_ns, struct host_sample *ret);

#endif
