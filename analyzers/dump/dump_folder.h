/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of the dumps that a daemon keeps:
 *   timeline/ mspti/ hbm_trace/ osprobe/     files of the present window, which are extended
 *   old/YYYYMMDDTHHMMSSZ/timeline/ ...       files of the windows before, by the window's start; they are whole
 *   state, lock                              dump_state.h; one dump at a time
 * Each of the folders above with files in it is one that a program made for sysTrace can be pointed at.
 */
#ifndef RANKTRACE_DUMP_DUMP_FOLDER_H
#define RANKTRACE_DUMP_DUMP_FOLDER_H

#include "analyzers/dump/dump_text.h"

/* mkdir -p of the last two names, mode 0750. */
int dump_folder_make(const char *path);

/* Takes the lock; it lasts as long as the process. -EBUSY: another dump works there. */
int dump_folder_lock(const char *dir);

/* Moves a kind's files to old/ under the window's start. Returns 0, or the last trouble: what could not be moved stays.
 */
int dump_folder_rotate(const char *dir, enum dump_kind kind, uint64_t window_ns);

/* Bytes of a kind's present files. */
uint64_t dump_folder_present(const char *dir, enum dump_kind kind);

struct dump_kept {
	uint64_t files, bytes;
};
/* Removes windows of old/, oldest first, until all files together have at most bytes_max, and no window is older than
 * age_max_ns; what is there then is counted in *ret. */
int dump_folder_keep(const char *dir, uint64_t bytes_max, uint64_t age_max_ns, uint64_t now_ns, struct dump_kept *ret);
/* Removes the oldest window. false: there is none. */
bool dump_folder_remove_oldest(const char *dir);

#endif
