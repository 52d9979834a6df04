/* SPDX-License-Identifier: Apache-2.0 */
/* Users, as people know them. */
#ifndef RANKTRACE_BASE_USER_H
#define RANKTRACE_BASE_USER_H

#include <stddef.h>
#include <stdint.h>

#define USER_NAME_BYTES 64
#define USER_UNKNOWN INT64_C(-1)

/* The name, else the number where this node has none: users of containers often have none. "-": USER_UNKNOWN. */
const char *user_name(int64_t uid, char buffer[USER_NAME_BYTES]);

#endif
