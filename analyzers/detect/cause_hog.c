/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/detect/cause_hog.h"

#include <stdio.h>
#include <string.h>

void cause_hog_feed(struct cause_preemptor *hog, const struct frame_host *host)
{
	if (host->preemptor_pid == 0 || host->run_delay_ns == 0 || host->preemptor_ns == FRAME_UNKNOWN)
		return;
	if (host->preemptor_pid != hog->pid && host->preemptor_ns < hog->ns / 2) {
		hog->ns /= 2;
		return;
	}
	hog->pid = host->preemptor_pid;
	hog->ns = host->preemptor_ns;
	memcpy(hog->name, host->preemptor_name, sizeof(hog->name));
}

void cause_hog_text(const struct cause_preemptor *hog, char *ret, size_t size)
{
	char name[sizeof(hog->name)];

	ret[0] = '\0';
	if (hog->pid == 0)
		return;
	memcpy(name, hog->name, sizeof(name));
	for (size_t i = 0; i < sizeof(name) && name[i]; i++)
		name[i] = name[i] >= ' ' && name[i] <= '~' ? name[i] : '?';
	snprintf(ret, size, "pid %u%s%.*s", hog->pid, name[0] ? " " : "", (int)sizeof(name), name);
}
