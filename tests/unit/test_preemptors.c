/* SPDX-License-Identifier: Apache-2.0 */
/* What preempts a rank: analyzers/detect/preemptors.h. */
#include "analyzers/detect/preemptors.h"

#include "tests/test.h"

#define OWN 100

TEST(who_took_most_is_named)
{
	struct preemptors preemptors = {0};
	const struct preemptor *most;

	assert_null(preemptors_most(&preemptors));
	preemptors_add(&preemptors, OWN, 77, "stress-ng", 30);
	preemptors_add(&preemptors, OWN, 78, "of a name that is too long", 20);
	preemptors_add(&preemptors, OWN, 78, "of a name that is too long", 20);
	preemptors_add(&preemptors, OWN, 0, "idle", 10);
	most = preemptors_most(&preemptors);
	assert_non_null(most);
	assert_int_equal(most->pid, 78);
	assert_int_equal(most->ns, 40);
	assert_string_equal(most->name, "of a name that ");
	assert_int_equal(preemptors.waited_ns, 80);
}

/* Of who is not known the time counts, and nobody had it. The rank's own threads are named as such. */
TEST(one_among_many_is_none)
{
	struct preemptors preemptors = {0};

	for (uint32_t pid = 1; pid <= 3; pid++)
		preemptors_add(&preemptors, OWN, pid, "one", 20);
	assert_non_null(preemptors_most(&preemptors)); /* a third */
	preemptors_add(&preemptors, OWN, 4, "one", 20);
	assert_null(preemptors_most(&preemptors));
	preemptors = (struct preemptors){0};
	preemptors_add(&preemptors, OWN, 1, "one", 20);
	assert_non_null(preemptors_most(&preemptors));
	preemptors_add(&preemptors, OWN, 0, "idle", 50);
	assert_null(preemptors_most(&preemptors));
	preemptors_add(&preemptors, OWN, OWN, "python3", 35);
	assert_string_equal(preemptors_most(&preemptors)->name, "its own threads");
	assert_int_equal(preemptors.waited_ns, 105);
}

/* A task that takes over a slot is charged only its own time. */
TEST(more_tasks_than_slots)
{
	struct preemptors preemptors = {0};

	for (uint32_t pid = 1; pid <= 200; pid++)
		preemptors_add(&preemptors, OWN, pid, "small", 1);
	preemptors_add(&preemptors, OWN, 1000, "cpu", 150);
	preemptors_add(&preemptors, OWN, 1001, "small", 1);
	assert_non_null(preemptors_most(&preemptors));
	assert_int_equal(preemptors_most(&preemptors)->pid, 1000);
	assert_int_equal(preemptors_most(&preemptors)->ns, 150);
}

TEST(what_makes_no_sense_is_left_out)
{
	struct preemptors preemptors = {0};

	preemptors_add(&preemptors, OWN, 1, NULL, 5);
	preemptors_add(&preemptors, OWN, 1, "", 0);
	preemptors_add(&preemptors, OWN, 2, "much", UINT64_MAX);
	assert_int_equal(preemptors.waited_ns, 5);
	assert_int_equal(preemptors_most(&preemptors)->pid, 1);
	assert_string_equal(preemptors_most(&preemptors)->name, "");
	preemptors_add(&preemptors, OWN, 2, "much", UINT64_MAX - 5);
	assert_int_equal(preemptors_most(&preemptors)->pid, 2);
	preemptors_add(&preemptors, OWN, 1, "", 1);
	assert_int_equal(preemptors.waited_ns, UINT64_MAX);
}

TEST_MAIN(NULL, NULL)
