/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of a store: ranks that lived in the period, their cards, nodes and jobs. See model.h. */
#include "analyzers/report/model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANK_NUMBER_MAX 1000000

enum { INSTANCE, RANK, WORLD, JOB, HOST, CARD, LOCAL, START, FIRST, LAST, ENDED };

static int32_t report_read_ranks_number(sqlite3_stmt *s, int column)
{
	int64_t value = sqlite3_column_type(s, column) == SQLITE_INTEGER ? sqlite3_column_int64(s, column) : -1;

	return value >= 0 && value <= RANK_NUMBER_MAX ? (int32_t)value : -1;
}

static struct report_rank *report_read_ranks_grow(struct report *report)
{
	struct report_rank *more;

	if (report->ranks == REPORT_RANKS_MAX)
		return NULL;
	/* At each power of two. */
	if ((report->ranks & (report->ranks - 1)) == 0) {
		more = reallocarray(report->rank, report->ranks ? 2 * report->ranks : 1, sizeof(*more));
		if (!more)
			return NULL;
		report->rank = more;
	}
	return &report->rank[report->ranks];
}

/* What tells on which days there was somebody to be slow. */
static void note_days(struct report *report, uint32_t node, uint64_t first_ns, uint64_t last_ns)
{
	int newest = report_day(report, last_ns), oldest = report_day(report, first_ns);

	if (node == REPORT_NONE || newest < 0)
		return;
	for (int day = newest; day <= (oldest < 0 ? REPORT_DAYS - 1 : oldest); day++)
		report->node[node].data_days |= 1U << day;
}

static int report_read_ranks_add(struct report_source *source, sqlite3_stmt *s, uint32_t node, const char *job)
{
	struct report *report = source->report;
	struct report_rank *rank = report_read_ranks_grow(report);
	char card[REPORT_NAME_BYTES];

	if (!rank) {
		report->ranks_left_out++;
		return 0;
	}
	report_text(s, CARD, card, sizeof(card));
	*rank = (struct report_rank){
		.store = source->store,
		.instance = sqlite3_column_int64(s, INSTANCE),
		.rank = report_read_ranks_number(s, RANK),
		.world = report_read_ranks_number(s, WORLD),
		.local = report_read_ranks_number(s, LOCAL),
		.first_ns = report_ns(s, FIRST),
		.last_ns = report_ns(s, LAST),
		.ended = sqlite3_column_int(s, ENDED) != 0,
		.job = report_job_of(report, job),
		.card = report_card_of(report, node, card, report_read_ranks_number(s, LOCAL), report_read_ranks_number(s, RANK)),
		.seen = calloc(1, REPORT_SLOTS_MAX / 8),
	};
	if (!rank->seen)
		return -ENOMEM;
	/* It may have run for long before it was seen; its libraries were loading for some time of that. */
	if (report_ns(s, START) && report_ns(s, START) < rank->first_ns)
		rank->first_ns = report_ns(s, START);
	/* While it runs, the store does not say when it was seen last: its rows do. */
	if (!rank->ended)
		rank->last_ns = report->until_ns;
	if (rank->world > 0 && (uint32_t)rank->world > report->job[rank->job].world)
		report->job[rank->job].world = (uint32_t)rank->world;
	report->ranks++;
	return 0;
}

static int rank_row(struct report_source *source, sqlite3_stmt *s)
{
	struct report *report = source->report;
	uint64_t first_ns = report_ns(s, FIRST),
		 last_ns = sqlite3_column_int(s, ENDED) ? report_ns(s, LAST) : report->until_ns;
	char host[REPORT_NAME_BYTES], job[REPORT_NAME_BYTES];
	struct report_store *store = &report->store[source->store];
	uint32_t node;

	report_text(s, HOST, host, sizeof(host));
	report_text(s, JOB, job, sizeof(job));
	if (report->only_job && strcmp(report->only_job, job) != 0)
		return 0;
	node = report_node_of(report, host[0] ? host : store->name);
	if (host[0] && !store->nodes++) {
		free(store->name);
		store->name = strdup(host);
		if (!store->name)
			return -ENOMEM;
	}
	note_days(report, node, first_ns, last_ns);
	if (first_ns >= report->until_ns || last_ns < report->since_ns)
		return 0;
	return report_read_ranks_add(source, s, node, job);
}

int report_read_ranks(struct report_source *source, char *error, size_t error_size)
{
	uint64_t rows = 0;

	return report_each(source,
		"SELECT instance, rank, world_size, job, host, card, local_rank, start_time_ns, first_seen_ns, "
		"last_seen_ns, ended"
		" FROM ranks ORDER BY instance",
		rank_row, &rows, error, error_size);
}

static bool report_read_ranks_is_here(const struct report *report, const struct report_rank *rank)
{
	for (uint32_t slot = 0; slot < report->slots; slot++)
		if (report_rank_seen(rank, slot))
			return true;
	/* One that never ended and left no row may be long gone: its end was missed. */
	return rank->ended;
}

static int settle_job(struct report_job *job, const struct report_rank *rank)
{
	uint8_t *byte, bit;

	if (!job->rank_seen)
		job->rank_seen = calloc(RANK_NUMBER_MAX / 8 + 1, 1);
	if (!job->rank_seen)
		return -ENOMEM;
	if (!job->first_ns || rank->first_ns < job->first_ns)
		job->first_ns = rank->first_ns;
	if (rank->last_ns > job->last_ns)
		job->last_ns = rank->last_ns;
	if (rank->rank < 0)
		return 0;
	byte = &job->rank_seen[rank->rank / 8];
	bit = (uint8_t)(1U << rank->rank % 8);
	if (*byte & bit)
		job->restarts++;
	else
		job->ranks++;
	*byte |= bit;
	return 0;
}

/* What is still so, and was told by a node of which nothing has come since: nobody has closed it. */
static void leave_out_stale(struct report *report)
{
	size_t kept = 0;

	for (size_t i = 0; i < report->findings; i++)
		if (report->finding[i].is.until_ns || report->store[report->finding[i].store].here)
			report->finding[kept++] = report->finding[i];
		else
			free(report->finding[i].plot);
	report->findings = kept;
}

int report_settle(struct report *report)
{
	for (size_t i = 0; i < report->ranks; i++) {
		struct report_rank *rank = &report->rank[i];
		struct report_card *card = rank->card == REPORT_NONE ? NULL : &report->card[rank->card];

		rank->here = report_read_ranks_is_here(report, rank);
		if (!rank->here)
			continue;
		report->store[rank->store].here = true;
		if (settle_job(&report->job[rank->job], rank) < 0)
			return -ENOMEM;
		if (!card)
			continue;
		card->here = true;
		card->rank = rank->rank;
		card->job = rank->job;
		card->local = rank->local;
	}
	leave_out_stale(report);
	return 0;
}
