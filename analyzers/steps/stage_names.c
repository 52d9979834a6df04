/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which stage may contain which lets steps.c detect a lost end: data loading never runs within an optimizer's step, so
 * an optimizer that seems open there has ended unseen.
 */
#include "analyzers/steps/stage_names.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#define BIT(kind) (1U << (kind))
#define ANY (BIT(STAGE_KIND_MAX) - 1)

static const struct name_row {
	const char *text;
	bool prefix;
	struct stage_meaning meaning;
} names[] = {
	{"enumerate(DataLoader)#", true, {STAGE_DATALOADER, true}},
	/* Chained pipes call each other within their marks: one name can contain itself. */
	{"enumerate(DataPipe)#", true, {STAGE_DATALOADER, false}},
	{"Optimizer.step#", true, {STAGE_OPTIMIZER, true}},
	{"Optimizer.zero_grad#", true, {STAGE_ZERO_GRAD, true}},
	{"DistributedDataParallel.forward", false, {STAGE_FORWARD, true}},
	{"DataParallel.forward", false, {STAGE_FORWARD, true}},
	/* Wrapped modules nest. */
	{"FullyShardedDataParallel.forward", false, {STAGE_FORWARD, false}},
	/* A user's own mark: no forward is derived. */
	{"forward", false, {STAGE_FORWARD, false}},
};

static const struct kind_row {
	const char *text;
	bool loop;
	bool once;
	uint8_t rank;
	uint16_t within; /* kinds that may contain it */
} kinds[] = {
	[STAGE_USER] = {NULL, false, false, 0, ANY},
	[STAGE_DATALOADER] = {"dataloader", true, true, 1, BIT(STAGE_USER) | BIT(STAGE_DATALOADER)},
	[STAGE_FORWARD] = {"forward", true, false, 1,
		BIT(STAGE_USER) | BIT(STAGE_FORWARD) | BIT(STAGE_BACKWARD) | BIT(STAGE_OPTIMIZER)},
	[STAGE_ZERO_GRAD] = {"zero_grad", true, true, 2,
		BIT(STAGE_USER) | BIT(STAGE_FORWARD) | BIT(STAGE_BACKWARD) | BIT(STAGE_OPTIMIZER) |
			BIT(STAGE_ZERO_GRAD)},
	[STAGE_BACKWARD] = {"backward", true, false, 2,
		BIT(STAGE_USER) | BIT(STAGE_FORWARD) | BIT(STAGE_BACKWARD) | BIT(STAGE_OPTIMIZER)},
	[STAGE_OPTIMIZER] = {"optimizer", true, true, 3, BIT(STAGE_USER) | BIT(STAGE_BACKWARD) | BIT(STAGE_OPTIMIZER)},
	[STAGE_CHECKPOINT] = {"checkpoint", false, true, 0,
		ANY & ~(BIT(STAGE_CHECKPOINT) | BIT(STAGE_GC) | BIT(STAGE_SYNC))},
	[STAGE_GC] = {"gc", false, true, 0, ANY & ~BIT(STAGE_GC)},
	[STAGE_SYNC] = {"sync", false, false, 0, ANY},
};
static_assert(sizeof(kinds) / sizeof(kinds[0]) == STAGE_KIND_MAX, "a row a kind");

struct stage_meaning stage_of_name(const char *name)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct name_row *row = &names[i];

		if (row->prefix ? strncmp(name, row->text, strlen(row->text)) == 0 : strcmp(name, row->text) == 0)
			return row->meaning;
	}
	return (struct stage_meaning){STAGE_USER, false};
}

struct stage_meaning stage_of_stage(const char *stage)
{
	for (unsigned int i = STAGE_USER + 1; i < STAGE_KIND_MAX; i++) {
		if (strcmp(stage, kinds[i].text) == 0)
			return (struct stage_meaning){(enum stage_kind)i, kinds[i].once};
	}
	return (struct stage_meaning){STAGE_USER, false};
}

const char *stage_text(enum stage_kind kind)
{
	return kinds[kind].text;
}

bool stage_is_loop(enum stage_kind kind)
{
	return kinds[kind].loop;
}

unsigned int stage_rank(enum stage_kind kind)
{
	return kinds[kind].rank;
}

bool stage_may_hold(enum stage_kind outer, enum stage_kind inner)
{
	return kinds[inner].within & BIT(outer);
}
