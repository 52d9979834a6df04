/* SPDX-License-Identifier: Apache-2.0 */
/* Which process is of which job, what class a step is, and host samples. */
#include "tests/unit/align_script.h"

static void where(int number, uint32_t *job, uint32_t *index)
{
	*job = *index = 999;
	assert_true(align_locate(align, number, job, index));
}

static uint32_t job_of(int number)
{
	uint32_t job, index;

	where(number, &job, &index);
	return job;
}

TEST(two_jobs_on_a_node)
{
	struct align_job_info job;

	begin();
	for (int i = 0; i < 4; i++)
		process[i] = rank_of(i < 2 ? "one" : "two", i % 2, 2, "node", true);
	steps_alike(2, 1, 5);
	assert_int_equal(n_seen, 5);
	step_at(2, 1, 0, 100);
	step_at(3, 1, 0, 100);
	assert_int_equal(n_seen, 6);
	assert_int_not_equal(seen[5].job, seen[0].job);
	assert_true(align_job_info(align, 0, &job));
	assert_string_equal(job.job, "one");
	assert_int_equal(job.ranks, 2);
	assert_int_equal(job.process[1], process[1]);
	assert_int_equal(job.step_ns, 100 * MS);
	assert_false(job.ended);
	assert_true(align_job_info(align, 1, &job));
	assert_string_equal(job.job, "two");
	assert_false(align_job_info(align, 2, &job));
	assert_false(align_job_info(align, UINT32_MAX, &job));
	align_rank_end(align, process[0], start_ns);
	align_rank_end(align, process[0], start_ns);
	align_rank_end(align, process[1], start_ns);
	assert_true(align_job_info(align, 0, &job));
	assert_true(job.ended);
}

static int rank_of_user(const char *job, int32_t rank, uint32_t uid)
{
	int number = align_rank_new(align, &(struct align_rank){.job = job,
						   .rank = rank,
						   .world_size = 4,
						   .host = "node",
						   .card = "",
						   .start_ns = start_ns,
						   .uid = uid});

	assert_true(number >= 0);
	return number;
}

/* Whatever they claim. A rank whose user is not known, of an old store, is of the job that its word names. */
TEST(ranks_of_two_users)
{
	struct align_job_info job;
	int a, b, claimed, without, other_without;

	begin();
	a = rank_of_user("one", 0, 1000);
	claimed = rank_of_user("one", 1, 65534);
	b = rank_of_user("one", 1, 1000);
	assert_int_equal(job_of(a), job_of(b));
	assert_int_not_equal(job_of(a), job_of(claimed));
	assert_true(align_job_info(align, job_of(claimed), &job));
	assert_int_equal(job.uid, 65534);
	without = rank_of_user("", 0, 1000);
	other_without = rank_of_user("", 1, 1001);
	assert_int_not_equal(job_of(without), job_of(other_without));
	assert_int_equal(job_of(rank_of_user("one", 2, ALIGN_UID_UNKNOWN)), job_of(a));
	assert_int_equal(
		job_of(rank_of_user("old", 0, ALIGN_UID_UNKNOWN)), job_of(rank_of_user("old", 1, ALIGN_UID_UNKNOWN)));
}

/* One user cannot take the place of all others' jobs. */
TEST(jobs_of_a_user_are_bounded)
{
	int refused = 0;

	begin();
	for (int i = 0; i < 2 * ALIGN_JOBS_MAX; i++) {
		char word[16];

		snprintf(word, sizeof(word), "job %d", i);
		refused += align_rank_new(align, &(struct align_rank){.job = word,
							 .rank = 0,
							 .world_size = 4,
							 .host = "node",
							 .card = "",
							 .start_ns = start_ns,
							 .uid = 65534}) < 0;
	}
	assert_int_equal(refused, 2 * ALIGN_JOBS_MAX - ALIGN_JOBS_USER_MAX);
	(void)job_of(rank_of_user("mine", 0, 1000));
}

TEST(ranks_without_a_job_word)
{
	int a, b, c, d;

	begin();
	a = rank_of("", 0, 4, "node", true);
	b = rank_of(NULL, 1, 4, "node", true);
	start_ns += 119000 * MS;
	c = rank_of("", 2, 4, "node", true);
	start_ns += 2000 * MS;
	d = rank_of("", 3, 4, "node", true);
	assert_int_equal(job_of(a), job_of(b));
	assert_int_equal(job_of(a), job_of(c));
	assert_int_not_equal(job_of(a), job_of(d));
	assert_int_not_equal(job_of(a), job_of(rank_of("", 4, 8, "node", true)));
	start_ns -= 121000 * MS;
}

static int rank_at(int32_t rank, uint16_t port)
{
	int number = align_rank_new(align, &(struct align_rank){.job = "",
						   .rank = rank,
						   .world_size = 2,
						   .host = "node",
						   .card = "",
						   .start_ns = start_ns,
						   .port = port});

	assert_true(number >= 0);
	return number;
}

/* Ranks of both come in any order; only their operations distinguish the jobs. */
TEST(two_jobs_that_begin_together)
{
	int a0, a1, b0, b1, c0, c1;

	begin();
	a0 = rank_at(0, 29500);
	b0 = rank_at(0, 29501);
	b1 = rank_at(1, 29501);
	a1 = rank_at(1, 29500);
	assert_int_equal(job_of(a0), job_of(a1));
	assert_int_equal(job_of(b0), job_of(b1));
	assert_int_not_equal(job_of(a0), job_of(b0));
	/* Where it is not known of some, as before. */
	c0 = rank_at(0, 0);
	c1 = rank_at(1, 29502);
	assert_int_equal(job_of(c0), job_of(c1));
}

static int rank_by(int32_t rank, uint64_t launcher, uint64_t at)
{
	int number = align_rank_new(align, &(struct align_rank){.job = "",
						   .rank = rank,
						   .world_size = 2,
						   .host = "node",
						   .card = "",
						   .start_ns = start_ns + at * MS,
						   .launcher = launcher});

	assert_true(number >= 0);
	return number;
}

/* No port distinguishes them: who started them does, and else when. */
TEST(two_jobs_of_two_launchers)
{
	int a0, a1, b0, b1;

	begin();
	a0 = rank_by(0, 41, 0);
	b0 = rank_by(0, 42, 0);
	b1 = rank_by(1, 42, 0);
	a1 = rank_by(1, 41, 0);
	assert_int_equal(job_of(a0), job_of(a1));
	assert_int_equal(job_of(b0), job_of(b1));
	assert_int_not_equal(job_of(a0), job_of(b0));
	begin();
	a0 = rank_by(0, 0, 0);
	b0 = rank_by(0, 0, 10000);
	b1 = rank_by(1, 0, 10100);
	a1 = rank_by(1, 0, 200);
	assert_int_equal(job_of(a0), job_of(a1));
	assert_int_equal(job_of(b0), job_of(b1));
}

TEST(a_rank_twice)
{
	uint32_t job, index;
	int first, second, third;

	begin();
	first = rank_of("job", 3, 8, "node", true);
	second = rank_of("job", 3, 8, "node", true);
	assert_int_not_equal(job_of(first), job_of(second));
	align_rank_end(align, first, start_ns + 100 * MS);
	start_ns += 50 * MS;
	third = rank_of("job", 3, 8, "node", true);
	start_ns -= 50 * MS;
	where(third, &job, &index);
	assert_int_equal(job, 0);
	assert_int_equal(index, 0);
	assert_false(align_locate(align, first, &job, &index)); /* its number is reused */
	align_rank_end(align, third, start_ns + 100 * MS);
	start_ns += 200 * MS; /* after the last one's end: another run */
	assert_int_not_equal(job_of(rank_of("job", 3, 8, "node", true)), 0);
	start_ns -= 200 * MS;
}

TEST(another_world_size_is_another_job)
{
	begin_job(2, true);
	assert_int_not_equal(job_of(process[0]), job_of(rank_of("job", 1, 3, "node", true)));
}

TEST(a_card_is_known_later)
{
	char huge[200];

	begin_job(2, true);
	steps_alike(2, 1, 5);
	align_rank_card(align, process[1], "6");
	align_rank_card(align, 99, "7");
	align_rank_card(align, -1, "7");
	steps_alike(2, 6, 10);
	assert_int_equal(n_seen, 10);
	assert_string_equal(seen[4].who[1].card, "");
	assert_string_equal(seen[5].who[1].card, "6");
	assert_string_equal(seen[9].who[1].card, "6");
	assert_string_equal(seen[9].who[0].card, "");
	assert_string_equal(seen[9].who[1].host, "node");
	/* Of a rank that was started anew, it is its own. */
	align_rank_end(align, process[1], start_ns);
	start_ns += MS;
	assert_int_not_equal(rank_of("job", 1, 2, "node", true), process[1]);
	align_rank_card(align, process[1], "7");
	memset(huge, 'x', sizeof(huge) - 1);
	huge[sizeof(huge) - 1] = 0;
	align_rank_card(align, process[0], huge);
	steps_alike(1, 11, 11);
	align_end(align);
	assert_int_equal(n_seen, 11);
	assert_string_equal(seen[10].who[1].card, "");
	assert_int_equal(strlen(seen[10].who[0].card), sizeof(seen[10].who[0].card) - 1);
}

TEST(ranks_that_cannot_be)
{
	begin();
	assert_int_equal(rank_of("job", -1, 8, "node", true), -EINVAL);
	assert_int_equal(rank_of("job", 8, 8, "node", true), -EINVAL);
	assert_int_equal(rank_of("job", INT32_MIN, 0, NULL, true), -EINVAL);
	assert_int_equal(counts().ranks_left_out, 3);
	assert_int_equal(rank_of("job", INT32_MAX, 0, NULL, true), 0);
	process[0] = 0;
	step_at(0, 1, 0, 100);
	assert_int_equal(n_seen, 1);
	assert_int_equal(seen[0].frame.world_size, 1);
	assert_int_equal(seen[0].who[0].node, FRAME_NONE);
}

TEST(too_many_jobs)
{
	struct align_job_info job, next;
	char word[16];
	int first = -1;

	begin();
	for (int i = 0; i < ALIGN_JOBS_MAX; i++) {
		snprintf(word, sizeof(word), "job %d", i);
		process[0] = rank_of(word, 0, 1, "node", true);
		first = i == 7 ? process[0] : first;
		assert_true(process[0] >= 0);
	}
	assert_int_equal(rank_of("more", 0, 1, "node", true), -ENOSPC);
	assert_true(align_job_info(align, 7, &job));
	align_rank_end(align, first, start_ns);
	assert_int_equal(job_of(rank_of("more", 0, 1, "node", true)), 7);
	assert_true(align_job_info(align, 7, &next));
	assert_string_equal(next.job, "more");
	assert_true(next.id > job.id);
}

/* As a daemon of years: numbers and memory are given again. */
TEST(many_processes)
{
	int most = 0;

	begin();
	for (int i = 0; i < 20000; i++) {
		process[0] = rank_of("job", 0, 1, "node", true);
		assert_true(process[0] >= 0);
		most = process[0] > most ? process[0] : most;
		if (i % 8 == 0)
			step_at(0, 1, 0, 100);
		align_rank_end(align, process[0], start_ns + 1);
	}
	assert_true(most < 5000);
	assert_int_equal(n_seen, 2500);
	assert_int_equal(job_of(process[0]), 0);
}

TEST(classes)
{
	static const enum frame_class expected[] = {FRAME_FIRST, FRAME_FIRST, FRAME_FIRST, FRAME_TRAIN,
		FRAME_CHECKPOINT, FRAME_TRAIN, FRAME_EVALUATION, FRAME_TRAIN, FRAME_TRAIN, FRAME_CHECKPOINT,
		FRAME_TRAIN, FRAME_FIRST, FRAME_TRAIN};
	uint64_t now = 0;
	struct align_job_info job;

	begin_job(2, true);
	for (int64_t step = 1; step <= 13; step++) {
		if (step == 7) /* an evaluation of 40 batches */
			for (int i = 0; i < 40; i++, now += 10)
				stage_at(0, STEPS_NONE, STAGE_FORWARD, now, 9);
		if (step == 9) /* the loader's last call, no more */
			stage_at(0, STEPS_NONE, STAGE_DATALOADER, now, 9);
		if (step == 10)
			stage_at(1, STEPS_NONE, STAGE_CHECKPOINT, now, 700);
		if (step == 12)
			now += 5000; /* a pause */
		if (step == 5)
			stage_at(1, step, STAGE_CHECKPOINT, now + 10, 80);
		step_at(0, step, now, 100);
		step_at(1, step, now, 100);
		now += 100;
	}
	assert_int_equal(n_seen, 13);
	for (size_t i = 0; i < 13; i++)
		assert_int_equal(seen[i].frame.class, expected[i]);
	assert_true(align_job_info(align, 0, &job));
	assert_int_equal(job.checkpoint_ns, 700 * MS);
	assert_int_equal(job.warm_ns, 100 * MS);
	assert_int_equal(job.phase_ns, 5100 * MS);
}

static void sample_of(
	uint64_t from, uint64_t length, uint64_t cpu, uint64_t delay, uint64_t preemptor_ns, const char *preemptor)
{
	align_host(align, process[0],
		&(struct align_host){.start_ns = start_ns + from * MS,
			.duration_ns = length * MS,
			.cpu_ns = cpu,
			.run_delay_ns = delay,
			.throttled_ns = FRAME_UNKNOWN,
			.major_faults = 100,
			.launch_gap_ns = FRAME_UNKNOWN,
			.preemptor_pid = (uint32_t)(unsigned char)preemptor[0],
			.preemptor_ns = preemptor_ns,
			.preemptor_name = preemptor});
}

static void sample(uint64_t from, uint64_t length, uint64_t cpu, uint64_t delay, const char *preemptor)
{
	sample_of(from, length, cpu, delay, *preemptor ? delay : 0, preemptor);
}

TEST(host_samples_are_divided_by_time)
{
	begin_job(1, true);
	step_at(0, 1, 0, 100);
	assert_int_equal(n_seen, 1); /* nothing measured, nothing waited for */
	sample(0, 150, 150 * MS, 0, "");
	step_at(0, 2, 100, 100);
	assert_int_equal(n_seen, 1); /* its second half was not measured yet */
	step_at(0, 3, 200, 200);
	sample(150, 200, 200 * MS, 100 * MS, "a name that is too long");
	assert_int_equal(n_seen, 2);
	assert_int_equal(seen[1].rank[0].host.cpu_ns, 100 * MS);
	assert_int_equal(seen[1].rank[0].host.run_delay_ns, 25 * MS);
	assert_int_equal(seen[1].rank[0].host.throttled_ns, FRAME_UNKNOWN);
	assert_int_equal(seen[1].rank[0].host.major_faults, 58); /* 33.3 + 25 */
	assert_int_equal(seen[1].rank[0].host.preemptor_pid, 'a');
	assert_string_equal(seen[1].rank[0].host.preemptor_name, "a name that is ");
	align_end(align);
	assert_int_equal(n_seen, 3); /* three quarters of it were measured */
	assert_int_equal(seen[2].rank[0].host.cpu_ns, 200 * MS);
	assert_int_equal(seen[2].rank[0].host.run_delay_ns, 100 * MS);
	sample(400, 30, 30 * MS, 0, "");
	step_at(0, 4, 400, 100);
	align_end(align);
	assert_int_equal(seen[3].rank[0].host.cpu_ns, FRAME_UNKNOWN); /* a third is too little */
}

/* Its delay is counted, and nobody is named for it. */
TEST(who_watches_is_no_preemptor)
{
	begin_job(1, true);
	sample(0, 100, 50 * MS, 20 * MS, "ranktraced");
	step_at(0, 1, 0, 100);
	sample(100, 100, 50 * MS, 20 * MS, "ranktracedog");
	step_at(0, 2, 100, 100);
	align_end(align);
	assert_int_equal(n_seen, 2);
	assert_int_equal(seen[0].rank[0].host.run_delay_ns, 20 * MS);
	assert_int_equal(seen[0].rank[0].host.preemptor_pid, 0);
	assert_string_equal(seen[0].rank[0].host.preemptor_name, "");
	assert_string_equal(seen[1].rank[0].host.preemptor_name, "ranktracedog");
}

/* By what it took itself, not by how long was waited where it took most. */
TEST(the_preemptor_of_a_step_took_most_of_it)
{
	begin_job(1, true);
	sample_of(0, 50, 10 * MS, 30 * MS, 12 * MS, "among many");
	sample_of(50, 50, 10 * MS, 20 * MS, 16 * MS, "more");
	step_at(0, 1, 0, 100);
	/* Twice the same, with another between; what lies in another step does not count. */
	sample_of(100, 40, 10 * MS, 20 * MS, 10 * MS, "twice");
	sample_of(140, 40, 10 * MS, 20 * MS, 10 * MS, "twice");
	sample_of(180, 40, 10 * MS, 30 * MS, 26 * MS, "half of it here");
	step_at(0, 2, 100, 100);
	step_at(0, 3, 200, 100);
	/* More than was waited: as much as was waited. */
	sample_of(220, 40, 10 * MS, 14 * MS, 999 * MS, "impossible");
	sample_of(260, 40, 10 * MS, 15 * MS, 15 * MS, "whole");
	align_end(align);
	assert_int_equal(n_seen, 3);
	assert_string_equal(seen[0].rank[0].host.preemptor_name, "more");
	assert_int_equal(seen[0].rank[0].host.run_delay_ns, 50 * MS);
	assert_string_equal(seen[1].rank[0].host.preemptor_name, "twice");
	assert_string_equal(seen[2].rank[0].host.preemptor_name, "whole");
}

TEST(host_samples_that_end_are_waited_for_once)
{
	begin_job(1, true);
	for (int64_t step = 1; step <= 400; step++) {
		step_at(0, step, (uint64_t)(step - 1) * 100, 100);
		if (step <= 100 && step % 10 == 0)
			sample((uint64_t)(step - 10) * 100, 1000, 500 * MS, 0, "");
		at((uint64_t)step * 100);
		assert_true((uint64_t)step - n_seen <= 60);
	}
	assert_int_equal(n_seen, 400);
	assert_int_equal(seen[99].rank[0].host.cpu_ns, 50 * MS);
	assert_int_equal(seen[100].rank[0].host.cpu_ns, FRAME_UNKNOWN);
}

/* A step of ten minutes: samples that wait are put together. */
TEST(many_samples_in_a_step)
{
	begin_job(1, true);
	for (uint64_t i = 0; i < 600; i++)
		sample(i * 1000, 1000, 250 * MS, i == 300 ? 900 * MS : 0, i == 300 ? "cpu" : "");
	step_at(0, 1, 0, 600000);
	assert_int_equal(n_seen, 1);
	assert_int_equal(seen[0].rank[0].host.cpu_ns, 150000 * MS);
	assert_int_equal(seen[0].rank[0].host.run_delay_ns, 900 * MS);
	assert_string_equal(seen[0].rank[0].host.preemptor_name, "cpu");
}

/* As they are put together: what each took is added up, and no other's waits are. */
TEST(many_preemptors_in_a_step)
{
	begin_job(1, true);
	for (uint64_t i = 0; i < 600; i++) {
		if (i < 40)
			sample_of(i * 1000, 1000, 250 * MS, 20 * MS, 10 * MS, "often");
		else
			sample_of(i * 1000, 1000, 250 * MS, 500 * MS, i == 300 ? 200 * MS : 0, i == 300 ? "once" : "");
	}
	step_at(0, 1, 0, 600000);
	assert_int_equal(n_seen, 1);
	assert_string_equal(seen[0].rank[0].host.preemptor_name, "often");
}

TEST(a_clock_that_goes_back)
{
	begin_job(1, true);
	steps_alike(1, 1, 5);
	for (int64_t step = 6; step <= 10; step++) {
		align_step(align, process[0],
			&(struct align_step){
				step, start_ns - 100000 * MS + (uint64_t)step * 100 * MS, 100 * MS, false});
	}
	assert_int_equal(n_seen, 10);
	assert_int_equal(seen[9].rank[0].step_ns, 100 * MS);
	assert_int_equal(seen[9].frame.class, FRAME_TRAIN);
}

/* One stops for a minute within a step: the others cannot go on, and its step is in the frame. */
TEST(a_rank_that_stops_is_waited_for)
{
	begin_job(4, true);
	steps_alike(4, 1, 10);
	for (int i = 0; i < 3; i++)
		step_at(i, 11, 1000, 100);
	for (uint64_t now = 1100; now < 61000; now += 500)
		at(now);
	assert_int_equal(n_seen, 10);
	step_at(3, 11, 1000, 60000);
	assert_int_equal(n_seen, 11);
	assert_int_equal(seen[10].rank[3].step_ns, 60000 * MS);
}

/* One whose steps are not seen any more, while the others go on: they wait 10 s of 100 steps. */
TEST(a_rank_that_is_silent_is_waited_for_once)
{
	begin_job(4, true);
	steps_alike(4, 1, 10);
	for (int64_t step = 11; step <= 200; step++) {
		for (int i = 0; i < (step > 190 ? 4 : 3); i++)
			step_at(i, step, (uint64_t)(step - 1) * 100, 100);
		at((uint64_t)step * 100);
		assert_int_equal(n_seen, step > 110 ? step : 10);
	}
	assert_int_equal(seen[100].here, 3);
	assert_int_equal(seen[199].here, 4);
}

/* Of a rank that stalls for 20 s, another runs `ahead` steps on, and stands until it goes on: the step is whole. */
TEST(a_rank_that_stalls_is_waited_for_while_the_others_stand)
{
	for (int64_t ahead = 1; ahead <= 4; ahead++) {
		begin_job(2, true);
		steps_alike(2, 1, 10);
		for (int64_t step = 11; step < 11 + ahead; step++)
			step_at(0, step, (uint64_t)(step - 1) * 100, 100);
		for (uint64_t now = 1100; now < 21000; now += 500)
			at(now);
		assert_int_equal(n_seen, 10);
		step_at(0, 11 + ahead, 1000 + (uint64_t)ahead * 100, 20000);
		at(21010 + (uint64_t)ahead * 100);
		step_at(1, 11, 1000, 20000);
		assert_int_equal(n_seen, 11);
		assert_int_equal(seen[10].here, 2);
		assert_int_equal(seen[10].rank[1].step_ns, 20000 * MS);
	}
}

TEST_MAIN(NULL, done)
