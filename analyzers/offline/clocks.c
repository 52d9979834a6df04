/* SPDX-License-Identifier: Apache-2.0 */
/* See clocks.h. One store after the other is put in place beside all that are. */
#include "analyzers/offline/clocks.h"
#include "analyzers/base/hash.h"
#include "analyzers/offline/store_rows.h"
#include "analyzers/store/rank_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Events that stores may have in common, and their owners. */

#define OWNERS_MAX 16384

static int by_hash(const void *a, const void *b)
{
	const struct clock_mark *x = a, *y = b;

	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

bool clocks_is_near(int64_t a_ns, int64_t b_ns)
{
	int64_t apart_ns;

	return !__builtin_sub_overflow(a_ns, b_ns, &apart_ns) && apart_ns >= -SPREAD_NS && apart_ns <= SPREAD_NS;
}

size_t clocks_sort_apart(struct clock_mark *mark, size_t count)
{
	size_t kept = 0, ends = 0;

	if (count)
		qsort(mark, count, sizeof(*mark), by_hash);
	for (size_t i = 0; i < count; i++) {
		if (!kept || mark[kept - 1].hash != mark[i].hash)
			ends = 0;
		if (ends == ENDS_MAX || (ends && clocks_is_near(mark[kept - 1].end_ns, mark[i].end_ns)))
			continue;
		mark[kept++] = mark[i];
		ends++;
	}
	return kept;
}

/* Of a hash all ends are kept, or none. */
static void clocks_marks_tidy(struct marks *marks)
{
	size_t end = KEPT;
	uint64_t hash;

	marks->count = clocks_sort_apart(marks->mark, marks->count);
	if (marks->count <= KEPT)
		return;
	hash = marks->mark[KEPT].hash;
	while (end && marks->mark[end - 1].hash == hash)
		end--;
	marks->count = end ? end : KEPT;
	marks->limit = end ? hash - 1 : hash;
}

static void clocks_marks_add(struct marks *marks, const struct clock_mark *mark)
{
	if (mark->hash > marks->limit || mark->end_ns <= 0)
		return;
	marks->mark[marks->count++] = *mark;
	if (marks->count == 2 * KEPT)
		clocks_marks_tidy(marks);
}

static uint64_t clocks_marks_hash_of(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325ULL;

	for (size_t i = 0; text && text[i] && i < 256; i++)
		hash = hash_mix(hash, (unsigned char)text[i]);
	return hash;
}

/* A process of a job that has a word: without one, jobs that have nothing to do with each other are alike. */
struct owner {
	int64_t instance;
	uint64_t job; /* hash of what is equal on all ranks */
	int32_t rank;
	bool counts; /* numbers of its steps mean the same as on other ranks of its job */
	bool seen;   /* it has a step in what is read */
};

struct owners {
	size_t count;
	struct owner owner[OWNERS_MAX];
};

static int clocks_marks_by_instance(const void *a, const void *b)
{
	const struct owner *x = a, *y = b;

	return (x->instance > y->instance) - (x->instance < y->instance);
}

static int clocks_add_owner(void *arg, const struct rank_row *row)
{
	struct owners *owners = arg;

	if (owners->count == OWNERS_MAX)
		return 1;
	if (!row->has_instance || row->rank < 0 || row->world_size <= 1 || !*row->job)
		return 0;
	owners->owner[owners->count++] = (struct owner){
		.instance = row->instance,
		.job = hash_mix(hash_mix(clocks_marks_hash_of(row->job), (uint64_t)row->world_size), (uint64_t)row->uid),
		.rank = (int32_t)row->rank,
		.counts = row->first_seen_ns < row->start_ns + (int64_t)STORE_FROM_START_NS,
	};
	return 0;
}

static void read_owners(struct reader *reader, struct owners *owners)
{
	char error[256];

	owners->count = 0;
	(void)rank_table_read(reader, clocks_add_owner, owners, error, sizeof(error));
}

struct sampling {
	const struct clocks_store *store;
	struct reader *reader;
	struct owners *owners;
};

/* Job of a step. */
static bool owner_job(struct owners *owners, int64_t instance, uint64_t *ret)
{
	const struct owner key = {.instance = instance};
	struct owner *owner = bsearch(&key, owners->owner, owners->count, sizeof(key), clocks_marks_by_instance);

	if (!owner)
		return false;
	owner->seen = true;
	if (!owner->counts)
		return false;
	*ret = owner->job;
	return true;
}

static void add_step(const struct sampling *sampling, struct reader_scan *scan, struct marks *marks)
{
	const struct reader_row *row = reader_scan_row(scan);
	uint64_t job;

	if (owner_job(sampling->owners, row->value[STORE_INSTANCE], &job))
		clocks_marks_add(marks, &(struct clock_mark){
						.hash = hash_mix(job, (uint64_t)row->value[STORE_STEP_STEP]),
						.end_ns = store_tables[STORE_STEPS].time_ns(scan),
						.job = job,
					});
}

static void clocks_marks_add_op(const struct sampling *sampling, struct reader_scan *scan, struct marks *marks)
{
	const struct reader_row *row = reader_scan_row(scan);
	const struct store_table *table = &store_tables[STORE_OPS];

	(void)sampling;
	if (!reader_row_has(row, STORE_OP_PEER) && table->accepts(scan))
		clocks_marks_add(marks,
			&(struct clock_mark){
				.hash = hash_mix(clocks_marks_hash_of(reader_scan_text(scan, STORE_OP_COMMUNICATOR)),
					(uint64_t)row->value[STORE_OP_SEQ]),
				.end_ns = table->time_ns(scan),
			});
}

static void read_marks(const struct sampling *sampling, size_t table,
	void (*row)(const struct sampling *sampling, struct reader_scan *scan, struct marks *marks),
	struct marks *marks)
{
	const struct clocks_store *store = sampling->store;
	int64_t since_ns = store->since_ns ? (int64_t)store->since_ns : INT64_MIN,
		until_ns = store->until_ns ? (int64_t)store->until_ns : INT64_MAX;
	struct reader_scan *scan = NULL;
	struct clock_mark *shrunk;
	char error[256];

	marks->limit = UINT64_MAX;
	marks->mark = calloc((size_t)2 * KEPT, sizeof(*marks->mark));
	if (!marks->mark || reader_scan_open(sampling->reader, &store_tables[table].scanning, &scan) < 0)
		return;
	if (reader_scan_begin(scan, since_ns, until_ns, error, sizeof(error)) == 0)
		while (reader_scan_next(scan) > 0)
			row(sampling, scan, marks);
	reader_scan_close(scan);
	clocks_marks_tidy(marks);
	shrunk = realloc(marks->mark, (marks->count + 1) * sizeof(*marks->mark));
	if (shrunk)
		marks->mark = shrunk;
}

/* What ran at another time than what is read says nothing of the runs that are. */
static void clocks_marks_hold(struct clocks_sample *sample, const struct owners *owners)
{
	sample->held = calloc(owners->count + 1, sizeof(*sample->held));
	if (!sample->held)
		return;
	for (size_t i = 0; i < owners->count; i++)
		if (owners->owner[i].seen)
			sample->held[sample->holds++] =
				(struct held){owners->owner[i].job, owners->owner[i].rank, sample};
}

static void clocks_marks_read_all(struct clocks_store *store, struct reader *reader, struct owners *owners)
{
	const struct sampling sampling = {store, reader, owners};

	read_marks(&sampling, STORE_OPS, clocks_marks_add_op, &store->sample->marks[OPS]);
	read_owners(reader, owners);
	read_marks(&sampling, STORE_STEPS, add_step, &store->sample->marks[STEPS]);
	clocks_marks_hold(store->sample, owners);
}

int clocks_sample_read(struct clocks_store *store)
{
	const struct reader_options options = {.is_db = store->is_db, .connections_max = 4};
	struct owners *owners = malloc(sizeof(*owners));
	struct reader *reader = NULL;
	char error[256];

	store->sample = calloc(1, sizeof(*store->sample));
	if (!store->sample || !owners) {
		free(owners);
		return -ENOMEM;
	}
	if (reader_open(store->path, &options, &reader, error, sizeof(error)) == 0) {
		clocks_marks_read_all(store, reader, owners);
		reader_close(reader);
	}
	free(owners);
	return 0;
}

void clocks_sample_free(struct clocks_sample *sample)
{
	if (!sample)
		return;
	for (int kind = 0; kind < KINDS; kind++)
		free(sample->marks[kind].mark);
	free(sample->held);
	free(sample);
}

/* A hash, of all stores. */
struct group {
	size_t first;		/* of its marks and ends */
	uint32_t count, placed; /* marks; ends of stores that are in place */
};

/* Marks of all stores by their hashes: so each store is looked at only when enough of it is in place. */
struct places {
	size_t marks, groups;
	struct clock_mark **mark;
	struct group *group;
	int64_t *end_ns; /* in place, by the first store's clock, in order */
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

static int clocks_by_number(const void *a, const void *b)
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
		if (!bsearch(&marks->mark[i].job, job, jobs, sizeof(*job), clocks_by_number))
			marks->mark[kept++] = marks->mark[i];
	marks->count = kept;
}

/* A job that came to other nodes under the same word makes its steps once more, at another time: those of one node are
 * then not those of another, and give no clock offset. */
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

static int clocks_by_value(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int64_t clocks_median(int64_t *value, size_t count)
{
	qsort(value, count, sizeof(*value), clocks_by_value);
	return value[count / 2];
}

/* What is common, each with what to add to the store's times for it to be the same. */
struct apart {
	size_t count, near;
	int64_t least_ns[KEPT]; /* of all its ends, the two that lie closest */
	int64_t first_ns[KEPT]; /* its first end here and there */
	int64_t near_ns[KEPT];	/* the least ones that are hardly apart */
};

static void add_apart(
	struct apart *apart, const struct clock_mark *mine, size_t ends, const int64_t *theirs_ns, size_t their_ends)
{
	int64_t least_ns = INT64_MAX, first_ns = INT64_MAX, apart_ns;

	for (size_t i = 0; i < ends; i++)
		for (size_t k = 0; k < their_ends; k++) {
			if (__builtin_sub_overflow(theirs_ns[k], mine[i].end_ns, &apart_ns) || apart_ns == INT64_MIN)
				continue;
			if (llabs(apart_ns) < llabs(least_ns))
				least_ns = apart_ns;
			if (!i && !k)
				first_ns = apart_ns;
		}
	if (least_ns == INT64_MAX || first_ns == INT64_MAX)
		return;
	/* Some are left out: what is far apart may be so because of that. */
	if ((ends == ENDS_MAX || their_ends == ENDS_MAX) && llabs(least_ns) > SPREAD_NS)
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

static void find_apart(const struct places *places, const struct marks *marks, struct apart *ret)
{
	ret->count = ret->near = 0;
	for (size_t i = 0, ends; i < marks->count && ret->count < KEPT; i += ends) {
		const struct group *group = &places->group[marks->mark[i].group];

		ends = ends_of(marks, i);
		add_apart(ret, &marks->mark[i], ends, places->end_ns + group->first, group->placed);
	}
}

/* How many ends are also there, that far away. */
static size_t agree(const struct places *places, const struct marks *marks, int64_t offset_ns)
{
	size_t ret = 0;

	for (size_t i = 0; i < marks->count; i++) {
		const struct group *group = &places->group[marks->mark[i].group];
		int64_t end_ns;
		size_t k = 0;

		if (__builtin_add_overflow(marks->mark[i].end_ns, offset_ns, &end_ns))
			continue;
		while (k < group->placed && !clocks_is_near(places->end_ns[group->first + k], end_ns))
			k++;
		ret += k < group->placed;
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
	spread_ns = clocks_median(value, count);
	return spread_ns <= SPREAD_NS || spread_ns <= llabs(offset_ns) / 4;
}

/* What to add to the store's times, where enough is common and says the same. Where most of it fits as it is, the rest
 * is of another run. Of two runs of a job, here and there, either the closest ends belong together or the first ones.
 */
static bool clocks_compare_one(const struct places *places, const struct marks *marks, int64_t *ret)
{
	struct apart apart;
	int64_t least_ns, first_ns;
	bool by_first;

	find_apart(places, marks, &apart);
	if (apart.count < ENOUGH)
		return false;
	if (2 * apart.near > apart.count) {
		*ret = clocks_median(apart.near_ns, apart.near);
		return true;
	}
	least_ns = clocks_median(apart.least_ns, apart.count);
	first_ns = clocks_median(apart.first_ns, apart.count);
	by_first = first_ns != least_ns && agree(places, marks, first_ns) > agree(places, marks, least_ns);
	*ret = by_first ? first_ns : least_ns;
	return are_alike(by_first ? apart.first_ns : apart.least_ns, apart.count, *ret);
}

/* Of close ends the earliest is kept. True: it is a new one. */
static bool clocks_add_end(struct places *places, struct group *group, int64_t end_ns)
{
	int64_t *of = places->end_ns + group->first;
	size_t at = 0;

	while (at < group->placed && of[at] < end_ns && !clocks_is_near(of[at], end_ns))
		at++;
	if (at < group->placed && clocks_is_near(of[at], end_ns)) {
		of[at] = end_ns < of[at] ? end_ns : of[at];
		return false;
	}
	if (group->placed == group->count || group->placed == ENDS_MAX)
		return false;
	memmove(of + at + 1, of + at, (group->placed - at) * sizeof(*of));
	of[at] = end_ns;
	group->placed++;
	return true;
}

/* One more end of this hash is in place: of another run it may be the one that they know. */
static void clocks_tell_others(
	const struct places *places, const struct group *group, const struct clocks_store *stores, int kind)
{
	struct clock_mark *const *mark = places->mark + group->first;

	for (size_t i = 0; i < group->count; i++)
		if (!i || mark[i]->store != mark[i - 1]->store)
			stores[mark[i]->store].sample->common[kind]++;
}

static bool compare_kinds(const struct places *places, struct clocks_sample *mine, int64_t *ret)
{
	for (int kind = 0; kind < KINDS; kind++) {
		if (mine->common[kind] < mine->due[kind])
			continue;
		if (clocks_compare_one(&places[kind], &mine->marks[kind], ret))
			return true;
		mine->due[kind] = mine->common[kind] + mine->common[kind] / 4 + 1;
	}
	return false;
}

/* Puts the store in place. One that has nothing in common with any of them is where others may find themselves. */
static void clocks_settle(
	struct places *places, const struct clocks_store *stores, struct clocks_store *store, int64_t offset_ns)
{
	struct clocks_sample *sample = store->sample;

	sample->placed = true;
	store->offset_ns = llabs(offset_ns) >= CLOCKS_APART_NS ? offset_ns : 0;
	for (int kind = 0; kind < KINDS; kind++)
		for (size_t i = 0; i < sample->marks[kind].count; i++) {
			const struct clock_mark *mark = &sample->marks[kind].mark[i];
			struct group *group = &places[kind].group[mark->group];
			int64_t end_ns;

			if (__builtin_add_overflow(mark->end_ns, offset_ns, &end_ns))
				continue;
			if (clocks_add_end(&places[kind], group, end_ns))
				clocks_tell_others(&places[kind], group, stores, kind);
		}
}

/* Each pass puts all that it can in place; the first one left begins anew. */
static void place_all(struct places *places, struct clocks_store *stores, size_t count)
{
	size_t left = 0;

	for (;;) {
		bool any = false;
		int64_t offset_ns;

		while (left < count && stores[left].sample->placed)
			left++;
		for (size_t i = left; i < count; i++)
			if (!stores[i].sample->placed && compare_kinds(places, stores[i].sample, &offset_ns)) {
				clocks_settle(places, stores, &stores[i], offset_ns);
				any = true;
			}
		if (any)
			continue;
		if (left == count)
			return;
		clocks_settle(places, stores, &stores[left], 0);
	}
}

static int clocks_by_place(const void *a, const void *b)
{
	const struct clock_mark *x = *(struct clock_mark *const *)a, *y = *(struct clock_mark *const *)b;

	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	return (x->store > y->store) - (x->store < y->store);
}

static void list_marks(struct places *places, const struct clocks_store *stores, size_t count, int kind)
{
	places->marks = 0;
	for (size_t i = 0; i < count; i++) {
		struct marks *marks = &stores[i].sample->marks[kind];

		stores[i].sample->due[kind] = ENOUGH;
		for (size_t k = 0; k < marks->count; k++) {
			marks->mark[k].store = (uint32_t)i;
			places->mark[places->marks++] = &marks->mark[k];
		}
	}
	qsort(places->mark, places->marks, sizeof(struct clock_mark *), clocks_by_place);
}

static int clocks_prepare(struct places *places, const struct clocks_store *stores, size_t count, int kind)
{
	size_t marks = 0;

	for (size_t i = 0; i < count; i++)
		marks += stores[i].sample->marks[kind].count;
	places->mark = calloc(marks + 1, sizeof(struct clock_mark *));
	places->group = calloc(marks + 1, sizeof(*places->group));
	places->end_ns = calloc(marks + 1, sizeof(*places->end_ns));
	if (!places->mark || !places->group || !places->end_ns)
		return -ENOMEM;
	list_marks(places, stores, count, kind);
	for (size_t i = 0; i < places->marks; i++) {
		if (!i || places->mark[i]->hash != places->mark[i - 1]->hash)
			places->group[places->groups++].first = i;
		places->group[places->groups - 1].count++;
		places->mark[i]->group = (uint32_t)(places->groups - 1);
	}
	return 0;
}

int clocks_place(struct clocks_store *stores, size_t count)
{
	struct places places[KINDS] = {{0}};
	int r = 0;

	for (int kind = 0; kind < KINDS && r == 0; kind++)
		r = clocks_prepare(&places[kind], stores, count, kind);
	if (r == 0)
		place_all(places, stores, count);
	for (int kind = 0; kind < KINDS; kind++) {
		free(places[kind].mark);
		free(places[kind].group);
		free(places[kind].end_ns);
	}
	return r;
}

int clocks_compare(struct clocks_store *stores, size_t count)
{
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++)
		r = clocks_sample_read(&stores[i]);
	if (r == 0)
		r = drop_twice(stores, count);
	if (r == 0)
		r = clocks_place(stores, count);
	for (size_t i = 0; i < count; i++) {
		clocks_sample_free(stores[i].sample);
		stores[i].sample = NULL;
	}
	return r;
}
