/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Families of communication libraries: their data types and operations, and the bytes of a call.
 *
 * `count` is what the call says: NCCL's and HCCL's AllGather counts what a rank sends, ReduceScatter and AlltoAll what it
 * has for each member, and all others what a rank has. gloo's count is the number of elements of the call's input tensor.
 *
 * `bytes` is what this rank puts in: what PyTorch's profiler calls "In msg nelems", times the size of its dtype. So it is
 * count * size, but for ReduceScatter and AlltoAll of the NCCL-like families, where it is count * members * size. The
 * profiler's "Out msg nelems" is count of a ReduceScatter, and bytes / size * members of an AllGather. A barrier of
 * PyTorch over NCCL is an AllReduce of one element here, and 0 elements there.
 *
 * A number that no memory can hold is not believed: OPS_UNKNOWN instead of a product that went round.
 */
#ifndef RANKTRACE_COLL_COLL_BYTES_H
#define RANKTRACE_COLL_COLL_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coll_dtype {
	const char *name;       /* "" for a number that is not in use */
	uint8_t size_bytes;
};

struct coll_family {
	const char *name;       /* "" for a family that is not known: it has no data types */
	const struct coll_dtype *dtype;
	size_t dtypes;
	bool per_member;        /* ReduceScatter and AlltoAll count for each member */
	bool works;             /* calls end in another thread: see OPS_WORK */
	bool device;            /* a marker library may tell device times */
	bool told_later;        /* a communicator's identity comes by coll_identify() */
};

struct coll_operation {
	const char *name;
	bool per_member;        /* the call counts what goes to, or comes from, each member */
	bool uneven;            /* members may rightly give different counts */
	bool of_others;         /* gloo makes it of other operations, which it calls */
	bool pieces;            /* the device sees sends and receives, not this operation */
};

/* Never NULL. */
const struct coll_family *coll_family(const char *name);
/* NULL: no such data type. */
const struct coll_dtype *coll_dtype(const struct coll_family *family, uint64_t number);
/* Never NULL; the same words in any case ("ncclBcast" is Broadcast in the probe tables already). */
const struct coll_operation *coll_operation(const char *name);
/* members 0: not known. OPS_UNKNOWN where something needed is not known, or the product is more than 63 bits hold. */
uint64_t coll_bytes(const struct coll_family *family, const struct coll_operation *operation, uint64_t count,
		   const struct coll_dtype *dtype, uint32_t members);

#endif
