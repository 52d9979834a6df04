/* SPDX-License-Identifier: Apache-2.0 */
/* See store_ranks.h. Sorted by instance for finding, and by end for ending. */
#include "analyzers/offline/store_ranks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/store/reader.h"

#define FROM_START_NS 5000000000ULL /* seen that soon after its start, its steps are counted from the first */

struct store_ranks {
	size_t ranks, capacity;
	struct store_rank *rank;
	size_t *by_end;
	size_t ended; /* of by_end, so many were told */
	uint64_t left_out;
	const char *job;
};

static void copy(char *to, size_t size, const unsigned char *from)
{
	snprintf(to, size, "%s", from ? (const char *)from : "");
}

static int add_rank(void *arg, sqlite3_stmt *s)
{
	struct store_ranks *ranks = arg;
	struct store_rank *rank;

	if (ranks->ranks == STORE_FEED_RANKS_MAX) {
		ranks->left_out++;
		return 0;
	}
	if (ranks->ranks == ranks->capacity) {
		size_t capacity = ranks->capacity ? 2 * ranks->capacity : 64;
		struct store_rank *more = realloc(ranks->rank, capacity * sizeof(*more));

		if (!more)
			return -ENOMEM;
		ranks->rank = more;
		ranks->capacity = capacity;
	}
	rank = &ranks->rank[ranks->ranks++];
	*rank = (struct store_rank){
		.instance = sqlite3_column_int64(s, 0),
		.process = -1,
		.rank = sqlite3_column_int(s, 1),
		.world_size = (uint32_t)sqlite3_column_int64(s, 2),
		.start_ns = (uint64_t)sqlite3_column_int64(s, 6),
		.seen_ns = (uint64_t)sqlite3_column_int64(s, 7),
		.ended = sqlite3_column_int(s, 8) != 0,
		.pid = (uint32_t)sqlite3_column_int64(s, 9),
		.first_seen_ns = (uint64_t)sqlite3_column_int64(s, 10),
	};
	copy(rank->job, sizeof(rank->job), sqlite3_column_text(s, 3));
	copy(rank->host, sizeof(rank->host), sqlite3_column_text(s, 4));
	copy(rank->card, sizeof(rank->card), sqlite3_column_text(s, 5));
	return 0;
}

static struct store_rank *find(const struct store_ranks *ranks, int64_t instance)
{
	size_t low = 0, high = ranks->ranks;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (ranks->rank[middle].instance == instance)
			return &ranks->rank[middle];
		if (ranks->rank[middle].instance < instance)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

static enum comm_kind kind_of(const char *word)
{
	for (enum comm_kind kind = 0; *word && kind < COMM_KIND_MAX; kind++)
		if (strcmp(word, comm_kind_name(kind)) == 0)
			return kind;
	return COMM_KIND_UNCLEAR;
}

static int add_place(void *arg, sqlite3_stmt *s)
{
	struct store_ranks *ranks = arg;
	struct store_rank *rank = find(ranks, sqlite3_column_int64(s, 0));
	struct store_place *place;
	char kind[16];

	if (!rank)
		return 0;
	place = realloc(rank->place, (rank->places + 1) * sizeof(*place));
	if (!place)
		return -ENOMEM;
	rank->place = place;
	place += rank->places++;
	copy(place->communicator, sizeof(place->communicator), sqlite3_column_text(s, 1));
	copy(kind, sizeof(kind), sqlite3_column_text(s, 2));
	place->kind = kind_of(kind);
	place->members = (uint32_t)sqlite3_column_int64(s, 3);
	place->member = sqlite3_column_type(s, 4) == SQLITE_NULL ? -1 : sqlite3_column_int(s, 4);
	return 0;
}

static int each(struct reader *reader, const char *sql, int (*row)(void *arg, sqlite3_stmt *statement), void *arg,
	size_t max, char *error, size_t error_size)
{
	sqlite3_stmt *statement = NULL;
	int rc = SQLITE_DONE, r = reader_prepare(reader, sql, &statement, error, error_size);

	if (r < 0)
		return r;
	for (size_t i = 0; i < max && r == 0 && (rc = sqlite3_step(statement)) == SQLITE_ROW; i++)
		r = row(arg, statement);
	if (r < 0)
		snprintf(error, error_size, "out of memory");
	else if (rc != SQLITE_DONE && rc != SQLITE_ROW) {
		reader_error(reader, error, error_size);
		r = -EIO;
	}
	sqlite3_finalize(statement);
	return r;
}

static int by_instance(const void *a, const void *b)
{
	const struct store_rank *x = a, *y = b;

	return (x->instance > y->instance) - (x->instance < y->instance);
}

struct ending {
	uint64_t end_ns;
	size_t index;
};

static int by_end(const void *a, const void *b)
{
	const struct ending *x = a, *y = b;

	return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

static int sort_ends(struct store_ranks *ranks)
{
	struct ending *ending = calloc(ranks->ranks + 1, sizeof(*ending));

	ranks->by_end = calloc(ranks->ranks + 1, sizeof(*ranks->by_end));
	if (!ending || !ranks->by_end) {
		free(ending);
		return -ENOMEM;
	}
	for (size_t i = 0; i < ranks->ranks; i++)
		ending[i] = (struct ending){ranks->rank[i].ended ? ranks->rank[i].seen_ns : UINT64_MAX, i};
	qsort(ending, ranks->ranks, sizeof(*ending), by_end);
	for (size_t i = 0; i < ranks->ranks; i++)
		ranks->by_end[i] = ending[i].index;
	free(ending);
	return 0;
}

int store_ranks_open(const char *state_dir, const struct store_feed_options *options, struct store_ranks **ret,
	char *error, size_t error_size)
{
	struct reader_options reader_options = {.warning = NULL};
	struct store_ranks *ranks = calloc(1, sizeof(*ranks));
	struct reader *reader = NULL;
	int r;

	if (!ranks) {
		snprintf(error, error_size, "out of memory");
		return -ENOMEM;
	}
	ranks->job = options->job;
	r = reader_open(state_dir, &reader_options, &reader, error, error_size);
	if (r == 0)
		r = each(reader,
			"select instance, rank, world_size, job, host, card, start_time_ns, last_seen_ns, ended, pid, "
			"first_seen_ns"
			" from ranks where instance is not null",
			add_rank, ranks, SIZE_MAX, error, error_size);
	if (r == 0) {
		qsort(ranks->rank, ranks->ranks, sizeof(*ranks->rank), by_instance);
		r = each(reader,
			"select instance, communicator, kind, members, member from communicators where communicator is "
			"not null",
			add_place, ranks, STORE_PLACES_MAX, error, error_size);
	}
	if (r == 0)
		r = sort_ends(ranks);
	if (reader)
		reader_close(reader);
	if (r < 0) {
		store_ranks_close(ranks);
		return r;
	}
	*ret = ranks;
	return 0;
}

struct store_ranks *store_ranks_close(struct store_ranks *ranks)
{
	if (!ranks)
		return NULL;
	for (size_t i = 0; i < ranks->ranks; i++)
		free(ranks->rank[i].place);
	free(ranks->rank);
	free(ranks->by_end);
	free(ranks);
	return NULL;
}

void store_ranks_until(struct store_ranks *ranks, uint64_t time_ns, struct framer *framer)
{
	while (ranks->ended < ranks->ranks) {
		const struct store_rank *rank = &ranks->rank[ranks->by_end[ranks->ended]];

		if (!rank->ended || rank->seen_ns > time_ns)
			return;
		if (rank->process >= 0)
			framer_rank_end(framer, rank->process, rank->seen_ns);
		ranks->ended++;
	}
}

static void tell(struct store_rank *rank, struct framer *framer)
{
	const struct framer_rank told = {
		.job = rank->job,
		.rank = rank->rank,
		.world_size = rank->world_size,
		.host = rank->host,
		.card = rank->card,
		.start_ns = rank->start_ns,
		.from_start = rank->first_seen_ns < rank->start_ns + FROM_START_NS,
	};

	rank->process = framer_rank_new(framer, &told);
	for (size_t i = 0; i < rank->places && rank->process >= 0; i++)
		framer_comm(framer, rank->process, rank->place[i].communicator, rank->place[i].kind,
			rank->place[i].members, rank->place[i].member);
}

struct store_rank *store_ranks_find(struct store_ranks *ranks, int64_t instance, struct framer *framer)
{
	struct store_rank *rank = find(ranks, instance);

	if (!rank || (ranks->job && strcmp(ranks->job, rank->job) != 0))
		return NULL;
	if (!rank->told) {
		rank->told = true;
		tell(rank, framer);
	}
	return rank->process >= 0 ? rank : NULL;
}

int32_t store_rank_member(const struct store_rank *rank, const char *communicator)
{
	for (size_t i = 0; i < rank->places; i++)
		if (strcmp(rank->place[i].communicator, communicator) == 0)
			return rank->place[i].member;
	return -1;
}

void store_ranks_counts(const struct store_ranks *ranks, uint64_t *ret_ranks, uint64_t *ret_left_out)
{
	*ret_ranks = 0;
	for (size_t i = 0; i < ranks->ranks; i++)
		*ret_ranks += ranks->rank[i].told;
	*ret_left_out = ranks->left_out;
}
