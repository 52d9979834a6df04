/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory: records to rows, what lives, and what is asked for while nothing is known. */
#define TEST_ALONE /* replaces functions of the daemon */
#include "daemon/memory/allocs.h"
#include "daemon/stacks/profile_rank.h"
#include "tests/unit/call_sinks_fixture.h"

#define ALLOC PROBE("alloc", "", "cudaMalloc", OP_FIELD_ADDRESS, OP_FIELD_BYTES, OP_FIELD_DEVICE)
#define FREE PROBE("free", "", "cudaFree", OP_FIELD_ADDRESS)
#define NAMED_FROM 1000 /* stacks from this hash on have no name yet */
#define REFUSED 7	/* this one will have none */

static uint64_t named_until = NAMED_FROM;

bool profile_rank_id(const struct profile_rank *profile, uint64_t stack, int64_t *ret)
{
	*ret = (int64_t)stack * 10;
	return stack && stack != REFUSED && stack < named_until;
}

bool profile_rank_waits(const struct profile_rank *profile, uint64_t stack)
{
	return stack >= named_until;
}

#define SQL "select op, address, bytes, result, duration_ns, device from allocations order by start_ns, duration_ns"

TEST_WITH(test_rows, fixture_setup, fixture_teardown)
{
	struct probe alloc = ALLOC, freed = FREE;
	struct rank *rank = &ranks_here[1];

	call_made(rank, &alloc, &(struct call_made){.start_ns = 10 * MS, .end_ns = 11 * MS, WORDS(0x7000, 4096, 1)});
	/* Out of memory: the pointer holds what it held before; above the int the register holds anything. */
	call_made(rank, &alloc,
		&(struct call_made){.start_ns = 20 * MS,
			.end_ns = 22 * MS,
			.result = (int64_t)0xdeadbeef00000002,
			WORDS(0x7000, 1UL << 40, (uint64_t)-1)});
	call_made(rank, &freed, &(struct call_made){.start_ns = 30 * MS, .end_ns = 31 * MS, WORDS(0x7000)});
	call_made(rank, &freed, &(struct call_made){.start_ns = 40 * MS, .end_ns = 41 * MS, WORDS(0x7000)});
	call_made(rank, &freed, &(struct call_made){.start_ns = 50 * MS, .end_ns = 51 * MS, WORDS(0)});
	flush();
	assert_query(SQL, "cudaMalloc|28672|4096|0|1000000|1\n"
			  "cudaMalloc|NULL|1099511627776|2|2000000|NULL\n"
			  "cudaFree|28672|4096|0|1000000|NULL\n"
			  "cudaFree|28672|NULL|0|1000000|NULL\n"
			  "cudaFree|NULL|NULL|0|1000000|NULL\n");
	assert_query("select distinct rank, step, stage, instance, thread_id from allocations", "1|NULL|NULL|2|101\n");
}

TEST_WITH(test_a_failed_free_gives_nothing_back, fixture_setup, fixture_teardown)
{
	struct probe alloc = ALLOC, freed = FREE;
	struct rank *rank = &ranks_here[0];

	call_made(rank, &alloc, &(struct call_made){.start_ns = 10 * MS, .end_ns = 11 * MS, WORDS(0x10, 64, 0)});
	call_made(rank, &freed, &(struct call_made){.start_ns = 20 * MS, .end_ns = 21 * MS, .result = 1, WORDS(0x10)});
	call_made(rank, &freed, &(struct call_made){.start_ns = 30 * MS, .end_ns = 31 * MS, WORDS(0x10)});
	flush();
	assert_query("select bytes, result, error from allocations where op = 'cudaFree' order by start_ns",
		"NULL|1|cudaErrorInvalidValue\n64|0|NULL\n");
}

/* cudaFree calls cuMemFree, which returns first. */
TEST_WITH(test_functions_within_functions, fixture_setup, fixture_teardown)
{
	struct probe alloc = ALLOC, outer = FREE, inner = PROBE("free", "", "cuMemFree", OP_FIELD_ADDRESS);
	struct rank *rank = &ranks_here[0];

	call_made(rank, &alloc, &(struct call_made){.start_ns = 10 * MS, .end_ns = 11 * MS, WORDS(0x20, 128, 0)});
	call_made(rank, &inner, &(struct call_made){.start_ns = 21 * MS, .end_ns = 22 * MS, WORDS(0x20)});
	call_made(rank, &outer, &(struct call_made){.start_ns = 20 * MS, .end_ns = 23 * MS, WORDS(0x20)});
	flush();
	assert_query("select op, bytes from allocations where op != 'cudaMalloc' order by start_ns",
		"cudaFree|128\ncuMemFree|128\n");
}

static void mark(const struct rank *rank, enum steps_edge edge, const char *stage, uint64_t time_ns)
{
	struct steps_mark mark = {.time_ns = time_ns,
		.thread_id = rank->pid,
		.edge = edge,
		.stage = stage,
		.name = edge == STEPS_BEGIN ? stage : NULL};

	rank_steps_mark(context.steps, rank, &mark);
}

TEST_WITH(test_stage_and_step, fixture_setup, fixture_teardown)
{
	struct probe alloc = ALLOC;
	struct rank *rank = &ranks_here[0];

	rank->from_start = true;
	mark(rank, STEPS_BEGIN, "forward", 10 * MS);
	mark(rank, STEPS_BEGIN, "layer 3", 12 * MS);
	call_made(rank, &alloc, &(struct call_made){.start_ns = 13 * MS, .end_ns = 14 * MS, WORDS(0x1, 8, 0)});
	mark(rank, STEPS_END, "layer 3", 15 * MS);
	call_made(rank, &alloc, &(struct call_made){.start_ns = 16 * MS, .end_ns = 17 * MS, WORDS(0x2, 8, 0)});
	mark(rank, STEPS_END, "forward", 18 * MS);
	call_made(rank, &alloc, &(struct call_made){.start_ns = 19 * MS, .end_ns = 20 * MS, WORDS(0x3, 8, 0)});
	flush();
	assert_query("select step, stage from allocations order by start_ns", "1|layer 3\n1|forward\n1|NULL\n");
}

/* What lived while the level was off may be another's by now. */
TEST_WITH(test_level_off_forgets, fixture_setup, fixture_teardown)
{
	struct probe alloc = ALLOC, freed = FREE;
	struct rank *rank = &ranks_here[0];
	struct allocs_counts counts;

	call_made(rank, &alloc, &(struct call_made){.start_ns = 10 * MS, .end_ns = 11 * MS, WORDS(0x30, 128, 0)});
	call_sinks_level(&context, LEVEL_L1, false);
	allocs_counts(context.allocs, &counts);
	assert_int_equal(counts.live, 1);
	call_sinks_level(&context, LEVEL_L2, false);
	call_made(rank, &freed, &(struct call_made){.start_ns = 20 * MS, .end_ns = 21 * MS, WORDS(0x30)});
	flush();
	assert_query("select bytes from allocations where op = 'cudaFree'", "NULL\n");
	allocs_counts(context.allocs, &counts);
	assert_int_equal(counts.live, 0);
	assert_int_equal(counts.rows, 2);
}

TEST_WITH(test_ranks_are_apart, fixture_setup, fixture_teardown)
{
	struct probe alloc = ALLOC, freed = FREE;

	call_made(&ranks_here[0], &alloc,
		&(struct call_made){.start_ns = 10 * MS, .end_ns = 11 * MS, WORDS(0x30, 128, 0)});
	call_made(&ranks_here[1], &freed, &(struct call_made){.start_ns = 20 * MS, .end_ns = 21 * MS, WORDS(0x30)});
	notify_rank(&ranks_here[0], RANK_ENDED);
	ranks_here[0].instance = 77; /* another process in the same slot */
	notify_rank(&ranks_here[0], RANK_ADDED);
	call_made(&ranks_here[0], &freed, &(struct call_made){.start_ns = 30 * MS, .end_ns = 31 * MS, WORDS(0x30)});
	flush();
	assert_query(
		"select instance, bytes from allocations where op = 'cudaFree' order by start_ns", "2|NULL\n77|NULL\n");
}

TEST(test_live_is_bounded)
{
	struct alloc_live live;
	uint64_t bytes;

	alloc_live_init(&live, 1000);
	for (uint64_t i = 1; i <= 1000; i++)
		assert_true(alloc_live_add(&live, i * 4096, i, true));
	assert_false(alloc_live_add(&live, 4096 * 1001, 1, true));
	assert_true(alloc_live_drop(&live, 4096 * 500, 5, &bytes));
	assert_int_equal(bytes, 500);
	assert_true(alloc_live_add(&live, 4096 * 1001, 1001, true));
	/* Addresses that come and go do not fill it, whatever their number. */
	for (uint64_t i = 0; i < 100000; i++) {
		assert_true(alloc_live_drop(&live, i ? (1ULL << 40) + i - 1 : 4096 * 1001, i + 1, &bytes));
		assert_true(alloc_live_add(&live, (1ULL << 40) + i, i, true));
	}
	assert_int_equal(live.lives, 1000);
	assert_true(live.capacity <= 4096);
	assert_true(alloc_live_drop(&live, 4096, 9, &bytes));
	assert_int_equal(bytes, 1);
	alloc_live_clear(&live);
}

/* An expandable segment, whose parts are mapped one by one, has no row. */
TEST_WITH(test_expandable_segments, fixture_setup, fixture_teardown)
{
	struct probe map = PROBE("map", "", "cuMemMap", OP_FIELD_ADDRESS, OP_FIELD_BYTES),
		     unmap = PROBE("unmap", "", "cuMemUnmap", OP_FIELD_ADDRESS);
	struct memory_segment segment[4];
	struct rank *rank = &ranks_here[0];
	struct allocs_counts counts;

	for (uint64_t i = 0; i < 3; i++)
		call_made(rank, &map,
			&(struct call_made){.start_ns = (10 + i) * MS,
				.end_ns = (10 + i) * MS + 1,
				WORDS(0x100000 + i * 0x1000, 0x1000)});
	assert_int_equal(allocs_segments(context.allocs, 0, rank->instance, segment, 4), 3);
	assert_true(segment[0].is_expandable);
	call_made(rank, &unmap, &(struct call_made){.start_ns = 20 * MS, .end_ns = 21 * MS, WORDS(0x101000)});
	assert_int_equal(allocs_segments(context.allocs, 0, rank->instance, segment, 4), 2);
	allocs_counts(context.allocs, &counts);
	assert_int_equal(counts.rows, 0);
}

/* Memory of devices, as the fragmentation of an allocator is judged from. */
TEST_WITH(test_segments, fixture_setup, fixture_teardown)
{
	struct probe alloc = ALLOC,
		     host = PROBE("alloc", "", "cudaMallocHost", OP_FIELD_ADDRESS, OP_FIELD_BYTES, OP_FIELD_DEVICE),
		     handle = PROBE("alloc", "", "cuMemCreate", OP_FIELD_ADDRESS, OP_FIELD_BYTES, OP_FIELD_DEVICE),
		     freed = FREE;
	struct memory_segment segment[4];
	struct rank *rank = &ranks_here[0];

	call_made(rank, &alloc, &(struct call_made){.start_ns = 10 * MS, .end_ns = 11 * MS, WORDS(0x100000, 4096, 0)});
	call_made(rank, &alloc, &(struct call_made){.start_ns = 20 * MS, .end_ns = 21 * MS, WORDS(0x200000, 8192, 0)});
	call_made(rank, &host, &(struct call_made){.start_ns = 30 * MS, .end_ns = 31 * MS, WORDS(0x300000, 4096, 0)});
	call_made(rank, &handle, &(struct call_made){.start_ns = 40 * MS, .end_ns = 41 * MS, WORDS(0x40, 4096, 0)});
	assert_int_equal(allocs_segments(context.allocs, 0, rank->instance, segment, 4), 2);
	assert_int_equal(segment[0].bytes + segment[1].bytes, 4096 + 8192);
	assert_int_equal(allocs_segments(context.allocs, 0, rank->instance, segment, 1), 1);
	call_made(rank, &freed, &(struct call_made){.start_ns = 50 * MS, .end_ns = 51 * MS, WORDS(0x200000)});
	assert_int_equal(allocs_segments(context.allocs, 0, rank->instance, segment, 4), 1);
	assert_int_equal(segment[0].address, 0x100000);
	assert_int_equal(allocs_segments(context.allocs, 0, rank->instance + 1, segment, 4), 0);
	assert_int_equal(allocs_segments(context.allocs, 1000, rank->instance, segment, 4), 0);
	/* Those of a process that has ended until the next tick. */
	notify_rank(rank, RANK_ENDED);
	assert_int_equal(allocs_segments(context.allocs, 0, rank->instance, segment, 4), 1);
	allocs_sink.tick(&context, 0);
	assert_int_equal(allocs_segments(context.allocs, 0, rank->instance, segment, 4), 0);
}

#define STACKS "select address, stack from allocations order by start_ns"

static const struct profile_rank *const names = (const struct profile_rank *)&context; /* opaque: the functions above */

static void allocate(const struct rank *rank, uint64_t number, int64_t result)
{
	struct probe alloc = ALLOC;

	alloc.spec.flags |= RT_CALL_STACK;
	call_made(rank, &alloc,
		&(struct call_made){
			.start_ns = number * MS, .end_ns = number * MS + 1, .result = result, WORDS(number, 8, 0)});
}

static bool stack_of(const struct rank *rank, uint64_t number, uint64_t stack)
{
	return allocs_stack(context.allocs, rank->slot, rank->pid, number * MS, stack);
}

TEST_WITH(test_rows_wait_for_their_stacks, fixture_setup, fixture_teardown)
{
	struct rank *rank = &ranks_here[0];
	uint64_t now_ns = monotonic_ns();

	named_until = NAMED_FROM;
	allocate(rank, 10, 0); /* before it is followed: put at once */
	assert_false(stack_of(rank, 10, 1));
	allocs_follow(context.allocs, rank);
	allocate(rank, 11, 0);
	assert_false(stack_of(rank, 12, 1));
	assert_false(stack_of(&ranks_here[1], 11, 1));
	assert_true(stack_of(rank, 11, 1));
	allocate(rank, 12, 0);
	assert_true(stack_of(rank, 12, NAMED_FROM));
	allocate(rank, 13, 0); /* has none: the next record of its thread comes first */
	allocate(rank, 14, 0);
	assert_false(stack_of(rank, 13, 1));
	assert_true(stack_of(rank, 14, REFUSED));
	flush();
	assert_query(STACKS, "10|NULL\n13|NULL\n");
	assert_false(allocs_name(context.allocs, rank->slot, names, now_ns, false));
	flush();
	assert_query(STACKS, "10|NULL\n11|10\n13|NULL\n14|NULL\n");
	named_until++;
	assert_false(allocs_name(context.allocs, rank->slot, names, now_ns, false));
	/* Its record is the last one of its thread. */
	allocate(rank, 15, 0);
	allocs_name(context.allocs, rank->slot, names, monotonic_ns(), false);
	flush();
	assert_query(STACKS, "10|NULL\n11|10\n12|10000\n13|NULL\n14|NULL\n");
	allocs_name(context.allocs, rank->slot, names, monotonic_ns() + 2 * NSEC_PER_SEC, false);
	flush();
	assert_query("select address, stack from allocations where address = 15", "15|NULL\n");
}

/* Of a call that failed, the name is asked for at once. A release has no stack unless it fails. */
TEST_WITH(test_stacks_of_failed_calls, fixture_setup, fixture_teardown)
{
	struct probe freed = FREE;
	struct rank *rank = &ranks_here[0];

	named_until = NAMED_FROM;
	allocs_follow(context.allocs, rank);
	allocate(rank, 10, 2);
	assert_false(allocs_name(context.allocs, rank->slot, names, 0, false));
	assert_true(stack_of(rank, 10, NAMED_FROM));
	assert_true(allocs_name(context.allocs, rank->slot, names, 0, false));
	call_made(rank, &freed, &(struct call_made){.start_ns = 20 * MS, .end_ns = 21 * MS, WORDS(0x10)});
	assert_false(stack_of(rank, 20, 1));
	call_made(rank, &freed, &(struct call_made){.start_ns = 30 * MS, .end_ns = 31 * MS, .result = 1, WORDS(0x10)});
	assert_true(stack_of(rank, 30, 3));
	/* The end of the rank: what has a name has it, and no further row waits. */
	assert_false(allocs_name(context.allocs, rank->slot, names, 0, true));
	allocate(rank, 40, 0);
	assert_false(stack_of(rank, 40, 1));
	flush();
	assert_query("select op, result, stack from allocations order by start_ns",
		"cudaMalloc|2|NULL\ncudaFree|0|NULL\ncudaFree|1|30\ncudaMalloc|0|NULL\n");
	assert_query("select op, bytes, error, stack, thread_id from api_errors order by start_ns",
		"cudaMalloc|8|cudaErrorMemoryAllocation|NULL|100\ncudaFree|NULL|cudaErrorInvalidValue|30|100\n");
}

/* Calls are summed without those of the host; the line is that of the longest one with a name. */
TEST_WITH(test_calls_are_summed, fixture_setup, fixture_teardown)
{
	struct probe alloc = ALLOC, freed = FREE,
		     host = PROBE("alloc", "", "cudaMallocHost", OP_FIELD_ADDRESS, OP_FIELD_BYTES);
	struct rank *rank = &ranks_here[0];
	struct memory_calls calls;
	uint64_t stack;

	named_until = NAMED_FROM;
	alloc.spec.flags |= RT_CALL_STACK;
	allocs_follow(context.allocs, rank);
	call_made(rank, &alloc, &(struct call_made){.start_ns = 10 * MS, .end_ns = 13 * MS, WORDS(0x7000, 4096, 1)});
	assert_true(stack_of(rank, 10, 5));
	call_made(rank, &alloc, &(struct call_made){.start_ns = 20 * MS, .end_ns = 22 * MS, WORDS(0x8000, 4096, 1)});
	assert_true(stack_of(rank, 20, 6));
	call_made(rank, &alloc,
		&(struct call_made){.start_ns = 30 * MS, .end_ns = 31 * MS, .result = 2, WORDS(0, 1UL << 40, 1)});
	call_made(rank, &host, &(struct call_made){.start_ns = 40 * MS, .end_ns = 49 * MS, WORDS(0x9000, 4096)});
	call_made(rank, &freed, &(struct call_made){.start_ns = 50 * MS, .end_ns = 57 * MS, WORDS(0x7000)});
	call_made(rank, &freed,
		&(struct call_made){.start_ns = 60 * MS, .end_ns = 67 * MS, WORDS(0x6000)}); /* of unknown size */
	allocs_name(context.allocs, rank->slot, names, 0, false);
	allocs_calls(context.allocs, rank->slot, &calls, &stack);
	assert_int_equal(calls.take_ns, 6 * MS);
	assert_int_equal(calls.take_bytes, 8192);
	assert_int_equal(calls.give_ns, 7 * MS);
	assert_int_equal(calls.give_bytes, 4096);
	assert_int_equal(stack, 5);
	allocs_calls(context.allocs, rank->slot, &calls, &stack);
	assert_int_equal(calls.take_ns + calls.give_ns, 0);
	assert_int_equal(stack, 0);
}

/* Rows that wait are not lost with the level, and are bounded. */
TEST_WITH(test_waiting_rows_are_bounded, fixture_setup, fixture_teardown)
{
	struct rank *rank = &ranks_here[0];

	named_until = NAMED_FROM;
	allocs_follow(context.allocs, rank);
	for (uint64_t i = 1; i <= ALLOC_HELD_MAX; i++) {
		allocate(rank, i, 0);
		assert_true(stack_of(rank, i, NAMED_FROM));
	}
	allocate(rank, ALLOC_HELD_MAX + 1, 0);
	assert_false(stack_of(rank, ALLOC_HELD_MAX + 1, NAMED_FROM));
	call_sinks_level(&context, LEVEL_L2, false);
	flush();
	assert_query("select count(*) from allocations", "1025\n");
}

TEST_MAIN(NULL, NULL)
