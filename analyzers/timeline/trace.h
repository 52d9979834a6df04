/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace file being written: tracks, slices, instants, counters and flows, in one of two formats. Nothing is kept but
 * the interned texts of Perfetto's; events may come in any order of time, but those of one track by their start.
 *
 *  perfetto.c  Perfetto's protobuf (TracePacket of perfetto.dev, "Synthetic track events")
 *  chrome.c    the JSON of chrome://tracing ("Trace Event Format"), an object with traceEvents
 *
 * Texts may hold anything: what is written is valid UTF-8 without control characters, and cut. Times are ns since the
 * epoch; Chrome's file counts in microseconds from trace_options.base_ns.
 */
#ifndef RANKTRACE_TIMELINE_TRACE_H
#define RANKTRACE_TIMELINE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TRACE_ARGS_MAX 24
#define TRACE_FLOWS_MAX 2
#define TRACE_NAME_BYTES 192  /* longer names are cut */
#define TRACE_TEXT_BYTES 4096 /* texts of arguments, too */
#define TRACE_OPEN INT64_MAX  /* end_ns of a slice that had not ended */

enum trace_track_kind { TRACE_PROCESS, TRACE_THREAD, TRACE_SLICES, TRACE_COUNTER };

struct trace_track {
	enum trace_track_kind kind;
	uint64_t id;	 /* from 1 */
	uint64_t parent; /* id of the track that it lies below, 0: none */
	const char *name;
	const char *where; /* added to the name where a format knows no parents but processes; may be "" */
	const char *unit;  /* of a counter: "bytes", "ns" or any other */
	int64_t pid, tid;  /* tid of all but processes: the real one, or any that is free */
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

/* Start of an arrow from one slice to another, for formats that have no flows of more than two. */
struct trace_end {
	int64_t pid, tid, time_ns;
};

struct trace_event {
	const struct trace_track *track;
	const char *category, *name;
	int64_t start_ns, end_ns; /* of an instant both are the same */
	bool instant;
	size_t flows;
	uint64_t flow[TRACE_FLOWS_MAX]; /* slices with one number are joined */
	size_t args;
	struct trace_arg arg[TRACE_ARGS_MAX];
};

struct trace;

struct trace_options {
	FILE *out;
	int64_t base_ns;
	const char *title;
};

struct trace_counts {
	uint64_t tracks, slices, open, instants, values, arrows, bytes;
};

struct trace_format {
	const char *name;
	size_t state_size;
	void (*begin)(struct trace *trace);
	void (*track)(struct trace *trace, const struct trace_track *track);
	void (*event)(struct trace *trace, const struct trace_event *event);
	void (*counter)(struct trace *trace, const struct trace_track *track, int64_t time_ns, double value);
	/* An arrow; NULL where trace_event.flow is enough. */
	void (*arrow)(struct trace *trace, const struct trace_end *from, const struct trace_end *to);
	void (*end)(struct trace *trace);
	void (*close)(struct trace *trace);
};

extern const struct trace_format trace_perfetto, trace_chrome;

struct trace {
	const struct trace_format *format;
	struct trace_options options;
	struct trace_counts counts;
	bool begun;
	int error; /* negative errno of the first thing that failed; nothing is written after it */
	void *state;
};

/* 0 or -ENOMEM. Nothing is written before the first track. */
int trace_open(const struct trace_format *format, const struct trace_options *options, struct trace **ret);
/* Says a track: before its events, and after its parent. Said again, its name changes. */
void trace_track(struct trace *trace, const struct trace_track *track);
void trace_event(struct trace *trace, const struct trace_event *event);
void trace_counter(struct trace *trace, const struct trace_track *track, int64_t time_ns, double value);
void trace_arrow(struct trace *trace, const struct trace_end *from, const struct trace_end *to);
/* Writes what is left. 0, or what failed. */
int trace_finish(struct trace *trace);
struct trace *trace_close(struct trace *trace);

/* For the formats: bytes to the file; a text made clean and cut to size, which is returned. */
void trace_write(struct trace *trace, const void *data, size_t size);
const char *trace_clean(const char *text, char *buffer, size_t size);

#endif
