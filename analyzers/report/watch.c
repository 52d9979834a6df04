/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gaps: slots of the period in which a live rank has no data. The first and last slots of a rank are start-up and rows
 * not yet written. A process without an end that has no data while others of its node do has ended unseen.
 */
#include "analyzers/report/model.h"
#include "analyzers/base/array.h"
#include "analyzers/report/render.h"
#include "analyzers/report/words.h"

#include <stdio.h>
#include <stdlib.h>

void render_unwatched(const struct report *report, render_line line, void *arg)
{
	char text[WORDS_BYTES], count[WORDS_BYTES];

	for (size_t i = 0; i < report->stores; i++) {
		if (report->store[i].here)
			continue;
		snprintf(text, sizeof(text),
			"%.80s: no data in this period; no rank ran there, or no daemon watched it",
			report->store[i].name);
		line(arg, text);
	}
	for (size_t i = 0; i < report->gaps; i++)
		line(arg, words_gap(report, &report->gap[i], text));
	if (report->gaps_left_out) {
		snprintf(text, sizeof(text), "and %.40s, shorter",
			words_many(report->gaps_left_out, "more gap", "more gaps", count));
		line(arg, text);
	}
	for (size_t i = 0; i < report->jobs; i++)
		if (words_elsewhere(&report->job[i], text)[0])
			line(arg, text);
	if (report->ranks_left_out) {
		snprintf(text, sizeof(text), "%.40s left out: too many for this report",
			words_many(report->ranks_left_out, "process", "processes", count));
		line(arg, text);
	}
	for (size_t i = 0; i < report->lost; i++)
		line(arg, words_lost(report, &report->lose[i], text));
	for (size_t i = 0; i < report->notes; i++)
		line(arg, report->note[i]);
}

#define EDGE 2	  /* slots */
#define GAP_MIN 3 /* slots */

struct watch {
	struct report *report;
	uint16_t *alive, *unseen; /* ranks, by node and slot */
	int32_t *who;		  /* newest unseen rank, by node */
	uint32_t *last;		  /* newest slot with data, by node */
};

static uint32_t report_watch_node_of(const struct report *report, const struct report_rank *rank)
{
	return rank->card == REPORT_NONE ? REPORT_NONE : report->card[rank->card].node;
}

static uint32_t last_seen(const struct report *report, const struct report_rank *rank)
{
	for (uint32_t slot = report->slots; slot-- > 0;)
		if (report_rank_seen(rank, slot))
			return slot;
	return 0;
}

/* Slots [first, end) of the rank's life; adds its lifetime, edges included, to the job. */
static void watch_lifecycle(
	const struct watch *watch, const struct report_rank *rank, uint32_t node, uint32_t *first, uint32_t *end)
{
	struct report *report = watch->report;
	uint32_t seen = last_seen(report, rank);
	uint64_t from_ns = rank->first_ns > report->since_ns ? rank->first_ns : report->since_ns,
		 end_ns = report->until_ns;

	*first = rank->first_ns > report->since_ns ? report_slot(report, rank->first_ns) + EDGE : 0;
	*end = report->slots;
	if (rank->ended)
		*end = rank->last_ns < report->until_ns ? report_slot(report, rank->last_ns) : report->slots;
	else if (watch->last[node] > seen + EDGE)
		*end = seen + 1;
	else if (*end >= EDGE)
		*end -= report->until_ns + report->slot_ns >= report->now_ns ? EDGE : 0;
	if (rank->ended && rank->last_ns < end_ns)
		end_ns = rank->last_ns;
	else if (!rank->ended && watch->last[node] > seen + EDGE)
		end_ns = report->since_ns + *end * report->slot_ns;
	report->job[rank->job].lived_ns += end_ns > from_ns ? end_ns - from_ns : 0;
}

static void count_rank(struct watch *watch, const struct report_rank *rank)
{
	struct report *report = watch->report;
	uint32_t node = report_watch_node_of(report, rank), first, end, run = 0;
	size_t at;

	if (node == REPORT_NONE || !rank->here)
		return;
	watch_lifecycle(watch, rank, node, &first, &end);
	if (!rank->chosen)
		return;
	at = (size_t)node * report->slots;
	for (uint32_t slot = first; slot < end; slot++) {
		watch->alive[at + slot] += watch->alive[at + slot] < UINT16_MAX;
		report->alive_slots++;
		report->node[node].alive_slots++;
		report->card[rank->card].alive_slots++;
		run = report_rank_seen(rank, slot) ? 0 : run + 1;
		if (run < GAP_MIN)
			continue;
		for (uint32_t back = run == GAP_MIN ? GAP_MIN : 1; back-- > 0;) {
			watch->unseen[at + slot - back] += watch->unseen[at + slot - back] < UINT16_MAX;
			report->unseen_slots++;
			report->node[node].unseen_slots++;
			report->card[rank->card].unseen_slots++;
			watch->who[node] = rank->rank;
		}
	}
}

static uint64_t watch_weight(const struct report_gap *gap)
{
	return (gap->until_ns - gap->since_ns) / 1000000000 * gap->ranks;
}

/* Keeps the largest gaps. */
static void add_gap(struct report *report, const struct report_gap *gap)
{
	size_t lightest = 0;

	if (report->gaps < REPORT_GAPS_MAX) {
		report->gap[report->gaps++] = *gap;
		return;
	}
	report->gaps_left_out++;
	for (size_t i = 1; i < report->gaps; i++)
		if (watch_weight(&report->gap[i]) < watch_weight(&report->gap[lightest]))
			lightest = i;
	if (watch_weight(gap) > watch_weight(&report->gap[lightest]))
		report->gap[lightest] = *gap;
}

static void node_gaps(const struct watch *watch, uint32_t node)
{
	struct report *report = watch->report;
	const uint16_t *alive = watch->alive + (size_t)node * report->slots;
	const uint16_t *unseen = watch->unseen + (size_t)node * report->slots;
	struct report_gap gap = {.node = node};

	for (uint32_t slot = 0; slot <= report->slots; slot++) {
		if (slot < report->slots && unseen[slot]) {
			if (!gap.ranks)
				gap.since_ns = report->since_ns + slot * report->slot_ns;
			gap.ranks = unseen[slot] > gap.ranks ? unseen[slot] : gap.ranks;
			gap.of = alive[slot] > gap.of ? alive[slot] : gap.of;
		} else if (gap.ranks) {
			gap.until_ns = report->since_ns + slot * report->slot_ns;
			if (gap.until_ns > report->until_ns)
				gap.until_ns = report->until_ns;
			gap.rank = gap.ranks == 1 ? watch->who[node] : -1;
			add_gap(report, &gap);
			gap = (struct report_gap){.node = node};
		}
	}
}

static int report_watch_by_time(const void *a, const void *b)
{
	const struct report_gap *x = a, *y = b;

	return ORDER(x->since_ns, y->since_ns) ?: ORDER(x->node, y->node);
}

static int report_watch_by_rank(const void *a, const void *b)
{
	const struct report_rank *x = *(const struct report_rank *const *)a, *y = *(const struct report_rank *const *)b;

	return ORDER(x->job, y->job) ?: ORDER(x->rank, y->rank);
}

/* A job that was started again has had the steps of all its processes: those of one rank number add up. */
static void count_steps(struct report *report)
{
	const struct report_rank **rank = calloc(report->ranks + 1, sizeof(*rank));
	uint64_t sum = 0;

	for (size_t i = 0; rank && i < report->ranks; i++)
		rank[i] = &report->rank[i];
	if (rank)
		qsort(rank, report->ranks, sizeof(*rank), report_watch_by_rank);
	for (size_t i = 0; rank && i < report->ranks; i++) {
		struct report_job *job = &report->job[rank[i]->job];
		bool same = i > 0 && rank[i]->rank >= 0 && report_watch_by_rank(&rank[i - 1], &rank[i]) == 0;

		sum = (same ? sum : 0) + rank[i]->steps;
		job->steps = sum > job->steps ? sum : job->steps;
	}
	if (!rank)
		report_note(report, "out of memory: steps not counted");
	free(rank);
}

/* Notes ranks with samples but no steps. */
static void note_steps(struct report *report)
{
	uint32_t silent[REPORT_JOBS_MAX] = {0};
	int32_t one[REPORT_JOBS_MAX] = {0};

	for (size_t i = 0; i < report->ranks; i++) {
		const struct report_rank *rank = &report->rank[i];

		if (!rank->steps && rank->samples * 10 > 600) {
			silent[rank->job]++;
			one[rank->job] = rank->rank;
		}
	}
	for (size_t i = 0; i < report->jobs; i++) {
		const char *name = report->job[i].title;

		if (silent[i] && !report->job[i].steps)
			report_note(report, "no steps of %s: L0 is off, or its framework is unknown", name);
		else if (silent[i] == 1)
			report_note(report, "no steps of rank %d of %s", one[i], name);
		else if (silent[i])
			report_note(report, "no steps of %u ranks of %s", silent[i], name);
	}
}

void report_watch(struct report *report)
{
	size_t nodes = report->nodes ? report->nodes : 1;
	struct watch watch = {
		.report = report,
		.alive = calloc(nodes * report->slots, sizeof(uint16_t)),
		.unseen = calloc(nodes * report->slots, sizeof(uint16_t)),
		.who = calloc(nodes, sizeof(int32_t)),
		.last = calloc(nodes, sizeof(uint32_t)),
	};

	if (watch.alive && watch.unseen && watch.who && watch.last) {
		for (size_t i = 0; i < report->ranks; i++) {
			uint32_t node = report_watch_node_of(report, &report->rank[i]),
				 seen = last_seen(report, &report->rank[i]);

			if (node != REPORT_NONE && seen > watch.last[node])
				watch.last[node] = seen;
		}
		for (size_t i = 0; i < report->ranks; i++)
			count_rank(&watch, &report->rank[i]);
		for (uint32_t node = 0; node < report->nodes; node++)
			node_gaps(&watch, node);
	} else {
		report_note(report, "out of memory: gaps not shown");
	}
	free(watch.alive);
	free(watch.unseen);
	free(watch.who);
	free(watch.last);
	qsort(report->gap, report->gaps, sizeof(*report->gap), report_watch_by_time);
	count_steps(report);
	note_steps(report);
}
