/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of a row's variants is right depends on all the libraries that a rank maps together: what libtorch_python shows
 * need not be looked for in libtorch_cpu too. So the choice is made for the group, each time a library joins one.
 */
#ifndef RANKTRACE_DAEMON_PROBES_GROUPS_H
#define RANKTRACE_DAEMON_PROBES_GROUPS_H

#include "daemon/core/level.h"
#include "daemon/probes/libraries.h"

/* Chooses anew for every library (their owner_data are attachments, NULL where it could not be read), and attaches the
 * levels that are on. */
void groups_choose(struct libraries *libraries, const bool on[LEVEL_MAX]);

#endif
