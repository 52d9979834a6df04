/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/gauges/hardware.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define UUID_LEAST 8 /* characters: fewer may be a word */

/* How a gauge shows a fault. Counters that go back begin again: the driver was loaded anew. */
enum hardware_test {
	RISES, /* a counter: each increase */
	FALLS, /* below the highest value seen: as long as it is */
	IS,    /* not 0, from 1 on: as long as it is */
};

static const struct hardware_rule {
	const char *gauge;
	enum hardware_test test;
	double least; /* RISES: so many are one event. IS: the least value that counts */
	enum finding_cause cause;
	enum finding_severity severity;
	bool port;	  /* the object is a network port; else a card */
	const char *what; /* in brackets in the sentence; of FALLS, %.0f is the highest value */
} hardware_rules[] = {
	{"lost", IS, 1, CAUSE_CARD_LOST, SEVERITY_CRITICAL, false, ""},
	{"ecc_uncorrected", RISES, 1, CAUSE_CARD_MEMORY, SEVERITY_CRITICAL, false, "not corrected by ECC"},
	{"rows_remap_failed", IS, 1, CAUSE_CARD_MEMORY, SEVERITY_CRITICAL, false, "a row could not be replaced"},
	{"rows_remap_pending", IS, 1, CAUSE_CARD_MEMORY, SEVERITY_NOTICE, false, "a row is replaced at the next reset"},
	{"nvlinks_up", FALLS, 0, CAUSE_CARD_NVLINK, SEVERITY_CRITICAL, false, "fewer links are up than %.0f before"},
	{"nvlink_recoveries", RISES, 1, CAUSE_CARD_NVLINK, SEVERITY_WARNING, false, "recoveries"},
	{"pcie_width", FALLS, 0, CAUSE_CARD_PCIE, SEVERITY_WARNING, false, "%.0f before"},
	{"health", IS, 2, CAUSE_CARD_ALARM, SEVERITY_CRITICAL, false, "of 3; 2 is important, 3 critical"},
	{"active", FALLS, 0, CAUSE_PORT, SEVERITY_CRITICAL, true, "down now"},
	{"link_downed", RISES, 1, CAUSE_PORT, SEVERITY_NOTICE, true, ""},
	/* Down and up are two. */
	{"link_changes", RISES, 2, CAUSE_PORT, SEVERITY_NOTICE, true, ""},
};

#define RULES (sizeof(hardware_rules) / sizeof(hardware_rules[0]))

enum xid_action { XID_IGNORE, XID_RESTART_APP, XID_RESET };

static const enum finding_severity xid_severity[] = {
	[XID_IGNORE] = SEVERITY_INFO,
	[XID_RESTART_APP] = SEVERITY_WARNING,
	[XID_RESET] = SEVERITY_CRITICAL,
};

static const struct hardware_xid {
	int64_t number;
	enum xid_action action;
	enum finding_cause cause;
	const char *text;
} xids[] = {
#define XID(number, action, cause, text) {number, XID_##action, CAUSE_##cause, text},
#include "analyzers/gauges/xids.def"
#undef XID
};

/* A card or a port. */
struct hardware_thing {
	struct hardware_card card; /* of a port the object alone */
	double from[RULES];	   /* RISES: the value before; FALLS: the highest */
	bool known[RULES];
};

struct hardware_episode {
	const struct hardware_thing *thing;
	int64_t number;	  /* Xid of CARD_ERROR: each is a finding; else 0 */
	double count;	  /* of what happened */
	unsigned holds;	  /* bits of rules */
	uint64_t last_ns; /* when it happened last, or held */
	bool changed;	  /* since it was published */
	/* The worst that was reported, which the sentence says. */
	enum finding_severity shown;
	double value; /* NAN: the count */
	char what[64];
	struct finding finding;
};

/* Something that holds, or happened. */
struct hardware_event {
	enum finding_cause cause;
	enum finding_severity severity;
	int64_t number;
	double count; /* that happened; 0: it holds, or is counted by another gauge */
	double value; /* of the evidence; NAN: the count */
	unsigned holds;
	const char *what;
};

struct hardware {
	char host[64];
	struct hardware_sink sink;
	uint64_t *next_id;
	size_t things, episodes;
	struct hardware_thing *thing[HARDWARE_THINGS_MAX];
	struct hardware_episode *episode[HARDWARE_EPISODES_MAX];
};

struct hardware *hardware_new(const char *host, const struct hardware_sink *sink, uint64_t *next_id)
{
	struct hardware *hardware = calloc(1, sizeof(*hardware));

	if (!hardware)
		return NULL;
	snprintf(hardware->host, sizeof(hardware->host), "%s", host);
	hardware->sink = *sink;
	hardware->next_id = next_id;
	return hardware;
}

struct hardware *hardware_free(struct hardware *hardware)
{
	for (size_t i = 0; hardware && i < hardware->things; i++)
		free(hardware->thing[i]);
	for (size_t i = 0; hardware && i < hardware->episodes; i++)
		free(hardware->episode[i]);
	free(hardware);
	return NULL;
}

const char *hardware_host(const struct hardware *hardware)
{
	return hardware->host;
}

bool hardware_card_is(const char *object, int minor, const char *word)
{
	size_t length = strlen(word);
	char *end;
	long number = strtol(word, &end, 10);

	if (length && !*end)
		return minor >= 0 && number == minor;
	return length >= UUID_LEAST && strncmp(object, word, length) == 0;
}

/* The kernel's log leaves out the function of an address. */
static bool hardware_is_pci(const struct hardware_card *card, const char *pci)
{
	size_t length = strcspn(pci, ".");

	return length && strncasecmp(card->pci, pci, length) == 0 && (!card->pci[length] || card->pci[length] == '.');
}

/* By object, else by address; made where there is none. NULL: too many, or out of memory. */
static struct hardware_thing *hardware_thing_of(struct hardware *hardware, const char *object, const char *pci)
{
	struct hardware_thing *thing = NULL;

	for (size_t i = 0; i < hardware->things; i++) {
		const struct hardware_card *card = &hardware->thing[i]->card;

		if ((object[0] && strcmp(card->object, object) == 0) || hardware_is_pci(card, pci))
			return hardware->thing[i];
	}
	if ((object[0] || pci[0]) && hardware->things < HARDWARE_THINGS_MAX)
		thing = calloc(1, sizeof(*thing));
	if (!thing)
		return NULL;
	snprintf(thing->card.object, sizeof(thing->card.object), "%s", object);
	snprintf(thing->card.pci, sizeof(thing->card.pci), "%s", pci);
	thing->card.minor = -1;
	hardware->thing[hardware->things++] = thing;
	return thing;
}

void hardware_card(struct hardware *hardware, const struct hardware_card *card)
{
	struct hardware_thing *thing = hardware_thing_of(hardware, card->object, card->pci);

	if (thing)
		thing->card = *card;
}

/* What it reports, then which card this is. */
static void hardware_evidence(struct hardware_episode *episode)
{
	const struct hardware_card *card = &episode->thing->card;
	struct finding *finding = &episode->finding;
	char detail[sizeof(finding->evidence[0].detail)];

	snprintf(detail, sizeof(detail), "%s", episode->what);
	if (finding->cause == CAUSE_PORT && !episode->holds)
		snprintf(detail, sizeof(detail), episode->count > 1 ? "%.0f times" : "once", episode->count);
	finding->evidences = 0;
	finding_add(finding, finding_cause_row(finding->cause)->evidence, "1",
		isfinite(episode->value) ? episode->value : episode->count, NAN, detail);
	if (card->pci[0]) {
		snprintf(detail, sizeof(detail), "%.46s %s", card->object, card->pci);
		finding_add(finding, "card", "1", card->minor, NAN, detail);
	}
}

static void hardware_publish(struct hardware *hardware, struct hardware_episode *episode, uint64_t now_ns)
{
	const struct hardware_card *card = &episode->thing->card;
	struct finding *finding = &episode->finding;

	if (finding->state == FINDING_OPEN && finding->cause != CAUSE_PORT)
		hardware->sink.users(hardware->sink.arg, hardware->host, card, finding);
	if (!finding->card[0] && card->minor >= 0)
		snprintf(finding->card, sizeof(finding->card), "%d", card->minor);
	else if (!finding->card[0])
		snprintf(finding->card, sizeof(finding->card), "%.31s", card->pci[0] ? card->pci : card->object);
	hardware_evidence(episode);
	finding->updated_ns = now_ns;
	finding_write_sentence(finding);
	episode->changed = false;
	hardware->sink.finding(hardware->sink.arg, finding);
}

static void hardware_close(struct hardware *hardware, size_t i, uint64_t now_ns)
{
	struct hardware_episode *episode = hardware->episode[i];

	episode->finding.state = FINDING_CLOSED;
	episode->finding.until_ns = episode->last_ns;
	hardware_publish(hardware, episode, now_ns);
	free(episode);
	hardware->episode[i] = hardware->episode[--hardware->episodes];
}

static struct hardware_episode *hardware_episode_of(
	struct hardware *hardware, const struct hardware_thing *thing, enum finding_cause cause, int64_t number)
{
	for (size_t i = 0; i < hardware->episodes; i++) {
		struct hardware_episode *episode = hardware->episode[i];

		if (episode->thing == thing && episode->finding.cause == cause && episode->number == number)
			return episode;
	}
	return NULL;
}

static struct hardware_episode *hardware_open(struct hardware *hardware, const struct hardware_thing *thing,
	const struct hardware_event *event, uint64_t time_ns)
{
	struct hardware_episode *episode =
		hardware->episodes < HARDWARE_EPISODES_MAX ? calloc(1, sizeof(*episode)) : NULL;

	if (!episode)
		return NULL;
	episode->thing = thing;
	episode->number = event->number;
	episode->finding = (struct finding){
		.id = (*hardware->next_id)++,
		.kind = FINDING_HARDWARE,
		.cause = event->cause,
		.activity = ACTIVITY_MAX,
		.side = event->cause == CAUSE_PORT ? FINDING_SIDE_UNKNOWN : FINDING_SIDE_CARD,
		.state = FINDING_OPEN,
		.severity = event->severity,
		.tier = FRAME_TIER_DEVICE,
		.confidence = 1,
		.rank = -1,
		.since_ns = time_ns,
		.noticed_ns = time_ns,
		.slowdown = 1,
	};
	snprintf(episode->finding.host, sizeof(episode->finding.host), "%s", hardware->host);
	hardware->episode[hardware->episodes++] = episode;
	return episode;
}

/* A notice that recurs is a warning: once may be maintenance. */
static enum finding_severity hardware_severity(
	const struct hardware_episode *episode, const struct hardware_event *event)
{
	enum finding_severity severity = event->severity;

	if (severity == SEVERITY_NOTICE && episode->count >= 2)
		severity = SEVERITY_WARNING;
	return severity > episode->finding.severity ? severity : episode->finding.severity;
}

static void hardware_happens(struct hardware *hardware, const struct hardware_thing *thing,
	const struct hardware_event *event, uint64_t time_ns)
{
	struct hardware_episode *episode = hardware_episode_of(hardware, thing, event->cause, event->number);
	enum finding_severity severity;
	bool news = !episode;

	if (!episode)
		episode = hardware_open(hardware, thing, event, time_ns);
	if (!episode)
		return;
	news |= (event->holds & ~episode->holds) != 0;
	episode->count += event->count;
	episode->changed |= news || event->count > 0;
	episode->holds |= event->holds;
	episode->last_ns = time_ns;
	if (!episode->what[0] || event->severity > episode->shown) {
		episode->shown = event->severity;
		episode->value = event->value;
		snprintf(episode->what, sizeof(episode->what), "%s", event->what);
	}
	severity = hardware_severity(episode, event);
	news |= severity != episode->finding.severity;
	episode->finding.severity = severity;
	if (news)
		hardware_publish(hardware, episode, time_ns);
}

/* It holds no more; hardware_advance() closes what nothing holds open. */
static void hardware_ceases(
	struct hardware *hardware, const struct hardware_thing *thing, unsigned rule, uint64_t time_ns)
{
	struct hardware_episode *episode = hardware_episode_of(hardware, thing, hardware_rules[rule].cause, 0);

	if (!episode || !(episode->holds & 1U << rule))
		return;
	episode->holds &= ~(1U << rule);
	episode->last_ns = time_ns;
	episode->changed = true;
}

static void hardware_rises(struct hardware *hardware, struct hardware_thing *thing, const struct hardware_rule *rule,
	double value, double before, uint64_t time_ns)
{
	if (value <= before)
		return;
	hardware_happens(hardware, thing,
		&(struct hardware_event){.cause = rule->cause,
			.severity = rule->severity,
			.count = ceil((value - before) / rule->least),
			.value = NAN,
			.what = rule->what},
		time_ns);
}

static void hardware_rule(
	struct hardware *hardware, struct hardware_thing *thing, unsigned i, double value, uint64_t time_ns)
{
	const struct hardware_rule *rule = &hardware_rules[i];
	const struct hardware_episode *episode = hardware_episode_of(hardware, thing, rule->cause, 0);
	bool held = episode && episode->holds & 1U << i;
	double before = thing->known[i] ? thing->from[i] : value;
	char what[64];

	thing->known[i] = true;
	thing->from[i] = rule->test == FALLS ? fmax(value, before) : value;
	if (rule->test == RISES) {
		hardware_rises(hardware, thing, rule, value, before, time_ns);
	} else if (rule->test == IS ? value < rule->least : value >= before) {
		hardware_ceases(hardware, thing, i, time_ns);
	} else {
		/* The rule's own text, with at most one number in it. */
		const char *number = strstr(rule->what, "%.0f");

		if (number)
			snprintf(what, sizeof(what), "%.*s%.0f%s", (int)(number - rule->what), rule->what, before,
				number + strlen("%.0f"));
		else
			snprintf(what, sizeof(what), "%s", rule->what);
		hardware_happens(hardware, thing,
			&(struct hardware_event){.cause = rule->cause,
				.severity = rule->severity,
				/* Ports count how often they went down themselves. */
				.count = rule->port || held ? 0 : 1,
				.value = rule->port ? NAN : value,
				.holds = 1U << i,
				.what = what},
			time_ns);
	}
}

bool hardware_is_gauge(const char *name)
{
	for (size_t i = 0; i < RULES; i++)
		if (strcmp(hardware_rules[i].gauge, name) == 0)
			return true;
	return false;
}

void hardware_gauge(struct hardware *hardware, uint64_t time_ns, const char *object, const char *name, double value)
{
	for (unsigned i = 0; i < RULES; i++) {
		struct hardware_thing *thing;

		if (strcmp(hardware_rules[i].gauge, name) != 0 || !isfinite(value))
			continue;
		thing = hardware_thing_of(hardware, object, "");
		if (thing)
			hardware_rule(hardware, thing, i, value, time_ns);
	}
}

static const struct hardware_xid *hardware_xid_of(int64_t number)
{
	static const struct hardware_xid other = {0, XID_RESTART_APP, CAUSE_CARD_ERROR, ""};

	for (size_t i = 0; i < sizeof(xids) / sizeof(xids[0]); i++)
		if (xids[i].number == number)
			return &xids[i];
	return &other;
}

static void hardware_on_xid(struct hardware *hardware, const struct hardware_thing *thing, uint64_t time_ns,
	int64_t number, const char *text)
{
	const struct hardware_xid *xid = hardware_xid_of(number);
	bool error = xid->cause == CAUSE_CARD_ERROR;
	struct hardware_event event = {.cause = xid->cause,
		.severity = xid_severity[xid->action],
		.number = error ? number : 0,
		.count = 1,
		.value = error ? (double)number : NAN};
	char what[64];

	/* Of 144 to 150 the message says which are fatal, as in the catalogue's table of subcodes. */
	if (xid->cause == CAUSE_CARD_NVLINK && strstr(text, " Fatal "))
		event.severity = SEVERITY_CRITICAL;
	if (error)
		snprintf(what, sizeof(what), "%s", xid->text);
	else
		snprintf(what, sizeof(what), "Xid %lld: %s", (long long)number, xid->text);
	event.what = what;
	hardware_happens(hardware, thing, &event, time_ns);
}

void hardware_message(struct hardware *hardware, uint64_t time_ns, const char *kind, const char *object, int64_t number,
	const char *text)
{
	bool lost = strcmp(kind, "card_lost") == 0;
	struct hardware_thing *thing;

	if ((!lost && (strcmp(kind, "xid") != 0 || number <= 0)) || !object[0])
		return;
	thing = hardware_thing_of(hardware, "", object);
	if (!thing)
		return;
	if (lost)
		hardware_happens(hardware, thing,
			&(struct hardware_event){.cause = CAUSE_CARD_LOST,
				.severity = SEVERITY_CRITICAL,
				.count = 1,
				.value = NAN,
				.what = ""},
			time_ns);
	else
		hardware_on_xid(hardware, thing, time_ns, number, text);
}

void hardware_advance(struct hardware *hardware, uint64_t now_ns)
{
	for (size_t i = hardware->episodes; i-- > 0;) {
		struct hardware_episode *episode = hardware->episode[i];

		if (!episode->holds && now_ns > episode->last_ns && now_ns - episode->last_ns >= HARDWARE_QUIET_NS)
			hardware_close(hardware, i, now_ns);
		else if (episode->changed && now_ns >= episode->finding.updated_ns + HARDWARE_UPDATE_NS)
			hardware_publish(hardware, episode, now_ns);
	}
}

void hardware_end(struct hardware *hardware, uint64_t now_ns)
{
	for (size_t i = 0; i < hardware->episodes; i++)
		hardware_publish(hardware, hardware->episode[i], now_ns);
}
