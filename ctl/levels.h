/* SPDX-License-Identifier: Apache-2.0 */
/* Words about levels that several verbs read or show. */
#ifndef RANKTRACE_CTL_LEVELS_H
#define RANKTRACE_CTL_LEVELS_H

#include <jansson.h>
#include "ctl/tracectl.h"
#include "proto/control.pb-c.h"

/* "L0" to "L3", exactly. */
bool level_known(const char *text);
/* Splits LEVEL=VALUE in place. EXIT_DONE, or EXIT_USAGE with a sentence. L0 is refused where it has no such value. */
int level_split(const char *verb, char *text, bool has_l0, char **ret_level, char **ret_value);
/* {"L0": {"on": true}, "L1": {"on": false, "interval_minutes": 5}}; only: one level, NULL for all */
json_t *levels_json(size_t count, Ranktrace__Level *const *levels, const char *only);

#endif
