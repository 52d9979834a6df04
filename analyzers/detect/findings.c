/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of findings.h: what begins, goes on and ends at a round's end. */
#include "analyzers/detect/findings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What verdicts add up to over a finding's life. See findings.h. */

#define WEIGHT_LEAST 0.05
#define WEIGHT_UNKNOWN 0.25 /* a cause that is seen wins soon over one that is not */
#define RETURNS_COUNTED 4   /* doublings of the time until it is closed */
#define CHANGE 1.25	    /* so much heavier must another cause be */
#define LOST_NS_MAX 1e15    /* eleven days in one verdict are no measure */

static double within(double value, double least, double most, double otherwise)
{
	return isfinite(value) ? fmin(fmax(value, least), most) : otherwise;
}

/* True if the finding's cause is the verdict's. */
static bool weigh(struct lifecycle *lifecycle, const struct finding *reported)
{
	double weight = within(reported->confidence, WEIGHT_LEAST, 1, WEIGHT_LEAST);
	enum finding_cause now = lifecycle->finding.cause;

	lifecycle->weight[reported->cause] += reported->cause == CAUSE_UNKNOWN ? weight * WEIGHT_UNKNOWN : weight;
	if (reported->cause == now)
		return true;
	if (lifecycle->verdicts > 0 && lifecycle->weight[reported->cause] <= lifecycle->weight[now] * CHANGE)
		return false;
	lifecycle->finding.cause = reported->cause;
	lifecycle->changed = true;
	return true;
}

static void copy_evidence(struct finding *finding, const struct finding *reported)
{
	finding->evidences = 0;
	for (size_t i = 0; i < reported->evidences && i < FINDING_EVIDENCE_MAX; i++) {
		struct finding_evidence *evidence = &finding->evidence[finding->evidences++];

		*evidence = reported->evidence[i];
		evidence->name[sizeof(evidence->name) - 1] = 0;
		evidence->unit[sizeof(evidence->unit) - 1] = 0;
		evidence->detail[sizeof(evidence->detail) - 1] = 0;
	}
	memcpy(finding->others, reported->others, sizeof(finding->others));
	finding->others[sizeof(finding->others) - 1] = 0;
}

void lifecycle_add(struct lifecycle *lifecycle, const struct verdict *verdict, uint32_t cards, enum frame_tier tier, uint64_t step,
	uint64_t now_ns)
{
	struct finding *finding = &lifecycle->finding;
	const struct finding *reported = &verdict->finding;
	double lost_ns = within(verdict->lost_ns, 0, LOST_NS_MAX, 0);
	bool first = verdict->confirmed && !lifecycle->confirmed;
	double typical_ns = lifecycle->verdicts > 0 ? lifecycle->lost_ns / lifecycle->verdicts : 0;
	/* What is measured while it is fading says little about it. */
	bool fades = !first && lifecycle->verdicts > 0 && lost_ns < typical_ns / 2;
	bool holds = weigh(lifecycle, reported);

	if (holds && (first || lifecycle->verdicts == 0 || ((verdict->confirmed || !lifecycle->confirmed) && !fades))) {
		copy_evidence(finding, reported);
		finding->tier = tier;
		finding->severity = (size_t)reported->severity < SEVERITY_MAX ? reported->severity : SEVERITY_WARNING;
		finding->confidence = within(reported->confidence, 0, 1, 0);
	}
	if (first)
		lifecycle->slowdowns = lifecycle->lost_ns = lifecycle->verdicts = 0;
	if (verdict->confirmed || !lifecycle->confirmed) {
		lifecycle->slowdowns += within(reported->slowdown, 0, 1e6, 1);
		lifecycle->lost_ns += lost_ns;
		lifecycle->verdicts++;
		finding->slowdown = lifecycle->slowdowns / lifecycle->verdicts;
	}
	finding->activity = ACTIVITY_MAX;
	finding->cost_card_hours += lost_ns * cards / 3.6e12;
	lifecycle->confirmed |= verdict->confirmed;
	lifecycle->reported = true;
	lifecycle->reported_confirmed |= verdict->confirmed;
	lifecycle->last_ns = now_ns;
	lifecycle->last_step = step;
}

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
	for (size_t i = 0; i < findings->lifecycles; i++)
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
	uint64_t base = lifecycle_of_snapshots(lifecycle) ? FINDINGS_SNAPSHOTS : findings->options.relief_frames;

	base = base < 1 ? 1 : base > 100000 ? 100000 : base;
	return (unsigned)base << (lifecycle->returns < RETURNS_COUNTED ? lifecycle->returns : RETURNS_COUNTED);
}

/* Fills in what is known only when it is reported. */
static void compose(const struct lifecycle *lifecycle, uint64_t now_ns, struct finding *ret)
{
	*ret = lifecycle->finding;
	ret->updated_ns = now_ns;
	if (lifecycle->returns)
		finding_add(ret, "returns", "1", lifecycle->returns, NAN, "");
	finding_write_sentence(ret);
}

static void findings_publish(struct findings *findings, struct lifecycle *lifecycle, uint64_t now_ns)
{
	struct finding finding;

	if (!lifecycle->finding.id)
		lifecycle->finding.id = (*findings->next_id)++;
	lifecycle->finding.updated_ns = now_ns;
	lifecycle->changed = false;
	compose(lifecycle, now_ns, &finding);
	findings->sink.finding(findings->sink.arg, &finding);
}

static void findings_end_lifecycle(struct findings *findings, struct lifecycle *lifecycle, uint64_t now_ns)
{
	lifecycle->finding.state = lifecycle->finding.state == FINDING_OPEN ? FINDING_CLOSED : FINDING_DROPPED;
	lifecycle->finding.until_ns = lifecycle->last_ns;
	lifecycle->finding.until_step = lifecycle->last_step;
	lifecycle->confirmed = false;
	findings_publish(findings, lifecycle, now_ns);
}

static void bring_up(struct findings *findings, struct lifecycle *lifecycle, enum finding_state state, uint64_t now_ns)
{
	struct finding *finding = &lifecycle->finding;

	if (finding->id && finding->state == FINDING_CLOSED && state == FINDING_OPEN && lifecycle_of_snapshots(lifecycle))
		lifecycle->returns++;
	finding->state = state;
	finding->until_ns = finding->until_step = 0;
	if (state == FINDING_OPEN && !finding->noticed_ns)
		finding->noticed_ns = now_ns;
	lifecycle->unconfirmed = 0;
	findings_publish(findings, lifecycle, now_ns);
}

/* A young one is reported for its cost when it has become twice as old: who reads it then knows half of it at least. */
static uint64_t findings_update_after_ns(const struct lifecycle *lifecycle)
{
	uint64_t age_ns = findings_since(lifecycle->finding.updated_ns, lifecycle->finding.since_ns);

	return age_ns < FINDINGS_UPDATE_LEAST_NS ? FINDINGS_UPDATE_LEAST_NS
	       : age_ns < FINDINGS_UPDATE_NS	 ? age_ns
						 : FINDINGS_UPDATE_NS;
}

static void turn_up(struct findings *findings, struct lifecycle *lifecycle, uint64_t now_ns)
{
	if (lifecycle->reported_confirmed || lifecycle->lasting)
		lifecycle->unconfirmed = 0;
	else
		lifecycle->unconfirmed++;
	if (lifecycle->finding.state == FINDING_SUSPECTED && lifecycle->reported_confirmed)
		bring_up(findings, lifecycle, FINDING_OPEN, now_ns);
	else if (lifecycle->unconfirmed >= 3 * relief(findings, lifecycle))
		findings_end_lifecycle(findings, lifecycle, now_ns);
	else if (now_ns < lifecycle->finding.updated_ns)
		lifecycle->finding.updated_ns = now_ns;
	else if (lifecycle->finding.state == FINDING_OPEN &&
		 (lifecycle->changed || now_ns - lifecycle->finding.updated_ns >= findings_update_after_ns(lifecycle)))
		findings_publish(findings, lifecycle, now_ns);
}

static void findings_turn_reported(struct findings *findings, struct lifecycle *lifecycle, uint64_t now_ns)
{
	bool again = !lifecycle->finding.id || lifecycle->quiet >= relief(findings, lifecycle);

	lifecycle->quiet = 0;
	if (lifecycle_is_up(lifecycle))
		turn_up(findings, lifecycle, now_ns);
	else if (lifecycle->reported_confirmed)
		bring_up(findings, lifecycle, FINDING_OPEN, now_ns);
	/* What goes on being suspected after it was dropped, or is suspected anew after it was closed, is no news. */
	else if (again && lifecycle->finding.state != FINDING_CLOSED)
		bring_up(findings, lifecycle, FINDING_SUSPECTED, now_ns);
}

static void turn(struct findings *findings, struct lifecycle *lifecycle, uint64_t now_ns)
{
	if (lifecycle->reported) {
		findings_turn_reported(findings, lifecycle, now_ns);
	} else {
		lifecycle->quiet += lifecycle->quiet < 1u << 30;
		if (lifecycle_is_up(lifecycle) && lifecycle->quiet >= relief(findings, lifecycle))
			findings_end_lifecycle(findings, lifecycle, now_ns);
	}
	lifecycle->reported = lifecycle->reported_confirmed = lifecycle->lasting = false;
}

/* Cannot come back as the same one any more. */
static bool is_past(const struct findings *findings, const struct lifecycle *lifecycle, uint64_t now_ns)
{
	if (lifecycle_is_up(lifecycle) || lifecycle->reported)
		return false;
	if (!lifecycle->finding.id ||
		(lifecycle->finding.state == FINDING_CLOSED && !lifecycle_of_snapshots(lifecycle)))
		return lifecycle->quiet >= relief(findings, lifecycle);
	return findings_since(now_ns, lifecycle->last_ns) > FINDINGS_REOPEN_NS;
}

static void findings_forget(struct findings *findings, size_t i)
{
	free(findings->lifecycle[i]);
	findings->lifecycle[i] = findings->lifecycle[--findings->lifecycles];
}

void findings_round(struct findings *findings, bool hang, uint64_t now_ns)
{
	for (size_t i = 0; i < findings->lifecycles; i++) {
		if (lifecycle_of_snapshots(findings->lifecycle[i]) == hang)
			turn(findings, findings->lifecycle[i], now_ns);
	}
	for (size_t i = findings->lifecycles; i-- > 0;) {
		if (is_past(findings, findings->lifecycle[i], now_ns))
			findings_forget(findings, i);
	}
}

static struct lifecycle *findings_find(const struct findings *findings, const struct finding *finding, int32_t rank)
{
	for (size_t i = 0; i < findings->lifecycles; i++) {
		struct lifecycle *lifecycle = findings->lifecycle[i];

		if (lifecycle->finding.kind == finding->kind && lifecycle->finding.rank == rank &&
			strncmp(lifecycle->finding.communicator, finding->communicator, sizeof(finding->communicator) - 1) ==
				0)
			return lifecycle;
	}
	return NULL;
}

/* Of a standstill it may be seen only later who it is that the others wait for: it is the same one if it began before
 * its last verdict. The surer one is kept: as a hang ends, a snapshot may name another rank. NULL if
 * it is another. */
static struct lifecycle *find_standstill(const struct findings *findings, const struct finding *reported, int32_t rank)
{
	for (size_t i = 0; i < findings->lifecycles && reported->kind == FINDING_HANG; i++) {
		struct lifecycle *lifecycle = findings->lifecycle[i];

		if (lifecycle->finding.kind != FINDING_HANG || !lifecycle_is_up(lifecycle) || lifecycle->reported ||
			!reported->since_ns || reported->since_ns > lifecycle->last_ns)
			continue;
		if (lifecycle->finding.rank < 0 || reported->confidence >= lifecycle->finding.confidence) {
			lifecycle->finding.rank = rank;
			lifecycle->changed = true;
		}
		return lifecycle;
	}
	return NULL;
}

/* Makes space for one more: drops the one that ended first. */
static bool findings_reserve(struct findings *findings)
{
	size_t oldest = findings->lifecycles;

	if (findings->lifecycles < FINDINGS_MAX)
		return true;
	for (size_t i = 0; i < findings->lifecycles; i++) {
		const struct lifecycle *lifecycle = findings->lifecycle[i];

		if (!lifecycle_is_up(lifecycle) && !lifecycle->reported &&
			(oldest == findings->lifecycles || lifecycle->last_ns < findings->lifecycle[oldest]->last_ns))
			oldest = i;
	}
	if (oldest == findings->lifecycles)
		return false;
	findings_forget(findings, oldest);
	return true;
}

static struct lifecycle *findings_begin(struct findings *findings, const struct finding *reported, int32_t rank)
{
	struct lifecycle *lifecycle = findings_reserve(findings) ? calloc(1, sizeof(*lifecycle)) : NULL;

	if (!lifecycle)
		return NULL;
	findings->lifecycle[findings->lifecycles++] = lifecycle;
	lifecycle->finding.kind = reported->kind;
	lifecycle->finding.rank = rank;
	lifecycle->finding.slowdown = 1;
	snprintf(lifecycle->finding.job, sizeof(lifecycle->finding.job), "%s", findings->job);
	snprintf(lifecycle->finding.communicator, sizeof(lifecycle->finding.communicator), "%.*s",
		(int)sizeof(reported->communicator) - 1, reported->communicator);
	return lifecycle;
}

static void findings_locate(struct lifecycle *lifecycle, const struct finding *reported, const struct frame_who *who)
{
	struct finding *finding = &lifecycle->finding;
	const struct frame_who *here = reported->rank >= 0 ? &who[reported->rank] : NULL;

	snprintf(finding->host, sizeof(finding->host), "%.*s", (int)sizeof(finding->host) - 1,
		here ? here->host : reported->host);
	snprintf(finding->card, sizeof(finding->card), "%.*s", (int)sizeof(finding->card) - 1,
		here ? here->card : reported->card);
}

/* What was confirmed once remains so; what began in the future began before the clock stepped back. */
static bool has_lasted(const struct findings *findings, const struct lifecycle *lifecycle,
	const struct finding *reported, uint64_t now_ns)
{
	uint64_t least_ns = findings->options.lasts_ns;

	if (lifecycle_of_snapshots(lifecycle) || lifecycle->confirmed || !least_ns)
		return true;
	if (reported->since_ns && reported->since_ns <= now_ns)
		return now_ns - reported->since_ns >= least_ns;
	return lifecycle->verdicts > 0 && (lifecycle->finding.since_ns > now_ns || now_ns - lifecycle->finding.since_ns >= least_ns);
}

void findings_add_verdict(struct findings *findings, const struct verdict *verdict, const struct frame_who *who,
	size_t ranks, uint32_t cards, enum frame_tier tier, uint64_t step, uint64_t now_ns)
{
	const struct finding *reported = &verdict->finding;
	struct verdict taken = *verdict;
	struct lifecycle *lifecycle;
	int32_t rank;
	bool moved, its;

	if ((size_t)reported->kind >= FINDING_KIND_MAX || (size_t)reported->cause >= CAUSE_MAX ||
		(reported->rank >= 0 && (size_t)reported->rank >= ranks))
		return;
	rank = reported->rank >= 0 ? who[reported->rank].rank : -1;
	lifecycle = findings_find(findings, reported, rank);
	moved = !lifecycle;
	if (!lifecycle)
		lifecycle = find_standstill(findings, reported, rank);
	moved = moved && lifecycle;
	if (!lifecycle)
		lifecycle = findings_begin(findings, reported, rank);
	if (!lifecycle)
		return;
	its = lifecycle->finding.rank == rank;
	/* Its rank's card may have become known since. */
	if (its && (moved || (reported->rank >= 0 && !lifecycle->finding.card[0] && who[reported->rank].card[0])))
		findings_locate(lifecycle, reported, who);
	taken.confirmed = verdict->confirmed && has_lasted(findings, lifecycle, reported, now_ns);
	lifecycle->lasting |= verdict->confirmed && !taken.confirmed;
	if (!lifecycle->verdicts ||
		(!lifecycle_is_up(lifecycle) && !lifecycle->finding.noticed_ns &&
			lifecycle->quiet >= relief(findings, lifecycle)) ||
		(taken.confirmed && !lifecycle->finding.noticed_ns)) {
		lifecycle->finding.since_step =
			reported->since_step && reported->since_step <= step ? reported->since_step : step;
		lifecycle->finding.since_ns =
			reported->since_ns && reported->since_ns <= now_ns ? reported->since_ns : now_ns;
		if (its)
			findings_locate(lifecycle, reported, who);
	}
	lifecycle_add(lifecycle, &taken, cards, tier, step, now_ns);
	/* Without a rank, host and card go with the reported cause. */
	if (rank < 0 && lifecycle->finding.cause == reported->cause)
		findings_locate(lifecycle, reported, who);
}

void findings_close(struct findings *findings, uint64_t now_ns)
{
	for (size_t i = 0; i < findings->lifecycles; i++) {
		if (lifecycle_is_up(findings->lifecycle[i]))
			findings_end_lifecycle(findings, findings->lifecycle[i], now_ns);
	}
	while (findings->lifecycles)
		findings_forget(findings, findings->lifecycles - 1);
}

void findings_end(struct findings *findings, uint64_t now_ns)
{
	for (size_t i = 0; i < findings->lifecycles; i++) {
		if (lifecycle_is_up(findings->lifecycle[i]))
			findings_publish(findings, findings->lifecycle[i], now_ns);
	}
}

size_t findings_open(const struct findings *findings, struct finding *ret, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < findings->lifecycles && n < max; i++) {
		const struct lifecycle *lifecycle = findings->lifecycle[i];

		if (lifecycle_is_up(lifecycle))
			compose(lifecycle, lifecycle->finding.updated_ns, &ret[n++]);
	}
	return n;
}
