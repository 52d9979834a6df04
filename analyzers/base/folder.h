/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders that programs of root write into. Whoever may write in a folder, or rename one above it, can plant links and
 * have others' files overwritten or removed. Trusted are root, the caller, and the user that the daemon runs as.
 */
#ifndef RANKTRACE_BASE_FOLDER_H
#define RANKTRACE_BASE_FOLDER_H

#include <stddef.h>

/* The folder itself is of a trusted user and writable by no other, and no link. 0, or -EPERM or another negative errno
 * with the sentence. */
int folder_own(const char *path, char *why, size_t size);
/* As folder_own(), of a folder that may be reached by links, and of everything on the way to it: nobody else can put
 * another in its place. A folder above may be writable by all where it is sticky (/tmp). */
int folder_safe(const char *path, char *why, size_t size);

#endif
