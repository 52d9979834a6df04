/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ranks work on the same samples: those that send each other (pipeline neighbours), and those of one tensor or
 * context group. Pure. What is long for one of them is long for all.
 */
#ifndef RANKTRACE_DETECT_REPLICAS_H
#define RANKTRACE_DETECT_REPLICAS_H

#include "analyzers/detect/frame.h"

struct replicas {
	size_t ranks, count; /* count 0: not known, or all ranks are one */
	uint32_t *of;	     /* of each rank its replica, FRAME_NONE: alone */
	uint32_t *lead;	     /* room: of communicators and groups, the first rank seen */
	size_t capacity, rank_room;
	uint64_t frames;
};

void replicas_free(struct replicas *replicas);
/* Looks at the first frames and at one in REPLICAS_EVERY; cost linear in operations then. -ENOMEM */
#define REPLICAS_EVERY 64
int replicas_look(struct replicas *replicas, const struct frame *frame);

#endif
