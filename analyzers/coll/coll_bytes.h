/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Families of communication libraries: their data types and operations, and the bytes of a call.
 *
 * `count` is the call's argument: NCCL's and HCCL's AllGather counts what a rank sends, ReduceScatter and AlltoAll what
 * it has for each member, all others what a rank has. gloo's count is the number of elements of the input tensor.
 *
 * `bytes` is this rank's input: the "In msg nelems" of PyTorch's profiler times the size of its dtype. So it is
 * count * size, but count * members * size for ReduceScatter and AlltoAll of the NCCL-like families. The profiler's
 * "Out msg nelems" is count of a ReduceScatter, and bytes / size * members of an AllGather. A barrier of PyTorch over
 * NCCL is an AllReduce of one element here, and 0 elements there.
 *
 * Products that overflow give COLL_UNKNOWN.
 */
#ifndef RANKTRACE_COLL_COLL_BYTES_H
#define RANKTRACE_COLL_COLL_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coll_dtype {
	const char *name; /* "": number not in use */
	uint8_t size_bytes;
};

struct coll_family {
	const char *name; /* "": unknown family, without data types */
	const struct coll_dtype *dtype;
	size_t dtypes;
	bool per_member;       /* ReduceScatter and AlltoAll count per member */
	bool works;	       /* calls end in another thread: see COLL_WORK */
	bool device;	       /* a marker library may give device times */
	bool identified_later; /* identity comes from coll_identify() */
};

struct coll_operation {
	const char *name;
	bool per_member; /* counts elements per member */
	bool uneven;	 /* members may give different counts */
	bool of_others;	 /* gloo composes it of other operations */
	bool pieces;	 /* the device runs sends and receives instead */
};

/* Never NULL. */
const struct coll_family *coll_family(const char *name);
/* NULL: unknown. */
const struct coll_dtype *coll_dtype(const struct coll_family *family, uint64_t number);
/* Never NULL; ignores case. Probe tables map aliases ("ncclBcast" is Broadcast). */
const struct coll_operation *coll_operation(const char *name);
/* members 0: unknown. COLL_UNKNOWN where an operand is unknown or the product exceeds 63 bits. */
uint64_t coll_bytes(const struct coll_family *family, const struct coll_operation *operation, uint64_t count,
	const struct coll_dtype *dtype, uint32_t members);

#endif
