/* SPDX-License-Identifier: Apache-2.0 */
/* Slow-downs that detectors report and that are no rank's: evidence, episodes, severity, what they may cost. */
#define TEST_ALONE /* large tables: detection of leaks reads them in each run */
#include "tests/unit/judge_script.h"

/* So many seconds in which each step loses `lost` s by it. */
static void claim(enum finding_kind kind, enum finding_cause cause, const char *communicator, double lost, double s)
{
	struct finding finding = {
		.kind = kind, .cause = cause, .rank = -1, .confidence = 0.8, .tier = FRAME_TIER_DEVICE};
	uint64_t until_ns = script.now_ns + (uint64_t)(s * 1e9);

	snprintf(finding.communicator, sizeof(finding.communicator), "%s", communicator);
	finding_add(&finding, "transfer", "ns", lost * 1e9, 0, "peers");
	while (script.now_ns + 1000 < until_ns) {
		script.transfer = lost;
		script_step();
		judge_claim(script.judge, &finding, lost * 1e9);
	}
	script.transfer = 0;
}

static const struct finding *claimed(enum finding_kind kind)
{
	const struct finding *ret = NULL;

	for (size_t i = 0; i < script.n_said; i++)
		ret = script.said[i].finding.kind == kind ? &script.said[i].finding : ret;
	if (!ret)
		script_print();
	assert_non_null(ret);
	return ret;
}

static void begin(void)
{
	script_begin(8);
	script.l1 = true;
	script_run(30);
	script_expect(0);
}

TEST(an_episode_has_the_grade_of_its_cost)
{
	const struct finding *finding;

	begin();
	claim(FINDING_SLOW_COMMUNICATION, CAUSE_LINK, "", 0.015, 40);
	finding = claimed(FINDING_SLOW_COMMUNICATION);
	assert_int_equal(finding->state, FINDING_OPEN);
	assert_int_equal(finding->severity, SEVERITY_WARNING); /* 15 % for 40 s */
	assert_int_equal(finding->cause, CAUSE_LINK);
	assert_int_equal(finding->until_ns, 0);
	assert_true(fabs(finding->slowdown - 1.15) < 0.02);
	assert_string_equal(finding->evidence[0].name, "transfer");
	assert_true(finding->since_ns >= SCRIPT_BEGIN_NS + 29000000000 &&
		    finding->since_ns <= SCRIPT_BEGIN_NS + 32000000000);
	script_run(20);
	finding = claimed(FINDING_SLOW_COMMUNICATION);
	assert_int_equal(finding->state, FINDING_CLOSED);
	/* 40 s of steps of 115 ms, each 15 ms longer, on 8 cards. */
	assert_true(fabs(finding->cost_card_hours * 3600 / 8 / (40 / 0.115 * 0.015) - 1) < 0.05);
	script_end();
}

TEST(a_step_alone_is_none)
{
	begin();
	claim(FINDING_SLOW_COMMUNICATION, CAUSE_LINK, "", 0.01, 0.1);
	script_run(30);
	script_expect(0);
	script_end();
}

TEST(an_imbalance_is_never_announced)
{
	begin();
	script.slack = INFINITY; /* it is reported beside what the steps lost */
	claim(FINDING_IMBALANCE, CAUSE_STAGE, "", 0.09, 120);
	assert_int_equal(claimed(FINDING_IMBALANCE)->severity, SEVERITY_INFO);
	assert_int_equal(claimed(FINDING_IMBALANCE)->noticed_ns, 0);
	script_end();
}

/* Several at one time are several; what the detector takes for a link first and a node later is one. */
TEST(what_is_one_finding)
{
	size_t links = 0, imbalances = 0;

	begin();
	script.slack = INFINITY; /* an imbalance is reported beside what the steps lost */
	for (int i = 0; i < 40; i++) {
		claim(FINDING_IMBALANCE, i % 2 ? CAUSE_STAGE : CAUSE_SEQUENCE, "", 0.02, 0.3);
		claim(FINDING_SLOW_COMMUNICATION, i < 10 ? CAUSE_LINK : CAUSE_NODE, "", i < 10 ? 0.02 : 0.03, 0.3);
	}
	for (size_t i = 0; i < script.n_said; i++) {
		links += script.said[i].finding.kind == FINDING_SLOW_COMMUNICATION;
		imbalances += script.said[i].finding.kind == FINDING_IMBALANCE;
	}
	assert_int_equal(links, 1);
	assert_int_equal(imbalances, 2);
	assert_int_equal(claimed(FINDING_SLOW_COMMUNICATION)->cause, CAUSE_NODE); /* of the worst frame */
	claim(FINDING_SLOW_COMMUNICATION, CAUSE_COMMUNICATION, "other", 0.05, 10);
	assert_string_equal(claimed(FINDING_SLOW_COMMUNICATION)->communicator, "other");
	script_end();
}

/* Operations take longer, but the steps do not: computing hides it. The same from the job's start costs what it
 * costs. */
TEST(what_steps_do_not_lose_is_none)
{
	struct finding finding = {.kind = FINDING_SLOW_COMMUNICATION, .cause = CAUSE_LINK, .rank = -1};

	for (int from_start = 0; from_start < 2; from_start++) {
		begin();
		finding.since_ns = from_start ? SCRIPT_BEGIN_NS + 1000 : script.now_ns;
		script.slack = INFINITY; /* of the one that is there from the start no clean step shows the loss */
		for (int i = 0; i < 400; i++) {
			script_step();
			judge_claim(script.judge, &finding, 0.015e9);
		}
		script_expect((size_t)from_start);
		script_end();
	}
}

/* What a communicator explains is not reported again for the job, and is not learned. */
TEST(what_a_communicator_explains_is_not_the_jobs)
{
	begin();
	claim(FINDING_SLOW_COMMUNICATION, CAUSE_LINK, "", 0.03, 300);
	assert_int_equal(claimed(FINDING_SLOW_COMMUNICATION)->state, FINDING_OPEN);
	script_expect(1);
	script_close();
	assert_true(script_cost() > 0.9 * script.lost);
	script_over();
}

/* A stage takes longer in the same steps as a slow rank delays: it costs nothing beside it. */
TEST(what_a_rank_explains_is_no_imbalance)
{
	begin();
	script.fault[3][ACTIVITY_DATALOADER] = 0.05;
	script_run(5);
	script_only(3, ACTIVITY_DATALOADER);
	claim(FINDING_IMBALANCE, CAUSE_STAGE, "", 0.04, 20);
	for (size_t i = 0; i < script.n_said; i++)
		assert_int_not_equal(script.said[i].finding.kind, FINDING_IMBALANCE);
	script_end();
}

TEST(what_makes_no_sense_is_left_out)
{
	struct finding finding = {.kind = FINDING_SLOW_COMMUNICATION, .cause = CAUSE_LINK};

	begin();
	for (int i = 0; i < 100; i++) {
		script_step();
		finding.kind = i % 2 ? FINDING_KIND_MAX : FINDING_SLOW_COMMUNICATION;
		finding.cause = i % 3 ? CAUSE_LINK : CAUSE_MAX;
		judge_claim(script.judge, &finding, i % 4 ? NAN : -1e9);
	}
	script_expect(0);
	/* More communicators than have a place: no more are kept than that. */
	for (int i = 0; i < 100; i++) {
		char name[20];

		snprintf(name, sizeof(name), "%d", i);
		claim(FINDING_SLOW_COMMUNICATION, CAUSE_COMMUNICATION, name, 0.05, 0.1);
	}
	assert_true(script.n_said <= 16);
	script_end();
}

TEST_MAIN(NULL, NULL)
