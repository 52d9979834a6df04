/* SPDX-License-Identifier: Apache-2.0 */
/* See merge.h. A heap of sources by the time of their next event; of equal ones, the first in the list. */
#include "analyzers/offline/merge.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define TICK_NS 100000000ULL   /* as the daemon's */
#define CHECK_NS 1000000000ULL /* a check is as of what was written in the second before it */
#define PROGRESS_EVENTS 4096
#define STALL_CHECKS_MAX 1000000

struct place {
	uint64_t next_ns;
	size_t source;
};

struct merge {
	const struct source *sources;
	size_t sources_count;
	struct place *heap;
	size_t count;
	struct stall_check *checks;
	uint64_t check_ns;     /* when the next one is due; UINT64_MAX: none */
	uint64_t check_end_ns; /* there is none after it */
	uint64_t stall_check_past;
	uint64_t events; /* that were fed */
	bool warned;
};

static bool is_before(const struct place *a, const struct place *b)
{
	return a->next_ns < b->next_ns || (a->next_ns == b->next_ns && a->source < b->source);
}

static void merge_sink(struct merge *merge, size_t at)
{
	for (;;) {
		size_t child = 2 * at + 1;
		struct place swap;

		if (child >= merge->count)
			return;
		if (child + 1 < merge->count && is_before(&merge->heap[child + 1], &merge->heap[child]))
			child++;
		if (!is_before(&merge->heap[child], &merge->heap[at]))
			return;
		swap = merge->heap[at];
		merge->heap[at] = merge->heap[child];
		merge->heap[child] = swap;
		at = child;
	}
}

/* The source at the top has moved on, or is over. */
static void merge_settle(struct merge *merge, bool over)
{
	struct place *top = &merge->heap[0];

	if (!over)
		top->next_ns = merge->sources[top->source].ops->next(merge->sources[top->source].arg);
	if (over || top->next_ns == UINT64_MAX)
		merge->heap[0] = merge->heap[--merge->count];
	merge_sink(merge, 0);
}

static void find_check(struct merge *merge, uint64_t after_ns)
{
	merge->check_ns = UINT64_MAX;
	for (size_t i = 0; i < merge->sources_count; i++) {
		const struct source *source = &merge->sources[i];
		uint64_t check_ns = source->ops->snapshot ? source->ops->snapshot(source->arg, after_ns) : UINT64_MAX;

		if (check_ns < merge->check_ns)
			merge->check_ns = check_ns;
	}
	if (merge->check_ns - CHECK_NS > merge->check_end_ns || ++merge->stall_check_past > STALL_CHECKS_MAX)
		merge->check_ns = UINT64_MAX;
}

static uint64_t merge_known_of(const struct source *source, uint64_t *ret_end_ns)
{
	*ret_end_ns = 0;
	return source->ops->known ? source->ops->known(source->arg, ret_end_ns) : UINT64_MAX;
}

/* Where sources end a little one after the other, ranks of one that is over would seem to stand nowhere. */
static void find_check_end(struct merge *merge)
{
	uint64_t last_ns = 0, end_ns = 0, known_ns;

	for (size_t i = 0; i < merge->sources_count; i++) {
		(void)merge_known_of(&merge->sources[i], &end_ns);
		last_ns = end_ns > last_ns ? end_ns : last_ns;
	}
	merge->check_end_ns = UINT64_MAX;
	for (size_t i = 0; i < merge->sources_count; i++) {
		known_ns = merge_known_of(&merge->sources[i], &end_ns);
		if (known_ns < merge->check_end_ns && known_ns + MERGE_ENDS_NS >= last_ns)
			merge->check_end_ns = known_ns;
	}
}

static int merge_begin(struct merge *merge, const struct source *sources, size_t count)
{
	*merge = (struct merge){.sources = sources,
		.sources_count = count,
		.heap = calloc(count + 1, sizeof(*merge->heap)),
		.checks = stall_check_new()};
	if (!merge->heap || !merge->checks)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		uint64_t next_ns = sources[i].ops->next(sources[i].arg);

		if (next_ns != UINT64_MAX)
			merge->heap[merge->count++] = (struct place){next_ns, i};
	}
	for (size_t i = merge->count / 2; i-- > 0;)
		merge_sink(merge, i);
	find_check_end(merge);
	find_check(merge, 0);
	return 0;
}

static void warn_once(struct merge *merge, const struct merge_options *options)
{
	char sentence[160];

	if (merge->warned || !stall_check_too_many(merge->checks) || !options->warning)
		return;
	snprintf(sentence, sizeof(sentence), "hangs may be missing: more than %d members of communicators at one time",
		STALL_CHECK_MEMBERS_MAX);
	options->warning(options->arg, sentence);
	merge->warned = true;
}

static bool merge_progress(const struct merge *merge, const struct merge_options *options, uint64_t now_ns)
{
	return !options->progress || options->progress(options->arg, merge->events, now_ns);
}

/* All that is to be seen before the next event, or in the end after the last one. False: that is enough. */
static bool check_until(struct merge *merge, struct detect *detect, const struct merge_options *options,
	uint64_t until_ns, uint64_t *now_ns)
{
	bool more = true;

	while (more && merge->check_ns <= until_ns && merge->check_ns != UINT64_MAX) {
		uint64_t check_ns = merge->check_ns;

		detect_advance(detect, check_ns);
		stall_check_at(merge->checks, merge->sources, merge->sources_count, detect, check_ns);
		warn_once(merge, options);
		*now_ns = check_ns;
		find_check(merge, check_ns);
		if (merge->count || merge->check_ns != UINT64_MAX) /* of the last one nothing is left out any more */
			more = merge_progress(merge, options, check_ns);
	}
	return more;
}

int merge_run(const struct source *sources, size_t count, struct detect *detect, const struct merge_options *options,
	uint64_t *ret_end_ns, size_t *ret_failed)
{
	const struct source_sink events = {detect_align(detect), detect};
	uint64_t advanced_ns = 0, now_ns = 0;
	struct merge merge;
	bool more = true;
	char error[512];
	int r = merge_begin(&merge, sources, count);

	*ret_failed = 0;
	while (r == 0 && merge.count && more) {
		const struct source *source = &sources[merge.heap[0].source];
		int failed;

		more = check_until(&merge, detect, options, merge.heap[0].next_ns, &advanced_ns);
		now_ns = more ? merge.heap[0].next_ns : advanced_ns;
		if (!more)
			break;
		if (now_ns >= advanced_ns + TICK_NS) {
			detect_advance(detect, now_ns);
			advanced_ns = now_ns;
		}
		failed = source->ops->feed(source->arg, &events, error, sizeof(error));
		if (failed < 0) {
			(*ret_failed)++;
			options->warning(options->arg, error);
		}
		merge_settle(&merge, failed < 0);
		if (++merge.events % PROGRESS_EVENTS == 0)
			more = merge_progress(&merge, options, now_ns);
	}
	if (now_ns)
		detect_advance(detect, now_ns);
	if (now_ns && more)
		(void)check_until(&merge, detect, options, UINT64_MAX, &now_ns);
	if (r == 0)
		detect_end(detect);
	*ret_end_ns = now_ns;
	stall_check_free(merge.checks);
	free(merge.heap);
	return r;
}
