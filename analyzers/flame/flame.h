/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles of a store: read, and written as flame graph (HTML), folded text, speedscope's JSON and pprof's protobuf;
 * comparisons as a table, JSON and a page with two flame graphs. Texts of a store are not trusted: each format quotes
 * or cleans them.
 */
#ifndef RANKTRACE_FLAME_FLAME_H
#define RANKTRACE_FLAME_FLAME_H

#include <jansson.h>
#include <stdio.h>

#include "analyzers/base/ranges.h"
#include "analyzers/profile/profile.h"
#include "analyzers/store/reader.h"

#define FLAME_RANKS_MAX 1024
#define FLAME_NAME_BYTES 64
#define FLAME_PAST (INT64_C(1) << 32) /* added to ranks of an earlier profile in one struct profile */

struct flame_choice {
	int64_t number;	   /* 0: the newest that fits */
	int64_t before_ns; /* which ends before; 0: any */
	int64_t instance;  /* of this process; 0: any */
	bool usual;	   /* none of a suspicion */
	int64_t since_ns;  /* or later; 0: any */
	struct ranges ranks;
	const char *job; /* NULL: any */
	bool peers;	 /* ranks only choose the profile; all of their job in it are read */
};

struct flame_rank {
	int64_t rank, id, instance; /* id: in the profile; the rank, or FLAME_PAST more */
	char job[FLAME_NAME_BYTES], host[FLAME_NAME_BYTES];
	int64_t start_ns, duration_ns;
	uint64_t samples, refused, lost;
	double read_share; /* of its samples and waits; 1: all */
};

struct flame_source {
	int64_t number;
	int64_t start_ns, end_ns; /* UTC */
	uint64_t frequency_hz;
	char reason[FLAME_NAME_BYTES];
	struct flame_rank *rank; /* by rank */
	size_t ranks;
	uint64_t limited; /* rows beyond the limits of profile.h, left out */
};

/* Adds the chosen profile's stacks, samples, steps and stages; past: as FLAME_PAST. 0; -ENOENT: there is none; or
 * another negative errno; with the sentence. */
int flame_read(struct reader *reader, const struct flame_choice *choice, bool past, struct profile *profile,
	struct flame_source *ret, char *error, size_t error_size);
void flame_source_free(struct flame_source *source);

struct flame_view {
	struct profile *profile;
	const struct flame_source *source;
	enum profile_cpu cpu;		 /* 0: both */
	const struct flame_source *past; /* NULL: compared with peers of the same profile */
	const struct profile_diff *diff; /* NULL: no comparison */
	const char *memory; /* title of a picture of memory, whose weights are FLAME_BYTE a byte; NULL: of time */
};

#define FLAME_BYTE 1000 /* formats that write us write bytes */

/* A format: writes the whole; errors are the stream's, or a negative errno. */
struct flame_format {
	const char *name, *suffix; /* "html", ".html" */
	int (*write)(const struct flame_view *view, FILE *out);
	bool binary;
};

/* By its name, else by the end of the file's: html where neither says one. NULL: no format has this name. */
const struct flame_format *flame_format_find(const char *name, const char *output);

int flame_write_html(const struct flame_view *view, FILE *out);
int flame_write_folded(const struct flame_view *view, FILE *out);
int flame_write_speedscope(const struct flame_view *view, FILE *out);
int flame_write_pprof(const struct flame_view *view, FILE *out);

/* Comparisons. */
void flame_diff_table(const struct flame_view *view, FILE *out);
json_t *flame_diff_json(const struct flame_view *view); /* NULL: out of memory */

/* The text as a JSON string in quotes, clean for a script element, too. */
void flame_json_text(FILE *out, const char *text);

#endif
