/* SPDX-License-Identifier: Apache-2.0 */
/* Text as the probes copied it, to UTF-8: CPython keeps a str as units of 1, 2 or 4 bytes, each one code point. */
#ifndef RANKTRACE_DAEMON_BASE_TEXT_UNITS_H
#define RANKTRACE_DAEMON_BASE_TEXT_UNITS_H

#include <stddef.h>

/*
 * Writes at most ret_size - 1 bytes and terminates. unit_bytes is 1, 2 or 4; with 0 the text is UTF-8 already and
 * copied. A unit that is no character (a surrogate, above U+10FFFF) becomes U+FFFD; the text ends at a NUL, at a unit
 * that is not whole, and before a character that does not fit.
 */
void text_from_units(const void *data, size_t size_bytes, unsigned unit_bytes, char *ret, size_t ret_size);

#endif
