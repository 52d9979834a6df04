/* SPDX-License-Identifier: Apache-2.0 */
/* Words about levels that several verbs read or show. */
#ifndef RANKTRACE_CTL_LEVELS_H
#define RANKTRACE_CTL_LEVELS_H

#include <jansson.h>
#include "ctl/tracectl.h"
#include "proto/control.pb-c.h"

/* "L0" to "L3", "L1.launches", ..., exactly: a word of proto/levels.def. */
bool level_known(const char *text);
/* All of them, for a sentence. */
const char *level_words(void);
/* Splits LEVEL=VALUE in place. EXIT_DONE, or EXIT_USAGE with a sentence. needs_interval: a level without one is
 * refused. */
int level_split(const char *verb, char *text, bool needs_interval, char **ret_level, char **ret_value);
/* {"L0": {"on": true}, "L1": {"on": false, "interval_minutes": 5}}; only: one level, NULL for all */
json_t *levels_json(size_t count, Ranktrace__Level *const *levels, const char *only);

#endif
