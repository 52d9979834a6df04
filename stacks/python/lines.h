/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Line tables of code objects: co_lnotab to 3.9, co_linetable in the form of 3.10 and in that of 3.11. Pure; any bytes
 * are safe.
 */
#ifndef RANKTRACE_STACKS_PYTHON_LINES_H
#define RANKTRACE_STACKS_PYTHON_LINES_H

#include <stddef.h>
#include <stdint.h>

/* Line of the instruction at this offset in bytes, negative before the first one; 0: it has none. */
typedef uint32_t (*pylines_find)(const uint8_t *table, size_t size, int64_t offset, int32_t first_line);

uint32_t pylines_lnotab(const uint8_t *table, size_t size, int64_t offset, int32_t first_line);
uint32_t pylines_ranges(const uint8_t *table, size_t size, int64_t offset, int32_t first_line);
uint32_t pylines_locations(const uint8_t *table, size_t size, int64_t offset, int32_t first_line);

#endif
