/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device work as reported by its library: communicators, their operations in flight, and the channels of an operation,
 * which report begin and end. A finished operation becomes a record of batch.h.
 *
 * Callers hold handles: numbers of kind, index and generation, never addresses. Unknown, stale or invalid handles are
 * ignored. All functions are thread-safe and none fails: what exceeds a bound is counted.
 *
 * Memory: a communicator reserves about 230 kB of address space once (never freed, reused by later ones), touched only
 * as far as operations were in flight at a time: 112 bytes each. Only device_comm_open() allocates.
 */
#ifndef RANKTRACE_MARKER_DEVICE_OPS_H
#define RANKTRACE_MARKER_DEVICE_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/marker.h"

#define DEVICE_COMMS_MAX 256
#define DEVICE_OPS_MAX 2048	     /* in flight per communicator: the host runs at most about 1,000 launches ahead */
#define DEVICE_LATE_NS 1000000000ULL /* in flight this long: an OPEN record */
#define DEVICE_GIVE_UP_NS 30000000000ULL /* in flight this long while others follow: given up */

typedef uint64_t device_handle; /* 0: none */

struct device_comm_info {
	uint64_t identity; /* 0: unknown, see device_comm_identify() */
	uint32_t nodes, member, members;
	uint16_t device; /* cuda_device.h; 0: unknown */
	uint32_t interface;
	const char *name; /* may be NULL */
};

struct device_op_info {
	uint16_t kind;	   /* RT_MARKER_COLL, RT_MARKER_P2P */
	uint16_t channels; /* that will report times; 0: none, the operation's stop ends it */
	uint64_t count;
	int32_t peer;
	const char *operation; /* copied; may be NULL */
	const char *dtype;
	device_handle call; /* its device_call(), 0: unknown */
};

/* 0: bound reached. */
device_handle device_comm_open(const struct device_comm_info *info);
/* Once, if the first operation has what opening lacked. */
void device_comm_identify(device_handle comm, uint64_t identity, uint32_t member, const char *name);
void device_comm_close(device_handle comm);

/* The host called a collective, or (is_collective false) a point-to-point operation, which has no number. */
device_handle device_call(device_handle comm, bool is_collective, bool is_captured);
/* One part of an all-to-all of N members, which is announced as 2 N parts of one call. */
device_handle device_call_all_to_all(device_handle comm, bool is_captured);
/* A call announced an unknown number of times: the communicator's numbers are unknown from here on. */
void device_call_uncounted(device_handle comm);

device_handle device_op_start(device_handle comm, const struct device_op_info *info);
/* The library enqueued it to the device. */
void device_op_stop(device_handle op);
/* Returns the channel's handle for device_channel_stop(). time_ns: of the device. */
device_handle device_channel_start(device_handle op, uint64_t time_ns);
void device_channel_stop(device_handle channel, uint64_t time_ns);

#endif
