/* SPDX-License-Identifier: Apache-2.0 */
/* Words of proto/levels.def ("L0" to "L3", "L1.launches", ...), in any case, on the command line and in JSON. */
#ifndef RANKTRACE_CTL_LEVELS_H
#define RANKTRACE_CTL_LEVELS_H

#include <jansson.h>
#include "ctl/tracectl.h"
#include "proto/control.pb-c.h"

/* The word as the daemon knows it; NULL where it is none. */
const char *level_word(const char *text);
/* All of them, for a sentence. */
const char *level_list(void);
/* The one of that number, or NULL behind the last one. */
const char *level_at(size_t i, bool *ret_has_interval);
/* Splits LEVEL=VALUE in place. EXIT_DONE, or EXIT_USAGE with a sentence. needs_interval: a level without one is
 * refused. */
int level_split(const struct verb *verb, char *text, bool needs_interval, const char **ret_level, char **ret_value);
/* {"L0": {"on": true}, "L1": {"on": false, "interval_minutes": 5}}; only: one level, NULL for all */
json_t *level_json(size_t count, Ranktrace__Level *const *levels, const char *only);

#endif
