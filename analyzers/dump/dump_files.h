/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that one dump writes, all or none. Each is written beside its place under a hidden name that holds the
 * number of the dump; dump_files_sync() brings them to the disk, then the caller records that the dump is whole
 * (dump_state_save(), with that number), then dump_files_publish() gives them their names. Whatever is left hidden by
 * an end in between is given its name or removed by dump_files_recover(), so that no row is ever lost or there twice.
 * Readers see whole files only.
 */
#ifndef RANKTRACE_DUMP_DUMP_FILES_H
#define RANKTRACE_DUMP_DUMP_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "analyzers/dump/dump_text.h"

#define DUMP_FILES_MAX 8192 /* of one dump; rows of further ranks are not written, and that is said */

struct dump_files;
struct dump_file;

/* dir is made, with the folders of the kinds as they are needed. extend: a file goes on where one of its name ended;
 * else it takes that one's place. */
int dump_files_new(const char *dir, uint64_t run, bool extend, struct dump_files **ret);
/* What was not published is removed. */
struct dump_files *dump_files_free(struct dump_files *files);

/* The file of that process; name: of dump_file_name(), asked for when it is met first. Two processes whose files have
 * one name share it. *ret_fresh: it is empty so far. -ENOSPC and what else open and copy may fail with; -E2BIG:
 * DUMP_FILES_MAX. */
int dump_files_of(struct dump_files *files, enum dump_kind kind, int64_t instance, const struct dump_of *of,
	struct dump_file **ret, bool *ret_fresh);
int dump_file_write(struct dump_files *files, struct dump_file *file, const void *data, size_t size);
/* A record was written. */
void dump_file_count(struct dump_file *file);

int dump_files_sync(struct dump_files *files);
int dump_files_publish(struct dump_files *files);
int dump_files_recover(const char *dir, uint64_t run);

/* Each in the order in which it was met first; NULL past the end. */
struct dump_file_told {
	enum dump_kind kind;
	const char *path;
	int64_t rank;
	uint64_t rows, bytes; /* of this dump; bytes: of the file */
};
bool dump_files_tell(const struct dump_files *files, size_t i, struct dump_file_told *ret);

#endif
