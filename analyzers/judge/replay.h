/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replay of operations that wait for each other. Pure; O(operations + edges); ends on whatever it is given.
 *
 * An operation starts when all that it comes after has happened (the start or the end of another, plus a lag) and ends
 * a length after that; one of a group ends its length after the last member has started. Times are ns from a common
 * zero, in doubles: no input makes them overflow, and to 2^53 they are exact.
 *
 * A group that is loose (point to point) may be left by a member before the others come, as senders do whose bytes fit
 * a buffer. That is assumed only where otherwise nothing could go on: then the member that is there ends after the
 * length it was seen to take.
 */
#ifndef RANKTRACE_DETECT_REPLAY_H
#define RANKTRACE_DETECT_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLAY_NONE UINT32_MAX

enum replay_event { REPLAY_START, REPLAY_END, REPLAY_EVENT_MAX };

struct replay;

struct replay *replay_new(void);
struct replay *replay_free(struct replay *replay);

/* Begins anew, with that capacity. -ENOMEM; -E2BIG: more than 2^32 - 1 of a kind. */
int replay_begin(struct replay *replay, size_t ops, size_t edges, size_t groups);
/* All return the index, from 0; callers keep to the capacity. group: REPLAY_NONE if none.
 * alone_ns: what it takes where its loose group does not come together. */
uint32_t replay_group(struct replay *replay, bool loose);
uint32_t replay_op(struct replay *replay, uint32_t group, double length_ns, double alone_ns);
/* op starts no earlier than lag_ns after that event of before. */
uint32_t replay_after(struct replay *replay, uint32_t op, uint32_t before, enum replay_event event, double lag_ns);

/* May be changed between two runs. */
void replay_set_lag(struct replay *replay, uint32_t edge, double lag_ns);
void replay_set_length(struct replay *replay, uint32_t op, double length_ns);
void replay_set_first(struct replay *replay, uint32_t op, double start_ns); /* of one that comes after nothing; 0 */

/* -ELOOP: operations wait for each other in a circle; no result. */
int replay_run(struct replay *replay);
double replay_start_ns(const struct replay *replay, uint32_t op);
double replay_end_ns(const struct replay *replay, uint32_t op);

#endif
