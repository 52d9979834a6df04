/* SPDX-License-Identifier: Apache-2.0 */
/* Device records and their calls: before, after, late, never; their numbers and identities. */
#define TEST_ALONE /* large tables: detection of leaks reads them in each run */
#include "tests/unit/coll_script.h"

TEST(a_record_makes_a_row_of_the_device)
{
	struct coll_standing stand;

	start();
	init("nccl", 0xa0, 0xabc, 0, 2);
	feed_device((struct coll_device){.identity = 0xabc, .name = "tp", .members = 2, .peer = -1}); /* has a device */
	assert_string_equal(comms[n_comms - 1].name, "tp");
	feed(all_reduce(10));
	assert_int_equal(n_rows, 0);
	feed_device(record("AllReduce", 1, 10));
	assert_int_equal(n_rows, 1);
	assert_true(rows[0].row.device);
	/* Between its call and its notice. */
	assert_in_range(rows[0].row.device_start_ns, now - 10, now + 50);
	assert_int_equal(rows[0].row.device_duration_ns, 100);
	assert_int_equal(rows[0].row.host_duration_ns, 10);
	stand = standing(0);
	assert_true(stand.completion_known);
	assert_int_equal(stand.completed.seq, 1);
	assert_int_equal(stand.completed.time_ns, rows[0].row.device_start_ns + 100);
	/* Records of operations of several sizes, in the order that the device did them; NCCL counts gathers in bytes.
	 */
	feed(all_reduce(10));
	feed(sized(call("nccl", "AllGather", 0xa0, 0xabc), 100, 9));
	feed(sized(call("nccl", "AllGather", 0xa0, 0xabc), 5, 9));
	feed_device(record("AllGather", 4, 10));
	assert_int_equal(rows[1].row.seq, 4);
	now -= 10;
	feed_device(record("AllGather", 3, 200));
	assert_int_equal(rows[2].row.seq, 3);
	now -= 10;
	feed_device(record("AllReduce", 2, 10));
	assert_int_equal(rows[3].row.seq, 2);
	assert_int_equal(n_rows, 4);
	assert_int_equal(counts().late, 0);
}

TEST(nothing_is_awaited_that_never_comes)
{
	struct coll_event event;

	start();
	init("nccl", 0xa0, 0xabc, 0, 2);
	feed_device((struct coll_device){.identity = 0xabc, .members = 2, .peer = -1});
	feed(all_reduce(0)); /* NCCL drops it */
	assert_int_equal(n_rows, 1);
	feed(sized(call("nccl", "AlltoAll", 0xa0, 0xabc), 8, 7)); /* sends and receives on the device */
	assert_int_equal(n_rows, 2);
	event = all_reduce(1);
	event.has_result = true;
	event.result = 5;
	feed(event);
	assert_int_equal(n_rows, 3);
	init("nccl", 0xb0, 0xbbb, 0, 1);
	feed(sized(call("nccl", "AllReduce", 0xb0, 0xbbb), 8, 7)); /* alone */
	assert_int_equal(n_rows, 4);
	feed(with(sized(call("gloo", "AllReduce", 0x90, 1), 8, 7), OP_FIELD_SEQ, 0));
	assert_int_equal(n_rows, 5);
	/* No record for a while: the row goes out as the host saw it, and the next ones do not wait. */
	feed(all_reduce(1));
	assert_int_equal(n_rows, 5);
	coll_idle(ops, now + COLL_WAIT_NS / 2);
	assert_int_equal(n_rows, 5);
	coll_idle(ops, now + COLL_WAIT_NS * 2);
	assert_int_equal(n_rows, 6);
	assert_false(rows[5].row.device);
	feed(all_reduce(1));
	assert_int_equal(n_rows, 7);
	/* One comes late: counted; from then on rows wait again. */
	feed_device(record("AllReduce", 4, 1));
	assert_int_equal(counts().late, 1);
	feed(all_reduce(1));
	assert_int_equal(n_rows, 7);
	coll_end(ops);
	assert_int_equal(n_rows, 8);
}

TEST(a_device_that_is_busy_is_waited_for)
{
	struct coll_device open;

	start();
	init("nccl", 0xa0, 0xabc, 0, 2);
	feed_device((struct coll_device){.identity = 0xabc, .members = 2, .peer = -1});
	feed(all_reduce(1));
	feed(all_reduce(2));
	now -= 10;
	coll_idle(ops, now + COLL_WAIT_NS - 1000);
	feed_device(record("AllReduce", 1, 1));
	now += 10;
	assert_int_equal(n_rows, 1);
	coll_idle(ops, now + COLL_WAIT_NS + 1000); /* the device was at number 1 just now */
	assert_int_equal(n_rows, 1);
	open = record("AllReduce", 2, 2);
	open.start_ns = open.stop_ns = COLL_UNKNOWN;
	open.open = true;
	feed_device(open);
	coll_idle(ops, now + 2 * COLL_WAIT_NS - 3000);
	assert_int_equal(n_rows, 1);
	open.open = false; /* given up: complete or not, no times */
	feed_device(open);
	assert_int_equal(n_rows, 2);
	assert_false(rows[1].row.device);
	assert_int_equal(standing(0).completed.seq, 1);
}

TEST(a_record_may_come_before_its_call)
{
	struct coll_device early;
	struct coll_event event;

	start();
	/* Of the communicator too. */
	feed_device((struct coll_device){.identity = 0xabc, .name = "dp", .members = 2, .peer = -1});
	event = all_reduce(10);
	early = record("AllReduce", 1, 10);
	feed_device(early);
	assert_int_equal(counts().late, 0);
	{
		struct coll_event made = of_kind(call("nccl", "", 0xa0, 0xabc), COLL_COMM);

		made.start_ns = 1;
		made.end_ns = 2;
		feed(made);
	}
	assert_string_equal(comms[n_comms - 1].name, "dp");
	feed(event);
	assert_int_equal(n_rows, 1);
	assert_true(rows[0].row.device);
	/* In a group: the row still waits for the group's end. */
	event = grouped(all_reduce(20));
	feed_device(record("AllReduce", 2, 20));
	feed(event);
	assert_int_equal(n_rows, 1);
	event = of_kind(call("nccl", "", 0, 0), COLL_GROUP);
	event.start_ns -= 15;
	feed(event);
	assert_int_equal(n_rows, 2);
	assert_true(rows[1].row.device);
	assert_int_equal(rows[1].row.seq, 2);
}

TEST(sorted_groups_are_matched_by_size)
{
	static const uint64_t seqs[] = {2, 3, 1}, sizes[] = {100, 10, 1};
	struct coll_event close;

	start();
	init("nccl", 0xa0, 0xabc, 0, 2);
	feed_device((struct coll_device){.identity = 0xabc, .members = 2, .peer = -1});
	close = of_kind(call("nccl", "", 0, 0), COLL_GROUP);
	feed(grouped(all_reduce(1)));
	feed(grouped(all_reduce(100)));
	feed(grouped(all_reduce(10)));
	close.end_ns = now += 100;
	feed(close);
	feed_device(record("AllReduce", 1, 100));
	feed_device(record("AllReduce", 2, 10));
	feed_device(record("AllReduce", 3, 1));
	assert_int_equal(n_rows, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_true(rows[i].row.device);
		assert_int_equal(rows[i].row.seq_from, COLL_SEQ_INIT);
		assert_int_equal(rows[i].row.seq, seqs[i]);
		assert_int_equal(rows[i].row.count, sizes[i]);
	}
}

TEST(equal_calls_are_matched_by_time)
{
	start();
	init("nccl", 0xa0, 0xabc, 0, 2);
	feed_device((struct coll_device){.identity = 0xabc, .members = 2, .peer = -1});
	for (int i = 0; i < 3; i++)
		feed(sized(with(call("nccl", "Recv", 0xa0, 0xabc), OP_FIELD_PEER, 1), 8, 7));
	now -= 10; /* the first one's record was lost */
	{
		struct coll_device device = record("Recv", 0, 8);

		device.peer = 1;
		feed_device(device);
	}
	assert_int_equal(n_rows, 1);
	assert_int_equal(rows[0].row.seq, 2);
	coll_end(ops);
	assert_int_equal(rows[1].row.seq, 1);
	assert_false(rows[1].row.device);
}

TEST(p2p_records_find_their_calls)
{
	struct coll_device device;

	start();
	init("nccl", 0xa0, 0xabc, 0, 2);
	feed_device((struct coll_device){.identity = 0xabc, .members = 2, .peer = -1});
	feed(sized(with(call("nccl", "Send", 0xa0, 0xabc), OP_FIELD_PEER, 1), 8, 7));
	feed(sized(with(call("nccl", "Send", 0xa0, 0xabc), OP_FIELD_PEER, 0), 8, 7));
	device = record("Send", 0, 32); /* in bytes */
	device.peer = 1;
	device.host_ns = 0;
	feed_device(device);
	assert_int_equal(n_rows, 1);
	assert_int_equal(rows[0].row.peer, 1);
	assert_true(rows[0].row.device);
	assert_int_equal(standing(0).completed.seq, 0);
}

TEST(attached_in_mid_run_the_marker_identifies)
{
	struct coll_event event;

	start();
	feed(all_reduce(10));
	wait_in_vain();
	assert_int_equal(n_rows, 1);
	assert_int_equal(rows[0].row.seq_from, COLL_SEQ_ATTACH);
	/* Of before the attachment: no row, and nothing late. */
	{
		struct coll_device old = record("AllReduce", 500, 10);

		old.host_ns = 10;
		feed_device(old);
	}
	assert_int_equal(counts().late, 0);
	feed(all_reduce(10));
	feed(all_reduce(20));
	now -= 10;
	feed_device(record("AllReduce", 502, 10));
	now += 10;
	assert_int_equal(rows[1].row.seq, 502);
	assert_int_equal(rows[1].row.seq_from, COLL_SEQ_MARKER);
	assert_int_equal(standing(0).entered.seq, 503);
	feed_device(record("AllReduce", 503, 20));
	assert_int_equal(rows[2].row.seq, 503);
	assert_int_equal(n_rows, 3);
	/* Records of calls were lost: the device's numbers say how many. */
	feed(all_reduce(30));
	feed_device(record("AllReduce", 506, 30));
	assert_int_equal(rows[3].row.seq, 506);
	feed(all_reduce(30));
	feed_device(record("AllReduce", 507, 30));
	assert_int_equal(rows[4].row.seq, 507);
	/* A number that cannot be is not believed. */
	feed(all_reduce(30));
	feed_device(record("AllReduce", UINT64_MAX, 30));
	assert_int_equal(rows[5].row.seq, 508);
	/* An identity from no other source. */
	event = sized(call("nccl", "Broadcast", 0xb0, 0), 3, 0);
	feed(event);
	{
		struct coll_device device = record("Broadcast", 77, 3);

		device.identity = 0xbbb;
		device.member = 1;
		feed_device(device);
	}
	assert_string_equal(rows[6].communicator, "0000000000000bbb");
	assert_int_equal(rows[6].row.seq, 77);
	assert_string_equal(comms[n_comms - 1].source, "marker");
	assert_int_equal(comms[n_comms - 1].row.member, 1);
}

TEST(launches_of_recorded_graphs)
{
	struct coll_device device;

	start();
	init("nccl", 0xa0, 0xabc, 0, 2);
	now = SECOND;
	feed_device((struct coll_device){.identity = 0xabc, .members = 2, .peer = -1});
	feed(of_kind(call("", "", 0, 0), COLL_CAPTURE));
	feed(all_reduce(10));
	feed(of_kind(call("", "", 0, 0), COLL_CAPTURE_END));
	assert_int_equal(n_rows, 1); /* no device record follows now */
	assert_true(rows[0].row.captured);
	device = record("AllReduce", 2, 10);
	device.captured = true;
	device.dtype = "ncclFloat32";
	feed_device(device);
	feed_device(device);
	assert_int_equal(n_rows, 3);
	assert_true(rows[2].row.captured && rows[2].row.device);
	assert_int_equal(rows[2].row.seq, 0);
	assert_int_equal(rows[2].row.seq_from, COLL_SEQ_ATTACH);
	assert_int_equal(rows[2].row.device_duration_ns, 100);
	/* The device counts launches, the host does not: its numbers are no use any more. */
	feed(all_reduce(10));
	feed_device(record("AllReduce", 5, 10));
	assert_int_equal(rows[3].row.seq, 2);
	assert_true(rows[3].row.device);
}

TEST(more_rows_than_may_wait)
{
	start();
	init("nccl", 0xa0, 0xabc, 0, 2);
	feed_device((struct coll_device){.identity = 0xabc, .members = 2, .peer = -1});
	for (uint64_t i = 0; i < 6000; i++)
		feed(all_reduce(1 + i));
	assert_int_equal(n_rows, 6000 - COLL_WAITING_MAX);
	assert_int_equal(counts().not_waited, 6000 - COLL_WAITING_MAX);
	for (uint64_t i = 0; i < n_rows; i++)
		assert_int_equal(rows[i].row.seq, i + 1);
	now -= 10 * 5999;
	for (uint64_t i = 0; i < 6000; i++, now += 10)
		feed_device(record("AllReduce", i + 1, i + 1));
	assert_int_equal(n_rows, 6000);
	assert_int_equal(counts().late, 6000 - COLL_WAITING_MAX);
	for (uint64_t i = 0; i < n_rows; i++) {
		assert_int_equal(rows[i].row.seq, i + 1);
		assert_int_equal(rows[i].row.device, i >= 6000 - COLL_WAITING_MAX);
	}
}

TEST(a_communicator_goes_before_its_records)
{
	start();
	init("nccl", 0xa0, 0xabc, 0, 2);
	feed_device((struct coll_device){.identity = 0xabc, .members = 2, .peer = -1});
	feed(all_reduce(10));
	feed(all_reduce(20));
	feed(of_kind(call("nccl", "", 0xa0, 0), COLL_COMM_FREE));
	assert_true(comms[n_comms - 1].row.freed);
	now -= 10;
	feed_device(record("AllReduce", 1, 10 + 10));
	now -= 10;
	feed_device(record("AllReduce", 1, 10));
	assert_int_equal(n_rows, 2);
	assert_string_equal(rows[0].communicator, "0000000000000abc");
	assert_int_equal(rows[0].row.seq, 2);
	feed_device(record("AllReduce", 3, 10)); /* of nobody */
	feed_device((struct coll_device){.op = "AllReduce"});
	coll_end(ops);
	assert_int_equal(n_rows, 2);
}

#define EPOCH 1795220846000000000ULL /* of a device's clock */

/* A call now and its record, of a device whose clock is `offset` before the host's. */
static void reduce_on(uint32_t device_number, uint64_t offset, uint64_t seq)
{
	struct coll_device device;

	feed(all_reduce(seq));
	device = record("AllReduce", seq, seq);
	device.start_ns = now + 20000 + offset;
	device.stop_ns = device.start_ns + 300000;
	device.heard_ns = now + 20000 + 300000 + 6000;
	device.device = device_number;
	feed_device(device);
	assert_true(rows[seq - 1].row.device);
	assert_int_equal(rows[seq - 1].row.device_duration_ns, 300000);
	assert_in_range(rows[seq - 1].row.device_start_ns, now + 20000 - 10000, now + 20000 + 6000);
	now += 50000000;
}

TEST(a_device_has_a_clock_of_its_own)
{
	struct coll_clock clock[COLL_DEVICES_MAX];
	uint64_t seq = 0;

	start();
	now = 3 * SECOND;
	init("nccl", 0xa0, 0xabc, 0, 2);
	now = 3 * SECOND;
	feed_device((struct coll_device){.identity = 0xabc, .members = 2, .peer = -1});
	assert_int_equal(coll_clocks(ops, clock, COLL_DEVICES_MAX), 0);
	/* 5 ppm and a step of a second later; another one that counts since its start. */
	for (unsigned i = 0; i < 600; i++)
		reduce_on(1, EPOCH + 250 * i, ++seq);
	for (unsigned i = 0; i < 100; i++) {
		reduce_on(1, EPOCH + SECOND, ++seq);
		reduce_on(2, 5000, ++seq);
	}
	assert_int_equal(n_rows, seq);
	assert_int_equal(coll_clocks(ops, clock, 1), 1);
	assert_int_equal(coll_clocks(ops, clock, COLL_DEVICES_MAX), 2);
	assert_int_equal(clock[0].device, 1);
	assert_int_equal(clock[0].steps, 1);
	assert_in_range(clock[0].estimate.offset_ns, EPOCH + SECOND - 6000, EPOCH + SECOND + 20000);
	assert_int_equal(clock[1].device, 2);
	assert_int_equal(clock[1].steps, 0);
	assert_in_range(clock[1].newest_ns, now - 2 * SECOND, now);
	assert_int_equal(counts().impossible, 0);
}

TEST(impossible_times_are_counted)
{
	struct coll_device device;

	start();
	init("nccl", 0xa0, 0xabc, 0, 2);
	feed_device((struct coll_device){.identity = 0xabc, .members = 2, .peer = -1});
	feed(all_reduce(1));
	device = record("AllReduce", 1, 1);
	device.stop_ns += SECOND; /* longer than the host saw it */
	feed_device(device);
	assert_false(rows[0].row.device);
	assert_int_equal(rows[0].row.device_start_ns, COLL_UNKNOWN);
	feed(all_reduce(1));
	device = record("AllReduce", 2, 1);
	device.heard_ns = 3; /* before its call */
	feed_device(device);
	assert_false(rows[1].row.device);
	assert_int_equal(counts().impossible, 2);
	/* They were not asked about the clock. */
	feed(all_reduce(1));
	feed_device(record("AllReduce", 3, 1));
	assert_true(rows[2].row.device);
	assert_int_equal(counts().impossible, 2);
}

TEST_MAIN(NULL, done)
