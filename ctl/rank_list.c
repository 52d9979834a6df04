/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/rank_list.h"

/* Digits only, up to a million ranks; no sign, no blank. */
#define RANK_MAX 1000000

static const char *number(const char *p, int32_t *ret)
{
	int32_t n = 0;

	if (*p < '0' || *p > '9')
		return NULL;
	for (; *p >= '0' && *p <= '9'; p++) {
		n = n * 10 + (*p - '0');
		if (n > RANK_MAX)
			return NULL;
	}
	*ret = n;
	return p;
}

bool rank_list_parse(const char *text, struct rank_range ret[RANK_RANGES_MAX], size_t *ret_count)
{
	size_t count = 0;

	for (const char *p = text; count < RANK_RANGES_MAX; p++) {
		struct rank_range *range = &ret[count++];

		p = number(p, &range->first);
		if (!p)
			return false;
		range->last = range->first;
		if (*p == '-')
			p = number(p + 1, &range->last);
		if (!p || range->last < range->first)
			return false;
		if (!*p) {
			*ret_count = count;
			return true;
		}
		if (*p != ',')
			return false;
	}
	return false;
}
