/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Library files whose reader reached a limit or crashed. They are not read again, also not after a restart: a bounded
 * list in the state folder, by device, inode and change time. A changed file is another one.
 */
#ifndef RANKTRACE_DAEMON_PROBES_QUARANTINE_H
#define RANKTRACE_DAEMON_PROBES_QUARANTINE_H

#include "daemon/probes/maps.h"

#define QUARANTINE_MAX 1024	     /* files; beyond it, the user with most of them loses his oldest */
#define QUARANTINE_FILE "quarantine" /* in the state folder */

struct quarantine;

/* An unreadable list is an empty one. */
int quarantine_open(const char *state_dir, struct quarantine **ret);
struct quarantine *quarantine_close(struct quarantine *quarantine);
/* Whether the file is not to be read. NULL: has none. */
bool quarantine_has(const struct quarantine *quarantine, const struct mapped_file *file);
/* In the name of the user who maps it. Written soon, by a thread. */
void quarantine_add(struct quarantine *quarantine, const struct mapped_file *file, uint32_t uid);
unsigned quarantine_count(const struct quarantine *quarantine);

#endif
