/* SPDX-License-Identifier: Apache-2.0 */
/* What the threads of a rank are in the middle of: groups, announced calls, recordings of graphs. See ops_internal.h.
 */
#include "analyzers/ops_internal.h"

struct coll_thread *coll_thread_find(const struct coll *ops, uint32_t id)
{
	struct coll_node *node = coll_hash_find(&ops->thread, id);

	return node ? COLL_CONTAINER(node, struct coll_thread, node) : NULL;
}

void coll_thread_group_lost(struct coll *ops, struct coll_thread *thread, uint64_t before_ns)
{
	while (!coll_list_empty(&thread->group)) {
		struct coll_entry *entry = COLL_CONTAINER(thread->group.next, struct coll_entry, member);

		if (entry->start_ns >= before_ns)
			break;
		ops->counts.lost++;
		coll_unlink(&entry->member);
		coll_entry_done(ops, entry, WAIT_GROUP);
	}
}

static void coll_threads_forget(struct coll *ops, struct coll_thread *thread)
{
	coll_thread_group_lost(ops, thread, UINT64_MAX);
	/* A start of UINT64_MAX is a lie that the loop above leaves. */
	while (!coll_list_empty(&thread->group)) {
		struct coll_entry *entry = COLL_CONTAINER(thread->group.next, struct coll_entry, member);

		coll_unlink(&entry->member);
		coll_entry_done(ops, entry, WAIT_GROUP);
	}
	if (thread->announced)
		coll_entry_done(ops, thread->announced, WAIT_WORK);
	coll_unlink(&thread->node.link);
	coll_unlink(&thread->used);
	free(thread);
	ops->n_threads--;
}

struct coll_thread *coll_thread_of(struct coll *ops, uint32_t id)
{
	struct coll_thread *thread = coll_thread_find(ops, id);

	if (!thread) {
		if (ops->n_threads >= COLL_THREADS_MAX)
			coll_threads_forget(ops, COLL_CONTAINER(ops->threads.next, struct coll_thread, used));
		thread = calloc(1, sizeof(*thread));
		if (!thread)
			return NULL;
		coll_list_init(&thread->group);
		coll_hash_put(&ops->thread, &thread->node, id);
		ops->n_threads++;
	}
	coll_unlink(&thread->used);
	coll_append(&ops->threads, &thread->used);
	return thread;
}

void coll_thread_capture(struct coll_thread *thread, const struct coll_event *event, bool begins)
{
	uint64_t stream = coll_value(event, OP_FIELD_STREAM);
	unsigned at = 0;

	while (at < thread->captures && thread->capture[at] != stream)
		at++;
	if (begins) {
		if (at < COLL_CAPTURES_MAX && !(event->has_result && event->result)) {
			thread->capture[at] = stream;
			thread->captures += at == thread->captures;
		}
	} else if (at < thread->captures) {
		thread->capture[at] = thread->capture[--thread->captures];
	}
}

void coll_threads_done(struct coll *ops)
{
	COLL_EACH (link, &ops->threads)
		free(COLL_CONTAINER(link, struct coll_thread, used));
}
