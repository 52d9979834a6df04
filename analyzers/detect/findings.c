/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of findings.h: what begins, goes on and ends at a round's end. */
#include "analyzers/detect/findings_life.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETURNS_COUNTED 4 /* doublings of the time until it is closed */
#define LASTS_FULL 0.1	  /* from this share of the step on lasts_ns is enough; half of it must last twice as long */
#define LASTS_TIMES 10	  /* at most */

struct findings *findings_new(
	const struct detect_options *options, const char *job, const struct findings_sink *sink, uint64_t *next_id)
{
	struct findings *findings = calloc(1, sizeof(*findings));

	if (!findings)
		return NULL;
	findings->options = *options;
	findings->sink = *sink;
	findings->next_id = next_id;
	snprintf(findings->job, sizeof(findings->job), "%s", job);
	return findings;
}

struct findings *findings_free(struct findings *findings)
{
	if (!findings)
		return NULL;
	for (size_t i = 0; i < findings->lives; i++)
		free(findings->lifecycle[i]);
	free(findings);
	return NULL;
}

static uint64_t findings_since(uint64_t now_ns, uint64_t then_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

static unsigned relief(const struct findings *findings, const struct lifecycle *lifecycle)
{
	uint64_t base = lifecycle_of_snapshots(lifecycle) ? FINDINGS_LOOKS : findings->options.relief_frames;

	base = base < 1 ? 1 : base > 100000 ? 100000 : base;
	return (unsigned)base << (lifecycle->returns < RETURNS_COUNTED ? lifecycle->returns : RETURNS_COUNTED);
}

/* As it is told, with what is known only now. */
static void compose(const struct lifecycle *lifecycle, uint64_t now_ns, struct finding *ret)
{
	*ret = lifecycle->finding;
	ret->told_ns = now_ns;
	if (lifecycle->returns)
		finding_add(ret, "returns", "1", lifecycle->returns, NAN, "");
	finding_tell(ret);
}

static void findings_tell_one(struct findings *findings, struct lifecycle *lifecycle, uint64_t now_ns)
{
	struct finding finding;

	if (!lifecycle->finding.id)
		lifecycle->finding.id = (*findings->next_id)++;
	findings_neighbours(findings, lifecycle);
	lifecycle->finding.told_ns = now_ns;
	lifecycle->changed = false;
	compose(lifecycle, now_ns, &finding);
	findings->sink.finding(findings->sink.arg, &finding);
}

static void findings_end_one(struct findings *findings, struct lifecycle *lifecycle, uint64_t now_ns)
{
	lifecycle->finding.state = lifecycle->finding.state == FINDING_OPEN ? FINDING_CLOSED : FINDING_DROPPED;
	lifecycle->finding.until_ns = lifecycle->last_ns;
	lifecycle->finding.until_step = lifecycle->last_step;
	lifecycle->confirmed = false;
	findings_tell_one(findings, lifecycle, now_ns);
}

static void bring_up(struct findings *findings, struct lifecycle *lifecycle, enum finding_state state, uint64_t now_ns)
{
	struct finding *finding = &lifecycle->finding;

	if (finding->id && finding->state == FINDING_CLOSED && state == FINDING_OPEN)
		lifecycle->returns++;
	finding->state = state;
	finding->until_ns = finding->until_step = 0;
	if (state == FINDING_OPEN && !finding->noticed_ns)
		finding->noticed_ns = now_ns;
	lifecycle->unconfirmed = 0;
	findings_tell_one(findings, lifecycle, now_ns);
}

static void explained(struct findings *findings, struct lifecycle *lifecycle, const struct lifecycle *by, uint64_t now_ns)
{
	char detail[64];

	/* By its kind: the number that people see of it is the store's, which is not known here. */
	if (by->finding.rank >= 0)
		snprintf(detail, sizeof(detail), "finding %s, rank %d", finding_kind_word(by->finding.kind),
			by->finding.rank);
	else
		snprintf(detail, sizeof(detail), "finding %s", finding_kind_word(by->finding.kind));
	if (lifecycle->finding.evidences == FINDING_EVIDENCE_MAX)
		lifecycle->finding.evidences--;
	finding_add(&lifecycle->finding, "explained", "1", (double)by->finding.id, NAN, detail);
	/* It is counted there. */
	lifecycle->finding.cost_card_hours = 0;
	findings_end_one(findings, lifecycle, now_ns);
}

/* A slow job that something else may explain: true if that settles it for this round. */
static bool yields(struct findings *findings, struct lifecycle *lifecycle, uint64_t now_ns)
{
	const struct lifecycle *by = findings_explain(findings, lifecycle);

	if (!by) {
		lifecycle->alone += lifecycle->said_confirmed;
		if (lifecycle->alone < 2 * findings->options.suspect_frames && lifecycle->finding.state != FINDING_OPEN)
			lifecycle->said_confirmed = false;
		return false;
	}
	lifecycle->alone = 0;
	if (lifecycle_is_up(lifecycle) && by->finding.state == FINDING_OPEN)
		explained(findings, lifecycle, by, now_ns);
	return lifecycle->finding.state != FINDING_OPEN;
}

/* A young one is told for its cost when it has become twice as old: who reads it then knows half of it at least. */
static uint64_t tell_after_ns(const struct lifecycle *lifecycle)
{
	uint64_t age_ns = findings_since(lifecycle->finding.told_ns, lifecycle->finding.since_ns);

	return age_ns < FINDINGS_TELL_LEAST_NS ? FINDINGS_TELL_LEAST_NS
	       : age_ns < FINDINGS_TELL_NS     ? age_ns
					       : FINDINGS_TELL_NS;
}

static void turn_up(struct findings *findings, struct lifecycle *lifecycle, uint64_t now_ns)
{
	if (lifecycle->said_confirmed || lifecycle->lasting)
		lifecycle->unconfirmed = 0;
	else
		lifecycle->unconfirmed++;
	if (lifecycle->finding.state == FINDING_SUSPECTED && lifecycle->said_confirmed)
		bring_up(findings, lifecycle, FINDING_OPEN, now_ns);
	else if (lifecycle->unconfirmed >= 3 * relief(findings, lifecycle))
		findings_end_one(findings, lifecycle, now_ns);
	else if (now_ns < lifecycle->finding.told_ns)
		lifecycle->finding.told_ns = now_ns;
	else if (lifecycle->finding.state == FINDING_OPEN &&
		 (lifecycle->changed || now_ns - lifecycle->finding.told_ns >= tell_after_ns(lifecycle)))
		findings_tell_one(findings, lifecycle, now_ns);
}

static void turn_said(struct findings *findings, struct lifecycle *lifecycle, bool withheld, uint64_t now_ns)
{
	bool again = !lifecycle->finding.id || lifecycle->quiet >= relief(findings, lifecycle);

	lifecycle->quiet = 0;
	if (lifecycle->finding.kind == FINDING_SLOW_JOB && yields(findings, lifecycle, now_ns))
		return;
	if (lifecycle_is_up(lifecycle))
		turn_up(findings, lifecycle, now_ns);
	else if (lifecycle->said_confirmed)
		bring_up(findings, lifecycle, FINDING_OPEN, now_ns);
	/* What goes on being suspected after it was dropped, or is suspected anew after it was closed, is no news. */
	else if (again && !withheld && lifecycle->finding.state != FINDING_CLOSED)
		bring_up(findings, lifecycle, FINDING_SUSPECTED, now_ns);
}

static void turn(struct findings *findings, struct lifecycle *lifecycle, bool withheld, uint64_t now_ns)
{
	if (lifecycle->said) {
		turn_said(findings, lifecycle, withheld, now_ns);
	} else {
		lifecycle->quiet += lifecycle->quiet < 1u << 30;
		lifecycle->alone = 0;
		if (lifecycle_is_up(lifecycle) && lifecycle->quiet >= relief(findings, lifecycle))
			findings_end_one(findings, lifecycle, now_ns);
	}
	lifecycle->said = lifecycle->said_confirmed = lifecycle->lasting = false;
}

/*
 * Where more than half of the job's ranks are said to be slow, it is not they: none is opened that is not open, and
 * where that many are suspected none is suspected anew.
 */
static bool withhold(const struct findings *findings)
{
	size_t said = 0, confirmed = 0;

	for (size_t i = 0; i < findings->lives; i++) {
		const struct lifecycle *lifecycle = findings->lifecycle[i];

		said += lifecycle->finding.kind == FINDING_SLOW_RANK && lifecycle->said;
		confirmed += lifecycle->finding.kind == FINDING_SLOW_RANK && lifecycle->said_confirmed;
	}
	for (size_t i = 0; i < findings->lives && confirmed > 1 && confirmed * 2 > findings->ranks; i++) {
		struct lifecycle *lifecycle = findings->lifecycle[i];

		if (lifecycle->finding.kind == FINDING_SLOW_RANK &&
			!(lifecycle_is_up(lifecycle) && lifecycle->finding.state == FINDING_OPEN))
			lifecycle->said_confirmed = false;
	}
	return said > 1 && said * 2 > findings->ranks;
}

/* Cannot come back as the same one any more. */
static bool is_past(const struct findings *findings, const struct lifecycle *lifecycle, uint64_t now_ns)
{
	if (lifecycle_is_up(lifecycle) || lifecycle->said)
		return false;
	if (!lifecycle->finding.id)
		return lifecycle->quiet >= relief(findings, lifecycle);
	return findings_since(now_ns, lifecycle->last_ns) > (lifecycle_of_snapshots(lifecycle) ? FINDINGS_REOPEN_LOOK_NS : FINDINGS_REOPEN_NS);
}

static void findings_forget(struct findings *findings, size_t i)
{
	free(findings->lifecycle[i]);
	findings->lifecycle[i] = findings->lifecycle[--findings->lives];
}

void findings_round(struct findings *findings, bool hang, uint64_t step, uint64_t now_ns)
{
	bool many = !hang && withhold(findings);

	(void)step;
	/* A slow job last: it depends on what the others are. */
	for (int last = 0; last < 2; last++) {
		for (size_t i = 0; i < findings->lives; i++) {
			struct lifecycle *lifecycle = findings->lifecycle[i];

			if (lifecycle_of_snapshots(lifecycle) == hang && (lifecycle->finding.kind == FINDING_SLOW_JOB) == last)
				turn(findings, lifecycle, many && lifecycle->finding.kind == FINDING_SLOW_RANK, now_ns);
		}
	}
	for (size_t i = findings->lives; i-- > 0;) {
		if (is_past(findings, findings->lifecycle[i], now_ns))
			findings_forget(findings, i);
	}
}

static struct lifecycle *findings_find(const struct findings *findings, const struct finding *finding, int32_t rank)
{
	for (size_t i = 0; i < findings->lives; i++) {
		struct lifecycle *lifecycle = findings->lifecycle[i];

		if (lifecycle->finding.kind == finding->kind && lifecycle->finding.rank == rank &&
			strncmp(lifecycle->finding.communicator, finding->communicator, sizeof(finding->communicator) - 1) ==
				0)
			return lifecycle;
	}
	return NULL;
}

/* Of a standstill it may be seen only later who it is that the others wait for: it is the same one if it began before
 * it was spoken of last. Who was surer to be it stays: as it ends, one moment may look as if it were another. NULL if
 * it is another. */
static struct lifecycle *find_standstill(const struct findings *findings, const struct finding *said, int32_t rank)
{
	for (size_t i = 0; i < findings->lives && said->kind == FINDING_HANG; i++) {
		struct lifecycle *lifecycle = findings->lifecycle[i];

		if (lifecycle->finding.kind != FINDING_HANG || !lifecycle_is_up(lifecycle) || lifecycle->said || !said->since_ns ||
			said->since_ns > lifecycle->last_ns)
			continue;
		if (lifecycle->finding.rank < 0 || said->confidence >= lifecycle->finding.confidence) {
			lifecycle->finding.rank = rank;
			lifecycle->changed = true;
		}
		return lifecycle;
	}
	return NULL;
}

/* Room for one more: of those that are over, the one that has been for longest makes it. */
static bool findings_reserve(struct findings *findings)
{
	size_t oldest = findings->lives;

	if (findings->lives < FINDINGS_MAX)
		return true;
	for (size_t i = 0; i < findings->lives; i++) {
		const struct lifecycle *lifecycle = findings->lifecycle[i];

		if (!lifecycle_is_up(lifecycle) && !lifecycle->said &&
			(oldest == findings->lives || lifecycle->last_ns < findings->lifecycle[oldest]->last_ns))
			oldest = i;
	}
	if (oldest == findings->lives)
		return false;
	findings_forget(findings, oldest);
	return true;
}

static struct lifecycle *findings_begin(struct findings *findings, const struct finding *said, int32_t rank)
{
	struct lifecycle *lifecycle = findings_reserve(findings) ? calloc(1, sizeof(*lifecycle)) : NULL;

	if (!lifecycle)
		return NULL;
	findings->lifecycle[findings->lives++] = lifecycle;
	lifecycle->finding.kind = said->kind;
	lifecycle->finding.rank = rank;
	lifecycle->finding.slowdown = 1;
	snprintf(lifecycle->finding.job, sizeof(lifecycle->finding.job), "%s", findings->job);
	snprintf(lifecycle->finding.communicator, sizeof(lifecycle->finding.communicator), "%.*s",
		(int)sizeof(said->communicator) - 1, said->communicator);
	return lifecycle;
}

static void findings_place(struct lifecycle *lifecycle, const struct finding *said, const struct frame_who *who, size_t ranks)
{
	struct finding *finding = &lifecycle->finding;
	const struct frame_who *here = said->rank >= 0 ? &who[said->rank] : NULL;

	snprintf(finding->host, sizeof(finding->host), "%.*s", (int)sizeof(finding->host) - 1,
		here ? here->host : said->host);
	snprintf(finding->card, sizeof(finding->card), "%.*s", (int)sizeof(finding->card) - 1,
		here ? here->card : said->card);
	lifecycle->node_ranks = 0;
	for (size_t i = 0; here && i < ranks; i++)
		lifecycle->node_ranks += strncmp(who[i].host, here->host, sizeof(here->host)) == 0;
}

/* The less it costs, the longer it must have lasted: a machine's own unrest passes, and its small part is the common
 * one. */
static uint64_t must_last_ns(const struct findings *findings, const struct finding *said)
{
	double share = isfinite(said->slowdown) && said->slowdown > 1 ? 1 - 1 / said->slowdown : 0;
	double times = share > 0 ? fmin(fmax(LASTS_FULL / share, 1), LASTS_TIMES) : 1;

	return (uint64_t)((double)findings->options.lasts_ns * times);
}

/* What was confirmed once stays so; what began in the future began before the clock stepped back. */
static bool has_lasted(
	const struct findings *findings, const struct lifecycle *lifecycle, const struct finding *said, uint64_t now_ns)
{
	uint64_t least_ns = must_last_ns(findings, said);

	if (lifecycle_of_snapshots(lifecycle) || lifecycle->confirmed || !least_ns)
		return true;
	if (said->since_ns && said->since_ns <= now_ns)
		return now_ns - said->since_ns >= least_ns;
	return lifecycle->verdicts > 0 && (lifecycle->finding.since_ns > now_ns || now_ns - lifecycle->finding.since_ns >= least_ns);
}

void findings_say(struct findings *findings, const struct verdict *verdict, const struct frame_who *who, size_t ranks,
	uint32_t cards, enum frame_tier tier, uint64_t step, uint64_t now_ns)
{
	const struct finding *said = &verdict->finding;
	struct verdict heard = *verdict;
	struct lifecycle *lifecycle;
	int32_t rank;
	bool moved, its;

	if ((size_t)said->kind >= FINDING_KIND_MAX || (size_t)said->cause >= CAUSE_MAX ||
		(said->rank >= 0 && (size_t)said->rank >= ranks))
		return;
	rank = said->rank >= 0 ? who[said->rank].rank : -1;
	findings->ranks = ranks;
	lifecycle = findings_find(findings, said, rank);
	moved = !lifecycle;
	if (!lifecycle)
		lifecycle = find_standstill(findings, said, rank);
	moved = moved && lifecycle;
	if (!lifecycle)
		lifecycle = findings_begin(findings, said, rank);
	if (!lifecycle)
		return;
	its = lifecycle->finding.rank == rank;
	/* Its rank's card may have become known since. */
	if (its && (moved || (said->rank >= 0 && !lifecycle->finding.card[0] && who[said->rank].card[0])))
		findings_place(lifecycle, said, who, ranks);
	heard.confirmed = verdict->confirmed && has_lasted(findings, lifecycle, said, now_ns);
	lifecycle->lasting |= verdict->confirmed && !heard.confirmed;
	if (!lifecycle->verdicts ||
		(!lifecycle_is_up(lifecycle) && !lifecycle->finding.noticed_ns && lifecycle->quiet >= relief(findings, lifecycle)) ||
		(heard.confirmed && !lifecycle->finding.noticed_ns)) {
		lifecycle->finding.since_step = said->since_step && said->since_step <= step ? said->since_step : step;
		lifecycle->finding.since_ns = said->since_ns && said->since_ns <= now_ns ? said->since_ns : now_ns;
		if (its)
			findings_place(lifecycle, said, who, ranks);
	}
	lifecycle_add(lifecycle, &heard, cards, tier, step, now_ns);
	/* Of what is no rank's, where it is goes with the cause that is told. */
	if (rank < 0 && lifecycle->finding.cause == said->cause)
		findings_place(lifecycle, said, who, ranks);
}

void findings_close(struct findings *findings, uint64_t now_ns)
{
	for (size_t i = 0; i < findings->lives; i++) {
		if (lifecycle_is_up(findings->lifecycle[i]))
			findings_end_one(findings, findings->lifecycle[i], now_ns);
	}
	while (findings->lives)
		findings_forget(findings, findings->lives - 1);
}

void findings_end(struct findings *findings, uint64_t now_ns)
{
	for (size_t i = 0; i < findings->lives; i++) {
		if (lifecycle_is_up(findings->lifecycle[i]))
			findings_tell_one(findings, findings->lifecycle[i], now_ns);
	}
}

size_t findings_open(const struct findings *findings, struct finding *ret, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < findings->lives && n < max; i++) {
		const struct lifecycle *lifecycle = findings->lifecycle[i];

		if (lifecycle_is_up(lifecycle))
			compose(lifecycle, lifecycle->finding.told_ns, &ret[n++]);
	}
	return n;
}
