/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of a store: ranks that lived in the period, their cards, nodes and jobs. */
#include "analyzers/report/model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"
#include "analyzers/store/rank_table.h"

#define RANK_NUMBER_MAX 1000000

static int32_t report_read_ranks_number(int64_t value)
{
	return value >= 0 && value <= RANK_NUMBER_MAX ? (int32_t)value : -1;
}

static uint64_t report_read_ranks_time(int64_t ns)
{
	return ns > 0 ? (uint64_t)ns : 0;
}

/* Marks days with data. */
static void note_days(struct report *report, uint32_t node, uint64_t first_ns, uint64_t last_ns)
{
	int newest = report_day(report, last_ns), oldest = report_day(report, first_ns);

	if (node == REPORT_NONE || newest < 0)
		return;
	for (int day = newest; day <= (oldest < 0 ? REPORT_DAYS - 1 : oldest); day++)
		report->node[node].data_days |= 1U << day;
}

static int report_read_ranks_add(
	struct report_source *source, const struct rank_row *row, uint32_t node, const char *job)
{
	struct report *report = source->report;
	uint64_t start_ns = report_read_ranks_time(row->start_ns);
	struct report_rank *rank;
	char card[REPORT_NAME_BYTES];

	if (!array_reserve((void **)&report->rank, &report->ranks_capacity, report->ranks + 1, sizeof(*rank),
		    REPORT_RANKS_MAX)) {
		report->ranks_left_out++;
		return 0;
	}
	rank = &report->rank[report->ranks];
	report_name(row->card, card, sizeof(card));
	*rank = (struct report_rank){
		.store = source->store,
		.instance = row->instance,
		.rank = report_read_ranks_number(row->rank),
		.world = report_read_ranks_number(row->world_size),
		.local = report_read_ranks_number(row->local_rank),
		.first_ns = report_read_ranks_time(row->first_seen_ns),
		.last_ns = report_read_ranks_time(row->last_seen_ns),
		.ended = row->ended,
		.job = report_job_of(report, job, row->uid >= 0 && row->uid < UINT32_MAX ? row->uid : -1),
		.card = report_card_of(report, node, card, report_read_ranks_number(row->local_rank),
			report_read_ranks_number(row->rank)),
		.chosen = report_wants_rank(report, report_read_ranks_number(row->rank), NULL),
		.seen = calloc(1, REPORT_SLOTS_MAX / 8),
	};
	if (!rank->seen)
		return -ENOMEM;
	/* It started before it was seen: its libraries were loading. */
	if (start_ns && start_ns < rank->first_ns)
		rank->first_ns = start_ns;
	/* The store has no last_seen_ns of a live process. */
	if (!rank->ended)
		rank->last_ns = report->until_ns;
	report->job[rank->job].cards |= card[0] != 0;
	if (rank->world > 0 && (uint32_t)rank->world > report->job[rank->job].world)
		report->job[rank->job].world = (uint32_t)rank->world;
	report->ranks++;
	return 0;
}

int report_add_rank(void *arg, const struct rank_row *row)
{
	struct report_source *source = arg;
	struct report *report = source->report;
	uint64_t first_ns = report_read_ranks_time(row->first_seen_ns),
		 last_ns = row->ended ? report_read_ranks_time(row->last_seen_ns) : report->until_ns;
	char host[REPORT_NAME_BYTES], job[REPORT_NAME_BYTES];
	struct report_store *store = &report->store[source->store];
	uint32_t node;

	report_name(row->host, host, sizeof(host));
	report_name(row->job, job, sizeof(job));
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
	return report_read_ranks_add(source, row, node, job);
}

int report_read_ranks(struct report_source *source, char *error, size_t error_size)
{
	return rank_table_read(source->reader, report_add_rank, source, error, error_size);
}

static bool report_read_ranks_is_here(const struct report *report, const struct report_rank *rank)
{
	for (uint32_t slot = 0; slot < report->slots; slot++)
		if (report_rank_seen(rank, slot))
			return true;
	/* Without rows and without an end, it may have ended unseen long before. */
	return rank->ended;
}

/* It uses PyTorch, but nothing says that it trains on a card. */
static bool report_read_ranks_is_bystander(const struct report *report, const struct report_rank *rank)
{
	return !rank->steps && rank->world <= 1 && !report->job[rank->job].name[0];
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

/* Drops open findings of stores without data in the period: no daemon closed them. */
static void leave_out_stale(struct report *report)
{
	size_t kept = 0;

	for (size_t i = 0; i < report->findings; i++) {
		if (report->finding[i].is.until_ns || report->store[report->finding[i].store].here) {
			report->finding[kept++] = report->finding[i];
		} else {
			free(report->finding[i].plot);
			free(report->finding[i].bars);
		}
	}
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
		if (!card || !rank->chosen || report_read_ranks_is_bystander(report, rank))
			continue;
		card->here = true;
		card->rank = rank->rank;
		card->job = rank->job;
		card->local = rank->local;
	}
	leave_out_stale(report);
	return 0;
}
