/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory (L2): records of rows with the events `alloc` and `free` to the view `allocations`. Fields that a row may
 * give: address, bytes, device. A failed allocation has its result and no address. What lives is remembered, so that a
 * free shows the bytes that it gives back: at most ALLOC_LIVE_MAX a rank, and what was taken while the level was off is
 * not known. A library's function that calls another one's (cudaFree and cuMemFree) makes a row of each.
 */
#ifndef RANKTRACE_DAEMON_MEMORY_ALLOCS_H
#define RANKTRACE_DAEMON_MEMORY_ALLOCS_H

#include "daemon/calls/call_sink.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Allocations of one process that live, and their sizes: a bounded table by address. Pure. */

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

#define ALLOC_LIVE_MAX 65536

struct allocs;

struct allocs_counts {
	uint64_t rows;
	uint64_t live;         /* allocations that are remembered now */
	uint64_t not_followed; /* beyond the bound: their free will show no bytes */
};

int allocs_new(struct context *context, struct allocs **ret);
struct allocs *allocs_free(struct allocs *allocs);
void allocs_counts(const struct allocs *allocs, struct allocs_counts *ret);

extern const struct call_sink allocs_sink;

#endif
