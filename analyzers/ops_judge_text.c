/* SPDX-License-Identifier: Apache-2.0 */
/* See coll_judge_text.h. */
#include "analyzers/ops_judge_text.h"

#include "analyzers/ops.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void judge_text_begin(struct judge_text *text, char *ret, size_t size)
{
	*text = (struct judge_text){.at = ret, .left = size, .start = ret, .size = size};
	ret[0] = 0;
}

void judge_text_add(struct judge_text *text, const char *format, ...)
{
	va_list args;
	int n;

	if (!text->left)
		return;
	va_start(args, format);
	n = vsnprintf(text->at, text->left, format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= text->left) {
		text->left = 0;
		return;
	}
	text->at += n;
	text->left -= (size_t)n;
}

void judge_text_end(struct judge_text *text)
{
	size_t n = text->size - 4;

	if (text->left)
		return;
	/* Not in the middle of a character. */
	while (n && ((unsigned char)text->start[n] & 0xc0) == 0x80)
		n--;
	memcpy(text->start + n, "...", 4);
}

static int coll_judge_text_compare(const void *a, const void *b)
{
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return (x > y) - (x < y);
}

void judge_text_ranks(struct judge_text *text, int32_t *rank, size_t ranks)
{
	size_t distinct = 0;

	if (!ranks)
		return;
	qsort(rank, ranks, sizeof(*rank), coll_judge_text_compare);
	for (size_t i = 0; i < ranks; i++) {
		if (!distinct || rank[distinct - 1] != rank[i])
			rank[distinct++] = rank[i];
	}
	judge_text_add(text, distinct > 1 ? "ranks " : "rank ");
	for (size_t i = 0, last; i < distinct; i = last + 1) {
		for (last = i; last + 1 < distinct && rank[last + 1] == rank[last] + 1;)
			last++;
		judge_text_add(text, "%s%d", i ? ", " : "", rank[i]);
		if (last > i)
			judge_text_add(text, "%s%d", last > i + 1 ? "-" : ", ", rank[last]);
	}
}

void judge_text_bytes(struct judge_text *text, uint64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)bytes;
	size_t unit = 0;

	if (bytes == COLL_UNKNOWN)
		return;
	for (; value >= 1023.95 && unit < sizeof(units) / sizeof(units[0]) - 1; unit++)
		value /= 1024;
	judge_text_add(text, unit ? " (%.1f %s)" : " (%.0f %s)", value, units[unit]);
}

void judge_text_duration(struct judge_text *text, uint64_t duration_ns)
{
	uint64_t seconds = duration_ns / 1000000000;

	if (seconds >= 3600)
		judge_text_add(text, "%llu h %llu min", (unsigned long long)(seconds / 3600),
			(unsigned long long)(seconds / 60 % 60));
	else if (seconds >= 60)
		judge_text_add(text, "%llu min %llu s", (unsigned long long)(seconds / 60),
			(unsigned long long)(seconds % 60));
	else if (seconds)
		judge_text_add(text, "%.1f s", (double)(duration_ns / 10000000) / 100);
	else
		judge_text_add(text, "%.1f ms", (double)duration_ns / 1e6);
}
