/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What members call under one number, each once: what was added first comes first. Of more than COLL_USUAL_MAX,
 * those are there that more than one in COLL_USUAL_MAX calls, and at least one of all. Pure.
 */
#ifndef RANKTRACE_OPS_USUAL_H
#define RANKTRACE_OPS_USUAL_H

#include "analyzers/ops.h"

#define COLL_USUAL_MAX 32

struct coll_majority_call {
	struct coll_point point; /* the first one's */
	size_t weight;
};

struct coll_majority {
	size_t count;
	struct coll_majority_call call[COLL_USUAL_MAX];
};

void coll_majority_add(struct coll_majority *usual, const struct coll_point *point);

#endif
