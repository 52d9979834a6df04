/* SPDX-License-Identifier: Apache-2.0 */
/* See call_errors.h. */
#include "daemon/memory/call_errors.h"
#include "analyzers/memory/memory.h"
#include "daemon/calls/call_fields.h"
#include "daemon/core/context.h"
#include "daemon/stacks/profile_rank.h"
#include "daemon/steps/rank_steps.h"
#include "daemon/store/store.h"

struct field_text call_errors_name(const char *op, int64_t result)
{
	const char *name = result ? memory_error_name(op, result) : "";

	return field_text(name[0] ? name : NULL);
}

void call_errors_put(struct context *context, const struct rank *rank, const struct call_record *record, uint64_t bytes)
{
	const struct rt_call_event *event = record->event;
	const char *op = record->probe->op[0] ? record->probe->op : record->probe->name;
	int64_t step = context->steps ? rank_steps_step(context->steps, rank, event->start_ns) : STEPS_NONE;

	store_put_api_errors(
		context->store, &(struct row_api_errors){
					.rank = field_int(rank->env.rank),
					.start_ns = field_time(store_utc_ns(context->store, event->start_ns)),
					.step = field_int_if(step != STEPS_NONE, step),
					.op = field_text(op),
					.bytes = field_int_if(bytes != COLL_UNKNOWN, (int64_t)bytes),
					.result = field_int(call_result(event)),
					.error = call_errors_name(op, call_result(event)),
					.stack = field_int_if(false, 0),
					.thread_id = field_int(event->event.thread_id),
					.instance = field_int(rank->instance),
				});
}

void call_errors_stage(struct context *context, const struct rank *rank, const struct call_record *record)
{
	uint32_t flags = record->event->event.flags;

	if (flags & RT_CALL_END && flags & RT_CALL_RESULT && call_result(record->event))
		call_errors_put(context, rank, record, COLL_UNKNOWN);
}

void call_errors_stack(const struct memory_owner *owner, const struct rt_memory_failed_event *event)
{
	int64_t stack = 0;
	bool named = profile_rank_id(owner->stacks, event->stack, &stack);

	store_put_api_errors(owner->context->store, &(struct row_api_errors){
							    .rank = field_int(owner->is->env.rank),
							    .start_ns = field_time(event->call_ns),
							    /* The call has a row of its own. */
							    .step = field_int_if(false, 0),
							    .op = field_text(NULL),
							    .bytes = field_int_if(false, 0),
							    .result = field_int_if(false, 0),
							    .error = field_text(NULL),
							    .stack = field_int_if(named, stack),
							    .thread_id = field_int(event->event.thread_id),
							    .instance = field_int(owner->is->instance),
						    });
}
