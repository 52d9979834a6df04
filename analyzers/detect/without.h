/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The what-if of measure_whatif() (detect/measure.h): how long a step had been if some ranks had not had their excess.
 * Pure. Replays a frame (detect/replay.h).
 *
 * An operation comes after what happened last on its rank before it began, the end or the start of another operation
 * (that overlaps it), or after the begin of the step; the time from there is the rank's own. The end of the step is one
 * more of these. Where sends overlap (struct measures), a point-to-point one that has not ended when the next one
 * begins is nothing that comes after; and one that begins as such a one ends was queued behind it. Members of a group
 * end together, transfer after the last has come; where fewer than half the members have a record, each one takes what
 * it took. All ranks begin the step at once, and the step ends when the last rank ends it: clocks are not compared, and
 * what a rank does after the last operation counts.
 *
 * The excess of a rank is taken out of its own times, first where they are longer than those of other ranks of its
 * class with as many operations (the median of WITHOUT_PEERS of them) by as much, in proportion; what is left, or all
 * where there are no such ranks, out of the longest, down to a common length.
 *
 * Cost: O(records), and O(records log records) where the operations of a rank overlap or are not in order.
 */
#ifndef RANKTRACE_DETECT_WITHOUT_H
#define RANKTRACE_DETECT_WITHOUT_H

#include "analyzers/detect/measure.h"

#define WHATIF_PEERS 15

struct whatif;

struct whatif *whatif_new(void);
struct whatif *whatif_free(struct whatif *whatif);
/* measures: of this frame; NULL: no classes are known, and of frames without operations nothing can be told. Ranks that
 * are named twice or are not in the frame are left out. Returns and *ret_as_is_ns (may be NULL; 0 too where it cannot
 * be told): see measure_whatif(). */
uint64_t whatif_excess(struct whatif *whatif, const struct frame *frame, const struct measures *measures,
	const uint32_t *rank, const uint64_t *excess_ns, size_t ranks, uint64_t *ret_as_is_ns);

#endif
