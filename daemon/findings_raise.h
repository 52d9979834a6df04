/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More levels for a while, because a suspicion needs them. Bounded three ways: each for [findings] raise_for, or twice that
 * where something is suspected when it ends, which turning it off would put off; after one that came to nothing, and
 * after somebody set the level, a pause of raise_pause; and of all time at most raise_percent a level, an hour's worth
 * of which may be saved up. Where one ends that came to something and more is wanted, the level stays on for another,
 * as nothing can be attached while it is being detached.
 */
#ifndef RANKTRACE_FINDINGS_RAISE_H
#define RANKTRACE_FINDINGS_RAISE_H

#include "daemon/level.h"

struct context;

struct online_auto_level {
	uint64_t count;			  /* times that a level was turned on */
	uint64_t budget_ns[LEVEL_MAX];	  /* that it may still be on */
	uint64_t budget_at_ns[LEVEL_MAX]; /* as of then; 0: not used yet */
	uint64_t pause_until_ns[LEVEL_MAX];
	uint64_t prolonged_ns[LEVEL_MAX]; /* since it was turned on */
	bool raised[LEVEL_MAX]; /* by us, and not seen to be over yet */
	bool fruitful[LEVEL_MAX]; /* something was confirmed since */
};

/* wants: bits of enum detect_want. */
void online_auto_level_want(struct online_auto_level *raise, struct context *context, unsigned wants, const char *job,
	const char *why, uint64_t now_ns);
/* A finding was confirmed. */
void online_auto_level_confirmed(struct online_auto_level *raise);
/* Every second at least: those that are over, and those that are to go on as something is suspected now. */
void online_auto_level_tick(struct online_auto_level *raise, struct context *context, bool suspected, uint64_t now_ns);

#endif
