/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Kernel side of the collector of system calls: their entry and exit, of ranks' threads. Each call is counted with its
 * time by number; of calls on regular files, bytes are counted too, and the slow ones are records. A thread in a call
 * has one entry of a bounded hash. Beyond the rank's part of it a call is counted as one of the rank's losses, beyond
 * the whole as a drop.
 *
 * While attached, each system call of the machine takes 0.2 us longer, and a rank's 0.7 us (6.18, x86-64). sched_yield
 * is left out: a thread polls by it and loses nothing, and what a yield gives to others is off-CPU time (sched.bpf.c).
 */
#include "bpf/ends_rank.bpf.h"
#include "bpf/scratch.bpf.h"
#include "bpf/syscalls.h"

/* Slot in struct pt_regs of a system call's first argument: rdi; orig_x0. */
#ifdef __TARGET_ARCH_arm64
#define FIRST_ARGUMENT 34
#else
#define FIRST_ARGUMENT 14
#endif

#define FORMAT_MASK 0170000 /* S_IFMT, S_IFREG, S_IFSOCK of linux/stat.h */
#define FORMAT_FILE 0100000
#define FORMAT_SOCKET 0140000

#define FAMILY_4 2 /* AF_INET, AF_INET6 of linux/socket.h */
#define FAMILY_6 10

const volatile uint64_t threshold_ns = 1000000, wait_min_ns = RT_WAIT_MIN_NS;
const volatile uint8_t kinds[RT_SYSCALLS_MAX]; /* by number: enum rt_syscall_kind */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384); /* set by the loader */
	__type(key, uint32_t);
	__type(value, struct rt_syscall);
} syscalls SEC(".maps");

struct syscall_slots {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RT_SYSCALL_SLOTS);
	__uint(key_size, sizeof(uint32_t));
	__uint(value_size, sizeof(struct rt_syscall_sums));
};

/* Slot / RT_SYSCALL_SLOTS: a map that the daemon makes when a rank has one of its slots, while the programs are
 * attached. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, uint32_t);
	__array(values, struct syscall_slots);
} syscall_sums SEC(".maps");

static __always_inline struct rt_syscall_sums *syscalls_sums(uint32_t slot)
{
	uint32_t part = slot / RT_SYSCALL_SLOTS, at = slot % RT_SYSCALL_SLOTS;
	void *slots = bpf_map_lookup_elem(&syscall_sums, &part);

	return slots ? bpf_map_lookup_elem(slots, &at) : NULL;
}

static __always_inline struct file *syscalls_any_file(uint64_t number)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files = BPF_CORE_READ(table, fd), *file = NULL;

	if (number >= BPF_CORE_READ(table, max_fds) || bpf_probe_read_kernel(&file, sizeof(file), files + number))
		return NULL;
	return file;
}

/* The regular file of that number, or the socket if the call writes or sends, which is a send then; or NULL. */
static __always_inline struct file *syscalls_file(uint64_t number, uint16_t *op)
{
	struct file *file = syscalls_any_file(number);
	uint16_t format;

	if (!file)
		return NULL;
	format = BPF_CORE_READ(file, f_inode, i_mode) & FORMAT_MASK;
	if (format == FORMAT_SOCKET && *op == RT_FILE_WRITE)
		*op = RT_FILE_SEND;
	return format == (*op == RT_FILE_SEND ? FORMAT_SOCKET : FORMAT_FILE) ? file : NULL;
}

/* That of the call's first argument. */
static __always_inline struct file *syscalls_argument_file(uint64_t *registers, uint16_t *op)
{
	uint64_t argument;

	if (bpf_probe_read_kernel(&argument, sizeof(argument), registers + FIRST_ARGUMENT))
		return NULL;
	return syscalls_file((uint32_t)argument, op);
}

static __always_inline void syscalls_begin(uint32_t slot, uint32_t number, uint32_t kind, uint64_t *registers)
{
	uint32_t thread_id = (uint32_t)bpf_get_current_pid_tgid();
	struct rt_syscall_sums *sums = syscalls_sums(slot);
	struct rt_quota *quota = find_quota(slot);
	struct rt_syscall call = {.slot = slot, .number = number};

	if (!sums)
		return;
	if (quota && quota->threads_max && sums->held >= (int32_t)quota->threads_max) {
		count_limited(quota, false);
		return;
	}
	if (kind >= RT_SYSCALL_FILE) {
		call.op = kind - RT_SYSCALL_FILE;
		if (call.op != RT_FILE_OPEN)
			call.file = (uint64_t)syscalls_argument_file(registers, &call.op);
	}
	call.start_ns = bpf_ktime_get_ns();
	/* An entry of a call whose exit was not seen has its place already. */
	if (!bpf_map_update_elem(&syscalls, &thread_id, &call, BPF_NOEXIST))
		__sync_fetch_and_add(&sums->held, 1);
	else if (bpf_map_update_elem(&syscalls, &thread_id, &call, BPF_EXIST))
		count_drop(RT_KIND_FILE);
}

SEC("raw_tp/sys_enter")
int syscalls_enter(struct bpf_raw_tracepoint_args *ctx)
{
	uint64_t number = ctx->args[1];
	uint32_t kind, pid, *slot;
	struct cost_hit cost;

	if (number >= RT_SYSCALLS_MAX)
		return 0;
	/* First: a thread that polls may make a million such calls a second. */
	kind = kinds[number];
	if (kind == RT_SYSCALL_LEFT_OUT)
		return 0;
	pid = bpf_get_current_pid_tgid() >> 32;
	slot = bpf_map_lookup_elem(&ranks, &pid);
	if (!slot)
		return 0;
	cost = cost_begin(*slot, RT_COST_L3, RT_COST_TRACEPOINT, bpf_ktime_get_ns());
	syscalls_begin(*slot, number, kind, (uint64_t *)ctx->args[0]);
	cost_end(&cost);
	return 0;
}

static __always_inline void syscalls_name_peer(struct rt_file_event *record, struct file *file)
{
	struct socket *socket = BPF_CORE_READ(file, private_data);
	struct sock *sock = BPF_CORE_READ(socket, sk);

	record->family = BPF_CORE_READ(sock, __sk_common.skc_family);
	record->port = BPF_CORE_READ(sock, __sk_common.skc_dport);
	if (record->family == FAMILY_4)
		bpf_probe_read_kernel(
			record->address, 4, __builtin_preserve_access_index(&sock->__sk_common.skc_daddr));
	else if (record->family == FAMILY_6 && bpf_core_field_exists(sock->__sk_common.skc_v6_daddr))
		bpf_probe_read_kernel(record->address, sizeof(record->address),
			__builtin_preserve_access_index(&sock->__sk_common.skc_v6_daddr));
	else
		record->family = 0;
}

static __always_inline void syscalls_name_file(struct rt_file_event *record, struct file *file)
{
	struct dentry *dentry = BPF_CORE_READ(file, f_path.dentry);

	if (bpf_probe_read_kernel_str(record->name, RT_FILE_NAME_SIZE, BPF_CORE_READ(dentry, d_name.name)) < 0)
		record->name[0] = 0;
	if (bpf_probe_read_kernel_str(record->folder, RT_FILE_NAME_SIZE, BPF_CORE_READ(dentry, d_parent, d_name.name)) <
		0)
		record->folder[0] = 0;
}

/* The file may have been closed meanwhile by another thread: its memory is read as it is, safely. */
static __always_inline void syscalls_send(const struct rt_syscall *call, uint64_t bytes, uint64_t duration_ns)
{
	struct rt_file_event *record =
		reserve_rank_event(find_quota(call->slot), RT_KIND_FILE, sizeof(struct rt_file_event));
	struct file *file = (struct file *)call->file;

	/* Checked first: verifiers before Linux 6.2 forget across a call that the record is there. */
	if (!record)
		return;
	record->start_ns = call->start_ns;
	record->duration_ns = duration_ns;
	record->bytes = bytes;
	record->op = call->op;
	record->family = record->port = 0;
	__builtin_memset(record->address, 0, sizeof(record->address));
	record->folder[0] = record->name[0] = 0;
	if (call->op == RT_FILE_SEND)
		syscalls_name_peer(record, file);
	else
		syscalls_name_file(record, file);
	submit_event(record);
}

static __always_inline void syscalls_end_file(
	struct rt_syscall_sums *sums, const struct rt_syscall *call, long result, uint64_t duration_ns)
{
	uint64_t bytes = call->op == RT_FILE_SYNC || call->op == RT_FILE_OPEN || result < 0 ? 0 : (uint64_t)result;
	struct rt_file_sum *sum;

	if (call->file && duration_ns >= threshold_ns) {
		syscalls_send(call, bytes, duration_ns);
		return;
	}
	sum = &sums->file[call->op & (RT_FILE_SUMS - 1)];
	__sync_fetch_and_add(&sum->count, 1);
	__sync_fetch_and_add(&sum->bytes, bytes);
	__sync_fetch_and_add(&sum->duration_ns, duration_ns);
}

static __always_inline void syscalls_end(const struct rt_syscall *call, long result, uint64_t duration_ns)
{
	struct rt_syscall_sums *sums = syscalls_sums(call->slot);
	struct rt_syscall_sum *sum;

	if (!sums)
		return;
	__sync_fetch_and_add(&sums->held, -1);
	sum = &sums->of[call->number & (RT_SYSCALLS_MAX - 1)];
	__sync_fetch_and_add(&sum->count, 1);
	__sync_fetch_and_add(&sum->duration_ns, duration_ns);
	if (sum->longest_ns < duration_ns)
		sum->longest_ns = duration_ns;
	if (call->file || call->op == RT_FILE_OPEN)
		syscalls_end_file(sums, call, result, duration_ns);
}

/* Stacks that were sent, by process. One that makes way for others is sent again. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, uint64_t);
	__type(value, uint32_t);
} wait_stacks SEC(".maps");

static __always_inline void syscalls_send_wait(
	struct profile_scratch *s, const struct rt_syscall *call, uint64_t duration_ns)
{
	uint64_t id = bpf_get_current_pid_tgid(), key = rt_profile_mix(s->record.stack, id >> 32);
	struct rt_quota *quota = find_quota(call->slot);
	struct rt_wait_event *wait;
	uint32_t one = 1;

	if (!bpf_map_lookup_elem(&wait_stacks, &key)) {
		if (!send_rank_event(quota, &s->record.event, sizeof(s->record), RT_KIND_WAIT_STACK,
			    record_bytes(&s->record), id >> 32, (uint32_t)id))
			return;
		bpf_map_update_elem(&wait_stacks, &key, &one, BPF_ANY);
	}
	wait = reserve_rank_event(quota, RT_KIND_WAIT, sizeof(*wait));
	if (!wait)
		return;
	wait->start_ns = call->start_ns;
	wait->duration_ns = duration_ns;
	wait->stack = s->record.stack;
	wait->number = call->number;
	wait->pad0 = 0;
	submit_event(wait);
}

/* Where in Python the thread is that was in the call: it has not gone on yet. */
static __always_inline void syscalls_wait(const struct rt_syscall *call, uint64_t duration_ns)
{
	uint32_t slot, cpu = bpf_get_smp_processor_id(), entry;
	const struct rt_end_rank *rank = end_rank(&slot);
	uint64_t known[2] = {};
	struct profile_scratch *s;

	if (!rank || !rank->python.interps)
		return;
	entry = take_scratch(cpu);
	if (entry >= SCRATCHES)
		return;
	s = find_scratch(entry);
	if (s) {
		profile_begin(s, &rank->python);
		if (s->pthread && read_python(s, entry, known) && s->record.frames) {
			profile_hash(entry);
			syscalls_send_wait(s, call, duration_ns);
		}
	}
	give_scratch(cpu, entry);
}

SEC("raw_tp/sys_exit")
int syscalls_exit(struct bpf_raw_tracepoint_args *ctx)
{
	uint32_t thread_id = (uint32_t)bpf_get_current_pid_tgid();
	struct rt_syscall *entry = bpf_map_lookup_elem(&syscalls, &thread_id), call;
	uint64_t now_ns;
	struct cost_hit cost;

	if (!entry)
		return 0;
	now_ns = bpf_ktime_get_ns();
	call = *entry;
	cost = cost_begin(call.slot, RT_COST_L3, RT_COST_TRACEPOINT, now_ns);
	bpf_map_delete_elem(&syscalls, &thread_id);
	if (call.op == RT_FILE_OPEN && (long)ctx->args[1] >= 0)
		call.file = (uint64_t)syscalls_any_file((uint32_t)ctx->args[1]);
	syscalls_end(&call, (long)ctx->args[1], now_ns - call.start_ns);
	if (now_ns - call.start_ns >= wait_min_ns)
		syscalls_wait(&call, now_ns - call.start_ns);
	cost_end(&cost);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
