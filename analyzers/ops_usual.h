/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What members call under one number, each once: what was added first comes first. Of more than OPS_USUAL_MAX,
 * those are there that more than one in OPS_USUAL_MAX calls, and at least one of all. Pure.
 */
#ifndef RANKTRACE_OPS_USUAL_H
#define RANKTRACE_OPS_USUAL_H

#include "analyzers/ops.h"

#define OPS_USUAL_MAX 32

struct ops_usual_call {
	struct ops_point point; /* the first one's */
	size_t weight;
};

struct ops_usual {
	size_t count;
	struct ops_usual_call call[OPS_USUAL_MAX];
};

void ops_usual_add(struct ops_usual *usual, const struct ops_point *point);

#endif
