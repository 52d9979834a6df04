/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/fleet/fleet.h"

#include <math.h>
#include <stdlib.h>

#include "analyzers/base/text.h"

#define FLEET_NAME_BYTES 48
#define FLEET_NS 1e9

static void fleet_sentence_nodes(struct text *text, const struct fleet *fleet, const struct fleet_verdict *verdict)
{
	for (size_t i = 0; i < verdict->nodes && i < FLEET_NODES_SHOWN; i++) {
		if (i)
			text_add(text, i + 1 == verdict->nodes ? " and " : ", ");
		text_name(text, fleet->node[verdict->node[i]].name, FLEET_NAME_BYTES);
	}
	if (verdict->nodes > FLEET_NODES_SHOWN)
		text_add(text, " and %zu more", verdict->nodes - FLEET_NODES_SHOWN);
}

static void fleet_sentence_rank(struct text *text, const struct fleet *fleet, const struct fleet_verdict *verdict)
{
	struct fleet_part part = fleet_ranks_of(fleet, verdict->job);

	text_add(text, "rank %d (", verdict->first);
	fleet_sentence_nodes(text, fleet, verdict);
	for (size_t i = part.first; i < part.first + part.count; i++)
		if (fleet->rank[i].rank == verdict->first && fleet->rank[i].node == verdict->node[0] &&
			fleet->rank[i].card[0]) {
			text_add(text, ", card ");
			text_name(text, fleet->rank[i].card, FLEET_NAME_BYTES);
		}
	text_add(text, ")");
}

static void fleet_sentence_node(struct text *text, const struct fleet *fleet, const struct fleet_verdict *verdict)
{
	text_add(text, "node ");
	fleet_sentence_nodes(text, fleet, verdict);
	text_add(text, " (ranks %d to %d alike)", verdict->first, verdict->last);
}

static void fleet_sentence_stage(struct text *text, const struct fleet *fleet, const struct fleet_verdict *verdict)
{
	text_add(text, "ranks %d to %d (", verdict->first, verdict->last);
	fleet_sentence_nodes(text, fleet, verdict);
	text_add(text, "), as a pipeline stage,");
}

static void fleet_sentence_link(struct text *text, const struct fleet *fleet, const struct fleet_verdict *verdict)
{
	text_add(text, verdict->nodes > 1 ? "communication between " : "communication of ");
	fleet_sentence_nodes(text, fleet, verdict);
}

static void fleet_sentence_job(struct text *text, const struct fleet *fleet, const struct fleet_verdict *verdict)
{
	(void)fleet, (void)verdict;
	text_add(text, "no single rank or node");
}

static const struct {
	const char *word;
	void (*who)(struct text *text, const struct fleet *fleet, const struct fleet_verdict *verdict);
} fleet_kinds[FLEET_KIND_MAX] = {
	[FLEET_RANK] = {"slow_rank", fleet_sentence_rank},
	[FLEET_NODE] = {"slow_node", fleet_sentence_node},
	[FLEET_STAGE] = {"slow_stage", fleet_sentence_stage},
	[FLEET_LINK] = {"slow_link", fleet_sentence_link},
	[FLEET_JOB] = {"slow_job", fleet_sentence_job},
};

const char *fleet_kind_word(enum fleet_kind kind)
{
	return kind < FLEET_KIND_MAX ? fleet_kinds[kind].word : "";
}

void fleet_sentence(const struct fleet *fleet, const struct fleet_verdict *verdict, char *ret, size_t size)
{
	const char *title = verdict->activity < ACTIVITY_MAX ? activity_title(verdict->activity) : "";
	struct text text;

	text_begin(&text, ret, size);
	fleet_kinds[verdict->kind].who(&text, fleet, verdict);
	text_add(&text, verdict->kind == FLEET_JOB			     ? " slows job "
			: verdict->nodes > 1 && verdict->kind == FLEET_STAGE ? " slow job "
									     : " slows job ");
	text_name(&text, fleet->job[verdict->job].name, FLEET_NAME_BYTES);
	text_add(&text, " by %.0f %%", 100 * verdict->growth);
	if (verdict->kind == FLEET_LINK) {
		text_add(&text, ": ");
		text_name(&text, verdict->operation, FLEET_NAME_BYTES);
		text_add(&text, " takes ");
	} else if (verdict->kind == FLEET_JOB) {
		text_add(&text, "%s%s: a step takes ", title[0] ? ", in " : "", title);
	} else if (verdict->activity >= ACTIVITY_COMPUTE || verdict->value <= verdict->usual) {
		text_add(
			&text, ": others wait for %s in their operations", verdict->kind == FLEET_RANK ? "it" : "them");
	} else {
		text_add(&text, ": %s takes ", title);
	}
	if (verdict->kind == FLEET_LINK || verdict->kind == FLEET_JOB ||
		(verdict->activity < ACTIVITY_COMPUTE && verdict->value > verdict->usual)) {
		text_duration(&text, verdict->value * FLEET_NS);
		text_add(&text, verdict->kind == FLEET_JOB ? ", " : " a step, ");
		text_duration(&text, fmax(0, verdict->usual) * FLEET_NS);
		text_add(&text, verdict->peers ? " elsewhere" : " before");
	}
	if (verdict->peers && verdict->kind == FLEET_NODE)
		text_add(&text, "; the node, or the stage that it holds");
	text_add(&text, "; %.1f cards are lost", verdict->cards);
	text_end(&text);
}

void fleet_free(struct fleet *fleet)
{
	free(fleet->rank);
	free(fleet->operation);
	free(fleet->job);
	free(fleet->node);
	free(fleet->finding);
	*fleet = (struct fleet){0};
}
