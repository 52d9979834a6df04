/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/core/context.h"
#include "daemon/stacks/profile_rank.h"
#include "daemon/store/store.h"

bool stage_stacks_due(struct stage_stacks *stacks, uint64_t now_ns)
{
	if (now_ns < stacks->next_ns)
		return false;
	stacks->interval_ns = stacks->interval_ns ? 2 * stacks->interval_ns : STAGE_STACKS_FIRST_NS;
	if (stacks->interval_ns > STAGE_STACKS_LAST_NS)
		stacks->interval_ns = STAGE_STACKS_LAST_NS;
	stacks->next_ns = now_ns + stacks->interval_ns;
	return true;
}

bool stage_stacks_add(
	struct stage_stacks *stacks, const struct steps_open *open, const struct rt_profile_stack_event *event)
{
	struct stage_stack *to = &stacks->of[stacks->count];

	if (open->thread_id != event->event.thread_id || event->event.time_ns < open->start_ns ||
		event->event.time_ns - open->start_ns >= STAGE_STACKS_APART_NS || stacks->count == STAGE_STACKS_MAX)
		return false;
	for (size_t i = 0; i < stacks->count; i++)
		if (streq(stacks->of[i].stage, open->stage) && streq(stacks->of[i].name, open->name))
			return false;
	*to = (struct stage_stack){.stack = event->stack, .start_ns = open->start_ns, .thread_id = open->thread_id};
	copy_text(to->stage, sizeof(to->stage), open->stage);
	copy_text(to->name, sizeof(to->name), open->name);
	stacks->count++;
	return true;
}

void stage_stacks_put(struct stage_stacks *stacks, const struct profile_rank *names)
{
	struct store *store = names->context->store;

	for (size_t i = 0; i < stacks->count; i++) {
		struct stage_stack *of = &stacks->of[i];
		int64_t id;

		if (of->put || !profile_rank_id(names, of->stack, &id))
			continue;
		store_put_stage_stacks(store, &(struct row_stage_stacks){
						      .rank = field_int(names->rank),
						      .stage = field_text(of->stage),
						      .name = field_text(of->name),
						      .start_ns = field_time(store_utc_ns(store, of->start_ns)),
						      .thread_id = field_int(of->thread_id),
						      .stack = field_int(id),
						      .instance = field_int(names->instance),
					      });
		of->put = true;
	}
}
