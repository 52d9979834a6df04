/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes records of marker libraries into operations of analyzers/coll/coll.h. Pure: no clock, no I/O. Records are
 * not trusted: lengths, kinds, texts and times are checked; impossible times become unknown.
 *
 * Device times are converted to CLOCK_MONOTONIC by the clock pair in the communicator's latest record. They are valid
 * if the operation ended before the host was notified and began at most DEVICE_EARLY_NS before the host enqueued it. A
 * device clock that is not the host's UTC fails this; its times are dropped.
 */
#ifndef RANKTRACE_DAEMON_COLLECT_MARKER_DECODE_H
#define RANKTRACE_DAEMON_COLLECT_MARKER_DECODE_H

#include "analyzers/coll/coll.h"
#include "bpf/marker.h"
#include "daemon/base/util.h"

#define MARKER_COMMS_MAX 256 /* per process; the least recently reported one is replaced */
#define DEVICE_EARLY_NS (100 * NSEC_PER_MSEC)
#define DEVICE_LATE_BY_NS (2 * NSEC_PER_MSEC) /* after the host's notification: two clocks, read apart */

struct marker_comm {
	uint64_t identity; /* 0: free */
	uint64_t reported; /* order of reports; 0: none */
	int64_t offset_ns; /* device time to CLOCK_MONOTONIC */
	uint32_t nodes;
	char name[64];
};

struct marker_counts {
	uint64_t operations;  /* complete with device times */
	uint64_t incomplete;  /* without device times: not reported */
	uint64_t late;	      /* OPEN records */
	uint64_t bad_clock;   /* with impossible device times */
	uint64_t unreadable;  /* invalid or uncopied records */
	uint64_t lost;	      /* dropped in the process for lack of space, by its own count */
	uint64_t newer;	      /* events of an unknown version */
};

/* State of one process's marker library. */
struct marker_process {
	struct marker_counts counts;
	uint32_t interface; /* of NCCL with the library; 0: no report yet */
	uint64_t reports;
	struct marker_comm comm[MARKER_COMMS_MAX];
};

typedef void (*marker_sink)(void *arg, const struct coll_device *device);

/* Calls back for each operation; texts are valid during the call. size_bytes: of the whole event. */
void marker_decode(struct marker_process *process, const struct rt_marker_event *event, size_t size_bytes, marker_sink sink,
	void *arg);

#endif
