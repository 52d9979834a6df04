/* SPDX-License-Identifier: Apache-2.0 */
/* The words of probe tables for what an event is and for what its values mean. */
#include <string.h>

#include "analyzers/ops.h"

static const char *const field_names[OP_FIELD_MAX] = {
#define OP_FIELD(id, name, meaning) [OP_FIELD_##id] = (name),
#include "analyzers/op_fields.def"
#undef OP_FIELD
};

static const char *const kind_names[OPS_KIND_MAX] = {
	[OPS_OP] = "op",
	[OPS_P2P] = "p2p",
	[OPS_GROUP] = "group",
	[OPS_WORK] = "work",
	[OPS_FINISHED] = "finished",
	[OPS_COMM] = "comm",
	[OPS_COMM_FREE] = "comm_free",
	[OPS_CAPTURE] = "capture",
	[OPS_CAPTURE_END] = "capture_end",
	[OPS_GROUP_SEQ] = "group_seq",
};

enum op_field op_field_parse(const char *name)
{
	for (unsigned i = 0; i < OP_FIELD_MAX; i++)
		if (strcmp(field_names[i], name) == 0)
			return (enum op_field)i;
	return OP_FIELD_MAX;
}

const char *op_field_name(enum op_field field)
{
	return (unsigned)field < OP_FIELD_MAX ? field_names[field] : "";
}

enum ops_kind ops_kind_parse(const char *name)
{
	for (unsigned i = OPS_NONE + 1; i < OPS_KIND_MAX; i++)
		if (strcmp(kind_names[i], name) == 0)
			return (enum ops_kind)i;
	return OPS_NONE;
}
