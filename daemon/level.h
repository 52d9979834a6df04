/* SPDX-License-Identifier: Apache-2.0 */
/* The collection levels by name: what every room may know of them. Their state is levels.h's. */
#ifndef RANKTRACE_LEVEL_H
#define RANKTRACE_LEVEL_H

#include "daemon/util.h"

enum level { LEVEL_L0, LEVEL_L1, LEVEL_L2, LEVEL_L3, LEVEL_MAX };

#define LEVEL_BIT(l) (1u << (l))

/* "L0" .. "L3", exactly. */
int level_parse(const char *text, enum level *ret);
const char *level_name(enum level level);

#endif
