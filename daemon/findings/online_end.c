/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that ended: the first of a job that ends with an error, or is killed alone, is a finding; others of the job end
 * as a consequence. A hang that a rank's end caused says how it ended and where.
 */
#include <math.h>
#include <signal.h>

#include "analyzers/base/fnv1a.h"
#include "analyzers/base/text.h"
#include "analyzers/finding/finding.h"
#include "daemon/core/context.h"
#include "daemon/findings/online_internal.h"
#include "daemon/gauges/gauges.h"
#include "daemon/ranks/ranks.h"
#include "daemon/ranks/end_words.h"

#define END_IDS (2ULL << 32)		  /* detectors' ids are counted from 1, those of online_rank.c from 1 << 32 */
#define END_SHOWN_NS (600 * NSEC_PER_SEC) /* by `ops`, which people call because the job has ended */
/* A rank notices a lost peer by a closed connection, at the latest when a launcher ends it: torchrun's SIGKILL after 30
 * s. */
#define END_CONSEQUENCE_NS (60 * NSEC_PER_SEC)

/* From the kernel's message that a control group is killed, which is read within a second, to the end of a process of it
 * that has much memory to give back. */
#define END_GROUP_NS (10 * NSEC_PER_SEC)
#define END_READ_NS (2 * NSEC_PER_SEC)

void online_end_message(struct online *online, uint64_t time_ns, const struct gauges_message *message)
{
	struct online_ends *ends = &online->ends;
	struct online_oom_limit *limit;

	if (streq(message->kind, "oom_limit") && message->number > 0 && message->object[0]) {
		limit = &ends->limit[ends->limits++ % ONLINE_OOM_LIMITS_MAX];
		*limit = (struct online_oom_limit){.pid = message->number};
		copy_text(limit->object, sizeof(limit->object), message->object);
	} else if (streq(message->kind, "oom_group") && ends->limits) {
		ends->limit[(ends->limits - 1) % ONLINE_OOM_LIMITS_MAX].group_ns = time_ns;
	}
}

/* The process's own, else that of a control group that was killed as a whole then. NULL: the kernel did not say. */
static const char *online_end_limit(const struct online *online, uint32_t pid, uint64_t ended_ns)
{
	const struct online_ends *ends = &online->ends;
	const char *ret = NULL;

	for (size_t i = 1; i <= ONLINE_OOM_LIMITS_MAX; i++) { /* the newest first */
		const struct online_oom_limit *limit = &ends->limit[(ends->limits - i) % ONLINE_OOM_LIMITS_MAX];

		if (limit->pid == pid)
			return limit->object;
		if (!ret && limit->group_ns && ended_ns + END_READ_NS >= limit->group_ns &&
			ended_ns < limit->group_ns + END_GROUP_NS)
			ret = limit->object;
	}
	return ret;
}

/* Of the ranks that are one job: those without a name have one launcher. */
static uint64_t online_end_job(const struct rank *rank)
{
	uint64_t hash = fnv1a_bytes(FNV1A_START, rank->env.job, strlen(rank->env.job));

	hash = fnv1a_bytes(hash, &rank->uid, sizeof(rank->uid));
	hash = fnv1a_bytes(hash, &rank->env.master_port, sizeof(rank->env.master_port));
	return rank->env.job[0] ? hash : fnv1a_bytes(hash, &rank->parent_pid, sizeof(rank->parent_pid));
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

/* The first end of the job, of which this one may be a consequence; NULL: this is the first. */
static struct online_end *online_end_first(struct online *online, const struct online_end *of)
{
	struct online_end *first = NULL;

	for (size_t i = 0; i < ONLINE_ENDS_MAX; i++) {
		struct online_end *end = &online->ends.of[i];

		if (end->instance && end->job == of->job && end->instance != of->instance &&
			end->ended_ns <= of->ended_ns && of->ended_ns - end->ended_ns < END_CONSEQUENCE_NS &&
			(!first || end->ended_ns < first->ended_ns))
			first = end;
	}
	return first;
}

static bool online_end_is_error(const struct online *online, const struct online_end *end)
{
	struct online_end_peers peers = {.job = end->job, .instance = end->instance};

	if (end->kind == END_ASKED)
		ranks_each(online->context->ranks, online_end_count, &peers);
	return end->kind == END_ERROR || peers.live;
}

static void online_end_publish(struct online *online, struct online_end *end)
{
	struct finding finding = {
		.id = END_IDS + ++online->ends.published,
		.kind = FINDING_CRASH,
		.cause = end->out_of_memory ? CAUSE_OUT_OF_MEMORY : CAUSE_CRASHED,
		.activity = ACTIVITY_MAX,
		.state = FINDING_CLOSED,
		.severity = SEVERITY_CRITICAL,
		.tier = FRAME_TIER_HOST,
		.confidence = 1,
		.uid_known = true,
		.uid = end->uid,
		.rank = end->rank,
		.since_ns = end->ended_ns,
		.noticed_ns = end->ended_ns,
		.until_ns = end->ended_ns,
		.updated_ns = end->ended_ns,
	};

	end->published = true;
	copy_text(finding.job, sizeof(finding.job), end->name);
	copy_text(finding.host, sizeof(finding.host), end->host);
	copy_text(finding.card, sizeof(finding.card), end->card);
	finding_add(&finding, "end", "1", end->wait_status, NAN, end->how);
	if (end->place[0])
		finding_add(&finding, "stack", "1", 1, NAN, end->place);
	finding_write_sentence(&finding);
	online_publish(online, &finding);
}

/* A launcher has ended the others before the first end was read, or they failed without it. Who kills a job as a whole
 * kills all ranks with the same signal, or asks all to end before. */
static bool online_end_was_alone(const struct online_end *first, const struct online_end *next)
{
	return !first->published && first->wait_status == SIGKILL &&
	       (next->kind == END_ASKED || next->kind == END_ERROR) && next->wait_status != SIGKILL;
}

/* Ends are not read in the order of their times: an end of the job, of about that time, is a finding already. */
static bool online_end_is_known(const struct online *online, const struct online_end *of)
{
	for (size_t i = 0; i < ONLINE_ENDS_MAX; i++) {
		const struct online_end *end = &online->ends.of[i];
		uint64_t apart_ns =
			end->ended_ns > of->ended_ns ? end->ended_ns - of->ended_ns : of->ended_ns - end->ended_ns;

		if (end->published && end->job == of->job && apart_ns < END_CONSEQUENCE_NS)
			return true;
	}
	return false;
}

/* Its consequence was read first, and is no finding by itself. */
static bool online_end_is_late(const struct online *online, const struct online_end *first)
{
	for (size_t i = 0; i < ONLINE_ENDS_MAX; i++) {
		const struct online_end *next = &online->ends.of[i];

		if (next->instance && next->job == first->job && next->instance != first->instance &&
			next->ended_ns >= first->ended_ns && next->ended_ns - first->ended_ns < END_CONSEQUENCE_NS &&
			online_end_was_alone(first, next))
			return !online_end_is_known(online, first);
	}
	return false;
}

/* A rank has ended without an error, and one that needed it fails: the first one that fails is the finding. */
static bool online_end_was_left(const struct online *online, const struct online_end *first, struct online_end *next)
{
	if (first->kind != END_NORMAL || next->kind != END_ERROR || online_end_is_known(online, next))
		return false;
	text_append(next->how, sizeof(next->how), " after rank %d ended (status 0)", first->rank);
	return true;
}

void online_ended(struct online *online, const struct online_end_info *info)
{
	const struct rank *rank = info->rank;
	struct online_end *end, *first;
	const char *limit;

	if (!online)
		return;
	end = &online->ends.of[online->ends.next++ % ONLINE_ENDS_MAX];
	*end = (struct online_end){
		.instance = rank->instance,
		.job = online_end_job(rank),
		.rank = rank->env.rank,
		.uid = rank->uid,
		.wait_status = rank->wait_status,
		.kind = end_kind_of(rank->wait_status, info->sender),
		.out_of_memory = end_is_out_of_memory(rank->wait_status, info->sender),
		.ended_ns = info->ended_ns,
	};
	copy_text(end->name, sizeof(end->name), rank->env.job);
	copy_text(end->host, sizeof(end->host), rank->host);
	copy_text(end->card, sizeof(end->card), rank->env.card);
	copy_text(end->how, sizeof(end->how), info->how);
	limit = end->out_of_memory ? online_end_limit(online, rank->pid, info->ended_ns) : NULL;
	if (limit)
		text_append(end->how, sizeof(end->how), "%s%s",
			limit[0] == '/' || limit[0] == '.' ? ": limit of control group " : " of the ", limit);
	copy_text(end->place, sizeof(end->place), info->place);
	first = online_end_first(online, end);
	if (first && online_end_was_left(online, first, end))
		online_end_publish(online, end);
	else if (first ? online_end_was_alone(first, end)
		       : online_end_is_error(online, end) || online_end_is_late(online, end))
		online_end_publish(online, first ? first : end);
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

		if (!end->instance || end->kind == END_NORMAL || now_ns - end->ended_ns > END_SHOWN_NS)
			continue;
		snprintf(sentence, sizeof(sentence), "rank %d ended: %s%s%s", end->rank, end->how,
			end->place[0] ? " in " : "", end->place);
		callback(arg, &info);
	}
}
