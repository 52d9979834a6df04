/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/base/utf8.h"

size_t utf8_character(const unsigned char *p, size_t left)
{
	/* The Unicode standard, table 3-7: well-formed byte sequences. */
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

uint32_t utf8_decode(const unsigned char *p, size_t length)
{
	static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	uint32_t code = p[0] & masks[length];

	for (size_t i = 1; i < length; i++)
		code = code << 6 | (p[i] & 0x3f);
	return code;
}

size_t utf8_cut(const char *text, size_t n)
{
	for (int back = 0; n && back < 3 && ((unsigned char)text[n] & 0xc0) == 0x80; back++)
		n--;
	return n;
}
