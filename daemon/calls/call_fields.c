/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of a record by their reader in the probe table. */
#include "daemon/calls/call_fields.h"

#define REGISTER_ARGS 6 /* passed in registers on both machines; others may be on the stack */

/* Register reads cannot fail: their zero is valid despite a fault elsewhere in the record. */
static bool may_fault(const struct rt_call_arg *arg)
{
	return arg->read != RT_READ_FRAME && arg->read != RT_READ_CONST &&
	       (arg->read != RT_READ_REG || arg->reg > REGISTER_ARGS);
}

void call_fields(const struct probe *probe, const uint64_t *arg, uint32_t flags, bool returned, struct call_fields *ret)
{
	*ret = (struct call_fields){0};
	for (unsigned i = 0; i < probe->spec.args && i < RT_CALL_ARGS_MAX; i++) {
		enum coll_field field = probe->field[i];

		if ((unsigned)field >= OP_FIELD_MAX ||
			(arg[i] == 0 && flags & RT_CALL_FAULT && may_fault(&probe->spec.arg[i])))
			continue;
		if (!returned && probe->spec.arg[i].read == RT_READ_OUT)
			continue;
		ret->present |= 1u << field;
		ret->field[field] = arg[i];
	}
}

uint64_t call_field(const struct call_fields *fields, enum coll_field field)
{
	return fields->present & 1u << field ? fields->field[field] : COLL_UNKNOWN;
}

int64_t call_result(const struct rt_call_event *event)
{
	return (int32_t)event->result;
}
