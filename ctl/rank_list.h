/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as people write them: "0,3-7". */
#ifndef RANKTRACE_RANK_LIST_H
#define RANKTRACE_RANK_LIST_H

#include "ctl/tracectl.h"
#include "proto/control.pb-c.h"

#define RANK_RANGES_MAX 16

struct rank_list {
	size_t count; /* 0: all ranks */
	Ranktrace__RankRange range[RANK_RANGES_MAX];
	Ranktrace__RankRange *item[RANK_RANGES_MAX];
};

/* Of the option --rank, which may be missing. EXIT_DONE, or EXIT_USAGE with the sentence. */
int rank_list_read(const struct command *command, struct rank_list *ret);
/* False where the text is no such list, or has more than RANK_RANGES_MAX parts. */
bool rank_list_parse(const char *text, struct rank_list *ret);
bool rank_list_has(const struct rank_list *list, int32_t rank);
/* The list becomes a part of the request. */
void rank_list_request(struct rank_list *list, Ranktrace__Request *request);

#endif
