/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/rank_list.h"

/* Digits only, up to a million ranks; no sign, no blank. */
#define RANK_MAX 1000000

static const char *rank_list_number(const char *p, int32_t *ret)
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

bool rank_list_parse(const char *text, struct rank_list *ret)
{
	ret->count = 0;
	for (const char *p = text; ret->count < RANK_RANGES_MAX; p++) {
		Ranktrace__RankRange *range = &ret->range[ret->count++];

		*range = (Ranktrace__RankRange)RANKTRACE__RANK_RANGE__INIT;
		p = rank_list_number(p, &range->first);
		if (!p)
			return false;
		range->last = range->first;
		if (*p == '-')
			p = rank_list_number(p + 1, &range->last);
		if (!p || range->last < range->first)
			return false;
		if (!*p)
			return true;
		if (*p != ',')
			return false;
	}
	return false;
}

int rank_list_read(const struct command *command, struct rank_list *ret)
{
	const char *text = command_option(command, "rank");

	ret->count = 0;
	if (!text || rank_list_parse(text, ret))
		return EXIT_DONE;
	return fail(EXIT_USAGE, "--rank takes ranks as in 0,3-7 (at most %d parts), not '%s'", RANK_RANGES_MAX, text);
}

bool rank_list_has(const struct rank_list *list, int32_t rank)
{
	for (size_t i = 0; i < list->count; i++)
		if (rank >= list->range[i].first && rank <= list->range[i].last)
			return true;
	return list->count == 0;
}

void rank_list_request(struct rank_list *list, Ranktrace__Request *request)
{
	for (size_t i = 0; i < list->count; i++)
		list->item[i] = &list->range[i];
	request->ranks = list->item;
	request->n_ranks = list->count;
}
