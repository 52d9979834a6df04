/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolves table rows in one library file to the sites of their breakpoints: finds a row's symbol, chooses the offset
 * at its entry (prologue.h), finds its returns (attachment.h), turns USDT operands into readers, and argument numbers
 * into slots of struct pt_regs.
 */
#ifndef RANKTRACE_DAEMON_PROBES_SITE_H
#define RANKTRACE_DAEMON_PROBES_SITE_H

#include "daemon/probes/attachment.h"

#define SITES_MAX 128 /* FACTS_SITES_MAX */

struct sites {
	unsigned count;
	struct site *site;	  /* of every row found, variants not in use included */
	bool found[PROBES_MAX];	  /* by row: found in this library */
	char *reason[PROBES_MAX]; /* by row: why a function that exists counts as not found, else NULL */
};

/* Resolves all rows, from library->facts; without them, the file is read here (tests and benchmarks). */
int sites_find(const struct attach_engine *engine, const struct library *library, struct sites *ret);
void sites_free(struct sites *sites);

#endif
