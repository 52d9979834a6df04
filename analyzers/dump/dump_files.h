/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of one dump, published all or none. Each is written under a hidden name with the number of the dump;
 * dump_files_sync() flushes them to disk, the caller then records the dump as complete (dump_state_save(), with that
 * number), and dump_files_publish() renames them. After a crash in between, dump_files_recover() renames or removes
 * hidden files, so no row is lost or doubled. Readers see complete files only.
 */
#ifndef RANKTRACE_DUMP_DUMP_FILES_H
#define RANKTRACE_DUMP_DUMP_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "analyzers/dump/dump_text.h"

#define DUMP_FILES_MAX 8192 /* of one dump; rows of further ranks are counted as left out */

struct dump_files;
struct dump_file;

/* Creates dir, and folders of kinds as needed. extend: appends to files of the same name, else replaces them. */
int dump_files_new(const char *dir, uint64_t run, bool extend, struct dump_files **ret);
/* Removes unpublished files. */
struct dump_files *dump_files_free(struct dump_files *files);

/* The file of a process, opened on first use; processes with equal dump_file_name() share it. *ret_fresh: it is empty.
 * -E2BIG: DUMP_FILES_MAX; or an error of opening or copying, as -ENOSPC. */
int dump_files_of(struct dump_files *files, enum dump_kind kind, int64_t instance, const struct dump_of *of,
	struct dump_file **ret, bool *ret_fresh);
int dump_file_write(struct dump_files *files, struct dump_file *file, const void *data, size_t size);
/* Counts a written record. */
void dump_file_count(struct dump_file *file);

int dump_files_sync(struct dump_files *files);
int dump_files_publish(struct dump_files *files);
int dump_files_recover(const char *dir, uint64_t run);

struct dump_file_info {
	enum dump_kind kind;
	const char *path;
	int64_t rank;
	uint64_t rows, bytes; /* of this dump; bytes: of the file */
};
/* In order of first use; false past the end. */
bool dump_files_get(const struct dump_files *files, size_t i, struct dump_file_info *ret);

#endif
