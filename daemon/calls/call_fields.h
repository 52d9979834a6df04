/* SPDX-License-Identifier: Apache-2.0 */
/* The named words of a call's record, by the row of the probe table that says what they are. Pure. */
#ifndef RANKTRACE_DAEMON_CALLS_CALL_FIELDS_H
#define RANKTRACE_DAEMON_CALLS_CALL_FIELDS_H

#include "analyzers/coll/coll.h"
#include "daemon/probes/table.h"

struct call_fields {
	uint32_t present; /* 1 << enum op_field */
	uint64_t field[OP_FIELD_MAX];
};

/* Where a reader met memory that it could not read (RT_CALL_FAULT) words of 0 are taken for not read. What a call hands
 * out is known when it has returned only. */
void call_fields(
	const struct probe *probe, const uint64_t *arg, uint32_t flags, bool returned, struct call_fields *ret);
/* The word of a field, or OPS_UNKNOWN. */
uint64_t call_field(const struct call_fields *fields, enum coll_field field);
/* The probed functions return an int: what lies above it in the register is anything. */
int64_t call_result(const struct rt_call_event *event);

#endif
