/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a trace file: tracks, slices, instants, counters and flows, in one of two formats. Keeps only Perfetto's
 * interned texts; events may come in any order, those of one track by their start.
 *
 *  perfetto.c  Perfetto's protobuf (TracePacket of perfetto.dev, "Synthetic track events")
 *  chrome.c    the JSON of chrome://tracing ("Trace Event Format"), an object with traceEvents
 *
 * Texts are untrusted: written as valid UTF-8 without control characters, cut. Times are ns since the epoch; Chrome's
 * file counts microseconds from trace_options.base_ns.
 */
#ifndef RANKTRACE_TIMELINE_TRACE_H
#define RANKTRACE_TIMELINE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "analyzers/base/stack.h"

#define TRACE_ARGS_MAX 24
#define TRACE_FLOWS_MAX 2
#define TRACE_FRAMES_MAX 256  /* of a stack: with texts of their full length they fit a packet */
#define TRACE_NAME_BYTES 192  /* longer names are cut */
#define TRACE_TEXT_BYTES 4096 /* the same for arguments */
#define TRACE_OPEN INT64_MAX  /* end_ns of an open slice */

enum trace_track_kind { TRACE_PROCESS, TRACE_THREAD, TRACE_SLICES, TRACE_COUNTER };

struct trace_track {
	enum trace_track_kind kind;
	uint64_t id;	 /* from 1 */
	uint64_t parent; /* id, 0: none */
	const char *name;
	const char *where; /* suffix for formats without nested tracks; may be "" */
	const char *unit;  /* of a counter: "bytes", "ns", ... */
	int64_t pid, tid;  /* tid: real or unused; not of processes */
	int rank;	   /* order among its siblings */
};

enum trace_type { TRACE_INT, TRACE_REAL, TRACE_TEXT };

struct trace_arg {
	const char *name;
	enum trace_type type;
	union {
		int64_t integer;
		double real;
		const char *text;
	};
};

/* End of an arrow, for formats with pairwise flows. */
struct trace_end {
	int64_t pid, tid, time_ns;
};

struct trace_event {
	const struct trace_track *track;
	const char *category, *name;
	int64_t start_ns, end_ns; /* equal for an instant */
	bool instant;
	size_t flows;
	uint64_t flow[TRACE_FLOWS_MAX]; /* slices with equal numbers are joined */
	size_t args;
	struct trace_arg arg[TRACE_ARGS_MAX];
	int64_t stack;			 /* equal stacks have equal numbers */
	size_t frames;			 /* 0: no stack */
	const struct stack_frame *frame; /* outermost first */
};

struct trace;

struct trace_options {
	FILE *out;
	int64_t base_ns;
	const char *title;
};

struct trace_counts {
	uint64_t tracks, slices, open, instants, samples, values, arrows, bytes;
};

struct trace_format {
	const char *name;
	size_t state_size;
	void (*begin)(struct trace *trace);
	void (*track)(struct trace *trace, const struct trace_track *track);
	void (*event)(struct trace *trace, const struct trace_event *event);
	/* NULL: an instant. */
	void (*sample)(struct trace *trace, const struct trace_event *event);
	void (*counter)(struct trace *trace, const struct trace_track *track, int64_t time_ns, double value);
	/* NULL: the format uses trace_event.flow. */
	void (*arrow)(struct trace *trace, const struct trace_end *from, const struct trace_end *to);
	/* NULL: nothing to do. */
	void (*end)(struct trace *trace);
	void (*close)(struct trace *trace);
};

extern const struct trace_format trace_perfetto, trace_chrome;

struct trace {
	const struct trace_format *format;
	struct trace_options options;
	struct trace_counts counts;
	bool begun;
	int error; /* first negative errno; nothing is written after it */
	void *state;
};

/* 0 or -ENOMEM. Nothing is written before the first track. */
int trace_open(const struct trace_format *format, const struct trace_options *options, struct trace **ret);
/* Before its events and after its parent; repeat to rename. */
void trace_track(struct trace *trace, const struct trace_track *track);
void trace_event(struct trace *trace, const struct trace_event *event);
/* A stack of a thread, whose track is the event's, on a CPU. */
void trace_sample(struct trace *trace, const struct trace_event *event);
void trace_counter(struct trace *trace, const struct trace_track *track, int64_t time_ns, double value);
void trace_arrow(struct trace *trace, const struct trace_end *from, const struct trace_end *to);
/* 0, or the error. */
int trace_finish(struct trace *trace);
struct trace *trace_close(struct trace *trace);

/* For the formats: writes bytes; sanitizes a text into buffer, which is returned. */
void trace_write(struct trace *trace, const void *data, size_t size);
const char *trace_clean(const char *text, char *buffer, size_t size);

/*
 * Writes messages in protobuf's wire format: varints, doubles, fixed64, bytes and nested messages. The caller knows the
 * field numbers. One reused buffer; on overflow `failed` is set and the message must be discarded.
 */

#define PROTO_BYTES_MAX 131072 /* of a message, so that lengths take at most 4 bytes */

struct proto_writer {
	uint8_t data[PROTO_BYTES_MAX];
	size_t size;
	bool failed;
};

#define PROTO_VARINT_BYTES 10 /* at most */

/* Returns how many bytes it has. */
static inline size_t proto_varint(uint8_t *ret, uint64_t value)
{
	size_t n = 0;

	for (; value >= 0x80; value >>= 7)
		ret[n++] = (uint8_t)(value | 0x80);
	ret[n++] = (uint8_t)value;
	return n;
}

void proto_reset(struct proto_writer *writer);
void proto_uint(struct proto_writer *writer, uint32_t field, uint64_t value);
/* int32 and int64: negative values take ten bytes. */
void proto_int(struct proto_writer *writer, uint32_t field, int64_t value);
void proto_double(struct proto_writer *writer, uint32_t field, double value);
void proto_fixed64(struct proto_writer *writer, uint32_t field, uint64_t value);
void proto_bytes(struct proto_writer *writer, uint32_t field, const void *data, size_t size);
void proto_text(struct proto_writer *writer, uint32_t field, const char *text);
/* A nested message: pass the result of begin to end. */
size_t proto_begin(struct proto_writer *writer, uint32_t field);
void proto_end(struct proto_writer *writer, size_t place);

#endif
