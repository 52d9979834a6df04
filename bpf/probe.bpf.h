/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What every BPF program here shares: the ring, the drop counters and the rank filter. The maps are declared in each
 * object and made one by the loader (daemon/kernel/kernel.c reuses the first object's descriptors by name), so that one ring
 * carries everything in order and a process is a rank for all collectors at once.
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

/* Records that found no room in the ring, by kind; read and shown by the daemon, never reset. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RT_KIND_MAX);
	__type(key, uint32_t);
	__type(value, uint64_t);
} drops SEC(".maps");

/* Processes that are ranks: the filter of every probe. The value is the daemon's slot for the rank. */
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
		*count += 1; /* per CPU; a preempted increment may lose one, never invent one */
}

/* Reserves a record of size bytes (a compile-time constant) and fills its header; counts the drop where it cannot. */
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
 * Hands a reserved record over. The daemon drains the ring every 100 ms by itself, and waking it costs the probed call more
 * than the record does; so it is woken only as the ring fills: each time that another eighth of it waits. (A range of bytes
 * around each eighth, because records differ in size; a wakeup too many is harmless, and after one that was missed comes
 * the next eighth's, or the drain.)
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
