/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User side of the collector of system calls: loads bpf/syscalls.bpf.c once, attaches it to their entry and exit while L3 is
 * on, and turns its sums into rows of `syscalls` once a second, and slow calls on files and the sums of the others into
 * rows of `file_calls`. What goes through io_uring or mapped files is not seen, nor calls of a rank's children.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "bpf/syscalls.h"
#include "daemon/base/log.h"
#include "daemon/collect/collector.h"
#include "daemon/collect/syscall_names.h"
#include "daemon/core/context.h"
#include "daemon/core/limits.h"
#include "daemon/kernel/kernel.h"
#include "daemon/store/store.h"
#include "syscalls.skel.h"

#define CALLS_MAX (1u << 20)

static const char *const syscalls_file_ops[RT_FILE_OPS] = {
	[RT_FILE_READ] = "read",
	[RT_FILE_WRITE] = "write",
	[RT_FILE_SYNC] = "sync",
};

/* enum rt_syscall_kind of those that are not plain. */
static const struct {
	long number;
	unsigned kind;
} syscalls_kinds[] = {
	{SYS_read, RT_SYSCALL_FILE + RT_FILE_READ},
	{SYS_pread64, RT_SYSCALL_FILE + RT_FILE_READ},
	{SYS_readv, RT_SYSCALL_FILE + RT_FILE_READ},
	{SYS_preadv, RT_SYSCALL_FILE + RT_FILE_READ},
	{SYS_write, RT_SYSCALL_FILE + RT_FILE_WRITE},
	{SYS_pwrite64, RT_SYSCALL_FILE + RT_FILE_WRITE},
	{SYS_writev, RT_SYSCALL_FILE + RT_FILE_WRITE},
	{SYS_pwritev, RT_SYSCALL_FILE + RT_FILE_WRITE},
	{SYS_fsync, RT_SYSCALL_FILE + RT_FILE_SYNC},
	{SYS_fdatasync, RT_SYSCALL_FILE + RT_FILE_SYNC},
	{SYS_exit, RT_SYSCALL_ENDS},
	{SYS_exit_group, RT_SYSCALL_ENDS},
	{SYS_execve, RT_SYSCALL_ENDS},
	{SYS_execveat, RT_SYSCALL_ENDS},
};

struct syscalls {
	struct context *context;
	struct syscalls_bpf *skeleton; /* NULL if the kernel refuses it */
	bool attached;
	uint32_t slots, calls_max;
	uint64_t events, not_ranks, sums_ns; /* sums_ns: when sums were read last */
	struct rt_syscall_sums *sums;	     /* the memory of syscall_sums, by slot */
	struct rt_file_sum *file;	     /* as read last, by slot and operation */
	char reason[128];
};

static int collect_syscalls_load(struct syscalls *syscalls)
{
	struct syscalls_bpf *skeleton = syscalls_bpf__open();
	void *memory;
	int r;

	if (!skeleton)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(syscalls_kinds); i++)
		skeleton->rodata->kinds[syscalls_kinds[i].number] = (uint8_t)syscalls_kinds[i].kind;
	skeleton->rodata->threshold_ns = syscalls->context->config.offcpu_threshold_ns;
	r = bpf_map__set_max_entries(skeleton->maps.syscalls, syscalls->calls_max);
	if (r == 0)
		r = bpf_map__set_max_entries(skeleton->maps.syscall_sums, syscalls->slots);
	if (r == 0)
		r = bpf_map__set_max_entries(skeleton->maps.file_sums, syscalls->slots * RT_FILE_OPS);
	if (r == 0)
		r = kernel_share(syscalls->context->kernel, skeleton->obj);
	if (r == 0)
		r = syscalls_bpf__load(skeleton);
	if (r < 0) {
		syscalls_bpf__destroy(skeleton);
		return r;
	}
	memory = mmap(NULL, syscalls->slots * sizeof(*syscalls->sums), PROT_READ | PROT_WRITE, MAP_SHARED,
		bpf_map__fd(skeleton->maps.syscall_sums), 0);
	if (memory == MAP_FAILED) {
		r = -errno;
		syscalls_bpf__destroy(skeleton);
		return r;
	}
	syscalls->sums = memory;
	syscalls->skeleton = skeleton;
	return 0;
}

static int syscalls_open(struct context *context, void **ret_state)
{
	struct syscalls *syscalls = calloc(1, sizeof(*syscalls));
	uint64_t threads = context->config.ranks_max * LIMIT_OFFCPU_THREADS;
	int r;

	if (!syscalls)
		return -ENOMEM;
	syscalls->context = context;
	syscalls->slots = (uint32_t)context->config.ranks_max;
	syscalls->calls_max = threads == 0 || threads > CALLS_MAX ? CALLS_MAX : (uint32_t)threads;
	syscalls->file = calloc((size_t)syscalls->slots * RT_FILE_OPS, sizeof(*syscalls->file));
	if (!syscalls->file) {
		free(syscalls);
		return -ENOMEM;
	}
	r = collect_syscalls_load(syscalls);
	if (r < 0) {
		snprintf(syscalls->reason, sizeof(syscalls->reason), "the kernel refuses the program (%s)", strerror(-r));
		log_notice("syscalls", "%s; no system calls are recorded", syscalls->reason);
	}
	*ret_state = syscalls;
	return 0;
}

static uint64_t collect_syscalls_period_ns(const struct syscalls *syscalls, uint64_t now_ns)
{
	return store_utc_ns(syscalls->context->store, syscalls->sums_ns ? syscalls->sums_ns : now_ns);
}

/*
 * Takes what was counted since the last time; rank NULL: of nobody. A program may be adding a call meanwhile: then its count is
 * in one row and its time in the next, and neither is lost.
 */
static void collect_syscalls_take_sums(struct syscalls *syscalls, uint32_t slot, const struct rank *rank, uint64_t now_ns)
{
	struct store *store = syscalls->context->store;

	for (uint32_t number = 0; number < RT_SYSCALLS_MAX; number++) {
		struct rt_syscall_sum *sum = &syscalls->sums[slot].of[number];
		uint64_t count = __atomic_exchange_n(&sum->count, 0, __ATOMIC_RELAXED), duration_ns, longest_ns;
		char name[SYSCALL_NAME_BYTES];

		if (count == 0)
			continue;
		duration_ns = __atomic_exchange_n(&sum->duration_ns, 0, __ATOMIC_RELAXED);
		longest_ns = __atomic_exchange_n(&sum->longest_ns, 0, __ATOMIC_RELAXED);
		if (!rank)
			continue;
		const struct row_syscalls row = {
			.rank = field_int(rank->env.rank),
			.call = field_text(syscall_name(number, name)),
			.start_ns = field_time(collect_syscalls_period_ns(syscalls, now_ns)),
			.duration_ns = field_duration(duration_ns),
			.longest_ns = field_duration(longest_ns),
			.count = field_int((int64_t)count),
			.instance = field_int(rank->instance),
		};

		store_put_syscalls(store, &row);
		syscalls->events++;
	}
}

static bool collect_syscalls_read(const struct syscalls *syscalls, uint32_t key, struct rt_file_sum *ret)
{
	return bpf_map_lookup_elem(bpf_map__fd(syscalls->skeleton->maps.file_sums), &key, ret) == 0;
}

/* The same of short calls on files. */
static void collect_syscalls_take_files(struct syscalls *syscalls, uint32_t slot, const struct rank *rank, uint64_t now_ns)
{
	for (uint32_t op = 0; op < RT_FILE_OPS; op++) {
		struct rt_file_sum *last = &syscalls->file[slot * RT_FILE_OPS + op], sum;

		if (!collect_syscalls_read(syscalls, slot * RT_FILE_OPS + op, &sum) || sum.count == last->count)
			continue;
		if (rank) {
			const struct row_file_calls row = {
				.rank = field_int(rank->env.rank),
				.operation = field_text(syscalls_file_ops[op]),
				.file = field_text_if(""),
				.start_ns = field_time(collect_syscalls_period_ns(syscalls, now_ns)),
				.duration_ns = field_duration(sum.duration_ns - last->duration_ns),
				.count = field_int(sum.count - last->count),
				.bytes = field_int(sum.bytes - last->bytes),
				.thread_id = field_int_if(false, 0),
				.instance = field_int(rank->instance),
			};

			store_put_file_calls(syscalls->context->store, &row);
			syscalls->events++;
		}
		*last = sum;
	}
}

static void collect_syscalls_take(struct syscalls *syscalls, uint32_t slot, const struct rank *rank, uint64_t now_ns)
{
	if (slot >= syscalls->slots)
		return;
	collect_syscalls_take_sums(syscalls, slot, rank, now_ns);
	collect_syscalls_take_files(syscalls, slot, rank, now_ns);
}

struct syscalls_taking {
	struct syscalls *syscalls;
	uint64_t now_ns;
};

static void collect_syscalls_take_rank(void *arg, const struct rank *rank)
{
	const struct syscalls_taking *taking = arg;

	if (rank->role == RANK_ROLE_RANK && !rank->ended)
		collect_syscalls_take(taking->syscalls, rank->slot, rank, taking->now_ns);
}

static void collect_syscalls_take_all(struct syscalls *syscalls, uint64_t now_ns)
{
	ranks_each(syscalls->context->ranks, collect_syscalls_take_rank, &(struct syscalls_taking){syscalls, now_ns});
	syscalls->sums_ns = now_ns;
}

/* Detached: calls whose exit is not seen. Nothing adds entries, so the walk ends. */
static void collect_syscalls_forget(struct syscalls *syscalls)
{
	int map = bpf_map__fd(syscalls->skeleton->maps.syscalls);
	uint32_t thread_id;

	for (uint32_t i = 0; i < syscalls->calls_max && bpf_map_get_next_key(map, NULL, &thread_id) == 0; i++) {
		struct rt_syscall call;

		if (bpf_map_lookup_elem(map, &thread_id, &call) == 0 && call.slot < syscalls->slots)
			__atomic_store_n(&syscalls->sums[call.slot].held, 0, __ATOMIC_RELAXED);
		(void)bpf_map_delete_elem(map, &thread_id);
	}
}

static int syscalls_level(void *state, enum level level, bool on, char *report, size_t report_size)
{
	struct syscalls *syscalls = state;
	int r;

	if (level != LEVEL_L3)
		return 0;
	if (!syscalls->skeleton) {
		snprintf(report, report_size, "no system calls: %s", syscalls->reason);
		return 0; /* the rest of L3 is there */
	}
	if (on && !syscalls->attached) {
		r = syscalls_bpf__attach(syscalls->skeleton);
		if (r < 0) {
			syscalls_bpf__detach(syscalls->skeleton);
			snprintf(syscalls->reason, sizeof(syscalls->reason), "cannot attach (%s)", strerror(-r));
			snprintf(report, report_size, "no system calls: %s", syscalls->reason);
			return 0;
		}
		syscalls->sums_ns = monotonic_ns();
	} else if (!on && syscalls->attached) {
		syscalls_bpf__detach(syscalls->skeleton);
		collect_syscalls_take_all(syscalls, monotonic_ns());
		collect_syscalls_forget(syscalls);
	}
	syscalls->attached = on;
	snprintf(report, report_size, on ? "system calls at 2 tracepoints" : "system calls detached");
	return 0;
}

/* A slot may have calls of the rank before, whose threads ended after it. */
static void syscalls_rank(void *state, const struct rank *rank, enum rank_change change)
{
	struct syscalls *syscalls = state;

	if (syscalls->skeleton && rank->role == RANK_ROLE_RANK && change != RANK_CHANGED)
		collect_syscalls_take(syscalls, rank->slot, change == RANK_ENDED ? rank : NULL, monotonic_ns());
}

static void syscalls_event(void *state, const struct rt_event *event, size_t size_bytes)
{
	const struct rt_file_event *call = (const struct rt_file_event *)event;
	char folder[RT_FILE_NAME_SIZE], name[RT_FILE_NAME_SIZE], file[2 * RT_FILE_NAME_SIZE];
	struct syscalls *syscalls = state;
	const struct rank *rank = ranks_by_pid(syscalls->context->ranks, event->pid);

	if (!rank || size_bytes < sizeof(*call) || call->op >= RT_FILE_OPS) {
		syscalls->not_ranks += !rank;
		return;
	}
	(void)copy_text(folder, sizeof(folder), call->folder);
	(void)copy_text(name, sizeof(name), call->name);
	snprintf(file, sizeof(file), "%s%s%s", folder, folder[0] && !streq(folder, "/") ? "/" : "", name);
	const struct row_file_calls row = {
		.rank = field_int(rank->env.rank),
		.operation = field_text(syscalls_file_ops[call->op]),
		.file = field_text(file),
		.start_ns = field_time(store_utc_ns(syscalls->context->store, call->start_ns)),
		.duration_ns = field_duration(call->duration_ns),
		.count = field_int(1),
		.bytes = field_int(call->bytes),
		.thread_id = field_int(event->thread_id),
		.instance = field_int(rank->instance),
	};

	store_put_file_calls(syscalls->context->store, &row);
	syscalls->events++;
}

static void syscalls_tick(void *state, uint64_t now_ns)
{
	struct syscalls *syscalls = state;

	if (syscalls->attached && now_ns >= syscalls->sums_ns + NSEC_PER_SEC)
		collect_syscalls_take_all(syscalls, now_ns);
}

static void syscalls_status(void *state, struct collector_status *ret)
{
	const struct syscalls *syscalls = state;

	ret->probes_attached = syscalls->attached ? 2 : 0;
	ret->events = syscalls->events;
	ret->drops = kernel_drops(syscalls->context->kernel, RT_KIND_FILE) + syscalls->not_ranks;
	if (syscalls->reason[0])
		collector_note(ret, "no system calls: %s", syscalls->reason);
}

static void syscalls_close(void *state)
{
	struct syscalls *syscalls = state;

	if (!syscalls)
		return;
	if (syscalls->sums)
		(void)munmap(syscalls->sums, syscalls->slots * sizeof(*syscalls->sums));
	syscalls_bpf__destroy(syscalls->skeleton);
	free(syscalls->file);
	free(syscalls);
}

const struct collector collector_syscalls = {
	.name = "syscalls",
	.summary = "system calls; reads, writes and fsyncs of files",
	.levels = LEVEL_BIT(LEVEL_L3),
	.kinds = 1u << RT_KIND_FILE,
	.open = syscalls_open,
	.level = syscalls_level,
	.rank = syscalls_rank,
	.event = syscalls_event,
	.tick = syscalls_tick,
	.status = syscalls_status,
	.close = syscalls_close,
};
