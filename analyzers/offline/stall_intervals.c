/* SPDX-License-Identifier: Apache-2.0 */
/* Times at which ranks stalled or ended. See stall.h. */
#include "analyzers/offline/merge.h"
#include "analyzers/offline/stall_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENDS_APART_NS 100000000ULL /* a job's ranks end together */
#define TYPICAL_OF 8		   /* steps */

struct job {
	uint64_t last_ns, typical_ns; /* newest progress; 0: none so far */
	uint64_t steps;
};

struct finding_spots {
	struct stall *stall;
	size_t ranks, jobs;
	uint32_t *job_of;	       /* of each rank */
	uint32_t *order;	       /* ranks by job */
	uint64_t *since_ns, *until_ns; /* of each rank: when it was seen first and last; 0: it was not */
	uint64_t *busy_ns;	       /* until when each of several jobs that are alike has a rank */
	struct job *job;
	struct stall_interval *raw; /* gaps in progress */
	uint32_t *raw_job;
	size_t raws;
	bool by_ops; /* of jobs without steps: their operations */
};

void stall_intervals_free(struct stall_intervals *intervals)
{
	free(intervals->interval);
	*intervals = (struct stall_intervals){0};
}

static bool stall_intervals_add(struct stall_intervals *intervals, uint64_t from_ns, uint64_t to_ns)
{
	if (intervals->count == intervals->capacity) {
		size_t capacity = intervals->capacity ? 2 * intervals->capacity : 64;
		struct stall_interval *more = realloc(intervals->interval, capacity * sizeof(*more));

		if (!more)
			return false;
		intervals->interval = more;
		intervals->capacity = capacity;
	}
	intervals->interval[intervals->count++] = (struct stall_interval){from_ns, to_ns};
	return true;
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

static struct store_rank *rank_at(const struct finding_spots *f, size_t i)
{
	return store_ranks_at(f->stall->ranks, i);
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

static const struct finding_spots *sorting; /* for by_life() and by_job(), in find_jobs() alone */

/* Processes of one rank stand together, one after the other. */
static int by_life(const void *a, const void *b)
{
	const struct store_rank *x = rank_at(sorting, *(const uint32_t *)a);
	const struct store_rank *y = rank_at(sorting, *(const uint32_t *)b);
	uint64_t x_ns = store_rank_begin(x), y_ns = store_rank_begin(y);
	int order = compare_jobs(x, y);

	if (!order)
		order = (x->rank > y->rank) - (x->rank < y->rank);
	if (!order)
		order = (x_ns > y_ns) - (x_ns < y_ns);
	return order ? order : (x > y) - (x < y);
}

static int by_job(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	if (sorting->job_of[x] != sorting->job_of[y])
		return sorting->job_of[x] < sorting->job_of[y] ? -1 : 1;
	return (x > y) - (x < y);
}

/* A rank that is there twice at a time is one of two jobs: of order[first] to order[end], the first process of each
 * rank is of the first job, what overlaps with it of the second one, and so on. */
static void split_jobs(struct finding_spots *f, size_t first, size_t end)
{
	size_t jobs = 1, used = 0;

	for (size_t i = first; i < end; i++) {
		const struct store_rank *rank = rank_at(f, f->order[i]);
		size_t at = 0;

		if (i == first || rank->rank != rank_at(f, f->order[i - 1])->rank)
			used = 0;
		while (at < used && f->busy_ns[at] > store_rank_begin(rank))
			at++;
		used = at < used ? used : at + 1;
		jobs = used > jobs ? used : jobs;
		f->busy_ns[at] = rank->until_ns > rank->seen_ns ? rank->until_ns : rank->seen_ns;
		f->job_of[f->order[i]] = (uint32_t)(f->jobs + at);
	}
	f->jobs += jobs;
}

/* Lifetimes of ranks, by their samples. */
static void find_jobs(struct finding_spots *f)
{
	sorting = f;
	store_ranks_lived(f->stall->ranks, f->since_ns, f->until_ns);
	for (uint32_t i = 0; i < f->ranks; i++)
		f->order[i] = i;
	if (f->ranks)
		qsort(f->order, f->ranks, sizeof(*f->order), by_life);
	for (size_t first = 0, end; first < f->ranks; first = end) {
		const struct store_rank *rank = rank_at(f, f->order[first]);

		for (end = first + 1; end < f->ranks && compare_jobs(rank, rank_at(f, f->order[end])) == 0;)
			end++;
		split_jobs(f, first, end);
	}
	if (f->ranks)
		qsort(f->order, f->ranks, sizeof(*f->order), by_job);
}

static void add_raw(struct finding_spots *f, uint32_t job, uint64_t from_ns, uint64_t to_ns)
{
	if (f->raws == STALL_SPOTS_MAX)
		return;
	f->raw[f->raws] = (struct stall_interval){from_ns, to_ns};
	f->raw_job[f->raws++] = job;
}

static void stall_intervals_progress(struct finding_spots *f, uint32_t number, uint64_t time_ns)
{
	struct job *job = &f->job[number];
	uint64_t still_ns = job->typical_ns + job->typical_ns / 2;

	if (still_ns < STALL_STILL_NS)
		still_ns = STALL_STILL_NS;
	if (time_ns <= job->last_ns)
		return;
	if (time_ns - job->last_ns > still_ns)
		add_raw(f, number, job->last_ns, time_ns);
	job->last_ns = time_ns;
}

/* Checkpoints and stalls are not typical. */
static void step(struct finding_spots *f, uint32_t rank, uint64_t end_ns, uint64_t length_ns)
{
	struct job *job = &f->job[f->job_of[rank]];

	stall_intervals_progress(f, f->job_of[rank], end_ns);
	if (!job->steps++)
		job->typical_ns = length_ns;
	if (length_ns > 2 * job->typical_ns)
		length_ns = 2 * job->typical_ns;
	job->typical_ns += length_ns / TYPICAL_OF;
	job->typical_ns -= job->typical_ns / TYPICAL_OF;
	if (job->typical_ns > f->stall->step_ns)
		f->stall->step_ns = job->typical_ns;
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

static void stall_intervals_on_sample(struct finding_spots *f, uint32_t rank, uint64_t start_ns, uint64_t length_ns)
{
	if (!f->since_ns[rank] || start_ns < f->since_ns[rank])
		f->since_ns[rank] = start_ns;
	if (start_ns + length_ns > f->until_ns[rank])
		f->until_ns[rank] = start_ns + length_ns;
}

static void stall_intervals_on_step(struct finding_spots *f, uint32_t rank, uint64_t start_ns, uint64_t length_ns)
{
	stall_intervals_on_sample(f, rank, start_ns, length_ns);
	step(f, rank, start_ns + length_ns, length_ns);
}

static void stall_intervals_on_op(struct finding_spots *f, uint32_t rank, uint64_t start_ns, uint64_t length_ns)
{
	stall_intervals_on_sample(f, rank, start_ns, length_ns);
	if (!f->job[f->job_of[rank]].steps)
		stall_intervals_progress(f, f->job_of[rank], start_ns + length_ns);
}

/* Of a table's instance, start and length. */
static int stall_intervals_each(struct finding_spots *f, const struct reader_scanning *scanning,
	void (*row)(struct finding_spots *f, uint32_t rank, uint64_t start_ns, uint64_t length_ns), char *error,
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

		if (start_ns)
			row(f, rank, start_ns, length_of(of->value[2]));
	}
	reader_scan_close(scan);
	return r;
}

static bool lacks_steps(const struct finding_spots *f)
{
	for (size_t i = 0; i < f->ranks; i++)
		if (!f->job[f->job_of[i]].steps && rank_at(f, i)->places)
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

	find_jobs(f);
	if (r == 0)
		r = stall_intervals_each(f, &steps, stall_intervals_on_step, error, error_size);
	if (r == 0 && lacks_steps(f))
		r = stall_intervals_each(f, &ops, stall_intervals_on_op, error, error_size);
	store_ranks_lived(f->stall->ranks, f->since_ns, f->until_ns);
	return r;
}

static uint64_t stall_intervals_end_of(const struct finding_spots *f, uint32_t rank)
{
	const struct store_rank *of = rank_at(f, rank);
	uint64_t end_ns = of->ended ? of->seen_ns : f->until_ns[rank], until_ns = f->stall->options->until_ns;

	return until_ns && end_ns > until_ns ? until_ns : end_ns;
}

/* When the job of order[first] to order[end] had ranks that lived. */
static bool find_lives(const struct finding_spots *f, size_t first, size_t end, struct stall_intervals *lives)
{
	bool done = true;

	lives->count = 0;
	for (size_t i = first; i < end && done; i++) {
		uint32_t rank = f->order[i];
		uint64_t begin_ns = store_rank_begin(rank_at(f, rank));

		if (rank_at(f, rank)->wanted && stall_intervals_end_of(f, rank) > begin_ns)
			done = stall_intervals_add(lives, begin_ns, stall_intervals_end_of(f, rank));
	}
	stall_intervals_merge(lives, 0);
	return done;
}

static bool stall_intervals_clip(const struct finding_spots *f, uint32_t job, const struct stall_intervals *lives)
{
	struct stall_intervals *still = &f->stall->still;
	bool done = true;

	for (size_t i = 0; i < f->raws; i++) {
		if (f->raw_job[i] != job)
			continue;
		for (size_t k = 0; k < lives->count && done && still->count < STALL_SPOTS_MAX; k++) {
			uint64_t from_ns =
				f->raw[i].from_ns > lives->interval[k].from_ns ? f->raw[i].from_ns : lives->interval[k].from_ns;
			uint64_t to_ns =
				f->raw[i].to_ns < lives->interval[k].to_ns ? f->raw[i].to_ns : lives->interval[k].to_ns;

			if (to_ns > from_ns && to_ns - from_ns >= STALL_STILL_NS)
				done = stall_intervals_add(still, from_ns, to_ns);
		}
	}
	return done;
}

static bool find_still(struct finding_spots *f)
{
	struct stall_intervals lives = {0};
	bool done = true;

	for (size_t first = 0, end; first < f->ranks && done; first = end) {
		uint32_t job = f->job_of[f->order[first]];

		for (end = first; end < f->ranks && f->job_of[f->order[end]] == job;)
			end++;
		stall_intervals_progress(f, job, STALL_NEVER);
		done = find_lives(f, first, end, &lives) && stall_intervals_clip(f, job, &lives);
	}
	stall_intervals_free(&lives);
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
	int r = -ENOMEM;

	while (store_ranks_at(stall->ranks, f.ranks))
		f.ranks++;
	f.job_of = calloc(f.ranks + 1, sizeof(*f.job_of));
	f.order = calloc(f.ranks + 1, sizeof(*f.order));
	f.since_ns = calloc(f.ranks + 1, sizeof(*f.since_ns));
	f.until_ns = calloc(f.ranks + 1, sizeof(*f.until_ns));
	f.busy_ns = calloc(f.ranks + 1, sizeof(*f.busy_ns));
	f.job = calloc(f.ranks + 1, sizeof(*f.job));
	f.raw = calloc(STALL_SPOTS_MAX, sizeof(*f.raw));
	f.raw_job = calloc(STALL_SPOTS_MAX, sizeof(*f.raw_job));
	if (f.job_of && f.order && f.since_ns && f.until_ns && f.busy_ns && f.job && f.raw && f.raw_job) {
		r = read_progress(&f, error, error_size);
		stall_intervals_find_known(&f);
		if (r == 0 && (!find_still(&f) || !find_ends(&f) || !stall_intervals_join(stall)))
			r = -ENOMEM;
	}
	if (r == -ENOMEM)
		snprintf(error, error_size, "out of memory");
	free(f.job_of);
	free(f.order);
	free(f.since_ns);
	free(f.until_ns);
	free(f.busy_ns);
	free(f.job);
	free(f.raw);
	free(f.raw_job);
	return r;
}
