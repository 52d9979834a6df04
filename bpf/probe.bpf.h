/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shared by every BPF program: ring, drop counters, rank filter, limits of ranks. Each object declares the maps; the
 * loader unifies them (daemon/kernel/kernel.c reuses the first object's descriptors by name), so that one ring keeps
 * the order and one filter serves all collectors.
 */
#ifndef RANKTRACE_PROBE_BPF_H
#define RANKTRACE_PROBE_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "bpf/cost.h"
#include "bpf/quota.h"

/*
 * A saved register at a constant slot: the verifier allows a plain load. In assembly: the compiler would merge loads
 * into one at a computed offset, which the verifier rejects.
 */
#define FIXED_SLOT(ctx, slot) \
	({ \
		uint64_t value_; \
		asm volatile("%0 = *(u64 *)(%1 + %2)" : "=r"(value_) : "r"(ctx), "i"((slot)*8)); \
		value_; \
	})

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); /* set by the loader from the configuration */
} events SEC(".maps");

/* Records dropped because the ring was full, by kind; never reset. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RT_KIND_MAX);
	__type(key, uint32_t);
	__type(value, uint64_t);
} drops SEC(".maps");

/* Processes that are ranks: the filter of every probe. Value: the daemon's slot. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024); /* set by the loader */
	__type(key, uint32_t);
	__type(value, uint32_t);
} ranks SEC(".maps");

/* Limits of ranks, by slot, and of users. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, uint32_t);
	__type(value, struct rt_quota);
} quotas SEC(".maps");

/* What probes cost ranks, by slot. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, uint32_t);
	__type(value, struct rt_costs);
} costs SEC(".maps");

/* A hit of a probe, and the number of hits before it. */
struct cost_hit {
	uint32_t slot, level, kind; /* rt_cost_level, rt_cost_kind */
	uint32_t pad0;
	uint64_t start_ns, number;
};

static __always_inline struct rt_cost *cost_find(const struct cost_hit *hit)
{
	uint32_t slot = hit->slot;
	struct rt_costs *all = bpf_map_lookup_elem(&costs, &slot);

	return all ? &all->at[hit->level & (RT_COST_LEVELS - 1)][hit->kind & (RT_COST_KINDS - 1)] : NULL;
}

/*
 * Is its time measured? Reading the clock at each would cost what it measures. Which ones is a hash of their number,
 * since hits come in patterns. The verifier does not see that the answer is the same at the end: else it would follow
 * all that is in between twice, and Linux 6.1 refuses the call engine.
 */
static __always_inline bool cost_is_timed(const struct cost_hit *hit)
{
	uint64_t number = hit->number;

	asm volatile("" : "+r"(number));
	return !(number * 0x9e3779b97f4a7c15ULL >> 60);
}

static __always_inline struct cost_hit cost_begin(
	uint32_t slot, enum rt_cost_level level, enum rt_cost_kind kind, uint64_t start_ns)
{
	struct cost_hit hit = {.slot = slot, .level = level, .kind = kind, .start_ns = start_ns, .number = start_ns};
	struct rt_cost *cost = cost_find(&hit);

	if (!cost)
		return hit;
	hit.number = cost->hits;
	__sync_fetch_and_add(&cost->hits, 1);
	if (cost_is_timed(&hit))
		__sync_fetch_and_add(&cost->find_ns, bpf_ktime_get_ns() - start_ns);
	return hit;
}

static __always_inline void cost_add(struct rt_cost *cost, uint64_t start_ns)
{
	__sync_fetch_and_add(&cost->run_ns, bpf_ktime_get_ns() - start_ns);
	__sync_fetch_and_add(&cost->timed, 1);
}

static __always_inline void cost_end(const struct cost_hit *hit)
{
	struct rt_cost *cost = cost_is_timed(hit) ? cost_find(hit) : NULL;

	if (cost)
		cost_add(cost, hit->start_ns);
}

/* NULL: no limits. */
static __always_inline struct rt_quota *find_quota(uint32_t slot)
{
	return bpf_map_lookup_elem(&quotas, &slot);
}

static __always_inline void count_drop(uint32_t kind)
{
	uint64_t *count = bpf_map_lookup_elem(&drops, &kind);

	if (count)
		__sync_fetch_and_add(count, 1);
}

/*
 * What all judgement rests on, calls (of L0 and L1, beside those of L2), finds half of a share and of the ring left by
 * other records: while L3 is on, they are many.
 */
static __always_inline bool kind_gives_way(uint32_t kind)
{
	return kind != RT_KIND_CALL && kind != RT_KIND_MARKER && kind != RT_KIND_END;
}

/*
 * Takes a record's bytes from a share, or false. Two CPUs may both see the last bytes: the excess is a record for each
 * CPU. The clock of an idle share is moved up by a plain store, which loses at most what another CPU adds meanwhile.
 */
static __always_inline bool take_bytes(struct rt_quota *quota, uint64_t now_ns, uint32_t size_bytes, bool gives_way)
{
	uint64_t cost_ns = (uint64_t)size_bytes * quota->ns_per_kib >> 10;
	uint64_t paid_ns = quota->paid_ns, floor_ns = now_ns - quota->burst_ns;

	if (paid_ns < floor_ns) {
		paid_ns = floor_ns;
		quota->paid_ns = floor_ns;
	}
	if (paid_ns + cost_ns + (gives_way ? quota->burst_ns / 2 : 0) > now_ns)
		return false;
	__sync_fetch_and_add(&quota->paid_ns, cost_ns);
	return true;
}

static __always_inline void count_limited(struct rt_quota *quota, bool is_call)
{
	__sync_fetch_and_add(&quota->limited, 1);
	if (is_call)
		__sync_fetch_and_add(&quota->limited_calls, 1);
}

/* The rank's reserve, or the ring's first half. */
static __always_inline bool has_space(const struct rt_quota *quota, uint32_t size_bytes, bool gives_way)
{
	if (quota->sent_bytes - quota->read_bytes + size_bytes <= quota->reserve_bytes >> gives_way)
		return true;
	return bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) < bpf_ringbuf_query(&events, BPF_RB_RING_SIZE) >>
	       (1 + gives_way);
}

/* May the rank send a record of this kind and size? From its own share, else from its user's pool. */
static __always_inline bool may_send(struct rt_quota *quota, uint32_t kind, uint64_t now_ns, uint32_t size_bytes)
{
	bool gives_way = kind_gives_way(kind);
	struct rt_quota *pool;

	if (!quota || !quota->ns_per_kib)
		return true;
	if (has_space(quota, RT_RING_BYTES(size_bytes), gives_way)) {
		if (take_bytes(quota, now_ns, size_bytes, gives_way))
			return true;
		pool = quota->pool ? find_quota(quota->pool) : NULL;
		if (pool && pool->ns_per_kib && take_bytes(pool, now_ns, size_bytes, gives_way))
			return true;
	}
	count_limited(quota, !gives_way);
	return false;
}

/* Reserves a place in a map of `max` entries for each rank, or false. */
static __always_inline bool probe_hold(struct rt_quota *quota, enum rt_held what, int32_t max)
{
	if (!quota)
		return true;
	if (quota->held[what] >= max) {
		count_limited(quota, what != RT_HELD_THREADS);
		return false;
	}
	__sync_fetch_and_add(&quota->held[what], 1);
	return true;
}

static __always_inline void probe_release(struct rt_quota *quota, enum rt_held what)
{
	if (quota)
		__sync_fetch_and_add(&quota->held[what], -1);
}

/* Reserves a record of `size` bytes (a compile-time constant) and fills its header; counts the drop on failure. */
static __always_inline void *reserve_event_at(uint32_t kind, uint32_t size_bytes, uint64_t now_ns)
{
	struct rt_event *event = bpf_ringbuf_reserve(&events, size_bytes, 0);
	uint64_t id;

	if (!event) {
		count_drop(kind);
		return NULL;
	}
	id = bpf_get_current_pid_tgid();
	event->time_ns = now_ns;
	event->kind = kind;
	event->flags = 0;
	event->size_bytes = size_bytes;
	event->pid = id >> 32;
	event->thread_id = (uint32_t)id;
	return event;
}

static __always_inline void *reserve_event(uint32_t kind, uint32_t size_bytes)
{
	return reserve_event_at(kind, size_bytes, bpf_ktime_get_ns());
}

/* As reserve_event(), within the limits of a rank; NULL, counted, beyond them. quota NULL: no limits. */
static __always_inline void *reserve_rank_event(struct rt_quota *quota, uint32_t kind, uint32_t size_bytes)
{
	uint64_t now_ns = bpf_ktime_get_ns();
	void *event = may_send(quota, kind, now_ns, size_bytes) ? reserve_event_at(kind, size_bytes, now_ns) : NULL;

	if (event && quota)
		__sync_fetch_and_add(&quota->sent_bytes, RT_RING_BYTES(size_bytes));
	return event;
}

/*
 * Sends a record of a size that is known late, within the limits of a rank; its payload is filled. False: lost, and
 * counted. buffer_bytes: of the whole record.
 */
static __always_inline bool send_rank_event(struct rt_quota *quota, struct rt_event *event, uint64_t buffer_bytes,
	uint32_t kind, uint64_t size_bytes, uint32_t pid, uint32_t thread_id)
{
	uint64_t now_ns = bpf_ktime_get_ns();

	/* Here, whatever the caller knows: the verifier of Linux 5.10 loses bounds on the way. */
	asm volatile("" : "+r"(size_bytes));
	if (size_bytes > buffer_bytes)
		return false;
	event->time_ns = now_ns;
	event->kind = kind;
	event->flags = 0;
	event->size_bytes = size_bytes;
	event->pid = pid;
	event->thread_id = thread_id;
	if (!may_send(quota, kind, now_ns, size_bytes))
		return false;
	if (bpf_ringbuf_output(&events, event, size_bytes, BPF_RB_NO_WAKEUP)) {
		count_drop(kind);
		return false;
	}
	if (quota)
		__sync_fetch_and_add(&quota->sent_bytes, RT_RING_BYTES(size_bytes));
	return true;
}

/*
 * Submits a reserved record. The daemon drains the ring every 100 ms, and a wakeup costs the probed call more than the
 * record, so it is woken only at each eighth of the ring that fills. (A byte range around each eighth, because records
 * vary in size; an extra wakeup is harmless, a missed one is made up by the next eighth or the drain.)
 */
#define WAKE_RANGE_BYTES 256

static __always_inline void submit_event(void *event)
{
	uint64_t eighth = bpf_ringbuf_query(&events, BPF_RB_RING_SIZE) / 8;
	uint64_t waiting = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA);
	bool wake = waiting >= eighth && (waiting & (eighth - 1)) < WAKE_RANGE_BYTES;

	bpf_ringbuf_submit(event, wake ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

#endif
