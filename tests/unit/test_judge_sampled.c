/* SPDX-License-Identifier: Apache-2.0 */
/*
 * L0 in windows: what the judge says of steps of which only some have activities. The windows are those of the guard
 * (daemon/guard): 5 s each, a part of the time, and open while a suspicion lasts.
 */
#include "tests/unit/judge_script.h"

#define STEP_S 0.005005
#define RANKS 4

static struct windows {
	double duty;   /* 1: L0 is on all the time */
	double cost;   /* s a step, of the probes that windows attach */
	double left_s; /* of time that suspicions may hold windows open: the guard's budget for them */
	bool open;
	double turn_s; /* it closes, or opens */
	double held_s; /* until then by a suspicion */
	unsigned wants;
	double watched_s;
} windows;

#define WINDOW_S 5.0 /* GUARD_WINDOW_NS */
#define HOLD_S 10.0  /* GUARD_HOLD_NS */
#define ATTACH_S 0.1

static void windows_begin(double duty, double noise, double cost)
{
	script_begin(RANKS);
	script_scale(0.05);
	script.noise = noise;
	script.slack = 0.1;
	windows = (struct windows){.duty = duty, .cost = cost, .left_s = INFINITY, .open = true};
	script_all(ACTIVITY_MARK, cost);
	script_run(20); /* L0 is whole until its cost is known */
	windows.turn_s = script_s();
}

/* Is L0 on in the step that begins now? */
static bool windows_open(double s)
{
	if (script.wants & JUDGE_WANT_STAGES && windows.left_s > 0) {
		windows.wants++;
		windows.held_s = s + HOLD_S;
		windows.turn_s = windows.open ? windows.turn_s : fmin(windows.turn_s, s + ATTACH_S);
	}
	script.wants = 0;
	if (windows.open && s < windows.held_s && windows.left_s > 0)
		windows.left_s -= STEP_S;
	else if (windows.open && s >= windows.turn_s) {
		windows.open = false;
		windows.turn_s = s + WINDOW_S * (1 - windows.duty) / windows.duty;
	} else if (!windows.open && s >= windows.turn_s) {
		windows.open = true;
		windows.turn_s = s + WINDOW_S;
	}
	return windows.open;
}

static void windows_step(void)
{
	double s = script_s();

	script.unsplit = windows.duty < 1 && !windows_open(s);
	script_all(ACTIVITY_MARK, script.unsplit ? 0 : windows.cost);
	script_step();
	windows.watched_s += script.unsplit ? 0 : script_s() - s;
}

static void windows_run(double s)
{
	double until_s = script_s() + s;

	while (script_s() < until_s)
		windows_step();
}

/* A fault of one rank for 40 s, 3 minutes after the begin. Returns when it was said, s after its begin; -1: it was
 * not. */
static double windows_fault(enum activity activity, double growth)
{
	const struct said *said;
	double begin_s, first_s, watched_s;

	windows_run(180);
	script_expect(0);
	begin_s = script_s();
	watched_s = windows.watched_s;
	script.fault[2][activity] = growth * STEP_S;
	windows_run(40);
	/* While it lasts, L0 is on: from when it has lost enough to be suspected. */
	assert_true(windows.watched_s - watched_s > 40 - 2 - 0.5 / growth);
	script.fault[2][activity] = 0;
	windows_run(30);
	said = script_said(2, activity);
	if (!said || script.n_said != 1) {
		script_print();
		fail_msg("a growth of %.0f %% of rank 2 in %s, windows %.0f %%: %zu findings, %s", 100 * growth,
			activity_title(activity), 100 * windows.duty, script.n_said,
			said ? "the right one among them" : "none right");
	}
	first_s = said->first_s - begin_s;
	/* Its begin is known although no window was open. */
	assert_true(fabs((double)(said->finding.since_ns - SCRIPT_BEGIN_NS) * 1e-9 - begin_s) < 2);
	assert_int_equal(said->finding.state, FINDING_CLOSED);
	script_end();
	return first_s;
}

static const enum activity activities[] = {
	ACTIVITY_OUTSIDE, ACTIVITY_DATALOADER, ACTIVITY_FORWARD, ACTIVITY_ZERO_GRAD, ACTIVITY_OPTIMIZER};
static const double growths[] = {0.08, 0.5, 3};

TEST(the_same_rank_and_activity_are_named)
{
	static const double duties[] = {1.0 / 60, 0.1, 0.5};

	for (size_t a = 0; a < sizeof(activities) / sizeof(activities[0]); a++) {
		for (size_t g = 0; g < sizeof(growths) / sizeof(growths[0]); g++) {
			double whole_s, s;

			windows_begin(1, 0.05, 0.02 * STEP_S);
			whole_s = windows_fault(activities[a], growths[g]);
			for (size_t d = 0; d < sizeof(duties) / sizeof(duties[0]); d++) {
				windows_begin(duties[d], 0.05, 0.02 * STEP_S);
				s = windows_fault(activities[a], growths[g]);
				/* Until half of what opens is lost, to attach, and a second of steps. */
				if (s > whole_s + 3)
					fail_msg("%.0f %% in %s: after %.1f s, and after %.1f s in windows of %.0f %%",
						100 * growths[g], activity_title(activities[a]), whole_s, s,
						100 * duties[d]);
			}
		}
	}
}

TEST(a_healthy_job_has_no_finding)
{
	for (int i = 0; i < 4; i++) {
		windows_begin(1.0 / 60, i % 2 ? 0.05 : 0.2, 0.03 * STEP_S); /* steps in windows are so much longer */
		script.random = (uint64_t)i + 1;
		windows_run(1800);
		script_expect(0);
		/* L0 is on for its part of the time, and a little for noise. */
		if (windows.watched_s > 0.04 * 1800)
			fail_msg("watched for %.0f s of 1800, %u suspicions", windows.watched_s, windows.wants);
		script_end();
	}
}

TEST(a_slow_down_outlasts_what_suspicions_may_cost)
{
	windows_begin(1.0 / 60, 0.05, 0.02 * STEP_S);
	windows_run(60);
	windows.left_s = 20; /* then windows again */
	script.fault[1][ACTIVITY_OPTIMIZER] = 0.5 * STEP_S;
	windows_run(600);
	script_only(1, ACTIVITY_OPTIMIZER);
	assert_int_equal(script.said[0].finding.state, FINDING_OPEN);
	assert_true(windows.watched_s < 50);
	script.fault[1][ACTIVITY_OPTIMIZER] = 0;
	windows_run(10); /* no window is needed to see its end */
	assert_int_equal(script_only(1, ACTIVITY_OPTIMIZER)->finding.state, FINDING_CLOSED);
	/* What it cost is of all steps, though few were watched. */
	assert_true(fabs(script_cost() - 600.0 / 3) < 0.1 * 600.0 / 3);
	script_end();
}

TEST(without_a_window_nobody_is_named)
{
	windows_begin(1.0 / 60, 0.05, 0.02 * STEP_S);
	windows_run(60);
	windows.left_s = 0;
	windows.open = false;
	windows.turn_s = script_s() + 100;
	script.fault[3][ACTIVITY_FORWARD] = 0.3 * STEP_S;
	windows_run(95);
	script_expect(0); /* neither the job */
	windows_run(15);
	script_only(3, ACTIVITY_FORWARD);
	assert_true(script.said[0].finding.slowdown > 1.25);
	script.fault[3][ACTIVITY_FORWARD] = 0;
	windows_run(20);
	script_end();
}

TEST(a_job_that_becomes_faster_between_windows_is_not_slow_in_them)
{
	windows_begin(0.05, 0.05, 0.02 * STEP_S);
	windows_run(300);
	script_scale(0.6);
	script.clean *= 0.6;
	windows_run(1200);
	script_expect(0);
	if (windows.watched_s > 0.07 * 1500)
		fail_msg("watched for %.0f s of 1500, %u suspicions", windows.watched_s, windows.wants);
	script_end();
}

TEST(what_is_learned_is_learned_from_whole_steps)
{
	script_begin(RANKS);
	script_scale(0.05);
	script.unsplit = true;
	script_run(60); /* nothing is known of them */
	script.unsplit = false;
	script_run(20);
	script.fault[0][ACTIVITY_DATALOADER] = STEP_S;
	script_run(10);
	script_only(0, ACTIVITY_DATALOADER);
	script_end();
}

TEST_MAIN(NULL, NULL)
