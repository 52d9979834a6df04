/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/timeline/trace.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/replace.h"
#include "analyzers/base/utf8.h"

int trace_open(const struct trace_format *format, const struct trace_options *options, struct trace **ret)
{
	struct trace *trace = calloc(1, sizeof(*trace));

	if (!trace)
		return -ENOMEM;
	trace->format = format;
	trace->options = *options;
	trace->state = calloc(1, format->state_size);
	if (!trace->state) {
		free(trace);
		return -ENOMEM;
	}
	*ret = trace;
	return 0;
}

struct trace *trace_close(struct trace *trace)
{
	if (!trace)
		return NULL;
	if (trace->format->close)
		trace->format->close(trace);
	free(trace->state);
	free(trace);
	return NULL;
}

void trace_write(struct trace *trace, const void *data, size_t size)
{
	if (trace->error)
		return;
	if (fwrite(data, 1, size, trace->options.out) != size)
		trace->error = errno ? -errno : -EIO;
	trace->counts.bytes += size;
}

static void timeline_trace_begin(struct trace *trace)
{
	if (!trace->begun)
		trace->format->begin(trace);
	trace->begun = true;
}

void trace_track(struct trace *trace, const struct trace_track *track)
{
	timeline_trace_begin(trace);
	trace->counts.tracks++;
	trace->format->track(trace, track);
}

void trace_event(struct trace *trace, const struct trace_event *event)
{
	if (event->instant)
		trace->counts.instants++;
	else
		trace->counts.slices++;
	trace->counts.open += !event->instant && event->end_ns == TRACE_OPEN;
	trace->format->event(trace, event);
}

void trace_sample(struct trace *trace, const struct trace_event *event)
{
	trace->counts.samples++;
	if (trace->format->sample)
		trace->format->sample(trace, event);
	else
		trace->format->event(trace, event);
}

void trace_counter(struct trace *trace, const struct trace_track *track, int64_t time_ns, double value)
{
	if (!isfinite(value))
		return;
	trace->counts.values++;
	trace->format->counter(trace, track, time_ns, value);
}

void trace_arrow(struct trace *trace, const struct trace_end *from, const struct trace_end *to)
{
	trace->counts.arrows++;
	if (trace->format->arrow)
		trace->format->arrow(trace, from, to);
}

int trace_finish(struct trace *trace)
{
	timeline_trace_begin(trace);
	if (trace->format->end)
		trace->format->end(trace);
	if (!trace->error)
		trace->error = replace_written(trace->options.out);
	return trace->error;
}

const char *trace_clean(const char *text, char *buffer, size_t size)
{
	size_t left = strlen(text), used = 0;

	while (left > 0) {
		size_t n, step;
		bool control;

		/* Fast path: ASCII. */
		if (*text >= ' ' && *text < 0x7f && used + 1 < size) {
			buffer[used++] = *text++;
			left--;
			continue;
		}
		n = utf8_character((const unsigned char *)text, left);
		step = n ? n : 1;
		/* C0, DEL and C1 */
		control = n == 1 ? (unsigned char)*text < ' ' || *text == 0x7f
				 : n == 2 && (unsigned char)text[0] == 0xc2 && (unsigned char)text[1] < 0xa0;

		if (used + step >= size)
			break;
		if (n == 0 || control) {
			buffer[used++] = '?';
		} else {
			memcpy(buffer + used, text, n);
			used += n;
		}
		text += step;
		left -= step;
	}
	buffer[used] = 0;
	return buffer;
}
