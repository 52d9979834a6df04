/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More levels for a while, because a suspicion needs them. Bounded three ways: each for [findings] raise_for; after one
 * that came to nothing, and after somebody set the level, a pause of raise_pause; and of all time at most raise_percent
 * a level, an hour's worth of which may be saved up.
 */
#ifndef RANKTRACE_FINDINGS_RAISE_H
#define RANKTRACE_FINDINGS_RAISE_H

#include "daemon/level.h"

struct context;

struct findings_raise {
	uint64_t count;			  /* times that a level was turned on */
	uint64_t budget_ns[LEVEL_MAX];	  /* that it may still be on */
	uint64_t budget_at_ns[LEVEL_MAX]; /* as of then; 0: not used yet */
	uint64_t pause_until_ns[LEVEL_MAX];
	bool raised[LEVEL_MAX]; /* by us, and not seen to be over yet */
	bool fruitful;		/* something was confirmed since */
};

/* wants: bits of enum detect_want. */
void findings_raise_want(struct findings_raise *raise, struct context *context, unsigned wants, const char *job,
	const char *why, uint64_t now_ns);
/* A finding was confirmed. */
void findings_raise_confirmed(struct findings_raise *raise);
/* Every second or so: those that are over. */
void findings_raise_tick(struct findings_raise *raise, const struct context *context, uint64_t now_ns);

#endif
