/* SPDX-License-Identifier: Apache-2.0 */
/* Causes of slow cards from their gauges. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analyzers/gauges/card_gauges.h"

#include "tests/test.h"

#define SECOND 1000000000ULL
#define CARDS 4
#define BEGIN_S 10000
#define UTC_NS ((14 * 3600 + 3 * 60) * SECOND) /* of now */

static struct card_gauges *cards;
static uint64_t now_s;

static const char *object_of(unsigned card)
{
	static const char *const objects[CARDS] = {"GPU-0000", "GPU-1111", "GPU-2222", "GPU-3333"};

	return objects[card];
}

static int setup(void **state)
{
	setenv("TZ", "UTC", 1);
	tzset();
	cards = card_gauges_new();
	now_s = BEGIN_S;
	for (unsigned i = 0; i < CARDS; i++)
		card_gauges_card(cards, object_of(i), (int)i + 4);
	return cards ? 0 : -1;
}

static int teardown(void **state)
{
	card_gauges_free(cards);
	return 0;
}

static void sample(unsigned card, const char *name, double value)
{
	card_gauges_sample(cards, now_s * SECOND, object_of(card), name, value);
}

/* A minute of all cards; card 1 alone has the gauge at `odd`. */
static void run(unsigned count, const char *name, double usual, double odd, double clock, double odd_clock)
{
	for (unsigned s = 0; s < 60; s++, now_s++)
		for (unsigned i = 0; i < count; i++) {
			unsigned card = count == 1 ? 1 : i;

			sample(card, name, card == 1 ? odd : usual);
			sample(card, "clock_sm", card == 1 ? odd_clock : clock);
		}
}

/* Of rank 1, open for a minute, on the card with node 5. */
static struct finding finding_of(uint64_t id)
{
	return (struct finding){.id = id,
		.kind = FINDING_SLOW_RANK,
		.cause = CAUSE_COMPUTE,
		.activity = ACTIVITY_BACKWARD,
		.state = FINDING_OPEN,
		.severity = SEVERITY_WARNING,
		.rank = 1,
		.host = "node-a",
		.card = "5",
		.since_ns = (now_s - 60) * SECOND,
		.slowdown = 1.3};
}

static const struct finding_evidence *evidence_of(const struct finding *finding, const char *name)
{
	for (size_t i = 0; i < finding->evidences; i++)
		if (strcmp(finding->evidence[i].name, name) == 0)
			return &finding->evidence[i];
	fail_msg("no evidence %s", name);
	return NULL;
}

static void says(const struct finding *finding, const char *text)
{
	if (!strstr(finding->sentence, text))
		fail_msg("\"%s\" lacks \"%s\"", finding->sentence, text);
}

TEST_WITH(limited_by_power, setup, teardown)
{
	struct finding finding;

	run(CARDS, "limited_power", 0, 1, 1980e6, 1200e6);
	finding = finding_of(1);
	assert_true(card_gauges_explain(cards, now_s * SECOND, UTC_NS, &finding));
	assert_int_equal(finding.cause, CAUSE_CARD_POWER);
	assert_true(fabs(evidence_of(&finding, "card_clock")->value - 1200) < 1);
	assert_true(fabs(evidence_of(&finding, "card_clock")->peers - 1980) < 1);
	says(&finding, "1200 MHz, lowered for power");
	says(&finding, "peers 1980 (since 14:02)");
	/* By its UUID. */
	finding = finding_of(2);
	strcpy(finding.card, "GPU-1111");
	assert_true(card_gauges_explain(cards, now_s * SECOND, UTC_NS, &finding));
}

/* A card that has more to do takes more power: its clock is 3 % lower, and its job 30 % slower. */
TEST_WITH(a_clock_that_explains_little, setup, teardown)
{
	struct finding finding;

	run(CARDS, "limited_power", 0, 1, 1980e6, 1925e6);
	finding = finding_of(1);
	assert_false(card_gauges_explain(cards, now_s * SECOND, UTC_NS, &finding));
	assert_int_equal(finding.cause, CAUSE_COMPUTE);
	/* It is half of 5 %. */
	finding.slowdown = 1.05;
	assert_true(card_gauges_explain(cards, now_s * SECOND, UTC_NS, &finding));
	assert_int_equal(finding.cause, CAUSE_CARD_POWER);
}

/* What all cards reach makes none slower than the others. */
TEST_WITH(all_are_limited, setup, teardown)
{
	struct finding finding;

	run(CARDS, "limited_power", 1, 1, 1500e6, 1490e6);
	finding = finding_of(1);
	assert_false(card_gauges_explain(cards, now_s * SECOND, UTC_NS, &finding));
	assert_int_equal(finding.cause, CAUSE_COMPUTE);
	assert_int_equal(finding.evidences, 0);
}

/* The only card of its node: against its own past. */
TEST_WITH(than_before, setup, teardown)
{
	struct finding finding;

	run(1, "limited_thermal", 0, 0, 0, 1980e6);
	run(1, "limited_thermal", 0, 1, 0, 1400e6);
	finding = finding_of(1);
	assert_true(card_gauges_explain(cards, now_s * SECOND, UTC_NS, &finding));
	assert_int_equal(finding.cause, CAUSE_CARD_HEAT);
	assert_true(isnan(evidence_of(&finding, "card_clock")->peers));
	assert_string_equal(evidence_of(&finding, "card_clock")->detail, "1980 before, since 14:02");
}

TEST_WITH(another_process, setup, teardown)
{
	struct finding finding;

	card_gauges_sample(cards, now_s * SECOND, "GPU-1111/100 python", "process_memory", 1);
	now_s += 60;
	for (unsigned s = 0; s < 60; s++, now_s++) {
		for (unsigned i = 0; i < CARDS; i++)
			sample(i, "processes", i == 1 && s >= 20 ? 2 : 1);
		card_gauges_sample(cards, now_s * SECOND, "GPU-1111/100 python", "process_memory", 1);
		card_gauges_sample(cards, now_s * SECOND, "GPU-1111/4711 gpu-burn", "process_memory", 1);
	}
	finding = finding_of(1);
	assert_true(card_gauges_explain(cards, now_s * SECOND, UTC_NS, &finding));
	assert_int_equal(finding.cause, CAUSE_CARD_SHARED);
	says(&finding, "2 processes compute on its card (4711 gpu-burn, since 14:02); peers 1");
}

/* The first rule is the cause; what else differs is beside it, once. Warmer alone is no cause. */
TEST_WITH(all_that_differs, setup, teardown)
{
	struct finding finding;

	for (unsigned s = 0; s < 120; s++, now_s++)
		for (unsigned i = 0; i < CARDS; i++) {
			bool odd = i == 1 && s >= 60;

			sample(i, "limited_thermal", odd);
			sample(i, "limited_hardware", odd);
			sample(i, "clock_sm", odd ? 1200e6 : 1980e6);
			sample(i, "pcie_width", i == 1 ? 8 : 16);
			sample(i, "temperature", i == 1 ? 90 : i == 2 ? 79 : 80);
		}
	finding = finding_of(1);
	assert_true(card_gauges_explain(cards, now_s * SECOND, UTC_NS, &finding));
	assert_int_equal(finding.cause, CAUSE_CARD_HEAT);
	assert_int_equal(finding.evidences, 2);
	assert_string_equal(evidence_of(&finding, "card_clock")->detail, "since 14:02");
	assert_string_equal(evidence_of(&finding, "card_lanes")->detail, "since 14:01");
	for (unsigned s = 0; s < 60; s++, now_s++)
		for (unsigned i = 0; i < CARDS; i++) {
			sample(i, "clock_sm", 1980e6);
			sample(i, "temperature", i == 1 ? 91 : 80);
		}
	finding = finding_of(2);
	assert_false(card_gauges_explain(cards, now_s * SECOND, UTC_NS, &finding));
	for (unsigned s = 0; s < 60; s++, now_s++)
		for (unsigned i = 0; i < CARDS; i++) {
			sample(i, "limited_thermal", i == 1);
			sample(i, "clock_sm", i == 1 ? 1200e6 : 1980e6);
			sample(i, "temperature", i == 1 ? 91 : 80);
		}
	finding = finding_of(3);
	finding.evidences = FINDING_EVIDENCE_MAX;
	assert_true(card_gauges_explain(cards, now_s * SECOND, UTC_NS, &finding));
	assert_int_equal(finding.evidences, FINDING_EVIDENCE_MAX);
	assert_true(fabs(evidence_of(&finding, "card_temperature")->value - 91) < 0.1);
	assert_true(fabs(evidence_of(&finding, "card_clock")->value - 1200) < 1);
}

/* Idle cards of the node are no peers, nor is the card's own time before the job. */
TEST_WITH(idle_cards_are_no_reference, setup, teardown)
{
	struct finding finding;

	for (unsigned s = 0; s < 120; s++, now_s++)
		for (unsigned i = 0; i < CARDS; i++) {
			sample(i, "processes", i == 1 && s >= 60);
			sample(i, "clock_sm", i == 1 && s >= 60 ? 1200e6 : 345e6);
			sample(i, "limited_power", i == 1 && s >= 60);
		}
	finding = finding_of(1);
	assert_false(card_gauges_explain(cards, now_s * SECOND, UTC_NS, &finding));
	/* The same as a peer that works, without a limit. */
	for (unsigned s = 0; s < 60; s++, now_s++)
		for (unsigned i = 0; i < CARDS; i++) {
			sample(i, "processes", i == 1 || i == 2);
			sample(i, "clock_sm", i == 1 ? 1200e6 : i == 2 ? 1980e6 : 345e6);
			sample(i, "limited_power", i == 1);
		}
	finding = finding_of(1);
	assert_true(card_gauges_explain(cards, now_s * SECOND, UTC_NS, &finding));
	assert_int_equal(finding.cause, CAUSE_CARD_POWER);
	assert_true(fabs(evidence_of(&finding, "card_clock")->peers - 1980) < 1);
}

/* Processes are read every two minutes: the newest reading's are there now. */
TEST_WITH(another_process_read_seldom, setup, teardown)
{
	struct finding finding;

	card_gauges_sample(cards, now_s * SECOND, "GPU-1111/100 python", "process_memory", 1);
	now_s += 120;
	for (unsigned i = 0; i < CARDS; i++)
		sample(i, "processes", i == 1 ? 2 : 1);
	card_gauges_sample(cards, now_s * SECOND, "GPU-1111/100 python", "process_memory", 1);
	card_gauges_sample(cards, now_s * SECOND, "GPU-1111/4711 gpu-burn", "process_memory", 1);
	now_s += 110;
	finding = finding_of(1);
	finding.since_ns = (now_s - 115) * SECOND;
	assert_true(card_gauges_explain(cards, now_s * SECOND, UTC_NS, &finding));
	assert_int_equal(finding.cause, CAUSE_CARD_SHARED);
	says(&finding, "4711 gpu-burn");
}

TEST_WITH(a_narrow_link, setup, teardown)
{
	struct finding finding;

	run(CARDS, "pcie_width", 16, 8, 1980e6, 1980e6);
	finding = finding_of(1);
	assert_true(card_gauges_explain(cards, now_s * SECOND, UTC_NS, &finding));
	assert_int_equal(finding.cause, CAUSE_CARD_LINK);
	says(&finding, "8 lanes");
}

/* The cause remains when the gauge has become normal again; another finding does not have it. */
TEST_WITH(it_remains, setup, teardown)
{
	struct finding finding;

	run(CARDS, "limited_power", 0, 1, 1980e6, 1200e6);
	finding = finding_of(7);
	assert_true(card_gauges_explain(cards, now_s * SECOND, UTC_NS, &finding));
	for (unsigned i = 0; i < 20; i++)
		run(CARDS, "limited_power", 0, 0, 1980e6, 1980e6);
	finding = finding_of(7);
	finding.state = FINDING_CLOSED;
	assert_true(card_gauges_explain(cards, now_s * SECOND, UTC_NS, &finding));
	assert_int_equal(finding.cause, CAUSE_CARD_POWER);
	assert_true(fabs(evidence_of(&finding, "card_clock")->value - 1200) < 1);
	finding = finding_of(8);
	assert_false(card_gauges_explain(cards, now_s * SECOND, UTC_NS, &finding));
}

/* What is known to be of the host, of another cause, of another card, or not confirmed. */
TEST_WITH(what_is_not_the_card, setup, teardown)
{
	struct finding finding;

	run(CARDS, "limited_power", 0, 1, 1980e6, 1200e6);
	finding = finding_of(1);
	finding.side = FINDING_SIDE_HOST;
	assert_false(card_gauges_explain(cards, now_s * SECOND, UTC_NS, &finding));
	finding = finding_of(1);
	finding.cause = CAUSE_DATALOADER;
	assert_false(card_gauges_explain(cards, now_s * SECOND, UTC_NS, &finding));
	finding = finding_of(1);
	strcpy(finding.card, "6");
	assert_false(card_gauges_explain(cards, now_s * SECOND, UTC_NS, &finding));
	finding = finding_of(1);
	finding.card[0] = 0;
	assert_false(card_gauges_explain(cards, now_s * SECOND, UTC_NS, &finding));
	finding = finding_of(1);
	finding.state = FINDING_SUSPECTED;
	assert_false(card_gauges_explain(cards, now_s * SECOND, UTC_NS, &finding));
	finding = finding_of(1);
	finding.kind = FINDING_HANG;
	assert_false(card_gauges_explain(cards, now_s * SECOND, UTC_NS, &finding));
}

TEST_WITH(power_is_the_newest_and_not_old, setup, teardown)
{
	assert_true(isnan(card_gauges_power(cards, "5", now_s * SECOND)));
	sample(1, "power", 300);
	sample(1, "power", 350);
	assert_true(card_gauges_power(cards, "5", now_s * SECOND + CARD_GAUGES_FRESH_NS) == 350);
	assert_true(card_gauges_power(cards, "GPU-1111", (now_s - 1) * SECOND) == 350);
	assert_true(isnan(card_gauges_power(cards, "5", now_s * SECOND + CARD_GAUGES_FRESH_NS + 1)));
	assert_true(isnan(card_gauges_power(cards, "4", now_s * SECOND)));
	assert_true(isnan(card_gauges_power(cards, "", now_s * SECOND)));
	assert_true(isnan(card_gauges_power(NULL, "5", now_s * SECOND)));
}

TEST_MAIN(NULL, NULL)
