/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that an exception leaves before they have a number, and calls within calls. */
#include <stdio.h>
#include <string.h>

#include "analyzers/coll/coll.h"

#include "tests/test.h"

struct seen {
	size_t rows;
	char op[8][32];
	uint64_t seq[8];
};

static void on_row(void *arg, const struct coll_row *row)
{
	struct seen *seen = arg;

	assert_true(seen->rows < 8);
	snprintf(seen->op[seen->rows], sizeof(seen->op[0]), "%s", row->op);
	seen->seq[seen->rows++] = row->seq;
}

static uint64_t now_ns = 1000;

static void call(struct coll *ops, const char *op, uint64_t before, uint64_t stack_pointer)
{
	struct coll_event event = {.kind = COLL_OP,
		.family = "gloo",
		.op = op,
		.start_ns = now_ns++,
		.thread_id = 1,
		.text = "",
		.stack_pointer = stack_pointer,
		.present = 1u << OP_FIELD_COMM | 1u << OP_FIELD_SEQ | 1u << OP_FIELD_IDENTITY};

	event.field[OP_FIELD_COMM] = 0x1000;
	event.field[OP_FIELD_IDENTITY] = 5;
	event.field[OP_FIELD_SEQ] = before;
	coll_feed(ops, &event);
}

static void work(struct coll *ops, enum coll_kind kind, uint64_t address)
{
	struct coll_event event = {.kind = kind,
		.family = "gloo",
		.op = "",
		.start_ns = now_ns++,
		.thread_id = 1,
		.text = "",
		.present = 1u << OP_FIELD_WORK};

	event.field[OP_FIELD_WORK] = address;
	coll_feed(ops, &event);
}

static void done(struct coll *ops, uint64_t address)
{
	work(ops, COLL_WORK, address);
	work(ops, COLL_FINISHED, address);
}

/* What the next call with its number is named must not be what failed before it, however deep that was called from. */
TEST(a_call_that_failed_makes_no_row)
{
	static const uint64_t deeper[] = {0x7000, 0x6000, 0x8000, 0};

	for (size_t i = 0; i < 4; i++) {
		struct seen seen = {0};
		struct coll *ops = coll_new(&(struct coll_sink){.row = on_row, .arg = &seen});
		struct coll_point point;

		assert_non_null(ops);
		call(ops, "AlltoAllV", 0, 0x7000);
		call(ops, "AllReduce", 0, deeper[i]);
		done(ops, 0x20);
		assert_true(coll_at(ops, "0000000000000005", 1, &point));
		assert_string_equal(point.op, "AllReduce");
		coll_end(ops);
		assert_int_equal(seen.rows, 1);
		assert_string_equal(seen.op[0], "AllReduce");
		assert_int_equal(seen.seq[0], 1);
		coll_free(ops);
	}
}

TEST(a_call_within_a_call_is_a_part_of_it)
{
	struct seen seen = {0};
	struct coll *ops = coll_new(&(struct coll_sink){.row = on_row, .arg = &seen});

	assert_non_null(ops);
	call(ops, "ReduceScatter", 0, 0x7000);
	call(ops, "AllReduce", 0, 0x6000);
	done(ops, 0x20);
	call(ops, "ReduceScatter", 1, 0x7000); /* fails */
	call(ops, "AllReduce", 1, 0x7000);
	done(ops, 0x20);
	coll_end(ops);
	assert_int_equal(seen.rows, 2);
	assert_string_equal(seen.op[0], "ReduceScatter");
	assert_string_equal(seen.op[1], "AllReduce");
	coll_free(ops);
}

TEST_MAIN(NULL, NULL)
