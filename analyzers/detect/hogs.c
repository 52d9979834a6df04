/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/detect/hogs.h"

#include <stddef.h>
#include <stdio.h>

/* The one who is known, a place that is free, or the one who took least. */
static struct hog *preemptors_place_of(struct hogs *hogs, uint32_t pid)
{
	struct hog *least = &hogs->hog[0];

	for (size_t i = 0; i < HOGS_MAX; i++) {
		if (hogs->hog[i].pid == pid)
			return &hogs->hog[i];
		if (hogs->hog[i].ns < least->ns)
			least = &hogs->hog[i];
	}
	*least = (struct hog){.pid = pid};
	return least;
}

void hogs_add(struct hogs *hogs, uint32_t own, uint32_t pid, const char *name, uint64_t ns)
{
	struct hog *hog;

	if (!ns || ns > UINT64_MAX - hogs->waited_ns)
		return;
	hogs->waited_ns += ns;
	if (!pid || pid == own)
		return;
	hog = preemptors_place_of(hogs, pid);
	hog->ns += ns;
	snprintf(hog->name, sizeof(hog->name), "%s", name ? name : "");
}

const struct hog *hogs_most(const struct hogs *hogs)
{
	const struct hog *most = &hogs->hog[0];

	for (size_t i = 1; i < HOGS_MAX; i++) {
		if (hogs->hog[i].ns > most->ns)
			most = &hogs->hog[i];
	}
	return most->pid && most->ns >= hogs->waited_ns / HOGS_PART ? most : NULL;
}
