/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User side of the memory collector: what the framework's allocator reports of memory of devices, while L2 is on. The
 * call engine attaches the probes (bpf/probes.d/torch_memory.conf); their hits go to bpf/memory.bpf.c, which is loaded
 * here.
 *
 * A rank is followed once the worker `stack` has found where its Python keeps its frames. It has two maps of its own,
 * of sites and of sampled blocks; they outlive the process, so that what it held at its end is a row, too. Their size
 * is the rank's share of LIMIT_MEMORY_BLOCKS at that time, and they count as state of the rank
 * (daemon/ranks/rank_budget.h): where that exceeds the budget, the rank is not followed for a while.
 *
 * Where the level costs more than its budget, the guard has reports seen in windows (daemon/guard/guard.h), of all
 * ranks at the same time: of four steps. The calls of drivers are recorded between them, too.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <inttypes.h>

#include "analyzers/memory/held.h"
#include "bpf/call.h"
#include "daemon/base/log.h"
#include "daemon/collect/collector.h"
#include "daemon/core/context.h"
#include "daemon/core/limits.h"
#include "daemon/findings/online.h"
#include "daemon/kernel/kernel.h"
#include "daemon/kernel/uprobe.h"
#include "daemon/memory/allocs.h"
#include "daemon/memory/call_errors.h"
#include "daemon/memory/memory_pending.h"
#include "daemon/ranks/rank_budget.h"
#include "daemon/steps/rank_steps.h"
#include "daemon/store/store.h"
#include "memory.skel.h"

#define CURVE_NS (500 * NSEC_PER_MSEC)
/* Snapshots of the sites: soon after the begin, then seldom, because a rank may have thousands. */
#define LIVE_FIRST_NS (2 * NSEC_PER_SEC)
#define LIVE_MAX_NS (32 * NSEC_PER_SEC)
/* A trend needs points of 32 s. It costs a millisecond, so that it is judged again after a quarter of its time, within
 * these bounds. */
#define JUDGE_NS (8 * NSEC_PER_SEC)
#define JUDGE_MAX_NS (32 * NSEC_PER_SEC)
#define JUDGE_PART 4
#define CODES_MAX 4096			  /* sent in the kernel and remembered, of all ranks: some 200 of each */
#define WINDOW_WAIT_NS (5 * NSEC_PER_SEC) /* for the first report: attaching waits for the maps of processes */

struct memory_rank {
	uint32_t pid; /* 0: free */
	uint32_t slot;
	bool followed;	      /* the kernel has it */
	uint64_t followed_ns; /* since then */
	bool shed;	      /* its state was too much: followed again when that is over. pid is 0 until then */
	struct memory_pending *pending;
	int sites_fd, blocks_fd; /* -1: none */
	size_t map_bytes;	 /* of both */
	struct memory_put put[RT_MEMORY_DEVICES_MAX];
	struct memory_pace pace;
	uint64_t open_ns, close_ns, young_ns; /* of the last window that has ended; 0: none */
	unsigned leaks;			      /* of its devices */
	uint64_t curve_ns, live_ns, live_interval_ns,
		judge_ns; /* when it is read next; live_ns 0: as a request failed */
	uint64_t put_ns;  /* of the last snapshot */
	struct memory_calls_judge calls;
	struct online_open calls_finding;
	uint64_t calls_stack; /* of the longest call */
};

/* Counted in the kernel, of a rank or of several. */
struct memory_totals {
	uint64_t sampled, refused, lost; /* blocks; refused: without a stack */
	uint64_t took_ns;		 /* of the rank's time, for stacks */
	uint64_t left_out;		 /* reports of further devices */
	uint64_t calls, calls_refused;	 /* of the driver; refused: without a stack */
};

/* What a snapshot reads. */
struct memory_snapshot {
	struct memory_line line[RT_MEMORY_SITES_MAX];
	struct rt_memory_block block[RT_MEMORY_BLOCKS_MAX];
	size_t blocks;
	struct memory_held held[RT_MEMORY_BLOCKS_MAX];
	double unseen[RT_MEMORY_DEVICES_MAX];
	struct memory_segment segment[LIMIT_MEMORY_SEGMENTS];
	uint64_t key[RT_MEMORY_BLOCKS_MAX];
};

struct memory {
	struct context *context;
	struct memory_bpf *skeleton; /* NULL: off */
	size_t ranks;
	struct memory_rank *rank;	  /* by slot, only while on */
	struct memory_snapshot *snapshot; /* of the rank being read */
	struct list_link ended_ranks;	  /* struct memory_pending, oldest first */
	size_t ended_count;
	struct memory_pending_counts put;
	uint64_t segment_rows, failures_lost, broken;
	struct memory_totals ended; /* of ranks that are followed no more */
	int error;		    /* why the last rank could not be followed */
	uint64_t windows;
	bool is_open;
	double part;	    /* of the time in windows, 1: all */
	uint64_t window_ns; /* length of the next ones */
};

static struct rt_memory_rank *memory_read(const struct memory *memory, uint32_t slot, struct rt_memory_rank *ret)
{
	return bpf_map_lookup_elem(bpf_map__fd(memory->skeleton->maps.memory_ranks), &slot, ret) == 0 ? ret : NULL;
}

static void memory_totals_add(struct memory_totals *totals, const struct rt_memory_rank *counts)
{
	totals->sampled += counts->sampled;
	totals->refused += counts->refused;
	totals->lost += counts->lost;
	totals->took_ns += counts->took_ns;
	totals->left_out += counts->devices_left_out;
	totals->calls += counts->calls;
	totals->calls_refused += counts->calls_refused;
}

/* end: of the process, or of a window. */
static void memory_put_curves(
	struct memory *memory, struct memory_rank *rank, const struct rt_memory_rank *counts, uint64_t now_ns, bool end)
{
	struct memory_owner owner = memory_pending_owner(rank->pending);
	uint64_t until = end ? UINT64_MAX : now_ns / RT_MEMORY_SECOND_NS;
	uint64_t seen_ns = counts->is_part && counts->open_ns ? now_ns - counts->open_ns : 0;

	for (size_t i = 0; i < RT_MEMORY_DEVICES_MAX; i++)
		if (counts->device[i].used)
			memory_rows_curve(&owner, &counts->device[i], until, seen_ns, &rank->put[i]);
}

static void memory_put_last(struct memory *memory, struct memory_rank *rank, uint64_t now_ns)
{
	struct rt_memory_rank counts;

	if (!memory_read(memory, rank->slot, &counts))
		return;
	if (memory->is_open)
		memory_put_curves(memory, rank, &counts, now_ns, true);
	memory_totals_add(&memory->ended, &counts);
}

static void memory_read_blocks(const struct memory_rank *rank, struct memory_snapshot *snapshot)
{
	uint32_t count = RT_MEMORY_BLOCKS_MAX, bucket;
	LIBBPF_OPTS(bpf_map_batch_opts, options);
	int r = bpf_map_lookup_batch(rank->blocks_fd, NULL, &bucket, snapshot->key, snapshot->block, &count, &options);

	snapshot->blocks = r == 0 || errno == ENOENT ? count : 0; /* ENOENT: all were read */
}

/* The line that holds most of what grew; "": unknown. */
static const char *memory_grown_place(const struct memory *memory, const struct memory_rank *rank, uint32_t device,
	const struct memory_trend *trend, uint64_t now_ns)
{
	struct memory_snapshot *snapshot = memory->snapshot;
	struct rt_memory_site site;
	uint64_t key;

	memory_read_blocks(rank, snapshot);
	key = memory_held_grown(snapshot->block, snapshot->blocks, device, (uint32_t)(now_ns / NSEC_PER_MSEC),
		(uint32_t)(trend->window_s * 1000));
	return bpf_map_lookup_elem(rank->sites_fd, &key, &site) == 0
		       ? profile_rank_place(&rank->pending->names, site.stack)
		       : "";
}

static void memory_judge(struct memory *memory, struct memory_rank *rank, bool over, uint64_t now_ns)
{
	struct memory_owner owner = memory_pending_owner(rank->pending);
	struct rt_memory_rank counts;

	rank->leaks = 0;
	if (!memory_read(memory, rank->slot, &counts))
		return;
	for (uint32_t i = 0; i < RT_MEMORY_DEVICES_MAX; i++) {
		struct memory_trend trend = {0};
		bool leaks = counts.device[i].used && !over && memory_history_leaks(&rank->put[i].lows, now_ns, &trend);

		rank->leaks += leaks;
		if (counts.device[i].used)
			memory_rows_leak(&owner, &counts.device[i], leaks ? &trend : NULL,
				leaks ? memory_grown_place(memory, rank, i, &trend, now_ns) : "", &rank->put[i]);
	}
}

static struct rank_steps_progress memory_steps(const struct memory *memory, const struct memory_rank *rank)
{
	struct rank_steps_progress progress = {0};

	if (memory->context->steps)
		(void)rank_steps_progress(memory->context->steps, rank->slot, rank->pending->is.instance, &progress);
	return progress;
}

static uint64_t memory_pace(const struct memory *memory, struct memory_rank *rank, uint64_t now_ns)
{
	struct rank_steps_progress progress = memory_steps(memory, rank);

	return memory_pace_step_ns(&rank->pace, progress.steps, progress.step_end_ns, now_ns);
}

/* The part of the time is that from which a slower job is a finding. */
static void memory_judge_calls(struct memory *memory, struct memory_rank *rank, bool over, uint64_t now_ns)
{
	const struct memory_owner owner = memory_pending_owner(rank->pending);
	struct online_calls_info info = {.rank = owner.live, .since_ns = rank->calls.since_ns};
	struct memory_calls calls;
	uint64_t stack;
	bool costs;

	if (!memory->context->allocs)
		return;
	allocs_calls(memory->context->allocs, rank->slot, &calls, &stack);
	costs = memory_calls_judge(&rank->calls, now_ns, memory_steps(memory, rank).steps, &calls,
			(double)memory->context->config.findings_job_percent) &&
		!over;
	if (stack && (costs || !rank->calls_finding.number))
		rank->calls_stack = stack;
	info.percent = rank->calls.percent;
	info.place = profile_rank_place(&rank->pending->names, rank->calls_stack);
	if (owner.live)
		online_calls(memory->context->findings, &info, !costs, &rank->calls_finding);
}

/* Entries come and go meanwhile: what is read is bounded, and every site that is there all the time is read. */
static void memory_put_sites(struct memory *memory, struct memory_rank *rank, const struct rt_memory_rank *counts,
	size_t held, uint64_t now_ns)
{
	const struct memory_owner owner = memory_pending_owner(rank->pending);
	struct memory_snapshot *snapshot = memory->snapshot;
	uint64_t key, next, *from = NULL;
	size_t lines = 0, segments;

	while (lines < RT_MEMORY_SITES_MAX && bpf_map_get_next_key(rank->sites_fd, from, &next) == 0) {
		struct memory_line *line = &snapshot->line[lines];
		const struct memory_held *found = memory_held_find(snapshot->held, held, next);

		line->held = found ? *found : (struct memory_held){.site = next};
		lines += bpf_map_lookup_elem(rank->sites_fd, &next, &line->site) == 0 &&
			 line->site.device != RT_MEMORY_CALLS;
		key = next;
		from = &key;
	}
	memory_pending_live(rank->pending, counts, snapshot->line, lines, snapshot->unseen, now_ns);
	if (!memory->context->allocs)
		return;
	segments = allocs_segments(memory->context->allocs, rank->slot, rank->pending->is.instance, snapshot->segment,
		LIMIT_MEMORY_SEGMENTS);
	segments = memory_segments_fill(snapshot->segment, segments, snapshot->block, snapshot->blocks);
	memory->segment_rows += memory_rows_segments(&owner, counts, snapshot->segment, segments, now_ns);
}

static void memory_put_live(struct memory *memory, struct memory_rank *rank, uint64_t now_ns)
{
	struct memory_snapshot *snapshot = memory->snapshot;
	struct rt_memory_rank counts;

	if (!memory_read(memory, rank->slot, &counts))
		return;
	/* After a window its blocks are carried ones, too. */
	counts.window += !memory->is_open;
	memory_read_blocks(rank, snapshot);
	memory_put_sites(memory, rank, &counts,
		memory_held(&counts, snapshot->block, snapshot->blocks, snapshot->held, snapshot->unseen), now_ns);
}

static void memory_live_is_put(struct memory_rank *rank, uint64_t now_ns)
{
	if (rank->live_interval_ns < LIVE_MAX_NS)
		rank->live_interval_ns *= 2;
	rank->live_ns = now_ns + rank->live_interval_ns;
	rank->put_ns = now_ns;
}

/* Windows. The kernel's copy of a rank and of its blocks is the daemon's between two of them: no report counts then. */

/* What blocks of the last window stand for. */
static double memory_share(const struct memory_rank *rank, const struct rt_memory_rank *counts)
{
	uint64_t carried_ns = rank->close_ns - rank->open_ns - rank->young_ns;

	return rank->close_ns && counts->open_ns ? (double)(counts->open_ns - rank->open_ns) / (double)(carried_ns + 1)
						 : 1;
}

static void memory_carry(
	const struct memory_rank *rank, const struct rt_memory_rank *counts, const struct memory_snapshot *snapshot)
{
	for (size_t i = 0; i < snapshot->blocks; i++) {
		const struct rt_memory_block *block = &snapshot->block[i];

		if (!block->weight_bytes)
			(void)bpf_map_delete_elem(rank->blocks_fd, &block->address);
		else if (block->window + 1 >= counts->window)
			(void)bpf_map_update_elem(rank->blocks_fd, &block->address, block, BPF_EXIST);
	}
}

/* young_ns: blocks younger than this are forgotten; 0: the next window begins at once. */
static void memory_close_rank(struct memory *memory, struct memory_rank *rank, uint64_t young_ns, uint64_t now_ns)
{
	struct memory_snapshot *snapshot = memory->snapshot;
	struct rt_memory_rank counts;
	size_t held;

	if (!memory_read(memory, rank->slot, &counts))
		return;
	if (young_ns > (now_ns - counts.open_ns) / MEMORY_YOUNG_PART)
		young_ns = (now_ns - counts.open_ns) / MEMORY_YOUNG_PART;
	memory_read_blocks(rank, snapshot);
	memory_held_gap(&counts, memory_share(rank, &counts), snapshot->block, snapshot->blocks);
	held = memory_held(&counts, snapshot->block, snapshot->blocks, snapshot->held, snapshot->unseen);
	if (now_ns >= rank->live_ns) {
		memory_put_sites(memory, rank, &counts, held, now_ns);
		memory_live_is_put(rank, now_ns);
	}
	memory_held_carry(&counts, (uint32_t)(now_ns / NSEC_PER_MSEC), (uint32_t)(young_ns / NSEC_PER_MSEC),
		snapshot->block, snapshot->blocks);
	memory_carry(rank, &counts, snapshot);
	memory_put_curves(memory, rank, &counts, now_ns, true);
	if (!counts.open_ns)
		return;
	rank->open_ns = counts.open_ns;
	rank->close_ns = now_ns;
	rank->young_ns = young_ns;
}

static void memory_open_rank(struct memory *memory, struct memory_rank *rank)
{
	struct rt_memory_rank counts;

	if (!memory_read(memory, rank->slot, &counts))
		return;
	/* A rank without a report in the last window: its number is that of its blocks, which it keeps. */
	counts.window += counts.open_ns != 0;
	counts.is_part = memory->part < 1;
	counts.open_ns = 0;
	counts.share = (uint64_t)((1u << RT_MEMORY_COUNT_SHIFT) / memory->part);
	for (size_t i = 0; i < RT_MEMORY_DEVICES_MAX; i++)
		memset(counts.device[i].class, 0, sizeof(counts.device[i].class));
	(void)bpf_map_update_elem(bpf_map__fd(memory->skeleton->maps.memory_ranks), &rank->slot, &counts, BPF_EXIST);
}

static void memory_count_steps(struct memory *memory, uint64_t now_ns)
{
	uint64_t step_ns = 0;

	for (size_t i = 0; i < memory->ranks; i++) {
		uint64_t each_ns = memory->rank[i].followed ? memory_pace(memory, &memory->rank[i], now_ns) : 0;

		step_ns = each_ns > step_ns ? each_ns : step_ns;
	}
	memory->window_ns = memory_window_ns(step_ns);
}

static void memory_set_open(struct memory *memory, bool open)
{
	memory->is_open = open;
	memory->skeleton->bss->memory_open = open;
	kernel_pause_memory(memory->context->kernel, !open);
}

static void memory_close_window(struct memory *memory, uint64_t young_ns, uint64_t now_ns)
{
	memory_set_open(memory, false);
	for (size_t i = 0; i < memory->ranks; i++)
		if (memory->rank[i].followed)
			memory_close_rank(memory, &memory->rank[i], young_ns, now_ns);
}

static void memory_open_window(struct memory *memory)
{
	for (size_t i = 0; i < memory->ranks; i++)
		if (memory->rank[i].followed)
			memory_open_rank(memory, &memory->rank[i]);
	memory->windows++;
	memory_set_open(memory, true);
}

static int memory_window(void *state, enum level level, bool open, double duty)
{
	struct memory *memory = state;
	uint64_t now_ns = monotonic_ns();

	if (!memory->skeleton)
		return 0;
	if (memory->is_open) {
		memory_count_steps(memory, now_ns);
		/* Between a window and a time that is seen as a whole, nothing is missed. */
		memory_close_window(memory, open ? 0 : memory->window_ns / MEMORY_YOUNG_PART, now_ns);
	}
	memory->part = duty;
	if (open)
		memory_open_window(memory);
	return 0;
}

/* It begins with the first report after the probe is attached; without one soon, there is none to see. */
static uint64_t memory_window_end_ns(const void *state, enum level level, uint64_t open_ns)
{
	const struct memory *memory = state;
	uint64_t first_ns = UINT64_MAX;
	struct rt_memory_rank counts;

	if (!memory->skeleton)
		return 0;
	for (size_t i = 0; i < memory->ranks; i++)
		if (memory->rank[i].followed && memory_read(memory, (uint32_t)i, &counts) && counts.open_ns &&
			counts.open_ns < first_ns)
			first_ns = counts.open_ns;
	return memory->window_ns + (first_ns < UINT64_MAX ? first_ns : open_ns + WINDOW_WAIT_NS);
}

/* One rank. */

/* Places for blocks, as many as buckets, which are a power of two: the user's part, divided by the ranks that he has
 * now. */
static uint32_t memory_blocks_share(const struct memory *memory, const struct memory_rank *rank)
{
	const struct ranks *ranks = memory->context->ranks;
	uint32_t users = ranks_users(ranks), of_user = ranks_of_user(ranks, rank->pending->is.uid);
	uint64_t share = LIMIT_MEMORY_BLOCKS / (users ? users : 1) / (of_user ? of_user : 1);

	if (share >= RT_MEMORY_BLOCKS_MAX)
		return RT_MEMORY_BLOCKS_MAX;
	return share <= LIMIT_MEMORY_BLOCKS_LEAST ? LIMIT_MEMORY_BLOCKS_LEAST : 1u << (63 - __builtin_clzll(share));
}

static int memory_make_map(
	struct memory_rank *rank, uint32_t value_bytes, uint32_t entries, const struct bpf_map *outer, int *ret)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_HASH, "memory_rank", sizeof(uint64_t), value_bytes, entries, NULL);

	if (fd < 0)
		return fd;
	*ret = fd;
	rank->map_bytes += (size_t)entries * (value_bytes + RT_MEMORY_ENTRY_BYTES);
	return bpf_map_update_elem(bpf_map__fd(outer), &rank->slot, &fd, BPF_ANY) < 0 ? -errno : 0;
}

static int memory_follow(struct memory *memory, struct memory_rank *rank)
{
	const struct memory_bpf *skeleton = memory->skeleton;
	uint32_t blocks = memory_blocks_share(memory, rank);
	struct rt_memory_rank *fresh = calloc(1, sizeof(*fresh));
	int r = fresh ? 0 : -ENOMEM;

	if (r == 0)
		r = memory_make_map(rank, sizeof(struct rt_memory_site),
			blocks / (RT_MEMORY_BLOCKS_MAX / RT_MEMORY_SITES_MAX), skeleton->maps.memory_sites,
			&rank->sites_fd);
	if (r == 0)
		r = memory_make_map(
			rank, sizeof(struct rt_memory_block), blocks, skeleton->maps.memory_blocks, &rank->blocks_fd);
	if (r == 0) {
		fresh->pid = rank->pid;
		fresh->shift_min = (uint32_t)__builtin_ctzll(memory->context->config.memory_sample_bytes);
		fresh->shift = fresh->shift_min;
		fresh->python = rank->pending->names.layout.python;
		fresh->window = 1;
		fresh->is_part = memory->part < 1;
		fresh->share = (uint64_t)((1u << RT_MEMORY_COUNT_SHIFT) / memory->part);
		if (bpf_map_update_elem(bpf_map__fd(skeleton->maps.memory_ranks), &rank->slot, fresh, BPF_ANY) < 0)
			r = -errno;
	}
	free(fresh);
	return r;
}

/* Calls wait for the names of their stacks. True: one that failed does. */
static bool memory_name_calls(struct memory *memory, struct memory_rank *rank, uint64_t now_ns, bool end)
{
	return memory->context->allocs &&
	       allocs_name(memory->context->allocs, rank->slot, &rank->pending->names, now_ns, end);
}

static void memory_free_ended(struct memory *memory, struct memory_pending *pending)
{
	memory_pending_free(pending);
	memory->ended_count--;
}

/* Its rows wait on. */
static void memory_outlive(struct memory *memory, struct memory_pending *pending)
{
	if (memory->ended_count == memory->ranks)
		memory_free_ended(memory, CONTAINER_OF(memory->ended_ranks.next, struct memory_pending, link));
	memory_pending_end(pending);
	list_add_tail(&memory->ended_ranks, &pending->link);
	memory->ended_count++;
}

/* ended: its process has. */
static void memory_forget(struct memory *memory, struct memory_rank *rank, bool ended, uint64_t now_ns)
{
	static const struct rt_memory_rank none;
	const struct rank *live = ranks_by_slot(memory->context->ranks, rank->slot);

	if (!rank->pid)
		return;
	if (rank->followed) {
		memory_put_live(memory, rank, now_ns);
		if (ended && memory->context->allocs)
			allocs_hand_over(memory->context->allocs, rank->slot, &rank->pending->calls);
		(void)memory_name_calls(memory, rank, now_ns, true);
		memory_put_last(memory, rank, now_ns);
		memory_judge(memory, rank, true, now_ns);
		memory_judge_calls(memory, rank, true, now_ns);
	}
	(void)bpf_map_update_elem(bpf_map__fd(memory->skeleton->maps.memory_ranks), &rank->slot, &none, BPF_ANY);
	(void)bpf_map_delete_elem(bpf_map__fd(memory->skeleton->maps.memory_sites), &rank->slot);
	(void)bpf_map_delete_elem(bpf_map__fd(memory->skeleton->maps.memory_blocks), &rank->slot);
	closep(&rank->sites_fd);
	closep(&rank->blocks_fd);
	if (live && live->instance == rank->pending->is.instance)
		rank_budget_set(memory->context->budget, RANK_BUDGET_MEMORY, live, 0);
	if (ended && rank->followed)
		memory_outlive(memory, rank->pending);
	else
		memory_pending_free(rank->pending);
	*rank = (struct memory_rank){.sites_fd = -1, .blocks_fd = -1};
}

static void memory_begin(void *arg, const struct rank *from)
{
	struct memory *memory = arg;
	struct memory_rank *rank = from->slot < memory->ranks ? &memory->rank[from->slot] : NULL;
	int r;

	if (!rank || from->role != RANK_ROLE_RANK || from->ended || !memory->skeleton || rank->pid ||
		rank_budget_is_frozen(memory->context->budget, from))
		return;
	*rank = (struct memory_rank){.pid = from->pid, .slot = from->slot, .sites_fd = -1, .blocks_fd = -1};
	rank->pending = memory_pending_new(memory->context, from, &memory->put, &r);
	if (!rank->pending) {
		memory->error = r;
		*rank = (struct memory_rank){.sites_fd = -1, .blocks_fd = -1};
	}
}

static uint64_t memory_judge_interval(uint64_t age_ns)
{
	uint64_t interval_ns = age_ns / JUDGE_PART;

	if (interval_ns > JUDGE_MAX_NS)
		return JUDGE_MAX_NS;
	return interval_ns < JUDGE_NS ? JUDGE_NS : interval_ns;
}

static void memory_tick_rank(struct memory *memory, struct memory_rank *rank, uint64_t now_ns)
{
	const struct rank *live = ranks_by_slot(memory->context->ranks, rank->slot);
	struct rt_memory_rank counts;
	bool at_once;
	int r;

	if (!rank->followed && rank->pending->names.laid_out) {
		r = memory_follow(memory, rank);
		if (r < 0) {
			memory->error = r;
			memory_forget(memory, rank, false, now_ns);
			return;
		}
		if (live && live->instance == rank->pending->is.instance && memory->context->allocs)
			allocs_follow(memory->context->allocs, live);
		rank->followed = true;
		rank->followed_ns = now_ns;
		rank->live_interval_ns = LIVE_FIRST_NS;
		rank->live_ns = now_ns + LIVE_FIRST_NS;
		rank->judge_ns = now_ns + JUDGE_NS;
	}
	if (!rank->followed)
		return;
	if (!rank->pace.end_ns) /* its time begins at the end of its first step */
		(void)memory_pace(memory, rank, now_ns);
	at_once = memory_name_calls(memory, rank, now_ns, false) || memory_pending_put(rank->pending, now_ns);
	profile_rank_name(&rank->pending->names, now_ns, at_once);
	if (memory->part >= 1 && now_ns >= rank->curve_ns && memory_read(memory, rank->slot, &counts)) {
		rank->curve_ns = now_ns + CURVE_NS;
		memory_put_curves(memory, rank, &counts, now_ns, false);
	}
	if (now_ns >= rank->judge_ns) {
		memory_judge(memory, rank, false, now_ns);
		memory_judge_calls(memory, rank, false, now_ns);
		rank->judge_ns = now_ns + memory_judge_interval(now_ns - rank->followed_ns);
	}
	if (memory->part >= 1 && now_ns >= rank->live_ns) { /* else a snapshot is of a window's end */
		memory_put_live(memory, rank, now_ns);
		memory_live_is_put(rank, now_ns);
	}
}

/* The level. */

static int memory_load(struct memory *memory)
{
	struct kernel *kernel = memory->context->kernel;
	struct memory_bpf *skeleton = memory_bpf__open();
	uint32_t ranks = (uint32_t)memory->ranks;
	int r;

	if (!skeleton)
		return -errno;
	if (kernel_features(kernel)->uprobe_multi) {
		bpf_program__set_expected_attach_type(skeleton->progs.memory_usage, UPROBE_MULTI_ATTACH_TYPE);
		bpf_program__set_expected_attach_type(skeleton->progs.memory_failed, UPROBE_MULTI_ATTACH_TYPE);
		bpf_program__set_expected_attach_type(skeleton->progs.memory_call, UPROBE_MULTI_ATTACH_TYPE);
	}
	r = bpf_map__set_max_entries(skeleton->maps.profile_codes, CODES_MAX);
	if (r == 0)
		r = bpf_map__set_max_entries(skeleton->maps.memory_ranks, ranks);
	if (r == 0)
		r = bpf_map__set_max_entries(skeleton->maps.memory_sites, ranks);
	if (r == 0)
		r = bpf_map__set_max_entries(skeleton->maps.memory_blocks, ranks);
	if (r == 0)
		r = kernel_load(kernel, skeleton->skeleton);
	if (r < 0) {
		memory_bpf__destroy(skeleton);
		return r;
	}
	kernel_serve_edge(kernel, RT_EDGE_MEMORY, bpf_program__fd(skeleton->progs.memory_usage));
	kernel_serve_edge(kernel, RT_EDGE_MEMORY_FAILED, bpf_program__fd(skeleton->progs.memory_failed));
	r = kernel_serve_call_stacks(kernel, bpf_program__fd(skeleton->progs.memory_call));
	if (r < 0)
		log_warning("memory", "calls are recorded without their stacks: %s", strerror(-r));
	memory->skeleton = skeleton;
	memory->part = 1;
	memory->windows = 0;
	memory->window_ns = MEMORY_WINDOW_NO_STEP_NS;
	memory_set_open(memory, true);
	return 0;
}

static void memory_turn_off(struct memory *memory)
{
	if (!memory->skeleton)
		return;
	kernel_serve_edge(memory->context->kernel, RT_EDGE_MEMORY, -1);
	kernel_serve_edge(memory->context->kernel, RT_EDGE_MEMORY_FAILED, -1);
	kernel_pause_memory(memory->context->kernel, false);
	(void)kernel_serve_call_stacks(memory->context->kernel, -1);
	for (size_t i = 0; i < memory->ranks; i++)
		memory_forget(memory, &memory->rank[i], false, monotonic_ns());
	LIST_EACH (link, &memory->ended_ranks)
		memory_free_ended(memory, CONTAINER_OF(link, struct memory_pending, link));
	memory_bpf__destroy(memory->skeleton);
	memory->skeleton = NULL;
	free(memory->rank);
	free(memory->snapshot);
	memory->rank = NULL;
	memory->snapshot = NULL;
}

static int memory_level(void *state, enum level level, bool on, char *report, size_t report_size)
{
	struct memory *memory = state;
	int r = 0;

	if (!on || memory->skeleton) {
		if (!on)
			memory_turn_off(memory);
		return 0;
	}
	if (!memory->context->workers)
		return 0;
	memory->rank = calloc(memory->ranks, sizeof(*memory->rank));
	memory->snapshot = malloc(sizeof(*memory->snapshot));
	if (!memory->rank || !memory->snapshot)
		r = -ENOMEM;
	if (r == 0)
		r = memory_load(memory);
	if (r < 0) {
		free(memory->rank);
		free(memory->snapshot);
		memory->rank = NULL;
		memory->snapshot = NULL;
		/* The calls of the driver are still recorded. */
		memory->error = r;
		snprintf(report, report_size, "without the framework's allocator (%s)", strerror(-r));
		return 0;
	}
	ranks_each(memory->context->ranks, memory_begin, memory);
	return 0;
}

/* The collector. */

static void memory_shed(void *arg, uint32_t slot)
{
	struct memory *memory = arg;

	if (!memory->skeleton || slot >= memory->ranks || !memory->rank[slot].pid)
		return;
	memory_forget(memory, &memory->rank[slot], false, monotonic_ns());
	memory->rank[slot].shed = true;
}

static int memory_open(struct context *context, void **ret_state)
{
	struct memory *memory = calloc(1, sizeof(*memory));

	if (!memory)
		return -ENOMEM;
	memory->context = context;
	memory->ranks = context->config.ranks_max;
	list_reset(&memory->ended_ranks);
	rank_budget_part(context->budget, RANK_BUDGET_MEMORY, memory_shed, memory);
	*ret_state = memory;
	return 0;
}

static void memory_rank(void *state, const struct rank *rank, enum rank_change change)
{
	struct memory *memory = state;

	for (size_t i = 0; memory->skeleton && i < memory->ranks; i++) {
		struct memory_rank *known = &memory->rank[i];

		if (!known->pid || known->pending->is.instance != rank->instance)
			continue;
		known->pending->is = *rank;
		if (change == RANK_ENDED || rank->role != RANK_ROLE_RANK)
			memory_forget(memory, known, change == RANK_ENDED, monotonic_ns());
	}
	if (change != RANK_ENDED)
		memory_begin(memory, rank);
}

static struct memory_rank *memory_find(struct memory *memory, uint32_t pid)
{
	for (size_t i = 0; memory->skeleton && i < memory->ranks; i++)
		if (memory->rank[i].pid == pid)
			return &memory->rank[i];
	return NULL;
}

static struct memory_then memory_then(
	const struct memory *memory, const struct memory_rank *rank, const struct rt_memory_failed_event *event)
{
	struct memory_owner owner = memory_pending_owner(rank->pending);
	struct memory_then then = {.leaked_bytes = 0};
	struct rt_memory_rank counts;

	if (event->call_ns || rank->pending->failed_count == MEMORY_PENDING_FAILED_MAX ||
		!memory_read(memory, rank->slot, &counts))
		return then;
	then.card = memory_rows_card(&owner, &counts);
	/* A trend costs a millisecond: of the requests before the first finding. */
	if (!rank->pending->failed_once)
		then.leaked_bytes = memory_rows_leaked(&counts, rank->put, event->device);
	return then;
}

/* A request of the allocator, or a call that failed and whose row is in another table: it waits for the name of its
 * stack. */
static void memory_on_failed(
	struct memory *memory, struct memory_rank *rank, const struct rt_memory_failed_event *event)
{
	bool first = !rank->pending->failed_once && !memory_pending_waits(rank->pending);
	struct memory_then then = memory_then(memory, rank, event);

	if (!memory_pending_fail(rank->pending, event, &then)) {
		memory->failures_lost++;
		return;
	}
	/* A snapshot of what it holds now; of a program that tries again and again, one in LIVE_FIRST_NS. */
	if (!event->call_ns && (first || monotonic_ns() - rank->put_ns >= LIVE_FIRST_NS))
		rank->live_ns = 0;
}

static bool memory_on_call(
	const struct memory *memory, const struct memory_rank *rank, const struct rt_memory_failed_event *event)
{
	struct allocs *allocs = memory->context->allocs;

	return event->call_ns &&
	       ((allocs && allocs_stack(allocs, rank->slot, event->event.thread_id, event->call_ns, event->stack)) ||
		       !(event->event.flags & RT_MEMORY_CALL_FAILED));
}

static void memory_event(void *state, const struct rt_event *event, size_t size_bytes)
{
	struct memory *memory = state;
	const struct rt_profile_stack_event *stack = (const struct rt_profile_stack_event *)event;
	const struct rt_profile_code_event *code = (const struct rt_profile_code_event *)event;
	struct memory_rank *rank = memory_find(memory, event->pid);
	const struct rt_memory_failed_event *failed = (const struct rt_memory_failed_event *)event;

	if (event->kind == RT_KIND_MEMORY_STACK && reply_stack_event_valid(stack, size_bytes)) {
		if (rank)
			profile_rank_stack(&rank->pending->names, stack);
	} else if (event->kind == RT_KIND_MEMORY_CODE && reply_code_event_valid(code, size_bytes)) {
		if (rank)
			profile_rank_code(&rank->pending->names, code);
	} else if (event->kind == RT_KIND_MEMORY_FAILED && size_bytes >= sizeof(struct rt_memory_failed_event)) {
		if (!rank)
			memory->failures_lost++;
		else if (!memory_on_call(memory, rank, failed))
			memory_on_failed(memory, rank, failed);
	} else {
		memory->broken++;
	}
}

static void memory_tick(void *state, uint64_t now_ns)
{
	struct memory *memory = state;

	LIST_EACH (link, &memory->ended_ranks) {
		struct memory_pending *pending = CONTAINER_OF(link, struct memory_pending, link);

		profile_rank_name(&pending->names, now_ns, true);
		if (!memory_pending_put(pending, now_ns))
			memory_free_ended(memory, pending);
	}

	for (uint32_t i = 0; memory->skeleton && i < memory->ranks; i++) {
		struct memory_rank *rank = &memory->rank[i];
		const struct rank *live = rank->pid || rank->shed ? ranks_by_slot(memory->context->ranks, i) : NULL;

		if (rank->pid)
			memory_tick_rank(memory, rank, now_ns);
		else if (rank->shed && live)
			memory_begin(memory, live);
		if (rank->pid && live && live->instance == rank->pending->is.instance)
			rank_budget_set(memory->context->budget, RANK_BUDGET_MEMORY, live,
				rank->map_bytes + memory_pending_bytes(rank->pending));
	}
}

static void memory_status(void *state, struct collector_status *ret)
{
	struct memory *memory = state;
	const struct kernel *kernel = memory->context->kernel;
	struct memory_totals totals = memory->ended;
	struct rt_memory_rank counts;
	size_t followed = 0, leaking = 0;

	for (size_t i = 0; memory->skeleton && i < memory->ranks; i++) {
		if (!memory->rank[i].followed || !memory_read(memory, (uint32_t)i, &counts))
			continue;
		followed++;
		leaking += memory->rank[i].leaks > 0;
		memory_totals_add(&totals, &counts);
	}
	ret->events = memory->put.rows + memory->put.failures + memory->segment_rows;
	ret->drops = totals.lost + memory->failures_lost + memory->broken + kernel_drops(kernel, RT_KIND_MEMORY_STACK) +
		     kernel_drops(kernel, RT_KIND_MEMORY_CODE) + kernel_drops(kernel, RT_KIND_MEMORY_FAILED);
	ret->levels_shared = LEVEL_BIT(LEVEL_L2); /* the call engine attaches its probes */
	if (memory->error)
		collector_note(ret, "a rank's allocator is not followed: %s", strerror(-memory->error));
	if (memory->skeleton && memory->part < 1)
		collector_note(ret,
			"reports are seen in windows, %.2g %% of the time ([budget] in ranktrace.conf); %" PRIu64
			" windows of %.0f ms",
			100 * memory->part, memory->windows, (double)memory->window_ns / (double)NSEC_PER_MSEC);
	if (leaking)
		collector_note(ret, "memory of devices leaks in %zu rank%s: tracectl memory leaks", leaking,
			leaking == 1 ? "" : "s");
	if (totals.left_out)
		collector_note(ret, "%" PRIu64 " reports of more than %d devices of a process are not recorded",
			totals.left_out, RT_MEMORY_DEVICES_MAX);
	if (totals.calls_refused)
		collector_note(ret, "%" PRIu64 " of %" PRIu64 " calls of the driver without a stack",
			totals.calls_refused, totals.calls);
	if (followed || totals.sampled)
		collector_note(ret,
			"%zu rank%s followed; %" PRIu64 " blocks sampled, %" PRIu64
			" of them without a stack; stacks took %.3g ms of the ranks' time",
			followed, followed == 1 ? "" : "s", totals.sampled, totals.refused,
			(double)totals.took_ns / (double)NSEC_PER_MSEC);
}

static void memory_close(void *state)
{
	struct memory *memory = state;

	if (!memory)
		return;
	memory_turn_off(memory);
	rank_budget_part(memory->context->budget, RANK_BUDGET_MEMORY, NULL, NULL);
	free(memory);
}

const struct collector collector_memory = {
	.name = "memory",
	.summary = "memory of devices, as the framework's allocator reports it",
	.levels = LEVEL_BIT(LEVEL_L2),
	.kinds = 1u << RT_KIND_MEMORY_STACK | 1u << RT_KIND_MEMORY_CODE | 1u << RT_KIND_MEMORY_FAILED,
	.open = memory_open,
	.level = memory_level,
	.window = memory_window,
	.window_end_ns = memory_window_end_ns,
	.rank = memory_rank,
	.event = memory_event,
	.tick = memory_tick,
	.status = memory_status,
	.close = memory_close,
};
