/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of data types and operations; a new family is a table and a row. */
#include "analyzers/coll/coll_bytes.h"

#include "analyzers/coll/coll.h"

#include <string.h>
#include <strings.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* NCCL's and RCCL's ncclDataType_t. */
static const struct coll_dtype nccl_dtypes[] = {
	[0] = {"int8", 1},
	[1] = {"uint8", 1},
	[2] = {"int32", 4},
	[3] = {"uint32", 4},
	[4] = {"int64", 8},
	[5] = {"uint64", 8},
	[6] = {"float16", 2},
	[7] = {"float32", 4},
	[8] = {"float64", 8},
	[9] = {"bfloat16", 2},
	[10] = {"float8_e4m3", 1},
	[11] = {"float8_e5m2", 1},
};

/* HCCL's HcclDataType; 13 is not in use. */
static const struct coll_dtype hccl_dtypes[] = {
	[0] = {"int8", 1},
	[1] = {"int16", 2},
	[2] = {"int32", 4},
	[3] = {"float16", 2},
	[4] = {"float32", 4},
	[5] = {"int64", 8},
	[6] = {"uint64", 8},
	[7] = {"uint8", 1},
	[8] = {"uint16", 2},
	[9] = {"uint32", 4},
	[10] = {"float64", 8},
	[11] = {"bfloat16", 2},
	[12] = {"int128", 16},
	[13] = {"", 0},
	[14] = {"hifloat8", 1},
	[15] = {"float8_e4m3", 1},
	[16] = {"float8_e5m2", 1},
	[17] = {"float8_e8m0", 1},
};

/* PyTorch's c10::ScalarType, which gloo's calls carry. */
static const struct coll_dtype torch_dtypes[] = {
	[0] = {"uint8", 1},
	[1] = {"int8", 1},
	[2] = {"int16", 2},
	[3] = {"int32", 4},
	[4] = {"int64", 8},
	[5] = {"float16", 2},
	[6] = {"float32", 4},
	[7] = {"float64", 8},
	[8] = {"complex32", 4},
	[9] = {"complex64", 8},
	[10] = {"complex128", 16},
	[11] = {"bool", 1},
	[12] = {"qint8", 1},
	[13] = {"quint8", 1},
	[14] = {"qint32", 4},
	[15] = {"bfloat16", 2},
	[16] = {"", 0}, /* less than a byte an element */
	[17] = {"", 0},
	[18] = {"", 0}, /* bits: no elements */
	[19] = {"", 0},
	[20] = {"", 0},
	[21] = {"bits8", 1},
	[22] = {"bits16", 2},
	[23] = {"float8_e5m2", 1},
	[24] = {"float8_e4m3fn", 1},
	[25] = {"float8_e5m2fnuz", 1},
	[26] = {"float8_e4m3fnuz", 1},
	[27] = {"uint16", 2},
	[28] = {"uint32", 4},
	[29] = {"uint64", 8},
};

static const struct coll_family families[] = {
	{"nccl", nccl_dtypes, COUNT_OF(nccl_dtypes), .per_member = true, .device = true},
	{"rccl", nccl_dtypes, COUNT_OF(nccl_dtypes), .per_member = true, .device = true},
	{"hccl", hccl_dtypes, COUNT_OF(hccl_dtypes), .per_member = true, .device = true},
	{"gloo", torch_dtypes, COUNT_OF(torch_dtypes), .works = true, .identified_later = true},
};
static const struct coll_family unknown_family = {"", NULL, 0, .per_member = true, .device = true};

static const struct coll_operation operations[] = {
	{"AllReduce", .per_member = false},
	{"AllGather", .per_member = false},
	{"ReduceScatter", .per_member = true, .of_others = true},
	{"Broadcast", .per_member = false},
	{"Reduce", .per_member = false},
	{"Send", .per_member = false},
	{"Recv", .per_member = false},
	{"Barrier", .per_member = false},
	{"AlltoAll", .per_member = true, .pieces = true},
	{"AlltoAllV", .uneven = true, .pieces = true},
	{"AllGatherV", .uneven = true},
	{"ReduceScatterV", .uneven = true},
	{"Gather", .uneven = true, .pieces = true},
	{"Scatter", .uneven = true, .pieces = true},
	{"BatchSendRecv", .uneven = true, .pieces = true},
};
static const struct coll_operation other_operation = {"", .per_member = false};

const struct coll_family *coll_family(const char *name)
{
	for (size_t i = 0; name && i < COUNT_OF(families); i++) {
		if (strcmp(families[i].name, name) == 0)
			return &families[i];
	}
	return &unknown_family;
}

const struct coll_dtype *coll_dtype(const struct coll_family *family, uint64_t number)
{
	if (number >= family->dtypes || !family->dtype[number].size_bytes)
		return NULL;
	return &family->dtype[number];
}

const struct coll_operation *coll_operation(const char *name)
{
	for (size_t i = 0; name && i < COUNT_OF(operations); i++) {
		if (strcasecmp(operations[i].name, name) == 0)
			return &operations[i];
	}
	return &other_operation;
}

uint64_t coll_bytes(const struct coll_family *family, const struct coll_operation *operation, uint64_t count,
	const struct coll_dtype *dtype, uint32_t members)
{
	uint64_t parts = family->per_member && operation->per_member ? members : 1, bytes;

	if (!dtype || !parts || count == COLL_UNKNOWN)
		return COLL_UNKNOWN;
	if (__builtin_mul_overflow(count, dtype->size_bytes, &bytes) || __builtin_mul_overflow(bytes, parts, &bytes) ||
		bytes > INT64_MAX)
		return COLL_UNKNOWN;
	return bytes;
}
