/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Kernel side of the process collector: one record per exec, one per end of a process's last thread. Unfiltered: user
 * space finds out later which process is a rank. And one per process that a rank makes, within the rank's limits. Each
 * program exists for BTF and for raw tracepoints; the loader keeps the supported ones.
 */
#include "bpf/probe.bpf.h"
#include "bpf/proc.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* atomic_t as in the kernel. */
struct live_threads {
	int counter;
};

struct signal_struct {
	struct live_threads live; /* threads that have not begun to exit */
	int group_exit_code;	  /* 0 also where one thread ended after the other */
};

/* Fields of a task read only here. */
struct task_struct___proc {
	struct signal_struct *signal;
	int exit_code;
};

#pragma clang attribute pop

static __always_inline uint32_t proc_wait_status(struct task_struct___proc *task)
{
	int status = BPF_CORE_READ(task, signal, group_exit_code);

	return status ? status : BPF_CORE_READ(task, exit_code);
}

static __always_inline void proc_send(uint32_t kind, struct task_struct *task)
{
	struct rt_proc_event *record = reserve_event(kind, sizeof(*record));

	if (!record)
		return;
	record->parent_pid = BPF_CORE_READ(task, real_parent, tgid);
	record->wait_status = kind == RT_KIND_EXIT ? proc_wait_status((void *)task) : 0;
	record->uid = (uint32_t)bpf_get_current_uid_gid();
	record->child_pid = 0;
	bpf_get_current_comm(record->comm, sizeof(record->comm));
	submit_event(record);
}

/*
 * The kernel decrements before it reports the exit, so the last thread sees 0. Two threads that end together may both
 * see 0: the daemon ignores a second exit.
 */
static __always_inline bool is_last_thread(struct task_struct *task)
{
	struct task_struct___proc *process = (void *)task;

	return BPF_CORE_READ(process, signal, live.counter) == 0;
}

SEC("tp_btf/sched_process_exec")
int exec_btf(uint64_t *ctx)
{
	proc_send(RT_KIND_EXEC, (struct task_struct *)ctx[0]);
	return 0;
}

SEC("raw_tp/sched_process_exec")
int exec_raw(uint64_t *ctx)
{
	proc_send(RT_KIND_EXEC, (struct task_struct *)ctx[0]);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int exit_btf(uint64_t *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];

	if (is_last_thread(task))
		proc_send(RT_KIND_EXIT, task);
	return 0;
}

SEC("raw_tp/sched_process_exit")
int exit_raw(uint64_t *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];

	if (is_last_thread(task))
		proc_send(RT_KIND_EXIT, task);
	return 0;
}

/* A thread is no process. The rank itself runs this, whichever of its threads forks. */
static __always_inline void proc_send_fork(struct task_struct *child)
{
	uint32_t pid = bpf_get_current_pid_tgid() >> 32, child_pid = BPF_CORE_READ(child, tgid);
	uint32_t *slot = bpf_map_lookup_elem(&ranks, &pid);
	struct rt_proc_event *record;

	if (!slot || child_pid == pid)
		return;
	record = reserve_rank_event(find_quota(*slot), RT_KIND_FORK, sizeof(*record));
	if (!record)
		return;
	record->parent_pid = pid;
	record->wait_status = 0;
	record->uid = (uint32_t)bpf_get_current_uid_gid();
	record->child_pid = child_pid;
	bpf_get_current_comm(record->comm, sizeof(record->comm));
	submit_event(record);
}

SEC("tp_btf/sched_process_fork")
int fork_btf(uint64_t *ctx)
{
	proc_send_fork((struct task_struct *)ctx[1]);
	return 0;
}

SEC("raw_tp/sched_process_fork")
int fork_raw(uint64_t *ctx)
{
	proc_send_fork((struct task_struct *)ctx[1]);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
