/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects row variants by group: the libraries that ranks map together. A variant found in libtorch_python need not be
 * searched for in libtorch_cpu. Selection is redone when a library joins a group.
 */
#ifndef RANKTRACE_DAEMON_PROBES_GROUPS_H
#define RANKTRACE_DAEMON_PROBES_GROUPS_H

#include "daemon/core/level.h"
#include "daemon/probes/libraries.h"

/* Selects for every library (owner_data: attachment, NULL if unreadable) and attaches the levels that are on. */
void groups_choose(struct libraries *libraries, const bool on[LEVEL_MAX]);

#endif
