/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of marker libraries to operations of analyzers/coll/coll.h. Pure: no clock, no I/O. The records are a process's word:
 * lengths, kinds, texts and times are checked, and a time that cannot be true is given as not known.
 *
 * Device times become CLOCK_MONOTONIC by the pair in the communicator's latest record. They are taken for true where the
 * operation then ended before the host heard of it and began at most DEVICE_EARLY_NS before the host gave it away; a
 * device whose clock is not the host's UTC shows there, and its times are left out rather than guessed.
 */
#ifndef RANKTRACE_DAEMON_COLLECT_MARKER_DECODE_H
#define RANKTRACE_DAEMON_COLLECT_MARKER_DECODE_H

#include "analyzers/coll/coll.h"
#include "bpf/marker.h"
#include "daemon/base/util.h"

#define MARKER_COMMS_MAX 256 /* a process; the one told of longest ago gives way */
#define DEVICE_EARLY_NS (100 * NSEC_PER_MSEC)
#define DEVICE_LATE_BY_NS (2 * NSEC_PER_MSEC) /* how much later than the host heard: two clocks, read apart */

struct marker_comm {
	uint64_t identity; /* 0: free */
	uint64_t told;     /* order of the telling */
	int64_t offset_ns; /* device time to CLOCK_MONOTONIC */
	uint32_t nodes;
	char name[64];
};

struct marker_counts {
	uint64_t operations;  /* complete with device times */
	uint64_t incomplete;  /* without: nobody told them */
	uint64_t late;	      /* OPEN records */
	uint64_t bad_clock;   /* device times that cannot be true */
	uint64_t unreadable;  /* records that make no sense, or could not be copied */
	uint64_t lost;	      /* in the process, for want of room, as it says */
	uint64_t newer;	      /* events of a version that we do not know */
};

/* What one process told so far. */
struct marker_process {
	struct marker_counts counts;
	uint32_t interface; /* of NCCL that the library is driven by; 0: nothing was told yet */
	uint64_t told;
	struct marker_comm comm[MARKER_COMMS_MAX];
};

typedef void (*marker_sink)(void *arg, const struct coll_device *device);

/* Calls back for each operation; its texts are valid for the call. size_bytes: of the whole event. */
void marker_decode(struct marker_process *process, const struct rt_marker_event *event, size_t size_bytes, marker_sink sink,
	void *arg);

#endif
