/* SPDX-License-Identifier: Apache-2.0 */
/* Hung jobs, seen by stages alone: which rank is named, since when, and what resembles a hang but is none. */
#include "tests/unit/hang_script.h"

TEST_WITH(the_one_in_its_data_loader_is_named, begin_idle, end)
{
	unsigned first;

	standing[3].stage = STAGE_DATALOADER;
	first = seconds(30);
	assert_in_range(first, 15, 30);
	assert_int_equal(n_said, 1);
	assert_int_equal(said[0].finding.kind, FINDING_HANG);
	assert_int_equal(said[0].finding.rank, 3);
	assert_int_equal(said[0].finding.cause, CAUSE_DATALOADER);
	assert_int_equal(said[0].finding.since_ns, START);
	assert_int_equal(wants, JUDGE_WANT_OPERATIONS | JUDGE_WANT_SYSTEM);
	for (size_t i = 0; i < said[0].finding.evidences; i++) {
		if (strcmp(said[0].finding.evidence[i].name, "waiting") == 0) {
			assert_string_equal(said[0].finding.evidence[i].detail, "backward");
			assert_true(said[0].finding.evidence[i].value == 7);
			return;
		}
	}
	fail_msg("it is not said where the others stand");
}

TEST_WITH(a_stopped_process_is_named_wherever_it_stands, begin_idle, end)
{
	standing[5].state = 'T';
	assert_in_range(seconds(30), 10, 16);
	assert_int_equal(said[0].finding.rank, 5);
	assert_int_equal(said[0].finding.cause, CAUSE_STOPPED);
}

TEST_WITH(an_ended_process_is_named_while_others_wait, begin_idle, end)
{
	standing[2].ended = true;
	standing[2].ended_ns = START;
	assert_in_range(seconds(30), 10, 30);
	assert_int_equal(said[0].finding.rank, 2);
	assert_int_equal(said[0].finding.cause, CAUSE_ENDED);
}

TEST_WITH(the_end_of_a_job_is_no_hang, begin_idle, end)
{
	for (size_t i = 0; i < RANKS; i++) {
		standing[i].stage = STAGE_USER;
		standing[i].ended = i < 4;
		standing[i].ended_ns = START;
	}
	/* Four ranks still write their logs. */
	assert_int_equal(seconds(120), 0);
	assert_int_equal(n_said, 0);
	for (size_t i = 0; i < RANKS; i++)
		standing[i].ended = true;
	assert_int_equal(seconds(1000), 0);
	assert_int_equal(n_said, 0);
}

TEST_WITH(who_left_a_job_that_went_on_is_not_named, begin_idle, end)
{
	standing[2].ended = true;
	standing[2].ended_ns = START - 60 * SECOND;
	assert_in_range(seconds(30), 10, 30);
	assert_int_equal(said[0].finding.rank, -1);
}

TEST_WITH(a_sign_of_life_is_enough, begin_idle, end)
{
	standing[3].stage = STAGE_DATALOADER;
	for (unsigned i = 0; i < 200; i++) {
		assert_int_equal(seconds(5), 0);
		assert_int_equal(n_said, 0);
		standing[0].progress_ns = snapshot.now_ns; /* it evaluates */
	}
	assert_int_equal(n_wants, 0);
}

TEST_WITH(a_checkpoint_has_its_time, begin_idle, end)
{
	standing[0].stage = STAGE_CHECKPOINT;
	assert_in_range(seconds(700), 590, 610);
	assert_int_equal(said[0].finding.rank, 0);
	assert_int_equal(said[0].finding.cause, CAUSE_CHECKPOINT);
	end(NULL);
	begin_idle(NULL);
	standing[0].stage = STAGE_CHECKPOINT;
	snapshot.checkpoint_ns = 20 * SECOND;
	assert_in_range(seconds(100), 58, 62);
}

/* What the job went through before, it may go through again; who is stopped or has ended does not. */
TEST_WITH(a_phase_has_the_time_that_it_took, begin_idle, end)
{
	snapshot.phase_ns = 40 * SECOND;
	assert_in_range(seconds(100), 59, 61);
	end(NULL);
	begin_idle(NULL);
	snapshot.phase_ns = 7200 * SECOND; /* hang_busy_ns at most */
	assert_in_range(seconds(700), 599, 601);
	end(NULL);
	begin_idle(NULL);
	snapshot.phase_ns = 40 * SECOND;
	standing[2].state = 'T';
	assert_in_range(seconds(30), 10, 14);
	end(NULL);
	begin_idle(NULL);
	snapshot.phase_ns = 40 * SECOND;
	standing[2].ended = true;
	standing[2].ended_ns = START;
	assert_in_range(seconds(30), 10, 14);
}

TEST_WITH(first_steps_have_the_time_that_they_took, begin_idle, end)
{
	snapshot.warm_ns = 60 * SECOND;
	standing[5].steps = 2;
	assert_in_range(seconds(100), 89, 91);
	end(NULL);
	begin_idle(NULL);
	snapshot.warm_ns = 60 * SECOND;
	standing[5].steps = 3;
	assert_in_range(seconds(100), 10, 14);
}

TEST_WITH(who_compiles_has_its_time, begin_idle, end)
{
	standing[6].stage = STAGE_FORWARD;
	standing[6].progress_ns -= SECOND;
	cpu[6] = 1;
	assert_int_equal(seconds(300), 0);
	assert_in_range(seconds(400), 295, 305);
	assert_int_equal(said[0].finding.rank, 6);
}

TEST_WITH(who_computes_uses_a_quarter_of_a_cpu, begin_idle, end)
{
	for (unsigned busy = 0; busy < 2; busy++) {
		standing[6].stage = STAGE_FORWARD;
		standing[6].progress_ns -= SECOND;
		cpu[6] = busy ? 0.4 : 0.15;
		if (busy)
			assert_int_equal(seconds(300), 0);
		else
			assert_in_range(seconds(60), 10, 30);
		end(NULL);
		begin_idle(NULL);
	}
}

/* Over the last 5 to 10 s: a pause of seconds is none, and who stops computing is named soon. */
TEST_WITH(computing_is_measured_over_seconds, begin_idle, end)
{
	unsigned s = 0;

	standing[6].stage = STAGE_FORWARD;
	standing[6].progress_ns -= SECOND;
	for (unsigned i = 0; i < 20; i++) {
		cpu[6] = 1;
		assert_int_equal(seconds(3), 0);
		cpu[6] = 0;
		assert_int_equal(seconds(3), 0);
	}
	cpu[6] = 1;
	assert_int_equal(seconds(20), 0);
	cpu[6] = 0;
	s = seconds(60);
	assert_in_range(s, 2, 11);
	assert_int_equal(said[0].finding.rank, 6);
}

/* Whoever computes, or idles in its first step, is suspected long before it is confirmed; who computes in its first
 * step is not. */
TEST_WITH(one_that_all_wait_for_is_suspected_early, begin_idle, end)
{
	for (unsigned first_step = 0; first_step < 2; first_step++) {
		for (unsigned busy = 0; busy < 2; busy++) {
			standing[6].stage = STAGE_FORWARD;
			standing[6].progress_ns -= SECOND;
			standing[6].steps = first_step ? 0 : standing[6].steps;
			cpu[6] = busy;
			if (!busy && !first_step)
				continue; /* nothing excuses it: it is confirmed */
			assert_int_equal(seconds(25), 0);
			assert_int_equal(n_said, 0);
			assert_int_equal(seconds(10), 0);
			assert_int_equal(n_said, first_step && busy ? 0 : 1);
			assert_int_equal(seconds(250), 0);
			end(NULL);
			begin_idle(NULL);
		}
	}
}

TEST_WITH(who_waits_for_its_device_is_not_compiling, begin_idle, end)
{
	for (size_t i = 0; i < RANKS; i++) {
		cpu[i] = 1;
		standing[i].stage = STAGE_SYNC;
	}
	assert_in_range(seconds(40), 10, 30);
	assert_int_equal(said[0].finding.rank, -1);
	assert_int_equal(said[0].finding.cause, CAUSE_UNKNOWN);
	assert_true(wants & JUDGE_WANT_OPERATIONS);
}

TEST_WITH(before_the_first_steps_jobs_take_their_time, begin_idle, end)
{
	snapshot.step_ns = 0;
	assert_int_equal(seconds(500), 0);
	end(NULL);
	begin_idle(NULL);
	standing[4].steps = 0;
	assert_int_equal(seconds(500), 0);
}

TEST_WITH(long_steps_are_no_hang, begin_idle, end)
{
	snapshot.step_ns = 46 * SECOND;
	standing[3].stage = STAGE_FORWARD;
	assert_int_equal(seconds(100), 0);
	assert_in_range(seconds(100), 30, 50);
}

TEST_WITH(an_epoch_begins, begin_idle, end)
{
	for (size_t i = 0; i < RANKS; i++)
		standing[i].stage = STAGE_DATALOADER;
	assert_int_equal(seconds(100), 0);
	assert_in_range(seconds(60), 15, 25);
	assert_int_equal(said[0].finding.rank, -1);
	assert_int_equal(said[0].finding.cause, CAUSE_DATALOADER);
	assert_string_equal(said[0].finding.others, "100-107");
}

TEST_WITH(a_job_that_is_stopped_whole, begin_idle, end)
{
	for (size_t i = 0; i < RANKS; i++)
		standing[i].state = 'T';
	assert_in_range(seconds(30), 10, 30);
	assert_int_equal(said[0].finding.rank, -1);
	assert_int_equal(said[0].finding.cause, CAUSE_STOPPED);
	assert_string_equal(said[0].finding.others, "100-107");
}

TEST_WITH(one_in_its_forward_stopped_first_or_is_not_named, begin_idle, end)
{
	standing[1].stage = STAGE_FORWARD;
	standing[1].progress_ns -= SECOND / 2;
	assert_in_range(seconds(30), 10, 30);
	assert_int_equal(said[0].finding.rank, 1);
	assert_int_equal(said[0].finding.cause, CAUSE_MISSING);
	end(NULL);
	begin_idle(NULL);
	/* A pipeline: it waits for the one that is stuck in its backward since a second before. */
	standing[1].stage = STAGE_FORWARD;
	standing[4].progress_ns -= SECOND;
	assert_in_range(seconds(30), 10, 30);
	assert_int_equal(said[0].finding.rank, -1);
	end(NULL);
	begin_idle(NULL);
	/* Sharded parameters: most wait in forward. */
	for (size_t i = 0; i < 6; i++) {
		standing[i].stage = STAGE_FORWARD;
		standing[i].progress_ns -= SECOND;
	}
	assert_in_range(seconds(30), 10, 30);
	assert_int_equal(said[0].finding.rank, -1);
	assert_string_equal(said[0].finding.others, "");
}

/* It has stopped no later than the others, but for a quarter of a step, and for what clocks of nodes may differ by. */
TEST_WITH(one_in_its_forward_may_have_stopped_a_little_later, begin_idle, end)
{
	static const struct {
		uint64_t step_ns, later_ns;
		int32_t rank;
	} cases[] = {{SECOND, SECOND / 5, 1}, {SECOND, SECOND / 3, -1}, {SECOND / 25, SECOND / 66, 1},
		{SECOND / 25, SECOND / 25, -1}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		end(NULL);
		begin_idle(NULL);
		snapshot.step_ns = cases[i].step_ns;
		standing[1].stage = STAGE_FORWARD;
		standing[1].progress_ns += cases[i].later_ns;
		assert_in_range(seconds(40), 8, 35);
		assert_int_equal(said[0].finding.rank, cases[i].rank);
	}
}

TEST_WITH(nothing_in_a_stage_may_be_no_job, begin_idle, end)
{
	for (size_t i = 0; i < RANKS; i++)
		standing[i].stage = STAGE_USER;
	assert_int_equal(seconds(1700), 0);
	assert_in_range(seconds(200), 90, 110);
	assert_int_equal(said[0].finding.severity, SEVERITY_WARNING);
}

static void begin_outside(void)
{
	begin_idle(NULL);
	for (size_t i = 0; i < RANKS; i++) {
		standing[i].stage = STAGE_USER;
		standing[i].stack = i == 5 ? STANDING_STACK_OTHER : STANDING_STACK_COMMUNICATION;
	}
}

/* Stacks say what stages do not. It may be saving: it has longer than in a stage that holds a wait. */
TEST_WITH(stacks_name_who_keeps_the_others_waiting, begin_idle, end)
{
	end(NULL);
	begin_outside();
	assert_in_range(seconds(200), 118, 122);
	assert_int_equal(said[0].finding.rank, 5);
	assert_int_equal(said[0].finding.cause, CAUSE_MISSING);
	assert_int_equal(said[0].finding.severity, SEVERITY_WARNING);
	end(NULL);
	/* It computes. */
	begin_outside();
	cpu[5] = 1;
	assert_int_equal(seconds(590), 0);
	end(NULL);
	/* It waits for a lock, and nothing of it works; or something does. */
	begin_outside();
	standing[5].stack = STANDING_STACK_LOCK;
	cpu[5] = 0.01;
	assert_in_range(seconds(40), 28, 32);
	assert_int_equal(said[0].finding.rank, 5);
	end(NULL);
	begin_outside();
	standing[5].stack = STANDING_STACK_LOCK;
	cpu[5] = 0.03;
	assert_in_range(seconds(200), 118, 122);
	end(NULL);
	/* Two are outside; nothing is known of one, as on another node; all communicate; none does. */
	for (size_t i = 0; i < 4; i++) {
		begin_outside();
		for (size_t j = 0; j < RANKS; j++)
			if (i >= 2)
				standing[j].stack = i == 2 ? STANDING_STACK_COMMUNICATION : STANDING_STACK_OTHER;
		if (i < 2)
			standing[3].stack = i ? STANDING_STACK_UNKNOWN : STANDING_STACK_OTHER;
		assert_int_equal(seconds(1700), 0);
		end(NULL);
	}
	/* In stages that name nobody, no later than without stacks. */
	begin_outside();
	for (size_t i = 0; i < RANKS; i++)
		standing[i].stage = STAGE_BACKWARD;
	assert_in_range(seconds(40), 10, 14);
	assert_int_equal(said[0].finding.rank, 5);
	assert_int_equal(said[0].finding.severity, SEVERITY_CRITICAL);
}

TEST_WITH(stacks_are_wanted_again_when_the_standstill_is_twice_as_long, begin_idle, end)
{
	const struct {
		unsigned seconds, wants;
	} at[] = {{11, 0}, {1, 1}, {11, 1}, {1, 2}, {23, 2}, {1, 3}};

	end(NULL);
	begin_outside();
	for (size_t i = 0; i < RANKS; i++)
		standing[i].stack = STANDING_STACK_UNKNOWN;
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		seconds(at[i].seconds);
		assert_int_equal(n_wants, at[i].wants);
	}
	assert_int_equal(wants, JUDGE_WANT_STACKS);
	/* It went on, and stands again. */
	for (size_t i = 0; i < RANKS; i++)
		standing[i].progress_ns = snapshot.now_ns;
	seconds(11);
	assert_int_equal(n_wants, 3);
	seconds(1);
	assert_int_equal(n_wants, 4);
	end(NULL);
	/* One rank keeps no other waiting. */
	begin_outside();
	snapshot.world_size = snapshot.ranks = 1;
	seconds(30);
	assert_int_equal(n_wants, 0);
}

/* Forward is derived: who waits in it is in no stage. Rank 2 has ended its step, the others have loaded the next one's
 * data. */
TEST_WITH(who_has_not_begun_the_step_is_named, begin_idle, end)
{
	for (size_t i = 0; i < RANKS; i++) {
		standing[i].stage = STAGE_USER;
		standing[i].step_end_ns = i == 2 ? START : START - SECOND / 10;
	}
	assert_in_range(seconds(40), 10, 30);
	assert_int_equal(said[0].finding.rank, 2);
	assert_int_equal(said[0].finding.cause, CAUSE_MISSING);
	assert_int_equal(said[0].finding.severity, SEVERITY_CRITICAL);
	end(NULL);
	/* It computes: it has its time. */
	begin_idle(NULL);
	for (size_t i = 0; i < RANKS; i++) {
		standing[i].stage = STAGE_USER;
		standing[i].step_end_ns = i == 2 ? START : START - SECOND / 10;
	}
	cpu[2] = 1;
	assert_int_equal(seconds(590), 0);
	end(NULL);
	/* Rank 2 alone is past the end of its step: it may save. */
	begin_idle(NULL);
	for (size_t i = 0; i < RANKS; i++) {
		standing[i].stage = STAGE_USER;
		standing[i].step_end_ns = i == 2 ? START - SECOND / 10 : START;
	}
	assert_int_equal(seconds(1700), 0);
	end(NULL);
	/* Half of them: a step goes on, and who keeps whom from it is not seen. */
	begin_idle(NULL);
	for (size_t i = 0; i < RANKS; i++) {
		standing[i].stage = STAGE_USER;
		standing[i].step_end_ns = i % 2 ? START - SECOND / 10 : START;
	}
	assert_in_range(seconds(40), 10, 30);
	assert_int_equal(said[0].finding.rank, -1);
	assert_string_equal(said[0].finding.others, "");
	assert_int_equal(said[0].finding.severity, SEVERITY_CRITICAL);
	end(NULL);
	/* All have ended theirs: nothing goes on. */
	begin_idle(NULL);
	for (size_t i = 0; i < RANKS; i++) {
		standing[i].stage = STAGE_USER;
		standing[i].step_end_ns = START;
	}
	assert_int_equal(seconds(1700), 0);
}

/* Two cards: rank 1 sleeps after its step, and rank 0 has filled the queue of its device in the next forward. */
static void begin_full_queue(void)
{
	begin_idle(NULL);
	snapshot.ranks = snapshot.world_size = snapshot.cards = 2;
	for (size_t i = 0; i < 2; i++)
		snprintf(who[i].card, sizeof(who[i].card), "%zu", i);
	standing[0].stage = STAGE_FORWARD;
	standing[0].state = 'R';
	cpu[0] = 1;
	standing[1].stage = STAGE_USER;
	standing[1].progress_ns -= SECOND / 10;
}

TEST_WITH(who_waits_for_its_device_in_forward_is_not_compiling, begin_idle, end)
{
	end(NULL);
	begin_full_queue();
	assert_in_range(seconds(40), 10, 14);
	assert_int_equal(said[0].finding.rank, 1);
	assert_int_equal(said[0].finding.cause, CAUSE_MISSING);
	end(NULL);
	/* It may be stuck itself, and the other one wait for what it would send. */
	begin_full_queue();
	standing[0].state = 'S';
	cpu[0] = 0;
	assert_in_range(seconds(40), 10, 14);
	assert_int_equal(said[0].finding.rank, -1);
	end(NULL);
	/* So may who stopped first. */
	begin_full_queue();
	standing[1].progress_ns += SECOND / 5;
	assert_int_equal(seconds(590), 0);
	end(NULL);
	/* There is no device: it compiles. */
	begin_full_queue();
	who[0].card[0] = '\0';
	assert_int_equal(seconds(590), 0);
	end(NULL);
	/* The one evaluates alone. */
	begin_full_queue();
	cpu[1] = 1;
	assert_int_equal(seconds(590), 0);
}

TEST_WITH(part_of_a_job_waits_for_the_rest, begin_idle, end)
{
	snapshot.world_size = 64; /* and one of the others may save a checkpoint */
	assert_int_equal(seconds(590), 0);
	assert_in_range(seconds(30), 5, 15);
	assert_int_equal(said[0].finding.rank, -1);
	end(NULL);
	begin_idle(NULL);
	snapshot.world_size = 64;
	standing[7].stage = STAGE_DATALOADER;
	assert_in_range(seconds(40), 15, 30);
	assert_int_equal(said[0].finding.rank, 7);
	end(NULL);
	begin_idle(NULL);
	/* They are known, and nothing is published of them. */
	standing[6] = (struct standing){.rank = 6};
	standing[7] = (struct standing){.rank = 7};
	assert_int_equal(seconds(590), 0);
	standing[1].stage = STAGE_DATALOADER;
	standing[1].progress_ns = snapshot.now_ns;
	assert_in_range(seconds(40), 15, 30);
	assert_int_equal(said[0].finding.rank, 1);
}

TEST_WITH(a_job_of_one, begin_idle, end)
{
	snapshot.world_size = 1;
	snapshot.ranks = 1;
	standing[0].stage = STAGE_USER; /* a notebook */
	assert_int_equal(seconds(4000), 0);
	assert_int_equal(n_said, 0);
	standing[0].stage = STAGE_FORWARD;
	standing[0].progress_ns = snapshot.now_ns;
	standing[0].state = 't'; /* a breakpoint */
	assert_int_equal(seconds(4000), 0);
	assert_true(n_said == 1 && !said[0].confirmed);
	standing[0].state = 'T';
	standing[0].progress_ns = snapshot.now_ns;
	assert_in_range(seconds(40), 10, 30);
	standing[0].state = 'S';
	standing[0].progress_ns = snapshot.now_ns;
	assert_in_range(seconds(700), 590, 610);
}

TEST_MAIN(NULL, NULL)
