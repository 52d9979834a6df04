/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of profiles with their stacks: on a CPU samples of a thread, off it slices named by where the thread
 * waits. */
#include <stdlib.h>
#include <string.h>

#include "analyzers/timeline/timeline_internal.h"

#define STACK_FRAMES_READ 512 /* more than a store has */

enum { STACK_NUMBER = COL_MORE, STACK_FRAMES, STACK_THREAD_NAME };

/* The innermost Python frame, else the innermost. */
static const struct stack_frame *stack_named_by(const struct trace_event *event)
{
	for (size_t i = event->frames; i-- > 0;)
		if (stack_frame_is_python(&event->frame[i]))
			return &event->frame[i];
	return event->frames ? &event->frame[event->frames - 1] : NULL;
}

static void stack_put(struct timeline *t, const struct stream *stream, struct timeline_rank *rank, int64_t thread,
	struct trace_event *event)
{
	struct timeline_track *track =
		timeline_track(t, rank, event->instant ? TRACK_THREAD : stream->class, thread, "");

	if (!track || !event->instant) {
		(void)timeline_put(t, track, event, NULL);
		return;
	}
	event->track = &track->trace;
	trace_sample(t->trace, event);
}

void rows_stack(struct timeline *t, const struct stream *stream, struct timeline_rank *rank, const struct row *row)
{
	static struct stack_frame frame[STACK_FRAMES_READ];
	int64_t thread = row_int(row, COL_THREAD);
	const struct stack_frame *place;
	char name[STACK_PLACE_BYTES], *text;
	struct trace_event event;
	size_t frames;

	if (!timeline_event(t, stream, row, &event))
		return;
	text = strdup(row_text(row, STACK_FRAMES));
	frames = text ? stack_frames_parse(text, frame, STACK_FRAMES_READ) : 0;
	event.frames = frames < TRACE_FRAMES_MAX ? frames : TRACE_FRAMES_MAX;
	event.frame = frame + frames - event.frames;
	event.stack = row_int(row, STACK_NUMBER);
	place = stack_named_by(&event);
	event.name = place ? stack_frame_text(place, false, name, sizeof(name)) : "waits";
	timeline_thread_name(t, rank, thread, row_text(row, STACK_THREAD_NAME));
	if (!event.instant || frames)
		stack_put(t, stream, rank, thread, &event);
	free(text);
}
