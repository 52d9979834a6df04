/* SPDX-License-Identifier: Apache-2.0 */
/* Meaning of a mark's name or stage. Pure tables: a new name or kind is a row in stage_names.c. */
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
	bool once; /* never nested in its own name: there the outer end was lost */
};

struct stage_meaning stage_of_name(const char *name);	/* a record_function name */
struct stage_meaning stage_of_stage(const char *stage); /* a stage word of the source */
const char *stage_text(enum stage_kind kind);		/* NULL for STAGE_USER */
bool stage_is_loop(enum stage_kind kind);		/* one of the five stages of the training loop */
unsigned int stage_rank(enum stage_kind kind);		/* evidence for the step thread; 0: none */
bool stage_may_hold(enum stage_kind outer, enum stage_kind inner);

#endif
