/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a rank may use of what all ranks share: bytes a second of the ring, and entries of the maps. One rank's excess
 * costs that rank its records and no other. The map `quotas` has an entry for each slot of the rank table, then one for
 * each user: the pool that his ranks draw from when their own share is spent. All zero: no limit.
 *
 * The daemon writes the limits (daemon/ranks/rank_shares.c); the programs write the rest.
 */
#ifndef RANKTRACE_QUOTA_H
#define RANKTRACE_QUOTA_H

#include "bpf/event.h"

/* What a rank holds in the kernel's maps. A map has this many entries for each slot of the rank table. */
enum rt_held {
	RT_HELD_CALLS = 0,   /* calls in flight */
	RT_HELD_GROUPS = 1,  /* open groups of calls */
	RT_HELD_TEXTS = 2,   /* texts of calls in flight */
	RT_HELD_THREADS = 3, /* threads followed off the CPU: the limit is threads_max */
	RT_HELD_MAX
};

/* A training process has some ten threads in probed calls, and a group or a text on one thread for each of its
 * devices. */
#define RT_RANK_CALLS_MAX 64
#define RT_RANK_GROUPS_MAX 16
#define RT_RANK_TEXTS_MAX 16

/*
 * Bytes a second as a virtual clock: each record moves paid_ns on by its size; it may be ahead of the time by nothing
 * and behind by burst_ns.
 *
 * Space in the ring: a rank has reserve_bytes of the ring's second half for itself, and uses more only while the ring
 * is less than half full. However long the daemon does not read, a rank within its reserve loses nothing.
 *
 * Records that give way (kind_gives_way()) have half of all this: of the bytes that may be sent at once, of the
 * reserve, and of the ring.
 */
struct rt_quota {
	uint64_t paid_ns;     /* CLOCK_MONOTONIC */
	uint64_t burst_ns;    /* what was not used for this long may be sent at once */
	uint32_t ns_per_kib;  /* 0: no limit */
	uint32_t pool;	      /* entry of the user, 0: none */
	uint32_t threads_max; /* 0: no limit */
	uint32_t reserve_bytes;
	uint64_t sent_bytes; /* to the ring */
	uint64_t limited;    /* records not sent and entries not kept */
	int32_t held[RT_HELD_MAX];
	/* Written by the daemon: in a cache line of its own. */
	uint64_t read_bytes;	/* of those sent */
	uint32_t stacks_wanted; /* of so many hits of L0 from now on the stack is read */
	uint32_t pad0;
	uint64_t limited_calls; /* of `limited`, records that give way to none; by the programs, and rare */
	uint64_t pad1[5];
};

_Static_assert(sizeof(struct rt_quota) == 128, "a quota is two cache lines");

/* What a record takes in the ring: the kernel's header and alignment included. */
#define RT_RING_BYTES(size_bytes) (((size_bytes) + 8 + 7) / 8 * 8)

#endif
