/* SPDX-License-Identifier: Apache-2.0 */
/* Leaks of device memory as findings: the memory collector sees them, no detector does. */
#include <math.h>

#include "analyzers/finding/finding.h"
#include "daemon/core/context.h"
#include "daemon/findings/online_internal.h"
#include "daemon/ranks/ranks.h"

#define LEAK_IDS (1ULL << 32) /* the detectors' ids are counted from 1 */

uint64_t online_leak(struct online *online, const struct online_leak_info *info, bool over, uint64_t number)
{
	uint64_t now_ns = monotonic_ns();
	struct finding finding = {
		.kind = FINDING_MEMORY,
		.cause = CAUSE_MEMORY_LEAK,
		.activity = ACTIVITY_MAX,
		.state = over ? FINDING_CLOSED : FINDING_OPEN,
		.severity = SEVERITY_WARNING,
		.tier = FRAME_TIER_HOST,
		.confidence = 1,
		.uid_known = true,
		.uid = info->rank->uid,
		.rank = info->rank->env.rank,
		.since_ns = info->since_ns,
		.noticed_ns = now_ns,
		.until_ns = over ? now_ns : 0,
		.updated_ns = now_ns,
		.slowdown = 1,
	};

	if (!online || (over && !number))
		return 0;
	if (!number)
		number = LEAK_IDS + ++online->leaks;
	finding.id = number;
	copy_text(finding.job, sizeof(finding.job), info->rank->env.job);
	copy_text(finding.host, sizeof(finding.host), info->rank->host);
	copy_text(finding.card, sizeof(finding.card), info->rank->env.card);
	finding_add(&finding, "memory_growth", "bytes", info->grown_bytes, NAN, info->device);
	finding_add(&finding, "memory_hourly", "bytes", info->hourly_bytes, NAN, NULL);
	finding_write_sentence(&finding);
	online_publish(online, &finding);
	return number;
}
