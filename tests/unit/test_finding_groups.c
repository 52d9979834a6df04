/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrences of findings: which episodes are one group, what it sums, and what it says; and advice by side. */
#include <string.h>

#include "analyzers/finding/finding_advice.h"
#include "analyzers/finding/finding_groups.h"
#include "tests/test.h"

#define SECOND 1000000000ULL

static struct finding_episode episode(
	int32_t rank, enum activity activity, uint64_t since_s, uint64_t until_s, double cost)
{
	return (struct finding_episode){.kind = FINDING_SLOW_RANK,
		.cause = CAUSE_UNKNOWN,
		.activity = activity,
		.rank = rank,
		.job = "llama",
		.since_ns = since_s * SECOND,
		.until_ns = until_s * SECOND,
		.cost_card_hours = cost};
}

TEST(test_groups)
{
	const struct finding_episode all[] = {
		episode(3, ACTIVITY_DATALOADER, 500, 560, 0.25),
		episode(1, ACTIVITY_DATALOADER, 300, 310, 0.1),
		episode(3, ACTIVITY_DATALOADER, 100, 130, 0.5),
		episode(3, ACTIVITY_OUTSIDE, 200, 210, 0.1),
		episode(3, ACTIVITY_DATALOADER, 900, 0, 0.05),
	};
	struct finding_group group[5];
	size_t order[5];
	char text[160];

	assert_int_equal(finding_groups_make(all, 5, 1000 * SECOND, order, group), 3);
	/* By their last begin: outside 200, rank 1 300, data loading 900. */
	assert_int_equal(order[group[0].first], 3);
	assert_int_equal(order[group[1].first], 1);
	assert_int_equal(group[2].count, 3);
	assert_int_equal(order[group[2].first], 2);
	assert_int_equal(order[group[2].first + 1], 0);
	assert_int_equal(order[group[2].first + 2], 4);
	assert_int_equal(group[2].worst, 2);
	assert_true(group[2].since_ns == 100 * SECOND && group[2].until_ns == 0);
	assert_true(group[2].lasted_ns == 190 * SECOND);
	assert_true(group[2].cost_card_hours > 0.799 && group[2].cost_card_hours < 0.801);
	assert_string_equal(finding_group_words(&group[2], "14:02", text, sizeof(text)),
		"recurred 2 times since 14:02, 3 min 10 s in all, 0.8 card-hours");
	assert_string_equal(finding_group_words(&group[0], "14:02", text, sizeof(text)), "");
	assert_int_equal(finding_groups_make(all, 0, 0, order, group), 0);
}

/* Of those without a cost, as leaks, the newest says how it is now. */
TEST(of_equals_the_newest_is_shown)
{
	const struct finding_episode all[] = {
		episode(3, ACTIVITY_MAX, 500, 0, 0), episode(3, ACTIVITY_MAX, 100, 130, 0)};
	struct finding_group group[2];
	size_t order[2];

	assert_int_equal(finding_groups_make(all, 2, 1000 * SECOND, order, group), 1);
	assert_int_equal(group[0].worst, 0);
}

/* What is the same fault, and what is not. */
TEST(test_key)
{
	struct finding_episode a = episode(3, ACTIVITY_MAX, 1, 2, 0), b = a;

	assert_true(finding_episode_recurs(&a, &b));
	b.cause = CAUSE_PREEMPTION;
	assert_false(finding_episode_recurs(&a, &b));
	/* Older stores have no activity: the cause stands for it. */
	a.activity = ACTIVITY_DATALOADER;
	b.cause = CAUSE_DATALOADER;
	assert_true(finding_episode_recurs(&a, &b));
	b.job = NULL;
	assert_false(finding_episode_recurs(&a, &b));
	b = a;
	b.uid = a.uid + 1;
	assert_false(finding_episode_recurs(&a, &b));
	b = a;
	b.where = "x";
	assert_true(finding_episode_recurs(&a, &b));
	a.kind = b.kind = FINDING_SLOW_COMMUNICATION;
	assert_false(finding_episode_recurs(&a, &b));
	assert_true(finding_is_short(FINDING_SLOW_RANK, SEVERITY_INFO));
	assert_false(finding_is_short(FINDING_SLOW_RANK, SEVERITY_NOTICE));
	assert_false(finding_is_short(FINDING_HANG, SEVERITY_INFO));
	assert_false(finding_is_short(FINDING_IMBALANCE, SEVERITY_INFO));
}

/* A late host is never sent to the card's clocks. */
TEST(test_advice)
{
	for (enum activity activity = 0; activity <= ACTIVITY_MAX; activity++)
		for (enum finding_cause cause = 0; cause < CAUSE_MAX; cause++) {
			assert_true(finding_advice(cause, activity, FINDING_SIDE_HOST)[0]);
			assert_null(strstr(finding_advice(cause, activity, FINDING_SIDE_HOST), "clocks"));
			assert_false(finding_blames_card(cause, activity, FINDING_SIDE_HOST));
		}
	assert_non_null(strstr(finding_advice(CAUSE_COMPUTE, ACTIVITY_FORWARD, FINDING_SIDE_CARD), "clocks"));
	assert_true(finding_blames_card(CAUSE_COMPUTE, ACTIVITY_FORWARD, FINDING_SIDE_CARD));
	assert_true(finding_blames_card(CAUSE_COMPUTE, ACTIVITY_MAX, FINDING_SIDE_UNKNOWN));
	assert_false(finding_blames_card(CAUSE_COMPUTE, ACTIVITY_OUTSIDE, FINDING_SIDE_UNKNOWN));
	assert_string_equal(finding_advice(CAUSE_UNKNOWN, ACTIVITY_DATALOADER, FINDING_SIDE_HOST),
		finding_cause_advice(CAUSE_DATALOADER));
	/* A cause that names who does it says more than the activity. */
	assert_string_equal(finding_advice(CAUSE_PREEMPTION, ACTIVITY_DATALOADER, FINDING_SIDE_HOST),
		finding_cause_advice(CAUSE_PREEMPTION));
}

TEST_MAIN(NULL, NULL)
