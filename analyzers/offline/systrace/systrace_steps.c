/* SPDX-License-Identifier: Apache-2.0 */
/* Stages of a process to its steps, and what the names of stages mean. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/offline/systrace/systrace_internal.h"
#include "analyzers/base/array.h"

enum match { CONTAINS, IS };

/* The first that fits. Those of sysTrace's list of functions, and our words (stage_names.c) in dumps. */
static const struct word_row {
	const char *text;
	enum match match;
	struct systrace_word word;
} words[] = {
	{"GC", IS, {.kind = STAGE_GC}},
	{"IterDataPipe", CONTAINS, {.kind = STAGE_DATALOADER}}, /* within loaders, and in each other */
	{"dataloader", CONTAINS, {STAGE_DATALOADER, true, false, 4}},
	{"on_train_step_begin", CONTAINS, {STAGE_USER, true, false, 3}},
	{"zero_grad", IS, {.kind = STAGE_ZERO_GRAD}},
	{"optimizer", IS, {STAGE_OPTIMIZER, false, true, 2}},
	{"checkpoint", IS, {.kind = STAGE_CHECKPOINT}},
	{"gc", IS, {.kind = STAGE_GC}},
	{"forward", IS, {.kind = STAGE_FORWARD}},
	{"@forward_step", CONTAINS, {.kind = STAGE_FORWARD}},
	{"@backward", CONTAINS, {STAGE_BACKWARD, false, true, 1}},
	{"backward", IS, {STAGE_BACKWARD, false, true, 1}},
	{"@autograd@grad", CONTAINS, {.kind = STAGE_BACKWARD}},
	{"GradOperation@__call__", CONTAINS, {STAGE_BACKWARD, false, true, 1}},
	{"ynchronize", CONTAINS, {.kind = STAGE_SYNC}}, /* torch_npu@npu@synchronize, cudaStreamSynchronize */
	{"@Event@wait", CONTAINS, {.kind = STAGE_SYNC}},
	{"@Stream@wait_", CONTAINS, {.kind = STAGE_SYNC}},
};

struct systrace_word systrace_word_of(const char *name)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		const struct word_row *row = &words[i];

		if (row->match == IS ? strcmp(name, row->text) == 0 : strstr(name, row->text) != NULL)
			return row->word;
	}
	return (struct systrace_word){.kind = STAGE_USER};
}

struct boundary {
	uint64_t time_ns, number;
};

static int systrace_steps_by_time(const void *a, const void *b)
{
	const struct boundary *x = a, *y = b;

	return ORDER(x->time_ns, y->time_ns) ?: ORDER(x->number, y->number);
}

static uint64_t systrace_steps_time_of(const struct systrace_event *event)
{
	return event->opens ? event->start_ns : event->end_ns;
}

/* A rising counter opens a step. Several calls with one number are one step: of those that open it, the first. */
static size_t number_them(struct boundary *boundary, size_t count, bool opens)
{
	size_t kept = 0;
	bool rise = count > 1 && boundary[count - 1].number > boundary[0].number;

	for (size_t i = 1; i < count && rise; i++)
		rise = boundary[i].number >= boundary[i - 1].number;
	for (size_t i = 0; i < count; i++) {
		if (!rise)
			boundary[i].number = i + 1;
		if (kept && boundary[kept - 1].number == boundary[i].number) {
			if (!opens)
				boundary[kept - 1] = boundary[i];
			continue;
		}
		boundary[kept++] = boundary[i];
	}
	return kept;
}

/* The step that has the time in it: the last boundary that is not after it; SIZE_MAX: before the first. */
static size_t systrace_steps_find(const struct boundary *boundary, size_t count, uint64_t time_ns)
{
	return array_first_not(i, count, boundary[i].time_ns <= time_ns) - 1;
}

/* Of a boundary that opens, the step that begins there has its number; of one that closes, the one that ends there. */
static int systrace_steps_put(struct systrace_events *events, uint32_t process, size_t first, size_t end,
	struct boundary *boundary, size_t count, bool opens)
{
	for (size_t i = first; i < end; i++) {
		struct systrace_event *event = &events->event[i];
		size_t at = systrace_steps_find(boundary, count, event->start_ns);

		event->number = 0;
		if (at != SIZE_MAX && at + 1 < count)
			event->number = boundary[at + (opens ? 0 : 1)].number + 1;
	}
	for (size_t i = 0; i + 1 < count; i++) {
		const struct systrace_event step = {
			.start_ns = boundary[i].time_ns,
			.end_ns = boundary[i + 1].time_ns,
			.number = boundary[i + (opens ? 0 : 1)].number + 1,
			.process = process,
			.what = SYSTRACE_STEP,
		};

		if (systrace_events_add(events, &step) < 0)
			return -ENOMEM;
	}
	return 0;
}

int systrace_steps_make(struct systrace_events *events, uint32_t process, size_t first, size_t end)
{
	struct boundary *boundary = calloc(end - first + 1, sizeof(*boundary));
	uint16_t best = 0;
	size_t count = 0;
	bool opens = false;
	int r;

	if (!boundary)
		return -ENOMEM;
	for (size_t i = first; i < end; i++) {
		const struct systrace_event *event = &events->event[i];

		if ((event->opens || event->closes) && event->op > best) {
			best = event->op;
			opens = event->opens;
		}
	}
	for (size_t i = first; i < end && best; i++) {
		const struct systrace_event *event = &events->event[i];

		if ((event->opens || event->closes) && event->op == best)
			boundary[count++] = (struct boundary){systrace_steps_time_of(event), event->number};
	}
	if (count)
		qsort(boundary, count, sizeof(*boundary), systrace_steps_by_time);
	count = number_them(boundary, count, opens);
	r = systrace_steps_put(events, process, first, end, boundary, count, opens);
	free(boundary);
	return r;
}
