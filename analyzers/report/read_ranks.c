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

static int32_t number(sqlite3_stmt *s, int column)
{
	int64_t value = sqlite3_column_type(s, column) == SQLITE_INTEGER ? sqlite3_column_int64(s, column) : -1;

	return value >= 0 && value <= RANK_NUMBER_MAX ? (int32_t)value : -1;
}

static struct report_rank *grow(struct report *report)
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

static int note_job(struct report *report, struct report_job *job, const struct report_rank *rank, int32_t world)
{
	if (world > 0 && (uint32_t)world > job->world && !job->rank_seen)
		job->world = (uint32_t)world;
	if (!job->rank_seen)
		job->rank_seen = calloc(RANK_NUMBER_MAX / 8 + 1, 1);
	if (!job->rank_seen)
		return -ENOMEM;
	if ((uint32_t)world > job->world && world > 0)
		job->world = (uint32_t)world;
	if (rank->rank >= 0) {
		uint8_t *byte = &job->rank_seen[rank->rank / 8], bit = (uint8_t)(1U << rank->rank % 8);

		if (*byte & bit)
			job->restarts++;
		else
			job->ranks++;
		*byte |= bit;
	}
	if (!job->first_ns || rank->first_ns < job->first_ns)
		job->first_ns = rank->first_ns;
	if (rank->last_ns > job->last_ns)
		job->last_ns = rank->last_ns;
	(void)report;
	return 0;
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

static int add(struct report_source *source, sqlite3_stmt *s, uint32_t node, const char *job)
{
	struct report *report = source->report;
	struct report_rank *rank = grow(report);
	char card[REPORT_NAME_BYTES];
	struct report_card *at;

	if (!rank) {
		report->ranks_left_out++;
		return 0;
	}
	report_text(s, CARD, card, sizeof(card));
	*rank = (struct report_rank){
		.store = source->store,
		.instance = sqlite3_column_int64(s, INSTANCE),
		.rank = number(s, RANK),
		.first_ns = report_ns(s, FIRST),
		.last_ns = report_ns(s, LAST),
		.ended = sqlite3_column_int(s, ENDED) != 0,
		.job = report_job_of(report, job),
		.card = report_card_of(report, node, card, number(s, LOCAL), number(s, RANK)),
		.seen = calloc(1, REPORT_SLOTS_MAX / 8),
	};
	if (!rank->seen)
		return -ENOMEM;
	/* It may have run for long before it was seen; its libraries were loading for some time of that. */
	if (report_ns(s, START) && report_ns(s, START) < rank->first_ns)
		rank->first_ns = report_ns(s, START);
	report->ranks++;
	source->report->store[source->store].here = true;
	if (rank->card != REPORT_NONE) {
		at = &report->card[rank->card];
		at->here = true;
		at->rank = rank->rank;
		at->job = rank->job;
		if (at->local < 0)
			at->local = number(s, LOCAL);
	}
	return note_job(report, &report->job[rank->job], rank, number(s, WORLD));
}

static int rank_row(struct report_source *source, sqlite3_stmt *s)
{
	struct report *report = source->report;
	uint64_t first_ns = report_ns(s, FIRST), last_ns = report_ns(s, LAST);
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
	return add(source, s, node, job);
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
