/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/base/ranges.h"

#include <errno.h>

static const char *ranges_parse_number(const char *p, int64_t *ret)
{
	int64_t n = 0;

	if (*p < '0' || *p > '9')
		return NULL;
	for (; *p >= '0' && *p <= '9'; p++) {
		n = n * 10 + (*p - '0');
		if (n > RANGES_VALUE_MAX)
			return NULL;
	}
	*ret = n;
	return p;
}

int ranges_parse(const char *text, struct ranges *ret)
{
	struct ranges ranges = {0};

	for (const char *p = text; ranges.count < RANGES_MAX; p++) {
		int64_t first, last;

		p = ranges_parse_number(p, &first);
		last = first;
		if (p && *p == '-')
			p = ranges_parse_number(p + 1, &last);
		if (!p || last < first)
			return -EINVAL;
		ranges.range[ranges.count].first = first;
		ranges.range[ranges.count++].last = last;
		if (!*p) {
			*ret = ranges;
			return 0;
		}
		if (*p != ',')
			return -EINVAL;
	}
	return -EINVAL;
}

bool ranges_have(const struct ranges *ranges, int64_t value)
{
	for (size_t i = 0; i < ranges->count; i++)
		if (value >= ranges->range[i].first && value <= ranges->range[i].last)
			return true;
	return ranges->count == 0;
}

bool ranges_meet(const struct ranges *ranges, const char *text)
{
	struct ranges named;

	if (!text || ranges_parse(text, &named) < 0)
		return false;
	for (size_t i = 0; i < named.count; i++)
		for (size_t j = 0; j < ranges->count; j++)
			if (named.range[i].first <= ranges->range[j].last &&
				named.range[i].last >= ranges->range[j].first)
				return true;
	return false;
}
