/* SPDX-License-Identifier: Apache-2.0 */
/* Converts text copied by probes to UTF-8: CPython keeps a str as units of 1, 2 or 4 bytes, one per code point. */
#ifndef RANKTRACE_DAEMON_BASE_TEXT_UNITS_H
#define RANKTRACE_DAEMON_BASE_TEXT_UNITS_H

#include <stddef.h>

/*
 * Writes at most ret_size - 1 bytes and terminates. unit_bytes: 1, 2 or 4; 0: already UTF-8, copied. An invalid unit
 * (surrogate, above U+10FFFF) becomes U+FFFD. Ends at a NUL, at a partial unit, and before a character that does not
 * fit.
 */
void text_from_units(const void *data, size_t size_bytes, unsigned unit_bytes, char *ret, size_t ret_size);

#endif
