/* SPDX-License-Identifier: Apache-2.0 */
/* The store's table of processes that are ranks: the one place that names its columns for C. */
#ifndef RANKTRACE_STORE_RANK_TABLE_H
#define RANKTRACE_STORE_RANK_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzers/store/reader.h"

/* Texts are as stored, "" where NULL, and valid during the call. */
struct rank_row {
	bool has_instance;
	int64_t instance;
	int64_t rank, world_size, local_rank; /* -1: unknown */
	int64_t pid;			      /* 0: unknown */
	const char *job, *host, *card;
	int64_t start_ns, first_seen_ns, last_seen_ns; /* UTC, 0: unknown; last_seen_ns of an ended one is its end */
	bool ended;
	int64_t uid;		    /* -1: unknown, as in stores before schema version 3 */
	int64_t launcher_pid, port; /* 0: unknown */
};

/* Passes the rows by instance, until `row` returns nonzero. 0; below 0: what `row` returned (out of memory), or another
 * negative errno; with a sentence. */
int rank_table_read(struct reader *reader, int (*row)(void *arg, const struct rank_row *row), void *arg, char *error,
	size_t error_size);

#endif
