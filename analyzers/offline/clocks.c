/* SPDX-License-Identifier: Apache-2.0 */
/* See clocks.h. */
#include "analyzers/offline/clocks.h"
#include "analyzers/base/array.h"
#include "analyzers/base/fnv1a.h"
#include "analyzers/base/hash.h"
#include "analyzers/offline/store_rows.h"
#include "analyzers/store/rank_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OWNERS_MAX 16384
#define KEPT 1024		  /* marks of a store, of operations and of steps */
#define ENDS_MAX 64		  /* of one hash: of more runs than that, the first ones */
#define ENOUGH 8		  /* marks that two stores have in common */
#define SPREAD_NS 5000000000LL	  /* ends of one mark are that close */
#define DIFFERENCES_MAX (1 << 16) /* of two stores: 2,048 marks, each of up to 32 runs of a job */

/* The end of a step or operation. */
struct clock_mark {
	uint64_t hash; /* equal on all ranks */
	uint64_t job;  /* of a step; 0: an operation */
	int64_t end_ns;
};

/* Those of the lowest hashes. */
struct marks {
	size_t count;
	uint64_t limit; /* the highest hash that is wanted */
	struct clock_mark mark[2 * KEPT];
};

/* A process of a job that has a word: without one, jobs that have nothing to do with each other are alike. */
struct owner {
	int64_t instance;
	uint64_t job; /* hash of what is equal on all ranks */
	int32_t rank;
	uint32_t store;
	bool counts; /* numbers of its steps mean the same as on other ranks of its job */
	bool seen;   /* it has a step in what is read */
};

/* What is read of a store. */
struct sample {
	size_t marks, capacity, owners;
	struct clock_mark *mark; /* by hash and end */
	struct owner *owner;	 /* those with a step */
	bool placed;
};

static int clocks_by_hash(const void *a, const void *b)
{
	const struct clock_mark *x = a, *y = b;

	return ORDER(x->hash, y->hash) ?: ORDER(x->end_ns, y->end_ns);
}

/* Ranks of a node end a step at about the same time: the earliest counts. One that lies farther is of another run of
 * its job. Returns how many are left, at most ENDS_MAX of each. */
static size_t clocks_sort_apart(struct clock_mark *mark, size_t count)
{
	size_t kept = 0, ends = 0;

	if (count)
		qsort(mark, count, sizeof(*mark), clocks_by_hash);
	for (size_t i = 0; i < count; i++) {
		if (!kept || mark[kept - 1].hash != mark[i].hash)
			ends = 0;
		if (ends == ENDS_MAX || (ends && mark[i].end_ns <= mark[kept - 1].end_ns + SPREAD_NS))
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

	marks->count = clocks_sort_apart(marks->mark, marks->count);
	if (marks->count <= KEPT)
		return;
	marks->limit = marks->mark[KEPT].hash - 1;
	while (marks->mark[end - 1].hash > marks->limit)
		end--;
	marks->count = end;
}

static void clocks_marks_add(struct marks *marks, uint64_t hash, uint64_t job, int64_t end_ns)
{
	if (hash > marks->limit || end_ns <= 0 || end_ns > INT64_MAX / 4)
		return;
	marks->mark[marks->count++] = (struct clock_mark){hash, job, end_ns};
	if (marks->count == 2 * KEPT)
		clocks_marks_tidy(marks);
}

struct sampling {
	const struct clocks_store *store;
	uint32_t number;
	struct reader *reader;
	struct sample *sample;
	struct marks marks;
	size_t owners;
	struct owner owner[OWNERS_MAX]; /* by instance */
};

static int clocks_add_owner(void *arg, const struct rank_row *row)
{
	struct sampling *sampling = arg;
	uint64_t job;

	if (sampling->owners == OWNERS_MAX)
		return 1;
	if (!row->has_instance || row->rank < 0 || row->world_size <= 1 || !*row->job)
		return 0;
	job = hash_mix(hash_mix(fnv1a_text(FNV1A_START, row->job), (uint64_t)row->world_size), (uint64_t)row->uid);
	sampling->owner[sampling->owners++] = (struct owner){
		.instance = row->instance,
		.job = job ? job : 1,
		.rank = (int32_t)row->rank,
		.store = sampling->number,
		.counts = row->first_seen_ns < row->start_ns + (int64_t)STORE_FROM_START_NS,
	};
	return 0;
}

static int clocks_by_instance(const void *a, const void *b)
{
	const struct owner *x = a, *y = b;

	return ORDER(x->instance, y->instance);
}

static void clocks_on_step(struct sampling *sampling, struct reader_scan *scan)
{
	const struct reader_row *row = reader_scan_row(scan);
	const struct owner key = {.instance = row->value[STORE_INSTANCE]};
	struct owner *owner = bsearch(&key, sampling->owner, sampling->owners, sizeof(key), clocks_by_instance);

	if (owner)
		owner->seen = true;
	if (owner && owner->counts)
		clocks_marks_add(&sampling->marks, hash_mix(owner->job, (uint64_t)row->value[STORE_STEP_STEP]),
			owner->job, store_tables[STORE_STEPS].time_ns(scan));
}

static void clocks_on_op(struct sampling *sampling, struct reader_scan *scan)
{
	const struct reader_row *row = reader_scan_row(scan);
	const struct store_table *table = &store_tables[STORE_OPS];
	const char *communicator = reader_scan_text(scan, STORE_OP_COMMUNICATOR);

	if (!reader_row_has(row, STORE_OP_PEER) && table->accepts(scan))
		clocks_marks_add(&sampling->marks,
			hash_mix(fnv1a_text(FNV1A_START, communicator ? communicator : ""),
				(uint64_t)row->value[STORE_OP_SEQ]),
			0, table->time_ns(scan));
}

static int clocks_read_marks(
	struct sampling *sampling, size_t table, void (*row)(struct sampling *sampling, struct reader_scan *scan))
{
	const struct clocks_store *store = sampling->store;
	int64_t since_ns = store->since_ns ? (int64_t)store->since_ns : INT64_MIN,
		until_ns = store->until_ns ? (int64_t)store->until_ns : INT64_MAX;
	struct sample *sample = sampling->sample;
	struct reader_scan *scan = NULL;
	char error[256];

	sampling->marks.count = 0;
	sampling->marks.limit = UINT64_MAX;
	if (reader_scan_open(sampling->reader, &store_tables[table].scanning, &scan) < 0)
		return -ENOMEM;
	if (reader_scan_begin(scan, since_ns, until_ns, error, sizeof(error)) == 0)
		while (reader_scan_next(scan) > 0)
			row(sampling, scan);
	reader_scan_close(scan);
	clocks_marks_tidy(&sampling->marks);
	/* With none, too: to sort needs a pointer. */
	if (!array_reserve((void **)&sample->mark, &sample->capacity, sample->marks + sampling->marks.count + 1,
		    sizeof(*sample->mark), SIZE_MAX))
		return -ENOMEM;
	memcpy(sample->mark + sample->marks, sampling->marks.mark, sampling->marks.count * sizeof(*sample->mark));
	sample->marks += sampling->marks.count;
	return 0;
}

/* Ranks that ran at another time than what is read say nothing of the runs that are. */
static int clocks_keep_owners(const struct sampling *sampling)
{
	struct sample *sample = sampling->sample;

	sample->owner = calloc(sampling->owners + 1, sizeof(*sample->owner));
	for (size_t i = 0; sample->owner && i < sampling->owners; i++)
		if (sampling->owner[i].seen)
			sample->owner[sample->owners++] = sampling->owner[i];
	return sample->owner ? 0 : -ENOMEM;
}

static int clocks_read(const struct clocks_store *store, uint32_t number, struct sample *ret)
{
	const struct reader_options options = {.is_db = store->is_db, .connections_max = 4};
	struct sampling *sampling = calloc(1, sizeof(*sampling));
	char error[256];
	int r = 0;

	if (!sampling)
		return -ENOMEM;
	sampling->store = store;
	sampling->number = number;
	sampling->sample = ret;
	if (reader_open(store->path, &options, &sampling->reader, error, sizeof(error)) == 0) {
		(void)rank_table_read(sampling->reader, clocks_add_owner, sampling, error, sizeof(error));
		r = clocks_read_marks(sampling, STORE_OPS, clocks_on_op);
		if (r == 0)
			r = clocks_read_marks(sampling, STORE_STEPS, clocks_on_step);
		if (r == 0)
			r = clocks_keep_owners(sampling);
		if (r == 0 && ret->marks)
			qsort(ret->mark, ret->marks, sizeof(*ret->mark), clocks_by_hash);
		reader_close(sampling->reader);
	}
	free(sampling);
	return r;
}

static int clocks_by_rank(const void *a, const void *b)
{
	const struct owner *x = a, *y = b;

	return ORDER(x->job, y->job) ?: ORDER(x->rank, y->rank) ?: ORDER(x->store, y->store);
}

static void clocks_drop_job(struct sample *samples, size_t count, uint64_t job)
{
	for (size_t i = 0; i < count; i++) {
		struct sample *sample = &samples[i];
		size_t kept = 0;

		for (size_t k = 0; k < sample->marks; k++)
			if (sample->mark[k].job != job)
				sample->mark[kept++] = sample->mark[k];
		sample->marks = kept;
	}
}

/* A job that came to other nodes under the same word makes its steps once more, at another time: those of one node are
 * then not those of another, and give no clock offset. */
static int clocks_drop_moved(struct sample *samples, size_t count)
{
	struct owner *owner;
	size_t owners = 0;

	for (size_t i = 0; i < count; i++)
		owners += samples[i].owners;
	owner = calloc(owners + 1, sizeof(*owner));
	if (!owner)
		return -ENOMEM;
	owners = 0;
	for (size_t i = 0; i < count; i++) {
		if (samples[i].owners)
			memcpy(owner + owners, samples[i].owner, samples[i].owners * sizeof(*owner));
		owners += samples[i].owners;
	}
	qsort(owner, owners, sizeof(*owner), clocks_by_rank);
	for (size_t i = 1; i < owners; i++) {
		if (owner[i].job != owner[i - 1].job || owner[i].rank != owner[i - 1].rank ||
			owner[i].store == owner[i - 1].store)
			continue;
		clocks_drop_job(samples, count, owner[i].job);
		while (i + 1 < owners && owner[i + 1].job == owner[i].job)
			i++;
	}
	free(owner);
	return 0;
}

static size_t clocks_ends(const struct sample *sample, size_t first)
{
	size_t end = first;

	while (end < sample->marks && sample->mark[end].hash == sample->mark[first].hash)
		end++;
	return end - first;
}

/* Of each common mark, from each of its ends in b to each of those in a. Returns how many marks are common. */
static size_t clocks_differences(const struct sample *a, const struct sample *b, int64_t *ret, size_t *ret_count)
{
	size_t common = 0, count = 0;

	for (size_t i = 0, k = 0; i < a->marks && k < b->marks;) {
		size_t ours = clocks_ends(a, i), theirs = clocks_ends(b, k);

		if (a->mark[i].hash < b->mark[k].hash) {
			i += ours;
			continue;
		}
		if (a->mark[i].hash > b->mark[k].hash) {
			k += theirs;
			continue;
		}
		for (size_t pair = 0; pair < ours * theirs && count < DIFFERENCES_MAX; pair++)
			ret[count++] = a->mark[i + pair / theirs].end_ns - b->mark[k + pair % theirs].end_ns;
		common++;
		i += ours;
		k += theirs;
	}
	*ret_count = count;
	return common;
}

/* What to add to b's times, if most of what is common says the same. Two runs of a job, here and there, have several
 * differences: most often the one by which each run is beside itself; of equally many the smallest. */
static bool clocks_apart(const struct sample *a, const struct sample *b, int64_t *difference, int64_t *ret)
{
	size_t count, common = clocks_differences(a, b, difference, &count), most = 0;

	if (common < ENOUGH)
		return false;
	qsort(difference, count, sizeof(*difference), compare_i64);
	for (size_t first = 0, end = 0; first < count; first++) {
		int64_t median;

		while (end < count && difference[end] - difference[first] <= SPREAD_NS)
			end++;
		median = difference[first + (end - first) / 2];
		if (end - first < most || (end - first == most && llabs(median) >= llabs(*ret)))
			continue;
		most = end - first;
		*ret = median;
	}
	return 2 * most > common;
}

/* Each store beside one that has a place; the first one left is where others may find themselves. All pairs are
 * compared where no two have anything in common: 1,500 such stores take seconds, as much as reading one of them. */
static int clocks_place(struct clocks_store *stores, struct sample *samples, size_t count)
{
	int64_t *difference = calloc(DIFFERENCES_MAX, sizeof(*difference)), apart_ns = 0;
	size_t *queue = calloc(count + 1, sizeof(*queue)), queued = 0;

	for (size_t seed = 0, next = 0; difference && queue && seed < count; seed++) {
		if (samples[seed].placed)
			continue;
		samples[seed].placed = true;
		queue[queued++] = seed;
		for (; next < queued; next++)
			for (size_t i = seed + 1; i < count; i++) {
				if (samples[i].placed ||
					!clocks_apart(&samples[queue[next]], &samples[i], difference, &apart_ns))
					continue;
				samples[i].placed = true;
				stores[i].offset_ns = stores[queue[next]].offset_ns + apart_ns;
				queue[queued++] = i;
			}
	}
	for (size_t i = 0; i < count; i++)
		if (llabs(stores[i].offset_ns) < CLOCKS_APART_NS)
			stores[i].offset_ns = 0;
	free(queue);
	free(difference);
	return queue && difference ? 0 : -ENOMEM;
}

int clocks_compare(struct clocks_store *stores, size_t count)
{
	struct sample *samples = calloc(count + 1, sizeof(*samples));
	int r = samples ? 0 : -ENOMEM;

	for (size_t i = 0; i < count && r == 0; i++)
		r = clocks_read(&stores[i], (uint32_t)i, &samples[i]);
	if (r == 0)
		r = clocks_drop_moved(samples, count);
	if (r == 0)
		r = clocks_place(stores, samples, count);
	for (size_t i = 0; samples && i < count; i++) {
		free(samples[i].mark);
		free(samples[i].owner);
	}
	free(samples);
	return r;
}
