/* SPDX-License-Identifier: Apache-2.0 */
/* Small state files that a crash leaves whole. */
#ifndef RANKTRACE_BASE_REPLACE_H
#define RANKTRACE_BASE_REPLACE_H

#include <stdio.h>

/* A new file to write, never one that is there: an old file of that name is removed, a link is not followed. NULL with
 * errno. */
FILE *replace_create(const char *path);
/*
 * Replaces FOLDER/NAME by what write() writes: into NAME.new beside it, synced, renamed, and the folder synced. 0 or a
 * negative errno; where it fails before the rename, the old file remains.
 */
int replace_file(const char *folder, const char *name, void (*write)(FILE *f, const void *arg), const void *arg);

#endif
