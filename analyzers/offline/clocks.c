/* SPDX-License-Identifier: Apache-2.0 */
/* See clocks.h. One store after the other is put in place beside all that are. */
#include "analyzers/offline/clocks_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ENDS_MAX 64 /* of one hash, that are looked at */

/* Marks of all stores that are in place, by the first one's clock. */
struct placed {
	size_t count, room;
	struct clock_mark *mark;
};

static int by_held(const void *a, const void *b)
{
	const struct held *x = a, *y = b;

	if (x->job != y->job)
		return x->job < y->job ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return (x->sample > y->sample) - (x->sample < y->sample);
}

static int by_number(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Jobs with a rank that two stores have seen: it ran twice. */
static size_t find_twice(struct held *held, size_t count, uint64_t *ret)
{
	size_t found = 0;

	qsort(held, count, sizeof(*held), by_held);
	for (size_t i = 1; i < count; i++)
		if (held[i].job == held[i - 1].job && held[i].rank == held[i - 1].rank &&
			held[i].sample != held[i - 1].sample && (!found || ret[found - 1] != held[i].job))
			ret[found++] = held[i].job;
	return found;
}

static void drop_steps(struct marks *marks, const uint64_t *job, size_t jobs)
{
	size_t kept = 0;

	for (size_t i = 0; i < marks->count; i++)
		if (!bsearch(&marks->mark[i].job, job, jobs, sizeof(*job), by_number))
			marks->mark[kept++] = marks->mark[i];
	marks->count = kept;
}

/* A job that came to other nodes under the same word makes its steps once more, at another time: those of one node are
 * then not those of another, and tell nothing of clocks. */
static int drop_twice(struct clocks_store *stores, size_t count)
{
	struct held *held;
	uint64_t *job;
	size_t holds = 0, jobs;

	for (size_t i = 0; i < count; i++)
		holds += stores[i].sample->holds;
	held = calloc(holds + 1, sizeof(*held));
	job = calloc(holds + 1, sizeof(*job));
	if (held && job) {
		holds = 0;
		for (size_t i = 0; i < count; i++) {
			const struct clocks_sample *sample = stores[i].sample;

			if (sample->holds)
				memcpy(held + holds, sample->held, sample->holds * sizeof(*held));
			holds += sample->holds;
		}
		jobs = find_twice(held, holds, job);
		for (size_t i = 0; i < count && jobs; i++)
			drop_steps(&stores[i].sample->marks[STEPS], job, jobs);
	}
	free(held);
	free(job);
	return held && job ? 0 : -ENOMEM;
}

/* Those in place of that hash. */
static size_t find(const struct placed *placed, uint64_t hash, const struct clock_mark **ret)
{
	size_t low = 0, high = placed->count, end;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (placed->mark[middle].hash < hash)
			low = middle + 1;
		else
			high = middle;
	}
	*ret = placed->mark + low;
	for (end = low; end < placed->count && end < low + ENDS_MAX && placed->mark[end].hash == hash;)
		end++;
	return end - low;
}

static int by_value(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int64_t median(int64_t *value, size_t count)
{
	qsort(value, count, sizeof(*value), by_value);
	return value[count / 2];
}

/* What is common, each with what to add to the store's times for it to be the same. */
struct apart {
	size_t count, near;
	int64_t least_ns[KEPT]; /* of all its ends, the two that lie closest */
	int64_t first_ns[KEPT]; /* its first end here and there */
	int64_t near_ns[KEPT];	/* the least ones that are hardly apart */
};

static void add_apart(struct apart *apart, const struct clock_mark *mine, size_t ends, const struct clock_mark *theirs,
	size_t their_ends)
{
	int64_t least_ns = INT64_MAX, first_ns = INT64_MAX, apart_ns;

	for (size_t i = 0; i < ends && i < ENDS_MAX; i++)
		for (size_t k = 0; k < their_ends; k++) {
			if (__builtin_sub_overflow(theirs[k].end_ns, mine[i].end_ns, &apart_ns) ||
				apart_ns == INT64_MIN)
				continue;
			if (llabs(apart_ns) < llabs(least_ns))
				least_ns = apart_ns;
			if (!i && !k)
				first_ns = apart_ns;
		}
	if (least_ns == INT64_MAX || first_ns == INT64_MAX)
		return;
	if (llabs(least_ns) <= SPREAD_NS)
		apart->near_ns[apart->near++] = least_ns;
	apart->least_ns[apart->count] = least_ns;
	apart->first_ns[apart->count++] = first_ns;
}

static size_t ends_of(const struct marks *marks, size_t first)
{
	size_t end = first;

	while (end < marks->count && marks->mark[end].hash == marks->mark[first].hash)
		end++;
	return end - first;
}

static void find_apart(const struct placed *placed, const struct marks *marks, struct apart *ret)
{
	ret->count = ret->near = 0;
	for (size_t i = 0, ends; i < marks->count && ret->count < KEPT; i += ends) {
		const struct clock_mark *theirs;
		size_t their_ends = find(placed, marks->mark[i].hash, &theirs);

		ends = ends_of(marks, i);
		add_apart(ret, &marks->mark[i], ends, theirs, their_ends);
	}
}

/* How many ends are also there, that far away. */
static size_t agree(const struct placed *placed, const struct marks *marks, int64_t offset_ns)
{
	size_t ret = 0;

	for (size_t i = 0; i < marks->count; i++) {
		const struct clock_mark *theirs;
		size_t ends = find(placed, marks->mark[i].hash, &theirs), k = 0;
		int64_t end_ns;

		if (__builtin_add_overflow(marks->mark[i].end_ns, offset_ns, &end_ns))
			continue;
		while (k < ends && !clocks_is_near(theirs[k].end_ns, end_ns))
			k++;
		ret += k < ends;
	}
	return ret;
}

static bool are_alike(int64_t *value, size_t count, int64_t offset_ns)
{
	int64_t spread_ns;

	for (size_t i = 0; i < count; i++)
		if (__builtin_sub_overflow(value[i], offset_ns, &value[i]) || value[i] == INT64_MIN)
			value[i] = INT64_MAX;
		else
			value[i] = llabs(value[i]);
	spread_ns = median(value, count);
	return spread_ns <= SPREAD_NS || spread_ns <= llabs(offset_ns) / 4;
}

/* What to add to the store's times, where enough is common and says the same. Where most of it fits as it is, the rest
 * is of another run. Of two runs of a job, here and there, either the closest ends belong together or the first ones.
 */
static bool compare(const struct placed *placed, const struct marks *marks, int64_t *ret)
{
	struct apart apart;
	int64_t least_ns, first_ns;
	bool by_first;

	find_apart(placed, marks, &apart);
	if (apart.count < ENOUGH)
		return false;
	if (2 * apart.near > apart.count) {
		*ret = median(apart.near_ns, apart.near);
		return true;
	}
	least_ns = median(apart.least_ns, apart.count);
	first_ns = median(apart.first_ns, apart.count);
	by_first = first_ns != least_ns && agree(placed, marks, first_ns) > agree(placed, marks, least_ns);
	*ret = by_first ? first_ns : least_ns;
	return are_alike(by_first ? apart.first_ns : apart.least_ns, apart.count, *ret);
}

static int place(struct placed *placed, const struct marks *marks, int64_t offset_ns)
{
	struct clock_mark *more;

	if (placed->count + marks->count > placed->room) {
		size_t room = 2 * (placed->count + marks->count);

		more = realloc(placed->mark, room * sizeof(*more));
		if (!more)
			return -ENOMEM;
		placed->mark = more;
		placed->room = room;
	}
	for (size_t i = 0; i < marks->count; i++) {
		struct clock_mark mark = marks->mark[i];

		if (!__builtin_add_overflow(mark.end_ns, offset_ns, &mark.end_ns))
			placed->mark[placed->count++] = mark;
	}
	placed->count = clocks_sort_apart(placed->mark, placed->count);
	return 0;
}

static bool compare_kinds(const struct placed placed[KINDS], const struct clocks_sample *mine, int64_t *ret)
{
	for (int kind = 0; kind < KINDS; kind++)
		if (compare(&placed[kind], &mine->marks[kind], ret))
			return true;
	return false;
}

/* Puts the store in place. One that has nothing in common with any of them is where others may find themselves. */
static int settle(struct placed placed[KINDS], struct clocks_store *store, int64_t offset_ns)
{
	int r = 0;

	store->sample->placed = true;
	store->offset_ns = llabs(offset_ns) >= CLOCKS_APART_NS ? offset_ns : 0;
	for (int kind = 0; kind < KINDS && r == 0; kind++)
		r = place(&placed[kind], &store->sample->marks[kind], offset_ns);
	return r;
}

/* Each pass puts all that it can in place; the first one left begins anew. */
static int place_all(struct placed placed[KINDS], struct clocks_store *stores, size_t count)
{
	for (;;) {
		bool any = false;
		size_t left = count;
		int64_t offset_ns;

		for (size_t i = 0; i < count; i++) {
			if (stores[i].sample->placed)
				continue;
			if (!compare_kinds(placed, stores[i].sample, &offset_ns)) {
				left = i < left ? i : left;
				continue;
			}
			if (settle(placed, &stores[i], offset_ns) < 0)
				return -ENOMEM;
			any = true;
		}
		if (any)
			continue;
		if (left == count)
			return 0;
		if (settle(placed, &stores[left], 0) < 0)
			return -ENOMEM;
	}
}

int clocks_compare(struct clocks_store *stores, size_t count)
{
	struct placed placed[KINDS] = {{0}};
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++)
		r = clocks_sample_read(&stores[i]);
	if (r == 0)
		r = drop_twice(stores, count);
	if (r == 0)
		r = place_all(placed, stores, count);
	for (int kind = 0; kind < KINDS; kind++)
		free(placed[kind].mark);
	for (size_t i = 0; i < count; i++) {
		clocks_sample_free(stores[i].sample);
		stores[i].sample = NULL;
	}
	return r;
}
