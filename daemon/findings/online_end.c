/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that ended: the first of a job that ends with an error is a finding, and a hang that a rank's end caused says how
 * it ended and where. Others of the job end as a consequence.
 */
#include <math.h>

#include "analyzers/base/fnv1a.h"
#include "analyzers/base/text.h"
#include "analyzers/finding/finding.h"
#include "daemon/core/context.h"
#include "daemon/findings/online_internal.h"
#include "daemon/ranks/ranks.h"
#include "daemon/ranks/end_words.h"

#define END_IDS (2ULL << 32) /* detectors' ids are counted from 1, those of online_rank.c from 1 << 32 */
#define END_SHOWN_NS (600 * NSEC_PER_SEC) /* by `ops`, which people call because the job has ended */
/* A rank notices a lost peer by a closed connection, at the latest when a launcher ends it: torchrun's SIGKILL after 30 s. */
#define END_CONSEQUENCE_NS (60 * NSEC_PER_SEC)

/* Of the ranks that are one job: those without a name have one launcher. */
static uint64_t online_end_job(const struct rank *rank)
{
	uint64_t hash = fnv1a(FNV1A_START, rank->env.job, strlen(rank->env.job));

	hash = fnv1a(hash, &rank->uid, sizeof(rank->uid));
	hash = fnv1a(hash, &rank->env.master_port, sizeof(rank->env.master_port));
	return rank->env.job[0] ? hash : fnv1a(hash, &rank->parent_pid, sizeof(rank->parent_pid));
}

struct online_end_peers {
	uint64_t job;
	int64_t instance;
	size_t live;
};

static void online_end_count(void *arg, const struct rank *rank)
{
	struct online_end_peers *peers = arg;

	peers->live += rank->role == RANK_ROLE_RANK && !rank->ended && rank->instance != peers->instance &&
		       online_end_job(rank) == peers->job;
}

static bool online_end_is_first(const struct online *online, uint64_t job, const struct online_end_info *info)
{
	for (size_t i = 0; i < ONLINE_ENDS_MAX; i++) {
		const struct online_end *end = &online->ends.of[i];

		if (end->instance && end->job == job && end->instance != info->rank->instance &&
			end->ended_ns <= info->ended_ns && info->ended_ns - end->ended_ns < END_CONSEQUENCE_NS)
			return false;
	}
	return true;
}

static bool online_end_is_error(const struct online *online, uint64_t job, const struct online_end_info *info)
{
	struct online_end_peers peers = {.job = job, .instance = info->rank->instance};
	enum end_kind kind = end_kind_of(info->rank->wait_status, info->sender);

	if (kind == END_ASKED)
		ranks_each(online->context->ranks, online_end_count, &peers);
	return (kind == END_ERROR || peers.live) && online_end_is_first(online, job, info);
}

static void online_end_publish(struct online *online, const struct online_end_info *info)
{
	const struct rank *rank = info->rank;
	struct finding finding = {
		.id = END_IDS + ++online->ends.published,
		.kind = FINDING_CRASH,
		.cause = end_is_out_of_memory(rank->wait_status, info->sender) ? CAUSE_OUT_OF_MEMORY : CAUSE_CRASHED,
		.activity = ACTIVITY_MAX,
		.state = FINDING_CLOSED,
		.severity = SEVERITY_CRITICAL,
		.tier = FRAME_TIER_HOST,
		.confidence = 1,
		.uid_known = true,
		.uid = rank->uid,
		.rank = rank->env.rank,
		.since_ns = info->ended_ns,
		.noticed_ns = info->ended_ns,
		.until_ns = info->ended_ns,
		.updated_ns = info->ended_ns,
	};

	copy_text(finding.job, sizeof(finding.job), rank->env.job);
	copy_text(finding.host, sizeof(finding.host), rank->host);
	copy_text(finding.card, sizeof(finding.card), rank->env.card);
	finding_add(&finding, "end", "1", rank->wait_status, NAN, info->how);
	if (info->place[0])
		finding_add(&finding, "stack", "1", 1, NAN, info->place);
	finding_write_sentence(&finding);
	online_publish(online, &finding);
}

void online_ended(struct online *online, const struct online_end_info *info)
{
	uint64_t job = online_end_job(info->rank);
	struct online_end *end;

	if (!online)
		return;
	if (online_end_is_error(online, job, info))
		online_end_publish(online, info);
	end = &online->ends.of[online->ends.next++ % ONLINE_ENDS_MAX];
	*end = (struct online_end){
		.instance = info->rank->instance,
		.job = job,
		.rank = info->rank->env.rank,
		.uid = info->rank->uid,
		.normal = end_kind_of(info->rank->wait_status, info->sender) == END_NORMAL,
		.ended_ns = info->ended_ns,
	};
	copy_text(end->name, sizeof(end->name), info->rank->env.job);
	copy_text(end->how, sizeof(end->how), info->how);
	copy_text(end->place, sizeof(end->place), info->place);
}

void online_end_add(const struct online *online, struct finding *finding)
{
	if (finding->kind != FINDING_HANG || finding->cause != CAUSE_ENDED || finding->rank < 0)
		return;
	for (size_t i = 1; i <= ONLINE_ENDS_MAX; i++) { /* the newest first */
		const struct online_end *end = &online->ends.of[(online->ends.next - i) % ONLINE_ENDS_MAX];

		if (!end->instance || end->rank != finding->rank || !streq(end->name, finding->job))
			continue;
		text_append(finding->sentence, sizeof(finding->sentence), "; it ended: %s%s%s", end->how,
			end->place[0] ? " in " : "", end->place);
		if (end->place[0])
			finding_add(finding, "stack", "1", 1, NAN, end->place);
		return;
	}
}

void online_end_each(
	const struct online *online, void (*callback)(void *arg, const struct online_stack_info *info), void *arg)
{
	uint64_t now_ns = monotonic_ns();

	for (size_t i = 1; i <= ONLINE_ENDS_MAX; i++) { /* the newest first */
		const struct online_end *end = &online->ends.of[(online->ends.next - i) % ONLINE_ENDS_MAX];
		char sentence[256];
		const struct online_stack_info info = {end->name, sentence, end->uid, end->ended_ns, true};

		if (!end->instance || end->normal || now_ns - end->ended_ns > END_SHOWN_NS)
			continue;
		snprintf(sentence, sizeof(sentence), "rank %d ended: %s%s%s", end->rank, end->how, end->place[0] ? " in " : "",
			end->place);
		callback(arg, &info);
	}
}
