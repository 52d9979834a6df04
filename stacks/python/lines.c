/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/python/layout.h"

#include <stdbool.h>

#define UNIT_BYTES 2	   /* of an instruction */
#define RANGE_NO_LINE -128 /* in the table of 3.10 */
#define ENTRY_START 0x80u  /* 3.11: set in the first byte of an entry and in no other */
#define VARINT_MORE 0x40u
#define VARINT_BITS 6

/* Kinds of entries of 3.11. */
#define ENTRY_ONE_LINE_0 10u
#define ENTRY_ONE_LINE_2 12u
#define ENTRY_NO_COLUMN 13u
#define ENTRY_LONG 14u
#define ENTRY_NONE 15u

static uint32_t pylines_valid(int64_t line)
{
	return line > 0 && line <= INT32_MAX ? (uint32_t)line : 0;
}

uint32_t pylines_lnotab(const uint8_t *table, size_t size, int64_t offset, int32_t first_line)
{
	int64_t line = first_line, at = 0;

	for (size_t i = 0; i + 1 < size; i += 2) {
		at += table[i];
		if (at > offset)
			break;
		line += (int8_t)table[i + 1];
	}
	return pylines_valid(line);
}

uint32_t pylines_ranges(const uint8_t *table, size_t size, int64_t offset, int32_t first_line)
{
	int64_t line = first_line, end = 0;

	if (offset < 0)
		return pylines_valid(first_line);
	for (size_t i = 0; i + 1 < size; i += 2) {
		int8_t delta = (int8_t)table[i + 1];

		end += table[i];
		if (delta != RANGE_NO_LINE)
			line += delta;
		if (end > offset)
			return delta == RANGE_NO_LINE ? 0 : pylines_valid(line);
	}
	return 0;
}

/* A signed number of 6 bits a byte, least first, its sign in the lowest bit. */
static int64_t pylines_signed(const uint8_t *table, size_t size, size_t at)
{
	uint64_t value = 0;

	for (unsigned shift = 0; at < size && shift < 60; shift += VARINT_BITS, at++) {
		value |= (uint64_t)(table[at] & (VARINT_MORE - 1)) << shift;
		if (!(table[at] & VARINT_MORE))
			break;
	}
	return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

static int64_t pylines_delta(const uint8_t *table, size_t size, size_t at, unsigned kind)
{
	if (kind == ENTRY_NO_COLUMN || kind == ENTRY_LONG)
		return pylines_signed(table, size, at + 1);
	if (kind >= ENTRY_ONE_LINE_0 && kind <= ENTRY_ONE_LINE_2)
		return kind - ENTRY_ONE_LINE_0;
	return 0;
}

uint32_t pylines_locations(const uint8_t *table, size_t size, int64_t offset, int32_t first_line)
{
	int64_t line = first_line, end = 0;

	if (offset < 0)
		return pylines_valid(first_line);
	for (size_t i = 0; i < size; i++) {
		unsigned kind = table[i] >> 3 & 15;

		if (!(table[i] & ENTRY_START))
			continue;
		end += UNIT_BYTES * ((table[i] & 7) + 1);
		line += pylines_delta(table, size, i, kind);
		if (line > INT32_MAX || line < INT32_MIN)
			return 0;
		if (end > offset)
			return kind == ENTRY_NONE ? 0 : pylines_valid(line);
	}
	return 0;
}
