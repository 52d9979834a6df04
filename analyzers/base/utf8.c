/* SPDX-License-Identifier: Apache-2.0 */
/* The table of well-formed sequences of the Unicode standard (table 3-7). See utf8.h. */
#include "analyzers/base/utf8.h"

size_t utf8_character(const unsigned char *p, size_t left)
{
	static const struct {
		unsigned char first, last, low, high;
		size_t size;
	} forms[] = {
		{0x00, 0x7f, 0, 0, 1},
		{0xc2, 0xdf, 0x80, 0xbf, 2},
		{0xe0, 0xe0, 0xa0, 0xbf, 3},
		{0xe1, 0xec, 0x80, 0xbf, 3},
		{0xed, 0xed, 0x80, 0x9f, 3},
		{0xee, 0xef, 0x80, 0xbf, 3},
		{0xf0, 0xf0, 0x90, 0xbf, 4},
		{0xf1, 0xf3, 0x80, 0xbf, 4},
		{0xf4, 0xf4, 0x80, 0x8f, 4},
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (p[0] < forms[i].first || p[0] > forms[i].last)
			continue;
		if (forms[i].size > left || (forms[i].size > 1 && (p[1] < forms[i].low || p[1] > forms[i].high)))
			return 0;
		for (size_t j = 2; j < forms[i].size; j++)
			if ((p[j] & 0xc0) != 0x80)
				return 0;
		return forms[i].size;
	}
	return 0;
}
