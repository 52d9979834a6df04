/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records in the order of their keys, however many: SQLite's sorter, which holds a few MB and has the rest in temporary
 * files (SQLITE_TMPDIR, TMPDIR, else /var/tmp). A record is bytes, which nobody looks into. Those with one key stay in
 * the order in which they came.
 */
#ifndef RANKTRACE_TIMELINE_SORTED_H
#define RANKTRACE_TIMELINE_SORTED_H

#include <stddef.h>
#include <stdint.h>

#define SORTED_KEYS 3 /* the first one counts most; all from the smallest up */

struct sorted_record {
	int64_t key[SORTED_KEYS];
	const void *bytes; /* valid until the next one is asked for */
	int size;
};

struct sorting {
	/* 1: a record; 0: there are no more; or negative errno, which ends it */
	int (*next)(void *arg, struct sorted_record *ret);
	/* What next gave, in order. 0, or negative errno, which ends it */
	int (*take)(void *arg, const void *bytes, int size);
	void *arg;
};

/* 0; what next or take returned below 0; or another negative errno, with the sentence: only then is error touched. */
int sorted_each(const struct sorting *sorting, char *error, size_t error_size);

#endif
