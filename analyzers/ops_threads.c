/* SPDX-License-Identifier: Apache-2.0 */
/* What the threads of a rank are in the middle of: groups, announced calls, recordings of graphs. See ops_internal.h.
 */
#include "analyzers/ops_internal.h"

struct ops_thread *ops_thread_find(const struct ops *ops, uint32_t id)
{
	struct ops_node *node = ops_hash_find(&ops->thread, id);

	return node ? OPS_CONTAINER(node, struct ops_thread, node) : NULL;
}

void ops_thread_group_lost(struct ops *ops, struct ops_thread *thread, uint64_t before_ns)
{
	while (!ops_list_empty(&thread->group)) {
		struct ops_entry *entry = OPS_CONTAINER(thread->group.next, struct ops_entry, member);

		if (entry->start_ns >= before_ns)
			break;
		ops->counts.lost++;
		ops_unlink(&entry->member);
		ops_entry_done(ops, entry, WAIT_GROUP);
	}
}

static void coll_threads_forget(struct ops *ops, struct ops_thread *thread)
{
	ops_thread_group_lost(ops, thread, UINT64_MAX);
	/* A start of UINT64_MAX is a lie that the loop above leaves. */
	while (!ops_list_empty(&thread->group)) {
		struct ops_entry *entry = OPS_CONTAINER(thread->group.next, struct ops_entry, member);

		ops_unlink(&entry->member);
		ops_entry_done(ops, entry, WAIT_GROUP);
	}
	if (thread->announced)
		ops_entry_done(ops, thread->announced, WAIT_WORK);
	ops_unlink(&thread->node.link);
	ops_unlink(&thread->used);
	free(thread);
	ops->n_threads--;
}

struct ops_thread *ops_thread_of(struct ops *ops, uint32_t id)
{
	struct ops_thread *thread = ops_thread_find(ops, id);

	if (!thread) {
		if (ops->n_threads >= OPS_THREADS_MAX)
			coll_threads_forget(ops, OPS_CONTAINER(ops->threads.next, struct ops_thread, used));
		thread = calloc(1, sizeof(*thread));
		if (!thread)
			return NULL;
		ops_list_init(&thread->group);
		ops_hash_put(&ops->thread, &thread->node, id);
		ops->n_threads++;
	}
	ops_unlink(&thread->used);
	ops_append(&ops->threads, &thread->used);
	return thread;
}

void ops_thread_capture(struct ops_thread *thread, const struct ops_event *event, bool begins)
{
	uint64_t stream = ops_value(event, OP_FIELD_STREAM);
	unsigned at = 0;

	while (at < thread->captures && thread->capture[at] != stream)
		at++;
	if (begins) {
		if (at < OPS_CAPTURES_MAX && !(event->has_result && event->result)) {
			thread->capture[at] = stream;
			thread->captures += at == thread->captures;
		}
	} else if (at < thread->captures) {
		thread->capture[at] = thread->capture[--thread->captures];
	}
}

void ops_threads_done(struct ops *ops)
{
	OPS_EACH (link, &ops->threads)
		free(OPS_CONTAINER(link, struct ops_thread, used));
}
