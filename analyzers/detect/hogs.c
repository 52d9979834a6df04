/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/detect/hogs.h"

#include <stddef.h>
#include <stdio.h>

/* The one who is known, a place that is free, or the one who took least. */
static struct preemptor *preemptors_place_of(struct preemptors *hogs, uint32_t pid)
{
	struct preemptor *least = &hogs->hog[0];

	for (size_t i = 0; i < PREEMPTOR_MAX; i++) {
		if (hogs->hog[i].pid == pid)
			return &hogs->hog[i];
		if (hogs->hog[i].ns < least->ns)
			least = &hogs->hog[i];
	}
	*least = (struct preemptor){.pid = pid};
	return least;
}

void preemptors_add(struct preemptors *hogs, uint32_t own, uint32_t pid, const char *name, uint64_t ns)
{
	struct preemptor *hog;

	if (!ns || ns > UINT64_MAX - hogs->waited_ns)
		return;
	hogs->waited_ns += ns;
	if (!pid || pid == own)
		return;
	hog = preemptors_place_of(hogs, pid);
	hog->ns += ns;
	snprintf(hog->name, sizeof(hog->name), "%s", name ? name : "");
}

const struct preemptor *preemptors_most(const struct preemptors *hogs)
{
	const struct preemptor *most = &hogs->hog[0];

	for (size_t i = 1; i < PREEMPTOR_MAX; i++) {
		if (hogs->hog[i].ns > most->ns)
			most = &hogs->hog[i];
	}
	return most->pid && most->ns >= hogs->waited_ns / PREEMPTOR_PART ? most : NULL;
}
