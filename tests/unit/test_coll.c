/* SPDX-License-Identifier: Apache-2.0 */
/* Calls to rows as the host sees them: communicators, numbers, groups, works. */
#define TEST_ALONE /* large tables: detection of leaks reads them in each run */
#include "tests/unit/coll_script.h"

TEST(the_life_of_a_communicator)
{
	start_without_marker();
	init("nccl", 0xa0, 0, 1, 4);
	assert_int_equal(n_comms, 1);
	assert_string_equal(comms[0].communicator, "");
	assert_true(comms[0].reason[0]);
	feed(all_reduce(1000));
	feed(sized(call("nccl", "AllGather", 0xa0, 0xabc), 10, 9));
	feed(sized(call("nccl", "ReduceScatter", 0xa0, 0xabc), 10, 9));
	assert_int_equal(n_rows, 3);
	assert_string_equal(rows[0].communicator, "0000000000000abc");
	assert_string_equal(rows[0].op, "AllReduce");
	assert_string_equal(rows[0].dtype, "float32");
	assert_int_equal(rows[0].row.count, 1000);
	assert_int_equal(rows[0].row.bytes, 4000);
	assert_int_equal(rows[0].row.seq, 1);
	assert_int_equal(rows[0].row.seq_from, COLL_SEQ_INIT);
	assert_int_equal(rows[0].row.host_start_ns, 1010);
	assert_int_equal(rows[0].row.host_duration_ns, 10);
	assert_int_equal(rows[0].row.peer, -1);
	assert_false(rows[0].row.device);
	assert_int_equal(rows[0].row.device_start_ns, COLL_UNKNOWN);
	assert_int_equal(rows[1].row.bytes, 20);
	assert_int_equal(rows[2].row.bytes, 80); /* for each of four members */
	assert_int_equal(rows[2].row.seq, 3);
	assert_string_equal(comms[1].communicator, "0000000000000abc");
	assert_string_equal(comms[1].source, "library");
	assert_int_equal(comms[1].row.number, comms[0].row.number);
	assert_int_equal(comms[1].row.members, 4);
	assert_int_equal(comms[1].row.member, 1);
	feed(of_kind(call("nccl", "", 0xa0, 0), COLL_COMM_FREE));
	assert_true(comms[n_comms - 1].row.freed);
	feed(all_reduce(1));
	wait_in_vain();
	assert_int_equal(rows[3].row.seq_from, COLL_SEQ_ATTACH);
	assert_int_equal(rows[3].row.seq, 1);
}

TEST(a_group_is_one_event_with_members)
{
	struct coll_event close;

	start_without_marker();
	init("nccl", 0xa0, 0xabc, 0, 2);
	feed(grouped(all_reduce(10)));
	feed(grouped(all_reduce(20)));
	assert_int_equal(n_rows, 0);
	close = of_kind(call("nccl", "", 0, 0), COLL_GROUP);
	close.start_ns = 1005;
	close.end_ns = now = 2000;
	feed(close);
	assert_int_equal(n_rows, 2);
	assert_int_equal(rows[0].row.group, 1);
	assert_int_equal(rows[1].row.group, 1);
	assert_int_equal(rows[0].row.host_duration_ns, 990);
	assert_int_equal(n_groups, 1);
	assert_int_equal(groups[0].members, 2);
	assert_int_equal(groups[0].bytes, 120);
	assert_int_equal(groups[0].duration_ns, 995);
	/* A group of one is none, but lasts as long. */
	feed(grouped(all_reduce(10)));
	close.start_ns = 2000;
	close.end_ns = now = 3000;
	feed(close);
	assert_int_equal(n_groups, 1);
	assert_int_equal(rows[2].row.group, 0);
	assert_int_equal(rows[2].row.host_duration_ns, 1000);
	/* The record of a group was lost: what was called in it does not get into the next one. */
	feed(grouped(all_reduce(10)));
	feed(all_reduce(11));
	assert_int_equal(n_rows, 5);
	assert_int_equal(rows[3].row.host_duration_ns, 10);
	assert_int_equal(counts().lost, 1);
	feed(grouped(all_reduce(10)));
	close.start_ns = now;
	feed(grouped(all_reduce(10)));
	close.end_ns = now;
	feed(close);
	assert_int_equal(counts().lost, 2);
	assert_int_equal(n_groups, 1);
	assert_int_equal(n_rows, 7);
	feed(close);
	assert_int_equal(counts().lost, 3);
}

static struct coll_event p2p(const char *op, uint32_t peer)
{
	return with(call("nccl", op, 0xa0, 0xabc), OP_FIELD_PEER, peer);
}

TEST(both_sides_number_a_pair_alike)
{
	start_without_marker();
	init("nccl", 0xa0, 0xabc, 0, 4);
	feed(p2p("Send", 1));
	feed(p2p("Recv", 1));
	feed(p2p("Send", 2));
	feed(p2p("Send", 1));
	feed(p2p("Send", 0));
	feed(p2p("Recv", 0));
	feed(all_reduce(1));
	assert_int_equal(rows[0].row.seq, 1);
	assert_int_equal(rows[1].row.seq, 1);
	assert_int_equal(rows[2].row.seq, 1);
	assert_int_equal(rows[3].row.seq, 2);
	assert_int_equal(rows[3].row.peer, 1);
	assert_int_equal(rows[3].row.seq_from, COLL_SEQ_INIT);
	assert_true(rows[3].row.p2p);
	assert_int_equal(rows[4].row.seq, 1);
	assert_int_equal(rows[5].row.seq, 1);
	assert_int_equal(rows[6].row.seq, 1); /* collectives are counted on their own */
	start_without_marker();
	feed(p2p("Send", 1));
	assert_int_equal(rows[0].row.seq_from, COLL_SEQ_ATTACH);
	feed(with(call("nccl", "Send", 0xa0, 0xabc), OP_FIELD_PEER, UINT64_MAX));
	assert_int_equal(rows[1].row.peer, -1);
}

static struct coll_event gloo(const char *op, uint64_t seq)
{
	struct coll_event event = sized(call("gloo", op, 0x90, 0), 100, 6);

	event.end_ns = 0;
	return with(event, OP_FIELD_SEQ, seq);
}

static void work(enum coll_kind kind, uint64_t address, uint32_t thread)
{
	feed(on_thread(of_kind(with(call("gloo", "", 0x90, 0), OP_FIELD_WORK, address), kind), thread));
}

TEST(works_end_in_any_order)
{
	struct coll_standing stand;

	start();
	feed(gloo("AllReduce", 0));
	work(COLL_WORK, 0x100, 1);
	coll_identify(ops, "gloo", 0x90, 0xfeed, "default_pg", 2, 4, "store", "");
	feed(gloo("AllReduce", 1));
	work(COLL_WORK, 0x200, 1);
	stand = standing(0);
	assert_int_equal(stand.entered.seq, 2);
	assert_false(stand.completion_known);
	assert_int_equal(n_rows, 0);
	now = 5000;
	work(COLL_FINISHED, 0x200, 7);
	work(COLL_FINISHED, 0x100, 8);
	assert_int_equal(n_rows, 2);
	assert_int_equal(rows[0].row.seq, 2);
	assert_int_equal(rows[0].row.seq_from, COLL_SEQ_LIBRARY);
	assert_int_equal(rows[0].row.bytes, 400);
	assert_int_equal(rows[0].row.thread_id, 1);
	assert_int_equal(rows[0].row.host_start_ns + rows[0].row.host_duration_ns, 5010);
	assert_string_equal(rows[1].communicator, "000000000000feed");
	assert_int_equal(rows[1].row.seq, 1);
	stand = standing(0);
	assert_int_equal(stand.completed.seq, 2);
	assert_true(stand.completion_known);
	assert_string_equal(stand.name, "default_pg");
	assert_int_equal(stand.members, 4);
	work(COLL_FINISHED, 0x300, 8);
	assert_int_equal(counts().lost, 1);
	/* The same address again, and one whose end was not seen. */
	feed(gloo("AllReduce", 2));
	work(COLL_WORK, 0x100, 1);
	feed(gloo("AllReduce", 3));
	work(COLL_WORK, 0x100, 1);
	assert_int_equal(n_rows, 3);
	assert_int_equal(rows[2].row.host_duration_ns, COLL_UNKNOWN);
	work(COLL_FINISHED, 0x100, 8);
	assert_int_equal(rows[3].row.seq, 4);
}

TEST(a_call_inside_a_call_is_one_row)
{
	start();
	feed(gloo("ReduceScatter", 0));
	coll_identify(ops, "gloo", 0x90, 0xfeed, "", 0, 2, "store", "");
	feed(gloo("AllReduce", 0));
	work(COLL_WORK, 0x100, 1);
	work(COLL_FINISHED, 0x100, 2);
	assert_int_equal(n_rows, 1);
	assert_string_equal(rows[0].op, "ReduceScatter");
	assert_int_equal(rows[0].row.host_start_ns, 1000);
	/* A call that carries its work, whose end came first. */
	work(COLL_FINISHED, 0x200, 2);
	feed(with(gloo("AllReduce", 1), OP_FIELD_WORK, 0x300));
	assert_int_equal(n_rows, 1);
	now -= 20;
	feed(with(gloo("AllReduce", 2), OP_FIELD_WORK, 0x200));
	assert_int_equal(n_rows, 2);
	assert_int_equal(rows[1].row.seq, 3);
	assert_int_equal(counts().lost, 0);
}

TEST(rows_wait_for_the_identity_a_bounded_time)
{
	struct coll_event event;

	start();
	event = sized(call("gloo", "Barrier", 0x90, 0), 0, 6);
	feed(event);
	assert_int_equal(n_rows, 0);
	coll_idle(ops, now + COLL_IDENTIFY_NS / 2);
	assert_int_equal(n_rows, 0);
	coll_idle(ops, now + COLL_IDENTIFY_NS + 1);
	assert_int_equal(n_rows, 1);
	assert_string_equal(rows[0].communicator, "");
	feed(event);
	assert_int_equal(n_rows, 1);
	coll_identify(ops, "gloo", 0x90, 0, "", 0, 0, "", "the store's prefix could not be read");
	assert_int_equal(n_rows, 2);
	assert_string_equal(comms[n_comms - 1].reason, "the store's prefix could not be read");
	feed(event);
	assert_int_equal(n_rows, 3); /* no device record will come */
	coll_identify(ops, "gloo", 0x90, 0x1, "", 0, 0, "store", "");
	feed(event);
	assert_string_equal(rows[3].communicator, "0000000000000001");
	coll_identify(ops, "gloo", 0x90, 0x2, "", 0, 0, "store", "");
	assert_true(comms[n_comms - 2].row.freed);
	feed(event);
	assert_string_equal(rows[4].communicator, "0000000000000002");
	coll_identify(ops, "gloo", 0x91, 0x2, "", 0, 0, "store", "");
}

TEST(an_address_used_again_is_another_communicator)
{
	start_without_marker();
	init("nccl", 0xa0, 0, 0, 2);
	feed(all_reduce(1));
	feed(all_reduce(1));
	feed(sized(call("nccl", "AllReduce", 0xa0, 0xdef), 1, 7)); /* neither the end nor the init was seen */
	wait_in_vain();
	assert_string_equal(rows[2].communicator, "0000000000000def");
	assert_true(comms[n_comms - 1].row.number > comms[0].row.number);
	assert_int_equal(rows[2].row.seq, 1);
	assert_int_equal(rows[2].row.seq_from, COLL_SEQ_ATTACH);
	init("nccl", 0xa0, 0x123, 0, 2); /* the end was not seen */
	feed(sized(call("nccl", "AllReduce", 0xa0, 0x123), 1, 7));
	assert_int_equal(rows[3].row.seq, 1);
	assert_int_equal(rows[3].row.seq_from, COLL_SEQ_INIT);
	/* A late end belongs to the old one. */
	{
		struct coll_event late = of_kind(call("nccl", "", 0xa0, 0), COLL_COMM_FREE);

		late.start_ns = 1000;
		feed(late);
	}
	feed(sized(call("nccl", "AllReduce", 0xa0, 0x123), 1, 7));
	assert_int_equal(rows[4].row.seq, 2);
	/* Another library's address is another thing. */
	feed(sized(call("rccl", "AllReduce", 0xa0, 0x123), 1, 7));
	assert_int_equal(rows[5].row.seq, 1);
	/* gloo: the count begins anew. */
	feed(with(sized(call("gloo", "AllReduce", 0x90, 0x77), 1, 6), OP_FIELD_SEQ, 5));
	feed(with(sized(call("gloo", "AllReduce", 0x90, 0), 1, 6), OP_FIELD_SEQ, 0));
	coll_end(ops);
	assert_string_equal(rows[7].communicator, "");
}

TEST(splits_and_failed_inits)
{
	struct coll_event event;

	start();
	init("nccl", 0xa0, 0xabc, 0, 4);
	event = of_kind(with(call("nccl", "", 0xb0, 0xbbb), OP_FIELD_PARENT, 0xa0), COLL_COMM);
	event = with(event, OP_FIELD_COLOR, (uint64_t)-3);
	event = with(event, OP_FIELD_MEMBER, 1 | 2ULL << 32); /* both in one */
	event.text = "tp\n";
	feed(event);
	assert_string_equal(comms[n_comms - 1].parent, "0000000000000abc");
	assert_int_equal(comms[n_comms - 1].row.color, -3);
	assert_int_equal(comms[n_comms - 1].row.members, 2);
	assert_string_equal(comms[n_comms - 1].name, "tp?");
	assert_string_equal(comms[n_comms - 1].kind, "tensor");
	assert_string_equal(comms[n_comms - 1].source, "init");
	feed(of_kind(with(call("nccl", "", 0, 0), OP_FIELD_PARENT, 0xa0), COLL_COMM)); /* left out of the split */
	event = of_kind(call("nccl", "", 0xc0, 0xccc), COLL_COMM);
	event.has_result = true;
	event.result = 2;
	feed(event);
	assert_int_equal(n_comms, 2);
	/* The public function calls another probed one. */
	event = of_kind(call("nccl", "", 0xd0, 0xddd), COLL_COMM);
	feed(event);
	event.start_ns -= 5;
	event.text = "outer";
	feed(event);
	assert_false(comms[n_comms - 1].row.freed);
	assert_int_equal(n_comms, 4);
}

TEST(recorded_and_failed_calls_are_distinguished)
{
	struct coll_event event;

	start_without_marker();
	init("nccl", 0xa0, 0xabc, 0, 2);
	feed(with(of_kind(call("", "", 0, 0), COLL_CAPTURE), OP_FIELD_STREAM, 5));
	feed(all_reduce(1));
	feed(on_thread(all_reduce(1), 2));
	feed(with(of_kind(call("", "", 0, 0), COLL_CAPTURE_END), OP_FIELD_STREAM, 6));
	feed(all_reduce(1));
	feed(with(of_kind(call("", "", 0, 0), COLL_CAPTURE_END), OP_FIELD_STREAM, 5));
	feed(all_reduce(1));
	assert_true(rows[0].row.captured);
	assert_false(rows[1].row.captured);
	assert_true(rows[2].row.captured);
	assert_false(rows[3].row.captured);
	event = all_reduce(1);
	event.has_result = true;
	event.result = 4;
	feed(event);
	assert_int_equal(rows[4].row.result, 4);
	assert_int_equal(rows[4].row.seq, 0);
	feed(all_reduce(1));
	assert_int_equal(rows[5].row.seq, 5);
	assert_int_equal(rows[5].row.seq_from, COLL_SEQ_INIT);
}

TEST(numbers_from_the_process_group)
{
	struct coll_event seq;

	start_without_marker();
	feed(all_reduce(1));
	feed(all_reduce(1));
	seq = with(of_kind(call("nccl", "", 0, 0), COLL_GROUP_SEQ), OP_FIELD_SEQ, 118);
	feed(with(seq, OP_FIELD_PROCESS_GROUP, 0x7f00));
	assert_int_equal(comms[n_comms - 1].row.process_group, 0x7f00);
	feed(all_reduce(1));
	/* The first calls, too, though their number came later than they did. */
	assert_int_equal(rows[0].row.seq, 117);
	assert_int_equal(rows[1].row.seq, 118);
	assert_int_equal(rows[1].row.seq_from, COLL_SEQ_GROUP);
	assert_int_equal(rows[2].row.seq, 119);
	assert_int_equal(rows[2].row.seq_from, COLL_SEQ_GROUP);
	assert_int_equal(standing(0).entered.seq, 119);
	feed(with(of_kind(call("nccl", "", 0, 0), COLL_GROUP_SEQ), OP_FIELD_SEQ, 118)); /* one number for both */
	feed(all_reduce(1));
	assert_int_equal(rows[3].row.seq, 119);
	feed(with(of_kind(call("nccl", "", 0, 0), COLL_GROUP_SEQ), OP_FIELD_SEQ, UINT64_MAX));
	/* Where the init was seen, the count from there stands. */
	init("nccl", 0xb0, 0xbbb, 0, 2);
	feed(sized(call("nccl", "AllReduce", 0xb0, 0xbbb), 1, 7));
	feed(seq);
	feed(sized(call("nccl", "AllReduce", 0xb0, 0xbbb), 1, 7));
	assert_int_equal(rows[5].row.seq, 2);
	coll_dropped(ops);
	feed(sized(call("nccl", "AllReduce", 0xb0, 0xbbb), 1, 7));
	assert_int_equal(n_rows, 6);
	feed(seq);
	assert_int_equal(n_rows, 7);
	assert_int_equal(rows[6].row.seq, 118);
	assert_int_equal(rows[6].row.seq_from, COLL_SEQ_GROUP);
	coll_dropped(ops);
	feed(sized(call("nccl", "AllReduce", 0xb0, 0xbbb), 1, 7));
	wait_in_vain();
	assert_int_equal(rows[7].row.seq_from, COLL_SEQ_ATTACH);
}

TEST(what_nothing_numbers_is_waited_for_once)
{
	start_without_marker();
	feed(all_reduce(1));
	assert_int_equal(standing(0).entered.seq, 1); /* at once */
	coll_idle(ops, now + COLL_NUMBER_NS / 2);
	feed(all_reduce(1));
	assert_int_equal(n_rows, 0);
	wait_in_vain();
	assert_int_equal(n_rows, 2);
	assert_int_equal(rows[1].row.seq, 2);
	assert_int_equal(rows[1].row.seq_from, COLL_SEQ_ATTACH);
	feed(all_reduce(1));
	assert_int_equal(n_rows, 3);
	coll_dropped(ops); /* that it is not known is known */
	feed(all_reduce(1));
	assert_int_equal(n_rows, 4);
	/* Something does after all: later ones wait again where their number is in doubt. */
	feed(with(of_kind(call("nccl", "", 0, 0), COLL_GROUP_SEQ), OP_FIELD_SEQ, 40));
	feed(all_reduce(1));
	assert_int_equal(rows[4].row.seq, 41);
	coll_dropped(ops);
	feed(all_reduce(1));
	assert_int_equal(n_rows, 5);
	coll_end(ops); /* nothing waits beyond that */
	assert_int_equal(n_rows, 6);
	assert_int_equal(rows[5].row.seq_from, COLL_SEQ_ATTACH);
}

TEST(many_communicators_and_threads)
{
	start_without_marker();
	for (uint64_t i = 1; i <= 100; i++)
		init("nccl", i * 64, i, 0, 2);
	for (uint64_t n = 1; n <= 50; n++) {
		for (uint64_t i = 1; i <= 100; i++) {
			feed(on_thread(sized(call("nccl", "AllReduce", i * 64, i), i, 7), (uint32_t)i));
			assert_int_equal(rows[n_rows - 1].row.seq, n);
			assert_int_equal(strtoull(rows[n_rows - 1].communicator, NULL, 16), i);
		}
	}
	assert_int_equal(counts().comms_forgotten, 0);
	for (uint64_t i = 0; i < 2000; i++)
		feed(on_thread(sized(call("nccl", "AllReduce", 0x100000 + i, 0x1000 + i), 1, 7), (uint32_t)i));
	assert_int_equal(counts().comms_forgotten, 100 + 2000 - COLL_COMMS_MAX);
	for (uint32_t i = 0; i < 3000; i++)
		feed(grouped(on_thread(all_reduce(1), 10000 + i)));
	coll_end(ops);
	assert_int_equal(n_rows, 5000 + 2000 + 3000);
}

TEST(hostile_values)
{
	char text[200];
	struct coll_event event;

	start_without_marker();
	memset(text, 0xff, sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	init("nccl", 0xa0, 0xabc, 7, 3); /* no member of three */
	assert_int_equal(comms[0].row.members, 0);
	event = all_reduce(UINT64_MAX / 4);
	feed(event);
	assert_int_equal(rows[0].row.bytes, COLL_UNKNOWN);
	feed(all_reduce(UINT64_MAX));
	assert_int_equal(rows[1].row.count, COLL_UNKNOWN);
	feed(sized(call("nccl", "ReduceScatter", 0xa0, 0xabc), 8, 7));
	assert_int_equal(rows[2].row.bytes, COLL_UNKNOWN); /* members are not known */
	feed(sized(call("nccl", "AllReduce", 0xa0, 0xabc), 8, 1000));
	assert_string_equal(rows[3].dtype, "");
	assert_int_equal(rows[3].row.bytes, COLL_UNKNOWN);
	feed(with(all_reduce(1), OP_FIELD_BYTES, 17));
	assert_int_equal(rows[4].row.bytes, 17);
	feed(with(all_reduce(1), OP_FIELD_SEQ, UINT64_MAX));
	assert_int_equal(rows[5].row.seq, 6);
	event = of_kind(call("nccl", "", 0xb0, 0), COLL_COMM);
	event.text = text;
	feed(event);
	assert_true(strlen(comms[n_comms - 1].name) < COLL_NAME_BYTES);
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(text, sizeof(text), "Op%u", i);
		event = call(NULL, text, 0, 0);
		feed(event);
	}
	wait_in_vain();
	assert_string_equal(rows[n_rows - 1].op, "other");
	assert_string_equal(rows[n_rows - 1].communicator, "");
	event = all_reduce(1);
	event.end_ns = event.start_ns - 1;
	feed(event);
	assert_int_equal(rows[n_rows - 1].row.host_duration_ns, COLL_UNKNOWN);
	event.kind = (enum coll_kind)99;
	feed(event);
}

TEST_MAIN(NULL, done)
