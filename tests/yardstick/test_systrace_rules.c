/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the yardstick with numbers derived from the description of sysTrace's rules, by hand and in closed form. */
#include <string.h>

#include "tests/yardstick/systrace_rules.h"

#include <math.h>
#include <stdlib.h>

#include "tests/test.h"

static const double base[] = {1000, 1010, 990, 1005, 995, 1000, 1010, 990, 1005, 995};

/* Bits of the steps found after ten baseline steps. */
static unsigned found_after(const struct systrace_steps *rule, const double *more, size_t n)
{
	double ms[64];
	bool slow[64];
	unsigned bits = 0;

	memcpy(ms, base, sizeof(base));
	memcpy(ms + 10, more, n * sizeof(*more));
	systrace_steps(rule, ms, 10 + n, slow);
	for (size_t i = 0; i < 10; i++)
		assert_false(slow[i]);
	for (size_t i = 0; i < n; i++)
		bits |= (unsigned)slow[10 + i] << i;
	return bits;
}

TEST(steps)
{
	static const double spike[] = {1500, 1000, 1000}, last[] = {1500}, two[] = {1500, 1500, 1000},
			    lasting[] = {1500, 1500, 1500, 1500, 1500, 1500, 1500, 1500}, small[] = {1150, 1150, 1150},
			    weak[] = {1500, 1025, 1000};
	const struct systrace_steps *rule = &systrace_steps_config;

	assert_int_equal(found_after(rule, spike, 3), 0);
	assert_int_equal(found_after(rule, last, 1), 0);
	assert_int_equal(found_after(rule, two, 3), 1);
	assert_int_equal(found_after(rule, lasting, 8), 3); /* the onset and one more, then it is the baseline */
	assert_int_equal(found_after(rule, small, 3), 0);
	assert_int_equal(found_after(rule, weak, 3), 1); /* the confirmation that confirms 2.5 % */
}

TEST(times)
{
	static const double first[] = {3.0, 3.1, 2.9, 3.05, 2.95, 3.0, 3.1, 2.9, 3.05, 2.95};
	double value[40];
	bool label[40];

	/* Of ten: 3 +- 0.061237 without the largest and the smallest, so the bound is 3.569444. */
	for (size_t i = 0; i < 40; i++)
		value[i] = first[i % 10];
	value[10] = 3.5694;
	systrace_time(&systrace_metrics[0], value, 40, label);
	assert_false(label[10]);
	value[10] = 3.5695;
	systrace_time(&systrace_metrics[0], value, 40, label);
	assert_true(label[10]);
	assert_false(label[11]);
	/* All the same: 3.30044. */
	for (size_t i = 0; i < 40; i++)
		value[i] = 3;
	value[39] = 3.3004;
	systrace_time(&systrace_metrics[0], value, 40, label);
	assert_false(label[39]);
	value[39] = 3.3005;
	systrace_time(&systrace_metrics[0], value, 40, label);
	assert_true(label[39]);
}

TEST(runs)
{
	bool label[] = {1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 0, 1};

	systrace_filter(label, sizeof(label), 1, 5);
	for (size_t i = 0; i < sizeof(label); i++)
		assert_int_equal(label[i], i >= 5 && i < 10);
}

/* One rank off by delta among equal ones is detected from eps sqrt(window / ranks) on, in either direction. */
static size_t detected(const struct systrace_metric *metric, size_t ranks, double delta, size_t who)
{
	double *value = calloc(metric->window * ranks, sizeof(*value));
	bool *label = calloc(metric->window * ranks, sizeof(*label));
	size_t n = 0;

	for (size_t i = 0; i < metric->window * ranks; i++)
		value[i] = 5 + (i % ranks == who ? delta : 0);
	assert_true(systrace_space(metric, value, metric->window, ranks, label));
	for (size_t i = 0; i < metric->window * ranks; i++) {
		if (i % ranks == who)
			n += label[i];
		else
			assert_false(label[i]);
	}
	free(value);
	free(label);
	return n;
}

TEST(spaces)
{
	static const size_t sizes[] = {4, 8, 16};
	bool label[3 * 22];
	double value[3 * 22] = {0};

	for (size_t m = 0; m < 3; m += 2) {
		const struct systrace_metric *metric = &systrace_metrics[m];

		for (size_t i = 0; i < 3; i++) {
			double least = metric->eps * sqrt((double)metric->window / (double)sizes[i]);

			assert_int_equal(detected(metric, sizes[i], least * 1.01, sizes[i] - 1), metric->window);
			assert_int_equal(detected(metric, sizes[i], least * 0.99, 1), 0);
			assert_int_equal(detected(metric, sizes[i], -least * 1.01, 0), metric->window);
		}
	}
	assert_false(systrace_space(&systrace_metrics[0], value, 22, 3, label));
	assert_false(systrace_space(&systrace_metrics[0], value, 10, 4, label));
}

TEST(whole)
{
	enum { RANKS = 8, OPS = 1500 };
	static struct systrace_op op[RANKS][OPS];
	const struct systrace_op *of[RANKS];
	size_t ops[RANKS];
	bool abnormal[RANKS];

	for (size_t r = 0; r < RANKS; r++) {
		of[r] = op[r];
		ops[r] = OPS;
		for (size_t i = 0; i < OPS; i++)
			op[r][i] = (struct systrace_op){100.0 * (double)i, r == 3 ? 2 : 3};
	}
	assert_int_equal(systrace_slow_ranks(&systrace_metrics[0], of, ops, RANKS, abnormal), 1);
	assert_true(abnormal[3]);
	/* The reduce-scatter needs 625 s; else its own past decides, which is empty. */
	assert_int_equal(systrace_slow_ranks(&systrace_metrics[2], of, ops, RANKS, abnormal), 0);
	/* Own past: longer in the last quarter. (A longer part would make the short values the noise.) */
	for (size_t i = OPS - OPS / 4; i < OPS; i++)
		op[5][i].duration_ms = 30;
	assert_int_equal(systrace_slow_ranks(&systrace_metrics[3], of, ops, RANKS, abnormal), 1);
	assert_true(abnormal[5]);
	ops[2] = 0;
	assert_int_equal(systrace_slow_ranks(&systrace_metrics[0], of, ops, RANKS, abnormal), -1);
}

TEST_MAIN(NULL, NULL)
