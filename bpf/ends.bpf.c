/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Kernel side of the ends collector, see ends.h. Nothing runs until a rank ends or gets a signal, or Python shows an
 * exception.
 *
 * A fatal signal is delivered to each thread of its process: to the one that it is meant for, and SIGKILL to the
 * others. The thread that calls exit gets none; its memory is mapped at sched_process_exit from Linux 6.16 on.
 */
#define CODE_KIND RT_KIND_END_CODE
#define CODE_LINES_OPTIONAL true /* nothing else has them */

#include "bpf/profile_code.bpf.h"
#include "bpf/ends_rank.bpf.h"
#include "bpf/scratch.bpf.h"

/* Slots of struct pt_regs with the arguments of PyErr_Display(type, value, traceback). */
#if defined(__TARGET_ARCH_arm64)
#define END_VALUE_SLOT 1
#define END_TRACEBACK_SLOT 2
#else
#define END_VALUE_SLOT 13
#define END_TRACEBACK_SLOT 12
#endif

#define END_TYPE_NAME_AT 24 /* of a type */

#define END_GROUP_EXITS 4 /* SIGNAL_GROUP_EXIT of linux/sched/signal.h */
#define END_FROM_KERNEL 1 /* SEND_SIG_PRIV of linux/sched/signal.h */
#define END_PID_MAX 0xffffffffULL
#define PAGE_SHIFT 12

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sigaction {
	void *sa_handler;
};

struct k_sigaction {
	struct sigaction sa;
};

struct signal_struct {
	int group_exit_code;
	unsigned int flags;
};

struct mm_struct;

struct task_struct___end {
	struct signal_struct *signal;
	struct mm_struct *mm;
	int exit_code;
};

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_pgoff;
	struct file *vm_file;
};

#pragma clang attribute pop

/* Threads that were recorded at a signal, on their way to their exit. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, uint32_t);
	__type(value, uint32_t);
} end_threads SEC(".maps");

/* A record is filled here: it has no place on the stack beside the rest. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SCRATCHES);
	__type(key, uint32_t);
	__type(value, struct rt_end_event);
} end_scratch SEC(".maps");

/* Where the thread is in native code. */

struct end_place {
	uint64_t address, offset;
	char file[RT_END_WHAT_BYTES];
};

/* Of threads that a signal ends: filled by a program of its own, because kernels before 5.17 refuse its callback. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 256);
	__type(key, uint32_t);
	__type(value, struct end_place);
} end_places SEC(".maps");

static long end_on_vma(__attribute__((unused)) struct task_struct *task, struct vm_area_struct *vma, void *arg)
{
	struct end_place *place = arg;
	struct file *file = BPF_CORE_READ(vma, vm_file);
	const unsigned char *name = file ? BPF_CORE_READ(file, f_path.dentry, d_name.name) : NULL;

	if (!name)
		return 0;
	place->offset = place->address - BPF_CORE_READ(vma, vm_start) + (BPF_CORE_READ(vma, vm_pgoff) << PAGE_SHIFT);
	bpf_probe_read_kernel_str(place->file, sizeof(place->file), name);
	return 0;
}

/* The traceback. */

/* From the entry at s->at to the next one, counted. The count is in memory: the verifier would follow each value of
 * it. */
__attribute__((noinline)) int end_next_traceback(uint32_t program)
{
	struct profile_scratch *s = find_scratch(program);

	if (!s || !read_user_word(&s->at, s->at + RT_PROFILE_TRACEBACK_NEXT_AT))
		return WALK_REFUSED;
	s->bounded++;
	return s->at ? WALK_GOES_ON : WALK_ENDS;
}

/* The entry at s->at, as the frame `at`, which is behind those further in. */
__attribute__((noinline)) int end_take_traceback(uint32_t program, uint32_t at)
{
	struct profile_scratch *s = find_scratch(program);
	struct rt_profile_frame frame = {};
	uint64_t object, offset, next;

	if (!s || !read_user_word(&next, s->at + RT_PROFILE_TRACEBACK_NEXT_AT) ||
		!read_user_word(&object, s->at + RT_PROFILE_TRACEBACK_FRAME_AT) ||
		!read_user_word(&offset, s->at + RT_PROFILE_TRACEBACK_OFFSET_AT))
		return WALK_REFUSED;
	if (s->python.frame_owner && !read_user_word(&object, object + RT_PROFILE_FRAME_OBJECT_AT))
		return WALK_REFUSED;
	if (!read_user_word(&frame.code, object + s->python.frame_code))
		return WALK_REFUSED;
	frame.code &= ~RT_PROFILE_TAG_MASK;
	frame.flags =
		RT_PROFILE_COMPLETE; /* no initializer: its .rodata has no variable, and Linux 5.10 refuses such BTF */
	offset &= 0xffffffff;
	if (s->python.code_adaptive)
		frame.instruction = frame.code + s->python.code_adaptive + offset;
	else
		frame.instruction = s->python.unit_bytes == 2 ? offset / 2 : offset;
	if (!read_code_object(s, &frame))
		return WALK_REFUSED;
	asm volatile("" : "+r"(at)); /* else the compiler leaves out the bound, which the verifier has lost */
	s->record.frame[at & (RT_PROFILE_FRAMES_MAX - 1)] = frame;
	s->at = next;
	return next ? WALK_GOES_ON : WALK_ENDS;
}

/* A traceback begins with the outermost frame; a stack with the innermost one. The outer ones of a deep one are left
 * out. */
static __always_inline bool end_read_traceback(struct profile_scratch *s, uint32_t program, uint64_t traceback)
{
	uint32_t count, left_out;
	int r = WALK_GOES_ON;

	s->at = traceback;
	s->bounded = 0;
	for (int i = 0; i < RT_END_TRACEBACK_MAX && r == WALK_GOES_ON; i++)
		r = end_next_traceback(program);
	if (r != WALK_ENDS)
		return false;
	s->at = traceback;
	count = s->bounded;
	left_out = count > RT_PROFILE_FRAMES_MAX ? count - RT_PROFILE_FRAMES_MAX : 0;
	for (uint32_t i = 0; i < RT_END_TRACEBACK_MAX; i++) {
		if (i >= left_out)
			break;
		if (end_next_traceback(program) != WALK_GOES_ON)
			return false;
	}
	count -= left_out;
	r = WALK_GOES_ON;
	for (uint32_t i = 0; i < RT_PROFILE_FRAMES_MAX && r == WALK_GOES_ON; i++)
		r = end_take_traceback(program, count - 1 - i);
	s->record.frames = count;
	if (left_out)
		s->record.state |= RT_PROFILE_CUT;
	return r == WALK_ENDS;
}

/* Records. */

/* Sends the record, with the stack in the scratch if it has frames. */
static __always_inline void end_send(
	struct profile_scratch *s, uint32_t entry, uint32_t slot, struct rt_end_event *event)
{
	struct rt_quota *quota = find_quota(slot);
	uint64_t id = bpf_get_current_pid_tgid();

	event->stack = 0;
	if (s->record.frames && s->record.frames <= RT_PROFILE_FRAMES_MAX) {
		profile_hash(entry);
		send_codes(s, entry);
		if (send_rank_event(quota, &s->record.event, sizeof(s->record), RT_KIND_END_STACK,
			    record_bytes(&s->record), id >> 32, (uint32_t)id))
			event->stack = s->record.stack;
	}
	bpf_get_current_comm(event->thread_name, sizeof(event->thread_name));
	send_rank_event(quota, &event->event, sizeof(*event), RT_KIND_END, sizeof(*event), id >> 32, (uint32_t)id);
}

static __always_inline void end_take_place(struct rt_end_event *event, uint32_t thread_id)
{
	const struct end_place *place = bpf_map_lookup_elem(&end_places, &thread_id);

	event->what[0] = 0;
	event->offset = 0;
	if (!place)
		return;
	event->offset = place->offset;
	__builtin_memcpy(event->what, place->file, sizeof(event->what));
	bpf_map_delete_elem(&end_places, &thread_id);
}

/* The current thread and its stack, if it is among those that are recorded. */
static __always_inline void end_thread(struct rt_end_rank *rank, uint32_t slot, uint32_t how, uint32_t signal)
{
	uint64_t id = bpf_get_current_pid_tgid(), known[2] = {};
	uint32_t cpu = bpf_get_smp_processor_id(), entry = take_scratch(cpu);
	struct profile_scratch *s = entry < SCRATCHES ? find_scratch(entry) : NULL;
	struct rt_end_event *event = entry < SCRATCHES ? bpf_map_lookup_elem(&end_scratch, &entry) : NULL;
	bool chosen = how != RT_END_KILLED || id >> 32 == (uint32_t)id;

	if (s && event && (chosen || rank->threads < RT_END_THREADS_MAX)) {
		profile_begin(s, &rank->python);
		if (!s->python.interps || !s->pthread || !read_python(s, entry, known))
			s->record.frames = 0;
		event->how = how;
		event->signal = signal;
		end_take_place(event, (uint32_t)id);
		if (chosen || s->record.frames) {
			__sync_fetch_and_add(&rank->threads, 1);
			end_send(s, entry, slot, event);
		}
	}
	if (entry < SCRATCHES)
		give_scratch(cpu, entry);
}

/* Programs. */

static __always_inline void end_signal(uint32_t signal, struct k_sigaction *action)
{
	uint32_t slot, thread_id = (uint32_t)bpf_get_current_pid_tgid(), one = 1;
	struct rt_end_rank *rank = end_rank(&slot);
	struct task_struct___end *task;

	if (!rank || signal > 64 || (1ULL << (signal & 63)) & RT_END_HARMLESS || BPF_CORE_READ(action, sa.sa_handler))
		return;
	task = (void *)bpf_get_current_task();
	/* Of threads that an exit with status 0 ends. */
	if (signal == RT_END_SIGKILL && BPF_CORE_READ(task, signal, flags) & END_GROUP_EXITS &&
		!BPF_CORE_READ(task, signal, group_exit_code))
		return;
	bpf_map_update_elem(&end_threads, &thread_id, &one, BPF_ANY);
	end_thread(rank, slot, signal == RT_END_SIGKILL ? RT_END_KILLED : RT_END_SIGNAL, signal);
}

static __always_inline void end_exit(void)
{
	uint32_t slot, thread_id = (uint32_t)bpf_get_current_pid_tgid();
	struct rt_end_rank *rank = end_rank(&slot);
	struct task_struct___end *task;

	if (!rank || !bpf_map_delete_elem(&end_threads, &thread_id))
		return;
	task = (void *)bpf_get_current_task();
	if (!BPF_CORE_READ(task, mm) || !(BPF_CORE_READ(task, signal, flags) & END_GROUP_EXITS) ||
		!BPF_CORE_READ(task, signal, group_exit_code))
		return;
	end_thread(rank, slot, RT_END_EXIT, 0);
}

/* In the sender's context. */
static __always_inline void end_sent(uint32_t signal, uint64_t info, struct task_struct *task)
{
	uint32_t slot, pid, sender = bpf_get_current_pid_tgid() >> 32;
	struct rt_end_rank *rank;

	if (signal > 63 || !((1ULL << (signal & 63)) & RT_END_ASKING))
		return;
	pid = BPF_CORE_READ(task, tgid);
	rank = end_rank_of(pid, &slot);
	if (info == END_FROM_KERNEL)
		sender = 0;
	if (!rank || sender == pid)
		return;
	rank->sender.signal = signal;
	rank->sender.pid = sender;
	bpf_get_current_comm(rank->sender.name, sizeof(rank->sender.name));
}

SEC("tp_btf/signal_generate")
int end_sent_btf(uint64_t *ctx)
{
	end_sent((uint32_t)ctx[0], ctx[1], (struct task_struct *)ctx[2]);
	return 0;
}

SEC("raw_tp/signal_generate")
int end_sent_raw(uint64_t *ctx)
{
	end_sent((uint32_t)ctx[0], ctx[1], (struct task_struct *)ctx[2]);
	return 0;
}

/* The kernel chose a process to free memory. Its argument is the process's number, and from Linux 6.8 on the
 * process. */
SEC("raw_tp/mark_victim")
int end_victim(uint64_t *ctx)
{
	uint32_t slot, pid = ctx[0] <= END_PID_MAX ? ctx[0] : BPF_CORE_READ((struct task_struct *)ctx[0], tgid);
	struct rt_end_rank *rank = end_rank_of(pid, &slot);

	if (rank)
		rank->sender.out_of_memory = 1;
	return 0;
}

/* Before end_signal_btf(). */
SEC("tp_btf/signal_deliver")
int end_place_btf(uint64_t *ctx)
{
	uint32_t slot, thread_id = (uint32_t)bpf_get_current_pid_tgid(), signal = (uint32_t)ctx[0];
	struct end_place place = {};

	if (!end_rank(&slot) || signal == RT_END_SIGKILL)
		return 0;
	if (bpf_get_stack(ctx, &place.address, sizeof(place.address), BPF_F_USER_STACK) <= 0)
		return 0;
	bpf_find_vma((struct task_struct *)bpf_get_current_task_btf(), place.address, end_on_vma, &place, 0);
	if (place.file[0])
		bpf_map_update_elem(&end_places, &thread_id, &place, BPF_ANY);
	return 0;
}

SEC("tp_btf/signal_deliver")
int end_signal_btf(uint64_t *ctx)
{
	end_signal((uint32_t)ctx[0], (struct k_sigaction *)ctx[2]);
	return 0;
}

SEC("raw_tp/signal_deliver")
int end_signal_raw(uint64_t *ctx)
{
	end_signal((uint32_t)ctx[0], (struct k_sigaction *)ctx[2]);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int end_exit_btf(__attribute__((unused)) void *ctx)
{
	end_exit();
	return 0;
}

SEC("raw_tp/sched_process_exit")
int end_exit_raw(__attribute__((unused)) void *ctx)
{
	end_exit();
	return 0;
}

/* PyErr_Display(), which shows an exception that nobody caught, and then the program ends in most cases. */
SEC("uprobe")
int end_exception(void *ctx)
{
	uint64_t traceback = FIXED_SLOT(ctx, END_TRACEBACK_SLOT), value = FIXED_SLOT(ctx, END_VALUE_SLOT), name;
	uint32_t slot, cpu = bpf_get_smp_processor_id(), entry;
	struct rt_end_rank *rank = end_rank(&slot);
	struct profile_scratch *s;
	struct rt_end_event *event;

	if (!rank || !rank->python.interps)
		return 0;
	entry = take_scratch(cpu);
	if (entry >= SCRATCHES)
		return 0;
	s = find_scratch(entry);
	event = bpf_map_lookup_elem(&end_scratch, &entry);
	if (s && event) {
		profile_begin(s, &rank->python);
		if (!traceback || !end_read_traceback(s, entry, traceback))
			s->record.frames = 0;
		event->how = RT_END_EXCEPTION;
		event->signal = 0;
		event->what[0] = 0;
		event->offset = 0;
		if (read_user_word(&name, value + RT_PROFILE_TYPE_AT) && read_user_word(&name, name + END_TYPE_NAME_AT))
			bpf_probe_read_user_str(event->what, sizeof(event->what), (void *)name);
		end_send(s, entry, slot, event);
	}
	give_scratch(cpu, entry);
	return 0;
}

/* The call engine calls this after the record of a hit, which may be the begin of a stage. */
SEC("uprobe")
int end_stage(void *ctx)
{
	uint64_t id = bpf_get_current_pid_tgid(), known[2] = {}, now_ns = bpf_ktime_get_ns();
	uint32_t slot, cpu = bpf_get_smp_processor_id(), entry;
	struct rt_end_rank *rank = end_rank(&slot);
	struct rt_quota *quota;
	struct profile_scratch *s;
	long bytes;

	if (!rank || !rank->python.interps)
		return 0;
	quota = find_quota(slot);
	if (!quota || !quota->stacks_wanted)
		return 0;
	quota->stacks_wanted--; /* threads may pass each other: some more or less */
	entry = take_scratch(cpu);
	if (entry >= SCRATCHES)
		return 0;
	s = find_scratch(entry);
	if (s) {
		profile_begin(s, &rank->python);
		if (s->pthread && read_python(s, entry, known) && s->record.frames) {
			bytes = bpf_get_stack(ctx, s->record.native, sizeof(s->record.native), BPF_F_USER_STACK);
			if (bytes > 0)
				s->record.natives = (uint32_t)bytes / 8;
			profile_hash(entry);
			send_rank_event(quota, &s->record.event, sizeof(s->record), RT_KIND_STAGE_STACK,
				record_bytes(&s->record), id >> 32, (uint32_t)id);
		}
	}
	give_scratch(cpu, entry);
	__sync_fetch_and_add(&rank->stacks, 1);
	__sync_fetch_and_add(&rank->took_ns, bpf_ktime_get_ns() - now_ns);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
