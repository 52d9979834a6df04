/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RANKTRACE_TESTS_CALL_TARGET_H
#define RANKTRACE_TESTS_CALL_TARGET_H

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#define TARGET __attribute__((visibility("default"), noinline))

/* The first two words of a std::string of libstdc++. */
struct target_string {
	const char *data;
	size_t length;
};

TARGET int64_t target_call(int64_t a, const int32_t *b, const char *text);
TARGET int target_span(int depth);
TARGET void target_begin(const struct target_string *text);
TARGET void target_end(void);
TARGET void target_stash(const struct target_string *text);
TARGET void target_named(void);
TARGET int64_t target_probe(int64_t a);
TARGET void target_usdt(int a, long b);
TARGET int target_recurse(int depth);
/* Leave through the buffer, if there is one, as an exception leaves. */
TARGET int target_leave_call(jmp_buf *where);
TARGET int target_leave_span(jmp_buf *where);
TARGET void target_pystring(const void *object);
TARGET void target_pytuple(const void *const *reference);
TARGET void target_mark(long symbol, const void *const *reference);

/* Layouts of communicators of libraries, and their accessors. */
struct target_comm {
	uint64_t magic;
	char padding[200];
	int32_t rank;
	int32_t ranks;
	const struct target_comm *inner;
	const char *name;
};

struct target_id {
	char bytes[128];
};

TARGET int64_t target_many(
	int64_t a, int64_t b, int64_t c, int64_t d, int64_t e, int64_t f, int32_t g, int64_t h, int64_t i);
TARGET int target_init(const struct target_comm **out, const struct target_comm *comm, struct target_id id, int rank);
TARGET int64_t target_read(const struct target_comm *comm, const struct target_id *id);
TARGET int target_op(const struct target_comm *comm, int64_t count);
TARGET int target_comm_rank(const struct target_comm *comm);
TARGET int target_comm_ranks(const struct target_comm *comm, int *out);
TARGET int target_comm_unclear(const struct target_comm *comm);
TARGET int target_group_start(void);
TARGET int target_group_end(int (*meanwhile)(void));

#endif
