/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of copies to rows; a copy that failed. */
#define TEST_ALONE /* replaces functions of the daemon */
#include "daemon/memory/call_errors.h"
#include "daemon/memory/copies.h"
#include "tests/unit/call_sinks_fixture.h"

static void add(bool async, size_t direction, uint64_t count, uint64_t bytes, uint64_t ns, uint64_t held)
{
	struct rt_copy_sum *sum = &kernel_sums.sum[async][direction];

	sum->count += count;
	sum->bytes += bytes;
	sum->ns += ns;
	sum->longest_ns = sum->longest_ns > ns / count ? sum->longest_ns : ns / count;
	sum->held_count += held;
	sum->held_bytes += held ? bytes : 0;
	sum->held_ns += held ? ns : 0;
}

TEST_WITH(test_rows, fixture_setup, fixture_teardown)
{
	uint64_t now_ns = monotonic_ns();

	/* What the slot had before is of another rank, or of a time without L2. */
	add(false, 1, 7, 7000, 70, 0);
	copies_sink.tick(&context, now_ns);
	copies_sink.level(&context, LEVEL_L2, true);
	add(false, 1, 2, 300, 50, 0);
	add(true, 2, 4, 4000, 40000, 4);
	copies_sink.tick(&context, now_ns + NSEC_PER_SEC);
	copies_sink.tick(&context, now_ns + NSEC_PER_SEC);
	add(false, 1, 1, 5, 9, 0);
	copies_sink.tick(&context, now_ns + 2 * NSEC_PER_SEC);
	add(false, 3, 1, 6, 10, 0);
	notify_rank(&ranks_here[1], RANK_ENDED);
	copies_sink.level(&context, LEVEL_L2, false);
	add(false, 3, 1, 6, 10, 0);
	copies_sink.tick(&context, now_ns + 4 * NSEC_PER_SEC);
	flush();
	assert_query("select rank, direction, is_async, count, bytes, duration_ns, longest_ns, held_count, held_bytes, "
		     "held_ns, instance "
		     "from copies order by direction, bytes desc",
		"1|in devices|0|1|6|10|10|0|0|0|2\n1|to device|0|2|300|50|25|0|0|0|2\n1|to "
		"device|0|1|5|9|NULL|0|0|0|2\n"
		"1|to host|1|4|4000|40000|10000|4|4000|40000|2\n");
}

TEST_WITH(test_a_failed_copy_is_an_error, fixture_setup, fixture_teardown)
{
	struct probe copy = PROBE("copy_async", "", "cudaMemcpyAsync", OP_FIELD_BYTES, OP_FIELD_DIRECTION);

	call_made(&ranks_here[1], &copy,
		&(struct call_made){
			.start_ns = 20 * MS, .end_ns = 22 * MS, .result = (int64_t)0xdeadbeef00000001, WORDS(4096, 1)});
	flush();
	assert_query("select rank, op, bytes, result, stack from api_errors", "1|cudaMemcpyAsync|4096|1|NULL\n");
	assert_query("select count(*) from allocations", "0\n");
}

/* What a call that waits for the device returns at its end; its begin has no result, nor have other stages. */
TEST_WITH(test_a_failed_wait_is_an_error, fixture_setup, fixture_teardown)
{
	static const struct {
		uint16_t flags;
		int64_t result;
	} records[] = {{RT_CALL_BEGIN, 0}, {RT_CALL_END, 700},
		{RT_CALL_END | RT_CALL_RESULT, (int64_t)0xdeadbeef00000000}, {RT_CALL_END | RT_CALL_RESULT, 700}};
	const struct probe wait = {.name = "cudaStreamSynchronize", .stage = "sync", .edge = RT_EDGE_SPAN};

	for (size_t i = 0; i < ARRAY_SIZE(records); i++)
		call_errors_stage(&context, &ranks_here[1],
			&(struct call_record){&wait,
				&(struct rt_call_event){
					.event = {.kind = RT_KIND_CALL, .thread_id = 9, .flags = records[i].flags},
					.result = records[i].result},
				""});
	flush();
	assert_query("select rank, op, bytes, result, stack, thread_id from api_errors",
		"1|cudaStreamSynchronize|NULL|700|NULL|9\n");
}

TEST_MAIN(NULL, NULL)
