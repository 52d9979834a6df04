/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names in sysTrace's files: files, stages, operations. Pure. Texts from the store are untrusted: possibly not UTF-8,
 * with characters that are special in a path or a CSV.
 */
#ifndef RANKTRACE_DUMP_DUMP_TEXT_H
#define RANKTRACE_DUMP_DUMP_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DUMP_TEXT_BYTES 512

/* One a level. */
enum dump_kind { DUMP_L0, DUMP_L1, DUMP_L2, DUMP_L3, DUMP_KIND_MAX };

/* "L0"; DUMP_KIND_MAX: unknown word. */
const char *dump_kind_name(enum dump_kind kind);
enum dump_kind dump_kind_parse(const char *text);
/* Folder in sysTrace: "timeline", "mspti", "hbm_trace", "osprobe". */
const char *dump_kind_folder(enum dump_kind kind);

/* Process and window of a file. */
struct dump_of {
	const char *host;
	const char *address; /* of the node: 10.0.0.1 */
	int64_t rank;	     /* -1: unknown */
	int64_t pid;
	uint64_t window_ns; /* start of the window, ns since the epoch */
};
/* File name without special characters. 0 or -ENAMETOOLONG. */
int dump_file_name(enum dump_kind kind, const struct dump_of *of, char *ret, size_t size);

/* Stage in sysTrace's list of functions, else our name; name: as marked. */
const char *dump_stage_name(const char *stage, const char *name);
/* STAGE_... of the format. */
unsigned dump_stage_class(const char *stage);
/* A function of L2 that frees memory. */
bool dump_is_release(const char *op);
/* HCCL's mark of an operation: "HcclAllreduce". */
void dump_op_name(const char *op, char *ret, size_t size);

/* UTF-8 copy, cut at a character; invalid bytes become '?'. text may be NULL. */
void dump_utf8(const char *text, char *ret, size_t size);
/* As dump_utf8(), for a CSV field with the separators ',' and '!'. */
void dump_field(const char *text, char *ret, size_t size);

#endif
