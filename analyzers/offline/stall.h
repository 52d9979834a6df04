/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standings of a store's ranks while no rank made progress, for hangs (offline/stall_check.h); for store_feed.c.
 *
 * First the steps of each rank are read (of ranks without steps, their operations): from the end of one step to that of
 * the next where that takes longer than STALL_STILL_NS and half as long again as its steps do, and until its end, its job
 * stalled, or it did something long. Ranks are checked then, and when one of them ends. Only of these times are the other tables read a second time: stages and what cut them off, samples of the
 * system, and operations; in parts that lie close together.
 *
 * Gaps in the data give no standing: a rank has none at a time of which there is no sample of it (or, of a store
 * without any, no stage), and signs of life from before a time that was not watched are none.
 */
#ifndef RANKTRACE_OFFLINE_STALL_H
#define RANKTRACE_OFFLINE_STALL_H

#include "analyzers/offline/stall_check.h"
#include "analyzers/offline/store_ranks.h"

#define STALL_STILL_NS 6000000000ULL
#define STALL_SPOTS_MAX 65536  /* stalls; further ones are left out */
#define STALL_ROWS_MAX 2097152 /* of one table, of times that lie close together; beyond it, the rest is not known */

struct stall;

/* Reads the rows that define the times of checks. The others must outlive it. 0, or negative errno with the sentence.
 */
int stall_open(struct reader *reader, struct store_ranks *ranks, const struct store_feed_options *options,
	struct stall **ret, char *error, size_t error_size);
struct stall *stall_close(struct stall *stall);
/* As source_ops says. */
uint64_t stall_known(const struct stall *stall, uint64_t *ret_end_ns);
uint64_t stall_check_after(struct stall *stall, uint64_t after_ns);
void stall_stand(struct stall *stall, uint64_t now_ns, struct stall_check *checks);

#endif
