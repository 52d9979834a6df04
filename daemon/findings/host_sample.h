/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples of the operating system's accounting for one process: /proc/PID/stat, the schedstat of one of its threads,
 * and the CPU limits of its control groups. Never stops the process. Counts that went back (a reused pid, another
 * thread) are unknown.
 */
#ifndef RANKTRACE_DAEMON_FINDINGS_HOST_SAMPLE_H
#define RANKTRACE_DAEMON_FINDINGS_HOST_SAMPLE_H

#include "daemon/base/util.h"

/*
 * Throttled time of a process's control groups under CPU limits (cpu.max, or cfs_quota_us of version 1). Any ancestor
 * may have a limit; unlimited groups are skipped until the next scan.
 */

#define HOST_CGROUPS_MAX 16 /* limited groups above a process; levels scanned */

struct host_cgroup {
	bool known; /* counts of the process's group are readable */
	size_t count;
	struct {
		char *path; /* of cpu.stat */
		uint64_t throttled_ns;
		bool fresh; /* not read yet: no difference */
	} group[HOST_CGROUPS_MAX];
};

/* Rescans the process's groups and their limits. cgroup_root: "/sys/fs/cgroup". */
void host_cgroup_scan(struct host_cgroup *cgroup, const char *proc_root, const char *cgroup_root, uint32_t pid);
/* Throttled time since the last call, of the most throttled group, summed over CPUs. False: unknown. */
bool host_cgroup_throttled(struct host_cgroup *cgroup, uint64_t *ret_throttled_ns);
void host_cgroup_free(struct host_cgroup *cgroup);

#define HOST_UNKNOWN UINT64_MAX
#define HOST_CGROUP_SCAN_NS NSEC_PER_SEC /* between scans for limited control groups */

struct host_sample {
	uint64_t start_ns, duration_ns; /* CLOCK_MONOTONIC */
	uint64_t cpu_ns;		/* of the process, in this interval */
	uint64_t run_delay_ns;		/* of the thread, in this interval; HOST_UNKNOWN as below */
	uint64_t throttled_ns;		/* at most duration_ns */
	uint64_t major_faults;
	uint64_t resident_bytes; /* at the end */
	uint64_t cpu_total_ns;	 /* since the process started */
	char state;		 /* at the end: R, S, D, T, t, Z */
};

struct host_sampler;

/* start_time_ns: from procfs_stat(), identifies the process. */
int host_sampler_new(const char *proc_root, const char *cgroup_root, uint32_t pid, uint64_t start_time_ns,
	struct host_sampler **ret);
struct host_sampler *host_sampler_free(struct host_sampler *sampler);
/*
 * 1: *ret covers the time since the last call. 0: first call, or no time passed: only state and totals are valid.
 * -ESRCH: the process is gone.
 */
int host_sampler_take(struct host_sampler *sampler, uint32_t thread_id, uint64_t now_ns, struct host_sample *ret);

#endif
