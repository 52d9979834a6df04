/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Kernel side of the profile collector: profile_cpu samples the thread on each CPU at the frequency of its perf event,
 * profile_switch the threads that wait. Only threads of the processes in `profiled` are read, from their own context:
 * at a sample, and when a thread leaves its CPU to wait; the time that it waited is known when it returns.
 *
 * A stack is sent once, in front of the first sample that refers to it; `profile_sent` remembers it by hash.
 *
 * Budget: a thread's stacks take a part of its time only. Where they would take more, one of `thin` is read, chosen at
 * random, and stands for all of them: its weight is `thin` times its own, so that sums of weights are right on average.
 * `thin` is set from what the window before would have cost, before anything of the next is seen. A window ends early
 * when its part is spent. Samples on a CPU and waits have budgets of their own: frequent waits leave the samples alone.
 */
#include "bpf/profile_code.bpf.h"

#include <bpf/bpf_tracing.h>

#define TASK_EXITING 0x4 /* PF_EXITING of linux/sched.h: set before a thread's last switch */

const volatile uint64_t wait_min_ns = 1000000; /* shorter waits are no samples */
#define BUDGET_WINDOW_NS 100000000ULL /* a step of some length: shorter ones follow phases of a step and spend more */
#define BUDGET_COST_MAX_NS 1000000ULL /* of a read: more is not its own, but an interrupt, or the host's */
#define BUDGET_THIN_MAX 4096ULL
#define PPM 1000000ULL

struct profile_budget {
	uint64_t since_ns;    /* of the window; 0: none yet */
	uint64_t spent_ns;    /* in it */
	uint64_t reads_ns;    /* the same, of reads */
	int64_t left_ns;      /* of windows before; negative: too much was spent */
	uint64_t seen, reads; /* in the window */
	uint64_t cost_ns;     /* of a read, when there was one last */
	uint64_t thin;	      /* one of so many is read */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16); /* set by the loader */
	__type(key, uint32_t);
	__type(value, struct rt_profile_process);
} profiled SEC(".maps");

struct profile_thread {
	uint64_t left_ns; /* when it left the CPU to wait; 0: it did not */
	uint64_t stack;
	uint64_t thin;	   /* waits that it stands for */
	uint64_t state[2]; /* of Python: its address, its interpreter's */
	struct profile_budget on_cpu, waits;
	uint64_t kernel[RT_PROFILE_KERNEL_MAX]; /* of the record */
	uint32_t flags;				/* RT_PROFILE_* */
	uint32_t pid;
	struct rt_profile_stack_event record; /* the stack, to be sent if it waits for long */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024); /* set by the loader */
	__type(key, uint32_t);
	__type(value, struct profile_thread);
} profile_threads SEC(".maps");

/* One entry, all zero: what a new thread starts with. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct profile_thread);
} profile_blank SEC(".maps");

struct sent_key {
	uint64_t stack;
	uint64_t pid;
};

/* Evicting an entry sends its stack once more. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct sent_key);
	__type(value, uint32_t);
} profile_sent SEC(".maps");

#define READ(direct, task, field) ((direct) ? (task)->field : BPF_CORE_READ(task, field))

static __always_inline void count_lost(struct rt_profile_process *process)
{
	__sync_fetch_and_add(&process->lost, 1);
}

/* What was spent since then, on a read or without one. */
static __always_inline void count_time(
	struct rt_profile_process *process, struct profile_budget *budget, uint64_t since_ns, bool read)
{
	uint64_t took_ns = bpf_ktime_get_ns() - since_ns;

	__sync_fetch_and_add(&process->took_ns, took_ns);
	budget->spent_ns += took_ns;
	if (read)
		budget->reads_ns += took_ns;
}

/* The next window of a thread: how many of its samples are read in it. */
static __always_inline void budget_next(struct profile_budget *budget, uint64_t now_ns, uint64_t ppm)
{
	uint64_t elapsed_ns = now_ns - budget->since_ns, part_ns = BUDGET_WINDOW_NS / PPM * ppm, wanted_ppm;
	int64_t may_ns;

	budget->left_ns += (int64_t)(elapsed_ns / 1000 * ppm / 1000) - (int64_t)budget->spent_ns;
	/* What a thread did not need is not saved up for long. */
	if (budget->left_ns > (int64_t)part_ns)
		budget->left_ns = (int64_t)part_ns;
	may_ns = (int64_t)part_ns + budget->left_ns;
	if (may_ns < (int64_t)(part_ns / 8))
		may_ns = (int64_t)(part_ns / 8);
	if (budget->reads)
		budget->cost_ns = budget->reads_ns / budget->reads;
	if (budget->cost_ns > BUDGET_COST_MAX_NS)
		budget->cost_ns = BUDGET_COST_MAX_NS;
	wanted_ppm = budget->seen * budget->cost_ns * PPM / (elapsed_ns | 1);
	budget->thin = wanted_ppm * (BUDGET_WINDOW_NS / PPM) / ((uint64_t)may_ns | 1) + 1;
	if (budget->thin > BUDGET_THIN_MAX)
		budget->thin = BUDGET_THIN_MAX;
	budget->since_ns = now_ns;
	budget->spent_ns = 0;
	budget->reads_ns = 0;
	budget->seen = 0;
	budget->reads = 0;
}

/* Is this sample's stack read? For how many it stands is budget->thin. */
static __always_inline bool budget_take(
	struct rt_profile_process *process, struct profile_budget *budget, uint64_t now_ns, uint64_t ppm)
{
	if (!budget->since_ns) {
		budget->since_ns = now_ns;
		budget->thin = 1;
	}
	if (now_ns - budget->since_ns >= BUDGET_WINDOW_NS || budget->spent_ns >= BUDGET_WINDOW_NS / PPM * ppm)
		budget_next(budget, now_ns, ppm);
	budget->seen++;
	__sync_fetch_and_add(&process->seen, 1);
	if (budget->thin > 1 && bpf_get_prandom_u32() % budget->thin)
		return false;
	budget->reads++;
	__sync_fetch_and_add(&process->read, 1);
	return true;
}

static __always_inline struct rt_quota *profile_quota(uint32_t pid)
{
	uint32_t *slot = bpf_map_lookup_elem(&ranks, &pid);

	return slot ? find_quota(*slot) : NULL;
}

static __always_inline bool is_sent(uint64_t stack, uint32_t pid)
{
	struct sent_key key = {.stack = stack, .pid = pid};

	return bpf_map_lookup_elem(&profile_sent, &key);
}

/* Names of the kernel's functions, into a stack that is sent; before Linux 5.13 there are none. */
static __always_inline void name_kernel(
	struct rt_profile_stack_event *record, const uint64_t kernel[RT_PROFILE_KERNEL_MAX])
{
	static const char format[] = "%ps";
	uint64_t address;

	if (!bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_snprintf))
		return;
	for (uint32_t i = 0; i < RT_PROFILE_KERNEL_MAX; i++) {
		record->kernel[i][0] = 0;
		address = kernel[i];
		if (address)
			bpf_snprintf(record->kernel[i], RT_PROFILE_KERNEL_BYTES, format, &address, sizeof(address));
	}
}

/* Sends the stack unless it was sent; kernel: addresses, or NULL. False: lost. */
static __always_inline bool send_stack(
	struct rt_profile_stack_event *record, const uint64_t *kernel, uint32_t pid, uint32_t thread_id)
{
	struct sent_key key = {.stack = record->stack, .pid = pid};
	uint32_t one = 1;

	if (is_sent(record->stack, pid))
		return true;
	if (kernel)
		name_kernel(record, kernel);
	if (!send_rank_event(profile_quota(pid), &record->event, sizeof(*record), RT_KIND_STACK, record_bytes(record),
		    pid, thread_id))
		return false;
	bpf_map_update_elem(&profile_sent, &key, &one, BPF_ANY);
	return true;
}

static __always_inline void send_sample(struct rt_profile_process *process, struct task_struct *task, uint32_t pid,
	uint32_t thread_id, const struct rt_profile_sample_event *sample)
{
	struct rt_profile_sample_event *event = reserve_rank_event(profile_quota(pid), RT_KIND_SAMPLE, sizeof(*event));

	if (!event) {
		count_lost(process);
		return;
	}
	event->event.flags = sample->event.flags;
	event->event.pid = pid;
	event->event.thread_id = thread_id;
	event->start_ns = sample->start_ns;
	event->duration_ns = sample->duration_ns;
	event->weight_ns = sample->weight_ns;
	event->stack = sample->stack;
	bpf_probe_read_kernel(event->thread_name, RT_COMM_SIZE, __builtin_preserve_access_index(&task->comm));
	submit_event(event);
	__sync_fetch_and_add(&process->samples, 1);
	if (!sample->stack)
		__sync_fetch_and_add(&process->refused, 1);
}

/*
 * Reads the current thread's stack into s->record, of one that waits with the kernel's, and sends what its names take
 * if it is new; false: it is not valid.
 */
static __always_inline bool read_stack(void *ctx, struct profile_scratch *s, uint32_t program,
	struct rt_profile_process *process, uint32_t pid, uint64_t known[2], bool waits)
{
	long bytes;

	profile_begin(s, &process->python);
	if (s->python.interps && !(s->pthread && read_python(s, program, known)))
		return false;
	bytes = bpf_get_stack(ctx, s->record.native, sizeof(s->record.native), BPF_F_USER_STACK);
	if (bytes > 0)
		s->record.natives = (uint32_t)bytes / 8;
	__builtin_memset(s->kernel, 0, sizeof(s->kernel));
	if (waits)
		bpf_get_stack(ctx, s->kernel, sizeof(s->kernel), 0);
	profile_hash(program);
	if (!is_sent(s->record.stack, pid))
		send_codes(s, program);
	return true;
}

static __always_inline struct profile_thread *find_thread(
	struct rt_profile_process *process, uint32_t pid, uint32_t thread_id)
{
	struct profile_thread *thread = bpf_map_lookup_elem(&profile_threads, &thread_id);
	uint32_t zero = 0;
	const struct profile_thread *blank = bpf_map_lookup_elem(&profile_blank, &zero);

	if (thread && thread->pid == pid)
		return thread;
	if (!blank || process->threads >= process->threads_max ||
		bpf_map_update_elem(&profile_threads, &thread_id, blank, BPF_ANY))
		return NULL;
	__sync_fetch_and_add(&process->threads, 1);
	thread = bpf_map_lookup_elem(&profile_threads, &thread_id);
	if (thread)
		thread->pid = pid;
	return thread;
}

SEC("perf_event")
int profile_cpu(void *ctx)
{
	uint64_t id = bpf_get_current_pid_tgid(), now_ns = bpf_ktime_get_ns();
	uint32_t pid = id >> 32, thread_id = (uint32_t)id;
	struct rt_profile_process *process = bpf_map_lookup_elem(&profiled, &pid);
	struct rt_profile_sample_event sample = {};
	struct profile_scratch *s = find_scratch(0);
	struct profile_thread *thread;

	if (!process || !s)
		return 0;
	thread = find_thread(process, pid, thread_id);
	if (!thread) {
		count_lost(process);
		return 0;
	}
	if (!budget_take(process, &thread->on_cpu, now_ns, process->cpu_ppm)) {
		count_time(process, &thread->on_cpu, now_ns, false);
		return 0;
	}
	sample.start_ns = now_ns;
	sample.weight_ns = process->period_ns * thread->on_cpu.thin;
	if (!read_stack(ctx, s, 0, process, pid, thread->state, false))
		sample.event.flags = RT_PROFILE_REFUSED;
	else if (send_stack(&s->record, NULL, pid, thread_id))
		sample.stack = s->record.stack;
	else
		sample.event.flags = RT_PROFILE_LIMITED;
	send_sample(process, (struct task_struct *)bpf_get_current_task(), pid, thread_id, &sample);
	count_time(process, &thread->on_cpu, now_ns, true);
	return 0;
}

/* Does it wait, other than for a CPU? */
static __always_inline bool is_waiting(struct task_struct *task, bool direct)
{
	if (bpf_core_field_exists(((struct task_struct *)0)->__state))
		return READ(direct, task, __state) != 0;
	return BPF_CORE_READ((struct task_struct___state *)task, state) != 0;
}

static __always_inline void profile_leave(void *ctx, struct task_struct *prev, bool direct)
{
	uint32_t pid = READ(direct, prev, tgid), thread_id = READ(direct, prev, pid);
	struct rt_profile_process *process = pid ? bpf_map_lookup_elem(&profiled, &pid) : NULL;
	uint64_t now_ns = bpf_ktime_get_ns();
	struct profile_scratch *s = find_scratch(1);
	struct profile_thread *thread;

	if (!process || !s)
		return;
	if (READ(direct, prev, flags) & TASK_EXITING) {
		if (!bpf_map_delete_elem(&profile_threads, &thread_id))
			__sync_fetch_and_add(&process->threads, -1);
		return;
	}
	if (!is_waiting(prev, direct))
		return;
	thread = find_thread(process, pid, thread_id);
	if (!thread) {
		count_lost(process);
		return;
	}
	if (!budget_take(process, &thread->waits, now_ns, process->waits_ppm)) {
		count_time(process, &thread->waits, now_ns, false);
		return;
	}
	thread->thin = thread->waits.thin;
	thread->stack = 0;
	thread->flags = RT_PROFILE_OFF_CPU;
	thread->left_ns = now_ns;
	if (!read_stack(ctx, s, 1, process, pid, thread->state, true)) {
		thread->flags |= RT_PROFILE_REFUSED;
	} else {
		thread->stack = s->record.stack;
		if (!is_sent(thread->stack, pid)) {
			bpf_probe_read_kernel(&thread->record, record_bytes(&s->record), &s->record);
			__builtin_memcpy(thread->kernel, s->kernel, sizeof(thread->kernel));
		}
	}
	count_time(process, &thread->waits, now_ns, true);
}

static __always_inline void profile_return(struct task_struct *next, bool direct)
{
	uint32_t pid = READ(direct, next, tgid), thread_id = READ(direct, next, pid);
	struct rt_profile_process *process = pid ? bpf_map_lookup_elem(&profiled, &pid) : NULL;
	struct profile_thread *thread = process ? bpf_map_lookup_elem(&profile_threads, &thread_id) : NULL;
	struct rt_profile_sample_event sample = {};

	if (!thread || thread->pid != pid || !thread->left_ns)
		return;
	sample.start_ns = thread->left_ns;
	sample.duration_ns = bpf_ktime_get_ns() - thread->left_ns;
	sample.weight_ns = sample.duration_ns * thread->thin;
	sample.event.flags = thread->flags;
	thread->left_ns = 0;
	if (sample.duration_ns < wait_min_ns)
		return;
	/* A stack that was sent meanwhile by another thread is not in the record. */
	if (thread->stack &&
		(is_sent(thread->stack, pid) || (thread->record.stack == thread->stack &&
							send_stack(&thread->record, thread->kernel, pid, thread_id))))
		sample.stack = thread->stack;
	else if (thread->stack)
		sample.event.flags |= RT_PROFILE_LIMITED;
	send_sample(process, next, pid, thread_id, &sample);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(profile_switch_btf, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if (!preempt)
		profile_leave(ctx, prev, true);
	profile_return(next, true);
	return 0;
}

SEC("raw_tp/sched_switch")
int profile_switch_raw(struct bpf_raw_tracepoint_args *ctx)
{
	if (!ctx->args[0])
		profile_leave(ctx, (struct task_struct *)ctx->args[1], false);
	profile_return((struct task_struct *)ctx->args[2], false);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
