/* SPDX-License-Identifier: Apache-2.0 */
/* Findings of one rank that no detector sees: leaks, lack and calls of device memory (the memory collector), cost of
 * probes (the guard). */
#include <math.h>

#include "analyzers/finding/finding.h"
#include "analyzers/memory/memory.h"
#include "daemon/core/context.h"
#include "daemon/findings/online_internal.h"
#include "daemon/ranks/ranks.h"

#define RANK_IDS (1ULL << 32) /* the detectors' ids are counted from 1 */

/* rank NULL: of the node. */
static struct finding online_rank_finding(
	const struct online *online, const struct rank *rank, uint64_t since_ns, bool over)
{
	uint64_t now_ns = monotonic_ns();
	struct finding finding = {
		.activity = ACTIVITY_MAX,
		.state = over ? FINDING_CLOSED : FINDING_OPEN,
		.tier = FRAME_TIER_HOST,
		.confidence = 1,
		.uid_known = rank != NULL,
		.uid = rank ? rank->uid : 0,
		.rank = rank ? rank->env.rank : -1,
		.since_ns = since_ns,
		.noticed_ns = now_ns,
		.until_ns = over ? now_ns : 0,
		.updated_ns = now_ns,
		.slowdown = 1,
	};

	if (rank) {
		copy_text(finding.job, sizeof(finding.job), rank->env.job);
		copy_text(finding.host, sizeof(finding.host), rank->host);
		copy_text(finding.card, sizeof(finding.card), rank->env.card);
	} else if (online) {
		copy_text(finding.host, sizeof(finding.host), online->context->host);
	}
	return finding;
}

static void online_rank_publish(struct online *online, struct finding *finding, struct online_open *open)
{
	if (!online || (finding->state == FINDING_CLOSED && !open->number))
		return;
	if (!open->number)
		*open = (struct online_open){RANK_IDS + ++online->of_ranks, finding->noticed_ns};
	finding->id = open->number;
	finding->noticed_ns = open->noticed_ns;
	finding_write_sentence(finding);
	online_publish(online, finding);
	if (finding->state == FINDING_CLOSED)
		*open = (struct online_open){0};
}

void online_leak(struct online *online, const struct online_leak_info *info, bool over, struct online_open *open)
{
	struct finding finding = online_rank_finding(online, info->rank, info->since_ns, over);

	finding.kind = FINDING_MEMORY;
	finding.cause = CAUSE_MEMORY_LEAK;
	finding.severity = SEVERITY_WARNING;
	finding_add(&finding, "memory_growth", "bytes", info->grown_bytes, NAN, info->device);
	finding_add(&finding, "memory_hourly", "bytes", info->hourly_bytes, NAN, NULL);
	if (info->place[0])
		finding_add(&finding, "stack", "1", 1, NAN, info->place);
	online_rank_publish(online, &finding, open);
}

void online_calls(struct online *online, const struct online_calls_info *info, bool over, struct online_open *open)
{
	struct finding finding = online_rank_finding(online, info->rank, info->since_ns, over);

	finding.kind = FINDING_MEMORY;
	finding.cause = CAUSE_MEMORY_CALLS;
	finding.severity = SEVERITY_WARNING;
	finding_add(&finding, "memory_calls", "%", info->percent, NAN, NULL);
	if (info->place[0])
		finding_add(&finding, "stack", "1", 1, NAN, info->place);
	online_rank_publish(online, &finding, open);
}

/* Where it is not known what other processes hold of the device, what may be theirs has no cause. */
static void online_oom_why(struct finding *finding, const struct online_oom_info *info)
{
	const struct memory_failure failure = {
		.asked = info->asked_bytes,
		.allocated = info->allocated_bytes,
		.reserved = info->reserved_bytes,
		.leaked = info->leaked_bytes,
		.card = info->card,
	};
	enum memory_cause cause = memory_failure_cause(&failure);
	bool others = info->card.total > 0 && !isnan(info->card.others);

	if (others)
		finding_add(finding, "memory_others", "bytes", info->card.others, NAN, NULL);
	if (others || cause == MEMORY_FRAGMENTED || cause == MEMORY_LEAKED)
		finding_add(finding, "memory_why", "1", 1, NAN, memory_cause_word(cause));
}

/* It is over at once: what the program does about it is not known. */
void online_oom(struct online *online, const struct online_oom_info *info)
{
	struct finding finding = online_rank_finding(online, info->rank, info->time_ns, false);
	struct online_open open = {0};

	if (!online)
		return;
	open = (struct online_open){RANK_IDS + ++online->of_ranks, finding.noticed_ns};
	finding.state = FINDING_CLOSED;
	finding.until_ns = info->time_ns;
	finding.kind = FINDING_MEMORY;
	finding.cause = CAUSE_DEVICE_MEMORY;
	finding.severity = SEVERITY_WARNING;
	finding_add(&finding, "memory_asked", "bytes", info->asked_bytes, NAN, info->device);
	finding_add(&finding, "memory_allocated", "bytes", info->allocated_bytes, NAN, NULL);
	if (info->reserved_bytes > 0)
		finding_add(&finding, "memory_reserved", "bytes", info->reserved_bytes, NAN, NULL);
	online_oom_why(&finding, info);
	if (info->place[0])
		finding_add(&finding, "stack", "1", 1, NAN, info->place);
	online_rank_publish(online, &finding, &open);
}

void online_overhead(
	struct online *online, const struct online_overhead_info *info, bool over, struct online_open *open)
{
	struct finding finding = online_rank_finding(online, info->rank, info->since_ns, over);

	finding.kind = FINDING_OVERHEAD;
	finding.cause = info->rank ? CAUSE_PROBES : CAUSE_DAEMON;
	finding.severity = SEVERITY_NOTICE;
	if (info->bytes > 0) {
		finding_add(&finding, "daemon", "bytes", info->bytes, NAN, NULL);
		finding_add(&finding, "budget", "bytes", info->budget_bytes, NAN, NULL);
	} else {
		finding_add(&finding, info->rank ? "probes" : "daemon", "%", info->percent, NAN, info->part);
		finding_add(&finding, "level", "%", info->part_percent, NAN, NULL);
		finding_add(&finding, "budget", "%", info->budget_percent, NAN, NULL);
	}
	online_rank_publish(online, &finding, open);
}
