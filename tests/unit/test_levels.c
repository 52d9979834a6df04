/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/levels: words, defaults, turning on and off through a collector that may refuse, time, and the saved state. */
#include <math.h>
#include <sys/stat.h>
#include "daemon/collect/collector.h"
#include "daemon/core/context.h"
#include "daemon/core/levels.h"
#include "tests/test.h"

static struct context context;
static char folder[] = "/tmp/ranktrace-test-levels-XXXXXX";
static unsigned calls;
static int answer;
static bool last_on;

/* Stand-in for the collectors. */
static int answer_level(struct collectors *collectors, enum level level, bool on, char *report, size_t report_size)
{
	(void)collectors;
	(void)level;
	calls++;
	last_on = on;
	snprintf(report, report_size, answer ? "out of probes" : "14 probes in 2 libraries");
	return answer;
}

static double last_duty;

static int window(struct collectors *collectors, enum level level, bool open, double duty)
{
	(void)collectors;
	(void)level;
	calls++;
	last_on = open;
	last_duty = duty;
	return answer;
}

static int set_up(void **state)
{
	memset(&context, 0, sizeof(context));
	snprintf(context.config.state_dir, sizeof(context.config.state_dir), "%s", folder);
	context.collectors = (struct collectors *)&context; /* only passed on */
	levels_defaults(&context.levels);
	context.levels.save_wait_ns = 60 * NSEC_PER_SEC;
	context.levels.apply = answer_level;
	context.levels.window = window;
	calls = 0;
	answer = 0;
	return 0;
}

static void write_state(const char *text)
{
	char path[sizeof(folder) + 16];
	FILE *f;

	snprintf(path, sizeof(path), "%s/levels", folder);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

TEST_WITH(test_words, set_up, NULL)
{
	enum level level = LEVEL_MAX;

	assert_int_equal(level_parse("L2", &level), 0);
	assert_int_equal(level, LEVEL_L2);
	assert_string_equal(level_name(LEVEL_L3), "L3");
	assert_int_equal(level_parse("L1.launches", &level), 0);
	assert_int_equal(level, LEVEL_L1_LAUNCHES);
	assert_int_equal(level_parse("L2", &level), 0);
	assert_string_equal(level_words(), "L0, L1, L2, L3, L1.launches");
	assert_true(level_has_interval(LEVEL_L1) && !level_has_interval(LEVEL_L0));
	assert_false(level_has_interval(LEVEL_L1_LAUNCHES));
	for (const char *const *bad = (const char *const[]){"", "l0", "L", "L4", "L00", " L1", "L1 ", "L1.",
		     "L1.launch", "L1.launches ", "L2.launches", NULL};
		*bad; bad++)
		assert_int_equal(level_parse(*bad, &level), -EINVAL);
	assert_int_equal(level, LEVEL_L2);
	assert_true(level_interval_good(0.5));
	assert_true(level_interval_good(10080));
	assert_false(level_interval_good(0));
	assert_false(level_interval_good(-1));
	assert_false(level_interval_good(10080.1));
	assert_false(level_interval_good((double)NAN));
	assert_false(level_interval_good((double)INFINITY));
}

TEST_WITH(test_defaults, set_up, NULL)
{
	const struct levels *l = &context.levels;

	assert_false(l->on[LEVEL_L1_LAUNCHES]);
	assert_true(l->interval_minutes[LEVEL_L1_LAUNCHES] == 0);
	assert_true(l->on[LEVEL_L0] && !l->on[LEVEL_L1] && !l->on[LEVEL_L2] && !l->on[LEVEL_L3]);
	assert_true(l->interval_minutes[LEVEL_L0] == 0 && l->interval_minutes[LEVEL_L1] == 5);
	assert_true(l->interval_minutes[LEVEL_L2] == 5 && l->interval_minutes[LEVEL_L3] == 2);
}

TEST_WITH(test_set, set_up, NULL)
{
	char report[256];

	assert_int_equal(levels_set(&context, LEVEL_L1, true, 0, report, sizeof(report)), 0);
	assert_string_equal(report, "L1 on: 14 probes in 2 libraries");
	assert_true(context.levels.on[LEVEL_L1] && last_on);
	assert_int_equal(calls, 1);
	/* Attaching twice would count everything twice. */
	assert_int_equal(levels_set(&context, LEVEL_L1, true, 0, report, sizeof(report)), 0);
	assert_int_equal(calls, 1);
	assert_non_null(strstr(report, "already"));
	assert_int_equal(levels_set(&context, LEVEL_L1, false, 0, report, sizeof(report)), 0);
	assert_int_equal(calls, 2);
	assert_false(context.levels.on[LEVEL_L1] || last_on);
}

/* A switch and its level know nothing of each other. */
TEST_WITH(test_switch, set_up, NULL)
{
	char report[256];

	assert_int_equal(levels_set(&context, LEVEL_L1_LAUNCHES, true, 600 * NSEC_PER_SEC, report, sizeof(report)), 0);
	assert_string_equal(report, "L1.launches on: 14 probes in 2 libraries; off again in 10 min");
	assert_true(context.levels.on[LEVEL_L1_LAUNCHES] && !context.levels.on[LEVEL_L1]);
	assert_int_equal(levels_set(&context, LEVEL_L1, true, 0, report, sizeof(report)), 0);
	assert_int_equal(levels_set(&context, LEVEL_L1, false, 0, report, sizeof(report)), 0);
	assert_true(context.levels.on[LEVEL_L1_LAUNCHES]);
	levels_tick(&context, context.levels.until_ns[LEVEL_L1_LAUNCHES]);
	assert_false(context.levels.on[LEVEL_L1_LAUNCHES]);
}

TEST_WITH(test_refused, set_up, NULL)
{
	char report[256];

	answer = -ENOSPC;
	assert_int_equal(levels_set(&context, LEVEL_L2, true, 0, report, sizeof(report)), -ENOSPC);
	assert_false(context.levels.on[LEVEL_L2]);
	assert_string_equal(report, "cannot turn L2 on: out of probes");
}

/* What a finding turned on is nobody's wish: it is not saved, it ends, and whoever sets it has his way. */
TEST_WITH(test_raised, set_up, NULL)
{
	struct levels saved;
	char report[256];
	uint64_t until_ns;

	assert_int_equal(levels_save(&context.levels, folder), 0);
	assert_int_equal(levels_auto_on(&context, LEVEL_L0, NSEC_PER_SEC, "a rank is slow"), -EALREADY);
	assert_int_equal(levels_auto_on(&context, LEVEL_L1, 60 * NSEC_PER_SEC, "a rank is slow"), 0);
	assert_true(context.levels.on[LEVEL_L1] && context.levels.is_auto[LEVEL_L1] && last_on);
	assert_int_equal(context.levels.set_ns[LEVEL_L1], 0);
	/* Something else is saved meanwhile. */
	assert_int_equal(levels_set(&context, LEVEL_L3, true, 0, report, sizeof(report)), 0);
	levels_defaults(&saved);
	assert_int_equal(levels_load(&saved, folder), 0);
	assert_true(saved.on[LEVEL_L3] && !saved.on[LEVEL_L1] && !saved.until_ns[LEVEL_L1]);
	until_ns = context.levels.until_ns[LEVEL_L1];
	levels_tick(&context, until_ns - 1);
	assert_true(context.levels.on[LEVEL_L1]);
	levels_tick(&context, until_ns);
	assert_false(context.levels.on[LEVEL_L1] || context.levels.is_auto[LEVEL_L1] || last_on);
	assert_int_equal(context.levels.set_ns[LEVEL_L1], 0);
	/* Turned on automatically, then by request: remains on. */
	assert_int_equal(levels_auto_on(&context, LEVEL_L1, 60 * NSEC_PER_SEC, "a rank is slow"), 0);
	assert_int_equal(levels_set(&context, LEVEL_L1, true, 0, report, sizeof(report)), 0);
	assert_string_equal(report, "L1 was on already, turned on by the daemon");
	assert_false(context.levels.is_auto[LEVEL_L1]);
	assert_true(context.levels.set_ns[LEVEL_L1] > 0);
	levels_tick(&context, until_ns + 3600 * NSEC_PER_SEC);
	assert_true(context.levels.on[LEVEL_L1]);
	levels_defaults(&saved);
	assert_int_equal(levels_load(&saved, folder), 0);
	assert_true(saved.on[LEVEL_L1]);
	/* Raised, then refused. */
	assert_int_equal(levels_auto_on(&context, LEVEL_L2, 60 * NSEC_PER_SEC, "a rank is slow"), 0);
	assert_int_equal(levels_set(&context, LEVEL_L2, false, 0, report, sizeof(report)), 0);
	assert_false(context.levels.on[LEVEL_L2] || context.levels.is_auto[LEVEL_L2]);
}

/* A failed switch off is retried; a failed switch on changes nothing. */
TEST_WITH(test_raised_badly, set_up, NULL)
{
	uint64_t until_ns;

	answer = -EIO;
	assert_int_equal(levels_auto_on(&context, LEVEL_L1, 60 * NSEC_PER_SEC, "a rank is slow"), -EIO);
	assert_false(context.levels.on[LEVEL_L1] || context.levels.is_auto[LEVEL_L1]);
	answer = 0;
	assert_int_equal(levels_auto_on(&context, LEVEL_L1, 60 * NSEC_PER_SEC, "a rank is slow"), 0);
	until_ns = context.levels.until_ns[LEVEL_L1];
	answer = -EIO;
	levels_tick(&context, until_ns);
	assert_true(context.levels.is_auto[LEVEL_L1] && context.levels.until_ns[LEVEL_L1] > until_ns);
	answer = 0;
	levels_tick(&context, context.levels.until_ns[LEVEL_L1]);
	assert_false(context.levels.on[LEVEL_L1]);
}

/* The operator's setting is as old as it must be. Before the machine's start it wraps; differences to it do not. */
static void age(enum level level)
{
	context.levels.set_ns[level] = monotonic_ns() - LEVELS_WHOLE_NS;
}

static void on_for_long(enum level level)
{
	char report[256];

	assert_int_equal(levels_set(&context, level, true, 0, report, sizeof(report)), 0);
	age(level);
	calls = 0;
}

TEST_WITH(test_sampled, set_up, NULL)
{
	struct levels read;
	char report[256];

	on_for_long(LEVEL_L1);
	assert_int_equal(levels_window(&context, LEVEL_L1, false, 0.1), -EBUSY);
	assert_int_equal(levels_sample(&context, LEVEL_L1, true), 0);
	assert_int_equal(calls, 0);
	assert_int_equal(levels_window(&context, LEVEL_L1, false, 0.1), 0);
	assert_false(context.levels.on[LEVEL_L1]);
	assert_int_equal(calls, 1);
	assert_false(last_on);
	/* The level is on: it is saved so, and comes back whole. */
	assert_int_equal(levels_save(&context.levels, folder), 0);
	levels_defaults(&read);
	assert_int_equal(levels_load(&read, folder), 0);
	assert_true(read.on[LEVEL_L1] && !read.sampled[LEVEL_L1]);
	assert_int_equal(levels_sample(&context, LEVEL_L1, false), 0);
	assert_true(context.levels.on[LEVEL_L1] && last_on);
	/* Off between windows is off. */
	assert_int_equal(levels_sample(&context, LEVEL_L1, true), 0);
	assert_int_equal(levels_window(&context, LEVEL_L1, false, 0.1), 0);
	assert_int_equal(levels_set(&context, LEVEL_L1, false, 0, report, sizeof(report)), 0);
	assert_string_equal(report, "L1 off: it was on in windows");
	assert_false(context.levels.on[LEVEL_L1] || context.levels.sampled[LEVEL_L1]);
}

/* L0 is never off between windows: what counts steps is attached. So setting it always changes something. */
TEST_WITH(test_sampled_l0, set_up, NULL)
{
	char report[256];

	on_for_long(LEVEL_L0);
	for (int open = 0; open < 2; open++) {
		for (int on = 0; on < 2; on++) {
			age(LEVEL_L0);
			assert_int_equal(levels_sample(&context, LEVEL_L0, true), 0);
			assert_int_equal(levels_window(&context, LEVEL_L0, open, 0.1), 0);
			calls = 0;
			assert_int_equal(levels_set(&context, LEVEL_L0, on, 0, report, sizeof(report)), 0);
			assert_true(calls == 1 && last_on == on);
			assert_true(context.levels.on[LEVEL_L0] == on && !context.levels.sampled[LEVEL_L0]);
			assert_false(levels_may_sample(&context.levels, LEVEL_L0, monotonic_ns()));
			on_for_long(LEVEL_L0);
		}
	}
}

/* L2: an estimate anyway. It is sampled in spite of its setting, and setting it again changes no window. */
TEST_WITH(test_estimated_is_always_sampled, set_up, NULL)
{
	char report[256];

	assert_false(levels_may_sample(&context.levels, LEVEL_L2, monotonic_ns()));
	assert_int_equal(levels_set(&context, LEVEL_L2, true, 0, report, sizeof(report)), 0);
	assert_true(levels_may_sample(&context.levels, LEVEL_L2, monotonic_ns()));
	assert_int_equal(levels_sample(&context, LEVEL_L2, true), 0);
	assert_int_equal(levels_window(&context, LEVEL_L2, false, 0.1), 0);
	calls = 0;
	assert_int_equal(levels_set(&context, LEVEL_L2, true, NSEC_PER_SEC, report, sizeof(report)), 0);
	assert_string_equal(report, "L2 was on already; off again in 1 s");
	assert_int_equal(calls, 0);
	assert_true(context.levels.sampled[LEVEL_L2] && !context.levels.on[LEVEL_L2]);
	/* As a whole again: also where a window is open. */
	assert_int_equal(levels_window(&context, LEVEL_L2, true, 0.1), 0);
	assert_int_equal(levels_sample(&context, LEVEL_L2, false), 0);
	assert_true(context.levels.on[LEVEL_L2] && calls == 2 && last_duty == 1);
	/* The time ends between windows: what is attached then goes, too. */
	assert_int_equal(levels_sample(&context, LEVEL_L2, true), 0);
	assert_int_equal(levels_window(&context, LEVEL_L2, false, 0.1), 0);
	levels_tick(&context, monotonic_ns() + 2 * NSEC_PER_SEC);
	assert_true(calls == 4 && !last_on);
	assert_false(context.levels.on[LEVEL_L2] || context.levels.sampled[LEVEL_L2]);
}

TEST_WITH(test_sampled_gives_way, set_up, NULL)
{
	char report[256];

	on_for_long(LEVEL_L1);
	assert_int_equal(levels_sample(&context, LEVEL_L1, true), 0);
	assert_int_equal(levels_window(&context, LEVEL_L1, false, 0.1), 0);
	/* A suspicion: whole until its end, then windows again. */
	assert_int_equal(levels_auto_on(&context, LEVEL_L1, NSEC_PER_SEC, "a test"), 0);
	assert_true(context.levels.on[LEVEL_L1]);
	assert_int_equal(levels_window(&context, LEVEL_L1, false, 0.1), -EBUSY);
	levels_tick(&context, monotonic_ns() + 2 * NSEC_PER_SEC);
	assert_false(context.levels.on[LEVEL_L1]);
	assert_true(levels_may_sample(&context.levels, LEVEL_L1, monotonic_ns()));
	assert_int_equal(levels_window(&context, LEVEL_L1, true, 0.1), 0);
	/* In a window, too. */
	assert_int_equal(levels_auto_on(&context, LEVEL_L1, NSEC_PER_SEC, "a test"), 0);
	assert_int_equal(levels_window(&context, LEVEL_L1, false, 0.1), -EBUSY);
	/* An operator: whole for LEVELS_WHOLE_NS; with a time, until then. */
	assert_int_equal(levels_set(&context, LEVEL_L1, true, 0, report, sizeof(report)), 0);
	assert_false(levels_may_sample(&context.levels, LEVEL_L1, monotonic_ns()));
	assert_true(levels_may_sample(&context.levels, LEVEL_L1, monotonic_ns() + LEVELS_WHOLE_NS));
	assert_int_equal(levels_set(&context, LEVEL_L1, true, 3600 * NSEC_PER_SEC, report, sizeof(report)), 0);
	assert_false(levels_may_sample(&context.levels, LEVEL_L1, monotonic_ns() + LEVELS_WHOLE_NS));
}

TEST_WITH(test_small_report, set_up, NULL)
{
	char report[6];

	memset(report, 'x', sizeof(report));
	assert_int_equal(levels_set(&context, LEVEL_L1, true, 0, report, sizeof(report)), 0);
	assert_string_equal(report, "L1 on");
}

TEST_WITH(test_time_ends, set_up, NULL)
{
	char report[256];
	uint64_t until_ns;

	assert_int_equal(levels_set(&context, LEVEL_L3, true, 600 * NSEC_PER_SEC, report, sizeof(report)), 0);
	assert_non_null(strstr(report, "off again in 10 min"));
	until_ns = context.levels.until_ns[LEVEL_L3];
	levels_tick(&context, until_ns - 1);
	assert_true(context.levels.on[LEVEL_L3]);
	levels_tick(&context, until_ns);
	assert_false(context.levels.on[LEVEL_L3]);
	assert_int_equal(context.levels.until_ns[LEVEL_L3], 0);
	assert_int_equal(calls, 2);
	/* L0 has no end and is not touched. */
	assert_true(context.levels.on[LEVEL_L0]);
	/* Longer than the clock: no end. */
	assert_int_equal(levels_set(&context, LEVEL_L3, true, UINT64_MAX, report, sizeof(report)), 0);
	assert_int_equal(context.levels.until_ns[LEVEL_L3], 0);
}

TEST_WITH(test_time_ends_badly, set_up, NULL)
{
	char report[256];
	uint64_t until_ns;

	assert_int_equal(levels_set(&context, LEVEL_L3, true, NSEC_PER_SEC, report, sizeof(report)), 0);
	until_ns = context.levels.until_ns[LEVEL_L3];
	answer = -EIO;
	levels_tick(&context, until_ns);
	levels_tick(&context, until_ns + 1);
	assert_int_equal(calls, 2); /* once on, once off: not every second */
	assert_true(context.levels.on[LEVEL_L3]);
	assert_true(context.levels.until_ns[LEVEL_L3] > until_ns);
}

TEST_WITH(test_round_trip, set_up, NULL)
{
	struct levels fresh;
	uint64_t now_ns = monotonic_ns(), end_ns = now_ns + 3600 * NSEC_PER_SEC, off_ns;
	struct stat st;
	char path[sizeof(folder) + 16];

	context.levels.on[LEVEL_L0] = false;
	context.levels.on[LEVEL_L2] = context.levels.on[LEVEL_L1_LAUNCHES] = true;
	context.levels.until_ns[LEVEL_L2] = end_ns;
	context.levels.interval_minutes[LEVEL_L3] = 0.1;
	assert_int_equal(levels_save(&context.levels, folder), 0);
	snprintf(path, sizeof(path), "%s/levels.new", folder);
	assert_int_equal(stat(path, &st), -1);
	levels_defaults(&fresh);
	assert_int_equal(levels_load(&fresh, folder), 0);
	assert_true(fresh.on[LEVEL_L1_LAUNCHES]);
	assert_true(!fresh.on[LEVEL_L0] && fresh.on[LEVEL_L2] && !fresh.on[LEVEL_L1]);
	assert_true(fresh.interval_minutes[LEVEL_L3] == 0.1);
	/* Through UTC and back: as exact as two readings of two clocks, far below a minute. */
	off_ns = fresh.until_ns[LEVEL_L2] > end_ns ? fresh.until_ns[LEVEL_L2] - end_ns
						   : end_ns - fresh.until_ns[LEVEL_L2];
	assert_true(off_ns < 60 * NSEC_PER_SEC);
}

TEST_WITH(test_time_over_while_down, set_up, NULL)
{
	write_state("[level \"L1\"]\non = true\noff_at_ns = 1000\n");
	assert_int_equal(levels_load(&context.levels, folder), 0);
	assert_false(context.levels.on[LEVEL_L1]);
}

TEST_WITH(test_bad_state, set_up, NULL)
{
	static const char *const bad[] = {
		"[level \"L9\"]\non = true\n",
		"[level \"L1\"]\non = perhaps\n",
		"[level \"L1\"]\ninterval_minutes = 0\n",
		"[level \"L1\"]\ninterval_minutes = 5 apples\n",
		"[level \"L1\"]\non = true\ncolour = red\n",
		"on = true\n",
		"[level \"L1.launches\"]\ninterval_minutes = 5\n",
		"[level \"L1.lunches\"]\non = true\n",
	};
	struct levels before = context.levels;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		write_state(bad[i]);
		assert_true(levels_load(&context.levels, folder) < 0);
		assert_memory_equal(&before, &context.levels, sizeof(before));
	}
}

TEST_WITH(test_no_state, set_up, NULL)
{
	struct levels before = context.levels;

	assert_int_equal(levels_load(&context.levels, "/nonexistent"), 0);
	assert_memory_equal(&before, &context.levels, sizeof(before));
	assert_int_equal(levels_save(&context.levels, "/nonexistent"), -ENOENT);
}

static int make_folder(void **state)
{
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	char path[sizeof(folder) + 16];

	snprintf(path, sizeof(path), "%s/levels", folder);
	unlink(path);
	return rmdir(folder);
}

TEST_MAIN(make_folder, remove_folder)
