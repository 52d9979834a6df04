/* SPDX-License-Identifier: Apache-2.0 */
/* See clocks.h. One store after the other is put in place beside all that are. */
#include "analyzers/offline/clocks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/offline/store_rows.h"
#include "analyzers/ops_hash.h"

#define KEPT 2048	       /* of a store, of operations and of steps */
#define ENOUGH 8	       /* in common */
#define SPREAD_NS 5000000000LL /* differences that lie farther from their median tell nothing, or a quarter of it */
#define OWNERS_MAX 16384
#define SQL_BYTES 512

enum { OPS, STEPS, KINDS };

struct clock_mark {
	uint64_t hash; /* of what is common */
	int64_t end_ns;
};

/* Those of the lowest hashes. */
struct marks {
	size_t count;
	uint64_t limit; /* of hashes that are wanted */
	struct clock_mark mark[2 * KEPT];
};

struct clocks_sample {
	bool placed;
	struct marks marks[KINDS];
};

/* Marks of all stores that are in place, by the first one's clock. */
struct placed {
	size_t count, room;
	struct clock_mark *mark;
};

static int by_hash(const void *a, const void *b)
{
	const struct clock_mark *x = a, *y = b;

	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

/* One a hash, the earliest. */
static size_t sort_unique(struct clock_mark *mark, size_t count)
{
	size_t kept = 0;

	if (count)
		qsort(mark, count, sizeof(*mark), by_hash);
	for (size_t i = 0; i < count; i++)
		if (!kept || mark[kept - 1].hash != mark[i].hash)
			mark[kept++] = mark[i];
	return kept;
}

static void tidy(struct marks *marks)
{
	marks->count = sort_unique(marks->mark, marks->count);
	if (marks->count > KEPT)
		marks->count = KEPT;
	if (marks->count == KEPT)
		marks->limit = marks->mark[KEPT - 1].hash;
}

static void add(struct marks *marks, uint64_t hash, int64_t end_ns)
{
	if (hash >= marks->limit || end_ns <= 0)
		return;
	marks->mark[marks->count++] = (struct clock_mark){hash, end_ns};
	if (marks->count == 2 * KEPT)
		tidy(marks);
}

static uint64_t hash_of(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325ULL;

	for (size_t i = 0; text && text[i] && i < 256; i++)
		hash = ops_mix(hash, (unsigned char)text[i]);
	return hash;
}

/* A process whose steps have numbers that mean the same on all ranks of its job. */
struct owner {
	int64_t instance;
	uint64_t job; /* hash of what is equal on all ranks */
};

struct owners {
	size_t count;
	struct owner owner[OWNERS_MAX];
};

static int by_instance(const void *a, const void *b)
{
	const struct owner *x = a, *y = b;

	return (x->instance > y->instance) - (x->instance < y->instance);
}

static void read_owners(struct reader *reader, struct owners *owners)
{
	sqlite3_stmt *statement = NULL;
	char sql[SQL_BYTES], error[256];

	owners->count = 0;
	snprintf(sql, sizeof(sql),
		"select instance, job, world_size from ranks where rank is not null and world_size > 1 and instance is"
		" not null and first_seen_ns < start_time_ns + %llu",
		STORE_FROM_START_NS);
	if (reader_prepare(reader, sql, &statement, error, sizeof(error)) < 0)
		return;
	while (owners->count < OWNERS_MAX && sqlite3_step(statement) == SQLITE_ROW) {
		uint64_t job = ops_mix(hash_of((const char *)sqlite3_column_text(statement, 1)),
			(uint64_t)sqlite3_column_int64(statement, 2));

		owners->owner[owners->count++] = (struct owner){sqlite3_column_int64(statement, 0), job};
	}
	sqlite3_finalize(statement);
	qsort(owners->owner, owners->count, sizeof(owners->owner[0]), by_instance);
}

struct sampling {
	const struct clocks_store *store;
	struct reader *reader;
	const struct owners *owners;
};

/* Whose a step is. */
static bool whose(const struct owners *owners, int64_t instance, uint64_t *ret)
{
	const struct owner key = {.instance = instance};
	const struct owner *owner = bsearch(&key, owners->owner, owners->count, sizeof(key), by_instance);

	if (owner)
		*ret = owner->job;
	return owner;
}

static void add_step(const struct sampling *sampling, struct reader_scan *scan, struct marks *marks)
{
	const struct reader_row *row = reader_scan_row(scan);
	uint64_t job;

	if (whose(sampling->owners, row->value[STORE_INSTANCE], &job))
		add(marks, ops_mix(job, (uint64_t)row->value[STORE_STEP_STEP]),
			store_tables[STORE_STEPS].time_ns(scan));
}

static void add_op(const struct sampling *sampling, struct reader_scan *scan, struct marks *marks)
{
	const struct reader_row *row = reader_scan_row(scan);
	const struct store_table *table = &store_tables[STORE_OPS];

	(void)sampling;
	if (!reader_row_has(row, STORE_OP_PEER) && table->tells(scan))
		add(marks,
			ops_mix(hash_of(reader_scan_text(scan, STORE_OP_COMMUNICATOR)),
				(uint64_t)row->value[STORE_OP_SEQ]),
			table->time_ns(scan));
}

static void read_marks(const struct sampling *sampling, size_t table,
	void (*row)(const struct sampling *sampling, struct reader_scan *scan, struct marks *marks),
	struct marks *marks)
{
	const struct clocks_store *store = sampling->store;
	int64_t since_ns = store->since_ns ? (int64_t)store->since_ns : INT64_MIN,
		until_ns = store->until_ns ? (int64_t)store->until_ns : INT64_MAX;
	struct reader_scan *scan = NULL;
	char error[256];

	marks->limit = UINT64_MAX;
	if (reader_scan_open(sampling->reader, &store_tables[table].scanning, &scan) < 0)
		return;
	if (reader_scan_begin(scan, since_ns, until_ns, error, sizeof(error)) == 0)
		while (reader_scan_next(scan) > 0)
			row(sampling, scan, marks);
	reader_scan_close(scan);
	tidy(marks);
}

static void read_all(struct clocks_store *store, struct reader *reader, struct owners *owners)
{
	const struct sampling sampling = {store, reader, owners};

	read_marks(&sampling, STORE_OPS, add_op, &store->sample->marks[OPS]);
	read_owners(reader, owners);
	read_marks(&sampling, STORE_STEPS, add_step, &store->sample->marks[STEPS]);
}

static int sample(struct clocks_store *store)
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
		read_all(store, reader, owners);
		reader_close(reader);
	}
	free(owners);
	return 0;
}

static const struct clock_mark *find(const struct placed *placed, uint64_t hash)
{
	size_t low = 0, high = placed->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (placed->mark[middle].hash < hash)
			low = middle + 1;
		else
			high = middle;
	}
	return low < placed->count && placed->mark[low].hash == hash ? &placed->mark[low] : NULL;
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

/* What to add to the store's times, where enough is common and says the same. */
static bool compare(const struct placed *placed, const struct marks *marks, int64_t *ret)
{
	int64_t apart[KEPT], offset_ns, spread_ns;
	size_t count = 0;

	for (size_t i = 0; i < marks->count && count < KEPT; i++) {
		const struct clock_mark *theirs = find(placed, marks->mark[i].hash);

		if (theirs && !__builtin_sub_overflow(theirs->end_ns, marks->mark[i].end_ns, &apart[count]))
			count++;
	}
	if (count < ENOUGH)
		return false;
	offset_ns = median(apart, count);
	for (size_t i = 0; i < count; i++)
		if (__builtin_sub_overflow(apart[i], offset_ns, &apart[i]) || apart[i] == INT64_MIN)
			apart[i] = INT64_MAX;
		else
			apart[i] = llabs(apart[i]);
	spread_ns = median(apart, count);
	*ret = offset_ns;
	return spread_ns <= SPREAD_NS || spread_ns <= llabs(offset_ns) / 4;
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
	placed->count = sort_unique(placed->mark, placed->count);
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
		r = sample(&stores[i]);
	if (r == 0)
		r = place_all(placed, stores, count);
	for (int kind = 0; kind < KINDS; kind++)
		free(placed[kind].mark);
	for (size_t i = 0; i < count; i++) {
		free(stores[i].sample);
		stores[i].sample = NULL;
	}
	return r;
}
