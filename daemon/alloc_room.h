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

struct alloc_room;

struct alloc_room_counts {
	uint64_t rows;
	uint64_t live;         /* allocations that are remembered now */
	uint64_t not_followed; /* beyond the bound: their free will show no bytes */
};

int alloc_room_new(struct context *context, struct alloc_room **ret);
struct alloc_room *alloc_room_free(struct alloc_room *allocs);
void alloc_room_counts(const struct alloc_room *allocs, struct alloc_room_counts *ret);

extern const struct call_room alloc_call_room;

#endif
