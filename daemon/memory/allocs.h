/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory (L2): records with the events `alloc` and `free` to the view `allocations`. Fields of a row: address,
 * bytes, device. A failed allocation has its result and no address. Live allocations are kept, so that a free shows
 * its bytes: at most ALLOC_LIVE_MAX per rank; those made while the level was off are unknown. A library function that
 * calls another one (cudaFree and cuMemFree) makes two rows.
 */
#ifndef RANKTRACE_DAEMON_MEMORY_ALLOCS_H
#define RANKTRACE_DAEMON_MEMORY_ALLOCS_H

#include "daemon/calls/call_sink.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Live allocations of one process and their sizes: a bounded table by address. Pure. */

struct alloc_live_entry {
	uint64_t address; /* 0: empty entry */
	uint64_t bytes;
	uint64_t freed_ns; /* start of the call that freed it, 0: live */
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
/* False: not kept, table full. */
bool alloc_live_add(struct alloc_live *live, uint64_t address, uint64_t bytes);
/*
 * Bytes freed by this call, which began at start_ns; false if unknown. Freeing functions call each other, and the
 * inner one ends first: an enclosing free of the same address freed the same bytes.
 */
bool alloc_live_drop(struct alloc_live *live, uint64_t address, uint64_t start_ns, uint64_t *ret_bytes);

#define ALLOC_LIVE_MAX 65536

struct allocs;

struct allocs_counts {
	uint64_t rows;
	uint64_t live;	       /* allocations kept now */
	uint64_t not_followed; /* beyond the bound: their free has no bytes */
};

int allocs_new(struct context *context, struct allocs **ret);
struct allocs *allocs_free(struct allocs *allocs);
void allocs_counts(const struct allocs *allocs, struct allocs_counts *ret);

extern const struct call_sink allocs_sink;

#endif
