/* SPDX-License-Identifier: Apache-2.0 */
/* A judge that goes on with what another one has learned. */
#include "tests/unit/judge_script.h"

#include <errno.h>
#include <float.h>

#define LEARN_S 60.0

static void begin(size_t ranks)
{
	script_begin(ranks);
	for (size_t r = 0; r < ranks; r++)
		script.who[r].pid = 1000 + (uint32_t)r;
}

/* As a daemon that is started again. */
static int resume_of(const json_t *learned, size_t ranks)
{
	const struct judge_sink sink = {script_finding, script_want, script_hung, NULL};
	const struct frame frame = {.ranks = ranks, .who = script.who};
	struct judge_options options;

	judge_options_default(&options);
	script_close();
	judge_free(script.judge);
	script.judge = judge_new(&options, "job", &sink, &script.next_id);
	assert_non_null(script.judge);
	return learned ? judge_resume(script.judge, learned, &frame, script.now_ns) : 0;
}

static int resume(const json_t *learned)
{
	return resume_of(learned, script.ranks);
}

/* On cards: nothing but the past shows that it is slow. */
TEST(a_fault_goes_on_after_a_restart)
{
	for (int with = 0; with < 2; with++) {
		json_t *learned;

		begin(2);
		script_cards();
		script.waiting = ACTIVITY_SYNC;
		script_run(LEARN_S);
		script.fault[1][ACTIVITY_FORWARD] = 40 * MS;
		script_run(20);
		script_expect(1);
		learned = judge_learned(script.judge);
		assert_non_null(learned);
		assert_int_equal(resume(with ? learned : NULL), 0);
		json_decref(learned);
		script_run(60);
		script_expect(with ? 2 : 1);
		if (with) {
			assert_int_equal(script.said[1].finding.rank, script.said[0].finding.rank);
			assert_true(script.said[1].first_s < LEARN_S + 20 + 10);
			assert_true(fabs(script.said[1].finding.slowdown - 1.4) < 0.02);
		}
		script_end();
	}
}

/* It knows at once what is usual, and what a checkpoint takes. */
TEST(what_was_usual_is_no_fault_after_a_restart)
{
	json_t *learned;

	begin(3);
	script.usual[ACTIVITY_DATALOADER] = 20 * MS;
	script.fault[1][ACTIVITY_FORWARD] = -5 * MS;
	script_run(LEARN_S);
	learned = judge_learned(script.judge);
	assert_int_equal(resume(learned), 0);
	json_decref(learned);
	script_run(120);
	script_expect(0);
	script_end();
}

/* The others wait for the last step's work after what is learned: what operations take is less than nothing. */
TEST(waits_that_are_still_to_come_are_no_damage)
{
	json_t *learned;

	begin(3);
	script.l1 = true;
	script.ahead = 2;
	script_run(LEARN_S - 0.1);
	script.once[1][ACTIVITY_BACKWARD] = 50 * MS;
	script_step();
	learned = judge_learned(script.judge);
	assert_int_equal(resume(learned), 0);
	json_decref(learned);
	script_end();
}

/* How much steps differ is known, too. */
TEST(usual_bursts_are_no_fault_after_a_restart)
{
	size_t findings[2] = {0};

	for (int with = 0; with < 2; with++) {
		for (unsigned seed = 1; seed <= 8; seed++) {
			json_t *learned;

			begin(8);
			script.random = seed * 77777ULL;
			script.noise = 0.02;
			script.slack = INFINITY;
			for (int i = 0; i < 6000; i++) {
				if (i == 4000) {
					learned = judge_learned(script.judge);
					if (!with)
						json_object_set_new(learned, "noise", json_real(0));
					assert_int_equal(resume(learned), 0);
					json_decref(learned);
					script.n_said = 0;
				}
				for (size_t r = 0; r < 8; r++)
					script.once[r][ACTIVITY_DATALOADER] = script_chance(0.05) ? 200 * MS : 0;
				script_step();
			}
			findings[with] += script.n_said;
			script_end();
		}
	}
	assert_true(findings[1] < findings[0]);
}

TEST(a_slow_checkpoint_is_one_after_a_restart)
{
	json_t *learned;

	begin(2);
	for (int i = 0; i < 12; i++) {
		script_run(5);
		script_once(ACTIVITY_CHECKPOINT, 0);
		script.once[0][ACTIVITY_CHECKPOINT] = 200 * MS;
		script_step();
	}
	learned = judge_learned(script.judge);
	assert_int_equal(resume(learned), 0);
	json_decref(learned);
	for (int i = 0; i < 4; i++) {
		script_run(5);
		script.once[0][ACTIVITY_CHECKPOINT] = 2000 * MS;
		script_step();
	}
	script_only(0, ACTIVITY_CHECKPOINT);
	script.slack = 1000; /* usual checkpoints are no loss */
	script_end();
}

/* One that only acts, or serves parameters, and one that has just come. */
TEST(a_rank_without_steps_resumes_as_a_new_one)
{
	json_t *learned;

	begin(4);
	script.missing[2] = script.missing[3] = true;
	script_run(LEARN_S);
	script.missing[3] = false;
	script_run(3);
	learned = judge_learned(script.judge);
	assert_int_equal(resume(learned), 0);
	json_decref(learned);
	script_run(20);
	script.fault[1][ACTIVITY_DATALOADER] = 40 * MS;
	script_run(30);
	script_only(1, ACTIVITY_DATALOADER);
	assert_true(fabs(script.said[0].finding.slowdown - 1.4) < 0.02);
	script_end();
}

/* The rest may come with the next frame. */
TEST(all_ranks_must_be_there)
{
	json_t *learned;

	begin(4);
	script_run(LEARN_S);
	learned = judge_learned(script.judge);
	assert_int_equal(resume_of(learned, 3), -EINVAL);
	assert_int_equal(resume(learned), 0);
	json_decref(learned);
	script_end();
}

/* A daemon that is started twice at once. */
TEST(what_was_resumed_is_kept_at_once)
{
	json_t *learned, *again;

	begin(2);
	script_run(LEARN_S);
	learned = judge_learned(script.judge);
	assert_int_equal(resume(learned), 0);
	again = judge_learned(script.judge);
	assert_true(json_equal(json_object_get(learned, "ranks"), json_object_get(again, "ranks")));
	json_decref(learned);
	script_step();
	assert_int_equal(resume(again), 0);
	json_decref(again);
	script_end();
}

/* After a longer time the job may do other work. */
TEST(an_hour_is_the_most)
{
	for (unsigned minutes = 50; minutes <= 70; minutes += 20) {
		json_t *learned;

		begin(2);
		script_run(LEARN_S);
		learned = judge_learned(script.judge);
		script.now_ns += minutes * 60 * 1000000000ULL;
		assert_int_equal(resume(learned), minutes < 60 ? 0 : -EINVAL);
		json_object_set_new(
			learned, "time_ns", json_integer((json_int_t)script.now_ns + 1)); /* of another boot */
		assert_int_equal(resume(learned), -EINVAL);
		json_decref(learned);
		script_end();
	}
}

/* The evaluation of one rank that is no longer than the last one. */
TEST(a_habit_is_kept)
{
	json_t *learned;
	size_t said;

	begin(2);
	script_run(LEARN_S);
	for (int i = 0; i < 3; i++) {
		script.once[0][ACTIVITY_OUTSIDE] = 20;
		script_step();
		script_run(100);
	}
	said = script.n_said;
	learned = judge_learned(script.judge);
	assert_int_equal(resume(learned), 0);
	json_decref(learned);
	script_run(60);
	script.once[0][ACTIVITY_OUTSIDE] = 20;
	script_step();
	script_run(60);
	script_expect(said);
	script.slack = 1000;
	script_end();
}

/* L0 for a second of ten, steps without it 6 ms shorter: a fault of less is seen. */
TEST(a_fault_in_windows_is_found_after_a_restart)
{
	json_t *learned;

	begin(2);
	script_run(30);
	for (int i = 0; i < 40; i++) {
		script.unsplit = i % 2 == 0;
		script_all(ACTIVITY_FORWARD, script.unsplit ? -6 * MS : 0);
		script_run(script.unsplit ? 9 : 1);
	}
	script_expect(0);
	learned = judge_learned(script.judge);
	assert_int_equal(resume(learned), 0);
	json_decref(learned);
	for (int i = 0; i < 12 && !script.n_said; i++) {
		bool wanted = script.wants & JUDGE_WANT_STAGES;

		script.unsplit = i % 2 == 0 && !wanted;
		script_all(ACTIVITY_FORWARD, script.unsplit ? -6 * MS : 0);
		script.fault[1][ACTIVITY_DATALOADER] = 4 * MS;
		script_run(script.unsplit ? 9 : wanted ? 10 : 1);
	}
	script_only(1, ACTIVITY_DATALOADER);
	script.slack = 1000;
	script_end();
}

/* A fault of a job that had just begun is partly in what was learned: the rest belongs to the same episode. */
TEST(what_was_learned_may_have_a_part_of_the_fault)
{
	json_t *learned;

	begin(3);
	script_run(3);
	script.fault[1][ACTIVITY_DATALOADER] = 60 * MS;
	script_run(9);
	learned = judge_learned(script.judge);
	assert_int_equal(resume(learned), 0);
	json_decref(learned);
	script.n_said = 0;
	script_run(60);
	script_only(1, ACTIVITY_DATALOADER);
	script.slack = 1000;
	script_end();
}

TEST(too_little_is_not_kept)
{
	json_t *learned;

	begin(2);
	script_run(5);
	assert_null(judge_learned(script.judge));
	script_run(LEARN_S);
	learned = judge_learned(script.judge);
	assert_non_null(learned);
	json_decref(learned);
	script_end();
}

/* Each rank is the process that it was. */
TEST(other_processes_have_learned_nothing)
{
	json_t *learned;

	begin(3);
	script_run(LEARN_S);
	learned = judge_learned(script.judge);
	script.who[2].pid++;
	assert_int_equal(resume(learned), -EINVAL);
	script.who[2].pid = 0;
	assert_int_equal(resume(learned), -EINVAL);
	script.who[2].pid = 1002;
	script.who[2].rank = 5;
	assert_int_equal(resume(learned), -EINVAL);
	script.who[2].rank = 2;
	snprintf(script.who[2].host, sizeof(script.who[2].host), "node-b");
	assert_int_equal(resume(learned), -EINVAL);
	snprintf(script.who[2].host, sizeof(script.who[2].host), "node-a");
	assert_int_equal(resume(learned), 0);
	/* In another order. */
	script.who[0].rank = 2;
	script.who[0].pid = 1002;
	script.who[2].rank = 0;
	script.who[2].pid = 1000;
	assert_int_equal(resume(learned), 0);
	json_decref(learned);
	script_end();
}

static json_t *damaged(const json_t *learned, const char *where, const char *key, json_t *value)
{
	json_t *ret = json_deep_copy(learned), *at = ret;

	if (where)
		at = json_array_get(json_object_get(ret, "ranks"), 1);
	if (where && where[0])
		at = json_object_get(at, where);
	assert_non_null(json_object_get(at, key));
	if (value)
		json_object_set_new(at, key, value);
	else
		json_object_del(at, key);
	return ret;
}

static void refused(const json_t *learned, const char *where, const char *key)
{
	json_t *const bad[] = {NULL, json_real(-1), json_real(1e13), json_string("1"), json_null(), json_array()};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		json_t *one = damaged(learned, where, key, bad[i]);

		/* What a file of an older version does not have. */
		if (resume(one) != (i == 0 && strcmp(key, "noise") == 0 ? 0 : -EINVAL))
			fail_msg("%s of %s, damaged as %zu", key, where ? where : "the job", i);
		json_decref(one);
	}
}

TEST(what_is_damaged_is_refused)
{
	const char *key;
	json_t *learned, *value, *rank, *one;

	begin(2);
	script.cpu = true;
	script_run(LEARN_S);
	learned = judge_learned(script.judge);
	rank = json_array_get(json_object_get(learned, "ranks"), 1);
	assert_true(json_object_size(json_object_get(rank, "system")) > 0);
	json_object_foreach(learned, key, value) if (json_is_real(value)) refused(learned, NULL, key);
	json_object_foreach(rank, key, value) if (json_is_real(value)) refused(learned, "", key);
	json_object_foreach(json_object_get(rank, "activities"), key, value) refused(learned, "activities", key);
	json_object_foreach(json_object_get(rank, "system"), key, value)
	{
		one = damaged(learned, "system", key, json_pack("[f, f]", 1.0, DBL_MAX));
		assert_int_equal(resume(one), -EINVAL);
		json_decref(one);
	}
	one = damaged(learned, NULL, "ranks", json_array());
	assert_int_equal(resume(one), -EINVAL);
	json_decref(one);
	one = damaged(learned, NULL, "operation_ticks", json_integer(-7));
	assert_int_equal(resume(one), 0);
	json_decref(one);
	script_run(30);
	json_decref(learned);
	script_end();
}

TEST_MAIN(NULL, NULL)
