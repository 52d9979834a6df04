/* SPDX-License-Identifier: Apache-2.0 */
/* See ops_usual.h. One that is not there and has no room takes something from all that are (Misra and Gries). */
#include "analyzers/ops_usual.h"

#include <string.h>
#include <strings.h>

#include "analyzers/ops_bytes.h"

/* Counts that may rightly differ make no call another one. */
static bool coll_majority_is_same(const struct coll_point *a, const struct coll_point *b)
{
	return strcasecmp(a->op, b->op) == 0 && strcmp(a->dtype, b->dtype) == 0 &&
	       (a->count == b->count || coll_operation(a->op)->uneven);
}

void coll_majority_add(struct coll_majority *usual, const struct coll_point *point)
{
	struct coll_majority_call *call = usual->call;
	size_t i = 0, kept = 0;

	while (i < usual->count && !coll_majority_is_same(&call[i].point, point))
		i++;
	if (i < usual->count) {
		call[i].weight++;
		return;
	}
	if (usual->count < COLL_USUAL_MAX) {
		call[usual->count++] = (struct coll_majority_call){*point, 1};
		return;
	}
	for (i = 0; i < usual->count; i++)
		if (--call[i].weight)
			call[kept++] = call[i];
	if (!kept)
		call[kept++] = (struct coll_majority_call){*point, 1};
	usual->count = kept;
}
