/* SPDX-License-Identifier: Apache-2.0 */
/* A profile from the tables profiles, samples, call_stacks, steps and stages. */
#include "analyzers/flame/flame.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"
#include "analyzers/store/rank_table.h"

#define FLAME_ROWS_MAX 65536 /* of the table profiles: a rank a row; hourly ones of 8 ranks for a year */
#define FLAME_AROUND_NS INT64_C(60000000000) /* stages and intervals off the CPU that began before the profile */

struct flame_row {
	int64_t number, start_ns, duration_ns, rank, instance;
	uint64_t frequency_hz, samples, refused, lost;
	double read_share;
	char reason[FLAME_NAME_BYTES], job[FLAME_NAME_BYTES], host[FLAME_NAME_BYTES];
};

struct flame_rows {
	struct flame_row *row;
	size_t count, capacity;
};

struct flame_reading {
	struct profile *profile;
	struct flame_source *source;
};

static void flame_copy(char ret[FLAME_NAME_BYTES], const char *text)
{
	snprintf(ret, FLAME_NAME_BYTES, "%s", text ? text : "");
}

static int flame_take_row(void *arg, sqlite3_stmt *s)
{
	struct flame_rows *rows = arg;
	struct flame_row *row;

	if (!array_reserve((void **)&rows->row, &rows->capacity, rows->count + 1, sizeof(*row), FLAME_ROWS_MAX))
		return -ENOMEM;
	row = &rows->row[rows->count++];
	*row = (struct flame_row){
		.number = sqlite3_column_int64(s, 0),
		.start_ns = sqlite3_column_int64(s, 1),
		.duration_ns = sqlite3_column_int64(s, 2),
		.rank = sqlite3_column_int64(s, 3),
		.instance = sqlite3_column_int64(s, 4),
		.frequency_hz = (uint64_t)sqlite3_column_int64(s, 5),
		.samples = (uint64_t)sqlite3_column_int64(s, 6),
		.refused = (uint64_t)sqlite3_column_int64(s, 7),
		.lost = (uint64_t)sqlite3_column_int64(s, 8),
		.read_share = sqlite3_column_type(s, 10) == SQLITE_NULL ? 1 : sqlite3_column_double(s, 10),
	};
	flame_copy(row->reason, (const char *)sqlite3_column_text(s, 9));
	/* Times that cannot be are not compared with. */
	if (row->start_ns < 0 || row->duration_ns < 0 || row->start_ns > INT64_MAX / 4 ||
		row->duration_ns > INT64_MAX / 4)
		rows->count--;
	return rows->count >= FLAME_ROWS_MAX ? 1 : 0;
}

static int flame_take_job(void *arg, const struct rank_row *rank)
{
	struct flame_rows *rows = arg;

	for (size_t i = 0; rank->has_instance && i < rows->count; i++)
		if (rows->row[i].instance == rank->instance) {
			flame_copy(rows->row[i].job, rank->job);
			flame_copy(rows->row[i].host, rank->host);
		}
	return 0;
}

static bool flame_fits(const struct flame_choice *choice, const struct flame_row *row)
{
	return (!choice->number || row->number == choice->number) && ranges_have(&choice->ranks, row->rank) &&
	       (!choice->before_ns || row->start_ns + row->duration_ns <= choice->before_ns) &&
	       row->start_ns >= choice->since_ns && (!choice->instance || row->instance == choice->instance) &&
	       (!choice->usual || strcmp(row->reason, "suspected") != 0) &&
	       (!choice->job || strcmp(row->job, choice->job) == 0);
}

/* Rows of one profile begin together; a daemon that starts again may count from 1. */
static bool flame_is_of(const struct flame_row *row, const struct flame_row *chosen)
{
	return row->number == chosen->number && row->start_ns - chosen->start_ns < FLAME_AROUND_NS &&
	       chosen->start_ns - row->start_ns < FLAME_AROUND_NS;
}

static int flame_sentence(char *error, size_t error_size, int r, const char *sentence)
{
	snprintf(error, error_size, "%s", sentence);
	return r;
}

static int flame_no_profile(
	const struct flame_choice *choice, const struct flame_rows *rows, char *error, size_t error_size)
{
	if (!rows->count)
		return flame_sentence(
			error, error_size, -ENOENT, "the store has no profile; tracectl profile takes one");
	if (choice->number)
		snprintf(error, error_size, "the store has no profile %" PRId64 " of these ranks", choice->number);
	else
		snprintf(error, error_size, "none of the %zu stored profiles of ranks is of %s", rows->count,
			choice->job ? "this job and these ranks, at that time" : "these ranks, at that time");
	return -ENOENT;
}

static int flame_rank_order(const void *a, const void *b)
{
	const struct flame_rank *x = a, *y = b;

	return (x->rank > y->rank) - (x->rank < y->rank);
}

static int flame_take_ranks(const struct flame_choice *choice, const struct flame_rows *rows,
	const struct flame_row *chosen, bool past, struct flame_source *source)
{
	source->rank = calloc(rows->count + 1, sizeof(*source->rank));
	if (!source->rank)
		return -ENOMEM;
	source->number = chosen->number;
	source->frequency_hz = chosen->frequency_hz;
	source->start_ns = chosen->start_ns;
	source->end_ns = chosen->start_ns + chosen->duration_ns;
	flame_copy(source->reason, chosen->reason);
	for (size_t i = 0; i < rows->count && source->ranks < FLAME_RANKS_MAX; i++) {
		const struct flame_row *row = &rows->row[i];

		if (!flame_is_of(row, chosen) || (choice->job && strcmp(row->job, choice->job) != 0))
			continue;
		if (choice->peers ? strcmp(row->job, chosen->job) != 0 : !ranges_have(&choice->ranks, row->rank))
			continue;
		source->rank[source->ranks] = (struct flame_rank){.rank = row->rank,
			.id = past ? row->rank + FLAME_PAST : row->rank,
			.instance = row->instance,
			.start_ns = row->start_ns,
			.duration_ns = row->duration_ns,
			.samples = row->samples,
			.refused = row->refused,
			.lost = row->lost,
			.read_share = row->read_share};
		flame_copy(source->rank[source->ranks].job, row->job);
		flame_copy(source->rank[source->ranks++].host, row->host);
		if (row->start_ns < source->start_ns)
			source->start_ns = row->start_ns;
		if (row->start_ns + row->duration_ns > source->end_ns)
			source->end_ns = row->start_ns + row->duration_ns;
	}
	qsort(source->rank, source->ranks, sizeof(*source->rank), flame_rank_order);
	return 0;
}

/* Ranks of two jobs may have one number. */
static int flame_check_ranks(const struct flame_source *source, char *error, size_t error_size)
{
	for (size_t i = 1; i < source->ranks; i++)
		if (source->rank[i].rank == source->rank[i - 1].rank &&
			source->rank[i].instance != source->rank[i - 1].instance) {
			snprintf(error, error_size,
				"profile %" PRId64 " has rank %" PRId64 " of two jobs (%s, %s); choose one with --job",
				source->number, source->rank[i].rank, source->rank[i - 1].job, source->rank[i].job);
			return -EINVAL;
		}
	return 0;
}

static int flame_choose(struct reader *reader, const struct flame_choice *choice, bool past,
	struct flame_source *source, char *error, size_t error_size)
{
	struct flame_rows rows = {.count = 0};
	const struct flame_row *chosen = NULL;
	int r = reader_each(reader,
		"SELECT profile, start_ns, duration_ns, rank, instance, frequency_hz, samples, refused, lost, reason, "
		"read_share FROM profiles",
		flame_take_row, &rows, error, error_size);

	if (r == 0)
		r = rank_table_read(reader, flame_take_job, &rows, error, error_size);
	for (size_t i = 0; r == 0 && i < rows.count; i++)
		if (flame_fits(choice, &rows.row[i]) && (!chosen || rows.row[i].start_ns > chosen->start_ns))
			chosen = &rows.row[i];
	if (r == 0 && !chosen)
		r = flame_no_profile(choice, &rows, error, error_size);
	if (r == 0)
		r = flame_take_ranks(choice, &rows, chosen, past, source);
	if (r == -ENOMEM)
		(void)flame_sentence(error, error_size, r, "out of memory");
	free(rows.row);
	return r == 0 ? flame_check_ranks(source, error, error_size) : r;
}

/* Of the chosen ranks; NULL: another one's. */
static const struct flame_rank *flame_rank_of(const struct flame_source *source, int64_t instance)
{
	for (size_t i = 0; i < source->ranks; i++)
		if (source->rank[i].instance == instance)
			return &source->rank[i];
	return NULL;
}

/* What does not fit is counted. */
static int flame_added(struct flame_reading *reading, int r)
{
	reading->source->limited += r == -ENOSPC;
	return r == -ENOSPC ? 0 : r;
}

static int flame_take_stack(void *arg, sqlite3_stmt *s)
{
	struct flame_reading *reading = arg;
	const char *frames = (const char *)sqlite3_column_text(s, 1);

	return flame_added(reading, profile_add_stack(reading->profile, sqlite3_column_int64(s, 0),
					    frames ? frames : "", (unsigned)sqlite3_column_int64(s, 2)));
}

static int flame_take_step(void *arg, sqlite3_stmt *s)
{
	struct flame_reading *reading = arg;
	const struct flame_rank *rank = flame_rank_of(reading->source, sqlite3_column_int64(s, 0));

	if (!rank)
		return 0;
	return flame_added(reading,
		profile_add_step(reading->profile, rank->id, sqlite3_column_int64(s, 1), sqlite3_column_int64(s, 2)));
}

static int flame_take_stage(void *arg, sqlite3_stmt *s)
{
	struct flame_reading *reading = arg;
	const struct flame_rank *rank = flame_rank_of(reading->source, sqlite3_column_int64(s, 0));
	const char *stage = (const char *)sqlite3_column_text(s, 4);

	if (!rank)
		return 0;
	return flame_added(
		reading, profile_add_stage(reading->profile, rank->id, sqlite3_column_int64(s, 3), stage ? stage : "",
				 sqlite3_column_int64(s, 1), sqlite3_column_int64(s, 2)));
}

static int flame_take_sample(void *arg, sqlite3_stmt *s)
{
	struct flame_reading *reading = arg;
	const struct flame_rank *rank = flame_rank_of(reading->source, sqlite3_column_int64(s, 0));
	const char *name = (const char *)sqlite3_column_text(s, 5), *kind = (const char *)sqlite3_column_text(s, 7);
	struct profile_sample sample = {
		.start_ns = sqlite3_column_int64(s, 1),
		.weight_ns = sqlite3_column_int64(s, 2),
		.duration_ns = sqlite3_column_int64(s, 8),
		.stack = sqlite3_column_int64(s, 3),
		.thread_id = sqlite3_column_int64(s, 4),
		.thread_name = name ? name : "",
		.main = sqlite3_column_int64(s, 6) != 0,
		.off_cpu = kind && strcmp(kind, "off_cpu") == 0,
	};

	if (!rank)
		return 0;
	sample.rank = rank->id;
	return flame_added(reading, profile_add_sample(reading->profile, &sample));
}

/* The parts, in the order in which the profile wants them. */
static const struct {
	const char *select, *end;
	bool of_profile; /* has the column */
	int (*take)(void *arg, sqlite3_stmt *s);
} flame_parts[] = {
	{"SELECT instance, start_ns, duration_ns, thread_id, stage FROM stages", "", false, flame_take_stage},
	{"SELECT instance, start_ns, duration_ns FROM steps", "", false, flame_take_step},
	{"SELECT id, frames, cut FROM call_stacks WHERE id IN (SELECT stack FROM samples", ")", true, flame_take_stack},
	{"SELECT instance, start_ns, weight_ns, stack, thread_id, thread_name, main, kind, duration_ns FROM samples",
		" AND stack IS NOT NULL", true, flame_take_sample},
};

int flame_read(struct reader *reader, const struct flame_choice *choice, bool past, struct profile *profile,
	struct flame_source *ret, char *error, size_t error_size)
{
	struct flame_reading reading = {.profile = profile, .source = ret};
	char sql[512], of[64];
	int r;

	*ret = (struct flame_source){.ranks = 0};
	r = flame_choose(reader, choice, past, ret, error, error_size);
	snprintf(of, sizeof(of), " AND profile = %" PRId64, ret->number);
	for (size_t i = 0; r == 0 && i < sizeof(flame_parts) / sizeof(flame_parts[0]); i++) {
		snprintf(sql, sizeof(sql), "%s WHERE start_ns >= %" PRId64 " AND start_ns < %" PRId64 "%s%s",
			flame_parts[i].select, ret->start_ns - FLAME_AROUND_NS, ret->end_ns,
			flame_parts[i].of_profile ? of : "", flame_parts[i].end);
		r = reader_each(reader, sql, flame_parts[i].take, &reading, error, error_size);
	}
	if (r < 0)
		flame_source_free(ret);
	return r;
}

void flame_source_free(struct flame_source *source)
{
	free(source->rank);
	*source = (struct flame_source){.ranks = 0};
}
