/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who came last to a group: the shortest of its records is that of the one that all others waited for, and the second
 * tells by how much. Each record is a key, its duration and its rank in 64 bits, so that the shortest two are found
 * without a guess: who comes last is chance, and a processor that guesses it guesses wrong. Of equal durations the
 * lower rank's key is the shorter one.
 */
#ifndef RANKTRACE_DETECT_SHORTEST_H
#define RANKTRACE_DETECT_SHORTEST_H

#include <stdint.h>

#define SHORTEST_RANK_BITS 24
#define SHORTEST_RANKS (1ULL << SHORTEST_RANK_BITS)	/* the last number is not a rank's */
#define SHORTEST_NS (1ULL << (64 - SHORTEST_RANK_BITS)) /* 18 minutes: durations are shorter */

/* Of a group. */
struct shortest {
	uint64_t first, second; /* keys, UINT64_MAX: there is none */
	uint32_t records;
};

static inline struct shortest shortest_none(void)
{
	return (struct shortest){UINT64_MAX, UINT64_MAX, 0};
}

static inline void shortest_add(struct shortest *of, uint64_t duration_ns, uint64_t rank)
{
	uint64_t key = duration_ns << SHORTEST_RANK_BITS | rank;
	uint64_t first = of->first, longer = key > first ? key : first;

	of->first = key < first ? key : first;
	of->second = longer < of->second ? longer : of->second;
}

/* Of a key that is there. */
static inline uint64_t shortest_ns(uint64_t key)
{
	return key >> SHORTEST_RANK_BITS;
}

static inline uint32_t shortest_rank(uint64_t key)
{
	return (uint32_t)(key & (SHORTEST_RANKS - 1));
}

#endif
