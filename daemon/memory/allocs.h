/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory (L2): records with the events `alloc` and `free` to the view `allocations`. Fields of a row: address,
 * bytes, device, stack. A failed allocation has its result and no address. Live allocations are kept, so that a free
 * shows its bytes: at most ALLOC_LIVE_MAX per rank; those made while the level was off are unknown. A library function
 * that calls another one (cudaFree and cuMemFree) makes one row: the kernel's side leaves out the inner call.
 */
#ifndef RANKTRACE_DAEMON_MEMORY_ALLOCS_H
#define RANKTRACE_DAEMON_MEMORY_ALLOCS_H

#include "analyzers/base/hash.h"
#include "analyzers/memory/segments.h"
#include "analyzers/steps/steps.h"
#include "daemon/calls/call_sink.h"
#include "daemon/store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct profile_rank;
struct rank;

/* A row that waits for its stack, or for the name of it. */
struct alloc_held {
	struct list_link link;
	struct row_allocations row;
	char op[sizeof(((struct probe *)NULL)->op)], stage[STEPS_NAME_BYTES];
	uint64_t start_ns; /* of the call */
	uint64_t held_ns, took_ns;
	uint64_t stack; /* the kernel's hash; 0: not known yet */
	uint32_t thread_id;
	bool failed;
};

/*
 * Of a rank. Stacks are known within a tick; those whose name is asked for are new ones, of which the kernel reads at
 * most RT_MEMORY_READS_MAX in RT_MEMORY_READS_TURN_NS: more than in 2 s. Where a rank has many failed calls besides, in
 * 1 s.
 */
#define ALLOC_HELD_MAX 1024

/* alloc_live.c: live allocations of one process and their sizes, a bounded table by address. Pure. */

enum alloc_kind {
	ALLOC_OTHER,  /* memory of the host, a handle */
	ALLOC_DEVICE, /* memory of a device with an address */
	ALLOC_MAPPED, /* addresses that a handle is mapped to: no memory of its own */
};

struct alloc_live_entry {
	uint64_t address; /* 0: empty entry */
	uint64_t bytes;
	uint64_t freed_ns; /* start of the call that freed it, 0: live */
	uint8_t kind;	   /* alloc_kind */
};

struct alloc_live {
	struct alloc_live_entry *entry;
	size_t capacity; /* a power of two */
	size_t used;	 /* freed ones included */
	size_t lives;
	size_t max;
};

void alloc_live_init(struct alloc_live *live, size_t max);
void alloc_live_clear(struct alloc_live *live);
/* False: not kept, table full. */
bool alloc_live_add(struct alloc_live *live, uint64_t address, uint64_t bytes, enum alloc_kind kind);
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
/* Live memory of devices of a rank's process, and parts of expandable segments, at most max. Returns their number. */
size_t allocs_segments(
	const struct allocs *allocs, uint32_t slot, int64_t instance, struct memory_segment *ret, size_t max);

/*
 * From now on, rows of calls whose stack the kernel reads wait for it, and for its name. allocs_stack(): the stack of a
 * call; false: no row waits for it. allocs_name(): puts rows whose stack has a name, or will have none; end: puts all,
 * and no further ones wait. True: a call that failed waits for a name, which the process may not be there for later.
 */
void allocs_follow(struct allocs *allocs, const struct rank *rank);
bool allocs_stack(struct allocs *allocs, uint32_t slot, uint32_t thread_id, uint64_t start_ns, uint64_t stack);
bool allocs_name(struct allocs *allocs, uint32_t slot, const struct profile_rank *names, uint64_t now_ns, bool end);
/* Of a rank that has ended: those that wait for names go to `to`, from which allocs_put_held() puts them as
 * allocs_name() does; all: each. */
void allocs_hand_over(struct allocs *allocs, uint32_t slot, struct list_link *to);
void allocs_put_held(struct store *store, struct list_link *list, const struct profile_rank *names, bool all);

/* Calls of devices since the last time. *ret_stack: of the longest one that takes, by rows that were put; 0:
 * unknown. */
void allocs_calls(struct allocs *allocs, uint32_t slot, struct memory_calls *ret, uint64_t *ret_stack);

extern const struct call_sink allocs_sink;

#endif
