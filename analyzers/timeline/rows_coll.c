/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives and point-to-point operations: a slice below the calling thread, one on the device where its times are
 * known, and flows. Flows join the call with its device slice, and members with each other: on the device, or on the
 * host without device times.
 */
#include <string.h>

#include "analyzers/timeline/timeline_internal.h"

/* Host or device slice; then the columns in streams.c. */
enum { OP_ON_DEVICE = COL_MORE, OP_KEY, OP_COMMUNICATOR, OP_SEQ, OP_SEQ_FROM, OP_PEER, OP_TIER };

/* Flow common to all members; 0: not joinable. */
static uint64_t members_flow(struct timeline *t, const struct row *row)
{
	const char *communicator = row_text(row, OP_COMMUNICATOR);
	int64_t seq = row_int(row, OP_SEQ), peer = row_int(row, OP_PEER);
	bool pair = row_has(row, OP_PEER);
	const struct timeline_comm *comm = timeline_comm_find(t, row_int(row, OP_KEY));
	bool receives = strncmp(row_text(row, COL_NAME), "Recv", 4) == 0;

	if (!*communicator || seq <= 0 || strcmp(row_text(row, OP_SEQ_FROM), "attach") == 0)
		return 0;
	if (!pair)
		return flow_id("all", communicator, &seq, 1);
	if (!comm || comm->member < 0)
		return 0;
	return flow_id("pair", communicator,
		(const int64_t[]){seq, receives ? peer : comm->member, receives ? comm->member : peer}, 3);
}

/* Flow from the call to its device slice. */
static uint64_t call_flow(struct timeline *t, const struct timeline_rank *rank, const struct row *row)
{
	const int64_t numbers[] = {(int64_t)t->node, rank->instance, row_int(row, OP_SEQ),
		!row_has(row, OP_PEER) ? -1 : row_int(row, OP_PEER)};

	if (numbers[2] <= 0 || !*row_text(row, OP_COMMUNICATOR))
		return 0;
	return flow_id(row_text(row, COL_NAME), row_text(row, OP_COMMUNICATOR), numbers, 4);
}

static void timeline_rows_coll_put(struct timeline *t, struct timeline_track *track, struct trace_event *event)
{
	struct trace_end end;

	if (!timeline_put(t, track, event, &end))
		return;
	for (size_t i = 0; i < event->flows; i++)
		flows_join(t->flows, t->trace, event->flow[i], event, &end);
}

static void add_flow(struct trace_event *event, uint64_t flow)
{
	if (flow && event->flows < TRACE_FLOWS_MAX)
		event->flow[event->flows++] = flow;
}

static void on_host(struct timeline *t, struct timeline_rank *rank, const struct row *row, struct trace_event *event)
{
	bool device = strcmp(row_text(row, OP_TIER), "device") == 0;

	add_flow(event, device ? call_flow(t, rank, row) : members_flow(t, row));
	timeline_rows_coll_put(t, timeline_track(t, rank, TRACK_COLLECTIVES, row_int(row, COL_THREAD), ""), event);
}

static void on_device(struct timeline *t, struct timeline_rank *rank, const struct row *row, struct trace_event *event)
{
	const struct timeline_comm *comm = timeline_comm_find(t, row_int(row, OP_KEY));
	char label[TIMELINE_LABEL_BYTES];

	snprintf(label, sizeof(label), "device: %s", comm ? comm->label : "unknown communicator");
	event->category = "device";
	add_flow(event, call_flow(t, rank, row));
	add_flow(event, members_flow(t, row));
	timeline_rows_coll_put(t, timeline_track(t, rank, TRACK_DEVICE, row_int(row, OP_KEY), label), event);
}

void rows_collective(struct timeline *t, const struct stream *stream, struct timeline_rank *rank, const struct row *row)
{
	struct trace_event event;

	if (timeline_event(t, stream, row, &event))
		(row_int(row, OP_ON_DEVICE) ? on_device : on_host)(t, rank, row, &event);
}
