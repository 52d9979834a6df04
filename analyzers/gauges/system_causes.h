/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel did for a rank while it was slow: pure. Fed with the sums of L3 of each rank, asked about findings.
 *
 * A cause is a word ("reads of files", "reclaim") with a time a second. It is shown beside a finding where it grew, since
 * the finding began, by a part of what was lost: against the median of the job's other ranks on this node at that time,
 * and where there are none, against the rank's own time before.
 */
#ifndef RANKTRACE_GAUGES_SYSTEM_CAUSES_H
#define RANKTRACE_GAUGES_SYSTEM_CAUSES_H

#include "analyzers/finding/finding.h"

#define SYSTEM_CAUSES_RANKS_MAX 64 /* of more, the one that was seen last longest ago is dropped */
#define SYSTEM_CAUSES_MAX 24	   /* words */
#define SYSTEM_CAUSES_SECONDS 300  /* kept */

struct system_causes;

struct system_causes *system_causes_new(void);
struct system_causes *system_causes_free(struct system_causes *causes);

struct system_causes_who {
	int64_t instance;
	int32_t rank;
	uint32_t uid; /* of two users' jobs of one name, neither is shown what the other does */
	const char *job;
};

/* L3 is on for the rank in this second: what is not added took no time. */
void system_causes_watch(struct system_causes *causes, const struct system_causes_who *who, uint64_t time_ns);
/* word: of a table, not copied. name: of a file, or ""; copied. Ignored for a rank that is not watched. */
void system_causes_add(struct system_causes *causes, int64_t instance, uint64_t time_ns, const char *word,
	const char *name, uint64_t duration_ns);
/* Adds the evidence "system" to a finding of a slow rank, where there is such a cause; percent of the time, all threads and
 * requests together. causes may be NULL. */
bool system_causes_explain(const struct system_causes *causes, uint64_t now_ns, struct finding *finding);

#endif
