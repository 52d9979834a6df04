/* SPDX-License-Identifier: Apache-2.0 */
/* Why a whole job is slow, against its past; and records that cannot be. */
#include "tests/unit/cause_script.h"

/* Of the job: all ranks slower than before. */
static enum finding_cause job(inject_fn *inject, uint64_t transfer_ns, enum frame_tier tier)
{
	frame.tier = tier;
	frame.groups = measures.groups = tier == FRAME_TIER_STAGES ? 0 : 1;
	frame_group.members = RANKS;
	for (int i = 0; i < 120; i++) {
		quiet();
		group.transfer_ns = about(20 * MS);
		for (size_t r = 0; i >= 100 && r < RANKS; r++)
			inject(&ranks[r]);
		if (i >= 100)
			group.transfer_ns += transfer_ns;
		feed();
	}
	cause_of_job(cause, 101, 60e6, &finding);
	return finding.cause;
}

static void nothing(struct frame_rank *rank)
{
	(void)rank;
}

static void slower_both_ways(struct frame_rank *rank)
{
	rank->stage_ns[STAGE_FORWARD] += 20 * MS;
	rank->stage_ns[STAGE_BACKWARD] = 181 * MS;
}

static void slower_backward(struct frame_rank *rank)
{
	rank->stage_ns[STAGE_BACKWARD] = 199 * MS;
}

static void causes_of_a_job(void **state)
{
	static const struct {
		inject_fn *inject;
		uint64_t transfer_ns;
		enum frame_tier tier;
		enum finding_cause cause;
	} rows[] = {
		{loads, 0, FRAME_TIER_STAGES, CAUSE_DATALOADER}, {loads, 0, FRAME_TIER_HOST, CAUSE_DATALOADER},
		{loads_throttled, 0, FRAME_TIER_HOST, CAUSE_THROTTLING},
		{is_throttled, 0, FRAME_TIER_HOST, CAUSE_THROTTLING}, {saves, 0, FRAME_TIER_HOST, CAUSE_CHECKPOINT},
		{nothing, 60 * MS, FRAME_TIER_HOST, CAUSE_COMMUNICATION}, {computes, 0, FRAME_TIER_HOST, CAUSE_COMPUTE},
		{slower_both_ways, 0, FRAME_TIER_STAGES, CAUSE_COMPUTE},
		{slower_backward, 0, FRAME_TIER_STAGES, CAUSE_UNKNOWN}, /* needs L1 */
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		enum finding_cause got;

		end(state);
		begin(state);
		got = job(rows[i].inject, rows[i].transfer_ns, rows[i].tier);
		if (got != rows[i].cause)
			fail_msg("row %zu: %s", i, finding_cause_word(got));
	}
}

static void one_rank_that_loads_slowly_makes_all_wait(void **state)
{
	(void)state;
	for (int i = 0; i < 120; i++) {
		quiet();
		if (i >= 100)
			loads(&ranks[i % RANKS]); /* another one each step */
		feed();
	}
	cause_of_job(cause, 101, 60e6, &finding);
	assert_int_equal(finding.cause, CAUSE_DATALOADER);
}

static void what_cannot_be_is_no_harm(void **state)
{
	(void)state;
	cause_of(cause, 0, 1e6, &finding);
	cause_of_job(cause, 0, 1e6, &finding);
	assert_int_equal(finding.cause, CAUSE_UNKNOWN);
	for (int i = 0; i < 300; i++) {
		quiet();
		frame.ranks = i % 3 == 0 ? 0 : i % (RANKS + 1);
		frame.class = (enum frame_class)(i % 7 == 6 ? 99 : i % FRAME_CLASS_MAX);
		measures.ranks = i % 5;
		measures.groups = frame.groups = 1;
		group.transfer_ns = UINT64_MAX - 1;
		for (size_t r = 0; r < RANKS; r++) {
			memset(ranks[r].stage_ns, i % 2 ? 0xff : 0x7f, sizeof(ranks[r].stage_ns));
			ranks[r].host.cpu_ns = i % 4 ? UINT64_MAX - 1 : 0;
			ranks[r].host.major_faults = UINT64_MAX - 1;
			ranks[r].step_ns = i % 11 ? UINT64_MAX : 0;
			ranks[r].here = i % 13 != 0;
			measured[r].class = i % 2 ? 4000000000U : 0;
			memset(ranks[r].host.preemptor_name, 'x', 16);
			ranks[r].host.preemptor_pid = 1;
		}
		frame.step -= 3;
		feed();
		memset(&finding, 0, sizeof(finding));
		cause_of(cause, (uint32_t)i, i % 2 ? 1e18 : 5e6, &finding);
		cause_of_job(cause, (uint64_t)i, i % 3 ? 1e300 : NAN, &finding);
		cause_frame(cause, &frame, NULL);
	}
	cause_of(cause, UINT32_MAX, 1, &finding);
	cause_of(cause, 0, NAN, &finding);
	cause_of(cause, 0, -1, &finding);
	assert_int_equal(finding.cause, CAUSE_UNKNOWN);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(causes_of_a_job),
		T(one_rank_that_loads_slowly_makes_all_wait),
		T(what_cannot_be_is_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
