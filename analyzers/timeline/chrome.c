/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON of chrome://tracing. It has processes and threads only: a track below a thread is a thread with an unused
 * number. Written without a library, line by line, as a trace exceeds memory; all foreign texts pass put_text().
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "analyzers/timeline/trace.h"

#define TIMES "Chrome's times are in microseconds from base_ns of otherData"

struct chrome {
	bool some; /* a line has been written */
	uint64_t arrows;
};

static void timeline_chrome_put(struct trace *trace, const char *text)
{
	trace_write(trace, text, strlen(text));
}

static void put_text(struct trace *trace, const char *text, size_t size)
{
	char clean[TRACE_TEXT_BYTES], escaped[2 * TRACE_TEXT_BYTES + 2];
	size_t n = 0;

	trace_clean(text, clean, size < sizeof(clean) ? size : sizeof(clean));
	escaped[n++] = '"';
	for (const char *c = clean; *c; c++) {
		if (*c == '"' || *c == '\\')
			escaped[n++] = '\\';
		escaped[n++] = *c;
	}
	escaped[n++] = '"';
	trace_write(trace, escaped, n);
}

static void __attribute__((format(printf, 2, 3))) chrome_print(struct trace *trace, const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	timeline_chrome_put(trace, text);
}

/* Microseconds with three decimals: a double lacks the digits. */
static void put_us(struct trace *trace, const char *name, int64_t ns)
{
	uint64_t digits = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;

	chrome_print(trace, ",\"%s\":%s%" PRIu64 ".%03" PRIu64, name, ns < 0 ? "-" : "", digits / 1000, digits % 1000);
}

static void timeline_chrome_line(struct trace *trace, const char *phase, int64_t pid, int64_t tid)
{
	struct chrome *c = trace->state;

	chrome_print(trace, "%s{\"ph\":\"%s\",\"pid\":%" PRId64 ",\"tid\":%" PRId64, c->some ? ",\n" : "\n", phase, pid,
		tid);
	c->some = true;
}

static void put_real(struct trace *trace, double value)
{
	if (isfinite(value))
		chrome_print(trace, "%.17g", value);
	else
		timeline_chrome_put(trace, "null");
}

static void chrome_begin(struct trace *trace)
{
	chrome_print(trace,
		"{\"displayTimeUnit\":\"ns\",\"otherData\":{\"base_ns\":\"%" PRId64 "\",\"times\":\"%s\",\"title\":",
		trace->options.base_ns, TIMES);
	put_text(trace, trace->options.title, TRACE_NAME_BYTES);
	timeline_chrome_put(trace, "},\"traceEvents\":[");
}

static void chrome_metadata(struct trace *trace, const struct trace_track *track, const char *what, const char *name)
{
	timeline_chrome_line(trace, "M", track->pid, track->kind == TRACE_PROCESS ? 0 : track->tid);
	chrome_print(trace, ",\"name\":\"%s\",\"args\":{\"name\":", what);
	put_text(trace, name, TRACE_NAME_BYTES);
	timeline_chrome_put(trace, "}}");
}

static void put_order(struct trace *trace, const struct trace_track *track, const char *what)
{
	timeline_chrome_line(trace, "M", track->pid, track->kind == TRACE_PROCESS ? 0 : track->tid);
	chrome_print(trace, ",\"name\":\"%s\",\"args\":{\"sort_index\":%d}}", what, track->rank);
}

static const char *full_name(const struct trace_track *track, char buffer[2 * TRACE_NAME_BYTES])
{
	snprintf(buffer, 2 * TRACE_NAME_BYTES, track->where[0] ? "%.190s (%.180s)" : "%.190s", track->name,
		track->where);
	return buffer;
}

static void chrome_track(struct trace *trace, const struct trace_track *track)
{
	bool process = track->kind == TRACE_PROCESS;
	char name[2 * TRACE_NAME_BYTES];

	if (track->kind == TRACE_COUNTER)
		return;
	chrome_metadata(trace, track, process ? "process_name" : "thread_name", full_name(track, name));
	put_order(trace, track, process ? "process_sort_index" : "thread_sort_index");
}

/* "main (a.py:1);f (a.py:5)", as much as fits of the innermost. */
static void put_stack(struct trace *trace, const struct trace_event *event)
{
	char text[TRACE_TEXT_BYTES] = "", place[TRACE_NAME_BYTES];
	size_t first = event->frames, used = 0;

	while (first > 0) {
		used += strlen(stack_frame_text(&event->frame[first - 1], false, place, sizeof(place))) + 1;
		if (used >= sizeof(text))
			break;
		first--;
	}
	used = 0;
	for (size_t i = first; i < event->frames; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i > first ? ";" : "",
			stack_frame_text(&event->frame[i], false, place, sizeof(place)));
	timeline_chrome_put(trace, event->args ? ",\"stack\":" : "\"stack\":");
	put_text(trace, text, sizeof(text));
}

static void put_args(struct trace *trace, const struct trace_event *event)
{
	timeline_chrome_put(trace, ",\"args\":{");
	for (size_t i = 0; i < event->args; i++) {
		const struct trace_arg *arg = &event->arg[i];

		if (i > 0)
			timeline_chrome_put(trace, ",");
		put_text(trace, arg->name, TRACE_NAME_BYTES);
		timeline_chrome_put(trace, ":");
		if (arg->type == TRACE_INT)
			chrome_print(trace, "%" PRId64, arg->integer);
		else if (arg->type == TRACE_REAL)
			put_real(trace, arg->real);
		else
			put_text(trace, arg->text, TRACE_TEXT_BYTES);
	}
	if (event->frames)
		put_stack(trace, event);
	timeline_chrome_put(trace, "}}");
}

static void chrome_event(struct trace *trace, const struct trace_event *event)
{
	bool open = event->end_ns == TRACE_OPEN;

	timeline_chrome_line(trace, event->instant ? "i" : open ? "B" : "X", event->track->pid, event->track->tid);
	put_us(trace, "ts", event->start_ns - trace->options.base_ns);
	if (event->instant)
		timeline_chrome_put(trace, ",\"s\":\"t\"");
	else if (!open)
		put_us(trace, "dur", event->end_ns - event->start_ns);
	timeline_chrome_put(trace, ",\"name\":");
	put_text(trace, event->name, TRACE_NAME_BYTES);
	timeline_chrome_put(trace, ",\"cat\":");
	put_text(trace, event->category, TRACE_NAME_BYTES);
	put_args(trace, event);
}

static void chrome_counter(struct trace *trace, const struct trace_track *track, int64_t time_ns, double value)
{
	char name[2 * TRACE_NAME_BYTES];

	timeline_chrome_line(trace, "C", track->pid, track->tid);
	put_us(trace, "ts", time_ns - trace->options.base_ns);
	timeline_chrome_put(trace, ",\"name\":");
	put_text(trace, full_name(track, name), sizeof(name));
	timeline_chrome_put(trace, ",\"args\":{");
	put_text(trace, track->unit, TRACE_NAME_BYTES);
	timeline_chrome_put(trace, ":");
	put_real(trace, value);
	timeline_chrome_put(trace, "}}");
}

static void put_arrow_end(struct trace *trace, const char *phase, const struct trace_end *end, uint64_t number)
{
	timeline_chrome_line(trace, phase, end->pid, end->tid);
	put_us(trace, "ts", end->time_ns - trace->options.base_ns);
	chrome_print(trace, ",\"id\":%" PRIu64 ",\"name\":\"joined\",\"cat\":\"flow\"%s}", number,
		*phase == 'f' ? ",\"bp\":\"e\"" : "");
}

static void chrome_arrow(struct trace *trace, const struct trace_end *from, const struct trace_end *to)
{
	struct chrome *c = trace->state;

	c->arrows++;
	put_arrow_end(trace, "s", from, c->arrows);
	put_arrow_end(trace, "f", to, c->arrows);
}

static void chrome_end(struct trace *trace)
{
	timeline_chrome_put(trace, "\n]}\n");
}

const struct trace_format trace_chrome = {
	.name = "chrome",
	.state_size = sizeof(struct chrome),
	.begin = chrome_begin,
	.track = chrome_track,
	.event = chrome_event,
	.counter = chrome_counter,
	.arrow = chrome_arrow,
	.end = chrome_end,
};
