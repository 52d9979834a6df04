/* SPDX-License-Identifier: Apache-2.0 */
/* Which functions of the probe tables have a probe: by group of alternatives, and those without one. */
#ifndef RANKTRACE_DAEMON_PROBES_COVERAGE_H
#define RANKTRACE_DAEMON_PROBES_COVERAGE_H

#include "daemon/core/level.h"
#include "daemon/probes/libraries.h"
#include "daemon/probes/table.h"

/*
 * Functions that ranks may call without a probe, per rank: a function found in one of the rank's libraries is not
 * missing in another one named by the row, and a set with one variant in use is complete.
 */

/* bytes of a list of names */
#define MISSING_NAMES_BYTES 192

struct unresolved_thing {
	const struct probe *probe;     /* the row; of a set, the first row of its lowest variant */
	const struct library *library; /* first library of a rank that should have it */
	unsigned others;	       /* further candidate libraries of that rank */
	const char *reason;	       /* why it is unusable; NULL: it exists nowhere. Owned by the library */
};

/* One entry per function and library. Valid until the libraries change. */
struct unresolved {
	size_t count;
	struct unresolved_thing *thing;
	size_t capacity;	      /* of thing */
	struct unresolved_sets *sets; /* of the table, for unresolved_add() */
};

/* Of all ranks; owner_data are attachments after selection, NULL if unreadable. */
int unresolved_find(struct libraries *libraries, struct unresolved *ret);
/* Adds what a rank with these libraries lacks. */
int unresolved_add(struct unresolved *missing, const struct library *const *library, size_t count);
void unresolved_free(struct unresolved *missing);

/*
 * Names of the level's entries, each once: "a, b", or "a, b and 3 more" if truncated. with_reason: those with a
 * reason, otherwise those without. Returns their number; 0: names is empty.
 */
unsigned unresolved_names(
	const struct unresolved *missing, enum level level, bool with_reason, char names[MISSING_NAMES_BYTES]);

/*
 * Selects row variants by group: the libraries that ranks map together. A variant found in libtorch_python need not be
 * searched for in libtorch_cpu. Selection is redone when a library joins a group.
 */

/*
 * Selects for libraries (owner_data: attachment, NULL if unreadable) and attaches the levels that are on, those of
 * users with few libraries first. False: LIMIT_ATTACH_TURN_MS are over, and some are not attached; call again, not
 * anew. A file with one probe takes some 5 ms, one with 37 some 50 ms (beside builds); the loop's stops are to be below
 * 250 ms.
 */
bool groups_choose(struct libraries *libraries, const bool on[LEVEL_MAX], bool anew);

#endif
