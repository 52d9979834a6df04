/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/gauges/card_gauges.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analyzers/base/robust.h"
#include "analyzers/gauges/gauge_history.h"

#define OBJECT_BYTES 72
#define PROCESSES_MAX 16
#define REMEMBERED_MAX 64
#define EXPLAINED 0.5 /* of the step's growth: a clock that is lower by less is no cause of it */

enum series { CLOCK, POWER_LIMITED, BRAKED, HEAT_LIMITED, HARDWARE_LIMITED, LANES, PROCESSES, TEMPERATURE, SERIES_MAX };

static const char *const series_names[SERIES_MAX] = {
	[CLOCK] = "clock_sm",
	[POWER_LIMITED] = "limited_power",
	[BRAKED] = "limited_brake",
	[HEAT_LIMITED] = "limited_thermal",
	[HARDWARE_LIMITED] = "limited_hardware",
	[LANES] = "pcie_width",
	[PROCESSES] = "processes",
	[TEMPERATURE] = "temperature",
};

/*
 * The condition: `series` exceeds its reference by `more` (below 0: falls below it by that part of the reference). The
 * evidence: `shown`, times scale; its mean, or of what is counted the newest sample.
 */
static const struct rule {
	enum series series;
	double more;
	enum finding_cause cause; /* CAUSE_MAX: none, but evidence beside one */
	enum series shown;
	const char *name, *unit;
	double scale;
	bool is_count;
} rules[] = {
	{PROCESSES, 0.5, CAUSE_CARD_SHARED, PROCESSES, "card_processes", "1", 1, true},
	{HEAT_LIMITED, 0.3, CAUSE_CARD_HEAT, CLOCK, "card_clock", "MHz", 1e-6, false},
	{POWER_LIMITED, 0.3, CAUSE_CARD_POWER, CLOCK, "card_clock", "MHz", 1e-6, false},
	{BRAKED, 0.3, CAUSE_CARD_POWER, CLOCK, "card_clock", "MHz", 1e-6, false},
	{HARDWARE_LIMITED, 0.3, CAUSE_CARD_HEAT, CLOCK, "card_clock", "MHz", 1e-6, false},
	{LANES, -0.3, CAUSE_CARD_LINK, LANES, "card_lanes", "1", 1, true},
	/* C: two cards of a node under one load differ by 7 (docs/benchmarks.md) */
	{TEMPERATURE, 10, CAUSE_MAX, TEMPERATURE, "card_temperature", "C", 1, false},
};

#define EVIDENCE_MAX 4 /* processes, clock, lanes, temperature */

/* Of a card in use. */
struct series_history {
	struct gauge_history history;
	double newest;
};

struct process {
	char text[OBJECT_BYTES]; /* "PID NAME" */
	uint64_t first_ns, last_ns;
};

struct card {
	char object[OBJECT_BYTES];
	int minor;
	bool idle;    /* no process used it when they were read last */
	double power; /* W, the newest */
	uint64_t power_ns;
	struct series_history series[SERIES_MAX];
	struct process process[PROCESSES_MAX];
};

struct remembered {
	uint64_t id;
	enum finding_cause cause;
	size_t evidences;
	struct finding_evidence evidence[EVIDENCE_MAX];
};

struct card_time {
	uint64_t now_ns, utc_ns; /* the same moment */
};

struct card_gauges {
	size_t count;
	struct card *card[CARD_GAUGES_CARDS_MAX];
	struct remembered remembered[REMEMBERED_MAX];
	size_t next;
};

struct card_gauges *card_gauges_new(void)
{
	return calloc(1, sizeof(struct card_gauges));
}

struct card_gauges *card_gauges_free(struct card_gauges *cards)
{
	if (!cards)
		return NULL;
	for (size_t i = 0; i < cards->count; i++)
		free(cards->card[i]);
	free(cards);
	return NULL;
}

/* length: of the object, which more may follow. */
static struct card *card_gauges_find(struct card_gauges *cards, const char *object, size_t length)
{
	for (size_t i = 0; i < cards->count; i++)
		if (strncmp(cards->card[i]->object, object, length) == 0 && !cards->card[i]->object[length])
			return cards->card[i];
	return NULL;
}

void card_gauges_card(struct card_gauges *cards, const char *object, int minor)
{
	struct card *card = strlen(object) < OBJECT_BYTES ? card_gauges_find(cards, object, strlen(object)) : NULL;

	if (!card && strlen(object) < OBJECT_BYTES && cards->count < CARD_GAUGES_CARDS_MAX) {
		card = calloc(1, sizeof(*card));
		if (!card)
			return;
		snprintf(card->object, sizeof(card->object), "%s", object);
		cards->card[cards->count++] = card;
	}
	if (card)
		card->minor = minor;
}

/* Of more processes than are kept, the one that was seen last longest ago is replaced. */
static void card_add_process(struct card *card, uint64_t time_ns, const char *text)
{
	struct process *oldest = &card->process[0];

	for (size_t i = 0; i < PROCESSES_MAX; i++) {
		if (card->process[i].last_ns && strcmp(card->process[i].text, text) == 0) {
			card->process[i].last_ns = time_ns;
			return;
		}
		if (card->process[i].last_ns < oldest->last_ns)
			oldest = &card->process[i];
	}
	*oldest = (struct process){.first_ns = time_ns, .last_ns = time_ns};
	snprintf(oldest->text, sizeof(oldest->text), "%s", text);
}

void card_gauges_sample(struct card_gauges *cards, uint64_t time_ns, const char *object, const char *name, double value)
{
	const char *slash = strchr(object, '/');
	struct card *card = card_gauges_find(cards, object, slash ? (size_t)(slash - object) : strlen(object));

	if (!card)
		return;
	if (slash) {
		card_add_process(card, time_ns, slash + 1);
		return;
	}
	if (strcmp(name, series_names[PROCESSES]) == 0)
		card->idle = value < 1;
	/* A card at rest is nothing to compare with. */
	for (enum series series = 0; series < SERIES_MAX && !card->idle; series++) {
		if (strcmp(series_names[series], name) != 0)
			continue;
		gauge_history_add(&card->series[series].history, time_ns, value, 1);
		card->series[series].newest = value;
	}
	if (strcmp(name, "power") == 0) {
		card->power = value;
		card->power_ns = time_ns;
	}
}

static double card_mean(const struct card *card, enum series series, uint64_t since_ns, uint64_t until_ns)
{
	return gauge_history_mean(&card->series[series].history, since_ns, until_ns);
}

/* The median of the other cards in use, at that time; where there is none, the card's own mean before. */
static double card_reference(const struct card_gauges *cards, const struct card *card, enum series series,
	uint64_t since_ns, uint64_t now_ns, bool *ret_peers)
{
	double value[CARD_GAUGES_CARDS_MAX];
	size_t count = 0;

	for (size_t i = 0; i < cards->count; i++) {
		double mean = card_mean(cards->card[i], series, since_ns, now_ns);

		if (cards->card[i] != card && isfinite(mean))
			value[count++] = mean;
	}
	*ret_peers = count > 0;
	if (count)
		return robust_median(value, count);
	return since_ns > GAUGE_HISTORY_SLOT_NS ? card_mean(card, series, 0, since_ns - GAUGE_HISTORY_SLOT_NS) : NAN;
}

static bool card_rule_fits(const struct rule *rule, double value, double reference)
{
	if (!isfinite(value) || !isfinite(reference))
		return false;
	return rule->more > 0 ? value - reference > rule->more : value < reference * (1 + rule->more);
}

/* Work on a card takes longer by at most what its clock is lower by. */
static bool card_clock_explains(double clock, double reference, const struct finding *finding)
{
	return !(reference / clock - 1 < EXPLAINED * (finding->slowdown - 1));
}

/*
 * Of those that were there in the last minute, the one that came last. The minute is that before a process was seen
 * last: they may be read less often.
 */
static const char *card_newest_process(const struct card *card)
{
	const struct process *newest = NULL;
	uint64_t read_ns = 0;

	for (size_t i = 0; i < PROCESSES_MAX; i++)
		if (card->process[i].last_ns > read_ns)
			read_ns = card->process[i].last_ns;
	for (size_t i = 0; i < PROCESSES_MAX; i++) {
		const struct process *process = &card->process[i];

		if (process->last_ns && process->last_ns + 60000000000ULL >= read_ns &&
			(!newest || process->first_ns > newest->first_ns))
			newest = process;
	}
	return newest ? newest->text : "";
}

/* Since when it has differed so, in whole slots; 0: it does not. A slot without a reading does not end it. */
static uint64_t card_differs_since(
	const struct gauge_history *history, const struct rule *rule, double reference, uint64_t now_ns)
{
	uint64_t since_ns = 0, last = now_ns / GAUGE_HISTORY_SLOT_NS;

	for (uint64_t n = 0; n < GAUGE_HISTORY_SLOTS && n <= last; n++) {
		double value = gauge_history_of(history, last - n);

		if (card_rule_fits(rule, value, reference))
			since_ns = (last - n) * GAUGE_HISTORY_SLOT_NS;
		else if (since_ns && isfinite(value))
			break;
	}
	return since_ns;
}

/* "4711 gpu-burn, 1980 before, since 14:02": as far as it applies. */
static void card_detail(const char *process, double before, uint64_t since_utc_ns, char *ret, size_t size)
{
	time_t seconds = (time_t)(since_utc_ns / 1000000000ULL);
	char text[48] = "", clock[16] = "";
	struct tm tm;

	if (isfinite(before))
		snprintf(text, sizeof(text), "%.0f before", before);
	if (since_utc_ns && localtime_r(&seconds, &tm))
		(void)strftime(clock, sizeof(clock), "since %H:%M", &tm);
	snprintf(ret, size, "%.60s%s%s%s%s", process, *process && *text ? ", " : "", text,
		(*process || *text) && *clock ? ", " : "", clock);
}

static bool card_has_evidence(const struct remembered *known, const char *name)
{
	for (size_t i = 0; i < known->evidences; i++)
		if (strcmp(known->evidence[i].name, name) == 0)
			return true;
	return false;
}

/* Whether the rule fits: its evidence, and its cause where there is none before. */
static bool card_try(const struct card_gauges *cards, const struct card *card, const struct rule *rule,
	const struct card_time *now, const struct finding *finding, struct remembered *ret)
{
	struct finding_evidence *evidence = &ret->evidence[ret->evidences];
	double value = card_mean(card, rule->series, finding->since_ns, now->now_ns), usual, shown, reference;
	uint64_t since_ns;
	bool peers;

	usual = card_reference(cards, card, rule->series, finding->since_ns, now->now_ns, &peers);
	if (!card_rule_fits(rule, value, usual) || card_has_evidence(ret, rule->name))
		return false;
	shown = rule->is_count ? card->series[rule->shown].newest
			       : card_mean(card, rule->shown, finding->since_ns, now->now_ns);
	reference = card_reference(cards, card, rule->shown, finding->since_ns, now->now_ns, &peers);
	if (rule->shown == CLOCK && !card_clock_explains(shown, reference, finding))
		return false;
	since_ns = card_differs_since(&card->series[rule->series].history, rule, usual, now->now_ns);
	*evidence =
		(struct finding_evidence){.value = shown * rule->scale, .peers = peers ? reference * rule->scale : NAN};
	snprintf(evidence->name, sizeof(evidence->name), "%s", rule->name);
	snprintf(evidence->unit, sizeof(evidence->unit), "%s", rule->unit);
	card_detail(rule->shown == PROCESSES ? card_newest_process(card) : "", peers ? NAN : reference * rule->scale,
		since_ns ? now->utc_ns - (now->now_ns - since_ns) : 0, evidence->detail, sizeof(evidence->detail));
	ret->evidences++;
	return true;
}

static bool card_explain(const struct card_gauges *cards, const struct card *card, const struct card_time *now,
	const struct finding *finding, struct remembered *ret)
{
	*ret = (struct remembered){.id = finding->id, .cause = CAUSE_MAX};
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]) && ret->evidences < EVIDENCE_MAX; i++)
		if ((rules[i].cause != CAUSE_MAX || ret->cause != CAUSE_MAX) &&
			card_try(cards, card, &rules[i], now, finding, ret) && ret->cause == CAUSE_MAX)
			ret->cause = rules[i].cause;
	return ret->cause != CAUSE_MAX;
}

/* Ranks name a card by the number of its node, or by its UUID. */
static const struct card *card_of_rank(const struct card_gauges *cards, const char *name)
{
	char *end;
	long minor = strtol(name, &end, 10);

	for (size_t i = 0; i < cards->count; i++) {
		const struct card *card = cards->card[i];

		if (end != name && !*end ? card->minor == minor
					 : name[0] && strncmp(card->object, name, strlen(name)) == 0)
			return card;
	}
	return NULL;
}

double card_gauges_power(const struct card_gauges *cards, const char *name, uint64_t now_ns)
{
	const struct card *card = cards ? card_of_rank(cards, name) : NULL;

	return card && card->power_ns && now_ns <= card->power_ns + CARD_GAUGES_FRESH_NS ? card->power : NAN;
}

static struct remembered *card_remembered(struct card_gauges *cards, uint64_t id)
{
	for (size_t i = 0; i < REMEMBERED_MAX; i++)
		if (cards->remembered[i].id == id)
			return &cards->remembered[i];
	return NULL;
}

bool card_gauges_explain(struct card_gauges *cards, uint64_t now_ns, uint64_t utc_ns, struct finding *finding)
{
	const struct card *card = cards ? card_of_rank(cards, finding->card) : NULL;
	struct remembered *known = card && finding->id ? card_remembered(cards, finding->id) : NULL, found;

	if (!card || finding->kind != FINDING_SLOW_RANK || finding->side == FINDING_SIDE_HOST ||
		(finding->cause != CAUSE_UNKNOWN && finding->cause != CAUSE_COMPUTE && finding->cause != CAUSE_CARD))
		return false;
	if (!known) {
		if (finding->state != FINDING_OPEN ||
			!card_explain(cards, card, &(struct card_time){now_ns, utc_ns}, finding, &found))
			return false;
		known = &cards->remembered[cards->next++ % REMEMBERED_MAX];
		*known = found;
	}
	finding->cause = known->cause;
	if (finding->evidences > FINDING_EVIDENCE_MAX - known->evidences)
		finding->evidences = FINDING_EVIDENCE_MAX - known->evidences;
	for (size_t i = 0; i < known->evidences; i++) {
		const struct finding_evidence *evidence = &known->evidence[i];

		finding_add(
			finding, evidence->name, evidence->unit, evidence->value, evidence->peers, evidence->detail);
	}
	finding_write_sentence(finding);
	return true;
}
