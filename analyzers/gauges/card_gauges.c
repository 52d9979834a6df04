/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/gauges/card_gauges.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/robust.h"

#define OBJECT_BYTES 72
#define PROCESSES_MAX 16
#define REMEMBERED_MAX 64
#define EXPLAINED 0.5 /* of the step's growth: a clock that is lower by less is no cause of it */

enum series { CLOCK, POWER_LIMITED, BRAKED, HEAT_LIMITED, HARDWARE_LIMITED, LANES, PROCESSES, SERIES_MAX };

static const char *const series_names[SERIES_MAX] = {
	[CLOCK] = "clock_sm",
	[POWER_LIMITED] = "limited_power",
	[BRAKED] = "limited_brake",
	[HEAT_LIMITED] = "limited_thermal",
	[HARDWARE_LIMITED] = "limited_hardware",
	[LANES] = "pcie_width",
	[PROCESSES] = "processes",
};

/*
 * The condition: `series` exceeds its reference by `more` (below 0: falls below it by that part of the reference). The
 * evidence: the mean of `shown`, times scale.
 */
static const struct rule {
	enum series series;
	double more;
	enum finding_cause cause;
	enum series shown;
	const char *name, *unit;
	double scale;
} rules[] = {
	{PROCESSES, 0.5, CAUSE_CARD_SHARED, PROCESSES, "card_processes", "1", 1},
	{HEAT_LIMITED, 0.3, CAUSE_CARD_HEAT, CLOCK, "card_clock", "MHz", 1e-6},
	{POWER_LIMITED, 0.3, CAUSE_CARD_POWER, CLOCK, "card_clock", "MHz", 1e-6},
	{BRAKED, 0.3, CAUSE_CARD_POWER, CLOCK, "card_clock", "MHz", 1e-6},
	{HARDWARE_LIMITED, 0.3, CAUSE_CARD_HEAT, CLOCK, "card_clock", "MHz", 1e-6},
	{LANES, -0.3, CAUSE_CARD_LINK, LANES, "card_lanes", "1", 1},
};

/* Means of CARD_GAUGES_SLOT_NS each; slot number modulo the length. */
struct slots {
	uint64_t number[CARD_GAUGES_SLOTS];
	float sum[CARD_GAUGES_SLOTS];
	unsigned samples[CARD_GAUGES_SLOTS];
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
	struct slots slots[SERIES_MAX];
	struct process process[PROCESSES_MAX];
};

struct remembered {
	uint64_t id;
	enum finding_cause cause;
	struct finding_evidence evidence;
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

static void card_add(struct slots *slots, uint64_t time_ns, double value)
{
	uint64_t number = time_ns / CARD_GAUGES_SLOT_NS;
	size_t i = number % CARD_GAUGES_SLOTS;

	if (slots->number[i] != number) {
		slots->number[i] = number;
		slots->sum[i] = 0;
		slots->samples[i] = 0;
	}
	slots->sum[i] += (float)value;
	slots->samples[i]++;
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
	for (enum series series = 0; series < SERIES_MAX && !card->idle; series++)
		if (strcmp(series_names[series], name) == 0)
			card_add(&card->slots[series], time_ns, value);
	if (strcmp(name, "power") == 0) {
		card->power = value;
		card->power_ns = time_ns;
	}
}

/* Mean over whole slots in [since, until]; NAN: none. */
static double card_mean(const struct slots *slots, uint64_t since_ns, uint64_t until_ns)
{
	uint64_t first = since_ns / CARD_GAUGES_SLOT_NS, last = until_ns / CARD_GAUGES_SLOT_NS, samples = 0;
	double sum = 0;

	for (size_t i = 0; i < CARD_GAUGES_SLOTS; i++) {
		if (!slots->samples[i] || slots->number[i] < first || slots->number[i] > last)
			continue;
		sum += slots->sum[i];
		samples += slots->samples[i];
	}
	return samples ? sum / (double)samples : NAN;
}

/* The median of the other cards in use, at that time; where there is none, the card's own mean before. */
static double card_reference(const struct card_gauges *cards, const struct card *card, enum series series,
	uint64_t since_ns, uint64_t now_ns, bool *ret_peers)
{
	double value[CARD_GAUGES_CARDS_MAX];
	size_t count = 0;

	for (size_t i = 0; i < cards->count; i++) {
		double mean = card_mean(&cards->card[i]->slots[series], since_ns, now_ns);

		if (cards->card[i] != card && isfinite(mean))
			value[count++] = mean;
	}
	*ret_peers = count > 0;
	if (count)
		return robust_median(value, count);
	return since_ns > CARD_GAUGES_SLOT_NS ? card_mean(&card->slots[series], 0, since_ns - CARD_GAUGES_SLOT_NS)
					      : NAN;
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

static bool card_explain(const struct card_gauges *cards, const struct card *card, uint64_t now_ns,
	const struct finding *finding, struct remembered *ret)
{
	bool peers, shown_peers;

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		const struct rule *rule = &rules[i];
		double value = card_mean(&card->slots[rule->series], finding->since_ns, now_ns), shown, reference;

		if (!card_rule_fits(
			    rule, value, card_reference(cards, card, rule->series, finding->since_ns, now_ns, &peers)))
			continue;
		shown = card_mean(&card->slots[rule->shown], finding->since_ns, now_ns);
		reference = card_reference(cards, card, rule->shown, finding->since_ns, now_ns, &shown_peers);
		if (rule->shown == CLOCK && !card_clock_explains(shown, reference, finding))
			continue;
		*ret = (struct remembered){.id = finding->id,
			.cause = rule->cause,
			.evidence = {.value = shown * rule->scale, .peers = NAN}};
		snprintf(ret->evidence.name, sizeof(ret->evidence.name), "%s", rule->name);
		snprintf(ret->evidence.unit, sizeof(ret->evidence.unit), "%s", rule->unit);
		if (shown_peers)
			ret->evidence.peers = reference * rule->scale;
		else if (isfinite(reference))
			snprintf(ret->evidence.detail, sizeof(ret->evidence.detail), "%.0f before",
				reference * rule->scale);
		if (rule->cause == CAUSE_CARD_SHARED)
			snprintf(
				ret->evidence.detail, sizeof(ret->evidence.detail), "%.60s", card_newest_process(card));
		return true;
	}
	return false;
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

bool card_gauges_explain(struct card_gauges *cards, uint64_t now_ns, struct finding *finding)
{
	const struct card *card = cards ? card_of_rank(cards, finding->card) : NULL;
	struct remembered *known = card && finding->id ? card_remembered(cards, finding->id) : NULL, found;

	if (!card || finding->kind != FINDING_SLOW_RANK || finding->side == FINDING_SIDE_HOST ||
		(finding->cause != CAUSE_UNKNOWN && finding->cause != CAUSE_COMPUTE && finding->cause != CAUSE_CARD))
		return false;
	if (!known) {
		if (finding->state != FINDING_OPEN || !card_explain(cards, card, now_ns, finding, &found))
			return false;
		known = &cards->remembered[cards->next++ % REMEMBERED_MAX];
		*known = found;
	}
	finding->cause = known->cause;
	if (finding->evidences == FINDING_EVIDENCE_MAX)
		finding->evidences--;
	finding_add(finding, known->evidence.name, known->evidence.unit, known->evidence.value, known->evidence.peers,
		known->evidence.detail);
	finding_write_sentence(finding);
	return true;
}
