/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collection levels and the switches within them by name: what every room may know of them. The table is
 * proto/levels.def, their state is levels.h's. "Level" stands for both where they are treated alike.
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
/* All words, for a sentence: "L0, L1, L2, L3, L1.launches". */
const char *level_words(void);
/* Whether it writes dumps, every so many minutes. */
bool level_has_interval(enum level level);

#endif
