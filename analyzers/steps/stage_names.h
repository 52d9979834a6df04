/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a mark's name or stage means: one row a name (stage_names.c), one row a kind. Pure tables; to know a further
 * name, add its row.
 */
#ifndef RANKTRACE_STEPS_STAGE_NAMES_H
#define RANKTRACE_STEPS_STAGE_NAMES_H

#include <stdbool.h>
#include <stdint.h>

enum stage_kind {
	STAGE_USER, /* any other name: a stage of its own name */
	STAGE_DATALOADER,
	STAGE_FORWARD,
	STAGE_ZERO_GRAD,
	STAGE_BACKWARD,
	STAGE_OPTIMIZER,
	STAGE_CHECKPOINT,
	STAGE_GC,
	STAGE_SYNC,
	STAGE_KIND_MAX
};

struct stage_meaning {
	enum stage_kind kind;
	bool once; /* never inside an open one of the same name: if it seems so, the end of the outer one was lost */
};

struct stage_meaning stage_of_name(const char *name);	/* a record_function name */
struct stage_meaning stage_of_stage(const char *stage); /* a stage that the source knows */
const char *stage_text(enum stage_kind kind);		/* NULL for STAGE_USER */
bool stage_is_loop(enum stage_kind kind);		/* one of the five that make the training loop */
unsigned int stage_rank(enum stage_kind kind);		/* how well it tells the step thread; 0: not at all */
bool stage_may_hold(enum stage_kind outer, enum stage_kind inner);

#endif
