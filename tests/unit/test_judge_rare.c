/* SPDX-License-Identifier: Apache-2.0 */
/* What all ranks do once in many steps, as evaluations: usual ones are no finding, slow ones are the job's. */
#define TEST_ALONE /* large tables: detection of leaks reads them in each run */
#include "tests/unit/judge_script.h"

#define RANKS 4

/* A step in which all ranks take `s` longer outside of all stages, rank 0 with a checkpoint of `saved` s, and 40 other steps. */
static void once(double s, double saved)
{
	script_once(ACTIVITY_OUTSIDE, s);
	script.once[0][ACTIVITY_OUTSIDE] -= saved;
	script.once[0][ACTIVITY_CHECKPOINT] = saved;
	script_step();
	for (int i = 0; i < 40; i++)
		script_step();
}

static void begin(void)
{
	script_begin(RANKS);
	script_run(20);
}

TEST(usual_evaluations_are_no_finding)
{
	begin();
	script.noise = 0.02;
	for (int i = 0; i < 60; i++)
		once(1 + 0.15 * script_draw(), 0);
	for (int i = 0; i < 60; i++)
		once(0.3 + 0.05 * script_draw(), 2 * MS);
	script_expect(0);
	script_end();
}

TEST(the_first_ones_are_usual)
{
	begin();
	once(4, 0);
	once(4, 0);
	script_expect(0);
	script_end();
}

/* Slow ones in a row, from the begin of the first to the end of the last, and for what they lost. */
TEST(slow_ones_are_the_jobs)
{
	/* Without a checkpoint; with one that is shorter than matters, and with one that is a step with a checkpoint. */
	static const double saved[] = {0, 2 * MS, 40 * MS};

	for (size_t i = 0; i < 3; i++) {
		const struct finding *f;
		double usual_lost;

		begin();
		for (int n = 0; n < 5; n++)
			once(0.3, saved[i]);
		script_expect(0);
		usual_lost = script.lost;
		for (int n = 0; n < 4; n++)
			once(1.5, saved[i]);
		f = &script_only(-1, ACTIVITY_OUTSIDE)->finding;
		assert_int_equal(f->kind, FINDING_SLOW_JOB);
		assert_int_equal(f->state, FINDING_OPEN);
		assert_int_equal(f->severity, SEVERITY_NOTICE);
		usual_lost = script.lost - usual_lost - 4 * 0.3;
		once(0.3, saved[i]);
		f = &script_only(-1, ACTIVITY_OUTSIDE)->finding;
		assert_int_equal(f->state, FINDING_CLOSED);
		assert_in_range(f->until_ns - f->since_ns, 18000000000, 19000000000);
		assert_true(script_cost() > 0.8 * usual_lost && script_cost() <= usual_lost);
		script_end();
	}
}

/* What comes with a checkpoint is compared with what came with others, however short these were; longer evaluations are another thing. */
TEST(what_comes_with_a_checkpoint_has_its_own_usual)
{
	begin();
	for (int n = 0; n < 5; n++) {
		once(2, 0);
		once(0.04, 2 * MS);
	}
	script_expect(0);
	for (int n = 0; n < 4; n++) {
		once(2, 0);
		once(1.2, 2 * MS);
	}
	script_only(-1, ACTIVITY_OUTSIDE);
	script_end();
}

/* One that is longer is none; one of 5 s is, as a step of a rank. */
TEST(one_slow_one_is_none_unless_it_is_long)
{
	for (int longer = 0; longer < 2; longer++) {
		begin();
		for (int n = 0; n < 5; n++)
			once(0.3, 0);
		once(longer ? 5.5 : 4, 0);
		once(0.3, 0);
		script_expect(longer);
		script_end();
	}
}

/* The steps of a slow rank are longer, too. */
TEST(beside_a_slow_rank_nothing_is_said_of_them)
{
	begin();
	for (int n = 0; n < 5; n++)
		once(0.3, 2 * MS);
	script.fault[1][ACTIVITY_DATALOADER] = 100 * MS;
	for (int n = 0; n < 4; n++)
		once(1, 2 * MS);
	script_only(1, ACTIVITY_DATALOADER);
	script_end();
}

/* What lasts becomes usual. */
TEST(long_ones_become_usual)
{
	begin();
	for (int n = 0; n < 5; n++)
		once(0.3, 0);
	for (int n = 0; n < 40; n++)
		once(1.5, 0);
	assert_int_equal(script_only(-1, ACTIVITY_OUTSIDE)->finding.state, FINDING_CLOSED);
	script_end();
}

TEST_MAIN(NULL, NULL)
