/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory each line holds, from the live bytes of each class of sizes, which are exact, and sampled blocks.
 * Pure.
 *
 * What is held of a class is divided among the sites of its sampled blocks. A class without a sampled block is left
 * out, so the sum is at most what is held.
 *
 * The 95 % interval of a site is that of Fay and Feuer (1997) for a sum of weights, a quantile of a gamma distribution:
 * at its high end as if one more of the site's largest weight had been sampled, since few samples are no certainty. At
 * its low end as if the largest had not been, since a site is known only because one of its blocks was sampled.
 *
 * Where reports come too often, they are seen in windows (bpf/memory.h). Nearly all blocks live for less than a step.
 * What a window has seen allocated and has followed for the time MEMORY_YOUNG_PART and more is carried over to the next
 * windows, as estimated; younger blocks are forgotten. A window's blocks that are carried over stand for those of the
 * time until the next window, too, which is random, so that the estimate is right on average (Horvitz and Thompson). A
 * window samples all of its blocks or none, so the variance is that between windows. What is held of a class is not
 * divided in windows: a window has few blocks of most classes, and one without a sample would be left out. A carried
 * block that is released between two windows is found to be when its address is allocated again, or covered by another
 * block; until then its line holds too much, which is not in the interval. All lines together hold at most what is
 * allocated, which is exact.
 */
#ifndef RANKTRACE_MEMORY_HELD_H
#define RANKTRACE_MEMORY_HELD_H

#include "analyzers/base/clock.h"
#include "bpf/memory.h"

#include <stdbool.h>
#include <stddef.h>

#define MEMORY_YOUNG_PART 2 /* of a window: a half */
#define MEMORY_OLD_PART 4   /* of a trend: a quarter, as long as one of the parts that all have to grow */

struct memory_held {
	uint64_t site; /* rt_memory_block.site */
	double bytes, blocks;
	double sampled;	  /* bytes of sampled blocks: bytes is no less */
	double error2;	  /* square of the standard error of bytes; 0: each block of these classes was sampled */
	double low, high; /* ends of its 95 % interval */
	/* Within memory_held() only. */
	double largest; /* weight of a block that was sampled by chance */
	uint32_t device, window;
	bool is_part;
};

/*
 * Orders `block`. Writes one for each site, in order of `site`: `ret` has as many elements as
 * `block`. Returns their number. The weights of blocks of the present window become what is held of them.
 * ret_unseen: bytes of each device that no sample stands for.
 */
size_t memory_held(const struct rt_memory_rank *rank, struct rt_memory_block *block, size_t blocks,
	struct memory_held *ret, double ret_unseen[RT_MEMORY_DEVICES_MAX]);
/* After it: what no sample of its device stands for may be held by any site, but not where each of its blocks was
 * sampled. */
void memory_held_raise(struct memory_held *held, const struct rt_memory_site *site,
	const struct rt_memory_device *device, double unseen);
/* Of two sites, of which nothing says that their errors are the same. */
void memory_held_add(struct memory_held *sum, const struct memory_held *held);
/*
 * At the end of a window, before memory_held(): blocks of the window before it. share: time from that one's begin to
 * this one's, divided by the time whose blocks it has carried over.
 */
void memory_held_gap(const struct rt_memory_rank *rank, double share, struct rt_memory_block *block, size_t blocks);
/* After memory_held(): the weight of what is not carried over becomes 0. young_ms: age up to which that is so. */
void memory_held_carry(const struct rt_memory_rank *rank, uint32_t now_ms, uint32_t young_ms,
	struct rt_memory_block *block, size_t blocks);

/*
 * The site on a device that holds most of what has grown in window_ms: of blocks that are that old at most, and not of
 * the newest MEMORY_OLD_PART, which may be in use for a while. 0: none. Orders `block`.
 */
uint64_t memory_held_grown(
	struct rt_memory_block *block, size_t blocks, uint32_t device, uint32_t now_ms, uint32_t window_ms);

/* NULL: the site has no block. */
const struct memory_held *memory_held_find(const struct memory_held *held, size_t count, uint64_t site);

/* How long a window is: by the steps of the ranks. Times are of one clock. */

/* Blocks of a step die within the next, and half of a window is there to see that they do. */
#define MEMORY_WINDOW_STEPS 4
#define MEMORY_WINDOW_MIN_NS (200 * NSEC_PER_MSEC) /* two ticks */
#define MEMORY_WINDOW_MAX_NS (60 * NSEC_PER_SEC)
#define MEMORY_WINDOW_NO_STEP_NS NSEC_PER_SEC /* where no rank has steps */

/* Of a rank, when its steps were last counted. All 0: it had none. */
struct memory_pace {
	uint64_t steps, end_ns; /* how many had ended, the end of the newest */
};

/*
 * Mean length of the steps since the last call, `steps` of which have ended until now_ns, the newest at end_ns. If none
 * has, the time since the last one did. 0: unknown. A program has loaded its model and its data before its first step,
 * so time begins at the end of one.
 */
uint64_t memory_pace_step_ns(struct memory_pace *pace, uint64_t steps, uint64_t end_ns, uint64_t now_ns);

/* step_ns: of the slowest rank, 0: unknown. */
uint64_t memory_window_ns(uint64_t step_ns);

#endif
