/* SPDX-License-Identifier: Apache-2.0 */
/* Turns a level of the call engine on or off in all libraries; reports the result and functions without probe. */
#ifndef RANKTRACE_DAEMON_COLLECT_CALL_LEVEL_H
#define RANKTRACE_DAEMON_COLLECT_CALL_LEVEL_H

#include "daemon/collect/collector.h"
#include "daemon/core/level.h"
#include "daemon/probes/libraries.h"
#include "daemon/probes/unresolved.h"

struct call_level_sum {
	enum level level;
	bool on;
	int error; /* of the first site that failed to attach */
	unsigned probes, libraries, refused;
	unsigned missing, unusable; /* probes/unresolved.h: without a reason, with one */
	size_t rows, ranks;	    /* of the level in the tables; on the node */
	char unresolved_names[MISSING_NAMES_BYTES];
	char unusable_names[MISSING_NAMES_BYTES];
};

/* The caller sets level and on; the rest is summed up. */
void call_level_switch(struct libraries *libraries, struct call_level_sum *sum);
/* 0, or the error if none of the level's probes attached. */
int call_level_report(const struct call_level_sum *sum, char *report, size_t report_size);
/* A note for each function that a rank may call without a probe, of all levels. */
void call_level_notes(struct libraries *libraries, struct collector_status *status);

#endif
