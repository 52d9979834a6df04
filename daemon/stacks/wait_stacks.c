/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/base/syscall_names.h"
#include "daemon/core/context.h"
#include "daemon/stacks/profile_rank.h"
#include "daemon/store/store.h"

void wait_stacks_add(struct wait_stacks *waits, const struct rt_wait_event *wait)
{
	if (waits->count == WAIT_STACKS_MAX)
		waits->lost++;
	else
		waits->wait[waits->count++] = *wait;
}

static void wait_stacks_put_row(const struct rt_wait_event *wait, const struct profile_rank *names, int64_t id)
{
	struct store *store = names->context->store;
	char call[SYSCALL_NAME_BYTES];

	store_put_wait_stacks(store, &(struct row_wait_stacks){
					     .rank = field_int(names->rank),
					     .thread_id = field_int(wait->event.thread_id),
					     .call = field_text(syscall_name(wait->number, call)),
					     .start_ns = field_time(store_utc_ns(store, wait->start_ns)),
					     .duration_ns = field_duration(wait->duration_ns),
					     .stack = field_int(id),
					     .instance = field_int(names->instance),
				     });
}

void wait_stacks_put(struct wait_stacks *waits, const struct profile_rank *names, uint64_t now_ns)
{
	size_t kept = 0;
	int64_t id;

	for (size_t i = 0; i < waits->count; i++) {
		const struct rt_wait_event *wait = &waits->wait[i];

		if (names && profile_rank_id(names, wait->stack, &id))
			wait_stacks_put_row(wait, names, id);
		else if (now_ns - wait->event.time_ns >= WAIT_STACKS_FOR_NS)
			waits->lost++;
		else
			waits->wait[kept++] = *wait;
	}
	waits->count = kept;
}
