/* SPDX-License-Identifier: Apache-2.0 */
/* Times at which ranks stalled or ended. See stall.h. */
#include "analyzers/base/array.h"
#include "analyzers/base/columns.h"
#include "analyzers/offline/merge.h"
#include "analyzers/offline/stall_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENDS_APART_NS 100000000ULL /* a job's ranks end together */
#define TYPICAL_OF 8		   /* steps */

/* Of a rank. */
struct progress {
	uint64_t last_ns, typical_ns; /* newest step or operation; 0: none so far */
	uint64_t steps;
};

struct finding_spots {
	struct stall *stall;
	size_t ranks;
	uint64_t *since_ns, *until_ns; /* of each rank: when it was seen first and last; 0: it was not */
	struct progress *progress;     /* of each rank */
	uint32_t *order;	       /* ranks by job */
};

void stall_intervals_free(struct stall_intervals *intervals)
{
	free(intervals->interval);
	*intervals = (struct stall_intervals){0};
}

static int by_from(const void *a, const void *b)
{
	const struct stall_interval *x = a, *y = b;

	return (x->from_ns > y->from_ns) - (x->from_ns < y->from_ns);
}

/* In order, and those that overlap, or are no further apart than that, are one. */
static void stall_intervals_merge(struct stall_intervals *intervals, uint64_t apart_ns)
{
	size_t kept = 0;

	if (intervals->count)
		qsort(intervals->interval, intervals->count, sizeof(*intervals->interval), by_from);
	for (size_t i = 0; i < intervals->count; i++) {
		struct stall_interval *last = kept ? &intervals->interval[kept - 1] : NULL;

		if (!last || intervals->interval[i].from_ns > last->to_ns + apart_ns)
			intervals->interval[kept++] = intervals->interval[i];
		else if (intervals->interval[i].to_ns > last->to_ns)
			last->to_ns = intervals->interval[i].to_ns;
	}
	intervals->count = kept;
}

/* Ranks of a job stall at the same times: those that overlap take one place. What does not fit is left out. */
static bool stall_intervals_add(struct stall_intervals *intervals, uint64_t from_ns, uint64_t to_ns)
{
	if (intervals->count == STALL_SPOTS_MAX)
		stall_intervals_merge(intervals, 0);
	if (intervals->count == STALL_SPOTS_MAX)
		return true;
	if (!array_reserve((void **)&intervals->interval, &intervals->capacity, intervals->count + 1,
		    sizeof(*intervals->interval), STALL_SPOTS_MAX))
		return false;
	intervals->interval[intervals->count++] = (struct stall_interval){from_ns, to_ns};
	return true;
}

static struct store_rank *rank_at(const struct finding_spots *f, size_t i)
{
	return store_ranks_at(f->stall->ranks, i);
}

static uint64_t stall_intervals_end_of(const struct finding_spots *f, uint32_t rank)
{
	const struct store_rank *of = rank_at(f, rank);
	uint64_t end_ns = of->ended ? of->seen_ns : f->until_ns[rank], until_ns = f->stall->options->until_ns;

	return until_ns && end_ns > until_ns ? until_ns : end_ns;
}

/* The rank made progress at that time. False: out of memory. */
static bool stall_intervals_progress(struct finding_spots *f, uint32_t rank, uint64_t time_ns)
{
	struct progress *progress = &f->progress[rank];
	uint64_t still_ns = progress->typical_ns + progress->typical_ns / 2, from_ns = progress->last_ns;
	bool done = true;

	if (still_ns < STALL_STILL_NS)
		still_ns = STALL_STILL_NS;
	if (from_ns < store_rank_begin(rank_at(f, rank)))
		from_ns = store_rank_begin(rank_at(f, rank));
	if (time_ns > from_ns && time_ns - from_ns > still_ns)
		done = stall_intervals_add(&f->stall->still, from_ns, time_ns);
	if (time_ns > progress->last_ns)
		progress->last_ns = time_ns;
	return done;
}

bool stall_wants(const struct stall *stall, int64_t instance, uint32_t *ret_rank)
{
	size_t place = store_ranks_place(stall->ranks, instance);

	*ret_rank = (uint32_t)place;
	return place != SIZE_MAX && store_ranks_at(stall->ranks, place)->wanted;
}

void stall_warn(struct stall *stall, const char *error)
{
	char sentence[400];

	if (stall->warned || !stall->options->warning)
		return;
	snprintf(sentence, sizeof(sentence), "hangs may be missing: %s", error);
	stall->options->warning(stall->options->arg, sentence);
	stall->warned = true;
}

bool stall_next(struct stall *stall, struct reader_scan *scan, uint32_t *ret_rank)
{
	char error[256];
	int r;

	while ((r = reader_scan_next(scan)) > 0)
		if (stall_wants(stall, reader_scan_row(scan)->value[0], ret_rank))
			return true;
	if (r < 0) {
		reader_scan_error(scan, error, sizeof(error));
		stall_warn(stall, error);
	}
	return false;
}

static uint64_t length_of(int64_t length)
{
	return length > 0 && (uint64_t)length < STORE_FEED_LONGEST_NS ? (uint64_t)length : 0;
}

static bool stall_intervals_on_sample(struct finding_spots *f, uint32_t rank, uint64_t start_ns, uint64_t length_ns)
{
	if (!f->since_ns[rank] || start_ns < f->since_ns[rank])
		f->since_ns[rank] = start_ns;
	if (start_ns + length_ns > f->until_ns[rank])
		f->until_ns[rank] = start_ns + length_ns;
	return true;
}

/* Checkpoints and stalls are not typical. */
static bool stall_intervals_on_step(struct finding_spots *f, uint32_t rank, uint64_t start_ns, uint64_t length_ns)
{
	struct progress *progress = &f->progress[rank];
	bool done = stall_intervals_progress(f, rank, start_ns + length_ns);

	stall_intervals_on_sample(f, rank, start_ns, length_ns);
	if (!progress->steps++)
		progress->typical_ns = length_ns;
	if (length_ns > 2 * progress->typical_ns)
		length_ns = 2 * progress->typical_ns;
	progress->typical_ns += length_ns / TYPICAL_OF;
	progress->typical_ns -= progress->typical_ns / TYPICAL_OF;
	if (progress->typical_ns > f->stall->step_ns)
		f->stall->step_ns = progress->typical_ns;
	return done;
}

static bool stall_intervals_on_op(struct finding_spots *f, uint32_t rank, uint64_t start_ns, uint64_t length_ns)
{
	stall_intervals_on_sample(f, rank, start_ns, length_ns);
	return f->progress[rank].steps || stall_intervals_progress(f, rank, start_ns + length_ns);
}

/* Of a table's instance, start and length. */
static int stall_intervals_each(struct finding_spots *f, const struct reader_scanning *scanning,
	bool (*row)(struct finding_spots *f, uint32_t rank, uint64_t start_ns, uint64_t length_ns), char *error,
	size_t error_size)
{
	struct stall *stall = f->stall;
	struct reader_scan *scan = NULL;
	uint32_t rank;
	int r = reader_scan_open(stall->reader, scanning, &scan);

	if (r == 0)
		r = store_feed_begin(scan, stall->options, error, error_size);
	while (r == 0 && stall_next(stall, scan, &rank)) {
		const struct reader_row *of = reader_scan_row(scan);
		uint64_t start_ns = store_feed_time(stall->options, of->value[1]);

		if (start_ns && !row(f, rank, start_ns, length_of(of->value[2])))
			r = -ENOMEM;
	}
	reader_scan_close(scan);
	return r;
}

static bool lacks_steps(const struct finding_spots *f)
{
	for (size_t i = 0; i < f->ranks; i++)
		if (!f->progress[i].steps && rank_at(f, i)->places)
			return true;
	return false;
}

static int read_progress(struct finding_spots *f, char *error, size_t error_size)
{
	static const struct reader_scanning samples = {
		.table = TABLE_HOST_SAMPLES, .columns = {"instance", "start_ns", "duration_ns"}};
	static const struct reader_scanning steps = {
		.table = TABLE_STEPS, .columns = {"instance", "start_ns", "duration_ns"}};
	static const struct reader_scanning ops = {
		.table = TABLE_COLLECTIVES, .columns = {"instance", "host_start_ns", "host_duration_ns"}};
	int r = stall_intervals_each(f, &samples, stall_intervals_on_sample, error, error_size);

	store_ranks_lived(f->stall->ranks, f->since_ns, f->until_ns);
	if (r == 0)
		r = stall_intervals_each(f, &steps, stall_intervals_on_step, error, error_size);
	if (r == 0 && lacks_steps(f))
		r = stall_intervals_each(f, &ops, stall_intervals_on_op, error, error_size);
	store_ranks_lived(f->stall->ranks, f->since_ns, f->until_ns);
	return r;
}

/* Jobs of one process are indistinguishable. */
static int compare_jobs(const struct store_rank *x, const struct store_rank *y)
{
	int order = strcmp(x->job, y->job);

	if (!order)
		order = (x->world_size > y->world_size) - (x->world_size < y->world_size);
	if (!order)
		order = (x->uid > y->uid) - (x->uid < y->uid);
	return order || x->world_size > 1 ? order : (x->instance > y->instance) - (x->instance < y->instance);
}

static int by_job(const void *a, const void *b, void *arg)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	int order = compare_jobs(rank_at(arg, x), rank_at(arg, y));

	return order ? order : (x > y) - (x < y);
}

/* Until their end ranks make no more progress. One that never did says something only where no rank of its job did. */
static bool find_still(struct finding_spots *f)
{
	bool done = true;

	for (uint32_t i = 0; i < f->ranks; i++)
		f->order[i] = i;
	qsort_r(f->order, f->ranks, sizeof(*f->order), by_job, f);
	for (size_t first = 0, end; first < f->ranks; first = end) {
		bool progress = false;

		for (end = first; end < f->ranks && compare_jobs(rank_at(f, f->order[first]), rank_at(f, f->order[end])) == 0;
			end++)
			progress = progress || f->progress[f->order[end]].last_ns;
		for (size_t i = first; i < end; i++) {
			uint32_t rank = f->order[i];

			if (rank_at(f, rank)->wanted && (f->progress[rank].last_ns || !progress))
				done = stall_intervals_progress(f, rank, stall_intervals_end_of(f, rank)) && done;
		}
	}
	stall_intervals_merge(&f->stall->still, 0);
	return done;
}

static bool find_ends(struct finding_spots *f)
{
	struct stall_intervals *ends = &f->stall->ends;
	const struct store_feed_options *options = f->stall->options;
	size_t kept = 0;
	bool done = true;

	for (size_t i = 0; i < f->ranks && done; i++) {
		const struct store_rank *rank = rank_at(f, i);

		if (rank->ended && rank->wanted && (!options->until_ns || rank->seen_ns < options->until_ns))
			done = stall_intervals_add(ends, rank->seen_ns, rank->seen_ns);
	}
	if (ends->count)
		qsort(ends->interval, ends->count, sizeof(*ends->interval), by_from);
	for (size_t i = 0; i < ends->count; i++)
		if (!kept || ends->interval[i].from_ns > ends->interval[kept - 1].from_ns + ENDS_APART_NS)
			ends->interval[kept++] = ends->interval[i];
	ends->count = kept < STALL_SPOTS_MAX ? kept : STALL_SPOTS_MAX;
	return done;
}

/* Samples of ranks end one after the other. */
static void stall_intervals_find_known(const struct finding_spots *f)
{
	struct stall *stall = f->stall;

	stall->known_ns = STALL_NEVER;
	for (uint32_t i = 0; i < f->ranks; i++)
		if (stall_intervals_end_of(f, i) > stall->last_ns)
			stall->last_ns = stall_intervals_end_of(f, i);
	for (uint32_t i = 0; i < f->ranks; i++)
		if (!rank_at(f, i)->ended && f->until_ns[i] && f->until_ns[i] + MERGE_ENDS_NS >= stall->last_ns &&
			f->until_ns[i] < stall->known_ns)
			stall->known_ns = f->until_ns[i];
}

static bool stall_intervals_join(struct stall *stall)
{
	const struct stall_intervals *both[] = {&stall->still, &stall->ends};
	bool done = true;

	for (size_t i = 0; i < 2; i++)
		for (size_t k = 0; k < both[i]->count && done; k++)
			done = stall_intervals_add(&stall->all, both[i]->interval[k].from_ns, both[i]->interval[k].to_ns);
	stall_intervals_merge(&stall->all, 0);
	return done;
}

int stall_intervals_find(struct stall *stall, char *error, size_t error_size)
{
	struct finding_spots f = {.stall = stall};
	struct columns columns =
		COLUMNS_OF(COLUMN_OF(f.since_ns), COLUMN_OF(f.until_ns), COLUMN_OF(f.progress), COLUMN_OF(f.order));
	int r = -ENOMEM;

	while (store_ranks_at(stall->ranks, f.ranks))
		f.ranks++;
	if (columns_renew(&columns, f.ranks + 1)) {
		r = read_progress(&f, error, error_size);
		stall_intervals_find_known(&f);
		if (r == 0 && (!find_still(&f) || !find_ends(&f) || !stall_intervals_join(stall)))
			r = -ENOMEM;
	}
	if (r == -ENOMEM)
		snprintf(error, error_size, "out of memory");
	columns_free(&columns);
	return r;
}
