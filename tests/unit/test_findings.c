/* SPDX-License-Identifier: Apache-2.0 */
/* The lifecycle of findings: what is published when. */
#include "analyzers/detect/findings.h"
#include "tests/unit/findings_script.h"

static void suspected_open_closed(void **state)
{
	struct finding open[2];
	struct verdict verdict = slow(3, true);
	const struct finding *finding;

	(void)state;
	said(slow(3, false), 2);
	assert_int_equal(n_sent, 1);
	finding = last(FINDING_SUSPECTED);
	assert_int_equal(finding->id, 5);
	assert_int_equal(finding->noticed_ns, 0);
	verdict.finding.since_step = 995;
	verdict.finding.since_ns = 4995 * S;
	said(verdict, 20);
	assert_int_equal(n_sent, 2);
	finding = last(FINDING_OPEN);
	assert_int_equal(finding->rank, 13);
	assert_string_equal(finding->host, "node-a");
	assert_string_equal(finding->card, "3");
	assert_string_equal(finding->job, "job");
	assert_int_equal(finding->since_step, 995);
	assert_int_equal(finding->since_ns, 4995 * S);
	assert_int_equal(finding->noticed_ns, 5002 * S);
	assert_int_equal(findings_open(findings, open, 2), 1);
	assert_int_equal(open[0].id, 5);
	assert_int_equal(open[0].until_ns, 0);
	quiet(9);
	assert_int_equal(n_sent, 2);
	quiet(1);
	finding = last(FINDING_CLOSED);
	assert_int_equal(finding->id, 5);
	assert_int_equal(finding->until_step, 1021);
	assert_int_equal(finding->until_ns, 5021 * S);
	/* 22 verdicts of 0.1 s on 100 cards. */
	assert_true(fabs(finding->cost_card_hours - 22 * 0.1 * 100 / 3600) < 1e-9);
	assert_string_equal(finding->sentence, "operations took 1.2 times as long as peers for 26 s, from step 995 to 1021; "
					       "steps took 20 % longer; 4 card-minutes lost");
	assert_int_equal(findings_open(findings, open, 2), 0);
}

static void a_card_that_is_found_later_is_in_the_next_update(void **state)
{
	char card[sizeof(who[3].card)];

	(void)state;
	memcpy(card, who[3].card, sizeof(card));
	memset(who[3].card, 0, sizeof(card));
	said(slow(3, true), 1);
	assert_string_equal(last(FINDING_OPEN)->card, "");
	memcpy(who[3].card, card, sizeof(card));
	said(slow(3, true), 31);
	assert_string_equal(last(FINDING_OPEN)->card, "3");
	/* And keeps the published cause. */
	memset(who[3].card, 0, sizeof(card));
	quiet(10);
	assert_string_equal(last(FINDING_CLOSED)->card, "3");
	memcpy(who[3].card, card, sizeof(card));
}

static void what_is_soon_over_is_not_confirmed(void **state)
{
	(void)state;
	findings->options.lasts_ns = 3 * S;
	said(slow(3, true), 3);
	assert_int_equal(n_sent, 1);
	last(FINDING_SUSPECTED);
	said(slow(3, true), 1);
	assert_int_equal(n_sent, 2);
	last(FINDING_OPEN);
}

static void updated_for_its_cost(void **state)
{
	(void)state;
	costs_too = true;
	said(slow(3, true), 121);
	/* 0, 1, 2, 4, 8, 16, 32, 62 and 92 s old. */
	assert_int_equal(n_sent, 9);
	for (size_t i = 1; i < n_sent; i++)
		assert_true(sent[i].cost_card_hours > sent[i - 1].cost_card_hours);
	assert_int_equal(sent[4].updated_ns - sent[3].updated_ns, 4 * S);
	assert_int_equal(sent[8].updated_ns - sent[7].updated_ns, FINDINGS_UPDATE_NS);
	now -= 4000 * S; /* a clock that steps back */
	said(slow(3, true), 10);
	assert_in_range(n_sent, 10, 19);
	n_sent = 0;
	findings_end(findings, now);
	assert_int_equal(last(FINDING_OPEN)->until_ns, 0);
	assert_int_equal(n_sent, 1);
}

static void not_confirmed_and_dropped(void **state)
{
	(void)state;
	said(slow(3, false), 30);
	assert_int_equal(n_sent, 1);
	said(slow(3, false), 1);
	assert_int_equal(n_sent, 2);
	said(slow(3, false), 500);
	assert_int_equal(n_sent, 2);
	assert_int_equal(last(FINDING_DROPPED)->id, 5);
	quiet(10);
	said(slow(3, false), 1);
	assert_int_equal(n_sent, 3);
	assert_int_equal(last(FINDING_SUSPECTED)->id, 5);
	quiet(10);
	assert_int_equal(last(FINDING_DROPPED)->id, 5);
	assert_int_equal(n_sent, 4);
	said(slow(3, true), 1);
	assert_int_equal(last(FINDING_OPEN)->since_step, step - 1);
}

/* What comes back after its end is another one. */
static void bursts_are_findings_of_their_own(void **state)
{
	(void)state;
	for (int burst = 0; burst < 20; burst++) {
		said(slow(3, true), 20);
		assert_int_equal(last(FINDING_OPEN)->id, 5 + burst);
		assert_int_equal(last(FINDING_OPEN)->since_step, step - 20);
		quiet(9);
		last(FINDING_OPEN);
		quiet(1);
		assert_int_equal(last(FINDING_CLOSED)->id, 5 + burst);
		assert_int_equal(last(FINDING_CLOSED)->until_step, step - 11);
		assert_null(strstr(last(FINDING_CLOSED)->sentence, "recurred"));
	}
	assert_int_equal(n_sent, 40);
	said(slow(3, true), 1);
	findings_close(findings, now);
	assert_int_equal(last(FINDING_CLOSED)->id, 25);
}

static void hang_for(unsigned snapshots)
{
	while (snapshots--) {
		say(of(FINDING_HANG, slow(3, true)));
		snapshot_over();
	}
}

static void quiet_snapshots(unsigned snapshots)
{
	while (snapshots--)
		snapshot_over();
}

/* It is the same one, and takes twice as long to be closed each time. */
static void a_hang_that_comes_back_is_one(void **state)
{
	(void)state;
	for (unsigned back = 0; back < 4; back++) {
		hang_for(5);
		assert_int_equal(last(FINDING_OPEN)->id, 5);
		quiet_snapshots((FINDINGS_SNAPSHOTS << back) - 1);
		last(FINDING_OPEN);
		quiet_snapshots(1);
		assert_int_equal(last(FINDING_CLOSED)->id, 5);
		assert_true(last(FINDING_CLOSED)->until_ns && last(FINDING_CLOSED)->until_step);
	}
	assert_non_null(strstr(last(FINDING_CLOSED)->sentence, "; recurred 3 times"));
	/* What is no more than suspected after it was closed is no news. */
	say(of(FINDING_HANG, slow(3, false)));
	snapshot_over();
	last(FINDING_CLOSED);
	/* Long after, it is another one. */
	now += FINDINGS_REOPEN_NS;
	quiet_snapshots(2);
	hang_for(1);
	assert_int_equal(last(FINDING_OPEN)->id, 6);
}

static void the_heavier_cause_wins(void **state)
{
	struct verdict verdict = slow(3, true);

	(void)state;
	verdict.finding.cause = CAUSE_UNKNOWN;
	said(verdict, 8);
	assert_int_equal(last(FINDING_OPEN)->cause, CAUSE_UNKNOWN);
	verdict.finding.cause = CAUSE_LINK;
	verdict.finding.evidences = 0;
	finding_add(&verdict.finding, "link", "ns", 3e8, 1e8, NULL);
	said(verdict, 3);
	assert_int_equal(n_sent, 2);
	assert_int_equal(last(FINDING_OPEN)->cause, CAUSE_LINK);
	assert_string_equal(last(FINDING_OPEN)->evidence[0].name, "link");
	/* One that is said as often as not changes nothing. */
	said(slow(3, true), 2);
	assert_int_equal(n_sent, 2);
	findings_close(findings, now);
	assert_int_equal(last(FINDING_CLOSED)->cause, CAUSE_LINK);
	assert_string_equal(last(FINDING_CLOSED)->evidence[0].name, "link");
}

/* Of what is no rank's: a link first, then the node that all slow links have in common. */
static void the_host_goes_with_the_cause(void **state)
{
	struct verdict verdict = slow(-1, true);

	(void)state;
	verdict.finding.cause = CAUSE_LINK;
	said(verdict, 2);
	assert_string_equal(last(FINDING_OPEN)->host, "");
	verdict.finding.cause = CAUSE_NODE;
	snprintf(verdict.finding.host, sizeof(verdict.finding.host), "node-b");
	/* One verdict does not change what is published. */
	said(verdict, 1);
	assert_string_equal(last(FINDING_OPEN)->host, "");
	said(verdict, 4);
	assert_int_equal(last(FINDING_OPEN)->cause, CAUSE_NODE);
	assert_string_equal(last(FINDING_OPEN)->host, "node-b");
}

static void hangs_end_with_snapshots(void **state)
{
	(void)state;
	say(of(FINDING_HANG, slow(3, true)));
	snapshot_over();
	assert_int_equal(last(FINDING_OPEN)->kind, FINDING_HANG);
	quiet(50); /* frames have nothing to say about it */
	assert_int_equal(n_sent, 1);
	snapshot_over();
	snapshot_over();
	assert_int_equal(n_sent, 1);
	snapshot_over();
	assert_int_equal(last(FINDING_CLOSED)->until_ns, 5000 * S);
	/* Snapshots do not close findings from frames. */
	said(slow(3, true), 1);
	for (int i = 0; i < 50; i++)
		snapshot_over();
	assert_int_equal(last(FINDING_OPEN)->kind, FINDING_SLOW_COMMUNICATION);
}

static void a_hang_whose_culprit_is_seen_later_is_one(void **state)
{
	struct verdict verdict = of(FINDING_HANG, slow(-1, true));

	(void)state;
	verdict.finding.since_ns = now - 30 * S;
	say(verdict);
	snapshot_over();
	verdict.finding.rank = 3;
	say(verdict);
	snapshot_over();
	assert_int_equal(n_sent, 2);
	assert_int_equal(last(FINDING_OPEN)->id, 5);
	assert_int_equal(last(FINDING_OPEN)->rank, 13);
	assert_string_equal(last(FINDING_OPEN)->card, "3");
	/* Who it is was surer than that. */
	verdict.finding.rank = 5;
	verdict.finding.confidence /= 2;
	say(verdict);
	snapshot_over();
	assert_int_equal(last(FINDING_OPEN)->id, 5);
	assert_int_equal(last(FINDING_OPEN)->rank, 13);
	assert_string_equal(last(FINDING_OPEN)->card, "3");
	verdict.finding.confidence *= 2;
	/* It went on, and stands still again because of another. */
	verdict.finding.rank = 4;
	verdict.finding.since_ns = now;
	say(verdict);
	snapshot_over();
	assert_int_equal(last(FINDING_OPEN)->id, 6);
}

static void decreasing_figures_are_not_published(void **state)
{
	struct verdict verdict = slow(3, true);

	(void)state;
	said(verdict, 20);
	verdict.lost_ns /= 10;
	verdict.finding.evidence[0].value = 0.51e9;
	said(verdict, 5);
	quiet(10);
	assert_true(last(FINDING_CLOSED)->evidence[0].value == 0.6e9);
}

static void invalid_verdicts(void **state)
{
	struct verdict verdict = slow(RANKS, true);

	(void)state;
	said(verdict, 1);
	verdict = slow(3, true);
	verdict.finding.kind = FINDING_KIND_MAX;
	said(verdict, 1);
	verdict = slow(3, true);
	verdict.finding.cause = (enum finding_cause)77;
	said(verdict, 1);
	assert_int_equal(n_sent, 0);
	verdict = slow(3, true);
	verdict.lost_ns = NAN;
	verdict.finding.slowdown = INFINITY;
	verdict.finding.confidence = -1;
	verdict.finding.severity = (enum finding_severity)9;
	verdict.finding.evidences = 99;
	verdict.finding.since_step = UINT64_MAX;
	verdict.finding.since_ns = UINT64_MAX;
	memset(verdict.finding.others, 'x', sizeof(verdict.finding.others));
	memset(verdict.finding.communicator, 'x', sizeof(verdict.finding.communicator));
	said(verdict, 2);
	assert_int_equal(n_sent, 1);
	assert_true(sent[0].cost_card_hours == 0 && sent[0].confidence == 0 && isfinite(sent[0].slowdown));
	assert_int_equal(sent[0].since_step, step - 2);
	assert_int_equal(sent[0].evidences, FINDING_EVIDENCE_MAX);
}

static void more_than_the_table_holds(void **state)
{
	char name[24];

	(void)state;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < FINDINGS_MAX + 50; i++) {
			struct verdict verdict = slow(-1, true);

			snprintf(name, sizeof(name), "%d", i);
			memcpy(verdict.finding.communicator, name, sizeof(verdict.finding.communicator));
			say(verdict);
		}
		round_over();
	}
	assert_int_equal(n_sent, FINDINGS_MAX);
	quiet(10);
	assert_int_equal(n_sent, 2 * FINDINGS_MAX);
	/* Closed findings free their slots. */
	said(slow(3, true), 1);
	assert_int_equal(last(FINDING_OPEN)->rank, 13);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		LIFE(suspected_open_closed),
		LIFE(a_card_that_is_found_later_is_in_the_next_update),
		LIFE(what_is_soon_over_is_not_confirmed),
		LIFE(updated_for_its_cost),
		LIFE(not_confirmed_and_dropped),
		LIFE(bursts_are_findings_of_their_own),
		LIFE(a_hang_that_comes_back_is_one),
		LIFE(the_heavier_cause_wins),
		LIFE(the_host_goes_with_the_cause),
		LIFE(hangs_end_with_snapshots),
		LIFE(a_hang_whose_culprit_is_seen_later_is_one),
		LIFE(decreasing_figures_are_not_published),
		LIFE(invalid_verdicts),
		LIFE(more_than_the_table_holds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
