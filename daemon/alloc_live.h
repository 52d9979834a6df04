/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations of one process that live, and their sizes: a bounded table by address. Pure. */
#ifndef RANKTRACE_ALLOC_LIVE_H
#define RANKTRACE_ALLOC_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct alloc_live_entry {
	uint64_t address;  /* 0: none here */
	uint64_t bytes;
	uint64_t freed_ns; /* start of the call that freed it, 0: it lives */
};

struct alloc_live {
	struct alloc_live_entry *entry;
	size_t capacity;  /* a power of two */
	size_t used;  /* freed ones included */
	size_t lives;
	size_t max;
};

void alloc_live_init(struct alloc_live *live, size_t max);
void alloc_live_clear(struct alloc_live *live);
/* False: it is not remembered, for want of room. */
bool alloc_live_add(struct alloc_live *live, uint64_t address, uint64_t bytes);
/*
 * The size of what this call, which began at start_ns, gave back; false where it is not known. Functions that free call
 * each other, and the inner one is heard of first: one that encloses a free of the same address gave back the same.
 */
bool alloc_live_drop(struct alloc_live *live, uint64_t address, uint64_t start_ns, uint64_t *ret_bytes);

#endif
