/* SPDX-License-Identifier: Apache-2.0 */
/* The list of events, and the names in it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"
#include "analyzers/base/fnv1a.h"
#include "analyzers/offline/systrace/systrace_internal.h"

int systrace_events_add(struct systrace_events *events, const struct systrace_event *event)
{
	if (events->count == SYSTRACE_EVENTS_MAX) {
		events->left_out++;
		return 0;
	}
	if (!array_reserve((void **)&events->event, &events->capacity, events->count + 1, sizeof(*event),
		    SYSTRACE_EVENTS_MAX))
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

void systrace_names_free(struct systrace_names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->name[i]);
	names->count = 0;
}

int systrace_names_number(struct systrace_names *names, const char *name, uint16_t *ret)
{
	size_t at;

	for (at = fnv1a_text(FNV1A_START, name) % SYSTRACE_NAMES_HASH; names->hash[at]; at = (at + 1) % SYSTRACE_NAMES_HASH)
		if (strcmp(names->name[names->hash[at] - 1], name) == 0) {
			*ret = (uint16_t)(names->hash[at] - 1);
			return 0;
		}
	if (names->count == SYSTRACE_NAMES_MAX)
		return -ENOSPC;
	names->name[names->count] = strdup(name);
	if (!names->name[names->count])
		return -ENOMEM;
	*ret = (uint16_t)names->count;
	names->hash[at] = (uint16_t)++names->count;
	return 0;
}
