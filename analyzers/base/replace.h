/* SPDX-License-Identifier: Apache-2.0 */
/* Files that nobody finds half written. */
#ifndef RANKTRACE_BASE_REPLACE_H
#define RANKTRACE_BASE_REPLACE_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

struct replace {
	const char *path;
	char fresh[PATH_MAX]; /* the file until it is whole; "": none */
	FILE *out;
};

/* 0, or the negative errno of the write that failed. Flushes the stream. After a failure what was written is not whole; a
 * byte may follow it. */
int replace_written(FILE *out);
/*
 * Begins a file: PATH.new beside it, a new one: an old file of that name is removed, a link is not followed. A device
 * or a pipe is written as it is. 0 or a negative errno (-EISDIR: a folder).
 */
int replace_begin(struct replace *replace, const char *path);
/* The file takes its place, synced if wanted. failed: 0, or the writer's negative errno. 0 or a negative errno: then
 * what was there remains. */
int replace_end(struct replace *replace, int failed, bool sync);
/* Replaces the state file FOLDER/NAME by what write() writes, synced, with its folder. 0 or a negative errno. */
int replace_file(const char *folder, const char *name, void (*write)(FILE *f, const void *arg), const void *arg);

#endif
