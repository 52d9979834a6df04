/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where ranks stood, offline: what sources tell of a time at which nobody made progress, to the detectors' looks, as
 * the daemon tells it online every second. Members of a communicator are brought together over all sources and judged
 * by the same rules (analyzers/coll/coll_judge.h), those of other nodes included.
 */
#ifndef RANKTRACE_OFFLINE_STALL_CHECK_H
#define RANKTRACE_OFFLINE_STALL_CHECK_H

#include <stddef.h>

#include "analyzers/detect/detect.h"
#include "analyzers/coll/coll_judge.h"

#define LOOKS_STANDINGS_MAX 65536
#define LOOKS_MEMBERS_MAX 262144 /* of communicators, in one look; beyond it operations are not judged */

/* A look of the most members takes seconds: one of so many times this is as many times as rare. */
#define LOOKS_MEMBERS_OFTEN 16384

struct stall_check_member {
	const char *job; /* valid until the look is over, as judged.recall_arg */
	uint32_t process;
	bool uncalled;	    /* nothing tells that it ever called anything there */
	uint64_t first_seq; /* the lowest number that is known of it; 0: none */
	struct coll_judged judged;
};

struct stall_check;
struct source;

struct stall_check *stall_check_new(void); /* NULL: out of memory */
struct stall_check *stall_check_free(struct stall_check *checks);
/* For sources, from within their stand(). What does not fit is left out. */
void stall_check_add_standing(struct stall_check *checks, const struct standing *standing);
void stall_check_add_member(struct stall_check *checks, const struct stall_check_member *member);
/* Of all sources, in the look before this one. */
size_t stall_check_members_before(const struct stall_check *checks);
/* Asks all sources where their ranks stood, and has the detectors look. */
void stall_check_at(struct stall_check *checks, const struct source *sources, size_t count, struct detect *detect, uint64_t now_ns);
/* The last time, operations were not judged. */
bool stall_check_too_many(const struct stall_check *checks);

#endif
