/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/memory/memory_pending.h"
#include "daemon/core/context.h"
#include "daemon/memory/call_errors.h"
#include "daemon/store/store.h"

#include <errno.h>
#include <stdlib.h>

/* More than the two requests that names take where the process ends during the first one. */
#define NAMES_WAIT_NS (22 * NSEC_PER_SEC)

/* A snapshot whose rows wait. */
struct memory_snapshot_pending {
	struct list_link link;
	size_t bytes;
	uint64_t taken_ns;
	struct rt_memory_rank counts;
	double unseen[RT_MEMORY_DEVICES_MAX];
	size_t lines;
	struct memory_line line[];
};

struct memory_pending *memory_pending_new(
	struct context *context, const struct rank *rank, struct memory_pending_counts *put, int *ret_error)
{
	struct memory_pending *pending = calloc(1, sizeof(*pending));

	*ret_error = -ENOMEM;
	if (!pending)
		return NULL;
	pending->is = *rank;
	pending->put = put;
	list_reset(&pending->snapshots);
	list_reset(&pending->calls);
	pending->names = (struct profile_rank){
		.context = context,
		.asked = {.pid = rank->pid, .start_time_ns = rank->start_time_ns},
		.uid = rank->uid,
		.rank = rank->env.rank,
		.instance = rank->instance,
		.keeps_places = true,
	};
	*ret_error = profile_rank_begin(&pending->names);
	return *ret_error < 0 ? memory_pending_free(pending) : pending;
}

struct memory_owner memory_pending_owner(const struct memory_pending *pending)
{
	struct context *context = pending->names.context;
	const struct rank *live = ranks_by_pid(context->ranks, pending->is.pid);

	return (struct memory_owner){
		.context = context,
		.is = &pending->is,
		.live = live && live->instance == pending->is.instance ? live : NULL,
		.stacks = &pending->names,
	};
}

static bool memory_pending_stack_waits(
	const struct memory_pending *pending, uint64_t stack, uint64_t since_ns, uint64_t now_ns)
{
	return now_ns < since_ns + NAMES_WAIT_NS && profile_rank_waits(&pending->names, stack);
}

/* Failed requests, and calls that failed and have no other row. */

bool memory_pending_fail(
	struct memory_pending *pending, const struct rt_memory_failed_event *event, const struct memory_then *then)
{
	struct memory_owner owner = memory_pending_owner(pending);
	struct memory_failed *failed = &pending->failed[pending->failed_count];

	if (pending->failed_count == MEMORY_PENDING_FAILED_MAX)
		return false;
	failed->event = *event;
	failed->at = memory_rows_at(&owner, event);
	failed->came_ns = monotonic_ns();
	failed->then = *then;
	/* As the call's record at this time: the clock may be set before the stack has names. */
	if (event->call_ns)
		failed->event.call_ns = store_utc_ns(owner.context->store, event->call_ns);
	pending->failed_count++;
	return true;
}

static void memory_pending_put_failed(struct memory_pending *pending, const struct memory_failed *failed)
{
	struct memory_owner owner = memory_pending_owner(pending);

	pending->put->failures++;
	if (failed->event.call_ns) {
		call_errors_stack(&owner, &failed->event);
		return;
	}
	memory_rows_failed(&owner, &failed->event, &failed->at, &failed->then);
	if (!pending->failed_once)
		memory_rows_oom(&owner, &failed->event, &failed->then);
	pending->failed_once = true;
}

/* Snapshots. */

static bool memory_pending_lines_wait(const struct memory_pending *pending, const struct memory_line *line,
	size_t lines, uint64_t taken_ns, uint64_t now_ns)
{
	for (size_t i = 0; i < lines; i++)
		if (memory_pending_stack_waits(pending, line[i].site.stack, taken_ns, now_ns))
			return true;
	return false;
}

static void memory_pending_put_snapshot(struct memory_pending *pending, struct memory_snapshot_pending *snapshot)
{
	struct memory_owner owner = memory_pending_owner(pending);

	pending->put->rows += memory_rows_live(
		&owner, &snapshot->counts, snapshot->line, snapshot->lines, snapshot->unseen, snapshot->taken_ns);
	pending->snapshot_count--;
	pending->snapshot_bytes -= snapshot->bytes;
	list_unlink(&snapshot->link);
	free(snapshot);
}

void memory_pending_live(struct memory_pending *pending, const struct rt_memory_rank *counts, struct memory_line *line,
	size_t lines, const double unseen[RT_MEMORY_DEVICES_MAX], uint64_t now_ns)
{
	struct memory_owner owner = memory_pending_owner(pending);
	struct memory_snapshot_pending *snapshot = NULL;
	size_t bytes = sizeof(*snapshot) + lines * sizeof(snapshot->line[0]);

	if (pending->snapshot_count == MEMORY_PENDING_SNAPSHOTS_MAX)
		memory_pending_put_snapshot(
			pending, CONTAINER_OF(pending->snapshots.next, struct memory_snapshot_pending, link));
	if (memory_pending_lines_wait(pending, line, lines, now_ns, now_ns))
		snapshot = malloc(bytes);
	if (!snapshot) {
		pending->put->rows += memory_rows_live(&owner, counts, line, lines, unseen, now_ns);
		return;
	}
	*snapshot =
		(struct memory_snapshot_pending){.bytes = bytes, .taken_ns = now_ns, .counts = *counts, .lines = lines};
	memcpy(snapshot->unseen, unseen, sizeof(snapshot->unseen));
	memcpy(snapshot->line, line, lines * sizeof(snapshot->line[0]));
	list_add_tail(&pending->snapshots, &snapshot->link);
	pending->snapshot_count++;
	pending->snapshot_bytes += bytes;
}

/* Both. */

void memory_pending_end(struct memory_pending *pending)
{
	pending->names.recorded = true;
}

static void memory_pending_put_part(struct memory_pending *pending, uint64_t now_ns, bool all)
{
	size_t kept = 0;

	for (size_t i = 0; i < pending->failed_count; i++) {
		struct memory_failed *failed = &pending->failed[i];

		if (!all && memory_pending_stack_waits(pending, failed->event.stack, failed->came_ns, now_ns))
			pending->failed[kept++] = *failed;
		else
			memory_pending_put_failed(pending, failed);
	}
	pending->failed_count = kept;
	allocs_put_held(pending->names.context->store, &pending->calls, &pending->names, all);
	LIST_EACH (link, &pending->snapshots) {
		struct memory_snapshot_pending *snapshot = CONTAINER_OF(link, struct memory_snapshot_pending, link);

		if (all || !memory_pending_lines_wait(
				   pending, snapshot->line, snapshot->lines, snapshot->taken_ns, now_ns))
			memory_pending_put_snapshot(pending, snapshot);
	}
}

size_t memory_pending_bytes(const struct memory_pending *pending)
{
	return profile_rank_bytes(&pending->names) + pending->snapshot_bytes;
}

bool memory_pending_waits(const struct memory_pending *pending)
{
	return pending->failed_count > 0 || pending->snapshot_count > 0 || !list_empty(&pending->calls);
}

bool memory_pending_put(struct memory_pending *pending, uint64_t now_ns)
{
	memory_pending_put_part(pending, now_ns, false);
	return memory_pending_waits(pending);
}

struct memory_pending *memory_pending_free(struct memory_pending *pending)
{
	if (!pending)
		return NULL;
	memory_pending_put_part(pending, 0, true);
	list_unlink(&pending->link);
	profile_rank_free(&pending->names);
	free(pending);
	return NULL;
}
