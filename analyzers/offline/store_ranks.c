/* SPDX-License-Identifier: Apache-2.0 */
/* See store_ranks.h. Sorted by instance for finding; two lists in the order of time, of those who begin and who end. */
#include "analyzers/offline/store_ranks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"
#include "analyzers/offline/merge.h"
#include "analyzers/store/rank_table.h"

struct moment {
	uint64_t time_ns; /* UINT64_MAX: never */
	size_t index;
};

struct store_ranks {
	size_t ranks, capacity;
	struct store_rank *rank;
	struct moment *begin, *end;
	size_t begun, over; /* so many of each are past */
	size_t comm_rows;   /* rows of communicators so far */
	uint64_t left_out;
	size_t calls;	  /* in memory */
	uint64_t last_ns; /* that any of them is known to have lived */
	struct store_feed_options options;
};

static void store_ranks_copy(char *to, size_t size, const unsigned char *from)
{
	snprintf(to, size, "%s", from ? (const char *)from : "");
}

/* Processes without a rank are none of the job's. */
static int store_ranks_add_rank(void *arg, const struct rank_row *row)
{
	struct store_ranks *ranks = arg;
	struct store_rank *rank;

	if (!row->has_instance || row->rank < 0)
		return 0;
	if (ranks->ranks == STORE_FEED_RANKS_MAX) {
		ranks->left_out++;
		return 0;
	}
	if (!array_reserve(
		    (void **)&ranks->rank, &ranks->capacity, ranks->ranks + 1, sizeof(*rank), STORE_FEED_RANKS_MAX))
		return -ENOMEM;
	rank = &ranks->rank[ranks->ranks++];
	*rank = (struct store_rank){
		.instance = row->instance,
		.process = -1,
		.number = -1,
		.rank = (int32_t)row->rank,
		.world_size = row->world_size > 0 ? (uint32_t)row->world_size : 0,
		.start_ns = store_feed_time(&ranks->options, row->start_ns),
		.seen_ns = store_feed_time(&ranks->options, row->last_seen_ns),
		.ended = row->ended,
		.pid = (uint32_t)row->pid,
		.first_seen_ns = store_feed_time(&ranks->options, row->first_seen_ns),
		.uid = row->uid < 0 ? ALIGN_UID_UNKNOWN : (uint32_t)row->uid,
		.launcher = row->launcher_pid > 0 ? (uint64_t)row->launcher_pid : 0,
		.port = row->port > 0 && row->port <= UINT16_MAX ? (uint16_t)row->port : 0,
	};
	snprintf(rank->job, sizeof(rank->job), "%s", row->job);
	snprintf(rank->host, sizeof(rank->host), "%s", row->host);
	snprintf(rank->card, sizeof(rank->card), "%s", row->card);
	return 0;
}

static struct store_rank *store_ranks_find_one(const struct store_ranks *ranks, int64_t instance)
{
	struct store_rank *rank = ranks->rank;
	size_t at;

	if (!ranks->ranks)
		return NULL;
	/* They are numbered one after the other, unless retention has taken some away. */
	at = (size_t)((uint64_t)instance - (uint64_t)rank->instance);
	if (at >= ranks->ranks || rank[at].instance != instance)
		at = array_first_not(i, ranks->ranks, rank[i].instance < instance);
	return at < ranks->ranks && rank[at].instance == instance ? &rank[at] : NULL;
}

static enum comm_kind store_ranks_kind_of(const char *word)
{
	for (enum comm_kind kind = 0; *word && kind < COMM_KIND_MAX; kind++)
		if (strcmp(word, comm_kind_name(kind)) == 0)
			return kind;
	return COMM_KIND_UNCLEAR;
}

static int store_ranks_add_place(void *arg, sqlite3_stmt *s)
{
	struct store_ranks *ranks = arg;
	struct store_rank *rank = store_ranks_find_one(ranks, sqlite3_column_int64(s, 0));
	struct store_place *place;
	char kind[16];

	if (ranks->comm_rows++ == STORE_PLACES_MAX)
		return 1;
	if (!rank)
		return 0;
	if (!array_reserve(
		    (void **)&rank->place, &rank->places_capacity, rank->places + 1, sizeof(*place), STORE_PLACES_MAX))
		return -ENOMEM;
	place = &rank->place[rank->places++];
	store_ranks_copy(place->communicator, sizeof(place->communicator), sqlite3_column_text(s, 1));
	store_ranks_copy(kind, sizeof(kind), sqlite3_column_text(s, 2));
	place->next = 0;
	place->calls = NULL;
	place->kind = store_ranks_kind_of(kind);
	place->members = (uint32_t)sqlite3_column_int64(s, 3);
	place->member = sqlite3_column_type(s, 4) == SQLITE_NULL ? -1 : sqlite3_column_int(s, 4);
	return 0;
}

static int store_ranks_by_communicator(const void *a, const void *b)
{
	const struct store_place *x = a, *y = b;

	return strcmp(x->communicator, y->communicator);
}

static int store_ranks_by_time(const void *a, const void *b)
{
	const struct moment *x = a, *y = b;

	return ORDER(x->time_ns, y->time_ns) ?: ORDER(x->index, y->index);
}

static bool store_ranks_is_wanted(const struct store_ranks *ranks, const struct store_rank *rank)
{
	const struct store_feed_options *options = &ranks->options;

	if (options->job && strcmp(options->job, rank->job) != 0)
		return false;
	if (options->until_ns && rank->first_seen_ns >= options->until_ns)
		return false;
	return !rank->ended || rank->seen_ns >= options->since_ns;
}

/* Lifetime of each by its rows. After its clock was set back, the end has an earlier time than what came before. */
static void store_ranks_lived(struct store_ranks *ranks, struct reader_scan *scan)
{
	char error[256];

	if (store_feed_begin(scan, &ranks->options, error, sizeof(error)) < 0)
		return;
	while (reader_scan_next(scan) > 0) {
		const struct reader_row *row = reader_scan_row(scan);
		struct store_rank *rank = store_ranks_find_one(ranks, row->value[0]);
		uint64_t start_ns = store_feed_time(&ranks->options, row->value[1]), end_ns = start_ns;

		if (!rank || !start_ns || row->value[3])
			continue; /* a standing of one that has ended */
		if (row->value[2] > 0 && (uint64_t)row->value[2] < STORE_FEED_LONGEST_NS)
			end_ns += (uint64_t)row->value[2];
		if (!rank->since_ns || start_ns < rank->since_ns)
			rank->since_ns = start_ns;
		if (end_ns > rank->until_ns)
			rank->until_ns = end_ns;
		if (end_ns > ranks->last_ns)
			ranks->last_ns = end_ns;
		if (rank->ended && rank->seen_ns <= end_ns)
			rank->seen_ns = end_ns + 1;
	}
}

static int store_ranks_read_lives(struct store_ranks *ranks, struct reader *reader)
{
	static const struct reader_scanning tables[] = {
		{.table = TABLE_HOST_SAMPLES, .columns = {"instance", "start_ns", "duration_ns", ""}},
		{.table = TABLE_STEPS, .columns = {"instance", "start_ns", "duration_ns", ""}},
		{.table = TABLE_STANDINGS, .columns = {"instance", "start_ns", "", "ended_ns"}},
	};
	int r = 0;

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]) && r == 0; i++) {
		struct reader_scan *scan = NULL;

		r = reader_scan_open(reader, &tables[i], &scan);
		if (r == 0)
			store_ranks_lived(ranks, scan);
		reader_scan_close(scan);
	}
	return r;
}

static int make_lists(struct store_ranks *ranks)
{
	ranks->begin = calloc(ranks->ranks + 1, sizeof(*ranks->begin));
	ranks->end = calloc(ranks->ranks + 1, sizeof(*ranks->end));
	if (!ranks->begin || !ranks->end)
		return -ENOMEM;
	for (size_t i = 0; i < ranks->ranks; i++) {
		struct store_rank *rank = &ranks->rank[i];

		rank->wanted = store_ranks_is_wanted(ranks, rank);
		ranks->begin[i] = (struct moment){rank->wanted ? rank->first_seen_ns : UINT64_MAX, i};
		ranks->end[i] = (struct moment){rank->wanted && rank->ended ? rank->seen_ns : UINT64_MAX, i};
		if (rank->places)
			qsort(rank->place, rank->places, sizeof(*rank->place), store_ranks_by_communicator);
	}
	qsort(ranks->begin, ranks->ranks, sizeof(*ranks->begin), store_ranks_by_time);
	qsort(ranks->end, ranks->ranks, sizeof(*ranks->end), store_ranks_by_time);
	return 0;
}

int store_ranks_open(struct reader *reader, const struct store_feed_options *options, struct store_ranks **ret,
	char *error, size_t error_size)
{
	struct store_ranks *ranks = calloc(1, sizeof(*ranks));
	int r;

	if (!ranks) {
		snprintf(error, error_size, "out of memory");
		return -ENOMEM;
	}
	ranks->options = *options;
	r = rank_table_read(reader, store_ranks_add_rank, ranks, error, error_size);
	if (r == 0 && ranks->ranks)
		r = reader_each(reader,
			"select instance, communicator, kind, members, member from communicators where communicator is "
			"not null",
			store_ranks_add_place, ranks, error, error_size);
	if (r == 0) {
		r = store_ranks_read_lives(ranks, reader);
		if (r == 0)
			r = make_lists(ranks);
		if (r < 0)
			snprintf(error, error_size, "out of memory");
	}
	if (r < 0) {
		store_ranks_close(ranks);
		return r;
	}
	*ret = ranks;
	return 0;
}

static void store_ranks_free_calls(struct store_place *place)
{
	if (place->calls)
		free(place->calls->call);
	free(place->calls);
}

struct store_ranks *store_ranks_close(struct store_ranks *ranks)
{
	if (!ranks)
		return NULL;
	for (size_t i = 0; i < ranks->ranks; i++) {
		for (size_t k = 0; k < ranks->rank[i].places; k++)
			store_ranks_free_calls(&ranks->rank[i].place[k]);
		free(ranks->rank[i].place);
	}
	free(ranks->rank);
	free(ranks->begin);
	free(ranks->end);
	free(ranks);
	return NULL;
}

static uint64_t next_of(const struct store_ranks *ranks, const struct moment *list, size_t past)
{
	return past < ranks->ranks ? list[past].time_ns : UINT64_MAX;
}

uint64_t store_ranks_next(const struct store_ranks *ranks)
{
	uint64_t begin_ns = next_of(ranks, ranks->begin, ranks->begun),
		 end_ns = next_of(ranks, ranks->end, ranks->over);

	return begin_ns < end_ns ? begin_ns : end_ns;
}

static void store_ranks_end(struct store_rank *rank, uint64_t end_ns, struct align *align)
{
	if (rank->process >= 0)
		align_rank_end(align, rank->process, end_ns);
	rank->process = -1;
}

/* Samples of ranks end one after the other. */
uint64_t store_ranks_known(const struct store_ranks *ranks, uint64_t *ret_end_ns)
{
	uint64_t until_ns = ranks->options.until_ns, known_ns = UINT64_MAX;

	*ret_end_ns = 0;
	for (size_t i = 0; i < ranks->ranks; i++) {
		const struct store_rank *rank = &ranks->rank[i];
		uint64_t end_ns = rank->ended ? rank->seen_ns : rank->until_ns;

		if (end_ns > *ret_end_ns)
			*ret_end_ns = end_ns;
	}
	if (until_ns && *ret_end_ns > until_ns)
		*ret_end_ns = until_ns;
	for (size_t i = 0; i < ranks->ranks; i++) {
		const struct store_rank *rank = &ranks->rank[i];

		if (!rank->ended && rank->until_ns && rank->until_ns + MERGE_ENDS_NS >= *ret_end_ns &&
			rank->until_ns < known_ns)
			known_ns = rank->until_ns;
	}
	return known_ns;
}

/* When it was there: another daemon that goes on watching it has seen it first at its own start. */
static uint64_t store_rank_begin(const struct store_rank *rank)
{
	return rank->since_ns && rank->since_ns < rank->first_seen_ns ? rank->since_ns : rank->first_seen_ns;
}

/* Its rows go on after the other one began, or go to the end of all, but for the sample that is being taken. */
static bool lives_beside(const struct store_ranks *ranks, const struct store_rank *rank, const struct store_rank *next)
{
	return rank->until_ns >= store_rank_begin(next) ||
	       (rank->until_ns && rank->until_ns + MERGE_ENDS_NS >= ranks->last_ns);
}

/* The one that had this rank and of which no end is known has ended, unless it lives. */
static void end_before(struct store_ranks *ranks, const struct store_rank *next, struct align *align)
{
	for (size_t i = 0; i < ranks->begun; i++) {
		struct store_rank *rank = &ranks->rank[ranks->begin[i].index];

		if (rank != next && rank->process >= 0 && !rank->ended && rank->rank == next->rank &&
			rank->world_size == next->world_size && rank->uid == next->uid &&
			rank->start_ns < next->start_ns && strcmp(rank->job, next->job) == 0 &&
			!lives_beside(ranks, rank, next))
			store_ranks_end(rank, rank->row_ns > next->start_ns ? next->start_ns : rank->row_ns, align);
	}
}

static void store_ranks_announce(struct store_ranks *ranks, struct store_rank *rank, struct align *align)
{
	const struct align_rank announced = {
		.job = rank->job,
		.rank = rank->rank,
		.world_size = rank->world_size ? rank->world_size : 1,
		.pid = rank->pid,
		.host = rank->host,
		.card = rank->card,
		.start_ns = rank->start_ns,
		.uid = rank->uid,
		.launcher = rank->launcher,
		.port = rank->port,
		.from_start = rank->first_seen_ns < rank->start_ns + STORE_FROM_START_NS,
	};

	if (rank->announced)
		return;
	rank->announced = true;
	end_before(ranks, rank, align);
	rank->process = rank->number = align_rank_new(align, &announced);
	for (size_t i = 0; i < rank->places && rank->process >= 0; i++)
		align_comm(align, rank->process, rank->place[i].communicator, rank->place[i].kind,
			rank->place[i].members, rank->place[i].member);
}

void store_ranks_step(struct store_ranks *ranks, struct align *align)
{
	uint64_t begin_ns = next_of(ranks, ranks->begin, ranks->begun),
		 end_ns = next_of(ranks, ranks->end, ranks->over);

	if (begin_ns == UINT64_MAX && end_ns == UINT64_MAX)
		return;
	if (begin_ns <= end_ns) {
		store_ranks_announce(ranks, &ranks->rank[ranks->begin[ranks->begun++].index], align);
		return;
	}
	store_ranks_end(&ranks->rank[ranks->end[ranks->over++].index], end_ns, align);
}

struct store_rank *store_ranks_find_ended(struct store_ranks *ranks, int64_t instance, struct align *align)
{
	struct store_rank *rank = store_ranks_find_one(ranks, instance);

	if (!rank || !rank->wanted)
		return NULL;
	store_ranks_announce(ranks, rank, align); /* a row from before it was seen */
	return rank;
}

struct store_rank *store_ranks_find(struct store_ranks *ranks, int64_t instance, struct align *align)
{
	struct store_rank *rank = store_ranks_find_ended(ranks, instance, align);

	return rank && rank->process >= 0 ? rank : NULL;
}

struct store_rank *store_ranks_at(struct store_ranks *ranks, size_t i)
{
	return i < ranks->ranks ? &ranks->rank[i] : NULL;
}

struct store_place *store_rank_place(const struct store_rank *rank, const char *communicator)
{
	struct store_place key = {.member = -1};

	if (!rank->places)
		return NULL;
	memcpy(key.communicator, communicator, strnlen(communicator, sizeof(key.communicator) - 1));
	return bsearch(&key, rank->place, rank->places, sizeof(key), store_ranks_by_communicator);
}

int32_t store_rank_member(struct store_rank *rank, const char *communicator)
{
	const struct store_place *place;

	if (!rank->places)
		return -1;
	place = &rank->place[rank->place[rank->place_last].next];
	if (strncmp(place->communicator, communicator, sizeof(place->communicator) - 1) != 0) {
		place = store_rank_place(rank, communicator);
		if (!place)
			return -1;
		rank->place[rank->place_last].next = (uint32_t)(place - rank->place);
	}
	rank->place_last = (uint32_t)(place - rank->place);
	return place->member;
}

void store_ranks_add_call(
	struct store_ranks *ranks, struct store_place *place, uint64_t time_ns, const struct coll_point *call)
{
	struct store_calls *calls = place->calls ? place->calls : calloc(1, sizeof(*calls));
	size_t capacity;

	place->calls = calls;
	if (!calls)
		return;
	if (calls->time_ns != time_ns)
		calls->count = 0;
	calls->time_ns = time_ns;
	capacity = calls->capacity;
	if ((calls->count == capacity && ranks->calls >= STORE_CALLS_MAX) ||
		!array_reserve(
			(void **)&calls->call, &calls->capacity, calls->count + 1, sizeof(*calls->call), COLL_RECENT))
		return;
	calls->call[calls->count++] = *call;
	ranks->calls += calls->capacity - capacity;
}

void store_ranks_counts(const struct store_ranks *ranks, uint64_t *ret_ranks, uint64_t *ret_left_out)
{
	*ret_ranks = 0;
	for (size_t i = 0; i < ranks->ranks; i++)
		*ret_ranks += ranks->rank[i].row_ns != 0;
	*ret_left_out = ranks->left_out;
}
