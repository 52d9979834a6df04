/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stages arrive by end. A stage's self time is its length less that of the stages inside it, which are the newest ones
 * of its thread that began after it. The step thread of a process is the one with most forward stages (majority vote).
 */
#include "analyzers/report/splits.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"

#define WINDOWS_MAX (REPORT_DRAWN_MAX + REPORT_PLOTS_MAX)
#define THREADS_MAX 64 /* of a process with stages */
#define ENDED_MAX 1024 /* stages of a thread that may be inside one that has not ended */
#define NO_STEP INT64_MAX

struct splits_ended {
	uint64_t start_ns, duration_ns;
};

struct splits_thread {
	int64_t thread;
	size_t count, capacity;
	struct splits_ended *ended;
};

struct splits_process {
	size_t threads, capacity;
	struct splits_thread *thread;
	int64_t main; /* thread, if votes > 0 */
	uint64_t votes;
};

struct splits_place {
	int32_t rank;
	uint32_t process;
	int64_t *first_step; /* a bucket: of its steps */
	struct split *bucket;
};

struct splits_window {
	struct split_window is;
	uint32_t *place_of; /* by process; 0: none, else place + 1 */
	struct splits_place *place;
	size_t places, capacity;
	int32_t *rank; /* sorted; made by splits_ranks() */
	size_t ranks;
	uint32_t *sorted; /* places by rank */
};

struct splits {
	const struct report *report;
	struct splits_process *process; /* a rank of the report each */
	struct splits_window window[WINDOWS_MAX];
	size_t windows;
};

struct splits *splits_new(const struct report *report)
{
	struct splits *splits = calloc(1, sizeof(*splits));

	if (!splits)
		return NULL;
	splits->report = report;
	splits->process = calloc(report->ranks + 1, sizeof(*splits->process));
	return splits->process ? splits : splits_free(splits);
}

static void splits_forget(struct splits_process *process)
{
	for (size_t i = 0; i < process->threads; i++)
		free(process->thread[i].ended);
	free(process->thread);
	process->thread = NULL;
	process->threads = process->capacity = 0;
}

struct splits *splits_free(struct splits *splits)
{
	if (!splits)
		return NULL;
	for (size_t i = 0; splits->process && i < splits->report->ranks; i++)
		splits_forget(&splits->process[i]);
	for (size_t i = 0; i < splits->windows; i++) {
		struct splits_window *window = &splits->window[i];

		for (size_t at = 0; at < window->places; at++) {
			free(window->place[at].first_step);
			free(window->place[at].bucket);
		}
		free(window->place_of);
		free(window->place);
		free(window->rank);
		free(window->sorted);
	}
	free(splits->process);
	free(splits);
	return NULL;
}

int splits_add(struct splits *splits, const struct split_window *wanted)
{
	struct splits_window *window = &splits->window[splits->windows];

	if (splits->windows == WINDOWS_MAX || !wanted->buckets || wanted->buckets > SPLITS_BUCKETS_MAX ||
		wanted->until_ns <= wanted->since_ns)
		return -ENOMEM;
	*window =
		(struct splits_window){.is = *wanted, .place_of = calloc(splits->report->ranks + 1, sizeof(uint32_t))};
	if (!window->place_of)
		return -ENOMEM;
	return (int)splits->windows++;
}

const struct split_window *splits_window_of(const struct splits *splits, int window)
{
	return &splits->window[window].is;
}

static bool splits_takes(const struct split_window *window, const struct report_rank *rank)
{
	if (rank->job != window->job || rank->rank < 0)
		return false;
	return rank->rank % window->stride == 0 || rank->rank == window->also;
}

static int splits_bucket(const struct split_window *window, uint64_t time_ns)
{
	uint64_t bucket = (uint64_t)((double)(time_ns - window->since_ns) /
				     (double)(window->until_ns - window->since_ns) * window->buckets);

	return bucket < window->buckets ? (int)bucket : (int)window->buckets - 1;
}

static struct splits_place *splits_place_new(struct splits_window *window, uint32_t process, int32_t rank)
{
	struct splits_place *place;

	if (!array_reserve(
		    (void **)&window->place, &window->capacity, window->places + 1, sizeof(*place), REPORT_RANKS_MAX))
		return NULL;
	place = &window->place[window->places];
	*place = (struct splits_place){
		.rank = rank,
		.process = process,
		.first_step = malloc(window->is.buckets * sizeof(*place->first_step)),
		.bucket = calloc(window->is.buckets, sizeof(*place->bucket)),
	};
	if (!place->first_step || !place->bucket) {
		free(place->first_step);
		free(place->bucket);
		return NULL;
	}
	for (uint32_t i = 0; i < window->is.buckets; i++)
		place->first_step[i] = NO_STEP;
	window->place_of[process] = (uint32_t)++window->places;
	return place;
}

int splits_step(
	struct splits *splits, const struct report_rank *rank, uint64_t start_ns, uint64_t duration_ns, int64_t step)
{
	uint32_t process = (uint32_t)(rank - splits->report->rank);

	for (size_t i = 0; i < splits->windows; i++) {
		struct splits_window *window = &splits->window[i];
		struct splits_place *place;
		struct split *split;
		int bucket;

		if (start_ns < window->is.since_ns || start_ns >= window->is.until_ns ||
			!splits_takes(&window->is, rank))
			continue;
		place = window->place_of[process] ? &window->place[window->place_of[process] - 1]
						  : splits_place_new(window, process, rank->rank);
		if (!place)
			return -ENOMEM;
		bucket = splits_bucket(&window->is, start_ns);
		split = &place->bucket[bucket];
		split->steps++;
		split->step_ns += (double)duration_ns;
		if (step < place->first_step[bucket])
			place->first_step[bucket] = step;
	}
	return 0;
}

bool splits_want(const struct splits *splits, uint32_t store, uint64_t *ret_since_ns, uint64_t *ret_until_ns)
{
	uint64_t since_ns = UINT64_MAX, until_ns = 0;

	for (size_t i = 0; i < splits->windows; i++) {
		const struct splits_window *window = &splits->window[i];

		for (size_t at = 0; at < window->places; at++)
			if (splits->report->rank[window->place[at].process].store == store) {
				since_ns = window->is.since_ns < since_ns ? window->is.since_ns : since_ns;
				until_ns = window->is.until_ns > until_ns ? window->is.until_ns : until_ns;
				break;
			}
	}
	*ret_since_ns = since_ns;
	*ret_until_ns = until_ns;
	return until_ns > since_ns;
}

/* NULL: too many threads, or no memory. */
static struct splits_thread *splits_thread_of(struct splits_process *process, int64_t thread)
{
	for (size_t i = 0; i < process->threads; i++)
		if (process->thread[i].thread == thread)
			return &process->thread[i];
	if (!array_reserve((void **)&process->thread, &process->capacity, process->threads + 1,
		    sizeof(*process->thread), THREADS_MAX))
		return NULL;
	process->thread[process->threads] = (struct splits_thread){.thread = thread};
	return &process->thread[process->threads++];
}

/* Self time of a stage that ends; it may be inside a later one. */
static uint64_t splits_self_of(struct splits_thread *thread, uint64_t start_ns, uint64_t duration_ns)
{
	uint64_t inside_ns = 0;

	while (thread->count && thread->ended[thread->count - 1].start_ns >= start_ns)
		inside_ns += thread->ended[--thread->count].duration_ns;
	if (thread->count == ENDED_MAX) {
		thread->count = ENDED_MAX / 2;
		memmove(thread->ended, thread->ended + ENDED_MAX / 2, thread->count * sizeof(*thread->ended));
	}
	if (array_reserve(
		    (void **)&thread->ended, &thread->capacity, thread->count + 1, sizeof(*thread->ended), ENDED_MAX))
		thread->ended[thread->count++] = (struct splits_ended){start_ns, duration_ns};
	return duration_ns > inside_ns ? duration_ns - inside_ns : 0;
}

static bool splits_is_main(struct splits_process *process, int64_t thread, enum activity activity)
{
	if (activity == ACTIVITY_FORWARD) {
		if (!process->votes || process->main == thread) {
			process->main = thread;
			process->votes++;
		} else {
			process->votes--;
		}
	}
	/* Before the first forward stage: a thread that loads data or updates weights. */
	if (!process->votes)
		return activity == ACTIVITY_DATALOADER || activity == ACTIVITY_BACKWARD ||
		       activity == ACTIVITY_OPTIMIZER;
	return process->main == thread;
}

/* Bucket of the stage's step: the last one whose first step is not after it. */
static struct split *splits_of_step(struct splits_window *window, uint32_t process, const struct split_stage *stage)
{
	struct splits_place *place = window->place_of[process] ? &window->place[window->place_of[process] - 1] : NULL;

	if (!place || stage->start_ns < window->is.since_ns)
		return NULL;
	for (int bucket = splits_bucket(&window->is, stage->start_ns); bucket >= 0; bucket--)
		if (place->first_step[bucket] <= stage->step)
			return place->bucket[bucket].steps ? &place->bucket[bucket] : NULL;
	return NULL;
}

int splits_stage(struct splits *splits, const struct report_rank *rank, const struct split_stage *stage)
{
	uint32_t number = (uint32_t)(rank - splits->report->rank);
	struct splits_process *process = &splits->process[number];
	struct splits_thread *thread = splits_thread_of(process, stage->thread);
	enum activity activity = activity_of_stage(stage_of_stage(stage->stage).kind);
	uint64_t self_ns;

	if (!thread || activity >= ACTIVITY_MAX)
		return 0;
	self_ns = splits_self_of(thread, stage->start_ns, stage->duration_ns);
	if (!splits_is_main(process, stage->thread, activity) || stage->step < 0)
		return 0;
	for (size_t i = 0; i < splits->windows; i++) {
		struct splits_window *window = &splits->window[i];
		struct split *split = NULL;

		/* The last step's stages begin after the window's end. */
		if (stage->start_ns >= window->is.since_ns && window->place_of[number] &&
			stage->start_ns <
				window->is.until_ns + (window->is.until_ns - window->is.since_ns) / window->is.buckets)
			split = splits_of_step(window, number, stage);
		if (!split)
			continue;
		split->stages++;
		split->self_ns[activity] += (float)self_ns;
	}
	return 0;
}

static int splits_by_rank(const void *a, const void *b, void *arg)
{
	const struct splits_window *window = arg;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return ORDER(window->place[x].rank, window->place[y].rank) ?: ORDER(x, y);
}

static void splits_sort(struct splits_window *window)
{
	window->sorted = calloc(window->places + 1, sizeof(*window->sorted));
	window->rank = calloc(window->places + 1, sizeof(*window->rank));
	if (!window->sorted || !window->rank)
		return;
	for (uint32_t i = 0; i < window->places; i++)
		window->sorted[i] = i;
	qsort_r(window->sorted, window->places, sizeof(*window->sorted), splits_by_rank, window);
	for (size_t i = 0; i < window->places; i++) {
		int32_t rank = window->place[window->sorted[i]].rank;

		if (!window->ranks || window->rank[window->ranks - 1] != rank)
			window->rank[window->ranks++] = rank;
	}
}

size_t splits_ranks(struct splits *splits, int number, const int32_t **ret)
{
	struct splits_window *window = &splits->window[number];

	if (!window->rank)
		splits_sort(window);
	*ret = window->rank;
	return window->ranks;
}

/* First place of a rank among the sorted ones. */
static size_t splits_find(const struct splits_window *window, int32_t rank)
{
	return array_first_not(i, window->places, window->place[window->sorted[i]].rank < rank);
}

static void splits_sum(struct split *into, const struct split *more)
{
	into->steps += more->steps;
	into->stages += more->stages;
	into->step_ns += more->step_ns;
	for (size_t i = 0; i < ACTIVITY_MAX; i++)
		into->self_ns[i] += more->self_ns[i];
}

bool splits_at(struct splits *splits, int number, int32_t rank, uint32_t first, uint32_t count, struct split *ret)
{
	struct splits_window *window = &splits->window[number];
	const int32_t *ranks;
	double inside_ns = 0;

	*ret = (struct split){0};
	if (!splits_ranks(splits, number, &ranks) || !window->sorted)
		return false;
	for (size_t at = splits_find(window, rank); at < window->places; at++) {
		const struct splits_place *place = &window->place[window->sorted[at]];

		if (place->rank != rank)
			break;
		for (uint32_t i = first; i < first + count && i < window->is.buckets; i++)
			splits_sum(ret, &place->bucket[i]);
	}
	/* A step has a forward and a backward stage, so with fewer than one a step rows were lost or never stored. */
	if (ret->stages < ret->steps)
		ret->stages = 0;
	for (size_t i = 0; i < ACTIVITY_MAX; i++)
		inside_ns += i == ACTIVITY_OUTSIDE ? 0 : (double)ret->self_ns[i];
	ret->self_ns[ACTIVITY_OUTSIDE] = (float)fmax(0, ret->step_ns - inside_ns);
	return ret->steps > 0;
}
