/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Records of marker libraries (bpf/marker/) and their transport through the ring.
 *
 * A marker library buffers finished records and executes the USDT probe
 *   ranktrace:batch(records, count, record_bytes, version)
 * when the buffer is full or after a time: a 5-byte nop until the daemon attaches. One hit carries up to
 * RT_MARKER_BATCH_MAX records. marker.bpf.c copies them to the ring in events of RT_MARKER_EVENT_RECORDS each. Their
 * content is not trusted.
 */
#ifndef RANKTRACE_MARKER_H
#define RANKTRACE_MARKER_H

#include "bpf/event.h"

#define RT_MARKER_VERSION 1
#define RT_MARKER_BATCH_MAX 64
#define RT_MARKER_EVENT_RECORDS 8
#define RT_MARKER_RECORD_BYTES_MAX 512 /* of a library newer than the daemon, which reads the known part */

enum rt_marker_kind {
	RT_MARKER_NONE = 0,
	RT_MARKER_COMM = 1, /* struct rt_marker_comm, once per batch before the first record of each communicator */
	RT_MARKER_COLL = 2, /* a collective completed on the device, or was given up */
	RT_MARKER_P2P = 3,
	RT_MARKER_OPEN = 4, /* enqueued to the device and incomplete: sent once when late */
};

#define RT_MARKER_CAPTURED 1u	/* launched by a recorded graph; once per replay */
#define RT_MARKER_INCOMPLETE 2u /* not all channels reported times, or the library cannot know them */
#define RT_MARKER_LOST 4u	/* records before this one were lost for lack of space */
/*
 * seq counts collectives in launch order instead of call order (they differ within a group: NCCL sorts its members by
 * size), because the interface does not report calls.
 */
#define RT_MARKER_BY_LAUNCH 8u

/*
 * Both have 128 bytes without holes and a common beginning. Host times are CLOCK_MONOTONIC of the node; device times
 * are the device's (NVIDIA: globaltimer, near UTC, with an offset and a drift of its own); the daemon converts them
 * (analyzers/coll/device_clock.h).
 */
struct rt_marker_record {
	uint16_t kind;		  /* enum rt_marker_kind */
	uint16_t flags;		  /* RT_MARKER_* */
	uint32_t size_bytes;	  /* of this record, in the library's version */
	uint64_t identity;	  /* of the communicator */
	uint64_t seq;		  /* collectives: call number on the communicator since init, from 1; 0: unknown */
	uint64_t count;		  /* elements */
	uint64_t host_ns;	  /* enqueued to the device, as seen by the host: the device may have begun already */
	uint64_t device_start_ns; /* earliest over channels; 0: unknown */
	uint64_t device_stop_ns;  /* latest over channels; 0: unknown */
	uint64_t host_stop_ns;	  /* completion as seen by the host, or given up; OPEN: time of this record */
	uint32_t member;
	uint32_t members;
	int32_t peer;		/* -1: collective */
	uint16_t channels;	/* used channels; 0: unknown */
	uint16_t channels_done; /* channels that reported start and stop */
	char text[32];		/* operation, terminated */
	char dtype[16];		/* the library's name ("ncclFloat32"), terminated */
};

struct rt_marker_comm {
	uint16_t kind;
	uint16_t flags; /* number of the device in the process, from 1; 0: unknown */
	uint32_t size_bytes;
	uint64_t identity;
	uint32_t nodes;	    /* 0: unknown */
	uint32_t interface; /* interface version between NCCL and the library */
	uint64_t lost;	    /* operations of this process lost so far for lack of space */
	uint64_t init_host_ns;
	uint64_t unused[2]; /* 0 */
	uint32_t member;
	uint32_t members; /* 0: unknown */
	char name[64];	  /* terminated */
};

_Static_assert(sizeof(struct rt_marker_record) == 128, "a marker record has no holes");
_Static_assert(sizeof(struct rt_marker_comm) == sizeof(struct rt_marker_record), "records of a batch have one size");

struct rt_marker_event {
	struct rt_event event; /* kind RT_KIND_MARKER; flags: version */
	uint32_t records;      /* used of record[] */
	uint32_t lost;	       /* unreadable records of this batch */
	struct rt_marker_record record[RT_MARKER_EVENT_RECORDS];
};

#endif
