/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where events come from, offline: a store (store_feed.h), files of sysTrace (systrace_feed.h). Each gives its events
 * in the order of time, to the aligner; offline/merge.h takes the one whose next event is oldest.
 */
#ifndef RANKTRACE_OFFLINE_SOURCE_H
#define RANKTRACE_OFFLINE_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "analyzers/detect/detect.h"
#include "analyzers/offline/stall_check.h"

/* Where events go. */
struct source_sink {
	struct align *align;
	struct detect *detect; /* that hardware is judged by; NULL: it is not */
};

struct source_ops {
	/* UTC ns of the next event; UINT64_MAX: there is none. Only rises. */
	uint64_t (*next)(const void *arg);
	/* Feeds it. 0, or negative errno with the sentence (what came before it was fed; the source ends there). */
	int (*feed)(void *arg, const struct source_sink *sink, char *error, size_t error_size);
	/* Time of the next stall check after that time: no rank made progress then, or one has ended;
	 * UINT64_MAX: none. This and the next two may all be NULL: unsupported. */
	uint64_t (*snapshot)(void *arg, uint64_t after_ns);
	/* Last data of its ranks that live at its end, ret_end_ns; UINT64_MAX: no such ranks. */
	uint64_t (*known)(const void *arg, uint64_t *ret_end_ns);
	/* Adds the ranks' standings. Times rise; all earlier events were fed. */
	void (*stand)(void *arg, uint64_t now_ns, struct stall_check *checks);
};

struct source {
	const struct source_ops *ops;
	void *arg;
};

#endif
