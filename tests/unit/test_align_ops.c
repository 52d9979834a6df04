/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that come late, come and go, are of two sides, or twice; steps out of operations alone. */
#include "tests/unit/align_script.h"

/* Device records come two seconds after their step; the level goes on at step 11 and off at step 60. */
TEST(operations_come_late_and_go)
{
	size_t device = 0, first = 0;
	uint64_t waited = 0;

	begin_job(2, true);
	for (int64_t step = 1; step <= 200; step++) {
		both_step(step);
		if (step - 20 >= 11 && step - 20 <= 60)
			both_ops(step - 20, FRAME_TIER_DEVICE);
		at((uint64_t)step * 100);
		if (n_seen < (size_t)step)
			waited = (uint64_t)step - n_seen > waited ? (uint64_t)step - n_seen : waited;
	}
	for (size_t i = 0; i < n_seen; i++) {
		if (seen[i].frame.tier != FRAME_TIER_DEVICE) {
			assert_int_equal(seen[i].frame.tier, FRAME_TIER_STAGES);
			continue;
		}
		first = first ? first : i;
		device++;
		assert_int_equal(seen[i].frame.ops, 4);
		assert_int_equal(seen[i].frame.groups, 2);
		assert_int_equal(seen[i].op[0].start_ns, 40 * MS);
	}
	/* Those whose records came after they had gone are what it learnt from. */
	assert_in_range(first, 30, 34);
	assert_int_equal(device, 60 - first);
	assert_in_range(waited, 20, 72);
	/* And nothing is waited for any more. */
	assert_int_equal(n_seen, 200);
	for (size_t i = 0; i < n_seen; i++)
		assert_int_equal(seen[i].frame.step, i + 1);
}

TEST(a_rank_that_is_gone_is_not_waited_for)
{
	begin_job(2, true);
	for (int64_t step = 1; step <= 10; step++) {
		both_ops(step, FRAME_TIER_HOST);
		both_step(step);
	}
	assert_int_equal(n_seen, 10);
	op_at(0, 21, 11, 1040, 10);
	op_at(0, 22, 11, 1060, 10);
	step_at(0, 11, 1000, 100);
	assert_int_equal(n_seen, 10);
	align_rank_end(align, process[1], start_ns + 1050 * MS);
	assert_int_equal(n_seen, 11);
	assert_int_equal(seen[10].here, 1);
	op_at(0, 23, 12, 1140, 10);
	op_at(0, 24, 12, 1160, 10);
	step_at(0, 12, 1100, 100);
	assert_int_equal(n_seen, 12);
}

TEST(what_was_lost_is_not_waited_for)
{
	begin_job(2, true);
	for (int64_t step = 1; step <= 10; step++) {
		both_ops(step, FRAME_TIER_HOST);
		both_step(step);
	}
	op_at(0, 21, 11, 1040, 10);
	op_at(0, 22, 11, 1060, 10);
	op_at(1, 22, 11, 1060, 10);
	both_step(11);
	assert_int_equal(n_seen, 10);
	align_lost(align, process[1], 5);
	assert_int_equal(n_seen, 11);
	assert_int_equal(seen[10].frame.lost, 5);
	both_ops(12, FRAME_TIER_HOST);
	both_step(12);
	assert_int_equal(n_seen, 12);
	assert_int_equal(seen[11].frame.lost, 0);
	assert_int_equal(seen[11].frame.ops, 4);
}

/* The level goes on in the middle of step 11, after its first operation. */
TEST(operations_that_begin)
{
	begin_job(2, true);
	for (int64_t step = 1; step <= 20; step++) {
		if (step > 11)
			both_ops(step, FRAME_TIER_HOST);
		for (int i = 0; i < 2 && step == 11; i++)
			op_at(i, NTH(step) * 2 + 2, step, NTH(step) * 100 + 60, 10);
		both_step(step);
	}
	align_end(align);
	assert_int_equal(seen[10].frame.tier, FRAME_TIER_STAGES);
	for (size_t i = 11; i < 20; i++)
		assert_int_equal(seen[i].frame.ops, 4);
}

/* Only the first of ten operations of step 11 were seen in one of four ranks; and steps with a few less than usual. */
TEST(operations_that_cease)
{
	begin_job(4, true);
	for (int64_t step = 1; step <= 12; step++) {
		for (int i = 0; i < 4; i++) {
			int many = step == 12 ? 0 : step == 11 && i == 3 ? 2 : step == 11 ? 7 : 10;

			for (int k = 0; k < many; k++)
				op_at(i, NTH(step) * 10 + (uint64_t)k + 1, step, NTH(step) * 100 + 10 + (uint64_t)k, 1);
			step_at(i, step, NTH(step) * 100, 100);
		}
	}
	assert_int_equal(n_seen, 10);
	at(1100 + 4999);
	assert_int_equal(n_seen, 10);
	at(1200 + 5000);
	assert_int_equal(n_seen, 12);
	assert_int_equal(seen[9].frame.ops, 40);
	assert_int_equal(seen[10].frame.ops, 21);
	assert_int_equal(seen[11].frame.tier, FRAME_TIER_STAGES);
	assert_int_equal(counts().coll_left_out, 2);
}

static void some_ops(int64_t step, int many)
{
	for (int i = 0; i < 2; i++) {
		for (int k = 0; k < many; k++)
			op_at(i, NTH(step) * 10 + (uint64_t)k + 1, step, NTH(step) * 100 + 40 + (uint64_t)k, 1);
	}
}

/* Of every tenth step there is one more, and from step 41 on of each: only the step after it waits, and not for two. */
TEST(now_and_then_one_more)
{
	begin_job(2, true);
	for (int64_t step = 1; step <= 60; step++) {
		both_step(step);
		some_ops(step, step > 40 || step % 10 == 5 ? 5 : 4);
		if (step > 3)
			assert_int_equal(n_seen, step <= 40 && step % 10 == 6 ? step - 1 : step);
	}
	for (size_t i = 5; i < n_seen; i++)
		assert_int_equal(seen[i].frame.ops, i < 40 && i % 10 != 4 ? 8 : 10);
}

/* The last operations of a step come after the step's row. */
TEST(operations_after_their_steps_row)
{
	begin_job(2, true);
	for (int64_t step = 1; step <= 20; step++) {
		both_step(step);
		both_ops(step, FRAME_TIER_HOST);
	}
	for (size_t i = 5; i < n_seen; i++)
		assert_int_equal(seen[i].frame.ops, 4);
	assert_int_equal(n_seen, 20);
}

TEST(whatif_most_ranks_there_are_no_operations)
{
	begin_job(4, true);
	for (int64_t step = 1; step <= 10; step++) {
		for (int i = 0; i < 4; i++) {
			if (i < 2)
				op_at(i, (uint64_t)step, step, NTH(step) * 100 + 40, 10);
			step_at(i, step, NTH(step) * 100, 100);
		}
	}
	align_end(align);
	assert_int_equal(n_seen, 10);
	for (size_t i = 0; i < n_seen; i++)
		assert_int_equal(seen[i].frame.tier, FRAME_TIER_STAGES);
	assert_int_equal(counts().coll_left_out, 20);
}

static void side(int rank, const char *op, uint64_t seq, int32_t member, int32_t peer, uint64_t from)
{
	align_op(align, process[rank],
		&(struct align_op){.communicator = "00000000000000bb",
			.seq = seq,
			.op = op,
			.step = 1,
			.start_ns = start_ns + from * MS,
			.duration_ns = MS,
			.bytes = 8,
			.peer = peer,
			.member = member,
			.tier = FRAME_TIER_DEVICE});
}

TEST(a_send_and_its_receive_are_one)
{
	begin_job(2, true);
	side(0, "Send", 1, 0, 1, 10);
	side(0, "Recv", 1, 0, 1, 30);
	side(1, "Recv", 1, 1, 0, 12);
	side(1, "Send", 1, 1, 0, 28);
	side(1, "Send", 1, 1, 0, 28); /* twice */
	side(1, "Send", 2, 1, 1, 28); /* to itself */
	side(1, "Send", 2, -4, 0, 28);
	side(1, "Send", 2, 1, -3, 28);
	op_on(0, "", 1, 1, 1, 1, FRAME_TIER_DEVICE);
	op_on(0, NULL, 1, 1, 1, 1, FRAME_TIER_DEVICE);
	op_on(0, "00000000000000aa", 0, 1, 1, 1, FRAME_TIER_DEVICE);
	op_on(0, "00000000000000aa", 1, 1, 1, 1, FRAME_TIER_STAGES);
	op_on(0, "00000000000000aa", 1, -7, 1, 1, FRAME_TIER_HOST);
	both_step(1);
	align_end(align);
	assert_int_equal(n_seen, 1);
	assert_int_equal(seen[0].frame.tier, FRAME_TIER_DEVICE);
	assert_int_equal(seen[0].frame.groups, 2);
	assert_int_equal(seen[0].frame.ops, 4);
	for (size_t i = 0; i < 2; i++) {
		assert_true(seen[0].group[i].p2p);
		assert_int_equal(seen[0].group[i].members, 2);
		assert_int_equal(seen[0].group[i].op, seen[0].group[0].op);
	}
	assert_int_equal(seen[0].op[0].start_ns, 10 * MS);
	assert_int_equal(seen[0].op[1].start_ns, 30 * MS);
	assert_int_equal(counts().coll_left_out, 9);
}

/* Four sends a step. The sender counts from step 3 on, the receiver from the middle of step 5. */
TEST(counts_of_two_sides_meet_in_their_step)
{
	uint64_t count[2] = {0};

	begin_job(2, true);
	for (int64_t step = 1; step <= 10; step++) {
		for (int k = 0; k < 4; k++) {
			for (int rank = 0; rank < 2; rank++) {
				if (rank ? step < 5 || (step == 5 && k < 2) : step < 3)
					continue;
				align_op(align, process[rank],
					&(struct align_op){.communicator = "00000000000000bb",
						.seq = ++count[rank],
						.op = rank ? "Recv" : "Send",
						.step = step,
						.start_ns =
							start_ns +
							((NTH(step) * 100) + 10 * (uint64_t)k + (uint64_t)rank) * MS,
						.duration_ns = MS,
						.bytes = 8,
						.peer = !rank,
						.member = rank,
						.counted = true,
						.tier = FRAME_TIER_HOST});
			}
		}
		for (int rank = 0; rank < 2; rank++)
			step_at(rank, step, NTH(step) * 100, 100);
		at((NTH(step) + 1) * 100);
	}
	align_end(align);
	assert_int_equal(n_seen, 10);
	for (size_t i = 0; i < 10; i++) {
		assert_true(i < 6 || (seen[i].frame.groups == 4 && seen[i].frame.ops == 8));
		for (size_t op = 0; op < seen[i].frame.ops; op++)
			for (size_t other = 0; other < seen[i].frame.ops; other++)
				assert_true(
					(seen[i].op[op].group == seen[i].op[other].group) ==
					(llabs(seen[i].op[op].start_ns - seen[i].op[other].start_ns) <= (int64_t)MS));
	}
}

/* Four other ranks, each in both directions. */
TEST(counts_of_many_sides_meet)
{
	uint64_t at_ms;

	begin_job(5, true);
	for (int64_t step = 1; step <= 10; step++) {
		for (int pair = 0; pair < 25; pair++) {
			int side[2] = {pair / 5, pair % 5}; /* sends, receives */

			for (int k = 0; k < 2 && side[0] != side[1]; k++) {
				at_ms = NTH(step) * 100 + 2 * (uint64_t)pair + (uint64_t)k;
				align_op(align, process[side[k]],
					&(struct align_op){.communicator = "00000000000000bb",
						.seq = (uint64_t)step,
						.op = k ? "Recv" : "Send",
						.step = step,
						.start_ns = start_ns + at_ms * MS,
						.duration_ns = MS,
						.bytes = 8,
						.peer = side[!k],
						.member = side[k],
						.counted = true,
						.tier = FRAME_TIER_HOST});
			}
		}
		for (int rank = 0; rank < 5; rank++)
			step_at(rank, step, NTH(step) * 100, 100);
		at((NTH(step) + 1) * 100);
	}
	align_end(align);
	assert_int_equal(n_seen, 10);
	for (size_t i = 6; i < 10; i++)
		assert_true(seen[i].frame.groups == 20 && seen[i].frame.ops == 40);
}

TEST(operations_of_no_step_are_placed_by_time)
{
	begin_job(1, true);
	for (int64_t step = 1; step <= 10; step++) {
		stage_at(0, step, STAGE_OPTIMIZER, NTH(step) * 100 + 90, 10);
		op_at(0, (uint64_t)step, STEPS_NONE, NTH(step) * 100 + 40, 10);
		step_at(0, step, NTH(step) * 100, 100);
	}
	align_end(align);
	for (size_t i = 2; i < 10; i++) {
		assert_int_equal(seen[i].frame.ops, 1);
		assert_int_equal(seen[i].op[0].start_ns, 40 * MS);
	}
}

static void unstepped(int rank, const char *communicator, uint64_t seq, uint64_t bytes, uint64_t from, uint64_t length)
{
	align_op(align, process[rank],
		&(struct align_op){.communicator = communicator,
			.seq = seq,
			.op = "AllGather",
			.step = STEPS_NONE,
			.start_ns = start_ns + from * MS,
			.duration_ns = length * MS,
			.bytes = bytes,
			.peer = -1,
			.tier = FRAME_TIER_DEVICE});
}

/* 41 operations every 200 ms, 40 of them alike, in two ranks of which one is seen later than the other; a pause once.
 */
TEST(steps_come_from_the_pattern_of_operations)
{
	uint64_t seq = 0;

	begin_job(2, true);
	for (uint64_t nth = 0; nth < 40; nth++) {
		for (uint64_t k = 0; k < 41; k++) {
			uint64_t from = nth * 200 + k * 4 + (nth * 41 + k >= 153 ? 1000 : 0);

			seq++;
			for (int i = 0; i < 2; i++) {
				if (i == 0 || seq > 57)
					unstepped(i, "00000000000000aa", seq, k == 20 ? 2 : 3, from, 2);
			}
		}
		at(nth * 200 + 200 + (nth >= 3 ? 1000 : 0));
	}
	align_end(align);
	assert_true(n_seen >= 25);
	for (size_t i = n_seen - 20; i < n_seen; i++) {
		assert_int_equal(seen[i].here, 2);
		assert_int_equal(seen[i].rank[0].step_ns, 200 * MS);
		assert_int_equal(seen[i].rank[0].end_ns, seen[i].rank[1].end_ns);
		assert_int_equal(seen[i].frame.tier, FRAME_TIER_DEVICE);
		assert_int_equal(seen[i].frame.ops, 82);
		assert_int_equal(seen[i].frame.groups, 41);
		assert_int_equal(seen[i].op[0].start_ns, 0);
	}
}

/* One operation in a hundred is another one; and the first hundred are all alike. */
TEST(a_pattern_with_noise)
{
	uint64_t random = 1;
	size_t right = 0;

	begin_job(1, true);
	for (uint64_t i = 0; i < 20000; i++) {
		uint64_t bytes = i < 100 ? 3 : (random >> 33) % 100 == 57 ? 99 : i % 10;

		unstepped(0, "00000000000000aa", i + 1, bytes, i * 4 + i / 10 * 30, 2);
		random = random * 6364136223846793005ULL + 1442695040888963407ULL;
	}
	align_end(align);
	for (size_t i = 0; i < n_seen; i++)
		right += seen[i].rank[0].step_ns == 70 * MS;
	assert_true(right > 1000);
}

/* 129 equal ones and another: at first each operation seems to be a step. */
TEST(a_pattern_of_one_that_differs)
{
	size_t right = 0;

	begin_job(1, true);
	for (uint64_t i = 0; i < 13000; i++)
		unstepped(0, "00000000000000aa", i + 1, i % 130 == 90, i * 4 + i / 130 * 80, 2);
	align_end(align);
	for (size_t i = 0; i < n_seen; i++)
		right += seen[i].rank[0].step_ns == 600 * MS;
	assert_true(right > 60);
	assert_int_equal(seen[n_seen - 1].frame.groups, 130);
}

TEST(no_pattern_no_steps)
{
	uint64_t random = 12345;

	begin_job(1, true);
	for (uint64_t i = 0; i < 20000; i++) {
		random = random * 6364136223846793005ULL + 1442695040888963407ULL;
		unstepped(0, "00000000000000aa", i + 1, random >> 61, i * 3, 2);
	}
	align_end(align);
	assert_int_equal(n_seen, 0);
	assert_int_equal(counts().coll_left_out, 20000);
}

/* A communicator a step: none is kept that no record needs. */
TEST(many_communicators)
{
	char name[20];

	begin_job(1, true);
	for (int64_t step = 1; step <= 3000; step++) {
		for (int i = 0; i < 40; i++) {
			snprintf(name, sizeof(name), "%08x%08x", (unsigned)step, (unsigned)i);
			op_on(0, name, 1, step, NTH(step) * 100 + 10 + (uint64_t)i, 1, FRAME_TIER_HOST);
		}
		step_at(0, step, NTH(step) * 100, 100);
	}
	align_end(align);
	assert_int_equal(n_seen, 3000);
	assert_int_equal(counts().coll_left_out, 0);
	assert_int_equal(seen[2999].frame.groups, 40);
	assert_true(seen[2999].frame.comms <= 65536);
}

/* More of them by turns than a process keeps, of two names each: each is joined with its own. */
TEST(more_kinds_than_are_kept)
{
	begin_job(2, true);
	for (int64_t step = 1; step <= 4; step++) {
		for (int i = 0; i < 2; i++) {
			for (int k = 0; k < 24; k++) {
				char communicator[20];

				snprintf(communicator, sizeof(communicator), "%016x", 1 + k / 2);
				align_op(align, process[i],
					&(struct align_op){.communicator = communicator,
						.seq = NTH(step) * 2 + 1 + (uint64_t)k % 2,
						.op = k % 2 ? "AllReduce" : "AllGather",
						.step = step,
						.start_ns = start_ns + (NTH(step) * 100 + (uint64_t)k) * MS,
						.duration_ns = MS,
						.bytes = 8,
						.peer = -1,
						.tier = FRAME_TIER_DEVICE});
			}
		}
		both_step(step);
	}
	align_end(align);
	assert_int_equal(n_seen, 4);
	for (size_t i = 0; i < n_seen; i++) {
		assert_int_equal(seen[i].frame.groups, 24);
		assert_int_equal(seen[i].frame.ops, 48);
		for (size_t k = 0; k < 24; k++) {
			assert_int_equal(seen[i].group[k].op, seen[i].group[k % 2].op);
			assert_int_equal(seen[i].group[k].comm, seen[i].group[k / 2 * 2].comm);
		}
		assert_int_not_equal(seen[i].group[0].op, seen[i].group[1].op);
		assert_int_not_equal(seen[i].group[0].comm, seen[i].group[2].comm);
	}
}

/* What a record has few bits for: members beyond 65535, sequence numbers beyond 32 bits, days, and exabytes. */
TEST(large_numbers)
{
	struct align_op op = {.communicator = "00000000000000bb",
		.step = 1,
		.start_ns = start_ns + 10 * MS,
		.tier = FRAME_TIER_DEVICE};

	begin_job(2, true);
	for (int32_t k = 0; k < 4; k++) {
		op.seq = UINT64_C(1) << 40;
		op.bytes = UINT64_MAX;
		op.duration_ns = UINT64_C(1) << 60;
		op.op = "Send";
		op.member = 70000 + k;
		op.peer = 90000;
		align_op(align, process[0], &op);
		op.op = "Recv";
		op.member = 90000;
		op.peer = 70000 + k;
		align_op(align, process[1], &op);
	}
	both_step(1);
	align_end(align);
	assert_int_equal(n_seen, 1);
	assert_int_equal(seen[0].frame.groups, 4);
	assert_int_equal(seen[0].frame.ops, 8);
	assert_true(seen[0].group[0].p2p);
	assert_true(seen[0].group[0].bytes == (UINT64_C(1) << 48) - 1);
	assert_true(seen[0].op[0].duration_ns == (UINT64_C(1) << 48) - 1);
}

TEST_MAIN(NULL, done)
