/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a caching allocator's segments hold: how much of what it has from the driver is free, in pieces of which size,
 * and whether a request could use them. Gaps between segments cost nothing and are not looked at. Pure.
 *
 * Blocks are those that are followed (bpf/memory.h): those of the sample size and more, and a part of the smaller ones.
 * A gap may hold blocks that are not: what is said to be free is at most so much.
 */
#ifndef RANKTRACE_MEMORY_SEGMENTS_H
#define RANKTRACE_MEMORY_SEGMENTS_H

#include "bpf/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct memory_segment {
	uint64_t address, bytes;
	uint64_t used_bytes; /* in followed blocks */
	uint64_t gap_bytes;  /* the largest piece without one */
	uint32_t blocks;
	uint32_t device;    /* rt_memory_block.device of its blocks; of an empty one that of the segment below */
	bool is_expandable; /* a part of one, as it was mapped; after memory_segments_fill() as a whole */
};

/*
 * Orders both by address. Parts of an expandable segment that lie side by side become one. Blocks outside of all
 * segments belong to none. Returns the number of segments.
 */
size_t memory_segments_fill(
	struct memory_segment *segment, size_t segments, struct rt_memory_block *block, size_t blocks);

struct memory_pieces {
	uint64_t bytes, used_bytes; /* of all segments */
	uint64_t empty_bytes;	    /* in segments without a block, which the allocator can give back */
	uint64_t outside_bytes;	    /* in segments that are not the allocator's: memory_pieces_end() */
	uint64_t before_bytes;	    /* that the allocator has beside these segments, from before L2 was on */
	uint64_t split_bytes;	    /* free in segments with blocks, which it cannot */
	uint64_t expandable_bytes;  /* of these, in expandable segments */
	uint64_t gap_bytes;	    /* largest piece; until memory_pieces_end() of segments with blocks */
	uint64_t empty_gap_bytes;   /* largest segment without a block */
	size_t segments, split;	    /* split: with blocks and gaps */
};

void memory_pieces_add(struct memory_pieces *pieces, const struct memory_segment *segment);
/*
 * After the last segment. reserved_bytes: what the allocator says it had from the driver then; UINT64_MAX: unknown.
 * Libraries take memory without the allocator, of which no block is seen: what the segments have beyond
 * `reserved_bytes` is in those without a block, and is not free.
 */
void memory_pieces_end(struct memory_pieces *pieces, uint64_t reserved_bytes);
/* After that. unused_bytes: what the allocator had reserved and not allocated. Blocks that were not sampled lie where no
 * block is known, in segments of either kind alike: no more than this is free, and the rest is used. */
void memory_pieces_cap(struct memory_pieces *pieces, uint64_t unused_bytes);

/* Calls of the driver that take and give back memory of devices. */
struct memory_calls {
	double take_ns, take_bytes, give_ns, give_bytes;
};

/*
 * Time of those that take what was given back, or give back what is taken again. The rest of the calls is needed: a
 * pool that fills, and one that is released.
 */
double memory_calls_again_ns(const struct memory_calls *calls);

/* How they hold up a rank, judged again and again. */
struct memory_calls_judge {
	uint64_t judged_ns, steps; /* the last time; its steps then */
	uint64_t since_ns;	   /* they have cost so much since then; 0: they do not */
	double percent;		   /* of the time, when they last did */
};

/*
 * calls: since the last time. True: they have had `percent_min` of the time for two periods, in each of which the rank
 * made steps: what a program does once, as between its epochs, is over by then.
 */
bool memory_calls_judge(struct memory_calls_judge *judge, uint64_t now_ns, uint64_t steps,
	const struct memory_calls *calls, double percent_min);

/* What becomes of memory that is free in pieces. */
enum memory_remedy {
	MEMORY_REMEDY_NONE,
	MEMORY_REMEDY_EXPANDABLE,
	MEMORY_REMEDY_RETRIES,
	MEMORY_REMEDY_UNKNOWN, /* too few of the segments are known */
	MEMORY_REMEDY_MAX
};

struct memory_waste {
	double reserved, allocated; /* at the peak */
	double split;		    /* memory_pieces: of split_bytes what is not in expandable segments */
	double unseen_share;	    /* of what is reserved, in segments that are not known */
	double calls_share;	    /* of the time after the warm-up: memory_calls_again_ns() */
};

enum memory_remedy memory_waste_remedy(const struct memory_waste *waste);
/* A sentence; "": nothing is wrong. */
const char *memory_remedy_text(enum memory_remedy remedy);

#endif
