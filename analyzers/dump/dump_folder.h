/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of the daemon's dumps:
 *   timeline/ mspti/ hbm_trace/ osprobe/     files of the present window, which are extended
 *   old/YYYYMMDDTHHMMSSZ/timeline/ ...       complete files of earlier windows, by the window's start
 *   state, lock                              dump_state.h; one dump at a time
 * sysTrace's programs read each of these folders that holds files.
 */
#ifndef RANKTRACE_DUMP_DUMP_FOLDER_H
#define RANKTRACE_DUMP_DUMP_FOLDER_H

#include <dirent.h>

#include "analyzers/dump/dump_text.h"

/* mkdir -p of the last two names, mode 0750. -EPERM: a folder is there that another user can write in. */
int dump_folder_make(const char *path);

/* opendir() below a folder (AT_FDCWD: of a path), never through a link at the name's end. NULL with errno. */
DIR *dump_folder_list(int at, const char *name);

/* Takes the lock until the process ends. -EBUSY: another dump runs there. */
int dump_folder_lock(const char *dir);

/* Moves a kind's files to old/ under the window's start. 0, or the last error; files that cannot be moved are kept. */
int dump_folder_rotate(const char *dir, enum dump_kind kind, uint64_t window_ns);

/* Bytes of a kind's present files. */
uint64_t dump_folder_present(const char *dir, enum dump_kind kind);

struct dump_kept {
	uint64_t files, bytes;
};
/* Removes windows of old/, oldest first, until all files have at most bytes_max and no window is older than age_max_ns.
 * *ret counts the rest. */
int dump_folder_keep(const char *dir, uint64_t bytes_max, uint64_t age_max_ns, uint64_t now_ns, struct dump_kept *ret);
/* Removes the oldest window. false: none. */
bool dump_folder_remove_oldest(const char *dir);

#endif
