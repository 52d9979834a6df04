/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory (L2): records of rows with the events `alloc` and `free` to the view `allocations`. Fields that a row may
 * give: address, bytes, device. A failed allocation has its result and no address. What lives is remembered, so that a
 * free shows the bytes that it gives back: at most ALLOC_LIVE_MAX a rank, and what was taken while the level was off is
 * not known. A library's function that calls another one's (cudaFree and cuMemFree) makes a row of each.
 */
#ifndef RANKTRACE_ALLOC_ROOM_H
#define RANKTRACE_ALLOC_ROOM_H

#include "daemon/call_rooms.h"

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
