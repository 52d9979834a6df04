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
#define RT_MARKER_RECORD_BYTES_MAX 512 /* of a library newer than the daemon, which reads the part that it knows */

enum rt_marker_kind {
	RT_MARKER_NONE = 0,
	RT_MARKER_COMM = 1, /* struct rt_marker_comm, once a batch before the first record of each communicator in it */
	RT_MARKER_COLL = 2, /* a collective is complete on the device, or nothing more will be heard of it */
	RT_MARKER_P2P = 3,
	RT_MARKER_OPEN = 4, /* was given to the device and is not complete yet: sent once when it is late */
};

#define RT_MARKER_CAPTURED 1u	/* launched by a recorded graph; once a replay */
#define RT_MARKER_INCOMPLETE 2u /* not all channels told their times, or the library cannot know them */
#define RT_MARKER_LOST 4u	/* records before this one were lost for want of room */
/* seq counts collectives in the order in which they were launched, not called (these differ within a group: NCCL sorts
 * its members by size), because the interface does not tell of calls. */
#define RT_MARKER_BY_LAUNCH 8u

/*
 * Both are 128 bytes without holes and begin alike. Host times are CLOCK_MONOTONIC of the process's node; device times are
 * as the device gives them (NVIDIA: globaltimer, UTC ns), to be mapped by the pair in the communicator's record.
 */
struct rt_marker_record {
	uint16_t kind;		  /* enum rt_marker_kind */
	uint16_t flags;		  /* RT_MARKER_* */
	uint32_t size_bytes;	  /* of this record as the library knows it */
	uint64_t identity;	  /* of the communicator */
	uint64_t seq;		  /* collectives: its call's number on the communicator since init, from 1; 0: not known */
	uint64_t count;		  /* elements */
	uint64_t host_ns;	  /* the host said that it is given to the device's queue: the device may have begun already */
	uint64_t device_start_ns; /* earliest over channels; 0: not known */
	uint64_t device_stop_ns;  /* latest over channels; 0: not known */
	uint64_t host_stop_ns;	  /* when the host heard of its end, or gave it up; OPEN: when this was written */
	uint32_t member;
	uint32_t members;
	int32_t peer;		  /* -1: collective */
	uint16_t channels;	  /* that it uses; 0: not known */
	uint16_t channels_done;	  /* that told start and stop */
	char text[32];		  /* operation, terminated */
	char dtype[16];		  /* as the library calls it ("ncclFloat32"), terminated */
};

struct rt_marker_comm {
	uint16_t kind;
	uint16_t flags;
	uint32_t size_bytes;
	uint64_t identity;
	uint32_t nodes;		 /* 0: not known */
	uint32_t interface;	 /* version of the interface through which the library is driven */
	uint64_t lost;		 /* operations of this process that found no room, so far */
	uint64_t init_host_ns;
	uint64_t device_pair_ns; /* the device's clock (NVIDIA: UTC of the host) ... */
	uint64_t host_pair_ns;	 /* ... and CLOCK_MONOTONIC, read together when this record was written */
	uint32_t member;
	uint32_t members;	 /* 0: not known */
	char name[64];		 /* terminated */
};

_Static_assert(sizeof(struct rt_marker_record) == 128, "a marker record has no holes");
_Static_assert(sizeof(struct rt_marker_comm) == sizeof(struct rt_marker_record), "records of a batch have one size");

struct rt_marker_event {
	struct rt_event event;     /* kind RT_KIND_MARKER; flags: version */
	uint32_t records;          /* used of record[] */
	uint32_t lost;             /* of this batch, that could not be read */
	struct rt_marker_record record[RT_MARKER_EVENT_RECORDS];
};

#endif
