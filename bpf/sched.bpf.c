/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Kernel side of the off-CPU collector: a program on sched_switch (BTF or raw tracepoint, whichever loads) that sees a
 * rank's thread leave the CPU and return, and one on sched_waking that sees who wakes it meanwhile. An off-CPU interval
 * of threshold_ns or more is a record; shorter ones are summed per thread and second. State is one bounded hash entry
 * per thread; a thread beyond the bound counts as a drop, an ending thread removes its entry: no silent eviction, no
 * leak.
 *
 * At sched_switch "current" is still the leaving thread, so identities come from the arguments.
 */
#include "bpf/sched.h"
#include "bpf/system_sums.bpf.h"

#include <bpf/bpf_tracing.h>

/* Slot of the system call's number in struct pt_regs: orig_ax, 8 bytes; syscallno, 4 bytes. Negative: in none. */
#ifdef __TARGET_ARCH_arm64
#define SYSCALL_AT 280
#else
#define SYSCALL_AT 120
#endif

#define SECOND_NS 1000000000ULL
#define TASK_EXITING 0x4 /* PF_EXITING of linux/sched.h: set before a thread's last switch */

const volatile uint64_t threshold_ns = 1000000;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384); /* set by the loader */
	__type(key, uint32_t);
	__type(value, struct rt_offcpu_thread);
} offcpu_threads SEC(".maps");

/*
 * A BTF tracepoint may dereference directly, a raw one needs a helper; `direct` is constant, so one branch is
 * compiled.
 */
#define READ(direct, task, field) ((direct) ? (task)->field : BPF_CORE_READ(task, field))

static __always_inline void read_comm(char *comm, struct task_struct *task)
{
	bpf_probe_read_kernel(comm, RT_COMM_SIZE, __builtin_preserve_access_index(&task->comm));
}

static __always_inline bool has_run_delay(void)
{
	return bpf_core_field_exists(((struct sched_info *)0)->run_delay) &&
	       bpf_core_field_exists(((struct cfs_rq *)0)->rq);
}

static __always_inline uint64_t run_delay_of(struct task_struct *task, bool direct)
{
	return has_run_delay() ? READ(direct, task, sched_info.run_delay) : 0;
}

/*
 * sched_switch fires before the scheduler accounts the wait that ends with it: add it here. The clock is reached
 * through the thread, because the per-CPU symbol is hidden without CONFIG_KALLSYMS_ALL.
 */
static __always_inline uint64_t run_delay_until_now(struct task_struct *task, bool direct)
{
	uint64_t queued_ns, clock_ns;

	if (!has_run_delay())
		return 0;
	queued_ns = READ(direct, task, sched_info.last_queued);
	clock_ns = direct ? task->se.cfs_rq->rq->clock : BPF_CORE_READ(task, se.cfs_rq, rq, clock);
	if (!queued_ns || clock_ns < queued_ns)
		return run_delay_of(task, direct);
	return run_delay_of(task, direct) + (clock_ns - queued_ns);
}

static __always_inline bool is_ready(struct task_struct *task, bool preempt)
{
	struct task_struct___state *old = (void *)task;

	if (preempt)
		return true;
	if (bpf_core_field_exists(task->__state))
		return BPF_CORE_READ(task, __state) == 0;
	return BPF_CORE_READ(old, state) == 0;
}

/* direct: the task is one that the verifier knows, as the helper needs it. */
static __always_inline int32_t waits_on(struct task_struct *task, bool preempt, bool direct)
{
	int32_t number = RT_WAITS_UNKNOWN;

	if (is_ready(task, preempt))
		return RT_WAITS_NOTHING;
	if (BPF_CORE_READ_BITFIELD_PROBED(task, in_iowait))
		return RT_WAITS_DISK;
	if (!direct || !bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return RT_WAITS_UNKNOWN;
	if (bpf_probe_read_kernel(&number, sizeof(number), (void *)bpf_task_pt_regs(task) + SYSCALL_AT))
		return RT_WAITS_UNKNOWN;
	return number < 0 ? RT_WAITS_FAULT : number;
}

/* Stacks that were sent. One that makes way for others is sent again. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, uint64_t);
	__type(value, uint32_t);
} offcpu_stacks SEC(".maps");

/* Limits of the rank of a thread; NULL: it is a rank no longer. */
static __always_inline struct rt_quota *quota_of(uint32_t pid)
{
	uint32_t *rank_slot = bpf_map_lookup_elem(&ranks, &pid);

	return rank_slot ? find_quota(*rank_slot) : NULL;
}

static __always_inline void send_sum(struct rt_offcpu_thread *thread, uint32_t thread_id, uint64_t now_ns)
{
	struct rt_offcpu_sum_event *sum = reserve_rank_event(quota_of(thread->pid), RT_KIND_OFFCPU_SUM, sizeof(*sum));

	if (sum) {
		sum->event.time_ns = now_ns;
		sum->event.pid = thread->pid;
		sum->event.thread_id = thread_id;
		sum->start_ns = thread->sum_start_ns;
		sum->duration_ns = thread->sum_duration_ns;
		sum->run_delay_ns = thread->sum_run_delay_ns;
		sum->count = thread->sum_count;
		__builtin_memcpy(sum->thread_name, thread->thread_name, RT_COMM_SIZE);
		submit_event(sum);
	}
	thread->sum_count = 0;
}

static __always_inline bool sched_send_stack(
	const struct rt_offcpu_thread *thread, uint64_t stack, const uint64_t address[RT_OFFCPU_STACK_MAX])
{
	static const char format[] = "%ps";
	struct rt_offcpu_stack_event *record =
		reserve_rank_event(quota_of(thread->pid), RT_KIND_OFFCPU_STACK, sizeof(*record));
	uint64_t of;

	if (!record)
		return false;
	record->event.pid = thread->pid;
	record->stack = stack;
	for (uint32_t i = 0; i < RT_OFFCPU_STACK_MAX; i++) {
		record->name[i][0] = 0;
		of = address[i];
		if (of)
			bpf_snprintf(record->name[i], RT_OFFCPU_NAME_BYTES, format, &of, sizeof(of));
	}
	submit_event(record);
	return true;
}

/*
 * Where in the kernel a thread that does not run waits: a task's own stack is as it left it. None before Linux 5.13,
 * which cannot write names, and where the task is none that the verifier knows.
 */
static __always_inline uint64_t sched_stack(
	const struct rt_offcpu_thread *thread, struct task_struct *task, bool direct)
{
	uint64_t address[RT_OFFCPU_STACK_MAX] = {}, stack = 0xcbf29ce484222325ULL; /* FNV-1a of 64 bits, by words */
	uint32_t one = 1;

	if (!direct || !bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_snprintf))
		return 0;
	if (thread->waits_on == RT_WAITS_NOTHING || bpf_get_task_stack(task, address, sizeof(address), 0) <= 0)
		return 0;
	for (uint32_t i = 0; i < RT_OFFCPU_STACK_MAX; i++)
		stack = (stack ^ address[i]) * 0x100000001b3ULL;
	if (bpf_map_lookup_elem(&offcpu_stacks, &stack))
		return stack;
	if (!sched_send_stack(thread, stack, address))
		return 0;
	bpf_map_update_elem(&offcpu_stacks, &stack, &one, BPF_ANY);
	return stack;
}

static __always_inline void sched_send_interval(struct rt_offcpu_thread *thread, struct task_struct *prev,
	struct task_struct *next, uint64_t start_ns, uint64_t now_ns, uint64_t run_delay_ns, bool direct)
{
	uint64_t stack = sched_stack(thread, next, direct); /* sent first */
	struct rt_offcpu_event *interval = reserve_rank_event(quota_of(thread->pid), RT_KIND_OFFCPU, sizeof(*interval));

	if (!interval)
		return;
	interval->event.time_ns = now_ns;
	interval->event.pid = thread->pid;
	interval->event.thread_id = READ(direct, next, pid);
	interval->start_ns = start_ns;
	interval->duration_ns = now_ns - start_ns;
	interval->run_delay_ns = run_delay_ns;
	interval->next_pid = thread->next_pid;
	interval->waits_on = thread->waits_on;
	interval->waker = thread->waker;
	interval->waker_pid = thread->waker_pid;
	interval->pad0 = 0;
	interval->stack = stack;
	read_comm(interval->thread_name, next);
	__builtin_memcpy(interval->next_name, thread->next_name, RT_COMM_SIZE);
	__builtin_memcpy(interval->waker_name, thread->waker_name, RT_COMM_SIZE);
	interval->previous_pid = 0;
	__builtin_memset(interval->previous_name, 0, RT_COMM_SIZE);
	if (prev) {
		interval->previous_pid = READ(direct, prev, tgid);
		read_comm(interval->previous_name, prev);
	}
	submit_event(interval);
}

/* prev: who ran before it returned; NULL: not known. */
static __always_inline void end_interval(struct rt_offcpu_thread *thread, uint32_t thread_id, struct task_struct *prev,
	struct task_struct *next, uint64_t now_ns, bool direct)
{
	uint64_t start_ns, second_ns, run_delay_ns;

	start_ns = thread->start_ns;
	thread->start_ns = 0;
	/* Two clocks: the scheduler's may be slightly ahead. */
	if (now_ns < start_ns)
		now_ns = start_ns;
	run_delay_ns = run_delay_until_now(next, direct) - thread->run_delay_ns;
	if (run_delay_ns > now_ns - start_ns)
		run_delay_ns = now_ns - start_ns;

	second_ns = now_ns - now_ns % SECOND_NS;
	if (thread->sum_count && thread->sum_start_ns != second_ns)
		send_sum(thread, thread_id, now_ns);
	if (now_ns - start_ns >= threshold_ns) {
		sched_send_interval(thread, prev, next, start_ns, now_ns, run_delay_ns, direct);
		return;
	}
	if (!thread->sum_count) {
		thread->sum_start_ns = second_ns;
		thread->sum_duration_ns = 0;
		thread->sum_run_delay_ns = 0;
		read_comm(thread->thread_name, next);
	}
	thread->sum_duration_ns += now_ns - start_ns;
	thread->sum_run_delay_ns += run_delay_ns;
	thread->sum_count++;
}

static __always_inline void sched_count(struct rt_system_sums *sums, enum rt_system_cause cause, uint64_t count)
{
	if (count)
		__sync_fetch_and_add(&sums->of[cause].count, count);
}

/* What the kernel has counted of a thread since it left a CPU last; of one that is new here, from now on. */
static __always_inline void sched_counts(
	struct rt_offcpu_thread *thread, struct task_struct *task, bool is_new, bool direct)
{
	uint64_t faults = READ(direct, task, min_flt), moves = READ(direct, task, se.nr_migrations);
	struct rt_system_sums *sums = is_new ? NULL : system_sums_of(thread->slot);
	uint32_t node = bpf_get_numa_node_id();

	if (sums) {
		sched_count(sums, RT_SYSTEM_MINOR_FAULT, faults - thread->faults);
		sched_count(sums, RT_SYSTEM_MIGRATION, moves - thread->moves);
		sched_count(sums, RT_SYSTEM_NODE, node != thread->node);
	}
	thread->faults = faults;
	thread->moves = moves;
	thread->node = node;
}

static __always_inline void sched_leave(struct task_struct *prev, struct task_struct *next, bool preempt, bool direct)
{
	uint32_t thread_id = READ(direct, prev, pid), pid = READ(direct, prev, tgid);
	struct rt_offcpu_thread *thread, fresh = {};
	uint32_t *rank_slot = pid ? bpf_map_lookup_elem(&ranks, &pid) : NULL;
	struct rt_quota *quota;
	bool held, is_new;

	if (!rank_slot)
		return;
	quota = find_quota(*rank_slot);
	thread = bpf_map_lookup_elem(&offcpu_threads, &thread_id);
	/* The return had no tracepoint hit, as observed about once a second on 6.18: it was when what has run since
	 * began. */
	if (thread && thread->start_ns && thread->pid == pid)
		end_interval(thread, thread_id, NULL, prev,
			bpf_ktime_get_ns() - (READ(direct, prev, se.sum_exec_runtime) - thread->ran_ns), direct);
	if (READ(direct, prev, flags) & TASK_EXITING) {
		if (!thread)
			return;
		if (thread->sum_count && thread->pid == pid)
			send_sum(thread, thread_id, bpf_ktime_get_ns());
		if (!bpf_map_delete_elem(&offcpu_threads, &thread_id) && thread->pid == pid && quota &&
			quota->threads_max)
			probe_release(quota, RT_HELD_THREADS);
		return;
	}
	is_new = !thread || thread->pid != pid;
	if (is_new) {
		fresh.pid = pid;
		held = quota && quota->threads_max;
		if (held && !probe_hold(quota, RT_HELD_THREADS, quota->threads_max))
			return;
		if (bpf_map_update_elem(&offcpu_threads, &thread_id, &fresh, BPF_ANY)) {
			if (held)
				probe_release(quota, RT_HELD_THREADS);
			count_drop(RT_KIND_OFFCPU);
			return;
		}
		thread = bpf_map_lookup_elem(&offcpu_threads, &thread_id);
		if (!thread)
			return;
	}
	thread->slot = *rank_slot;
	sched_counts(thread, prev, is_new, direct);
	thread->waits_on = waits_on(prev, preempt, direct);
	thread->run_delay_ns = run_delay_of(prev, direct);
	thread->ran_ns = READ(direct, prev, se.sum_exec_runtime);
	thread->waker = RT_WAKER_UNKNOWN;
	thread->next_pid = READ(direct, next, tgid);
	read_comm(thread->next_name, next);
	thread->start_ns = bpf_ktime_get_ns();
}

/* Only ranks' threads have entries: no need to check the filter. Its time counts for both ends of the interval. */
static __always_inline void come_back(struct task_struct *prev, struct task_struct *next, bool direct)
{
	uint32_t thread_id = READ(direct, next, pid);
	struct rt_offcpu_thread *thread;
	struct cost_hit cost;
	uint64_t now_ns;

	if (!thread_id)
		return;
	thread = bpf_map_lookup_elem(&offcpu_threads, &thread_id);
	if (!thread || !thread->start_ns || thread->pid != (uint32_t)READ(direct, next, tgid))
		return;
	now_ns = bpf_ktime_get_ns();
	cost = cost_begin(thread->slot, RT_COST_L3, RT_COST_TRACEPOINT, now_ns);
	end_interval(thread, thread_id, prev, next, now_ns, direct);
	cost_end(&cost);
}

/*
 * The task that runs on this CPU wakes the thread, or an interrupt that came while it ran: the two are not separated,
 * since the kernel may hide its per-CPU symbols. The idle task wakes nobody, so that is an interrupt. A wake-up before
 * the thread has left the CPU is not seen.
 */
static __always_inline void sched_wake(struct task_struct *task, bool direct)
{
	uint32_t thread_id = READ(direct, task, pid), pid = bpf_get_current_pid_tgid() >> 32;
	struct rt_offcpu_thread *thread = bpf_map_lookup_elem(&offcpu_threads, &thread_id);
	struct cost_hit cost;

	if (!thread || !thread->start_ns || thread->waits_on == RT_WAITS_NOTHING || thread->waker != RT_WAKER_UNKNOWN)
		return;
	cost = cost_begin(thread->slot, RT_COST_L3, RT_COST_TRACEPOINT, bpf_ktime_get_ns());
	if (!pid) {
		thread->waker = RT_WAKER_INTERRUPT;
	} else {
		thread->waker_pid = pid;
		bpf_get_current_comm(thread->waker_name, RT_COMM_SIZE);
		thread->waker = RT_WAKER_TASK;
	}
	cost_end(&cost);
}

SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking_btf, struct task_struct *task)
{
	(void)ctx;
	sched_wake(task, true);
	return 0;
}

SEC("raw_tp/sched_waking")
int sched_waking_raw(struct bpf_raw_tracepoint_args *ctx)
{
	sched_wake((struct task_struct *)ctx->args[0], false);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch_btf, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	(void)ctx;
	sched_leave(prev, next, preempt, true);
	come_back(prev, next, true);
	return 0;
}

SEC("raw_tp/sched_switch")
int sched_switch_raw(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *prev = (struct task_struct *)ctx->args[1], *next = (struct task_struct *)ctx->args[2];

	sched_leave(prev, next, ctx->args[0], false);
	come_back(prev, next, false);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
