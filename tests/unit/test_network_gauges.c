/* SPDX-License-Identifier: Apache-2.0 */
/* What the network lost, beside findings of the network. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyzers/gauges/network_gauges.h"

#include "tests/test.h"

#define SECOND 1000000000ULL

static const char drops[] = "packets received and dropped", again[] = "TCP segments sent again";
static struct network_gauges *network;
static uint64_t now_s;
static double count;

static int setup(void **state)
{
	network = network_gauges_new();
	now_s = 1000;
	count = 5000;
	return network ? 0 : -1;
}

static int teardown(void **state)
{
	network = network_gauges_free(network);
	return 0;
}

static void pass(unsigned seconds, double dropped, double sent_again)
{
	for (; seconds--; now_s++) {
		count += dropped;
		network_gauges_sample(network, now_s * SECOND, "eth0", drops, false, count);
		network_gauges_sample(network, now_s * SECOND, "", again, true, sent_again);
	}
}

/* That began so long ago. */
static struct finding finding_of(enum finding_cause cause, uint64_t since_s)
{
	return (struct finding){.kind = FINDING_SLOW_COMMUNICATION,
		.cause = cause,
		.state = FINDING_OPEN,
		.rank = -1,
		.since_ns = (now_s - since_s) * SECOND};
}

static const struct finding_evidence *explained(struct finding *finding)
{
	return network_gauges_explain(network, now_s * SECOND, finding) ? &finding->evidence[finding->evidences - 1]
									: NULL;
}

TEST_WITH(what_grew_is_shown, setup, teardown)
{
	const struct finding_evidence *evidence;
	struct finding finding;

	pass(100, 1, 4);
	pass(40, 50, 12);
	finding = finding_of(CAUSE_COMMUNICATION, 40);
	evidence = explained(&finding);
	assert_non_null(evidence);
	assert_string_equal(evidence->name, "network");
	assert_string_equal(evidence->detail, "packets received and dropped (eth0)");
	assert_true(fabs(evidence->value - 50) < 0.5 && fabs(evidence->peers - 1) < 0.01);
	assert_non_null(
		strstr(finding.sentence, "; the network: packets received and dropped (eth0) 50 a second (1 before)"));
	/* It began within a slot, and is over. */
	finding = finding_of(CAUSE_LINK, 35);
	finding.until_ns = (now_s - 5) * SECOND;
	pass(100, 0, 12);
	evidence = explained(&finding);
	assert_true(evidence && fabs(evidence->value - 50) < 0.5 && fabs(evidence->peers - 1) < 0.01);
	/* Of the node as a whole. */
	pass(100, 0, 4);
	pass(20, 0, 40);
	finding = finding_of(CAUSE_NODE, 20);
	evidence = explained(&finding);
	assert_true(evidence && fabs(evidence->value - 40) < 0.5);
	assert_string_equal(evidence->detail, "TCP segments sent again");
}

TEST_WITH(what_did_not_grow_is_not_shown, setup, teardown)
{
	struct finding finding;

	/* Nothing is known of before. */
	pass(20, 50, 40);
	finding = finding_of(CAUSE_COMMUNICATION, 20);
	assert_null(explained(&finding));
	/* Less than twice as much. */
	pass(80, 50, 40);
	pass(20, 90, 70);
	finding = finding_of(CAUSE_COMMUNICATION, 20);
	assert_null(explained(&finding));
	pass(20, 200, 70);
	finding = finding_of(CAUSE_COMMUNICATION, 20);
	assert_non_null(explained(&finding));
	/* All ranks of a job wait for something. */
	finding.kind = FINDING_SLOW_JOB;
	finding.cause = CAUSE_ASLEEP;
	assert_non_null(explained(&finding));
	/* Not the network's finding. */
	finding.kind = FINDING_SLOW_RANK;
	assert_null(explained(&finding));
	finding = finding_of(CAUSE_COMPUTE, 20);
	assert_null(explained(&finding));
	finding = finding_of(CAUSE_PORT, 20);
	finding.kind = FINDING_HARDWARE;
	assert_null(explained(&finding));
	assert_false(network_gauges_explain(NULL, now_s * SECOND, &finding));
}

/* One in ten seconds, then one in thirty. */
TEST_WITH(rare_losses, setup, teardown)
{
	struct finding finding;

	pass(100, 0, 0);
	for (unsigned i = 0; i < 6; i++) {
		pass(1, 1, 0);
		pass(9, 0, 0);
	}
	finding = finding_of(CAUSE_COMMUNICATION, 60);
	assert_non_null(explained(&finding));
	teardown(NULL);
	setup(NULL);
	pass(100, 0, 0);
	for (unsigned i = 0; i < 2; i++) {
		pass(1, 1, 0);
		pass(29, 0, 0);
	}
	finding = finding_of(CAUSE_COMMUNICATION, 60);
	assert_null(explained(&finding));
}

/* What a finding has, it keeps: longer than the time before it is kept, and when less is lost again. */
TEST_WITH(what_is_shown_remains, setup, teardown)
{
	const struct finding_evidence *evidence;
	struct finding finding;
	uint64_t since_ns;

	pass(100, 1, 4);
	since_ns = now_s * SECOND;
	for (unsigned i = 0; i < 400; i++) {
		pass(10, i < 350 ? 50 : 1, 4);
		finding = finding_of(CAUSE_COMMUNICATION, 0);
		finding.id = 7;
		finding.since_ns = since_ns;
		evidence = explained(&finding);
		assert_true(evidence && fabs(evidence->peers - 1) < 0.01);
		assert_true(evidence->value > (i < 350 ? 49 : 20));
	}
	/* Another one is not. */
	finding.id = 8;
	finding.evidences = 0;
	assert_null(explained(&finding));
}

/* Nothing was sent while the node had no job: only the minute before counts. */
TEST_WITH(a_job_that_began_is_no_growth, setup, teardown)
{
	struct finding finding;

	pass(600, 0, 0);
	pass(70, 20, 0);
	pass(20, 20, 0);
	finding = finding_of(CAUSE_COMMUNICATION, 20);
	assert_null(explained(&finding));
}

/* A driver that is loaded anew, times that go back, what is no number, more than is kept. */
TEST_WITH(bounds, setup, teardown)
{
	const struct finding_evidence *evidence;
	struct finding finding;
	char object[100];

	pass(100, 10, 0);
	count = -10;
	pass(10, 10, 0);
	network_gauges_sample(network, 1085 * SECOND, "eth0", drops, false, 1e9);
	network_gauges_sample(network, now_s * SECOND, "eth0", drops, false, NAN);
	network_gauges_sample(network, now_s * SECOND, "eth0", drops, false, INFINITY);
	network_gauges_sample(network, now_s * SECOND, "eth0", drops, false, -1);
	pass(20, 50, 0);
	finding = finding_of(CAUSE_COMMUNICATION, 20);
	evidence = explained(&finding);
	assert_true(evidence && fabs(evidence->value - 50) < 0.5 && fabs(evidence->peers - 10) < 0.5);
	memset(object, 'x', sizeof(object) - 1);
	object[sizeof(object) - 1] = 0;
	network_gauges_sample(network, now_s * SECOND, object, drops, false, 1);
	for (unsigned i = 0; i < 2 * NETWORK_GAUGES_MAX; i++) {
		snprintf(object, sizeof(object), "eth%u", i);
		network_gauges_sample(network, now_s * SECOND, object, drops, false, 1);
	}
	pass(7200, 1, 0);
	pass(40, 50, 0);
	finding = finding_of(CAUSE_COMMUNICATION, 40);
	assert_non_null(explained(&finding));
}

TEST_MAIN(NULL, NULL)
