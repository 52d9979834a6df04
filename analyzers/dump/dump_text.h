/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of sysTrace's files: names of files, stages, operations. Pure. What comes from the store is not trusted: it
 * may be no UTF-8, and hold what means something in a path or a CSV.
 */
#ifndef RANKTRACE_DUMP_DUMP_TEXT_H
#define RANKTRACE_DUMP_DUMP_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DUMP_TEXT_BYTES 512

/* What is dumped: one a level. */
enum dump_kind { DUMP_L0, DUMP_L1, DUMP_L2, DUMP_L3, DUMP_KIND_MAX };

/* "L0"; DUMP_KIND_MAX for no such word. */
const char *dump_kind_name(enum dump_kind kind);
enum dump_kind dump_kind_parse(const char *text);
/* The folder that sysTrace keeps it in: "timeline", "mspti", "hbm_trace", "osprobe". */
const char *dump_kind_folder(enum dump_kind kind);

/* Whose file it is, and of when. */
struct dump_of {
	const char *host;
	const char *address; /* of the node: 10.0.0.1 */
	int64_t rank;	     /* -1: not known */
	int64_t pid;
	uint64_t window_ns; /* start of the time that the file is of, ns since the epoch */
};
/* NAME within the folder, with nothing that a path takes for more. Returns 0 or -ENAMETOOLONG. */
int dump_file_name(enum dump_kind kind, const struct dump_of *of, char *ret, size_t size);

/* The stage as sysTrace's list of functions names it, where that list has it, else as we do; name: as it was marked. */
const char *dump_stage_name(const char *stage, const char *name);
/* STAGE_... of the format. */
unsigned dump_stage_class(const char *stage);
/* Whether a function that is traced at L2 gives memory back. */
bool dump_is_release(const char *op);
/* "AllReduce" to the word that HCCL marks it with. */
void dump_op_name(const char *op, char *ret, size_t size);

/* A copy that is UTF-8, cut at a whole character; others become '?'. text NULL: "". */
void dump_utf8(const char *text, char *ret, size_t size);
/* The same, and fit for a field of a CSV whose parts are kept apart by ','  and '!'. */
void dump_field(const char *text, char *ret, size_t size);

#endif
