/* SPDX-License-Identifier: Apache-2.0 */
/* What operations are numbered from, in the words of the view. */
#include "daemon/ops_room.h"

static const char *const seq_from_names[] = {
	[OPS_SEQ_INIT] = "init",
	[OPS_SEQ_LIBRARY] = "library",
	[OPS_SEQ_MARKER] = "marker",
	[OPS_SEQ_GROUP] = "group",
	[OPS_SEQ_ATTACH] = "attach",
};

const char *ops_room_seq_from(enum ops_seq_from from)
{
	return (unsigned)from < ARRAY_SIZE(seq_from_names) ? seq_from_names[from] : "";
}
