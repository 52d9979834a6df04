/* SPDX-License-Identifier: Apache-2.0 */
/* The list of events. */
#include <errno.h>
#include <stdlib.h>

#include "analyzers/base/array.h"
#include "analyzers/offline/systrace/systrace_internal.h"

int systrace_events_add(struct systrace_events *events, const struct systrace_event *event)
{
	if (events->count == SYSTRACE_EVENTS_MAX) {
		events->left_out++;
		return 0;
	}
	if (!array_reserve(
		    (void **)&events->event, &events->capacity, events->count + 1, sizeof(*event), SYSTRACE_EVENTS_MAX))
		return -ENOMEM;
	events->event[events->count++] = *event;
	return 0;
}

static int systrace_events_by_time(const void *a, const void *b)
{
	const struct systrace_event *x = a, *y = b;

	return ORDER(x->end_ns, y->end_ns) ?: ORDER(x->what, y->what) ?: ORDER(x->process, y->process);
}

void systrace_events_sort(struct systrace_events *events)
{
	if (events->count)
		qsort(events->event, events->count, sizeof(*events->event), systrace_events_by_time);
}

static int systrace_events_by_process(const void *a, const void *b)
{
	const struct systrace_event *x = a, *y = b;

	return ORDER(x->process, y->process) ?: ORDER(x->what, y->what);
}

/* Steps of each process are added behind; the stages of one lie together then. */
int systrace_events_steps(struct systrace_events *events)
{
	size_t count = events->count, begin = 0;
	int r = 0;

	if (count)
		qsort(events->event, count, sizeof(*events->event), systrace_events_by_process);
	for (size_t i = 1; i <= count && r == 0; i++) {
		const struct systrace_event *first = &events->event[begin], *next = &events->event[i];

		if (i < count && next->process == first->process && next->what == first->what)
			continue;
		if (first->what == SYSTRACE_STAGE)
			r = systrace_steps_make(events, first->process, begin, i);
		begin = i;
	}
	return r;
}
