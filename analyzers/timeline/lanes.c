/* SPDX-License-Identifier: Apache-2.0 */
/* See lanes.h. */
#include "analyzers/timeline/lanes.h"

#include <errno.h>
#include <stdlib.h>

struct lane {
	size_t depth;
	int64_t end_ns[LANES_DEPTH]; /* of the slices that are open, the outermost first */
};

static bool timeline_lanes_take(struct lane *lane, bool nest, int64_t start_ns, int64_t end_ns)
{
	while (lane->depth > 0 && lane->end_ns[lane->depth - 1] <= start_ns)
		lane->depth--;
	if (lane->depth > 0 && (!nest || lane->depth == LANES_DEPTH || lane->end_ns[lane->depth - 1] < end_ns))
		return false;
	lane->end_ns[lane->depth++] = end_ns;
	return true;
}

int lanes_place(struct lanes *lanes, int64_t start_ns, int64_t end_ns)
{
	struct lane *more;

	for (size_t i = 0; i < lanes->count; i++)
		if (timeline_lanes_take(&lanes->lane[i], lanes->nest, start_ns, end_ns))
			return (int)i;
	if (lanes->count == LANES_MAX)
		return -ENOSPC;
	more = realloc(lanes->lane, (lanes->count + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	lanes->lane = more;
	lanes->lane[lanes->count] = (struct lane){.depth = 1, .end_ns = {end_ns}};
	return (int)lanes->count++;
}

void lanes_clear(struct lanes *lanes)
{
	free(lanes->lane);
	lanes->lane = NULL;
	lanes->count = 0;
}
