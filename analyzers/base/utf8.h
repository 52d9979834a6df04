/* SPDX-License-Identifier: Apache-2.0 */
/* Well-formed UTF-8. Pure. */
#ifndef RANKTRACE_BASE_UTF8_H
#define RANKTRACE_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Length of the well-formed character at p, with `left` readable bytes (at least one); 0 if there is none. */
size_t utf8_character(const unsigned char *p, size_t left);
/* Code point of the well-formed character at p, of that length. */
uint32_t utf8_decode(const unsigned char *p, size_t length);
/* The largest length up to n that splits no character; text[n] is readable. */
size_t utf8_cut(const char *text, size_t n);

#endif
