/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of ranks as people write them: "0", "0,3-7". */
#ifndef RANKTRACE_RANK_LIST_H
#define RANKTRACE_RANK_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RANK_RANGES_MAX 16

struct rank_range {
	int32_t first, last; /* included */
};

/* False where the text is no such list, or has more than RANK_RANGES_MAX parts. */
bool rank_list_parse(const char *text, struct rank_range ret[RANK_RANGES_MAX], size_t *ret_count);

#endif
