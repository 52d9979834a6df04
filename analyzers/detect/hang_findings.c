/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lifecycle of a job's hangs and mismatches: verdicts of snapshots in, findings out. (What is slow has episodes
 * instead: judge/judge_episode.c.) Suspected with the first verdict, open with the first confirmed one; published again
 * when it changes, and for its cost when it is twice as old as at its last update, every 30 s at least. After
 * HANG_SNAPSHOTS snapshots without a verdict it is closed, or dropped where none was confirmed.
 *
 * One finding: equal kind, rank and communicator; of a hang also a standstill that began before its newest verdict,
 * though another rank is named for it now. It keeps what the surest verdict says. What recurs within HANG_REOPEN_NS for
 * the same cause is the same one, and each time it takes twice as long (16 times at most) to be closed.
 */
#include "analyzers/detect/detect_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETURNS_COUNTED 4 /* doublings of the time until it is closed */

/* From its first verdict until it can no longer recur. */
struct hang_episode {
	struct finding finding;	  /* id 0: not published yet */
	bool reported, confirmed; /* in this round */
	bool changed;		  /* worth publishing */
	unsigned quiet;		  /* rounds without a verdict */
	unsigned returns;
	double verdicts, lost_ns;    /* so many; sum */
	uint64_t last_ns, last_step; /* of the last verdict */
	uint64_t over_ns;	     /* between it and the first round without one */
};

struct hang_findings {
	struct hang_findings_sink sink;
	uint64_t *next_id;
	char job[64];
	size_t episodes;
	struct hang_episode *episode[HANG_FINDINGS_MAX];
};

struct hang_findings *hang_findings_new(const char *job, const struct hang_findings_sink *sink, uint64_t *next_id)
{
	struct hang_findings *findings = calloc(1, sizeof(*findings));

	if (!findings)
		return NULL;
	findings->sink = *sink;
	findings->next_id = next_id;
	snprintf(findings->job, sizeof(findings->job), "%s", job);
	return findings;
}

struct hang_findings *hang_findings_free(struct hang_findings *findings)
{
	for (size_t i = 0; findings && i < findings->episodes; i++)
		free(findings->episode[i]);
	free(findings);
	return NULL;
}

/* Published: suspected or open now. */
static bool episode_is_up(const struct hang_episode *episode)
{
	return episode->finding.id &&
	       (episode->finding.state == FINDING_SUSPECTED || episode->finding.state == FINDING_OPEN);
}

static unsigned rounds_to_end(const struct hang_episode *episode)
{
	return HANG_SNAPSHOTS << (episode->returns < RETURNS_COUNTED ? episode->returns : RETURNS_COUNTED);
}

/* What is known only when it is published. */
static void episode_write(const struct hang_episode *episode, struct finding *ret)
{
	*ret = episode->finding;
	if (episode->returns)
		finding_add(ret, "returns", "1", episode->returns, NAN, "");
	finding_write_sentence(ret);
}

static void episode_publish(struct hang_findings *findings, struct hang_episode *episode, uint64_t now_ns)
{
	struct finding finding;

	if (!episode->finding.id)
		episode->finding.id = (*findings->next_id)++;
	episode->finding.updated_ns = now_ns;
	episode->changed = false;
	episode_write(episode, &finding);
	findings->sink.finding(findings->sink.arg, &finding);
}

static void episode_end(struct hang_findings *findings, struct hang_episode *episode, uint64_t now_ns)
{
	episode->finding.state = episode->finding.state == FINDING_OPEN ? FINDING_CLOSED : FINDING_DROPPED;
	if (episode->finding.state == FINDING_DROPPED)
		episode->finding.cost_card_hours = 0; /* what was lost is another finding's */
	episode->finding.until_ns = episode->quiet ? episode->over_ns : episode->last_ns;
	episode->finding.until_step = episode->last_step;
	episode_publish(findings, episode, now_ns);
}

static void episode_begin(
	struct hang_findings *findings, struct hang_episode *episode, enum finding_state state, uint64_t now_ns)
{
	struct finding *finding = &episode->finding;

	episode->returns += finding->id && finding->state == FINDING_CLOSED;
	finding->state = state;
	finding->until_ns = finding->until_step = 0;
	if (state == FINDING_OPEN && !finding->noticed_ns)
		finding->noticed_ns = now_ns;
	episode_publish(findings, episode, now_ns);
}

static bool update_is_due(const struct hang_episode *episode, uint64_t now_ns)
{
	const struct finding *finding = &episode->finding;
	uint64_t age_ns = finding->updated_ns > finding->since_ns ? finding->updated_ns - finding->since_ns : 0;

	age_ns = age_ns < HANG_UPDATE_LEAST_NS ? HANG_UPDATE_LEAST_NS
		 : age_ns < HANG_UPDATE_NS     ? age_ns
					       : HANG_UPDATE_NS;
	return now_ns - finding->updated_ns >= age_ns;
}

static void episode_reported(struct hang_findings *findings, struct hang_episode *episode, uint64_t now_ns)
{
	struct finding *finding = &episode->finding;
	bool again = !finding->id || episode->quiet >= rounds_to_end(episode);

	episode->quiet = 0;
	if (episode->confirmed && finding->state != FINDING_OPEN)
		episode_begin(findings, episode, FINDING_OPEN, now_ns);
	else if (!episode_is_up(episode)) {
		/* What is suspected again after it was closed is no news. */
		if (again && finding->state != FINDING_CLOSED)
			episode_begin(findings, episode, FINDING_SUSPECTED, now_ns);
	} else if (now_ns < finding->updated_ns)
		finding->updated_ns = now_ns;
	else if (finding->state == FINDING_OPEN && (episode->changed || update_is_due(episode, now_ns)))
		episode_publish(findings, episode, now_ns);
}

static void episode_forget(struct hang_findings *findings, size_t i)
{
	free(findings->episode[i]);
	findings->episode[i] = findings->episode[--findings->episodes];
}

void hang_findings_round(struct hang_findings *findings, uint64_t now_ns)
{
	for (size_t i = findings->episodes; i-- > 0;) {
		struct hang_episode *episode = findings->episode[i];

		if (!episode->reported && ++episode->quiet == 1)
			/* Snapshots at the end of a process are newer than the records that the next one goes by. */
			episode->over_ns =
				episode->last_ns + (now_ns > episode->last_ns ? (now_ns - episode->last_ns) / 2 : 0);
		if (episode->reported)
			episode_reported(findings, episode, now_ns);
		else if (episode->quiet >= rounds_to_end(episode) && episode_is_up(episode))
			episode_end(findings, episode, now_ns);
		episode->reported = episode->confirmed = false;
		if (!episode_is_up(episode) && now_ns > episode->last_ns && now_ns - episode->last_ns > HANG_REOPEN_NS)
			episode_forget(findings, i);
	}
}

static struct hang_episode *episode_find(
	const struct hang_findings *findings, const struct finding *reported, int32_t rank)
{
	struct hang_episode *found = NULL;

	for (size_t i = 0; i < findings->episodes; i++) {
		struct hang_episode *episode = findings->episode[i];

		if (episode->finding.kind == reported->kind && episode->finding.rank == rank &&
			(episode->finding.state != FINDING_CLOSED || episode->finding.cause == reported->cause ||
				reported->cause == CAUSE_UNKNOWN) &&
			strcmp(episode->finding.communicator, reported->communicator) == 0 &&
			(!found || episode_is_up(episode)))
			found = episode;
	}
	if (found)
		return found;
	for (size_t i = 0; i < findings->episodes && reported->kind == FINDING_HANG; i++) {
		struct hang_episode *episode = findings->episode[i];

		if (episode->finding.kind == FINDING_HANG && episode_is_up(episode) && !episode->reported &&
			reported->since_ns && reported->since_ns <= episode->last_ns)
			return episode;
	}
	return NULL;
}

static struct hang_episode *episode_new(struct hang_findings *findings, const struct finding *reported, int32_t rank)
{
	struct hang_episode *episode = findings->episodes < HANG_FINDINGS_MAX ? calloc(1, sizeof(*episode)) : NULL;

	if (!episode)
		return NULL;
	findings->episode[findings->episodes++] = episode;
	episode->finding.kind = reported->kind;
	episode->finding.rank = rank;
	episode->finding.activity = ACTIVITY_MAX;
	episode->finding.confidence = -1; /* any verdict is surer */
	memcpy(episode->finding.communicator, reported->communicator, sizeof(reported->communicator));
	snprintf(episode->finding.job, sizeof(episode->finding.job), "%s", findings->job);
	return episode;
}

static void episode_take(
	struct hang_episode *episode, const struct finding *reported, const struct hang_context *context)
{
	struct finding *finding = &episode->finding;
	const struct frame_who *who = reported->rank >= 0 ? &context->who[reported->rank] : NULL;
	int32_t rank = who ? who->rank : -1;

	episode->changed |= finding->cause != reported->cause || finding->rank != rank;
	finding->rank = rank;
	finding->cause = reported->cause;
	finding->severity = reported->severity;
	finding->confidence = reported->confidence;
	finding->slowdown = reported->slowdown;
	finding->tier = context->tier;
	finding->evidences = reported->evidences;
	memcpy(finding->evidence, reported->evidence, sizeof(finding->evidence));
	memcpy(finding->others, reported->others, sizeof(finding->others));
	snprintf(finding->host, sizeof(finding->host), "%.*s", (int)sizeof(finding->host) - 1,
		who ? who->host : reported->host);
	snprintf(finding->card, sizeof(finding->card), "%.*s", (int)sizeof(finding->card) - 1,
		who ? who->card : reported->card);
}

void hang_findings_add(
	struct hang_findings *findings, const struct verdict *verdict, const struct hang_context *context)
{
	const struct finding *reported = &verdict->finding;
	struct hang_episode *episode;
	int32_t rank;
	bool fades, ends;

	if (reported->rank >= 0 && (size_t)reported->rank >= context->ranks)
		return;
	rank = reported->rank >= 0 ? context->who[reported->rank].rank : -1;
	episode = episode_find(findings, reported, rank);
	if (!episode)
		episode = episode_new(findings, reported, rank);
	if (!episode)
		return;
	if (!episode->last_ns || (verdict->confirmed && !episode->finding.noticed_ns)) {
		episode->finding.since_ns = reported->since_ns && reported->since_ns <= context->now_ns
						    ? reported->since_ns
						    : context->now_ns;
		episode->finding.since_step = context->step;
	}
	/* As a hang ends, a snapshot may name another rank, less surely, or show a part of it. */
	fades = verdict->lost_ns * episode->verdicts < episode->lost_ns / 2 && rank == episode->finding.rank &&
		episode->finding.noticed_ns;
	/* The end of a rank that hung before is no cause: a hung job is killed. */
	ends = reported->cause == CAUSE_ENDED && episode->finding.cause != CAUSE_ENDED &&
	       episode->finding.cause != CAUSE_UNKNOWN && rank == episode->finding.rank && episode->finding.noticed_ns;
	if ((reported->confidence >= episode->finding.confidence && !fades && !ends) ||
		(episode->finding.rank < 0 && rank >= 0))
		episode_take(episode, reported, context);
	episode->verdicts++;
	episode->lost_ns += verdict->lost_ns;
	episode->finding.cost_card_hours += verdict->lost_ns * context->cards / 3.6e12;
	episode->reported = true;
	episode->confirmed |= verdict->confirmed;
	episode->last_ns = context->now_ns;
	episode->last_step = context->step;
}

bool hang_findings_cover(const struct hang_findings *findings, uint64_t begin_ns, uint64_t end_ns)
{
	for (size_t i = 0; i < findings->episodes; i++) {
		const struct hang_episode *episode = findings->episode[i];
		const struct finding *finding = &episode->finding;
		uint64_t from_ns = finding->since_ns > begin_ns ? finding->since_ns : begin_ns;
		uint64_t to_ns = finding->until_ns ? finding->until_ns : episode->last_ns;

		to_ns = to_ns < end_ns ? to_ns : end_ns;
		if (finding->noticed_ns && finding->kind == FINDING_HANG && from_ns < to_ns &&
			to_ns - from_ns >= (end_ns - begin_ns) / 2)
			return true;
	}
	return false;
}

void hang_findings_close(struct hang_findings *findings, uint64_t now_ns)
{
	for (size_t i = findings->episodes; i-- > 0;) {
		if (episode_is_up(findings->episode[i]))
			episode_end(findings, findings->episode[i], now_ns);
		episode_forget(findings, i);
	}
}

void hang_findings_end(struct hang_findings *findings, uint64_t now_ns)
{
	for (size_t i = 0; i < findings->episodes; i++) {
		if (episode_is_up(findings->episode[i]))
			episode_publish(findings, findings->episode[i], now_ns);
	}
}
