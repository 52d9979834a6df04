/* SPDX-License-Identifier: Apache-2.0 */
/* Who had a rank's CPUs: analyzers/detect/preemptors.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyzers/detect/preemptors.h"

#define OWN 100

static void who_took_most_is_named(void **state)
{
	struct preemptors preemptors = {0};
	const struct preemptor *most;

	(void)state;
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

/* Of who is not known, and of its own threads, the time counts, and nobody had it. */
static void one_among_many_is_none(void **state)
{
	struct preemptors preemptors = {0};

	(void)state;
	for (uint32_t pid = 1; pid <= 3; pid++)
		preemptors_add(&preemptors, OWN, pid, "one", 20);
	assert_non_null(preemptors_most(&preemptors)); /* a third */
	preemptors_add(&preemptors, OWN, 4, "one", 20);
	assert_null(preemptors_most(&preemptors));
	preemptors = (struct preemptors){0};
	preemptors_add(&preemptors, OWN, 1, "one", 20);
	assert_non_null(preemptors_most(&preemptors));
	preemptors_add(&preemptors, OWN, 0, "idle", 20);
	preemptors_add(&preemptors, OWN, OWN, "its own", 30);
	assert_null(preemptors_most(&preemptors));
	assert_int_equal(preemptors.waited_ns, 70);
}

/* A task that takes over a slot is charged only its own time. */
static void more_tasks_than_slots(void **state)
{
	struct preemptors preemptors = {0};

	(void)state;
	for (uint32_t pid = 1; pid <= 200; pid++)
		preemptors_add(&preemptors, OWN, pid, "small", 1);
	preemptors_add(&preemptors, OWN, 1000, "cpu", 150);
	preemptors_add(&preemptors, OWN, 1001, "small", 1);
	assert_non_null(preemptors_most(&preemptors));
	assert_int_equal(preemptors_most(&preemptors)->pid, 1000);
	assert_int_equal(preemptors_most(&preemptors)->ns, 150);
}

static void what_makes_no_sense_is_left_out(void **state)
{
	struct preemptors preemptors = {0};

	(void)state;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_took_most_is_named),
		cmocka_unit_test(one_among_many_is_none),
		cmocka_unit_test(more_tasks_than_slots),
		cmocka_unit_test(what_makes_no_sense_is_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
