/* SPDX-License-Identifier: Apache-2.0 */
/* Named words of a call's record, by its row of the probe table. Pure. */
#ifndef RANKTRACE_DAEMON_CALLS_CALL_FIELDS_H
#define RANKTRACE_DAEMON_CALLS_CALL_FIELDS_H

#include "analyzers/coll/coll.h"
#include "daemon/probes/table.h"

struct call_fields {
	uint32_t present; /* 1 << enum coll_field */
	uint64_t field[OP_FIELD_MAX];
};

/*
 * After an unreadable read (RT_CALL_FAULT), words of 0 count as absent. Out parameters are known only after the
 * return.
 */
void call_fields(
	const struct probe *probe, const uint64_t *arg, uint32_t flags, bool returned, struct call_fields *ret);
/* Value of a field, or COLL_UNKNOWN. */
uint64_t call_field(const struct call_fields *fields, enum coll_field field);
/* Probed functions return an int: the register's upper half is undefined. */
int64_t call_result(const struct rt_call_event *event);

#endif
