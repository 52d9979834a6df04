/* SPDX-License-Identifier: Apache-2.0 */
/* Words of probe tables for kinds of events and their values, and of the store. */
#include <string.h>

#include "analyzers/coll/coll.h"

static const char *const field_names[OP_FIELD_MAX] = {
#define OP_FIELD(id, name, meaning) [OP_FIELD_##id] = (name),
#include "analyzers/coll/coll_fields.def"
#undef OP_FIELD
};

static const char *const kind_names[COLL_KIND_MAX] = {
	[COLL_OP] = "op",
	[COLL_P2P] = "p2p",
	[COLL_GROUP] = "group",
	[COLL_WORK] = "work",
	[COLL_FINISHED] = "finished",
	[COLL_COMM] = "comm",
	[COLL_COMM_FREE] = "comm_free",
	[COLL_CAPTURE] = "capture",
	[COLL_CAPTURE_END] = "capture_end",
	[COLL_GROUP_SEQ] = "group_seq",
};

static const char *const seq_from_names[] = {
	[COLL_SEQ_INIT] = "init",
	[COLL_SEQ_LIBRARY] = "library",
	[COLL_SEQ_MARKER] = "marker",
	[COLL_SEQ_GROUP] = "group",
	[COLL_SEQ_ATTACH] = "attach",
};

enum coll_field op_field_parse(const char *name)
{
	for (unsigned i = 0; i < OP_FIELD_MAX; i++)
		if (strcmp(field_names[i], name) == 0)
			return (enum coll_field)i;
	return OP_FIELD_MAX;
}

enum coll_kind coll_kind_parse(const char *name)
{
	for (unsigned i = COLL_NONE + 1; i < COLL_KIND_MAX; i++)
		if (strcmp(kind_names[i], name) == 0)
			return (enum coll_kind)i;
	return COLL_NONE;
}

const char *coll_seq_from_name(enum coll_seq_from from)
{
	return (unsigned)from <= COLL_SEQ_ATTACH ? seq_from_names[from] : "";
}

enum coll_seq_from coll_seq_from_parse(const char *name)
{
	unsigned from = 0;

	while (from < COLL_SEQ_ATTACH && strcmp(seq_from_names[from], name) != 0)
		from++;
	return (enum coll_seq_from)from;
}
