/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory each line holds, from the live bytes of each class of sizes, which are exact, and sampled blocks. Pure.
 *
 * What is held of a class is divided among the sites of its sampled blocks. A class without a sampled block is left out,
 * so the sum is at most what is held.
 */
#ifndef RANKTRACE_MEMORY_HELD_H
#define RANKTRACE_MEMORY_HELD_H

#include "bpf/memory.h"

#include <stddef.h>

struct memory_held {
	uint64_t site; /* rt_memory_block.site */
	double bytes, blocks;
	double sampled; /* bytes of sampled blocks: bytes is no less */
	double error2; /* square of the standard error of bytes; 0: each block of these classes was sampled */
};

/*
 * Orders `block`. Writes one for each site, in order of `site`: `ret` has as many elements as
 * `block`. Returns their number.
 */
size_t memory_held(const struct rt_memory_rank *rank, struct rt_memory_block *block, size_t blocks, struct memory_held *ret);
/* NULL: the site has no block. */
const struct memory_held *memory_held_find(const struct memory_held *held, size_t count, uint64_t site);

#endif
