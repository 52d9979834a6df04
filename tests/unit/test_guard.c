/* SPDX-License-Identifier: Apache-2.0 */
/* What hits cost by the model, and what part of the time the plan gives levels. */
#include <math.h>
#include <string.h>

#include "daemon/guard/guard_internal.h"

#include "tests/test.h"

#define NEAR(a, b) assert_true(fabs((double)(a) - (double)(b)) < 1e-9 * (1 + fabs((double)(b))))

static const struct guard_model model = {
	.hot_ns = {400, 12000, 700, 50},
	.cold_ns = {4000, 120000, 7000, 500},
	.spread = 0.05,
	.find_hot_ns = 20,
	.find_cold_ns = 220,
};

static struct guard_cost cost_of(enum rt_cost_kind kind, struct rt_cost counts)
{
	struct guard_cost sum = {0};

	guard_model_add(&model, kind, &counts, &sum);
	return sum;
}

TEST(a_calibrated_hit_is_the_median_of_what_it_adds)
{
	/* Timed hits take 300 ns in the program, 50 of them to find the piece; others take the CPU in the second
	 * round. */
	const struct guard_round round[] = {
		{100, 5500, {16, 16, 16 * 300, 16 * 50}}, {100, 90000, {16, 16, 16 * 700, 16 * 90}},
		{100, 5400, {16, 16, 16 * 300, 16 * 50}}, {100, 5600, {16, 16, 16 * 300, 16 * 60}},
		{9000, 5500, {16, 16, 16 * 300, 16 * 40}}, /* the call alone was held: a hit costs nothing at least */
	};
	const struct guard_round untimed = {100, 5500, {16, 0, 0, 0}};
	struct guard_outside outside;

	assert_int_equal(guard_model_outside(round, ARRAY_SIZE(round), &outside), 0);
	NEAR(outside.ns, 5100);
	NEAR(outside.find_ns, 50);
	NEAR(outside.spread, 1.4826 * 100 / 5100);
	assert_int_equal(guard_model_outside(&untimed, 1, &outside), -ENODATA);
}

TEST(cold_caches_lengthen_all_kinds_alike)
{
	const struct guard_outside warm[RT_COST_KINDS] = {
		{400, 20, 0.01}, {12000, 30, 0.02}, {700, 20, 0.08}, {50, 20, 0.03}};
	const struct guard_outside cold = {4000, 220, 0.05}, warmer = {300, 15, 0.01};
	struct guard_model filled;

	guard_model_fill(warm, &cold, &filled);
	for (enum rt_cost_kind kind = 0; kind < RT_COST_KINDS; kind++) {
		NEAR(filled.hot_ns[kind], warm[kind].ns);
		NEAR(filled.cold_ns[kind], 10 * warm[kind].ns);
	}
	NEAR(filled.find_hot_ns, 20);
	NEAR(filled.find_cold_ns, 220);
	NEAR(filled.spread, 0.08);
	guard_model_fill(warm, &warmer, &filled); /* noise */
	NEAR(filled.cold_ns[RT_COST_EMULATED], 400);
}

TEST(warm_and_cold_hits_cost_what_was_calibrated)
{
	struct guard_cost warm = cost_of(RT_COST_EMULATED, (struct rt_cost){1000, 100, 100 * 300, 100 * 20});
	struct guard_cost cold = cost_of(RT_COST_EMULATED, (struct rt_cost){1000, 100, 100 * 900, 100 * 220});
	struct guard_cost half = cost_of(RT_COST_STEPPED, (struct rt_cost){10, 100, 0, 100 * 120});

	assert_int_equal(warm.hits, 1000);
	NEAR(warm.ns, 1000 * (300 + 400.0));
	NEAR(cold.ns, 1000 * (900 + 4000.0));
	NEAR(half.ns, 10 * 66000.0);
}

TEST(colder_than_calibrated_counts_as_cold)
{
	NEAR(cost_of(RT_COST_EMULATED, (struct rt_cost){1, 1, 0, 100000}).ns, 4000);
	NEAR(cost_of(RT_COST_EMULATED, (struct rt_cost){1, 1, 0, 0}).ns, 400);
}

TEST(bounds_contain_the_estimate_and_narrow_with_timed_hits)
{
	struct guard_cost few = cost_of(RT_COST_EMULATED, (struct rt_cost){100, 4, 4 * 300, 4 * 120});
	struct guard_cost many = cost_of(RT_COST_EMULATED, (struct rt_cost){100, 10000, 10000 * 300, 10000 * 120});
	struct guard_cost none = cost_of(RT_COST_EMULATED, (struct rt_cost){100, 0, 0, 0});

	NEAR(few.ns, many.ns);
	assert_true(few.low_ns < many.low_ns && many.low_ns < many.ns);
	assert_true(few.high_ns > many.high_ns && many.high_ns > many.ns);
	/* Nothing timed: all between warm and cold. */
	NEAR(none.low_ns, 100 * 400 * 0.9);
	NEAR(none.high_ns, 100 * 4000 * 1.1);
}

TEST(hits_of_several_kinds_add_up)
{
	struct guard_cost sum = {0};

	guard_model_add(&model, RT_COST_EMULATED, &(struct rt_cost){10, 10, 0, 200}, &sum);
	guard_model_add(&model, RT_COST_TRACEPOINT, &(struct rt_cost){20, 20, 20 * 100, 400}, &sum);
	assert_int_equal(sum.hits, 30);
	NEAR(sum.ns, 10 * 400 + 20 * 150);
}

/* Levels that are on and may be sampled, but L0. */
static void plan(double rank_share, double own_cpus, const double share[LEVEL_MAX], const double before[LEVEL_MAX],
	double ret[LEVEL_MAX])
{
	const struct guard_limits limits = {rank_share, own_cpus, 0.01};
	struct guard_need need[LEVEL_MAX] = {0};

	for (enum level level = 0; level < LEVEL_MAX; level++)
		need[level] = (struct guard_need){.on = share[level] > 0,
			.sampled = level != LEVEL_L0,
			.share = share[level],
			.own_cpus = share[level] / 10};
	guard_plan(&limits, need, before, ret);
}

static const double always[LEVEL_MAX] = {1, 1, 1, 1, 1};

TEST(within_the_budget_all_are_on)
{
	double duty[LEVEL_MAX];

	plan(0.005, 1, (double[LEVEL_MAX]){0.001, 0.001, 0.001, 0.001}, always, duty);
	for (enum level level = 0; level < LEVEL_MAX; level++)
		NEAR(duty[level], 1);
}

TEST(over_the_budget_the_least_useful_goes_first)
{
	double duty[LEVEL_MAX];

	plan(0.005, 1, (double[LEVEL_MAX]){0.001, 0.002, 0.010, 0.001}, always, duty);
	NEAR(duty[LEVEL_L0], 1);
	NEAR(duty[LEVEL_L1], 1);
	NEAR(duty[LEVEL_L3], 1);
	NEAR(duty[LEVEL_L2], 0.1);
	plan(0.005, 1, (double[LEVEL_MAX]){0.001, 0.008, 0.010, 0.001}, always, duty);
	NEAR(duty[LEVEL_L1], 0.5);
	NEAR(duty[LEVEL_L3], GUARD_DUTY_MIN);
	NEAR(duty[LEVEL_L2], GUARD_DUTY_MIN);
}

/* Of ranks whose steps can be counted by their backwards, which cost a tenth. */
static void plan_l0(double l0, double l1, double before, double duty[LEVEL_MAX])
{
	const struct guard_limits limits = {0.005, 1, 1};
	const struct guard_need need[LEVEL_MAX] = {
		[LEVEL_L0] = {.on = true, .sampled = true, .share = l0, .between = before < 1 ? l0 / 10 : 0},
		[LEVEL_L1] = {.on = l1 > 0, .sampled = true, .share = l1},
		[LEVEL_L2] = {.on = l1 > 0, .sampled = true, .share = l1},
	};
	const double was[LEVEL_MAX] = {before, 1, 1, 1, 1};

	guard_plan(&limits, need, was, duty);
}

TEST(l0_goes_last)
{
	double duty[LEVEL_MAX];

	plan_l0(0.004, 0.010, 1, duty); /* within the budget alone */
	NEAR(duty[LEVEL_L0], 1);
	NEAR(duty[LEVEL_L1], 0.1);
	NEAR(duty[LEVEL_L2], GUARD_DUTY_MIN);
	plan_l0(0.010, 0.010, 1, duty); /* what the rest costs is not known yet */
	NEAR(duty[LEVEL_L0], 0.5);
	NEAR(duty[LEVEL_L1], GUARD_DUTY_MIN);
	/* 0.1 % are paid between windows, too: of the 0.4 % that are left windows cost 0.9 %. */
	plan_l0(0.010, 0.010, 0.5, duty);
	NEAR(duty[LEVEL_L0], 4.0 / 9);
	NEAR(duty[LEVEL_L1], GUARD_DUTY_MIN);
	plan_l0(0.060, 0, 0.1, duty); /* even those exceed it */
	NEAR(duty[LEVEL_L0], GUARD_DUTY_MIN);
	/* It returns only well within the budget. */
	plan_l0(0.0045, 0, 0.5, duty);
	NEAR(duty[LEVEL_L0], 0.8);
	plan_l0(0.0038, 0, 0.5, duty);
	NEAR(duty[LEVEL_L0], 1);
}

TEST(what_is_paid_in_and_between_windows_adds_up)
{
	const struct guard_share on = {0.010, 0.008, 0.012, 1000, true}, between = {0.001, 0.0008, 0.0012, 100, true};
	struct guard_share all = guard_share_of(&on, &between, 0.25);

	NEAR(all.share, 0.00325);
	NEAR(all.low, 0.0026);
	NEAR(all.high, 0.0039);
	NEAR(all.hits_per_s, 325);
	assert_true(all.known);
}

/* Held windows exceed the budget: for 6 minutes at once, and a tenth of the time in the long run. */
TEST(suspicions_hold_l0_open_for_a_bounded_time)
{
	struct guard_hold hold = {0};
	uint64_t now_ns = NSEC_PER_SEC, held = 0;

	assert_false(guard_hold_turn(&hold, 0, false, now_ns));
	now_ns += NSEC_PER_SEC;
	assert_true(guard_hold_turn(&hold, now_ns, false, now_ns)); /* at once */
	assert_true(guard_hold_turn(&hold, now_ns, true, now_ns + GUARD_HOLD_NS - 1));
	assert_false(guard_hold_turn(&hold, now_ns, true, now_ns + GUARD_HOLD_NS));
	hold = (struct guard_hold){0};
	for (uint64_t s = 0; s < 7200; s++) { /* one that does not end */
		bool was = s > 0 && held > 0 && hold.left_ns > 0;

		now_ns += NSEC_PER_SEC;
		held += guard_hold_turn(&hold, now_ns, was || s == 0, now_ns);
		if (s == 390)
			assert_true(held > 385);
		if (s == 410)
			assert_true(held < 405);
	}
	assert_true(held < 7200 / 10 + 400 && held > 7200 / 10 + 300);
	/* Where nothing is suspected, it comes back. */
	for (uint64_t s = 0; s < 3700; s++)
		assert_false(guard_hold_turn(&hold, 1, false, now_ns += NSEC_PER_SEC));
	NEAR(hold.left_ns, (double)GUARD_HELD_NS);
}

TEST(step_boundaries_are_kept_when_they_alone_are_over_the_budget)
{
	double duty[LEVEL_MAX];

	plan(0.005, 1, (double[LEVEL_MAX]){0.020, 0.001}, always, duty);
	NEAR(duty[LEVEL_L0], 1);
	NEAR(duty[LEVEL_L1], GUARD_DUTY_MIN);
}

TEST(the_daemons_own_budget_counts_too)
{
	double duty[LEVEL_MAX];

	plan(1, 0.001, (double[LEVEL_MAX]){0, 0.02}, always, duty); /* 0.2 % of a CPU where 0.1 % is left */
	NEAR(duty[LEVEL_L1], 0.5);
}

/* The daemon, or L0, is over the budget: a level that costs a tenth of the budget, or less, remains on. */
TEST(what_costs_little_is_on_all_the_time)
{
	static const struct {
		double share; /* of which a tenth is the daemon's, of 0.01 */
		bool on;
	} cases[] = {{0.0005, true}, {0.0095, true}, {0.0105, false}};
	double duty[LEVEL_MAX];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		plan(1, -0.01, (double[LEVEL_MAX]){0, 0, cases[i].share}, always, duty);
		NEAR(duty[LEVEL_L2], cases[i].on ? 1 : GUARD_DUTY_MIN);
	}
	plan(0.005, 1, (double[LEVEL_MAX]){0.020, 0.00045, 0.00055}, always, duty);
	NEAR(duty[LEVEL_L1], 1);
	NEAR(duty[LEVEL_L2], GUARD_DUTY_MIN);
}

TEST(it_returns_only_well_within_the_budget)
{
	double duty[LEVEL_MAX], windows[LEVEL_MAX] = {1, 0.5, 1, 1, 1};

	plan(0.005, 1, (double[LEVEL_MAX]){0, 0.0045}, windows, duty);
	NEAR(duty[LEVEL_L1], 0.8);
	plan(0.005, 1, (double[LEVEL_MAX]){0, 0.0045}, always, duty);
	NEAR(duty[LEVEL_L1], 1);
	plan(0.005, 1, (double[LEVEL_MAX]){0, 0.003}, windows, duty);
	NEAR(duty[LEVEL_L1], 1);
}

static struct guard_excess excess_of(double l0, double l0_low, double l1, bool before)
{
	const struct guard_share share[GUARD_LEVELS] = {{.share = l0, .low = l0_low, .known = true},
		{.share = l1 / 2, .low = l1 / 2, .known = true}, {.share = 1, .low = 1}};
	struct guard_excess excess;

	guard_excess(0.005, share, before, &excess);
	return excess;
}

TEST(what_surely_exceeds_the_budget_is_over_it)
{
	struct guard_excess excess = excess_of(0.008, 0.006, 0.002, false);

	assert_true(excess.over);
	assert_string_equal(excess.part, "L0");
	NEAR(excess.share, 0.009);
	NEAR(excess.part_share, 0.008);
	assert_false(excess_of(0.008, 0.003, 0.002, false).over); /* it may be less */
	assert_string_equal(excess_of(0.001, 0.001, 0.020, false).part, "L1");
	/* It ends well within the budget. */
	assert_true(excess_of(0.0045, 0.0045, 0, true).over);
	assert_false(excess_of(0.0045, 0.0045, 0, false).over);
	assert_false(excess_of(0.0039, 0.0039, 0, true).over);
}

TEST(the_daemon_beyond_its_budget_names_the_part_that_takes_most)
{
	struct guard_excess excess;

	guard_excess_own(0.01, 0.019, false, &excess);
	guard_excess_part(&excess, "L0", 0.004);
	guard_excess_part(&excess, "L3", 0.008);
	guard_excess_part(&excess, "nvml", 0.005);
	assert_true(excess.over);
	assert_string_equal(excess.part, "L3");
	NEAR(excess.share, 0.019);
	NEAR(excess.part_share, 0.008);
	/* Gauges do not belong to a level. */
	guard_excess_part(&excess, "nvml", 0.01);
	assert_string_equal(excess.part, "nvml");
	guard_excess_own(0.01, 0.0099, false, &excess);
	assert_false(excess.over);
	guard_excess_own(0.01, 0.0099, true, &excess); /* it ends well within */
	assert_true(excess.over);
	guard_excess_memory(128, 129, false, &excess);
	assert_true(excess.over);
	NEAR(excess.share, 129);
	guard_excess_memory(128, 127, false, &excess);
	assert_false(excess.over);
	guard_excess_memory(128, 113, true, &excess); /* an eighth below */
	assert_true(excess.over);
	guard_excess_memory(128, 111, true, &excess);
	assert_false(excess.over);
}

TEST(an_excess_is_raised_once_and_ends)
{
	const struct guard_excess over = {true, "L0", 0.009, 0.008, 0}, less = {true, "L1", 0.004, 0.003, 0},
				  within = {0};
	struct guard_turn of = {0};
	uint64_t start_ns = NSEC_PER_SEC;

	assert_int_equal(guard_excess_turn(&of, &over, false, GUARD_EXCESS_NS, start_ns), 0); /* short ones are none */
	assert_int_equal(guard_excess_turn(&of, &within, false, GUARD_EXCESS_NS, start_ns + 1), 0);
	assert_int_equal(guard_excess_turn(&of, &over, false, GUARD_EXCESS_NS, start_ns + 2), 0);
	assert_int_equal(guard_excess_turn(&of, &over, false, GUARD_EXCESS_NS, start_ns + 1 + GUARD_EXCESS_NS), 0);
	assert_int_equal(guard_excess_turn(&of, &over, true, GUARD_EXCESS_NS, start_ns + 2 + GUARD_EXCESS_NS),
		0); /* that of another rank is open */
	assert_int_equal(guard_excess_turn(&of, &over, false, GUARD_EXCESS_NS, start_ns + 2 + GUARD_EXCESS_NS), 1);
	of.finding.number = 1;
	/* It goes on within the budget for a while: the sentence says the most. */
	assert_int_equal(guard_excess_turn(&of, &less, true, GUARD_EXCESS_NS, start_ns + 3 + GUARD_EXCESS_NS), 0);
	assert_int_equal(guard_excess_turn(&of, &within, true, GUARD_EXCESS_NS, start_ns + 4 + GUARD_EXCESS_NS), -1);
	NEAR(of.excess.share, 0.009); /* what its end says is the excess, not what is within the budget */
	assert_int_equal(of.excess.since_ns, start_ns + 2);
}

TEST(what_somebody_asked_for_is_on_and_takes_its_part)
{
	const struct guard_limits limits = {0.005, 1, 1};
	struct guard_need need[LEVEL_MAX] = {[LEVEL_L0] = {.on = true, .share = 0.001},
		[LEVEL_L1] = {.on = true, .sampled = true, .share = 0.002},
		[LEVEL_L3] = {.on = true, .share = 0.003}};
	double duty[LEVEL_MAX];

	guard_plan(&limits, need, always, duty);
	NEAR(duty[LEVEL_L3], 1);
	NEAR(duty[LEVEL_L1], 0.5);
}

static cpu_set_t cpus(unsigned first, unsigned end)
{
	cpu_set_t ret;

	CPU_ZERO(&ret);
	for (unsigned cpu = first; cpu < end; cpu++)
		CPU_SET(cpu, &ret);
	return ret;
}

/* CPUs left by ranks on [0, a) and [a, b), of 8. */
static int left(unsigned a, unsigned b)
{
	cpu_set_t own = cpus(0, 8), first = cpus(0, a), second = cpus(a, b), taken, ret;

	CPU_ZERO(&taken);
	guard_cpus_add(&own, &first, &taken);
	guard_cpus_add(&own, &second, &taken);
	guard_cpus_left(&own, &taken, &ret);
	CPU_AND(&taken, &taken, &ret);
	assert_true(CPU_COUNT(&taken) == 0 || CPU_COUNT(&ret) == 8);
	return CPU_COUNT(&ret);
}

TEST(the_daemon_leaves_the_cpus_of_pinned_ranks)
{
	assert_int_equal(left(2, 4), 4);
	assert_int_equal(left(1, 1), 7);
	/* A user who pins ranks to more than half does not choose where it runs. */
	assert_int_equal(left(3, 5), 8);
	assert_int_equal(left(4, 8), 8);
	/* A rank that may use all CPUs is not pinned. */
	assert_int_equal(left(8, 9), 8);
}

/* CPUs that the daemon may not use are no reason to move. */
TEST(other_cpus_are_not_the_daemons)
{
	cpu_set_t own = cpus(0, 4), rank = cpus(2, 16), taken, ret;

	CPU_ZERO(&taken);
	guard_cpus_add(&own, &rank, &taken);
	guard_cpus_left(&own, &taken, &ret);
	assert_int_equal(CPU_COUNT(&ret), 2);
	assert_true(CPU_ISSET(0, &ret) && CPU_ISSET(1, &ret));
}

TEST_MAIN(NULL, NULL)
