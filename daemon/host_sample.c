/* SPDX-License-Identifier: Apache-2.0 */
/* See host_sample.h. Remembers the counts of the look before. */
#include "daemon/host_sample.h"

#include "daemon/host_cgroup.h"
#include "daemon/procfs.h"

struct host_sampler {
	char proc_root[128], cgroup_root[128];
	uint32_t pid;
	uint64_t start_time_ns;
	uint64_t taken_ns; /* 0: never */
	struct procfs_stat stat;
	uint32_t thread_id; /* 0: its counts are not known */
	uint64_t run_delay_ns;
	struct host_cgroup cgroup;
	uint64_t cgroup_next_ns;
};

int host_sampler_new(
	const char *proc_root, const char *cgroup_root, uint32_t pid, uint64_t start_time_ns, struct host_sampler **ret)
{
	struct host_sampler *sampler = calloc(1, sizeof(*sampler));

	if (!sampler)
		return -ENOMEM;
	(void)copy_text(sampler->proc_root, sizeof(sampler->proc_root), proc_root);
	(void)copy_text(sampler->cgroup_root, sizeof(sampler->cgroup_root), cgroup_root);
	sampler->pid = pid;
	sampler->start_time_ns = start_time_ns;
	*ret = sampler;
	return 0;
}

struct host_sampler *host_sampler_free(struct host_sampler *sampler)
{
	if (!sampler)
		return NULL;
	host_cgroup_free(&sampler->cgroup);
	free(sampler);
	return NULL;
}

static uint64_t host_sample_since(uint64_t now, uint64_t before)
{
	return now >= before ? now - before : HOST_UNKNOWN;
}

static uint64_t take_run_delay(struct host_sampler *sampler, uint32_t thread_id)
{
	uint64_t run_ns, delay_ns, ret = HOST_UNKNOWN;

	if (procfs_schedstat(sampler->proc_root, sampler->pid, thread_id, &run_ns, &delay_ns) < 0) {
		sampler->thread_id = 0;
		return HOST_UNKNOWN;
	}
	if (sampler->thread_id == thread_id)
		ret = host_sample_since(delay_ns, sampler->run_delay_ns);
	sampler->thread_id = thread_id;
	sampler->run_delay_ns = delay_ns;
	return ret;
}

/* Added up over CPUs, so it may be more than has passed. */
static uint64_t take_throttled(struct host_sampler *sampler, uint64_t now_ns, uint64_t duration_ns)
{
	uint64_t throttled_ns;

	if (now_ns >= sampler->cgroup_next_ns) {
		host_cgroup_look(&sampler->cgroup, sampler->proc_root, sampler->cgroup_root, sampler->pid);
		sampler->cgroup_next_ns = now_ns + HOST_CGROUP_LOOK_NS;
	}
	if (!host_cgroup_take(&sampler->cgroup, &throttled_ns))
		return HOST_UNKNOWN;
	return throttled_ns < duration_ns ? throttled_ns : duration_ns;
}

int host_sampler_take(struct host_sampler *sampler, uint32_t thread_id, uint64_t now_ns, struct host_sample *ret)
{
	struct host_sample sample = {.start_ns = sampler->taken_ns};
	struct procfs_stat stat;
	bool first = !sampler->taken_ns || now_ns <= sampler->taken_ns;

	if (procfs_stat(sampler->proc_root, sampler->pid, &stat) < 0 || stat.start_time_ns != sampler->start_time_ns)
		return -ESRCH;
	sample.duration_ns = first ? 0 : now_ns - sampler->taken_ns;
	sample.state = stat.state;
	sample.cpu_total_ns = stat.cpu_ns;
	sample.resident_bytes = stat.resident_bytes;
	sample.cpu_ns = host_sample_since(stat.cpu_ns, sampler->stat.cpu_ns);
	sample.major_faults = host_sample_since(stat.major_faults, sampler->stat.major_faults);
	sample.run_delay_ns = take_run_delay(sampler, thread_id ? thread_id : sampler->pid);
	sample.throttled_ns = take_throttled(sampler, now_ns, sample.duration_ns);
	sampler->stat = stat;
	sampler->taken_ns = now_ns;
	*ret = sample;
	return first ? 0 : 1;
}
