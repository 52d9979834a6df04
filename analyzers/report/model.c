/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/report/model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"
#include "analyzers/base/text.h"
#include "analyzers/base/user.h"

#define SLOT_NS_MIN 20000000000ULL /* two samples long */
#define NOTE_BYTES 320

struct report *report_new(const struct report_options *options)
{
	struct report *report = calloc(1, sizeof(*report));
	uint64_t length = options->until_ns - options->since_ns;

	if (!report)
		return NULL;
	report->since_ns = options->since_ns;
	report->until_ns = options->until_ns;
	report->now_ns = options->now_ns;
	report->only_job = options->job;
	report->chosen = options->ranks;
	report->slot_ns = length / REPORT_SLOTS_MAX > SLOT_NS_MIN ? length / REPORT_SLOTS_MAX : SLOT_NS_MIN;
	report->slots = (uint32_t)((length + report->slot_ns - 1) / report->slot_ns);
	if (report->slots > REPORT_SLOTS_MAX) {
		report->slot_ns += 1 + length / REPORT_SLOTS_MAX / REPORT_SLOTS_MAX;
		report->slots = REPORT_SLOTS_MAX;
	}
	report->store = calloc(options->fleet ? REPORT_NODES_MAX : options->stores->count + 1, sizeof(*report->store));
	report->node = calloc(REPORT_NODES_MAX, sizeof(*report->node));
	report->card = calloc(REPORT_CARDS_MAX, sizeof(*report->card));
	report->job = calloc(REPORT_JOBS_MAX, sizeof(*report->job));
	report->worst = calloc(REPORT_CARDS_MAX, sizeof(*report->worst));
	if (!report->store || !report->node || !report->card || !report->job || !report->worst)
		return report_free(report);
	return report;
}

struct report *report_free(struct report *report)
{
	if (!report)
		return NULL;
	for (size_t i = 0; report->store && i < report->stores; i++) {
		free(report->store[i].path);
		free(report->store[i].name);
	}
	for (size_t i = 0; i < report->ranks; i++)
		free(report->rank[i].seen);
	for (size_t i = 0; report->job && i < report->jobs; i++) {
		plot_series_free(report->job[i].series);
		free(report->job[i].rank_seen);
		report_heat_free(report->job[i].heat);
	}
	for (size_t i = 0; i < report->findings; i++) {
		free(report->finding[i].plot);
		free(report->finding[i].bars);
	}
	for (size_t i = 0; i < report->notes; i++)
		free(report->note[i]);
	free(report->store);
	free(report->node);
	free(report->card);
	free(report->job);
	free(report->rank);
	free(report->finding);
	free(report->group);
	free(report->brief);
	free(report->yesterday);
	free(report->memory);
	free(report->worst);
	free(report);
	return NULL;
}

void report_note(struct report *report, const char *format, ...)
{
	char text[NOTE_BYTES], clean[NOTE_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	report_name(text, clean, sizeof(clean));
	for (size_t i = 0; i < report->notes; i++)
		if (strcmp(report->note[i], clean) == 0)
			return;
	if (report->notes < REPORT_NOTES_MAX && (report->note[report->notes] = strdup(clean)))
		report->notes++;
}

uint32_t report_node_of(struct report *report, const char *name)
{
	struct report_node *node;

	/* The newest is the likely one: ranks are sorted by store. */
	for (size_t i = report->nodes; i-- > 0;)
		if (strcmp(report->node[i].name, name) == 0)
			return (uint32_t)i;
	if (report->nodes == REPORT_NODES_MAX) {
		report_note(report, "more than %d nodes: the others are left out", REPORT_NODES_MAX);
		return REPORT_NONE;
	}
	node = &report->node[report->nodes];
	snprintf(node->name, sizeof(node->name), "%s", name);
	return (uint32_t)report->nodes++;
}

uint32_t report_card_of(struct report *report, uint32_t node, const char *card, int32_t local, int32_t rank)
{
	char name[REPORT_NAME_BYTES];
	struct report_card *made;

	if (node == REPORT_NONE)
		return REPORT_NONE;
	if (card[0])
		snprintf(name, sizeof(name), "%s", card);
	else if (local >= 0)
		snprintf(name, sizeof(name), "local rank %d", local);
	else
		snprintf(name, sizeof(name), "rank %d", rank);
	for (size_t i = report->cards; i-- > 0;)
		if (report->card[i].node == node && strcmp(report->card[i].name, name) == 0)
			return (uint32_t)i;
	if (report->cards == REPORT_CARDS_MAX) {
		report_note(report, "more than %d cards: the others are left out", REPORT_CARDS_MAX);
		return REPORT_NONE;
	}
	made = &report->card[report->cards];
	*made = (struct report_card){.node = node,
		.local = local,
		.rank = rank,
		.job = REPORT_NONE,
		.worst = REPORT_NONE,
		.cause = CAUSE_MAX,
		.activity = ACTIVITY_MAX};
	snprintf(made->name, sizeof(made->name), "%s", name);
	report->node[node].cards++;
	return (uint32_t)report->cards++;
}

int64_t report_uid(const struct finding *finding)
{
	return finding->uid_known ? finding->uid : USER_UNKNOWN;
}

static bool report_job_is(const struct report_job *job, const char *name, int64_t uid)
{
	return strcmp(job->name, name) == 0 && (job->uid == uid || job->uid == USER_UNKNOWN || uid == USER_UNKNOWN);
}

/* The user is part of the title where the name alone is ambiguous. */
static void report_job_entitle(struct report *report, struct report_job *job)
{
	char user[USER_NAME_BYTES];

	snprintf(job->title, sizeof(job->title), "%s", job->name[0] ? job->name : "a job without a name");
	for (size_t i = 0; i < report->jobs; i++) {
		struct report_job *other = &report->job[i];

		if (other == job || strcmp(other->name, job->name) != 0)
			continue;
		snprintf(job->title + strlen(job->title), sizeof(job->title) - strlen(job->title), " (user %s)",
			user_name(job->uid, user));
		return;
	}
}

bool report_job_is_none(const struct report_job *job)
{
	return !job->ranks && (!job->findings || !job->name[0]);
}

uint32_t report_job_find(const struct report *report, const char *name, int64_t uid)
{
	for (size_t i = 0; i < report->jobs; i++)
		if (report_job_is(&report->job[i], name, uid))
			return (uint32_t)i;
	return REPORT_NONE;
}

uint32_t report_job_of(struct report *report, const char *name, int64_t uid)
{
	uint32_t found = report_job_find(report, name, uid);
	struct report_job *job;

	if (found != REPORT_NONE) {
		job = &report->job[found];
		job->uid = job->uid == USER_UNKNOWN ? uid : job->uid;
		return found;
	}
	if (report->jobs == REPORT_JOBS_MAX)
		return REPORT_JOBS_MAX - 1;
	job = &report->job[report->jobs];
	snprintf(job->name, sizeof(job->name), "%s", name);
	job->uid = uid;
	if (report->jobs == REPORT_JOBS_MAX - 1) {
		report_note(report, "more than %d jobs: further ones are \"other jobs\"", REPORT_JOBS_MAX - 1);
		snprintf(job->name, sizeof(job->name), "other jobs");
		job->uid = USER_UNKNOWN;
	}
	report->jobs++;
	for (size_t i = 0; i < report->jobs; i++)
		if (strcmp(report->job[i].name, job->name) == 0)
			report_job_entitle(report, &report->job[i]);
	return (uint32_t)(report->jobs - 1);
}

struct report_rank *report_rank_of(struct report *report, uint32_t store, int64_t instance)
{
	const struct report_rank *rank = report->rank;
	size_t at = array_first_not(
		i, report->ranks, rank[i].store < store || (rank[i].store == store && rank[i].instance < instance));

	return at < report->ranks && rank[at].store == store && rank[at].instance == instance ? &report->rank[at]
											      : NULL;
}

uint32_t report_slot(const struct report *report, uint64_t time_ns)
{
	uint64_t slot = (time_ns - report->since_ns) / report->slot_ns;

	return slot < report->slots ? (uint32_t)slot : report->slots - 1;
}

void report_rank_saw(const struct report *report, struct report_rank *rank, uint64_t since_ns, uint64_t until_ns)
{
	if (since_ns < report->since_ns)
		since_ns = report->since_ns;
	if (until_ns > report->until_ns)
		until_ns = report->until_ns;
	if (!rank->seen || since_ns >= until_ns)
		return;
	for (uint32_t slot = report_slot(report, since_ns); slot <= report_slot(report, until_ns - 1); slot++)
		rank->seen[slot / 8] |= (uint8_t)(1U << slot % 8);
}

bool report_rank_seen(const struct report_rank *rank, uint32_t slot)
{
	return rank->seen && (rank->seen[slot / 8] >> slot % 8 & 1);
}

int report_day(const struct report *report, uint64_t time_ns)
{
	uint64_t ago = time_ns < report->until_ns ? report->until_ns - 1 - time_ns : 0;

	return ago < REPORT_DAYS * REPORT_DAY_NS ? (int)(ago / REPORT_DAY_NS) : -1;
}

void report_name(const char *text, char *ret, size_t size)
{
	struct text to;

	text_begin(&to, ret, size);
	text_name(&to, text, size - 4);
}

struct report_reading {
	struct report_source *source;
	report_row row;
	uint64_t *rows;
};

static int report_each_row(void *arg, sqlite3_stmt *statement)
{
	const struct report_reading *reading = arg;

	if (*reading->rows >= REPORT_ROWS_MAX) {
		report_note(reading->source->report, "too many rows: not all of them were read");
		return 1;
	}
	++*reading->rows;
	return reading->row(reading->source, statement);
}

int report_each(
	struct report_source *source, const char *sql, report_row row, uint64_t *rows, char *error, size_t error_size)
{
	struct report_reading reading = {source, row, rows};

	return reader_each(source->reader, sql, report_each_row, &reading, error, error_size);
}
