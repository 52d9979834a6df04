/* SPDX-License-Identifier: Apache-2.0 */
/* Code points to UTF-8. */
#include <stdint.h>
#include <string.h>
#include "daemon/base/util.h"

#define REPLACEMENT 0xfffdu

/* Returns the bytes written, at most 4. */
static size_t text_units_encode(uint32_t point, char *ret)
{
	static const uint8_t first[] = {0, 0, 0xc0, 0xe0, 0xf0};
	size_t n;

	if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
		point = REPLACEMENT;
	n = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
	for (size_t i = n - 1; i > 0; i--) {
		ret[i] = (char)(0x80 | (point & 0x3f));
		point >>= 6;
	}
	ret[0] = (char)(first[n] | point);
	return n;
}

static uint32_t unit_at(const uint8_t *data, unsigned unit_bytes)
{
	uint16_t two;
	uint32_t four;

	if (unit_bytes == 1)
		return data[0];
	if (unit_bytes == 2) {
		memcpy(&two, data, sizeof(two));
		return two;
	}
	memcpy(&four, data, sizeof(four));
	return four;
}

void text_from_units(const void *data, size_t size_bytes, unsigned unit_bytes, char *ret, size_t ret_size)
{
	size_t used = 0;

	if (ret_size == 0)
		return;
	if (unit_bytes != 1 && unit_bytes != 2 && unit_bytes != 4) {
		used = strnlen(data, size_bytes < ret_size - 1 ? size_bytes : ret_size - 1);
		memcpy(ret, data, used);
		ret[used] = 0;
		return;
	}
	for (size_t at = 0; at + unit_bytes <= size_bytes; at += unit_bytes) {
		uint32_t point = unit_at((const uint8_t *)data + at, unit_bytes);
		char bytes[4];
		size_t n = text_units_encode(point, bytes);

		if (point == 0 || n > ret_size - 1 - used)
			break;
		memcpy(ret + used, bytes, n);
		used += n;
	}
	ret[used] = 0;
}
