/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Copies between memory of the host and of devices, summed in the kernel at their return (RT_CALL_SUMMED): the map
 * `copies`, by the rank's slot. A call that failed is a record. Those of a probe without return are summed at their
 * entry: their time is 0 and whether they fail is not seen.
 */
#ifndef RANKTRACE_COPIES_H
#define RANKTRACE_COPIES_H

#include "bpf/event.h"

/* As cudaMemcpyKind, hipMemcpyKind and aclrtMemcpyKind number them; the last: the library finds out. */
#define RT_COPY_DIRECTIONS 5

/*
 * An asynchronous copy returns in a few us, unless the library has to read or write the host's memory itself, because
 * it is not pinned, or the device's queue is full: then it holds its thread. Smaller ones are staged at once, pinned or
 * not. No thread copies more than 64 bytes a ns: what seems faster has waited for something else, as for our probes.
 */
#define RT_COPY_HELD_NS 20000ULL
#define RT_COPY_HELD_BYTES_A_NS 64ULL
#define RT_COPY_HELD_BYTES 65536ULL

struct rt_copy_sum {
	uint64_t count, bytes, ns;
	uint64_t longest_ns;			  /* since the rank began */
	uint64_t held_count, held_bytes, held_ns; /* asynchronous ones that held their thread */
};

struct rt_copies {
	struct rt_copy_sum sum[2][RT_COPY_DIRECTIONS]; /* [0]: synchronous */
};

#endif
