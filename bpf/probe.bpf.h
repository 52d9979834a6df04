/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shared by every BPF program: ring, drop counters, rank filter. Each object declares the maps; the loader unifies
 * them (daemon/kernel/kernel.c reuses the first object's descriptors by name), so that one ring keeps the order and
 * one filter serves all collectors.
 */
#ifndef RANKTRACE_PROBE_BPF_H
#define RANKTRACE_PROBE_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "bpf/event.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); /* set by the loader from the configuration */
} events SEC(".maps");

/* Records dropped because the ring was full, by kind; never reset. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
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

static __always_inline void count_drop(uint32_t kind)
{
	uint64_t *count = bpf_map_lookup_elem(&drops, &kind);

	if (count)
		*count += 1; /* per CPU; preemption may lose an increment, never add one */
}

/* Reserves a record of `size` bytes (a compile-time constant) and fills its header; counts the drop on failure. */
static __always_inline void *reserve_event(uint32_t kind, uint32_t size_bytes)
{
	struct rt_event *event = bpf_ringbuf_reserve(&events, size_bytes, 0);
	uint64_t id;

	if (!event) {
		count_drop(kind);
		return NULL;
	}
	id = bpf_get_current_pid_tgid();
	event->time_ns = bpf_ktime_get_ns();
	event->kind = kind;
	event->flags = 0;
	event->size_bytes = size_bytes;
	event->pid = id >> 32;
	event->thread_id = (uint32_t)id;
	return event;
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
