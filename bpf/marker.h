/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What marker libraries (bpf/marker/) hand over, and its way through the ring.
 *
 * A marker library keeps finished records in a buffer of its own and reaches the USDT probe
 *   ranktrace:batch(records, count, record_bytes, version)
 * when the buffer fills or has waited: a 5-byte nop until the daemon attaches. One hit carries up to RT_MARKER_BATCH_MAX
 * records. marker.bpf.c copies them to the ring in events of RT_MARKER_EVENT_RECORDS each. Nothing in them is believed.
 */
#ifndef RANKTRACE_MARKER_H
#define RANKTRACE_MARKER_H

#include "bpf/event.h"

#define RT_MARKER_VERSION 1
#define RT_MARKER_BATCH_MAX 64
#define RT_MARKER_EVENT_RECORDS 8
#define RT_MARKER_NAME_BYTES 32

enum rt_marker_kind {
	RT_MARKER_NONE = 0,
	RT_MARKER_COMM = 1,  /* a communicator: identity, member, members, name */
	RT_MARKER_COLL = 2,  /* a collective is complete on the device, or was given up */
	RT_MARKER_P2P = 3,
	RT_MARKER_OPEN = 4,  /* was given to the device and is not complete yet: sent when it is late */
};

#define RT_MARKER_CAPTURED 1u   /* launched by a recorded graph */
#define RT_MARKER_INCOMPLETE 2u /* not all channels told their times */
#define RT_MARKER_LOST 4u       /* records before this one were lost for want of room */

/* 128 bytes, no holes. Clocks: host times are CLOCK_MONOTONIC of this process's node; device times are as the device
 * gives them, with one pair (device_pair_ns, host_pair_ns) read together, 0 where the clock is UTC's (NVIDIA's
 * globaltimer) and needs none. */
struct rt_marker_record {
	uint16_t kind;             /* enum rt_marker_kind */
	uint16_t flags;            /* RT_MARKER_* */
	uint32_t size_bytes;       /* of this record as the library knows it */
	uint64_t identity;         /* of the communicator */
	uint64_t seq;              /* collectives of the communicator since its init, from 1 */
	uint64_t count;            /* elements; COMM: number of nodes */
	uint64_t host_ns;          /* given to the device's queue */
	uint64_t device_start_ns;  /* earliest over channels; 0: not known */
	uint64_t device_stop_ns;   /* latest over channels */
	uint64_t host_stop_ns;     /* when the host heard of it */
	uint32_t member;
	uint32_t members;
	int32_t peer;              /* -1: collective */
	uint16_t channels;         /* used */
	uint16_t channels_done;    /* that told start and stop */
	char text[RT_MARKER_NAME_BYTES]; /* operation, COMM: name; terminated */
	char dtype[16];            /* terminated */
};

_Static_assert(sizeof(struct rt_marker_record) == 128, "a marker record has no holes");

struct rt_marker_event {
	struct rt_event event;     /* kind RT_KIND_MARKER; flags: version */
	uint32_t records;          /* used of record[] */
	uint32_t lost;             /* of this batch, that could not be read */
	struct rt_marker_record record[RT_MARKER_EVENT_RECORDS];
};

#endif
