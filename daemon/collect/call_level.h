/* SPDX-License-Identifier: Apache-2.0 */
/* Turning a level of the call engine on or off in all libraries, and the sentences about what happened and what stays unseen. */
#ifndef RANKTRACE_DAEMON_COLLECT_CALL_LEVEL_H
#define RANKTRACE_DAEMON_COLLECT_CALL_LEVEL_H

#include "daemon/collect/collector.h"
#include "daemon/core/level.h"
#include "daemon/probes/libraries.h"
#include "daemon/probes/unresolved.h"

struct call_level_sum {
	enum level level;
	bool on;
	int error; /* of the first place that could not be attached */
	unsigned probes, libraries, refused;
	unsigned missing, unusable;                /* see probes/missing.h: without a reason, with one */
	size_t rows, ranks;                        /* of the level in the tables; on the node */
	char unresolved_names[MISSING_NAMES_BYTES];
	char unusable_names[MISSING_NAMES_BYTES];
};

/* level and on are the caller's; adds up the rest. */
void call_level_switch(struct libraries *libraries, struct call_level_sum *sum);
/* 0, or the error where none of the level's probes could be attached. */
int call_level_report(const struct call_level_sum *sum, char *report, size_t report_size);
/* A note for each thing that a rank may call and no probe sees, of all levels. */
void call_level_notes(struct libraries *libraries, struct collector_status *status);

#endif
