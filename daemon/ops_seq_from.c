/* SPDX-License-Identifier: Apache-2.0 */
/* What operations are numbered from, in the words of the view. */
#include "daemon/ops_room.h"

static const char *const seq_from_names[] = {
	[COLL_SEQ_INIT] = "init",
	[COLL_SEQ_LIBRARY] = "library",
	[COLL_SEQ_MARKER] = "marker",
	[COLL_SEQ_GROUP] = "group",
	[COLL_SEQ_ATTACH] = "attach",
};

const char *rank_coll_seq_from(enum coll_seq_from from)
{
	return (unsigned)from < ARRAY_SIZE(seq_from_names) ? seq_from_names[from] : "";
}
