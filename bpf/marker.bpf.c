/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Batches of marker libraries: one program on their USDT probe, whose operands are the first four argument registers
 * (bpf/marker/usdt.h; the daemon attaches to no other layout). Copies the records to the ring uninterpreted. The count
 * comes from the process and is clamped; unreadable records are counted.
 */
#include "bpf/probe.bpf.h"
#include "bpf/marker.h"

#define RECORD_BYTES sizeof(struct rt_marker_record)
#define EVENTS_MAX (RT_MARKER_BATCH_MAX / RT_MARKER_EVENT_RECORDS)

/* Slots of struct pt_regs: rdi, rsi, rdx, rcx; x0 to x3. */
#if defined(__TARGET_ARCH_arm64)
enum { RECORDS_SLOT = 0, COUNT_SLOT = 1, BYTES_SLOT = 2, VERSION_SLOT = 3 };
#else
enum { RECORDS_SLOT = 14, COUNT_SLOT = 13, BYTES_SLOT = 12, VERSION_SLOT = 11 };
#endif

static __always_inline uint64_t marker_slot(void *ctx, uint32_t number)
{
	return *(const volatile uint64_t *)((const char *)ctx + number * 8);
}

/* One event of up to RT_MARKER_EVENT_RECORDS records, stride bytes apart. */
static __always_inline void marker_send(
	uint64_t address, uint32_t records, uint32_t stride, uint16_t version, struct rt_quota *quota)
{
	struct rt_marker_event *event = reserve_rank_event(quota, RT_KIND_MARKER, sizeof(*event));

	if (!event)
		return;
	event->event.flags = version;
	event->records = RT_MARKER_EVENT_RECORDS;
	event->lost = 0;
	if (records == RT_MARKER_EVENT_RECORDS && stride == RECORD_BYTES &&
		!bpf_probe_read_user(event->record, sizeof(event->record), (void *)address)) {
		submit_event(event);
		return;
	}
	event->records = 0;
	for (uint32_t i = 0; i < RT_MARKER_EVENT_RECORDS; i++) {
		struct rt_marker_record *record = &event->record[i];

		if (i >= records ||
			bpf_probe_read_user(record, RECORD_BYTES, (void *)(address + (uint64_t)i * stride))) {
			event->lost += i < records;
			__builtin_memset(record, 0, RECORD_BYTES);
			continue;
		}
		event->records = i + 1;
	}
	submit_event(event);
}

SEC("uprobe")
int marker_batch(void *ctx)
{
	uint32_t pid = bpf_get_current_pid_tgid() >> 32;
	uint64_t address = marker_slot(ctx, RECORDS_SLOT);
	uint32_t left = marker_slot(ctx, COUNT_SLOT), stride = marker_slot(ctx, BYTES_SLOT);
	uint16_t version = marker_slot(ctx, VERSION_SLOT);
	uint32_t *rank_slot = bpf_map_lookup_elem(&ranks, &pid);
	struct rt_quota *quota;

	if (!rank_slot)
		return 0;
	quota = find_quota(*rank_slot);
	if (stride < RECORD_BYTES || stride > RT_MARKER_RECORD_BYTES_MAX || left > RT_MARKER_BATCH_MAX) {
		count_drop(RT_KIND_MARKER);
		if (stride < RECORD_BYTES || stride > RT_MARKER_RECORD_BYTES_MAX)
			return 0;
		left = RT_MARKER_BATCH_MAX;
	}
	for (int i = 0; i < (int)EVENTS_MAX && left > 0; i++) {
		uint32_t records = left < RT_MARKER_EVENT_RECORDS ? left : RT_MARKER_EVENT_RECORDS;

		marker_send(address, records, stride, version, quota);
		address += (uint64_t)RT_MARKER_EVENT_RECORDS * stride;
		left -= records;
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
