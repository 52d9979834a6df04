/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorts any number of records by key with SQLite's sorter, which holds a few MB and spills to temporary files
 * (SQLITE_TMPDIR, TMPDIR, else /var/tmp). Records are opaque bytes; equal keys keep their order.
 */
#ifndef RANKTRACE_TIMELINE_SORTED_H
#define RANKTRACE_TIMELINE_SORTED_H

#include <stddef.h>
#include <stdint.h>

#define SORTED_KEYS 3 /* most significant first, ascending */

struct sorted_record {
	int64_t key[SORTED_KEYS];
	const void *bytes; /* valid until the next call */
	int size;
};

struct sorting {
	/* 1: a record; 0: end; or negative errno, which aborts. */
	int (*next)(void *arg, struct sorted_record *ret);
	/* Records in order. 0, or negative errno, which aborts. */
	int (*take)(void *arg, const void *bytes, int size);
	void *arg;
};

/* 0; negative result of next or take; or another negative errno with the sentence in error, else unchanged. */
int sorted_each(const struct sorting *sorting, char *error, size_t error_size);

#endif
