/* SPDX-License-Identifier: Apache-2.0 */
/* What L3 knows of ranks beside their findings. */
#include "analyzers/gauges/system_causes.h"
#include "daemon/findings/online_internal.h"

void online_system_watch(struct online *online, const struct rank *rank, uint64_t now_ns)
{
	const struct system_causes_who who = {rank->instance, rank->env.rank, rank->uid, rank->env.job};

	if (online && !online->system)
		online->system = system_causes_new();
	if (online && online->system)
		system_causes_watch(online->system, &who, now_ns);
}

void online_system_add(struct online *online, const struct rank *rank, uint64_t now_ns, const char *word,
	const char *name, uint64_t duration_ns)
{
	if (online && online->system)
		system_causes_add(online->system, rank->instance, now_ns, word, name, duration_ns);
}

void online_system_explain(const struct online *online, struct finding *finding)
{
	if (system_causes_explain(online->system, monotonic_ns(), finding))
		finding_write_sentence(finding);
}
