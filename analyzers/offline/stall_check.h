/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stall checks, offline: standings of all sources at a time without progress, to the detectors, as
 * the daemon does every second. Members of a communicator are brought together over all sources and judged
 * by the same rules (analyzers/coll/coll_judge.h), those of other nodes included.
 */
#ifndef RANKTRACE_OFFLINE_STALL_CHECK_H
#define RANKTRACE_OFFLINE_STALL_CHECK_H

#include <stddef.h>

#include "analyzers/detect/detect.h"
#include "analyzers/coll/coll_judge.h"

#define STALL_CHECK_STANDINGS_MAX 65536
#define STALL_CHECK_MEMBERS_MAX 262144 /* of communicators, in one check; beyond it operations are not judged */

/* Checks with a multiple of these members are as many times as rare. */
#define STALL_CHECK_MEMBERS_OFTEN 16384

struct stall_check_member {
	const char *job; /* valid during the check, as judged.recall_arg */
	uint32_t uid;	 /* as of struct align_rank */
	uint32_t process;
	struct coll_judged judged;
};

struct stall_check;
struct source;

struct stall_check *stall_check_new(void); /* NULL: out of memory */
struct stall_check *stall_check_free(struct stall_check *checks);
/* For sources, from within their stand(). What does not fit is left out. */
void stall_check_add_standing(struct stall_check *checks, const struct standing *standing);
void stall_check_add_member(struct stall_check *checks, const struct stall_check_member *member);
/* Of all sources, in the previous check. */
size_t stall_check_members_before(const struct stall_check *checks);
/* Gathers the standings of all sources and runs the detectors' check. */
void stall_check_at(
	struct stall_check *checks, const struct source *sources, size_t count, struct detect *detect, uint64_t now_ns);
/* The last time, operations were not judged. */
bool stall_check_too_many(const struct stall_check *checks);

#endif
