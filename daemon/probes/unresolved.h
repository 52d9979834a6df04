/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks may call and no probe sees. It is judged rank by rank: a function that one of the rank's libraries has is
 * not missing in another that the row names too, and a set of which one variant is in use is whole.
 */
#ifndef RANKTRACE_DAEMON_PROBES_UNRESOLVED_H
#define RANKTRACE_DAEMON_PROBES_UNRESOLVED_H

#include "daemon/probes/libraries.h"
#include "daemon/probes/table.h"

/* Room for a list of names in an answer. */
#define MISSING_NAMES_BYTES 192

struct unresolved_thing {
	const struct probe *probe;     /* the row; of a set, the first row of its lowest variant */
	const struct library *library; /* the first one of a rank that should have it */
	unsigned others;               /* further ones of that rank that might have had it */
	const char *reason;            /* why it cannot be used though it is there; NULL: it is nowhere. The library's own text */
};

/* Each thing once a library. Valid until the libraries change. */
struct unresolved {
	size_t count;
	struct unresolved_thing *thing;
};

/* Of all ranks: the libraries' owner_data are attachments for which was chosen, NULL where one could not be read. */
int unresolved_find(struct libraries *libraries, struct unresolved *ret);
/* Adds what one rank misses that has these libraries. */
int unresolved_add(struct unresolved *missing, const struct library *const *library, size_t count);
void unresolved_free(struct unresolved *missing);

/*
 * The level's things as words, each name once: "a, b" or, where there is no room for all, "a, b and 3 more". with_reason:
 * those that have a reason, else the others. Returns how many there are; 0 leaves names empty.
 */
unsigned unresolved_names(const struct unresolved *missing, enum level level, bool with_reason, char names[MISSING_NAMES_BYTES]);

#endif
