/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/detect/cause_hog.h"

#include <stdio.h>
#include <string.h>

void cause_hog_feed(struct cause_preemptor *preemptor, const struct frame_host *host)
{
	if (host->preemptor_pid == 0 || host->run_delay_ns == 0 || host->preemptor_ns == FRAME_UNKNOWN)
		return;
	if (host->preemptor_pid != preemptor->pid && host->preemptor_ns < preemptor->ns / 2) {
		preemptor->ns /= 2;
		return;
	}
	preemptor->pid = host->preemptor_pid;
	preemptor->ns = host->preemptor_ns;
	memcpy(preemptor->name, host->preemptor_name, sizeof(preemptor->name));
}

void cause_hog_text(const struct cause_preemptor *preemptor, char *ret, size_t size)
{
	char name[sizeof(preemptor->name)];

	ret[0] = '\0';
	if (preemptor->pid == 0)
		return;
	memcpy(name, preemptor->name, sizeof(name));
	for (size_t i = 0; i < sizeof(name) && name[i]; i++)
		name[i] = name[i] >= ' ' && name[i] <= '~' ? name[i] : '?';
	snprintf(ret, size, "pid %u%s%.*s", preemptor->pid, name[0] ? " " : "", (int)sizeof(name), name);
}
