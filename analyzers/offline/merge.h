/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several sources to one detect, in the order of time, with its clock going on as the daemon's does. Streams: nothing
 * is kept of what was fed. A source that fails is left out from there on, with a warning; the others go on.
 */
#ifndef RANKTRACE_OFFLINE_MERGE_H
#define RANKTRACE_OFFLINE_MERGE_H

#include "analyzers/offline/source.h"

#define MERGE_ENDS_NS 20000000000ULL /* ends of sources that close together are simultaneous */

struct merge_options {
	void (*warning)(void *arg, const char *sentence);
	/* Every some thousand events and after each stall check, with the time that was reached; may be
	 * NULL. False: that is enough, and what comes later is not read. */
	bool (*progress)(void *arg, uint64_t events, uint64_t now_ns);
	void *arg;
};

/* To the end of all sources, and of detect. 0 or -ENOMEM. ret_end_ns: UTC ns of the newest event, 0 if there was none.
 * Says how many sources failed. */
int merge_run(const struct source *sources, size_t count, struct detect *detect, const struct merge_options *options,
	uint64_t *ret_end_ns, size_t *ret_failed);

#endif
