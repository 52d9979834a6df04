/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of collection levels and of the switches within them ("level" means both). The table is proto/levels.def;
 * levels.h has the state.
 */
#ifndef RANKTRACE_DAEMON_CORE_LEVEL_H
#define RANKTRACE_DAEMON_CORE_LEVEL_H

#include "daemon/base/util.h"

enum level {
#define LEVEL(id, word, on, interval_minutes) LEVEL_##id,
#include "proto/levels.def"
#undef LEVEL
	LEVEL_MAX
};

#define LEVEL_BIT(l) (1u << (l))

/* "L0" .. "L3", "L1.launches", ..., exactly. */
int level_parse(const char *text, enum level *ret);
const char *level_name(enum level level);
/* All names: "L0, L1, L2, L3, L1.launches". */
const char *level_words(void);
/* Whether it writes dumps at an interval. */
bool level_has_interval(enum level level);

#endif
