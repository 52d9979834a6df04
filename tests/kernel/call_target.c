/* SPDX-License-Identifier: Apache-2.0 */
/* The library that test_call.c probes: one function for each thing that the call engine can do. */
#include <stddef.h>
#include <stdint.h>
#include <sys/sdt.h>

#include "tests/kernel/call_target.h"

static volatile int sink;

TARGET int64_t target_call(int64_t a, const int32_t *b, const char *text)
{
	sink += (int)a + *b + text[0];
	return a * 2;
}

TARGET int target_span(int depth)
{
	if (depth > 0)
		sink += target_span(depth - 1);
	return sink;
}

TARGET void target_begin(const struct target_string *text)
{
	sink += (int)text->length;
}

TARGET void target_end(void)
{
	sink++;
}

TARGET void target_stash(const struct target_string *text)
{
	sink += text->data[0];
}

TARGET void target_named(void)
{
	sink--;
}

TARGET int64_t target_probe(int64_t a)
{
	sink++;
	return a + 1;
}

TARGET void target_usdt(int a, long b)
{
	DTRACE_PROBE2(ranktrace_test, place, a, b);
	sink++;
}

TARGET int target_recurse(int depth)
{
	if (depth > 0)
		sink += target_recurse(depth - 1);
	return depth;
}

TARGET int target_leave_call(jmp_buf *where)
{
	sink++;
	if (where)
		longjmp(*where, 1);
	return sink;
}

TARGET int target_leave_span(jmp_buf *where)
{
	sink++;
	if (where)
		longjmp(*where, 1);
	return sink;
}

TARGET void target_pystring(const void *object)
{
	sink += object != NULL;
}

TARGET void target_pytuple(const void *const *reference)
{
	sink += reference != NULL;
}

TARGET void target_mark(long symbol, const void *const *reference)
{
	sink += (int)symbol + (reference != NULL);
}

TARGET int64_t target_many(
	int64_t a, int64_t b, int64_t c, int64_t d, int64_t e, int64_t f, int32_t g, int64_t h, int64_t i)
{
	sink += (int)(a + b + c + d + e + f + h + i);
	return g;
}

TARGET int target_init(const struct target_comm **out, const struct target_comm *comm, struct target_id id, int rank)
{
	sink += id.bytes[0] + rank;
	*out = comm;
	return rank;
}

TARGET int64_t target_read(const struct target_comm *comm, const struct target_id *id)
{
	sink += id != NULL;
	return comm ? comm->rank : -1;
}

TARGET int target_op(const struct target_comm *comm, int64_t count)
{
	sink += (int)count + (comm != NULL);
	return 0;
}

TARGET int target_comm_rank(const struct target_comm *comm)
{
	return comm->rank;
}

TARGET int target_comm_ranks(const struct target_comm *comm, int *out)
{
	if (!comm || !out || target_call(0, &comm->rank, "check") < 0)
		return -1;
	*out = comm->ranks;
	return 0;
}

TARGET int target_comm_unclear(const struct target_comm *comm)
{
	return comm->magic ? comm->rank : comm->ranks;
}

TARGET int target_group_start(void)
{
	sink++;
	return 0;
}

TARGET int target_group_end(int (*meanwhile)(void))
{
	sink--;
	return meanwhile ? meanwhile() : 5;
}
