/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounds of the daemon (limits.def) as numbers: LIMIT_RANK_STATE_MIB and so on. `tracectl status` names those that are
 * near or exceeded (daemon/control/request_limits.c).
 */
#ifndef RANKTRACE_DAEMON_CORE_LIMITS_H
#define RANKTRACE_DAEMON_CORE_LIMITS_H

enum {
#define LIMIT(id, value, unit, per, bytes, what, beyond) LIMIT_##id = (value),
#define LIMIT_OF(macro, unit, per, bytes, what, beyond)
#include "daemon/core/limits.def"
#undef LIMIT
#undef LIMIT_OF
};

#endif
