/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker reads of tracked processes: its answer arrives, and a wrong one is refused. */
#define TEST_ALONE /* replaces functions of the daemon */
#include "tests/unit/ranks_fixture.h"
#include "daemon/worker/wire.h"

#include <event2/event.h>
#include <unistd.h>

/* A child that no event announced. */
TEST_WITH(test_children, setup, teardown)
{
	setenv("RANKTRACE_LIBEXEC", READER_FOLDER, 1);
	PUT(100, 1, 100, TORCH, ENV("RANK=0\0WORLD_SIZE=1"));
	assert_int_equal(ranks_scan(t.ranks), 0);
	PUT(101, 100, 200, TORCH, ENV("RANK=0\0WORLD_SIZE=1"));
	PUT(100, 1, 100, TORCH, ENV("RANK=0\0WORLD_SIZE=1"), .children = "101 102 ");
	t.context.base = event_base_new();
	assert_non_null(t.context.base);
	assert_int_equal(workers_new(t.context.base, &t.context.workers), 0);
	for (unsigned i = 0; i < 10000 && !ranks_count(t.ranks, RANK_ROLE_CHILD); i++) {
		ranks_tick(t.ranks, monotonic_ns() + 3 * NSEC_PER_SEC);
		assert_true(event_base_loop(t.context.base, EVLOOP_NONBLOCK) >= 0);
		usleep(2000);
	}
	assert_int_equal(ranks_count(t.ranks, RANK_ROLE_CHILD), 1);
	t.ranks = ranks_free(t.ranks);
	t.context.workers = workers_free(t.context.workers);
	event_base_free(t.context.base);
}

static void put_one(struct wire_writer *answer, uint32_t children)
{
	wire_put(answer, 0, 4);
	wire_put(answer, 'T', 1);
	wire_put(answer, 7, 8);
	wire_put(answer, 0, 8);
	wire_put(answer, 0, 1);
	for (unsigned i = 0; i < RANK_CARD_NUMBERS / 64; i++)
		wire_put(answer, 0, 8);
	wire_put(answer, 0, 1);
	wire_put(answer, 42, 4); /* cursor */
	wire_put(answer, children, 4);
	for (uint32_t i = 0; i < children; i++)
		wire_put(answer, 1000 + i, 4);
}

TEST_WITH(test_answers, setup, teardown)
{
	_cleanup_(wire_free) struct wire_writer answer = {0};
	struct rank_watched watched[2] = {0};

	put_one(&answer, 2);
	assert_int_equal(
		rank_watch_take(answer.data, answer.size_bytes, watched, 2), 1); /* the second is not answered */
	assert_int_equal(watched[0].state, 'T');
	assert_int_equal(watched[0].start_time_ns, 7);
	assert_int_equal(watched[0].cursor, 42);
	assert_int_equal(watched[0].children, 2);
	assert_int_equal(wire_number(watched[0].child + 4, 4), 1001);
	assert_int_equal(rank_watch_take(answer.data, answer.size_bytes - 1, watched, 2), -EBADMSG);
	put_one(&answer, RANK_WATCH_CHILDREN_MAX);
	assert_int_equal(rank_watch_take(answer.data, answer.size_bytes, watched, 2), 2);
	answer.size_bytes = 0;
	put_one(&answer, RANK_WATCH_CHILDREN_MAX + 1);
	assert_int_equal(rank_watch_take(answer.data, answer.size_bytes, watched, 2), -EBADMSG);
}

TEST_MAIN(NULL, NULL)
