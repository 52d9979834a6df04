/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The room of findings with a judge made up here that notes what it is fed and says what a test wants: who is watched, what is fed
 * in which clock and tier, what goes to the store, and levels that are raised and lowered.
 */
#include "daemon/findings_internal.h"
#include "tests/unit/call_rooms_fixture.h"
#include "tests/unit/fake_proc.h"

#define RANKS 2

/* The judge. */
static struct detect_sink sink;
static int numbers;
static struct {
	unsigned ranks, ended, stages, steps, ops, comms, hosts, looks, advances, lost;
	char job[64];
	struct framer_stage stage;
	struct framer_op op;
	char op_name[32], hog_name[16];
	struct framer_host host;
	struct standing standing[8];
	size_t standings;
	bool operations;
} seen;

void detect_options_default(struct detect_options *ret)
{
	*ret = (struct detect_options){.slow_ratio = 1.05};
}

struct detect *detect_new(const struct detect_options *wanted, const struct detect_sink *told)
{
	assert_true(wanted->hang_ns == 30 * NSEC_PER_SEC);
	sink = *told;
	return (struct detect *)&sink;
}

struct detect *detect_free(struct detect *detect)
{
	(void)detect;
	return NULL;
}

struct framer *detect_framer(struct detect *detect)
{
	return (struct framer *)detect;
}

void detect_look(struct detect *detect, uint64_t now_ns, const struct standing *standing, size_t standings,
	const struct stuck *stuck, const char *const *stuck_job, size_t stucks, bool operations)
{
	(void)detect;
	(void)now_ns;
	(void)stuck;
	(void)stuck_job;
	(void)stucks;
	seen.looks++;
	seen.operations = operations;
	seen.standings = standings;
	memcpy(seen.standing, standing, (standings < 8 ? standings : 8) * sizeof(*standing));
}

void detect_advance(struct detect *detect, uint64_t now_ns)
{
	(void)detect;
	(void)now_ns;
	seen.advances++;
}

static struct finding open_at_end;
static bool has_open;

void detect_end(struct detect *detect)
{
	(void)detect;
	if (has_open)
		sink.finding(sink.arg, &open_at_end);
}

int framer_rank_new(struct framer *framer, const struct framer_rank *rank)
{
	(void)framer;
	seen.ranks++;
	(void)copy_text(seen.job, sizeof(seen.job), rank->job);
	return numbers++;
}

void framer_rank_end(struct framer *framer, int process, uint64_t end_ns)
{
	(void)framer;
	(void)process;
	(void)end_ns;
	seen.ended++;
}

void framer_comm(struct framer *framer, int process, const char *communicator, enum comm_kind kind, uint32_t members,
	int32_t member)
{
	(void)framer;
	(void)process;
	(void)communicator;
	(void)kind;
	(void)members;
	(void)member;
	seen.comms++;
}

void framer_stage(struct framer *framer, int process, const struct framer_stage *stage)
{
	(void)framer;
	(void)process;
	seen.stages++;
	seen.stage = *stage;
}

void framer_step(struct framer *framer, int process, const struct framer_step *step)
{
	(void)framer;
	(void)process;
	(void)step;
	seen.steps++;
}

void framer_op(struct framer *framer, int process, const struct framer_op *op)
{
	(void)framer;
	(void)process;
	seen.ops++;
	seen.op = *op;
	(void)copy_text(seen.op_name, sizeof(seen.op_name), op->op);
}

void framer_host(struct framer *framer, int process, const struct framer_host *host)
{
	(void)framer;
	(void)process;
	seen.hosts++;
	seen.host = *host;
	(void)copy_text(seen.hog_name, sizeof(seen.hog_name), host->hog_name);
}

void framer_lost(struct framer *framer, int process, uint64_t records)
{
	(void)framer;
	(void)process;
	seen.lost += (unsigned)records;
}

void framer_counts(const struct framer *framer, struct framer_counts *ret)
{
	(void)framer;
	*ret = (struct framer_counts){.frames = 17};
}

bool framer_where(const struct framer *framer, int process, uint32_t *ret_job, uint32_t *ret_index)
{
	(void)framer;
	*ret_job = 0;
	*ret_index = (uint32_t)process;
	return true;
}

/* Levels that go on and off as they are told. */
static unsigned switches;

int collectors_level(struct collectors *collectors, enum level level, bool on, char *report, size_t report_size)
{
	(void)collectors;
	(void)level;
	(void)on;
	switches++;
	snprintf(report, report_size, "2 probes");
	return 0;
}

static char root[128];

static int setup(void **state)
{
	if (rooms_setup(state) < 0)
		return -1;
	memset(&seen, 0, sizeof(seen));
	numbers = 0;
	switches = 0;
	has_open = false;
	fake_new(root, sizeof(root));
	context.collectors = (struct collectors *)&context; /* only passed on */
	context.config.findings_enabled = context.config.findings_raise = 1;
	context.config.findings_sample_ns = NSEC_PER_SEC;
	context.config.findings_hang_ns = 30 * NSEC_PER_SEC;
	context.config.findings_raise_for_ns = 60 * NSEC_PER_SEC;
	context.config.findings_raise_pause_ns = 300 * NSEC_PER_SEC;
	context.config.findings_raise_percent = 10;
	snprintf(context.config.state_dir, sizeof(context.config.state_dir), "%s", dir);
	levels_defaults(&context.levels);
	assert_int_equal(findings_room_new(&context, &context.findings), 0);
	assert_non_null(context.findings);
	(void)copy_text(context.findings->proc_root, sizeof(context.findings->proc_root), root);
	(void)copy_text(context.findings->cgroup_root, sizeof(context.findings->cgroup_root), root);
	for (unsigned i = 0; i < RANKS; i++)
		tell_rank(&ranks_here[i], RANK_ADDED);
	return 0;
}

static int teardown(void **state)
{
	context.findings = findings_room_free(context.findings);
	fake_free(root);
	return rooms_teardown(state);
}

static void mark(unsigned rank, uint64_t time_ns, enum steps_edge edge, const char *stage)
{
	steps_room_mark(context.steps, &ranks_here[rank],
		&(struct steps_mark){.time_ns = time_ns, .thread_id = 100 + rank, .edge = edge, .stage = stage, .name = ""});
}

static void one_step(unsigned rank, uint64_t start_ns)
{
	static const char *const stages[] = {"dataloader", "forward", "backward", "optimizer"};

	for (unsigned i = 0; i < 4; i++) {
		mark(rank, start_ns + i * 10 * MS, STEPS_BEGIN, stages[i]);
		mark(rank, start_ns + i * 10 * MS + 8 * MS, STEPS_END, stages[i]);
	}
}

static void test_who_is_watched(void **state)
{
	(void)state;
	assert_int_equal(seen.ranks, RANKS);
	assert_string_equal(seen.job, "j");
	tell_rank(&ranks_here[0], RANK_CHANGED); /* nothing that matters here */
	assert_int_equal(seen.ranks, RANKS);
	assert_int_equal(seen.ended, 0);
	(void)copy_text(ranks_here[0].env.job, sizeof(ranks_here[0].env.job), "other");
	tell_rank(&ranks_here[0], RANK_CHANGED);
	assert_int_equal(seen.ended, 1);
	assert_int_equal(seen.ranks, RANKS + 1);
	assert_string_equal(seen.job, "other");
	ranks_here[1].role = RANK_ROLE_CHILD;
	tell_rank(&ranks_here[1], RANK_CHANGED);
	assert_int_equal(seen.ended, 2);
	ranks_here[1].role = RANK_ROLE_RANK;
	/* A room that is off takes everything and does nothing. */
	findings_room_step(NULL, 0, 1, &(struct steps_step){.step = 1});
	findings_room_tick(NULL, 1);
}

static void test_steps_and_stages(void **state)
{
	(void)state;
	for (uint64_t step = 0; step < 4; step++)
		one_step(0, (1000 + step * 50) * MS);
	assert_true(seen.steps >= 2);
	assert_true(seen.stages >= 8);
	assert_int_equal(seen.stage.thread_id, 100);
	assert_true(seen.stage.start_ns >= 1000 * MS && seen.stage.start_ns < 1300 * MS); /* not UTC */
	assert_true(seen.stage.kind != STAGE_USER);
}

static struct ops_row row_of(const char *family)
{
	return (struct ops_row){
		.communicator = "00000000000000aa",
		.seq = 5,
		.seq_from = OPS_SEQ_INIT,
		.family = family,
		.op = "AllReduce",
		.dtype = "",
		.bytes = 4096,
		.peer = -1,
		.host_start_ns = 10 * MS,
		.host_duration_ns = 3 * MS,
		.device_start_ns = OPS_UNKNOWN,
		.device_duration_ns = OPS_UNKNOWN,
	};
}

static void feed(const struct ops_row *row)
{
	findings_room_op(context.findings, 0, ranks_here[0].instance, row, 7, 0);
}

/* A time that only tells how long queueing took would put the blame on anybody. */
static void test_tiers(void **state)
{
	struct ops_row row = row_of("nccl");

	(void)state;
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
	assert_string_equal(seen.op_name, "AllReduce");
	row.seq_from = OPS_SEQ_ATTACH; /* not to be joined */
	feed(&row);
	assert_int_equal(seen.op.seq, 0);
	row.captured = true;
	feed(&row);
	row = row_of("gloo");
	row.result = -1;
	feed(&row);
	row = row_of("gloo");
	row.host_duration_ns = OPS_UNKNOWN;
	feed(&row);
	assert_int_equal(seen.ops, 3);
	/* Another rank's slot by now. */
	row = row_of("gloo");
	findings_room_op(context.findings, 0, 99, &row, 7, 0);
	findings_room_op(context.findings, 4000, 1, &row, 7, 0);
	assert_int_equal(seen.ops, 3);
}

static void wait_of(uint32_t thread_id, uint64_t run_delay_ns, uint32_t hog_pid, const char *hog_name)
{
	findings_room_wait(context.findings, 0, ranks_here[0].instance,
		&(struct findings_wait){thread_id, 5 * MS, 4 * MS, run_delay_ns, hog_pid, hog_name});
}

/* Waits go out with the sample of their time; who took most of it is named. */
static void test_waits(void **state)
{
	uint64_t now_ns = monotonic_ns();

	(void)state;
	FAKE_PUT(root, 100, 1, 0, .state = 'R');
	context.levels.on[LEVEL_L3] = true;
	findings_room_tick(context.findings, now_ns);
	wait_of(100, 3 * MS, 77, "stress-ng");
	wait_of(100, 2 * MS, 78, "other");
	wait_of(100, 2 * MS, 78, "other");
	wait_of(100, 1 * MS, 0, "idle");
	wait_of(101, 90 * MS, 79, "not ours"); /* a thread that the step does not wait for */
	for (uint32_t i = 0; i < 100; i++)
		wait_of(100, 1, 1000 + i, "small");
	assert_int_equal(seen.hosts, 0);
	findings_room_tick(context.findings, now_ns + NSEC_PER_SEC);
	assert_int_equal(seen.hosts, 1);
	assert_true(seen.host.run_delay_ns == 8 * MS + 100);
	assert_int_equal(seen.host.hog_pid, 78);
	assert_string_equal(seen.hog_name, "other");
	findings_room_tick(context.findings, now_ns + 2 * NSEC_PER_SEC);
	assert_true(seen.host.run_delay_ns == 0 && seen.host.hog_pid == 0);
	context.levels.on[LEVEL_L3] = false;
	findings_room_tick(context.findings, now_ns + 3 * NSEC_PER_SEC);
	assert_true(seen.host.run_delay_ns == FRAME_UNKNOWN); /* this kernel counts no waits, and nobody looks */
	findings_room_launches(context.findings, 0, ranks_here[0].instance, 1 * MS, 50 * MS, 9 * MS);
	assert_true(seen.host.launch_gap_ns == 9 * MS && seen.host.run_delay_ns == FRAME_UNKNOWN);
}

static void test_samples(void **state)
{
	uint64_t now_ns = monotonic_ns();
	struct findings_counts counts;

	(void)state;
	FAKE_PUT(root, 100, 1, 0, .state = 'R'); /* the other rank's process has vanished */
	for (unsigned i = 0; i <= 25; i++)
		findings_room_tick(context.findings, now_ns + i * NSEC_PER_SEC);
	assert_int_equal(seen.hosts, 25);
	assert_int_equal(seen.advances, 26);
	assert_true(seen.host.duration_ns == NSEC_PER_SEC);
	assert_true(seen.host.run_delay_ns == FRAME_UNKNOWN);
	findings_room_counts(context.findings, &counts);
	assert_int_equal(counts.samples, 25);
	assert_int_equal(counts.frames, 17);
	tell_rank(&ranks_here[0], RANK_ENDED); /* and the rest of its row goes out */
	flush();
	assert_query("select rank, duration_ns / 1000000000, major_faults, state, run_delay_ns from host_samples order by start_ns",
		"0|10|0|R|NULL\n0|10|0|R|NULL\n0|5|0|R|NULL\n");
}

static void test_standings(void **state)
{
	uint64_t now_ns = monotonic_ns();

	(void)state;
	FAKE_PUT(root, 100, 1, 0, .state = 'T');
	for (uint64_t step = 0; step < 3; step++)
		one_step(0, now_ns - 500 * MS + step * 50 * MS);
	mark(0, now_ns, STEPS_BEGIN, "dataloader");
	findings_room_tick(context.findings, now_ns + MS);
	assert_int_equal(seen.looks, 1);
	assert_int_equal(seen.standings, RANKS);
	assert_int_equal(seen.standing[0].state, 'T');
	assert_int_equal(seen.standing[0].stage, STAGE_DATALOADER);
	assert_true(seen.standing[0].progress_ns == now_ns && seen.standing[0].stage_since_ns == now_ns);
	assert_true(seen.standing[0].steps >= 2 && seen.standing[0].step_end_ns < now_ns);
	assert_true(seen.standing[1].progress_ns == 0 && !seen.standing[1].state && !seen.operations);
	/* Once a second, and those that ended still stand somewhere. */
	findings_room_tick(context.findings, now_ns + 200 * MS);
	assert_int_equal(seen.looks, 1);
	tell_rank(&ranks_here[1], RANK_ENDED);
	findings_room_tick(context.findings, now_ns + 1100 * MS);
	assert_int_equal(seen.looks, 2);
	assert_int_equal(seen.standings, 2);
	assert_true(seen.standing[1].ended && seen.standing[1].rank == 1 && seen.standing[1].ended_ns);
}

static struct finding finding(uint64_t id, enum finding_state state)
{
	struct finding f = {
		.id = id,
		.kind = FINDING_SLOW_RANK,
		.cause = CAUSE_DATALOADER,
		.state = state,
		.severity = SEVERITY_WARNING,
		.tier = FRAME_TIER_HOST,
		.confidence = 0.9,
		.job = "j",
		.rank = 1,
		.host = "a",
		.since_step = 812,
		.since_ns = monotonic_ns(),
		.slowdown = 1.24,
		.cost_card_hours = 0.5,
		.sentence = "rank 1 is slow",
	};

	finding_add(&f, "dataloader", "ns", 3e8, 1e7, "\"loader\"");
	return f;
}

static void say(struct finding f)
{
	sink.finding(sink.arg, &f);
}

static void test_rows(void **state)
{
	struct findings_counts counts;

	(void)state;
	say(finding(1, FINDING_SUSPECTED));
	findings_room_counts(context.findings, &counts);
	assert_true(counts.suspected == 1 && counts.open == 0);
	say(finding(1, FINDING_OPEN));
	say(finding(1, FINDING_OPEN));
	say(finding(2, FINDING_SUSPECTED));
	say(finding(2, FINDING_DROPPED));
	findings_room_counts(context.findings, &counts);
	assert_true(counts.suspected == 0 && counts.open == 1 && counts.dropped == 1 && counts.closed == 0);
	flush();
	assert_query("select kind, cause, state, severity, tier, job, rank, host, card, since_step, until_step, until_ns, slowdown, "
		     "cost_card_hours, sentence from findings order by finding",
		"slow_rank|dataloader|open|warning|host|j|1|a|NULL|812|NULL|NULL|1.24|0.5|rank 1 is slow\n"
		"slow_rank|dataloader|dropped|warning|host|j|1|a|NULL|812|NULL|NULL|1.24|0.5|rank 1 is slow\n");
	assert_int_equal(query_int("select count(*) from findings where abs(since_ns / 1000000000 - unixepoch()) < 60"), 2);
	assert_query("select json_extract(evidence, '$[0].detail'), json_extract(evidence, '$[0].value') from findings limit 1",
		"\"loader\"|300000000\n");
	/* A judge that is out of its mind. */
	say((struct finding){.kind = FINDING_KIND_MAX});
	say((struct finding){.cause = CAUSE_MAX});
	findings_room_counts(context.findings, &counts);
	assert_true(counts.suspected == 0 && counts.open == 1);
}

/* Who stops watching does not leave open what nobody looks at. */
static void test_end(void **state)
{
	(void)state;
	say(finding(3, FINDING_OPEN));
	has_open = true;
	open_at_end = finding(3, FINDING_OPEN);
	context.findings = findings_room_free(context.findings);
	flush();
	assert_query("select state, until_ns is not null, sentence from findings",
		"closed|1|rank 1 is slow; so it was when ranktraced stopped\n");
	sh("test ! -e '%s/findings'", dir);
}

/* Killed, and started again. */
static void test_left(void **state)
{
	struct findings_room *killed = context.findings;

	(void)state;
	say(finding(3, FINDING_OPEN));
	say(finding(4, FINDING_SUSPECTED));
	say(finding(5, FINDING_OPEN));
	say(finding(5, FINDING_CLOSED));
	flush();
	sh("test -e '%s/findings'", dir);
	observer_count--;
	context.findings = NULL;
	assert_int_equal(findings_room_new(&context, &context.findings), 0);
	flush();
	assert_query("select state, until_ns is not null, sentence from findings order by finding",
		"closed|1|rank 1 is slow\ndropped|1|rank 1 is slow\nclosed|0|rank 1 is slow\n");
	sh("test ! -e '%s/findings'", dir);
	free(killed);
}

static void test_raise(void **state)
{
	uint64_t now_ns = monotonic_ns(), until_ns;
	unsigned raises = 0;

	(void)state;
	sink.want(sink.arg, DETECT_WANT_OPERATIONS, "j", "rank 1 may be slow");
	assert_true(context.levels.on[LEVEL_L1] && context.levels.raised[LEVEL_L1] && !context.levels.on[LEVEL_L3]);
	sink.want(sink.arg, DETECT_WANT_OPERATIONS | DETECT_WANT_SYSTEM, "j", "rank 1 may be slow");
	assert_true(context.levels.on[LEVEL_L3]);
	assert_int_equal(switches, 2);
	until_ns = context.levels.until_ns[LEVEL_L1];
	assert_true(until_ns > now_ns + 50 * NSEC_PER_SEC && until_ns < now_ns + 70 * NSEC_PER_SEC);
	/* It comes to nothing: then there is a pause. */
	levels_tick(&context, until_ns + NSEC_PER_SEC);
	findings_room_tick(context.findings, until_ns + NSEC_PER_SEC);
	assert_false(context.levels.on[LEVEL_L1] || context.levels.on[LEVEL_L3]);
	sink.want(sink.arg, DETECT_WANT_OPERATIONS, "j", "rank 1 may be slow");
	assert_false(context.levels.on[LEVEL_L1]);
	/* After it, again; and what is worth it needs no pause, but a tenth of the hour is all there is. */
	now_ns = until_ns + 400 * NSEC_PER_SEC;
	for (unsigned i = 0; i < 30; i++) {
		findings_raise_want(&context.findings->raise, &context, DETECT_WANT_OPERATIONS, "j", "slow", now_ns);
		raises += context.levels.on[LEVEL_L1];
		say(finding(10 + i, FINDING_OPEN));
		if (!context.levels.on[LEVEL_L1])
			continue;
		levels_tick(&context, context.levels.until_ns[LEVEL_L1]);
		findings_raise_tick(&context.findings->raise, &context, now_ns);
	}
	assert_int_equal(raises, 5); /* of six in an hour one was spent before, and hardly any time has passed */
}

static void test_raise_and_people(void **state)
{
	char report[256];

	(void)state;
	/* Somebody has just turned it off: he does not want it. */
	assert_int_equal(levels_set(&context, LEVEL_L1, true, 0, report, sizeof(report)), 0);
	assert_int_equal(levels_set(&context, LEVEL_L1, false, 0, report, sizeof(report)), 0);
	sink.want(sink.arg, DETECT_WANT_OPERATIONS, "j", "slow");
	assert_false(context.levels.on[LEVEL_L1]);
	context.config.findings_raise = 0;
	sink.want(sink.arg, DETECT_WANT_SYSTEM, "j", "slow");
	assert_false(context.levels.on[LEVEL_L3]);
}

static void test_off(void **state)
{
	struct findings_room *off = (struct findings_room *)&context;
	size_t before = observer_count;

	(void)state;
	context.config.findings_enabled = 0;
	assert_int_equal(findings_room_new(&context, &off), 0);
	assert_null(off);
	assert_int_equal(observer_count, before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_who_is_watched, setup, teardown),
		cmocka_unit_test_setup_teardown(test_steps_and_stages, setup, teardown),
		cmocka_unit_test_setup_teardown(test_tiers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_waits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_samples, setup, teardown),
		cmocka_unit_test_setup_teardown(test_standings, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rows, setup, teardown),
		cmocka_unit_test_setup_teardown(test_end, setup, teardown),
		cmocka_unit_test_setup_teardown(test_left, setup, teardown),
		cmocka_unit_test_setup_teardown(test_raise, setup, teardown),
		cmocka_unit_test_setup_teardown(test_raise_and_people, setup, teardown),
		cmocka_unit_test_setup_teardown(test_off, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
