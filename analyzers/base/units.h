/* SPDX-License-Identifier: Apache-2.0 */
/* Durations, sizes and counts for people, and durations as people write them. Pure. A format yields its buffer. */
#ifndef RANKTRACE_BASE_UNITS_H
#define RANKTRACE_BASE_UNITS_H

#include <stdint.h>

#define UNITS_BYTES 32

/* "3 h 12 min", "1.25 s", "830 us" */
const char *units_duration(uint64_t ns, char buffer[UNITS_BYTES]);
/* "12.3 MiB" */
const char *units_size(uint64_t bytes, char buffer[UNITS_BYTES]);
/* "1,234,567" */
const char *units_count(uint64_t n, char buffer[UNITS_BYTES]);

/*
 * "90", "1.5h", "10 min": decimal digits, then ns, us, ms, s, m, min, h, d or nothing for seconds. -EINVAL; -ERANGE if
 * the nanoseconds exceed 64 bits.
 */
int units_parse_duration(const char *text, uint64_t *ret_ns);

#endif
