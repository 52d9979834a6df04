/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of the store may hold any bytes; what goes to people and programs is valid UTF-8. */
#ifndef RANKTRACE_UTF8_H
#define RANKTRACE_UTF8_H

#include <stddef.h>

/* Bytes of the well-formed UTF-8 character at p, of at most left bytes; 0 if there is none. */
size_t utf8_character(const unsigned char *p, size_t left);

#endif
