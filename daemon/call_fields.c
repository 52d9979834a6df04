/* SPDX-License-Identifier: Apache-2.0 */
/* See call_fields.h. */
#include "daemon/call_fields.h"

void call_fields(
	const struct probe *probe, const uint64_t *arg, uint32_t flags, bool returned, struct call_fields *ret)
{
	*ret = (struct call_fields){0};
	for (unsigned i = 0; i < probe->spec.args && i < RT_CALL_ARGS_MAX; i++) {
		enum op_field field = probe->field[i];

		if ((unsigned)field >= OP_FIELD_MAX || (arg[i] == 0 && flags & RT_CALL_FAULT))
			continue;
		if (!returned && probe->spec.arg[i].read == RT_READ_OUT)
			continue;
		ret->present |= 1u << field;
		ret->field[field] = arg[i];
	}
}

uint64_t call_field(const struct call_fields *fields, enum op_field field)
{
	return fields->present & 1u << field ? fields->field[field] : OPS_UNKNOWN;
}

int64_t call_result(const struct rt_call_event *event)
{
	return (int32_t)event->result;
}
