/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placing: table rows and one library file to the bytes where breakpoints go. A row's symbol is looked up, the offset of
 * its entry is chosen (prologue.h), its returns are found (attachment.h), USDT operands become readers, and argument numbers
 * become slots of the kernel's struct pt_regs.
 */
#ifndef RANKTRACE_DAEMON_PROBES_SITE_H
#define RANKTRACE_DAEMON_PROBES_SITE_H

#include "daemon/probes/attachment.h"

#define PLACES_MAX 128

struct places {
	unsigned count;
	struct place *place;              /* count of them, of every row that was found: also of variants that are not used */
	bool found[PROBES_MAX];           /* by row: whether this library has it */
	char *trouble[PROBES_MAX];        /* by row: why it counts as not found though its function is there; else NULL */
};

/* Finds all; a library that is no ELF file we know has no places. */
int sites_find(const struct attach_engine *engine, const struct library *library, struct places *ret);
void sites_free(struct places *places);

#endif
