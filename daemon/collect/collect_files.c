/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User side of the file collector: loads bpf/files.bpf.c once, attaches it to the entry and exit of system calls while
 * L3 is on, and turns slow calls and, once a second, the counts of the others into rows of `file_calls`. What goes
 * through io_uring or mapped files is not seen, nor calls of a rank's children.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <inttypes.h>
#include <sys/syscall.h>

#include "bpf/files.h"
#include "daemon/collect/collector.h"
#include "daemon/core/context.h"
#include "daemon/core/limits.h"
#include "daemon/kernel/kernel.h"
#include "daemon/base/log.h"
#include "daemon/store/store.h"
#include "files.skel.h"

static const char *const files_ops[RT_FILE_OPS] = {
	[RT_FILE_READ] = "read",
	[RT_FILE_WRITE] = "write",
	[RT_FILE_SYNC] = "sync",
};

/* Those whose first argument is the file's number. */
static const struct {
	long number;
	enum rt_file_op op;
} files_calls[] = {
	{SYS_read, RT_FILE_READ},
	{SYS_pread64, RT_FILE_READ},
	{SYS_readv, RT_FILE_READ},
	{SYS_preadv, RT_FILE_READ},
	{SYS_write, RT_FILE_WRITE},
	{SYS_pwrite64, RT_FILE_WRITE},
	{SYS_writev, RT_FILE_WRITE},
	{SYS_pwritev, RT_FILE_WRITE},
	{SYS_fsync, RT_FILE_SYNC},
	{SYS_fdatasync, RT_FILE_SYNC},
};

struct files {
	struct context *context;
	struct files_bpf *skeleton; /* NULL if the kernel refuses it */
	bool attached;
	uint32_t slots;
	uint64_t events, not_ranks, sums_ns; /* sums_ns: when sums were read last */
	struct rt_file_sum *sum;	     /* as read last, by slot and operation */
	char reason[128];
};

static int collect_files_load(struct files *files)
{
	struct files_bpf *skeleton = files_bpf__open();
	int r;

	if (!skeleton)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(files_calls); i++)
		skeleton->rodata->operation[files_calls[i].number] = (uint8_t)(files_calls[i].op + 1);
	skeleton->rodata->threshold_ns = files->context->config.offcpu_threshold_ns;
	r = bpf_map__set_max_entries(skeleton->maps.file_calls, LIMIT_OFFCPU_THREADS);
	if (r == 0)
		r = bpf_map__set_max_entries(skeleton->maps.file_sums, files->slots * RT_FILE_OPS);
	if (r == 0)
		r = kernel_load(files->context->kernel, skeleton->skeleton);
	if (r < 0) {
		files_bpf__destroy(skeleton);
		return r;
	}
	files->skeleton = skeleton;
	return 0;
}

static int files_open(struct context *context, void **ret_state)
{
	struct files *files = calloc(1, sizeof(*files));
	int r;

	if (!files)
		return -ENOMEM;
	files->context = context;
	files->slots = (uint32_t)context->config.ranks_max;
	files->sum = calloc((size_t)files->slots * RT_FILE_OPS, sizeof(*files->sum));
	if (!files->sum) {
		free(files);
		return -ENOMEM;
	}
	r = collect_files_load(files);
	if (r < 0) {
		snprintf(files->reason, sizeof(files->reason), "the kernel refuses the file program (%s)", strerror(-r));
		log_notice("files", "%s; no calls on files are recorded", files->reason);
	}
	*ret_state = files;
	return 0;
}

static bool collect_files_read(const struct files *files, uint32_t key, struct rt_file_sum *ret)
{
	return bpf_map_lookup_elem(bpf_map__fd(files->skeleton->maps.file_sums), &key, ret) == 0;
}

/* What was counted since the last time; rank NULL: only the baseline is updated. */
static void collect_files_take(struct files *files, uint32_t slot, const struct rank *rank, uint64_t now_ns)
{
	struct store *store = files->context->store;

	for (uint32_t op = 0; slot < files->slots && op < RT_FILE_OPS; op++) {
		struct rt_file_sum *last = &files->sum[slot * RT_FILE_OPS + op], sum;

		if (!collect_files_read(files, slot * RT_FILE_OPS + op, &sum) || sum.count == last->count)
			continue;
		if (rank) {
			const struct row_file_calls row = {
				.rank = field_int(rank->env.rank),
				.operation = field_text(files_ops[op]),
				.file = field_text_if(""),
				.start_ns = field_time(store_utc_ns(store, files->sums_ns ? files->sums_ns : now_ns)),
				.duration_ns = field_duration(sum.duration_ns - last->duration_ns),
				.count = field_int(sum.count - last->count),
				.bytes = field_int(sum.bytes - last->bytes),
				.thread_id = field_int_if(false, 0),
				.instance = field_int(rank->instance),
			};

			store_put_file_calls(store, &row);
			files->events++;
		}
		*last = sum;
	}
}

struct files_taking {
	struct files *files;
	uint64_t now_ns;
};

static void collect_files_take_rank(void *arg, const struct rank *rank)
{
	const struct files_taking *taking = arg;

	if (rank->role == RANK_ROLE_RANK && !rank->ended)
		collect_files_take(taking->files, rank->slot, rank, taking->now_ns);
}

static void collect_files_take_all(struct files *files, uint64_t now_ns)
{
	ranks_each(files->context->ranks, collect_files_take_rank, &(struct files_taking){files, now_ns});
	files->sums_ns = now_ns;
}

static int files_level(void *state, enum level level, bool on, char *report, size_t report_size)
{
	struct files *files = state;
	int r;

	if (level != LEVEL_L3)
		return 0;
	if (!files->skeleton) {
		snprintf(report, report_size, "no calls on files: %s", files->reason);
		return 0; /* the rest of L3 is there */
	}
	if (on && !files->attached) {
		r = files_bpf__attach(files->skeleton);
		if (r < 0) {
			files_bpf__detach(files->skeleton);
			snprintf(files->reason, sizeof(files->reason), "cannot attach (%s)", strerror(-r));
			snprintf(report, report_size, "no calls on files: %s", files->reason);
			return 0;
		}
		files->sums_ns = monotonic_ns();
	} else if (!on && files->attached) {
		files_bpf__detach(files->skeleton);
		collect_files_take_all(files, monotonic_ns());
	}
	files->attached = on;
	snprintf(report, report_size, on ? "calls on files at 2 tracepoints" : "calls on files detached");
	return 0;
}

/* A slot's counts go on from those of the rank before. */
static void files_rank(void *state, const struct rank *rank, enum rank_change change)
{
	struct files *files = state;

	if (files->attached && rank->role == RANK_ROLE_RANK && change != RANK_CHANGED)
		collect_files_take(files, rank->slot, change == RANK_ENDED ? rank : NULL, monotonic_ns());
}

static void files_event(void *state, const struct rt_event *event, size_t size_bytes)
{
	const struct rt_file_event *call = (const struct rt_file_event *)event;
	char folder[RT_FILE_NAME_SIZE], name[RT_FILE_NAME_SIZE], file[2 * RT_FILE_NAME_SIZE];
	struct files *files = state;
	const struct rank *rank = ranks_by_pid(files->context->ranks, event->pid);

	if (!rank || size_bytes < sizeof(*call) || call->op >= RT_FILE_OPS) {
		files->not_ranks += !rank;
		return;
	}
	(void)copy_text(folder, sizeof(folder), call->folder);
	(void)copy_text(name, sizeof(name), call->name);
	snprintf(file, sizeof(file), "%s%s%s", folder, folder[0] && !streq(folder, "/") ? "/" : "", name);
	const struct row_file_calls row = {
		.rank = field_int(rank->env.rank),
		.operation = field_text(files_ops[call->op]),
		.file = field_text(file),
		.start_ns = field_time(store_utc_ns(files->context->store, call->start_ns)),
		.duration_ns = field_duration(call->duration_ns),
		.count = field_int(1),
		.bytes = field_int(call->bytes),
		.thread_id = field_int(event->thread_id),
		.instance = field_int(rank->instance),
	};

	store_put_file_calls(files->context->store, &row);
	files->events++;
}

static void files_tick(void *state, uint64_t now_ns)
{
	struct files *files = state;

	if (files->attached && now_ns >= files->sums_ns + NSEC_PER_SEC)
		collect_files_take_all(files, now_ns);
}

static void files_status(void *state, struct collector_status *ret)
{
	const struct files *files = state;

	ret->probes_attached = files->attached ? 2 : 0;
	ret->events = files->events;
	ret->drops = kernel_drops(files->context->kernel, RT_KIND_FILE) + files->not_ranks;
	if (files->reason[0])
		collector_note(ret, "no calls on files: %s", files->reason);
}

static void files_close(void *state)
{
	struct files *files = state;

	if (!files)
		return;
	files_bpf__destroy(files->skeleton);
	free(files->sum);
	free(files);
}

const struct collector collector_files = {
	.name = "files",
	.summary = "reads, writes and fsyncs of files",
	.levels = LEVEL_BIT(LEVEL_L3),
	.kinds = 1u << RT_KIND_FILE,
	.open = files_open,
	.level = files_level,
	.rank = files_rank,
	.event = files_event,
	.tick = files_tick,
	.status = files_status,
	.close = files_close,
};
