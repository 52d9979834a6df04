/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounds of the daemon (limits.def) as numbers: LIMIT_RANK_STATE_MIB and so on. docs/limits.md is generated from the
 * table; `tracectl status` names those that are near or exceeded (limits_use()).
 */
#ifndef RANKTRACE_DAEMON_CORE_LIMITS_H
#define RANKTRACE_DAEMON_CORE_LIMITS_H

#include "daemon/base/util.h"

enum {
#define LIMIT(id, value, unit, per, bytes, what, beyond) LIMIT_##id = (value),
#include "daemon/core/limits.def"
#undef LIMIT
};

#endif
