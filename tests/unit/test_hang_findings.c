/* SPDX-License-Identifier: Apache-2.0 */
/* The lifecycle of hangs and mismatches: what is published when. A snapshot a second. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyzers/detect/detect_internal.h"

#include "tests/test.h"

#define S 1000000000ULL
#define RANKS 8
#define CARDS 100
#define SENT_MAX 1024

static struct hang_findings *findings;
static struct finding sent[SENT_MAX];
static size_t n_sent;
static struct frame_who who[RANKS];
static struct hang_context context;
static uint64_t next_id;
static bool costs_too; /* keep updates of the cost alone; else they replace the previous one */

static void on_finding(void *arg, const struct finding *finding)
{
	const struct finding *newest = n_sent ? &sent[n_sent - 1] : NULL;

	assert_ptr_equal(arg, sent);
	assert_true(finding->id > 0 && finding->id < next_id);
	if (!costs_too && newest && newest->id == finding->id && newest->state == finding->state &&
		newest->cause == finding->cause && newest->rank == finding->rank)
		n_sent--;
	assert_true(n_sent < SENT_MAX);
	sent[n_sent++] = *finding;
}

static int start(void **state)
{
	const struct hang_findings_sink sink = {on_finding, sent};

	for (int32_t i = 0; i < RANKS; i++) {
		who[i] = (struct frame_who){.rank = 10 + i, .node = (uint32_t)i / 4};
		snprintf(who[i].host, sizeof(who[i].host), "node-%c", 'a' + i / 4);
		snprintf(who[i].card, sizeof(who[i].card), "%d", i % 4);
	}
	n_sent = 0;
	costs_too = false;
	next_id = 5;
	context = (struct hang_context){who, RANKS, CARDS, FRAME_TIER_HOST, 1000, 5000 * S};
	findings = hang_findings_new("job", &sink, &next_id);
	assert_non_null(findings);
	return 0;
}

static int stop(void **state)
{
	findings = hang_findings_free(findings);
	return 0;
}

static struct verdict hang(int32_t rank, bool confirmed)
{
	struct verdict verdict = {.confirmed = confirmed, .lost_ns = 1.0 * S};

	verdict.finding.kind = FINDING_HANG;
	verdict.finding.cause = CAUSE_STOPPED;
	verdict.finding.severity = SEVERITY_CRITICAL;
	verdict.finding.rank = rank;
	verdict.finding.confidence = 0.9;
	finding_add(&verdict.finding, "state", "1", 1, NAN, "T");
	return verdict;
}

static void say(struct verdict verdict)
{
	hang_findings_add(findings, &verdict, &context);
}

static void over(void)
{
	hang_findings_round(findings, context.now_ns);
	context.now_ns += S;
}

static void quiet(unsigned rounds)
{
	while (rounds--)
		over();
}

static void said(struct verdict verdict, unsigned rounds)
{
	while (rounds--) {
		say(verdict);
		over();
	}
}

/* The newest one published. */
static const struct finding *last(enum finding_state state)
{
	assert_true(n_sent > 0);
	assert_int_equal(sent[n_sent - 1].state, state);
	return &sent[n_sent - 1];
}

TEST_WITH(suspected_open_closed, start, stop)
{
	struct verdict verdict = hang(3, true);
	const struct finding *finding;

	said(hang(3, false), 2);
	assert_int_equal(n_sent, 1);
	finding = last(FINDING_SUSPECTED);
	assert_int_equal(finding->id, 5);
	assert_int_equal(finding->noticed_ns, 0);
	verdict.finding.since_ns = 4995 * S;
	said(verdict, 20);
	assert_int_equal(n_sent, 2);
	finding = last(FINDING_OPEN);
	assert_int_equal(finding->rank, 13);
	assert_string_equal(finding->host, "node-a");
	assert_string_equal(finding->card, "3");
	assert_string_equal(finding->job, "job");
	assert_int_equal(finding->since_ns, 4995 * S);
	assert_int_equal(finding->noticed_ns, 5002 * S);
	assert_int_equal(finding->until_ns, 0);
	quiet(HANG_SNAPSHOTS - 1);
	assert_int_equal(n_sent, 2);
	quiet(1);
	finding = last(FINDING_CLOSED);
	assert_int_equal(finding->id, 5);
	/* Between the last verdict and the first round without one. */
	assert_int_equal(finding->until_ns, 5021 * S + S / 2);
	/* 22 verdicts of 1 s on 100 cards. */
	assert_true(fabs(finding->cost_card_hours - 22.0 * 100 / 3600) < 1e-9);
}

TEST_WITH(a_first_quiet_round_of_an_earlier_time_ends_it_at_its_last_verdict, start, stop)
{
	const uint64_t last_ns = context.now_ns + 4 * S;

	said(hang(3, true), 5);
	context.now_ns = last_ns - S / 10;
	quiet(HANG_SNAPSHOTS);
	assert_int_equal(last(FINDING_CLOSED)->until_ns, last_ns);
}

TEST_WITH(a_card_that_is_found_later_is_in_the_next_update, start, stop)
{
	char card[sizeof(who[3].card)];

	memcpy(card, who[3].card, sizeof(card));
	memset(who[3].card, 0, sizeof(card));
	said(hang(3, true), 1);
	assert_string_equal(last(FINDING_OPEN)->card, "");
	memcpy(who[3].card, card, sizeof(card));
	said(hang(3, true), 31);
	assert_string_equal(last(FINDING_OPEN)->card, "3");
}

TEST_WITH(updated_for_its_cost, start, stop)
{
	costs_too = true;
	said(hang(3, true), 121);
	/* 0, 1, 2, 4 and 8 s old, then every 5 s. */
	assert_int_equal(n_sent, 5 + 22);
	for (size_t i = 1; i < n_sent; i++)
		assert_true(sent[i].cost_card_hours > sent[i - 1].cost_card_hours);
	assert_int_equal(sent[4].updated_ns - sent[3].updated_ns, 4 * S);
	assert_int_equal(sent[8].updated_ns - sent[7].updated_ns, HANG_UPDATE_NS);
	context.now_ns -= 4000 * S; /* a clock that steps back */
	said(hang(3, true), 10);
	assert_in_range(n_sent, 28, 37);
	n_sent = 0;
	hang_findings_end(findings, context.now_ns);
	assert_int_equal(last(FINDING_OPEN)->until_ns, 0);
	assert_int_equal(n_sent, 1);
}

/* Suspected for as long as there is reason to: half of a limit may be minutes. */
TEST_WITH(not_confirmed_and_dropped, start, stop)
{
	said(hang(3, false), 500);
	assert_int_equal(n_sent, 1);
	assert_int_equal(last(FINDING_SUSPECTED)->id, 5);
	quiet(HANG_SNAPSHOTS - 1);
	last(FINDING_SUSPECTED);
	quiet(1);
	assert_int_equal(last(FINDING_DROPPED)->id, 5);
	said(hang(3, false), 1);
	assert_int_equal(last(FINDING_SUSPECTED)->id, 5);
	quiet(HANG_SNAPSHOTS);
	assert_int_equal(last(FINDING_DROPPED)->id, 5);
	assert_int_equal(n_sent, 4);
	said(hang(3, true), 1);
	assert_int_equal(last(FINDING_OPEN)->since_ns, context.now_ns - S);
}

/* It is the same one, and takes twice as long to be closed each time. */
TEST_WITH(a_hang_that_recurs_is_one, start, stop)
{
	for (unsigned back = 0; back < 4; back++) {
		said(hang(3, true), 5);
		assert_int_equal(last(FINDING_OPEN)->id, 5);
		quiet((HANG_SNAPSHOTS << back) - 1);
		last(FINDING_OPEN);
		quiet(1);
		assert_int_equal(last(FINDING_CLOSED)->id, 5);
		assert_true(last(FINDING_CLOSED)->until_ns && last(FINDING_CLOSED)->until_step);
	}
	assert_non_null(strstr(last(FINDING_CLOSED)->sentence, "; recurred 3 times"));
	/* What is no more than suspected after it was closed is no news. */
	said(hang(3, false), 1);
	last(FINDING_CLOSED);
	/* Long after, it is another one. */
	context.now_ns += HANG_REOPEN_NS;
	quiet(2);
	said(hang(3, true), 1);
	assert_int_equal(last(FINDING_OPEN)->id, 6);
}

/* A rank that was stopped, and soon after it does not come to an operation. */
TEST_WITH(a_hang_for_another_cause_is_another, start, stop)
{
	struct verdict verdict = hang(3, true);

	said(hang(3, true), 5);
	verdict.finding.cause = CAUSE_MISSING;
	said(verdict, 1);
	assert_int_equal(last(FINDING_OPEN)->id, 5);
	quiet(HANG_SNAPSHOTS);
	last(FINDING_CLOSED);
	verdict.finding.cause = CAUSE_STOPPED;
	said(verdict, 1);
	assert_int_equal(last(FINDING_OPEN)->id, 6);
	assert_int_equal(last(FINDING_OPEN)->cause, CAUSE_STOPPED);
	/* One snapshot says otherwise: of the open one. */
	verdict.finding.cause = CAUSE_MISSING;
	verdict.finding.confidence /= 2;
	said(verdict, 1);
	assert_int_equal(last(FINDING_OPEN)->id, 6);
	assert_int_equal(last(FINDING_OPEN)->cause, CAUSE_STOPPED);
}

/* Nor is what recurs another one as long as it is not known why. */
TEST_WITH(a_hang_that_recurs_for_a_reason_unknown_so_far, start, stop)
{
	struct verdict verdict = hang(3, false);

	said(hang(3, true), 5);
	quiet(HANG_SNAPSHOTS);
	last(FINDING_CLOSED);
	verdict.finding.cause = CAUSE_UNKNOWN;
	verdict.finding.confidence = 0.5;
	said(verdict, 1);
	last(FINDING_CLOSED);
	said(hang(3, true), 1);
	assert_int_equal(last(FINDING_OPEN)->id, 5);
}

TEST_WITH(a_hang_whose_culprit_is_seen_later_is_one, start, stop)
{
	struct verdict verdict = hang(-1, true);

	verdict.finding.since_ns = context.now_ns - 30 * S;
	said(verdict, 1);
	verdict.finding.rank = 3;
	said(verdict, 1);
	assert_int_equal(n_sent, 2);
	assert_int_equal(last(FINDING_OPEN)->id, 5);
	assert_int_equal(last(FINDING_OPEN)->rank, 13);
	assert_string_equal(last(FINDING_OPEN)->card, "3");
	/* Who it is was surer than that. */
	verdict.finding.rank = 5;
	verdict.finding.confidence /= 2;
	said(verdict, 1);
	assert_int_equal(last(FINDING_OPEN)->id, 5);
	assert_int_equal(last(FINDING_OPEN)->rank, 13);
	assert_string_equal(last(FINDING_OPEN)->card, "3");
	/* It went on, and hangs again because of another. */
	verdict.finding.confidence *= 2;
	verdict.finding.rank = 4;
	verdict.finding.since_ns = context.now_ns;
	said(verdict, 1);
	assert_int_equal(last(FINDING_OPEN)->id, 6);
}

TEST_WITH(the_surer_cause_is_kept, start, stop)
{
	struct verdict verdict = hang(3, true);

	verdict.finding.cause = CAUSE_UNKNOWN;
	verdict.finding.confidence = 0.5;
	said(verdict, 3);
	assert_int_equal(last(FINDING_OPEN)->cause, CAUSE_UNKNOWN);
	said(hang(3, true), 1);
	assert_int_equal(n_sent, 2);
	assert_int_equal(last(FINDING_OPEN)->cause, CAUSE_STOPPED);
	verdict.finding.evidences = 0;
	said(verdict, 3);
	hang_findings_close(findings, context.now_ns);
	assert_int_equal(last(FINDING_CLOSED)->cause, CAUSE_STOPPED);
	assert_string_equal(last(FINDING_CLOSED)->evidence[0].name, "state");
}

TEST_WITH(a_hung_rank_that_is_killed_hung_before, start, stop)
{
	struct verdict ended = hang(3, true), unknown = hang(4, true);

	ended.finding.cause = CAUSE_ENDED;
	ended.finding.confidence = 0.97;
	said(hang(3, true), 3);
	said(ended, 1);
	assert_int_equal(last(FINDING_OPEN)->cause, CAUSE_STOPPED);
	hang_findings_close(findings, context.now_ns);
	assert_int_equal(last(FINDING_CLOSED)->cause, CAUSE_STOPPED);
	/* Nothing better was known of the other. */
	unknown.finding.cause = CAUSE_UNKNOWN;
	said(unknown, 3);
	ended.finding.rank = 4;
	said(ended, 1);
	assert_int_equal(last(FINDING_OPEN)->cause, CAUSE_ENDED);
}

/* A step belongs to a hang that was confirmed and had half of its time. */
TEST_WITH(a_hang_covers_its_time, start, stop)
{
	uint64_t begin_ns = context.now_ns;

	said(hang(3, false), 10);
	assert_false(hang_findings_cover(findings, begin_ns, begin_ns + 9 * S));
	said(hang(3, true), 10);
	assert_true(hang_findings_cover(findings, begin_ns + 10 * S, begin_ns + 28 * S));
	assert_false(hang_findings_cover(findings, begin_ns + 10 * S, begin_ns + 30 * S));
	quiet(HANG_SNAPSHOTS);
	last(FINDING_CLOSED);
	assert_true(hang_findings_cover(findings, begin_ns + 10 * S, begin_ns + 28 * S));
	assert_false(hang_findings_cover(findings, begin_ns + 19 * S, begin_ns + 30 * S));
}

TEST_WITH(a_rank_out_of_range_is_left_out, start, stop)
{
	said(hang(RANKS, true), 3);
	assert_int_equal(n_sent, 0);
}

TEST_WITH(more_than_the_table_holds, start, stop)
{
	char name[24];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < HANG_FINDINGS_MAX + 50; i++) {
			struct verdict verdict = hang(-1, true);

			snprintf(name, sizeof(name), "%d", i);
			memcpy(verdict.finding.communicator, name, sizeof(verdict.finding.communicator));
			verdict.finding.kind = FINDING_MISMATCH;
			say(verdict);
		}
		over();
	}
	quiet(HANG_SNAPSHOTS + 1 + (unsigned)(HANG_REOPEN_NS / S));
	assert_int_equal(next_id, 5 + HANG_FINDINGS_MAX);
	/* What cannot recur frees its place. */
	said(hang(3, true), 1);
	assert_int_equal(last(FINDING_OPEN)->rank, 13);
}

TEST_MAIN(NULL, NULL)
