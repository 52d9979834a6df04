/* SPDX-License-Identifier: Apache-2.0 */
/* The findings module: who is watched, and what its judge is fed, in which clock and tier. */
#define TEST_ALONE /* replaces functions of the daemon */
#include "daemon/base/job_thread.h"
#include "tests/unit/findings_fixture.h"

#include <fcntl.h>

static void mark(unsigned rank, uint64_t time_ns, enum steps_edge edge, const char *stage)
{
	rank_steps_mark(context.steps, &ranks_here[rank],
		&(struct steps_mark){
			.time_ns = time_ns, .thread_id = 100 + rank, .edge = edge, .stage = stage, .name = ""});
}

static void one_step(unsigned rank, uint64_t start_ns)
{
	static const char *const stages[] = {"dataloader", "forward", "backward", "optimizer"};

	for (unsigned i = 0; i < 4; i++) {
		mark(rank, start_ns + i * 10 * MS, STEPS_BEGIN, stages[i]);
		mark(rank, start_ns + i * 10 * MS + 8 * MS, STEPS_END, stages[i]);
	}
}

TEST_WITH(test_who_is_watched, setup, teardown)
{
	assert_int_equal(seen.ranks, RANKS);
	assert_string_equal(seen.job, "j");
	notify_rank(&ranks_here[0], RANK_CHANGED); /* nothing that matters here */
	assert_int_equal(seen.ranks, RANKS);
	assert_int_equal(seen.ended, 0);
	/* Its card is found: it goes on as the same. */
	(void)copy_text(ranks_here[1].env.card, sizeof(ranks_here[1].env.card), "5");
	notify_rank(&ranks_here[1], RANK_CHANGED);
	assert_int_equal(seen.ranks, RANKS);
	assert_int_equal(seen.ended, 0);
	assert_int_equal(seen.card_process, 1);
	assert_string_equal(seen.card, "5");
	(void)copy_text(ranks_here[0].env.job, sizeof(ranks_here[0].env.job), "other");
	notify_rank(&ranks_here[0], RANK_CHANGED);
	assert_int_equal(seen.ended, 1);
	assert_int_equal(seen.ranks, RANKS + 1);
	assert_string_equal(seen.job, "other");
	ranks_here[1].role = RANK_ROLE_CHILD;
	notify_rank(&ranks_here[1], RANK_CHANGED);
	assert_int_equal(seen.ended, 2);
	ranks_here[1].role = RANK_ROLE_RANK;
	/* A disabled module ignores all input. */
	online_steps_observer.step(NULL, 0, 1, &(struct steps_step){.step = 1});
	online_tick(NULL, 1);
}

TEST_WITH(test_steps_and_stages, setup, teardown)
{
	for (uint64_t step = 0; step < 4; step++)
		one_step(0, (1000 + step * 50) * MS);
	assert_true(seen.steps >= 2);
	assert_true(seen.stages >= 8);
	assert_int_equal(seen.stage.thread_id, 100);
	assert_true(seen.stage.start_ns >= 1000 * MS && seen.stage.start_ns < 1300 * MS); /* not UTC */
	assert_true(seen.stage.kind != STAGE_USER);
}

static struct coll_row row_of(const char *family)
{
	return (struct coll_row){
		.communicator = "00000000000000aa",
		.seq = 5,
		.seq_from = COLL_SEQ_INIT,
		.family = family,
		.op = "AllReduce",
		.dtype = "",
		.bytes = 4096,
		.peer = -1,
		.host_start_ns = 10 * MS,
		.host_duration_ns = 3 * MS,
		.device_start_ns = COLL_UNKNOWN,
		.device_duration_ns = COLL_UNKNOWN,
	};
}

static void feed(const struct coll_row *row)
{
	online_coll_observer.row(context.findings, 0, ranks_here[0].instance, row, 7, 0);
}

/* A time that covers only queueing would blame any rank. */
TEST_WITH(test_tiers, setup, teardown)
{
	struct coll_row row = row_of("nccl");

	feed(&row);
	assert_int_equal(seen.ops, 0);
	row.device = true;
	row.device_start_ns = 12 * MS;
	row.device_duration_ns = 1 * MS;
	feed(&row);
	assert_int_equal(seen.ops, 1);
	assert_int_equal(seen.op.tier, FRAME_TIER_DEVICE);
	assert_true(seen.op.start_ns == 12 * MS && seen.op.duration_ns == 1 * MS);
	assert_int_equal(seen.op.step, 7);
	row = row_of("gloo");
	feed(&row);
	assert_int_equal(seen.ops, 2);
	assert_int_equal(seen.op.tier, FRAME_TIER_HOST);
	assert_true(seen.op.start_ns == 10 * MS && seen.op.duration_ns == 3 * MS);
	assert_int_equal(seen.op.seq, 5);
	assert_string_equal(seen.coll_name, "AllReduce");
	row.seq_from = COLL_SEQ_ATTACH; /* not to be joined */
	feed(&row);
	assert_int_equal(seen.op.seq, 0);
	row.captured = true;
	feed(&row);
	row = row_of("gloo");
	row.result = -1;
	feed(&row);
	row = row_of("gloo");
	row.host_duration_ns = COLL_UNKNOWN;
	feed(&row);
	assert_int_equal(seen.ops, 3);
	/* Another rank's slot by now. */
	row = row_of("gloo");
	online_coll_observer.row(context.findings, 0, 99, &row, 7, 0);
	online_coll_observer.row(context.findings, 4000, 1, &row, 7, 0);
	assert_int_equal(seen.ops, 3);
}

static void wait_of(uint32_t thread_id, uint64_t run_delay_ns, uint32_t preemptor_pid, const char *preemptor_name)
{
	online_wait(context.findings, 0, ranks_here[0].instance,
		&(struct online_wait_info){thread_id, 5 * MS, 4 * MS, run_delay_ns, preemptor_pid, preemptor_name});
}

/* Waits go out with the sample of their time; who took most of it is named. */
TEST_WITH(test_waits, setup, teardown)
{
	uint64_t now_ns = monotonic_ns();

	FAKE_PUT(root, 100, 1, 0, .state = 'R');
	context.levels.on[LEVEL_L3] = true;
	online_tick(context.findings, now_ns);
	wait_of(100, 3 * MS, 77, "stress-ng");
	wait_of(100, 2 * MS, 78, "other");
	wait_of(100, 2 * MS, 78, "other");
	wait_of(100, 1 * MS, 0, "idle");
	wait_of(101, 90 * MS, 79, "not ours"); /* a thread that the step does not wait for */
	for (uint32_t i = 0; i < 100; i++)
		wait_of(100, 1, 1000 + i, "small");
	assert_int_equal(seen.hosts, 0);
	online_tick(context.findings, now_ns + NSEC_PER_SEC);
	assert_int_equal(seen.hosts, 1);
	assert_true(seen.host.run_delay_ns == 8 * MS + 100);
	assert_int_equal(seen.host.preemptor_pid, 78);
	assert_string_equal(seen.preemptor_name, "other");
	online_tick(context.findings, now_ns + 2 * NSEC_PER_SEC);
	assert_true(seen.host.run_delay_ns == 0 && seen.host.preemptor_pid == 0);
	for (uint32_t i = 0; i < 4; i++) /* nobody had much of it */
		wait_of(100, 2 * MS, 80 + i, "small");
	online_tick(context.findings, now_ns + 3 * NSEC_PER_SEC);
	assert_true(seen.host.run_delay_ns == 8 * MS && seen.host.preemptor_pid == 0);
	context.levels.on[LEVEL_L3] = false;
	online_tick(context.findings, now_ns + 4 * NSEC_PER_SEC);
	assert_true(seen.host.run_delay_ns == FRAME_UNKNOWN); /* not counted by this kernel, nor sampled */
	online_launches(context.findings, 0, ranks_here[0].instance, 1 * MS, 50 * MS, 9 * MS);
	assert_true(seen.host.launch_gap_ns == 9 * MS && seen.host.run_delay_ns == FRAME_UNKNOWN);
}

TEST_WITH(test_samples, setup, teardown)
{
	uint64_t now_ns = monotonic_ns();
	struct online_counts counts;

	FAKE_PUT(root, 100, 1, 0, .state = 'R'); /* the other rank's process has vanished */
	for (unsigned i = 0; i <= 25; i++) {
		/* Read back before the first row ends. */
		FAKE_PUT(root, 100, 1, 0, .state = 'R', .swapped_kib = i == 5 ? 77 : 0);
		online_tick(context.findings, now_ns + i * NSEC_PER_SEC);
	}
	assert_int_equal(seen.hosts, 25);
	assert_int_equal(seen.advances, 26);
	assert_true(seen.host.duration_ns == NSEC_PER_SEC);
	assert_true(seen.host.run_delay_ns == FRAME_UNKNOWN);
	online_counts_get(context.findings, &counts);
	assert_int_equal(counts.samples, 25);
	assert_int_equal(counts.frames, 17);
	notify_rank(&ranks_here[0], RANK_ENDED); /* and the rest of its row goes out */
	flush();
	assert_query("select rank, duration_ns / 1000000000, major_faults, state, run_delay_ns, swapped_bytes / 1024 "
		     "from host_samples "
		     "order by start_ns",
		"0|10|NULL|R|NULL|77\n0|10|NULL|R|NULL|0\n0|5|NULL|R|NULL|0\n");
}

/* A file that does not answer stops nobody. */
TEST_WITH(test_samples_that_wait, setup, teardown)
{
	uint64_t now_ns = monotonic_ns();
	char path[256];
	int fd;

	FAKE_PUT(root, 100, 1, 0, .state = 'R');
	context.findings->wait_ns = MS;
	snprintf(path, sizeof(path), "%s/100/cgroup", root);
	(void)unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	for (unsigned i = 0; i < 5; i++)
		online_tick(context.findings, now_ns + i * NSEC_PER_SEC);
	assert_int_equal(seen.advances, 5);
	assert_non_null(context.findings->reads);
	fd = open(path, O_WRONLY | O_CLOEXEC); /* waits for the reader, who then reads no more */
	assert_true(fd >= 0);
	assert_int_equal(unlink(path), 0);
	close(fd);
	assert_true(job_thread_wait(
		context.findings->reader, (struct thread_job *)context.findings->reads, 60 * NSEC_PER_SEC));
	assert_int_equal(seen.hosts, 0);
	context.findings->wait_ns = 60 * NSEC_PER_SEC;
	online_tick(context.findings, now_ns + 10 * NSEC_PER_SEC);
	online_tick(context.findings, now_ns + 12 * NSEC_PER_SEC);
	assert_int_equal(seen.hosts, 2);
	assert_true(seen.host.duration_ns == 2 * NSEC_PER_SEC);
}

/* A rank that ends while its files are read. */
TEST_WITH(test_samples_of_an_ended_rank, setup, teardown)
{
	uint64_t now_ns = monotonic_ns();
	char path[256];

	FAKE_PUT(root, 100, 1, 0, .state = 'R');
	context.findings->wait_ns = MS;
	snprintf(path, sizeof(path), "%s/100/cgroup", root);
	(void)unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	online_tick(context.findings, now_ns);
	notify_rank(&ranks_here[0], RANK_ENDED);
	close(open(path, O_WRONLY | O_CLOEXEC));
	assert_true(job_thread_wait(
		context.findings->reader, (struct thread_job *)context.findings->reads, 60 * NSEC_PER_SEC));
	online_tick(context.findings, now_ns + NSEC_PER_SEC);
	assert_int_equal(seen.hosts, 0);
}

static void long_step(uint64_t step_ns)
{
	online_steps_observer.step(context.findings, 0, ranks_here[0].instance,
		&(struct steps_step){.step = 1, .start_ns = 1, .duration_ns = step_ns});
}

/* Samples that come within so many ms of ticks. */
static unsigned samples_in(uint64_t from_ns, uint64_t ms)
{
	unsigned before = seen.hosts;

	for (uint64_t at = 0; at < ms; at += 100)
		online_tick(context.findings, from_ns + at * MS);
	return seen.hosts - before;
}

/* A step longer than usual is sampled more often, for a limited time. */
TEST_WITH(test_closer_samples, setup, teardown)
{
	uint64_t now_ns = monotonic_ns();
	unsigned all = 0;

	FAKE_PUT(root, 100, 1, 0, .state = 'R');
	seen.step_ns = 50 * MS;
	assert_in_range(samples_in(now_ns, 10000), 8, 10);
	long_step(52 * MS);
	assert_in_range(samples_in(now_ns + 10000 * MS, 5000), 4, 6);
	online_samples_densify(context.findings, now_ns + 15000 * MS);
	assert_in_range(samples_in(now_ns + 15000 * MS, 5000), 46, 52);
	assert_in_range(samples_in(now_ns + 20000 * MS, 5000), 4, 6);
	for (unsigned i = 0; i < 600; i++) { /* ten minutes of it */
		online_samples_densify(context.findings, now_ns + (25000 + i * 1000) * MS);
		all += samples_in(now_ns + (25000 + i * 1000) * MS, 1000);
	}
	assert_in_range(all, 600 + 9 * 90, 600 + 9 * 130);
	flush();
	assert_query("select count(*) from host_samples where duration_ns between 1000000000 and 1400000000 and "
		     "start_ns < (select min(start_ns) from host_samples) + 20000000000",
		"4\n");
	/* While levels are raised it is so anyway: nothing is spent. */
	context.findings->dense_until_ns = 0;
	context.findings->dense_budget_ns = 30 * NSEC_PER_SEC;
	context.findings->auto_level.turned_on[LEVEL_L1] = true;
	context.findings->sample_next_ns = context.findings->sample_last_ns + 60 * NSEC_PER_SEC;
	online_samples_densify(context.findings, monotonic_ns());
	assert_int_equal(context.findings->dense_budget_ns, 30 * NSEC_PER_SEC);
	assert_true(context.findings->sample_next_ns < context.findings->sample_last_ns + NSEC_PER_SEC);
	context.findings->auto_level.turned_on[LEVEL_L1] = false;
	/* By an explicit step. */
	context.findings->dense_budget_at_ns = 0;
	long_step(56 * MS);
	assert_true(context.findings->dense_until_ns > monotonic_ns());
}

/* Changes of L1 are passed on. */
TEST_WITH(test_watched, setup, teardown)
{
	uint64_t now_ns = monotonic_ns();

	online_tick(context.findings, now_ns);
	assert_true(seen.watched_ns == 0);
	context.levels.on[LEVEL_L1] = true;
	online_tick(context.findings, now_ns);
	assert_true(seen.watched_ns >= now_ns);
	online_tick(context.findings, now_ns + 100);
	context.levels.on[LEVEL_L1] = false;
	/* Since the last time that it is known to have been on. */
	online_tick(context.findings, now_ns + 200);
	assert_true(seen.watched_ns == 0);
	assert_true(seen.unwatched_ns == now_ns + 100);
}

TEST_WITH(test_standings, setup, teardown)
{
	uint64_t now_ns = monotonic_ns();

	FAKE_PUT(root, 100, 1, 0, .state = 'T');
	for (uint64_t step = 0; step < 3; step++)
		one_step(0, now_ns - 500 * MS + step * 50 * MS);
	mark(0, now_ns, STEPS_BEGIN, "dataloader");
	online_tick(context.findings, now_ns + MS);
	assert_int_equal(seen.checks, 1);
	assert_int_equal(seen.standings, RANKS);
	assert_int_equal(seen.standing[0].state, 'T');
	assert_int_equal(seen.standing[0].stage, STAGE_DATALOADER);
	assert_true(seen.standing[0].progress_ns == now_ns && seen.standing[0].stage_since_ns == now_ns);
	assert_true(seen.standing[0].steps >= 2 && seen.standing[0].step_end_ns < now_ns);
	assert_true(seen.standing[1].progress_ns == 0 && !seen.standing[1].state && !seen.operations);
	/* Once a second, and those that ended still stand somewhere. */
	online_tick(context.findings, now_ns + 200 * MS);
	assert_int_equal(seen.checks, 1);
	notify_rank(&ranks_here[1], RANK_ENDED);
	online_tick(context.findings, now_ns + 1100 * MS);
	assert_int_equal(seen.checks, 2);
	assert_int_equal(seen.standings, 2);
	assert_true(seen.standing[1].ended && seen.standing[1].rank == 1 && seen.standing[1].ended_ns);
	/* A stack shows where it stands until it goes on. */
	assert_int_equal(seen.standing[0].stack, STANDING_STACK_UNKNOWN);
	context.findings->slot[0].stack_ns = now_ns + 1200 * MS;
	context.findings->slot[0].stack = STANDING_STACK_LOCK;
	online_tick(context.findings, now_ns + 2200 * MS);
	assert_int_equal(seen.standing[0].stack, STANDING_STACK_LOCK);
	context.findings->slot[0].stack = STANDING_STACK_COMMUNICATION;
	online_tick(context.findings, now_ns + 3300 * MS);
	assert_int_equal(seen.standing[0].stack, STANDING_STACK_COMMUNICATION);
	mark(0, now_ns + 3400 * MS, STEPS_END, "dataloader");
	online_tick(context.findings, now_ns + 4500 * MS);
	assert_int_equal(seen.standing[0].stack, STANDING_STACK_UNKNOWN);
}

/* Of a silent rank, a row a second from 3 s on, and rarer the longer it lasts; of one that works, none. */
TEST_WITH(test_standing_rows, setup, teardown)
{
	uint64_t now_ns = monotonic_ns();

	FAKE_PUT(root, 100, 1, 0, .state = 'D');
	one_step(0, now_ns - 500 * MS);
	mark(0, now_ns, STEPS_BEGIN, "dataloader");
	for (uint64_t ms = 500; ms <= 10500; ms += 1000)
		online_tick(context.findings, now_ns + ms * MS);
	flush();
	assert_query("select count(*), min(start_ns - progress_ns) between 3000000000 and 4000000000, "
		     "max(duration_ns), min(state),"
		     " min(stage), min(stage_since_ns = progress_ns), count(ended_ns), min(steps) from standings where "
		     "rank = 0",
		"8|1|1000000000|D|dataloader|1|0|1\n");
	/* Of the other one nothing is known: it is written beside. */
	assert_query("select count(*), count(progress_ns) from standings where rank = 1", "8|0\n");
	for (uint64_t ms = 1000500; ms < 1064500; ms += 1000)
		online_tick(context.findings, now_ns + ms * MS);
	flush();
	assert_query("select count(*) between 8 and 9, max(duration_ns) from standings where rank = 0 and duration_ns "
		     "> 1000000000",
		"1|8000000000\n");
	assert_query("select count(*) from standing_calls", "0\n");
}

/* A daemon that was behind judges as of what it read. */
TEST_WITH(test_behind, setup, teardown)
{
	uint64_t now_ns = monotonic_ns();

	for (uint64_t step = 0; step < 3; step++)
		one_step(0, now_ns - 500 * MS + step * 50 * MS);
	context.drained_ns = now_ns;
	online_tick(context.findings, now_ns + MS);
	assert_int_equal(seen.checks, 1);
	assert_true(seen.check_ns == now_ns && seen.advance_ns == now_ns);
	/* 40 s later the ring is not read to its end. */
	online_tick(context.findings, now_ns + 40000 * MS);
	assert_int_equal(seen.checks, 1);
	assert_true(seen.advance_ns == now_ns);
	rank_steps_tick(context.steps, now_ns + 40000 * MS); /* the last step is over */
	/* It is, and nothing was lost: silence is silence. */
	context.drained_ns = now_ns + 40100 * MS;
	online_tick(context.findings, now_ns + 40200 * MS);
	assert_int_equal(seen.checks, 2);
	assert_true(seen.check_ns == context.drained_ns && seen.standing[0].progress_ns < now_ns);
	assert_true(seen.standing[0].step_end_ns && seen.standing[0].step_end_ns == seen.standing[0].progress_ns);
	assert_true(seen.standing[1].progress_ns == 0);
	/* The ring was full: who was silent may have been none. */
	kernel_lost += 5;
	context.drained_ns = now_ns + 50000 * MS;
	online_tick(context.findings, now_ns + 50000 * MS);
	assert_int_equal(seen.checks, 3);
	assert_true(seen.standing[0].progress_ns == now_ns + 50000 * MS && seen.standing[1].progress_ns == 0);
	/* Nothing says that it began a step. */
	assert_true(seen.standing[0].step_end_ns == seen.standing[0].progress_ns);
	context.drained_ns = now_ns + 52000 * MS;
	online_tick(context.findings, now_ns + 52000 * MS);
	assert_true(seen.standing[0].progress_ns == now_ns + 50000 * MS);
	/* It did. */
	mark(0, now_ns + 52100 * MS, STEPS_BEGIN, "dataloader");
	kernel_lost += 5;
	context.drained_ns = now_ns + 54000 * MS;
	online_tick(context.findings, now_ns + 54000 * MS);
	assert_true(seen.standing[0].progress_ns == now_ns + 54000 * MS && seen.standing[0].step_end_ns < now_ns);
	/* The end of a rank is read before what others did meanwhile. */
	context.levels.on[LEVEL_L1] = true;
	context.drained_ns = monotonic_ns() - 40000 * MS;
	notify_rank(&ranks_here[0], RANK_ENDED);
	assert_int_equal(seen.checks, 5);
	context.drained_ns = monotonic_ns();
	notify_rank(&ranks_here[1], RANK_ENDED);
	assert_int_equal(seen.checks, 6);
	context.drained_ns = 0;
}

/* A job that nobody watches does not hang. */
TEST_WITH(test_unwatched, setup, teardown)
{
	struct probe all_reduce = PROBE("op", "nccl", "AllReduce", OP_FIELD_COUNT, OP_FIELD_DTYPE, OP_FIELD_COMM);
	uint64_t now_ns = monotonic_ns();

	context.levels.on[LEVEL_L1] = true;
	one_step(0, now_ns - 500 * MS);
	mark(0, now_ns, STEPS_BEGIN, "dataloader");
	call_made(&ranks_here[1], &all_reduce,
		&(struct call_made){.start_ns = now_ns, .end_ns = now_ns + MS, WORDS(4000, 7, 0xc0)});
	call_sinks_level(&context, LEVEL_L1, false);
	online_tick(context.findings, now_ns + MS);
	assert_true(seen.standing[0].progress_ns == now_ns && seen.standing[0].stage == STAGE_DATALOADER);
	assert_true(seen.standing[1].progress_ns == now_ns + MS);
	context.levels.on[LEVEL_L1] = false;
	rank_steps_gap(context.steps);
	online_tick(context.findings, now_ns + 1100 * MS);
	assert_int_equal(seen.checks, 2);
	assert_true(seen.standing[0].progress_ns == 0 && seen.standing[0].stage == STAGE_USER);
	assert_true(seen.standing[1].progress_ns == 0);
	/* And no step goes on over what was not seen: the numbers do. */
	one_step(0, now_ns + 5000 * MS);
	one_step(0, now_ns + 5100 * MS);
	notify_rank(&ranks_here[0], RANK_ENDED);
	flush();
	assert_query("select count(*), count(distinct step), max(duration_ns) < 1000000000 from steps", "3|3|1\n");
	assert_query("select count(*) from stages a join steps b using (instance, step) where a.start_ns < b.start_ns",
		"0\n");
}

/* gloo fails where it is called with another size, and ends the ranks before a hang. */
TEST_WITH(test_ended_by_a_mismatch, setup, teardown)
{
	struct probe init =
		PROBE("comm", "gloo", "Init", OP_FIELD_COMM, OP_FIELD_IDENTITY, OP_FIELD_MEMBER, OP_FIELD_MEMBERS);
	struct probe reduce = PROBE("op", "gloo", "AllReduce", OP_FIELD_COUNT, OP_FIELD_COMM, OP_FIELD_WORK);
	struct probe finished = PROBE("finished", "gloo", "", OP_FIELD_WORK);
	uint64_t now_ns = monotonic_ns();

	context.levels.on[LEVEL_L1] = true;
	for (unsigned i = 0; i < RANKS; i++)
		call_made(&ranks_here[i], &init,
			&(struct call_made){.start_ns = now_ns, .end_ns = now_ns, WORDS(0xc0, 0x1234, i, RANKS)});
	for (unsigned i = 0; i < RANKS; i++)
		call_made(&ranks_here[i], &reduce,
			&(struct call_made){.start_ns = now_ns, .end_ns = now_ns, WORDS(4096 << i, 0xc0, 0x50)});
	call_made(&ranks_here[1], &finished, &(struct call_made){.start_ns = now_ns, .end_ns = now_ns, WORDS(0x50)});
	online_tick(context.findings, now_ns + MS);
	assert_int_equal(seen.checks, 1);
	assert_int_equal(seen.stucks, 0); /* no hang */
	notify_rank(&ranks_here[0], RANK_ENDED);
	assert_int_equal(seen.checks, 2);
	assert_int_equal(seen.stucks, 1);
	assert_int_equal(seen.stuck_state, COLL_STATE_SIZE_MISMATCH);
	assert_int_equal(seen.culprits, 1);
	/* The other one follows at once. */
	notify_rank(&ranks_here[1], RANK_ENDED);
	assert_int_equal(seen.checks, 2);
	flush();
	assert_query("select rank, duration_ns, ended_ns is not null from standings order by rank", "0|0|1\n1|0|0\n");
	assert_query("select rank, communicator, seq, seq_from, op, count, called_ns > 0, completed_seq from "
		     "standing_calls order by rank",
		"0|0000000000001234|1|init|AllReduce|4096|1|NULL\n1|0000000000001234|1|init|AllReduce|8192|1|1\n");
}

TEST_WITH(test_off, setup, teardown)
{
	struct online *off = (struct online *)&context;
	size_t before = observer_count;

	context.config.findings_enabled = 0;
	assert_int_equal(online_new(&context, &off), 0);
	assert_null(off);
	assert_int_equal(observer_count, before);
}

TEST_MAIN(NULL, NULL)
