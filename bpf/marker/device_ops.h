/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs on the device, as its library tells it: communicators, the operations in flight on each, and the channels of
 * an operation that tell when they began and ended. A finished operation becomes a record of batch.h.
 *
 * Everything outside holds handles: numbers with a kind, a place and a generation in them, never addresses. A handle that
 * is unknown, stale or garbage is ignored. All functions are thread-safe and none fails: what finds no room is counted.
 *
 * Memory: a communicator takes about 230 kB of address space once (never given back, taken again by the next one after
 * its end), of which only as much is touched as operations were in flight at a time: 112 bytes each. No allocation but
 * in device_comm_open().
 */
#ifndef RANKTRACE_MARKER_DEVICE_OPS_H
#define RANKTRACE_MARKER_DEVICE_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/marker.h"

#define DEVICE_COMMS_MAX 256
#define DEVICE_OPS_MAX 2048 /* in flight on one communicator: the host runs at most about 1,000 launches ahead */
#define DEVICE_LATE_NS 1000000000ULL	/* in flight this long: an OPEN record */
#define DEVICE_GIVE_UP_NS 30000000000ULL /* in flight this long while others follow: nothing more is expected of it */

typedef uint64_t device_handle; /* 0: none */

struct device_comm_info {
	uint64_t identity; /* 0: not known yet, see device_comm_identify() */
	uint32_t nodes, member, members;
	uint32_t interface;
	const char *name; /* may be NULL */
};

struct device_op_info {
	uint16_t kind;	       /* RT_MARKER_COLL, RT_MARKER_P2P */
	uint16_t channels;     /* that will tell their times; 0: none will, its stop ends it */
	uint64_t count;
	int32_t peer;
	const char *operation; /* copied; may be NULL */
	const char *dtype;
	device_handle call;    /* of device_call() that it comes from, 0: not known */
};

/* 0: no room. */
device_handle device_comm_open(const struct device_comm_info *info);
/* Once, where the first operation tells what opening could not. */
void device_comm_identify(device_handle comm, uint64_t identity, uint32_t member, const char *name);
void device_comm_close(device_handle comm);

/* The host called a collective, or (is_collective false) a point-to-point operation, which has no number. */
device_handle device_call(device_handle comm, bool is_collective, bool is_captured);
/* An all-to-all of N members is announced as 2 N parts of one call: this is one of them. */
device_handle device_call_all_to_all(device_handle comm, bool is_captured);
/* A call that is announced we cannot say how often: the numbers of its communicator are not known from here on. */
void device_call_uncounted(device_handle comm);

device_handle device_op_start(device_handle comm, const struct device_op_info *info);
/* The library has given it to the device. */
void device_op_stop(device_handle op);
/* The handle of the channel is for device_channel_stop(). time_ns: of the device. */
device_handle device_channel_start(device_handle op, uint64_t time_ns);
void device_channel_stop(device_handle channel, uint64_t time_ns);

#endif
