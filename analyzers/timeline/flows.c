/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices that belong together. Perfetto joins slices by a common number. For Chrome, and for counting arrows, a
 * set-associative table keeps the newest slice of each number. Stores are read one after another, so several stores
 * need the larger table.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/fnv1a.h"
#include "analyzers/timeline/timeline_internal.h"

#define PLACES_ONE 65536
#define PLACES_SEVERAL 1048576
#define WAYS 4

struct place {
	uint64_t id; /* 0: free */
	int64_t start_ns, end_ns, pid, tid;
};

struct flows {
	size_t places;
	struct place place[];
};

struct flows *flows_new(size_t nodes)
{
	size_t places = nodes > 1 ? PLACES_SEVERAL : PLACES_ONE;
	struct flows *flows = calloc(1, sizeof(*flows) + places * sizeof(flows->place[0]));

	if (flows)
		flows->places = places;
	return flows;
}

struct flows *flows_free(struct flows *flows)
{
	free(flows);
	return NULL;
}

uint64_t flow_id(const char *kind, const char *communicator, const int64_t *numbers, size_t count)
{
	uint64_t hash = fnv1a_bytes(FNV1A_START, kind, strlen(kind) + 1);

	hash = fnv1a_bytes(fnv1a_text(hash, communicator), numbers, count * sizeof(*numbers));
	return hash ? hash : 1;
}

/* Matching, else free, else oldest. */
static struct place *timeline_flows_find(struct flows *flows, uint64_t id)
{
	struct place *set = &flows->place[id % (flows->places / WAYS) * WAYS], *ret = set;

	for (size_t i = 0; i < WAYS; i++)
		if (set[i].id == id)
			return &set[i];
	for (size_t i = 0; i < WAYS; i++) {
		if (!set[i].id)
			return &set[i];
		if (set[i].start_ns < ret->start_ns)
			ret = &set[i];
	}
	return ret;
}

/* Viewers bind an arrow to the slice open at its time: just after the start. */
static struct trace_end flows_inside(const struct place *place)
{
	int64_t half = (place->end_ns - place->start_ns) / 2;

	return (struct trace_end){place->pid, place->tid, place->start_ns + (half < 500 ? half : 500)};
}

void flows_join(struct flows *flows, struct trace *trace, uint64_t id, const struct trace_event *event,
	const struct trace_end *end)
{
	const struct place this = {id, event->start_ns, event->end_ns, end->pid, end->tid};
	struct place *place = timeline_flows_find(flows, id);
	struct trace_end from, to;

	if (place->id == id) {
		bool forward = place->start_ns <= this.start_ns;

		from = flows_inside(forward ? place : &this);
		to = flows_inside(forward ? &this : place);
		if (to.time_ns < from.time_ns)
			to.time_ns = from.time_ns;
		trace_arrow(trace, &from, &to);
	}
	*place = this;
}
