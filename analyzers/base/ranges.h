/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as people write them: "0,3-7". */
#ifndef RANKTRACE_BASE_RANGES_H
#define RANKTRACE_BASE_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RANGES_MAX 16
#define RANGES_VALUE_MAX 1000000 /* more ranks than any job has */

struct ranges {
	size_t count; /* 0: all */
	struct {
		int64_t first, last;
	} range[RANGES_MAX];
};

/* Decimal digits, no sign, no blanks. -EINVAL: no such list, more than RANGES_MAX parts, above RANGES_VALUE_MAX. */
int ranges_parse(const char *text, struct ranges *ret);
bool ranges_have(const struct ranges *ranges, int64_t value);
/* Whether the list in `text`, which may be NULL, has a value of `ranges`. */
bool ranges_meet(const struct ranges *ranges, const char *text);

#endif
