/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User side of the process collector: passes every exec and exit, and forks of ranks, to ranks/. Always on. If the
 * kernel refuses the programs, /proc is scanned every second instead: same processes, but later and at a higher cost.
 */
#include <bpf/libbpf.h>

#include "bpf/proc.h"
#include "daemon/collect/collector.h"
#include "daemon/core/context.h"
#include "daemon/kernel/kernel.h"
#include "daemon/base/log.h"
#include "proc.skel.h"

#define SCAN_INTERVAL_NS NSEC_PER_SEC

struct proc {
	struct context *context;
	struct proc_bpf *skeleton; /* NULL if the kernel refuses it */
	uint64_t scanned_ns;
	uint64_t events;
	uint64_t drops;	  /* at the last scan of /proc */
	char reason[128]; /* why skeleton is NULL */
};

static int collect_proc_load(struct proc *proc)
{
	bool btf = kernel_features(proc->context->kernel)->tp_btf;
	struct proc_bpf *skeleton = proc_bpf__open();
	int r;

	if (!skeleton)
		return -errno;
	bpf_program__set_autoload(skeleton->progs.exec_btf, btf);
	bpf_program__set_autoload(skeleton->progs.exit_btf, btf);
	bpf_program__set_autoload(skeleton->progs.fork_btf, btf);
	bpf_program__set_autoload(skeleton->progs.exec_raw, !btf);
	bpf_program__set_autoload(skeleton->progs.exit_raw, !btf);
	bpf_program__set_autoload(skeleton->progs.fork_raw, !btf);
	r = kernel_load(proc->context->kernel, skeleton->skeleton);
	if (r == 0)
		r = proc_bpf__attach(skeleton);
	if (r < 0) {
		proc_bpf__destroy(skeleton);
		return r;
	}
	proc->skeleton = skeleton;
	return 0;
}

static int proc_open(struct context *context, void **ret_state)
{
	struct proc *proc = calloc(1, sizeof(*proc));
	int r;

	if (!proc)
		return -ENOMEM;
	proc->context = context;
	proc->scanned_ns = monotonic_ns();
	r = collect_proc_load(proc);
	if (r < 0) {
		snprintf(proc->reason, sizeof(proc->reason), "the kernel refuses the process programs (%s)",
			strerror(-r));
		log_warning("proc", "%s; scanning /proc every second instead", proc->reason);
	}
	*ret_state = proc;
	return 0;
}

static void proc_event(void *state, const struct rt_event *event, size_t size_bytes)
{
	struct proc *proc = state;

	const struct rt_proc_event *record = (const struct rt_proc_event *)event;

	if (size_bytes < sizeof(*record))
		return;
	proc->events++;
	if (event->kind == RT_KIND_EXEC)
		ranks_on_exec(proc->context->ranks, event->pid, record->uid);
	else if (event->kind == RT_KIND_EXIT)
		ranks_on_exit(proc->context->ranks, event->pid, (int32_t)(record->wait_status & 0xffff));
	else if (event->kind == RT_KIND_FORK)
		ranks_on_fork(proc->context->ranks, event->pid, record->child_pid);
}

static uint64_t count_drops(const struct proc *proc)
{
	return kernel_drops(proc->context->kernel, RT_KIND_EXEC) + kernel_drops(proc->context->kernel, RT_KIND_EXIT) +
	       kernel_drops(proc->context->kernel, RT_KIND_FORK);
}

static void proc_tick(void *state, uint64_t now_ns)
{
	struct proc *proc = state;
	uint64_t drops;

	if (now_ns - proc->scanned_ns < SCAN_INTERVAL_NS)
		return;
	proc->scanned_ns = now_ns;
	ranks_set_reported(proc->context->ranks, proc->skeleton && kernel_features(proc->context->kernel)->host_pids);
	/* With the programs, scan only after drops. */
	drops = count_drops(proc);
	if (proc->skeleton && drops == proc->drops)
		return;
	if (ranks_scan(proc->context->ranks) >= 0)
		proc->drops = drops;
}

static void proc_status(void *state, struct collector_status *ret)
{
	const struct proc *proc = state;

	ret->probes_attached = proc->skeleton ? 3 : 0;
	ret->events = proc->events;
	ret->drops = count_drops(proc);
	if (!kernel_features(proc->context->kernel)->host_pids)
		collector_note(ret, KERNEL_NO_HOST_PIDS);
	if (!proc->skeleton)
		collector_note(
			ret, "%s: /proc is scanned every second, so a rank's first steps may be missed", proc->reason);
}

static void proc_close(void *state)
{
	struct proc *proc = state;

	if (!proc)
		return;
	proc_bpf__destroy(proc->skeleton);
	free(proc);
}

const struct collector collector_proc = {
	.name = "proc",
	.summary = "process starts and ends",
	.levels = 0,
	.kinds = 1u << RT_KIND_EXEC | 1u << RT_KIND_EXIT | 1u << RT_KIND_FORK,
	.open = proc_open,
	.event = proc_event,
	.tick = proc_tick,
	.status = proc_status,
	.close = proc_close,
};
