/* SPDX-License-Identifier: Apache-2.0 */
/* What of a store may be common with others, and whose it is. */
#include "analyzers/offline/clocks_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyzers/offline/store_rows.h"
#include "analyzers/ops_hash.h"

#define OWNERS_MAX 16384
#define SQL_BYTES 512

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
		hash = coll_mix(hash, (unsigned char)text[i]);
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

static void read_owners(struct reader *reader, struct owners *owners)
{
	sqlite3_stmt *statement = NULL;
	char sql[SQL_BYTES], error[256];

	owners->count = 0;
	snprintf(sql, sizeof(sql),
		"select instance, job, world_size, rank, first_seen_ns < start_time_ns + %llu from ranks"
		" where rank is not null and world_size > 1 and instance is not null and job <> ''",
		STORE_FROM_START_NS);
	if (reader_prepare(reader, sql, &statement, error, sizeof(error)) < 0)
		return;
	while (owners->count < OWNERS_MAX && sqlite3_step(statement) == SQLITE_ROW)
		owners->owner[owners->count++] = (struct owner){
			.instance = sqlite3_column_int64(statement, 0),
			.job = coll_mix(clocks_marks_hash_of((const char *)sqlite3_column_text(statement, 1)),
				(uint64_t)sqlite3_column_int64(statement, 2)),
			.rank = sqlite3_column_int(statement, 3),
			.counts = sqlite3_column_int(statement, 4) != 0,
		};
	sqlite3_finalize(statement);
	qsort(owners->owner, owners->count, sizeof(owners->owner[0]), clocks_marks_by_instance);
}

struct sampling {
	const struct clocks_store *store;
	struct reader *reader;
	struct owners *owners;
};

/* Whose a step is. */
static bool whose(struct owners *owners, int64_t instance, uint64_t *ret)
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

	if (whose(sampling->owners, row->value[STORE_INSTANCE], &job))
		clocks_marks_add(marks, &(struct clock_mark){
				   .hash = coll_mix(job, (uint64_t)row->value[STORE_STEP_STEP]),
				   .end_ns = store_tables[STORE_STEPS].time_ns(scan),
				   .job = job,
			   });
}

static void clocks_marks_add_op(const struct sampling *sampling, struct reader_scan *scan, struct marks *marks)
{
	const struct reader_row *row = reader_scan_row(scan);
	const struct store_table *table = &store_tables[STORE_OPS];

	(void)sampling;
	if (!reader_row_has(row, STORE_OP_PEER) && table->tells(scan))
		clocks_marks_add(marks, &(struct clock_mark){
				   .hash = coll_mix(clocks_marks_hash_of(reader_scan_text(scan, STORE_OP_COMMUNICATOR)),
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
