/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User side of the profile collector: loads and attaches bpf/profile.bpf.c while a profile runs
 * (daemon/stacks/profiles.h decides), one perf event for each CPU and one program at sched_switch; passes its records
 * on.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>

#include "bpf/profile.h"
#include "daemon/base/log.h"
#include "daemon/collect/collector.h"
#include "daemon/core/context.h"
#include "daemon/core/limits.h"
#include "daemon/kernel/kernel.h"
#include "daemon/stacks/profiles.h"
#include "profile.skel.h"
#include "stacks/reply/reply.h"

struct profile_cpu {
	int fd;
	struct bpf_link *link;
};

struct profile {
	struct context *context;
	struct profile_bpf *skeleton; /* NULL unless a profile runs */
	struct bpf_link *link;	      /* at sched_switch */
	struct profile_cpu *cpu;
	int cpus; /* of the machine, those that are off included */
	unsigned attached;
	struct profile_probe probe;
	uint64_t events, broken;
	char reason[128]; /* why the kernel refuses it; "" */
};

static struct bpf_program *profile_at_switch(const struct profile *profile)
{
	return kernel_features(profile->context->kernel)->tp_btf ? profile->skeleton->progs.profile_switch_btf
								 : profile->skeleton->progs.profile_switch_raw;
}

static int profile_load(struct profile *profile)
{
	bool tp_btf = kernel_features(profile->context->kernel)->tp_btf;
	struct profile_bpf *skeleton = profile_bpf__open();
	int r;

	if (!skeleton)
		return -errno;
	bpf_program__set_autoload(skeleton->progs.profile_switch_btf, tp_btf);
	bpf_program__set_autoload(skeleton->progs.profile_switch_raw, !tp_btf);
	r = bpf_map__set_max_entries(skeleton->maps.profiled, PROFILES_RANKS_MAX);
	if (r == 0)
		r = bpf_map__set_max_entries(skeleton->maps.profile_threads, LIMIT_PROFILE_THREADS);
	if (r == 0)
		r = kernel_load(profile->context->kernel, skeleton->skeleton);
	if (r < 0) {
		profile_bpf__destroy(skeleton);
		return r;
	}
	profile->skeleton = skeleton;
	return 0;
}

/* -ENODEV: the CPU is off. */
static int profile_attach_cpu(struct profile *profile, int cpu, uint64_t period_ns)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = period_ns,
	};
	struct profile_cpu *item = &profile->cpu[cpu];

	item->fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (item->fd < 0)
		return -errno;
	item->link = bpf_program__attach_perf_event(profile->skeleton->progs.profile_cpu, item->fd);
	if (!item->link)
		return -errno;
	profile->attached++;
	return 0;
}

static void profile_stop(void *arg)
{
	struct profile *profile = arg;

	for (int i = 0; i < profile->cpus; i++) {
		bpf_link__destroy(profile->cpu[i].link); /* closes the event, too */
		if (!profile->cpu[i].link && profile->cpu[i].fd >= 0)
			close(profile->cpu[i].fd);
		profile->cpu[i] = (struct profile_cpu){.fd = -1};
	}
	bpf_link__destroy(profile->link);
	profile->link = NULL;
	profile->attached = 0;
	profile_bpf__destroy(profile->skeleton);
	profile->skeleton = NULL;
}

static int profile_start(void *arg, uint64_t period_ns)
{
	struct profile *profile = arg;
	int r = profile_load(profile);

	if (r < 0)
		return r;
	profile->link = bpf_program__attach(profile_at_switch(profile));
	if (!profile->link)
		r = -errno;
	for (int i = 0; r == 0 && i < profile->cpus; i++) {
		r = profile_attach_cpu(profile, i, period_ns);
		if (r == -ENODEV)
			r = 0;
	}
	if (r < 0)
		profile_stop(profile);
	return r;
}

static int profile_add(void *arg, uint32_t pid, const struct rt_profile_process *process)
{
	const struct profile *profile = arg;
	int map = bpf_map__fd(profile->skeleton->maps.profiled);

	return bpf_map_update_elem(map, &pid, process, BPF_ANY) < 0 ? -errno : 0;
}

static int profile_counts(void *arg, uint32_t pid, bool remove, struct rt_profile_process *ret)
{
	const struct profile *profile = arg;
	int map = profile->skeleton ? bpf_map__fd(profile->skeleton->maps.profiled) : -1;

	if (map < 0 || bpf_map_lookup_elem(map, &pid, ret) < 0)
		return -ENOENT;
	if (remove)
		(void)bpf_map_delete_elem(map, &pid);
	return 0;
}

static int profile_open(struct context *context, void **ret_state)
{
	struct profile *profile = calloc(1, sizeof(*profile));
	int r;

	if (!profile)
		return -ENOMEM;
	profile->context = context;
	profile->cpus = libbpf_num_possible_cpus();
	profile->cpu = profile->cpus > 0 ? calloc((size_t)profile->cpus, sizeof(*profile->cpu)) : NULL;
	if (!profile->cpu) {
		free(profile);
		return -ENOMEM;
	}
	for (int i = 0; i < profile->cpus; i++)
		profile->cpu[i].fd = -1;
	*ret_state = profile;
	/* Whether it would work. */
	r = profile_start(profile, NSEC_PER_SEC);
	if (r < 0) {
		snprintf(profile->reason, sizeof(profile->reason), "the kernel refuses to sample (%s)", strerror(-r));
		log_warning("profile", "%s; no profiles", profile->reason);
		return 0;
	}
	profile_stop(profile);
	profile->probe = (struct profile_probe){profile_start, profile_stop, profile_add, profile_counts, profile};
	profiles_serve(context->profiles, &profile->probe);
	return 0;
}

static void profile_rank(void *state, const struct rank *rank, enum rank_change change)
{
	const struct profile *profile = state;

	if (change == RANK_ENDED)
		profiles_ended(profile->context->profiles, rank->pid);
}

static void profile_event(void *state, const struct rt_event *event, size_t size_bytes)
{
	struct profile *profile = state;
	const struct rt_profile_stack_event *stack = (const struct rt_profile_stack_event *)event;

	profile->events++;
	if (event->kind == RT_KIND_SAMPLE && size_bytes >= sizeof(struct rt_profile_sample_event))
		profiles_sample(profile->context->profiles, (const struct rt_profile_sample_event *)event);
	else if (event->kind == RT_KIND_STACK && reply_stack_event_valid(stack, size_bytes))
		profiles_stack(profile->context->profiles, stack);
	else if (event->kind == RT_KIND_CODE &&
		 reply_code_event_valid((const struct rt_profile_code_event *)event, size_bytes))
		profiles_code(profile->context->profiles, (const struct rt_profile_code_event *)event);
	else
		profile->broken++;
}

static void profile_tick(void *state, uint64_t now_ns)
{
	const struct profile *profile = state;

	profiles_tick(profile->context->profiles, now_ns);
}

static void profile_status(void *state, struct collector_status *ret)
{
	const struct profile *profile = state;
	const struct kernel *kernel = profile->context->kernel;
	struct profiles_status status;

	profiles_status(profile->context->profiles, &status);
	ret->probes_attached = profile->attached + (profile->link ? 1 : 0);
	ret->events = profile->events;
	ret->drops = status.lost + profile->broken + kernel_drops(kernel, RT_KIND_SAMPLE) +
		     kernel_drops(kernel, RT_KIND_STACK) + kernel_drops(kernel, RT_KIND_CODE);
	if (profile->reason[0])
		collector_note(ret, "no profiles: %s", profile->reason);
	if (status.profiles)
		collector_note(ret,
			"profiles: %" PRIu64 ", %" PRIu64 " of them for suspicions; %" PRIu64 " samples, %" PRIu64
			" without a stack; they took %.3g ms of the ranks' time; %.3g %% of samples and waits were "
			"read",
			status.profiles, status.suspected, status.samples, status.refused,
			(double)status.took_ns / (double)NSEC_PER_MSEC,
			status.seen ? 100.0 * (double)status.read / (double)status.seen : 100.0);
}

static void profile_close(void *state)
{
	struct profile *profile = state;

	if (!profile)
		return;
	if (profile->context->profiles)
		profiles_serve(profile->context->profiles, NULL);
	profile_stop(profile);
	free(profile->cpu);
	free(profile);
}

const struct collector collector_profile = {
	.name = "profile",
	.summary = "samples of ranks that are profiled",
	.kinds = 1u << RT_KIND_SAMPLE | 1u << RT_KIND_STACK | 1u << RT_KIND_CODE,
	.open = profile_open,
	.rank = profile_rank,
	.event = profile_event,
	.tick = profile_tick,
	.status = profile_status,
	.close = profile_close,
};
