/* SPDX-License-Identifier: Apache-2.0 */
/* What comes later than its call: a first device record, a number, the last batch. And how long it is waited for. */
#define TEST_ALONE /* large tables: detection of leaks reads them in each run */
#include "tests/unit/coll_script.h"

/* The library hands its records over in batches: calls before the first one are no less the device's. */
TEST(calls_before_the_first_record_wait_for_theirs)
{
	start();
	init("nccl", 0xa0, 0xabc, 0, 2);
	for (uint64_t i = 0; i < 63; i++)
		feed(all_reduce(1 + i));
	coll_idle(ops, now + COLL_NUMBER_NS - SECOND);
	assert_int_equal(n_rows, 0);
	assert_int_equal(standing(0).entered.seq, 63);
	now -= 10 * 62;
	feed_device(record("AllReduce", 1, 1));
	assert_int_equal(n_rows, 1);
	/* One has come, so that the others wait as long as for any. */
	coll_idle(ops, now + COLL_NUMBER_NS + SECOND);
	assert_int_equal(n_rows, 1);
	for (uint64_t i = 1; i < 63; i++) {
		now += 10;
		feed_device(record("AllReduce", 1 + i, 1 + i));
	}
	assert_int_equal(n_rows, 63);
	assert_int_equal(counts().late, 0);
	for (uint64_t i = 0; i < 63; i++) {
		assert_true(rows[i].row.device);
		assert_int_equal(rows[i].row.seq, 1 + i);
	}
	/* Where the library is known to be there, the first one may be as long in coming as any. */
	start();
	init("nccl", 0xa0, 0xabc, 0, 2);
	feed(all_reduce(1));
	feed_device((struct coll_device){.peer = -1});
	coll_idle(ops, now + COLL_WAIT_NS - SECOND);
	feed(all_reduce(2));
	init("nccl", 0xb0, 0xbbb, 0, 2);
	feed(sized(call("nccl", "AllReduce", 0xb0, 0xbbb), 1, 7));
	assert_int_equal(n_rows, 0);
	coll_idle(ops, now + COLL_WAIT_NS + SECOND);
	assert_int_equal(n_rows, 1);
	feed_device((struct coll_device){.peer = -1}); /* repeated: no more credible */
	feed(all_reduce(3));
	assert_int_equal(n_rows, 2);
	/* More than may wait for what may not exist at all: nothing to complain of. */
	start();
	init("nccl", 0xa0, 0xabc, 0, 2);
	for (uint64_t i = 0; i < COLL_WAITING_MAX + 10; i++)
		feed(all_reduce(1));
	assert_int_equal(n_rows, 10);
	assert_int_equal(counts().not_waited, 0);
	/* None came: nobody waits for a first one any more, on no communicator of the rank. */
	start();
	init("nccl", 0xa0, 0xabc, 0, 2);
	feed(all_reduce(1));
	wait_in_vain();
	assert_int_equal(n_rows, 1);
	feed(all_reduce(1));
	init("nccl", 0xb0, 0xbbb, 0, 2);
	feed(sized(call("nccl", "AllReduce", 0xb0, 0xbbb), 1, 7));
	assert_int_equal(n_rows, 3);
}

TEST(attached_in_mid_run_the_first_call_has_its_number)
{
	start();
	feed(all_reduce(10));
	feed(sized(call("nccl", "AlltoAll", 0xa0, 0xabc), 8, 7)); /* identified by its number only */
	feed(all_reduce(20));
	assert_int_equal(n_rows, 0);
	now -= 20;
	feed_device(record("AllReduce", 501, 10));
	now += 20;
	assert_int_equal(n_rows, 2);
	feed_device(record("AllReduce", 503, 20));
	assert_int_equal(n_rows, 3);
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(rows[i].row.seq_from, COLL_SEQ_MARKER);
	assert_int_equal(rows[0].row.seq, 502);
	assert_int_equal(rows[1].row.seq, 501);
	assert_true(rows[1].row.device && rows[2].row.device);
	/* With the process group's number, which the first row keeps until the device record comes. */
	start();
	feed(all_reduce(10));
	feed(with(of_kind(call("nccl", "", 0, 0), COLL_GROUP_SEQ), OP_FIELD_SEQ, 118));
	wait_in_vain();
	assert_int_equal(n_rows, 1);
	assert_int_equal(rows[0].row.seq, 118);
	assert_int_equal(rows[0].row.seq_from, COLL_SEQ_GROUP);
}

TEST(after_a_loss_a_record_of_before_it_numbers_nothing)
{
	start();
	init("nccl", 0xa0, 0xabc, 0, 2);
	feed(all_reduce(10));
	feed(all_reduce(20));
	coll_dropped(ops);
	feed(all_reduce(30)); /* 5 in truth */
	now -= 20;
	feed_device(record("AllReduce", 1, 10));
	now += 20;
	assert_int_equal(standing(0).seq_from, COLL_SEQ_ATTACH);
	feed_device(record("AllReduce", 5, 30));
	coll_end(ops);
	assert_int_equal(n_rows, 3);
	assert_int_equal(rows[0].row.seq, 1);
	assert_int_equal(rows[1].row.seq, 5);
	assert_int_equal(rows[1].row.seq_from, COLL_SEQ_MARKER);
	assert_int_equal(rows[2].row.seq, 2);
	assert_int_equal(rows[2].row.seq_from, COLL_SEQ_INIT);
}

/* The library hands over the last batch while it ends the communicator, after our probe on that. */
TEST(the_last_batch_comes_after_the_end)
{
	uint64_t freed_ns;

	for (int again = 0; again < 2; again++) {
		start();
		init("nccl", 0xa0, 0xabc, 0, 2);
		feed_device((struct coll_device){.identity = 0xabc, .members = 2, .peer = -1});
		feed(all_reduce(10));
		now += 29 * SECOND; /* as if it had been long in coming */
		feed(of_kind(call("nccl", "", 0xa0, 0), COLL_COMM_FREE));
		freed_ns = now;
		coll_idle(ops, freed_ns + COLL_FREED_WAIT_NS - SECOND);
		assert_int_equal(n_rows, 0);
		/* Its address is another's, and even its identity. */
		init("nccl", 0xa0, again ? 0xabc : 0x123, 0, 2);
		feed(sized(call("nccl", "AllReduce", 0xa0, again ? 0xabc : 0x123), 7, 7));
		now = 1020;
		feed_device(record("AllReduce", 1, 10));
		assert_int_equal(n_rows, 1);
		assert_true(rows[0].row.device);
		assert_int_equal(rows[0].row.seq, 1);
		assert_int_equal(counts().late, 0);
	}
	/* But not for ever. */
	start();
	init("nccl", 0xa0, 0xabc, 0, 2);
	feed_device((struct coll_device){.identity = 0xabc, .members = 2, .peer = -1});
	feed(all_reduce(10));
	feed(of_kind(call("nccl", "", 0xa0, 0), COLL_COMM_FREE));
	coll_idle(ops, now + COLL_FREED_WAIT_NS - SECOND);
	assert_int_equal(n_rows, 0);
	coll_idle(ops, now + COLL_FREED_WAIT_NS + 1);
	assert_int_equal(n_rows, 1);
	/* A short life, with no record before its end. */
	start();
	init("nccl", 0xa0, 0xabc, 0, 2);
	feed(all_reduce(10));
	now += COLL_NUMBER_NS;
	feed(of_kind(call("nccl", "", 0xa0, 0), COLL_COMM_FREE));
	coll_idle(ops, now + SECOND);
	now = 1020;
	feed_device(record("AllReduce", 1, 10));
	assert_true(n_rows == 1 && rows[0].row.device);
}

TEST_MAIN(NULL, done)
