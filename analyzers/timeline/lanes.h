/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of several tracks under one name takes a slice. On a track slices must lie one after the other or one within
 * the other; a slice that crosses those that are open on all tracks opens one more. Slices come by start, and of those
 * with one start the longest first. Memory is bounded by the two numbers below.
 */
#ifndef RANKTRACE_TIMELINE_LANES_H
#define RANKTRACE_TIMELINE_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LANES_MAX 128  /* tracks under one name */
#define LANES_DEPTH 32 /* slices within slices on one */

struct lane;

struct lanes {
	struct lane *lane;
	size_t count;
	bool nest; /* slices may lie within slices */
};

/* The track's index: up to the count before; -ENOSPC: all are taken; -ENOMEM. end_ns is not below start_ns. */
int lanes_place(struct lanes *lanes, int64_t start_ns, int64_t end_ns);
void lanes_clear(struct lanes *lanes);

#endif
