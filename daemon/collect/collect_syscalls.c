/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User side of the collector of system calls: loads bpf/syscalls.bpf.c once, and attaches it to their entry and exit
 * while L3 is on. Its sums are rows of `syscalls` and `file_calls` once a second, and slow calls on files and sockets
 * are rows of their own. What goes through io_uring or mapped files is not seen, nor calls of a rank's children.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <arpa/inet.h>
#include <inttypes.h>
#include <sys/mman.h>

#include "bpf/syscalls.h"
#include "daemon/base/log.h"
#include "daemon/base/syscall_names.h"
#include "daemon/collect/collector.h"
#include "daemon/core/context.h"
#include "daemon/core/limits.h"
#include "daemon/findings/online.h"
#include "daemon/kernel/kernel.h"
#include "daemon/store/store.h"
#include "syscalls.skel.h"

#define SYSCALLS_NAME_BYTES (2 * RT_FILE_NAME_SIZE)

static const struct {
	const char *word, *cause;
} syscalls_file_ops[RT_FILE_OPS] = {
	[RT_FILE_READ] = {"read", "reads of files"},
	[RT_FILE_WRITE] = {"write", "writes of files"},
	[RT_FILE_SYNC] = {"sync", "syncs of files"},
	[RT_FILE_SEND] = {"send", "sends to sockets"},
	[RT_FILE_OPEN] = {"open", "opens of files"},
};

_Static_assert(RT_FILE_OPS <= RT_FILE_SUMS, "each operation has a sum");

struct syscalls {
	struct context *context;
	struct syscalls_bpf *skeleton; /* NULL if the kernel refuses it */
	struct rt_syscall_sums *
		*part; /* RT_SYSCALL_SLOTS each, shared with the programs; NULL: no rank has had a slot of it */
	uint32_t parts;
	bool on;
	uint64_t events, not_ranks, sums_ns; /* sums_ns: when sums were read last */
	char reason[128];
};

static int collect_syscalls_load(struct syscalls *syscalls)
{
	struct syscalls_bpf *skeleton = syscalls_bpf__open();
	int r;

	if (!skeleton)
		return -errno;
	syscall_kinds(skeleton->rodata->kinds);
	skeleton->rodata->threshold_ns = syscalls->context->config.offcpu_threshold_ns;
	r = bpf_map__set_max_entries(skeleton->maps.syscalls, LIMIT_OFFCPU_THREADS);
	if (r == 0)
		r = bpf_map__set_max_entries(skeleton->maps.syscall_sums, syscalls->parts);
	if (r == 0)
		r = kernel_load(syscalls->context->kernel, skeleton->skeleton);
	if (r < 0) {
		syscalls_bpf__destroy(skeleton);
		return r;
	}
	syscalls->skeleton = skeleton;
	return 0;
}

static int syscalls_open(struct context *context, void **ret_state)
{
	struct syscalls *syscalls = calloc(1, sizeof(*syscalls));
	int r;

	if (!syscalls)
		return -ENOMEM;
	syscalls->context = context;
	syscalls->parts = ((uint32_t)context->config.ranks_max + RT_SYSCALL_SLOTS - 1) / RT_SYSCALL_SLOTS;
	syscalls->part = calloc(syscalls->parts, sizeof(struct rt_syscall_sums *));
	if (!syscalls->part) {
		free(syscalls);
		return -ENOMEM;
	}
	r = collect_syscalls_load(syscalls);
	if (r < 0) {
		snprintf(syscalls->reason, sizeof(syscalls->reason), "the kernel refuses the program (%s)",
			strerror(-r));
		log_notice("syscalls", "%s; no system calls are recorded", syscalls->reason);
	}
	*ret_state = syscalls;
	return 0;
}

static uint64_t collect_syscalls_period_ns(const struct syscalls *syscalls, uint64_t now_ns)
{
	return store_utc_ns(syscalls->context->store, syscalls->sums_ns ? syscalls->sums_ns : now_ns);
}

/* A program may be adding a call meanwhile: then its count is in one row and its time in the next, and neither is
 * lost. */
static uint64_t collect_syscalls_take(uint64_t *sum)
{
	return __atomic_exchange_n(sum, 0, __ATOMIC_RELAXED);
}

/* NULL: the slot has no part, for lack of memory. */
static struct rt_syscall_sums *collect_syscalls_slot(const struct syscalls *syscalls, uint32_t slot)
{
	struct rt_syscall_sums *part =
		slot / RT_SYSCALL_SLOTS < syscalls->parts ? syscalls->part[slot / RT_SYSCALL_SLOTS] : NULL;

	return part ? &part[slot % RT_SYSCALL_SLOTS] : NULL;
}

/* What was counted since the last time. */
static void collect_syscalls_take_calls(
	struct syscalls *syscalls, struct rt_syscall_sums *sums, const struct rank *rank, uint64_t now_ns)
{
	for (uint32_t number = 0; number < RT_SYSCALLS_MAX; number++) {
		struct rt_syscall_sum *sum = &sums->of[number];
		char name[SYSCALL_NAME_BYTES];

		if (sum->count == 0)
			continue;
		const struct row_syscalls row = {
			.rank = field_int(rank->env.rank),
			.call = field_text(syscall_name(number, name)),
			.start_ns = field_time(collect_syscalls_period_ns(syscalls, now_ns)),
			.duration_ns = field_duration(collect_syscalls_take(&sum->duration_ns)),
			.longest_ns = field_duration(collect_syscalls_take(&sum->longest_ns)),
			.count = field_int((int64_t)collect_syscalls_take(&sum->count)),
			.instance = field_int(rank->instance),
		};

		store_put_syscalls(syscalls->context->store, &row);
		syscalls->events++;
	}
}

/* Writes the sums of short calls on files. */
static void collect_syscalls_take_files(
	struct syscalls *syscalls, struct rt_syscall_sums *sums, const struct rank *rank, uint64_t now_ns)
{
	for (uint32_t op = 0; op < RT_FILE_OPS; op++) {
		struct rt_file_sum *sum = &sums->file[op];

		if (sum->count == 0)
			continue;
		uint64_t duration_ns = collect_syscalls_take(&sum->duration_ns);
		const struct row_file_calls row = {
			.rank = field_int(rank->env.rank),
			.operation = field_text(syscalls_file_ops[op].word),
			.file = field_text_if(NULL),
			.start_ns = field_time(collect_syscalls_period_ns(syscalls, now_ns)),
			.duration_ns = field_duration(duration_ns),
			.count = field_int((int64_t)collect_syscalls_take(&sum->count)),
			.bytes = field_int((int64_t)collect_syscalls_take(&sum->bytes)),
			.thread_id = field_int_if(false, 0),
			.instance = field_int(rank->instance),
		};

		store_put_file_calls(syscalls->context->store, &row);
		online_system_add(
			syscalls->context->findings, rank, now_ns, syscalls_file_ops[op].cause, "", duration_ns);
		syscalls->events++;
	}
}

static void collect_syscalls_take_slot(struct syscalls *syscalls, const struct rank *rank, uint64_t now_ns)
{
	struct rt_syscall_sums *sums = collect_syscalls_slot(syscalls, rank->slot);

	if (!sums)
		return;
	collect_syscalls_take_calls(syscalls, sums, rank, now_ns);
	collect_syscalls_take_files(syscalls, sums, rank, now_ns);
}

struct syscalls_taking {
	struct syscalls *syscalls;
	uint64_t now_ns;
};

static void collect_syscalls_take_rank(void *arg, const struct rank *rank)
{
	const struct syscalls_taking *taking = arg;

	if (rank->role == RANK_ROLE_RANK && !rank->ended)
		collect_syscalls_take_slot(taking->syscalls, rank, taking->now_ns);
}

static void collect_syscalls_take_all(struct syscalls *syscalls, uint64_t now_ns)
{
	ranks_each(syscalls->context->ranks, collect_syscalls_take_rank, &(struct syscalls_taking){syscalls, now_ns});
	syscalls->sums_ns = now_ns;
}

/* Calls whose exit is not seen. Nothing adds entries, so the walk ends. */
static void collect_syscalls_forget(const struct syscalls *syscalls)
{
	int map = bpf_map__fd(syscalls->skeleton->maps.syscalls);
	uint32_t thread_id;

	for (uint32_t i = 0; i < LIMIT_OFFCPU_THREADS && bpf_map_get_next_key(map, NULL, &thread_id) == 0; i++)
		(void)bpf_map_delete_elem(map, &thread_id);
}

static void collect_syscalls_off(struct syscalls *syscalls)
{
	if (!syscalls->on)
		return;
	syscalls_bpf__detach(syscalls->skeleton);
	collect_syscalls_take_all(syscalls, monotonic_ns());
	collect_syscalls_forget(syscalls);
	for (uint32_t part = 0; part < syscalls->parts; part++) {
		if (!syscalls->part[part])
			continue;
		(void)bpf_map_delete_elem(bpf_map__fd(syscalls->skeleton->maps.syscall_sums), &part);
		(void)munmap(syscalls->part[part], RT_SYSCALL_SLOTS * sizeof(struct rt_syscall_sums));
		syscalls->part[part] = NULL;
	}
	syscalls->on = false;
}

/* The slot's part, if it is not there. 0 or -errno. */
static int collect_syscalls_add_part(struct syscalls *syscalls, uint32_t slot)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE);
	uint32_t part = slot / RT_SYSCALL_SLOTS;
	_cleanup_close_ int map = -1;
	void *memory;

	if (part >= syscalls->parts || syscalls->part[part])
		return 0;
	map = bpf_map_create(BPF_MAP_TYPE_ARRAY, "syscall_slots", sizeof(uint32_t), sizeof(struct rt_syscall_sums),
		RT_SYSCALL_SLOTS, &options);
	if (map < 0)
		return -errno;
	memory = mmap(
		NULL, RT_SYSCALL_SLOTS * sizeof(struct rt_syscall_sums), PROT_READ | PROT_WRITE, MAP_SHARED, map, 0);
	if (memory == MAP_FAILED)
		return -errno;
	syscalls->part[part] = memory;
	return bpf_map_update_elem(bpf_map__fd(syscalls->skeleton->maps.syscall_sums), &part, &map, BPF_ANY) < 0
		       ? -errno
		       : 0;
}

struct syscalls_adding {
	struct syscalls *syscalls;
	int error; /* of the first that failed */
};

static void collect_syscalls_add_rank(void *arg, const struct rank *rank)
{
	struct syscalls_adding *adding = arg;

	if (adding->error == 0 && rank->role == RANK_ROLE_RANK && !rank->ended)
		adding->error = collect_syscalls_add_part(adding->syscalls, rank->slot);
}

static int collect_syscalls_on(struct syscalls *syscalls)
{
	struct syscalls_adding adding = {.syscalls = syscalls};

	syscalls->on = true;
	syscalls->sums_ns = monotonic_ns();
	ranks_each(syscalls->context->ranks, collect_syscalls_add_rank, &adding);
	return adding.error ?: syscalls_bpf__attach(syscalls->skeleton);
}

static int syscalls_level(void *state, enum level level, bool on, char *report, size_t report_size)
{
	struct syscalls *syscalls = state;
	int r;

	if (level != LEVEL_L3)
		return 0;
	if (syscalls->skeleton && on && !syscalls->on) {
		r = collect_syscalls_on(syscalls);
		syscalls->reason[0] = 0;
		if (r < 0) {
			collect_syscalls_off(syscalls);
			snprintf(syscalls->reason, sizeof(syscalls->reason), "cannot attach (%s)", strerror(-r));
		}
	} else if (!on) {
		collect_syscalls_off(syscalls);
	}
	if (syscalls->reason[0])
		snprintf(report, report_size, "no system calls: %s", syscalls->reason); /* the rest of L3 is there */
	else
		snprintf(report, report_size, on ? "system calls at 2 tracepoints" : "system calls detached");
	return 0;
}

/* A slot may have calls of the rank before, whose threads ended after it. Calls that are open (held) will end. */
static void collect_syscalls_begin_rank(struct syscalls *syscalls, const struct rank *rank)
{
	int r = collect_syscalls_add_part(syscalls, rank->slot);
	struct rt_syscall_sums *sums = collect_syscalls_slot(syscalls, rank->slot);

	if (r < 0)
		log_warning("syscalls", "no memory for the system calls of rank %d (%s)", rank->env.rank, strerror(-r));
	if (!sums)
		return;
	memset(sums->of, 0, sizeof(sums->of));
	memset(sums->file, 0, sizeof(sums->file));
}

static void syscalls_rank(void *state, const struct rank *rank, enum rank_change change)
{
	struct syscalls *syscalls = state;

	if (!syscalls->on || rank->role != RANK_ROLE_RANK || change == RANK_CHANGED)
		return;
	if (change == RANK_ENDED)
		collect_syscalls_take_slot(syscalls, rank, monotonic_ns());
	else
		collect_syscalls_begin_rank(syscalls, rank);
}

/* "FOLDER/NAME"; of a send, "ADDRESS:PORT". */
static void collect_syscalls_name(const struct rt_file_event *call, char ret[SYSCALLS_NAME_BYTES])
{
	char folder[RT_FILE_NAME_SIZE], name[RT_FILE_NAME_SIZE], address[INET6_ADDRSTRLEN];

	(void)copy_text(folder, sizeof(folder), call->folder);
	(void)copy_text(name, sizeof(name), call->name);
	if (call->op != RT_FILE_SEND)
		snprintf(ret, SYSCALLS_NAME_BYTES, "%s%s%s", folder, folder[0] && !streq(folder, "/") ? "/" : "", name);
	else if (inet_ntop(call->family, call->address, address, sizeof(address)))
		snprintf(ret, SYSCALLS_NAME_BYTES, call->family == AF_INET6 ? "[%s]:%u" : "%s:%u", address,
			ntohs(call->port));
	else
		snprintf(ret, SYSCALLS_NAME_BYTES, "socket");
}

static void syscalls_event(void *state, const struct rt_event *event, size_t size_bytes)
{
	const struct rt_file_event *call = (const struct rt_file_event *)event;
	char file[SYSCALLS_NAME_BYTES];
	struct syscalls *syscalls = state;
	const struct rank *rank = ranks_by_pid(syscalls->context->ranks, event->pid);

	if (!rank || size_bytes < sizeof(*call) || call->op >= RT_FILE_OPS) {
		syscalls->not_ranks += !rank;
		return;
	}
	collect_syscalls_name(call, file);
	const struct row_file_calls row = {
		.rank = field_int(rank->env.rank),
		.operation = field_text(syscalls_file_ops[call->op].word),
		.file = field_text(file),
		.start_ns = field_time(store_utc_ns(syscalls->context->store, call->start_ns)),
		.duration_ns = field_duration(call->duration_ns),
		.count = field_int(1),
		.bytes = field_int(call->bytes),
		.thread_id = field_int(event->thread_id),
		.instance = field_int(rank->instance),
	};

	store_put_file_calls(syscalls->context->store, &row);
	online_system_add(syscalls->context->findings, rank, call->start_ns + call->duration_ns,
		syscalls_file_ops[call->op].cause, file, call->duration_ns);
	syscalls->events++;
}

static void syscalls_tick(void *state, uint64_t now_ns)
{
	struct syscalls *syscalls = state;

	if (syscalls->on && now_ns >= syscalls->sums_ns + NSEC_PER_SEC)
		collect_syscalls_take_all(syscalls, now_ns);
}

static void syscalls_status(void *state, struct collector_status *ret)
{
	const struct syscalls *syscalls = state;

	ret->probes_attached = syscalls->on ? 2 : 0;
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
	collect_syscalls_off(syscalls);
	syscalls_bpf__destroy(syscalls->skeleton);
	free(syscalls->part);
	free(syscalls);
}

const struct collector collector_syscalls = {
	.name = "syscalls",
	.summary = "system calls; reads, writes, fsyncs and opens of files; sends",
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
