/* SPDX-License-Identifier: Apache-2.0 */
/* Whether bytes are UTF-8. Pure. */
#ifndef RANKTRACE_BASE_UTF8_H
#define RANKTRACE_BASE_UTF8_H

#include <stddef.h>

/* Bytes of the well-formed character at p, of which `left` bytes may be read, at least one; 0 if there is none. */
size_t utf8_character(const unsigned char *p, size_t left);

#endif
