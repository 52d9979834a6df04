/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/detect/preemptors.h"

#include <stddef.h>
#include <stdio.h>

/* The one who is known, a place that is free, or the one who took least. */
static struct preemptor *preemptors_slot_of(struct preemptors *preemptors, uint32_t pid)
{
	struct preemptor *least = &preemptors->preemptor[0];

	for (size_t i = 0; i < PREEMPTOR_MAX; i++) {
		if (preemptors->preemptor[i].pid == pid)
			return &preemptors->preemptor[i];
		if (preemptors->preemptor[i].ns < least->ns)
			least = &preemptors->preemptor[i];
	}
	*least = (struct preemptor){.pid = pid};
	return least;
}

void preemptors_add(struct preemptors *preemptors, uint32_t own, uint32_t pid, const char *name, uint64_t ns)
{
	struct preemptor *preemptor;

	if (!ns || ns > UINT64_MAX - preemptors->waited_ns)
		return;
	preemptors->waited_ns += ns;
	if (!pid)
		return;
	if (pid == own)
		name = "its own threads";
	preemptor = preemptors_slot_of(preemptors, pid);
	preemptor->ns += ns;
	snprintf(preemptor->name, sizeof(preemptor->name), "%s", name ? name : "");
}

const struct preemptor *preemptors_most(const struct preemptors *preemptors)
{
	const struct preemptor *most = &preemptors->preemptor[0];

	for (size_t i = 1; i < PREEMPTOR_MAX; i++) {
		if (preemptors->preemptor[i].ns > most->ns)
			most = &preemptors->preemptor[i];
	}
	return most->pid && most->ns >= preemptors->waited_ns / PREEMPTOR_PART ? most : NULL;
}
