/* SPDX-License-Identifier: Apache-2.0 */
/* A job's findings, fed with verdicts: a step a second, and all that is published. */
#ifndef TESTS_FINDINGS_SCRIPT_H
#define TESTS_FINDINGS_SCRIPT_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "analyzers/detect/findings.h"

#define S 1000000000ULL
#define RANKS 8
#define CARDS 100
#define SENT_MAX 4096

static struct findings *findings;
static struct finding sent[SENT_MAX];
static size_t n_sent;
static struct frame_who who[RANKS];
static uint64_t next_id, step, now;
static bool costs_too; /* keep updates of the cost alone; else they replace the previous one */

static inline void on_finding(void *arg, const struct finding *finding)
{
	assert_ptr_equal(arg, sent);
	assert_true(finding->id > 0 && finding->id < next_id);
	for (size_t i = n_sent; i-- > 0 && !costs_too;) {
		if (sent[i].id != finding->id)
			continue;
		if (sent[i].state == finding->state && sent[i].cause == finding->cause &&
			sent[i].rank == finding->rank) {
			sent[i] = *finding;
			return;
		}
		break;
	}
	assert_true(n_sent < SENT_MAX);
	sent[n_sent++] = *finding;
}

static inline int start(void **state)
{
	const struct detect_options options = {.relief_frames = 10};
	const struct findings_sink sink = {on_finding, sent};

	(void)state;
	for (int32_t i = 0; i < RANKS; i++) {
		who[i] = (struct frame_who){.rank = 10 + i, .node = (uint32_t)i / 4};
		snprintf(who[i].host, sizeof(who[i].host), "node-%c", 'a' + i / 4);
		snprintf(who[i].card, sizeof(who[i].card), "%d", i % 4);
	}
	n_sent = 0;
	costs_too = false;
	next_id = 5;
	step = 1000;
	now = 5000 * S;
	findings = findings_new(&options, "job", &sink, &next_id);
	assert_non_null(findings);
	return 0;
}

static inline int stop(void **state)
{
	(void)state;
	findings = findings_free(findings);
	return 0;
}

/* Slow operations of the rank of that index. */
static inline struct verdict slow(int32_t rank, bool confirmed)
{
	struct verdict verdict = {.confirmed = confirmed, .lost_ns = 0.1 * S};

	verdict.finding.kind = FINDING_SLOW_COMMUNICATION;
	verdict.finding.cause = CAUSE_COMMUNICATION;
	verdict.finding.rank = rank;
	verdict.finding.confidence = 0.9;
	verdict.finding.slowdown = 1.2;
	finding_add(&verdict.finding, "transfer", "ns", 0.6e9, 0.5e9, "peers");
	return verdict;
}

static inline struct verdict of(enum finding_kind kind, struct verdict verdict)
{
	verdict.finding.kind = kind;
	return verdict;
}

static inline void say(struct verdict verdict)
{
	findings_add_verdict(findings, &verdict, who, RANKS, CARDS, FRAME_TIER_HOST, step, now);
}

/* A second a step. */
static inline void round_over(void)
{
	findings_round(findings, false, now);
	step++;
	now += S;
}

static inline void snapshot_over(void)
{
	findings_round(findings, true, now);
	now += S;
}

static inline void quiet(unsigned rounds)
{
	while (rounds--)
		round_over();
}

static inline void said(struct verdict verdict, unsigned rounds)
{
	while (rounds--) {
		say(verdict);
		round_over();
	}
}

/* The newest one published. */
static inline const struct finding *last(enum finding_state state)
{
	assert_true(n_sent > 0);
	assert_int_equal(sent[n_sent - 1].state, state);
	return &sent[n_sent - 1];
}

#define LIFE(test) cmocka_unit_test_setup_teardown(test, start, stop)

#endif
