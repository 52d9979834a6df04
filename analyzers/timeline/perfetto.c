/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Perfetto's format: a file is a sequence of TracePacket messages. Field numbers are those of Perfetto's public .proto
 * files (trace_packet, track_event, track_descriptor, interned_data, debug_annotation, clock_snapshot, profile_common,
 * profile_packet). All packets
 * share one sequence, so texts are interned for the whole file. Readers sort packets by time.
 */
#include <errno.h>
#include <string.h>

#include "analyzers/base/text_pool.h"
#include "analyzers/timeline/trace.h"

#define SEQUENCE 1
#define VALUE_BYTES 64	   /* longer texts of arguments are not interned */
#define INTERNED_MAX 16384 /* texts; beyond them readers forget all */

enum { TRACE_PACKET = 1 };
enum packet_field {
	PACKET_CLOCKS = 6,
	PACKET_TIME = 8,
	PACKET_SEQUENCE = 10,
	PACKET_EVENT = 11,
	PACKET_INTERNED = 12,
	PACKET_FLAGS = 13,
	PACKET_TRACK = 60,
	PACKET_SAMPLE = 66,
	PACKET_FIRST = 87,
};
enum packet_flag { FLAG_CLEARED = 1, FLAG_NEEDS_STATE = 2 };
enum clocks_field { CLOCKS_CLOCK = 1, CLOCKS_PRIMARY = 2 };
enum clock_field { CLOCK_ID = 1, CLOCK_TIME = 2 };
enum clock_id { CLOCK_ID_UTC = 1, CLOCK_ID_BOOT = 6 };
enum track_field {
	DESCRIPTOR_UUID = 1,
	DESCRIPTOR_NAME = 2,
	DESCRIPTOR_PROCESS = 3,
	DESCRIPTOR_THREAD = 4,
	DESCRIPTOR_PARENT = 5,
	DESCRIPTOR_COUNTER_OF = 8,
	DESCRIPTOR_ORDERING = 11,
	DESCRIPTOR_RANK = 12,
};
enum { ORDERING_EXPLICIT = 3 };
enum process_field { PROCESS_PID = 1, PROCESS_NAME = 6 };
enum thread_field { THREAD_PID = 1, THREAD_TID = 2, THREAD_NAME = 5 };
enum counter_field { COUNTER_UNIT = 3, COUNTER_UNIT_NAME = 6 };
enum counter_unit { UNIT_TIME_NS = 1, UNIT_SIZE_BYTES = 3 };
enum event_field {
	EVENT_CATEGORY = 3,
	EVENT_ARG = 4,
	EVENT_TYPE = 9,
	EVENT_NAME = 10,
	EVENT_TRACK = 11,
	EVENT_DOUBLE = 44,
	EVENT_FLOW = 47,
	EVENT_STACK = 56,
};
enum event_type { TYPE_BEGIN = 1, TYPE_END = 2, TYPE_INSTANT = 3, TYPE_COUNTER = 4 };
enum arg_field { ARG_NAME = 1, ARG_INT = 4, ARG_DOUBLE = 5, ARG_TEXT = 6, ARG_TEXT_NUMBER = 17 };
enum interned_field { INTERNED_NUMBER = 1, INTERNED_TEXT = 2 };
enum sample_field { SAMPLE_PID = 2, SAMPLE_TID = 3, SAMPLE_STACK = 4, SAMPLE_MODE = 5 };
enum { MODE_USER = 2 };
enum frame_field { FRAME_FUNCTION = 2, FRAME_MAPPING = 3, FRAME_PLACE = 4 };
enum { STACK_FRAME = 2 };
enum { MAPPING_PATH = 7 };

/* Texts that are written once, with a number from 1 a kind. */
enum intern_kind {
	INTERN_CATEGORY,
	INTERN_NAME,
	INTERN_ARG,
	INTERN_VALUE,
	INTERN_FUNCTION,
	INTERN_FRAME,
	INTERN_STACK,
	INTERN_PATH,
	INTERN_MAPPING,
	INTERN_KINDS
};

static const uint32_t interned_fields[INTERN_KINDS] = {
	[INTERN_CATEGORY] = 1,
	[INTERN_NAME] = 2,
	[INTERN_ARG] = 3,
	[INTERN_VALUE] = 29,
	[INTERN_FUNCTION] = 5,
	[INTERN_FRAME] = 6,
	[INTERN_STACK] = 7,
	[INTERN_PATH] = 17,
	[INTERN_MAPPING] = 19,
};

struct perfetto {
	struct proto_writer packet, interned;
	struct text_pool *texts; /* kind and text */
	uint32_t known;		 /* of them */
	uint32_t number[INTERNED_MAX + 1], numbers[INTERN_KINDS];
	bool cleared; /* flag the next packet */
};

static void packet_start(struct perfetto *p, uint64_t time_ns)
{
	proto_reset(&p->packet);
	proto_reset(&p->interned);
	proto_uint(&p->packet, PACKET_TIME, time_ns);
	proto_uint(&p->packet, PACKET_SEQUENCE, SEQUENCE);
}

static void packet_write(struct trace *trace, struct perfetto *p)
{
	uint8_t head[1 + PROTO_VARINT_BYTES] = {TRACE_PACKET << 3 | 2};

	proto_uint(&p->packet, PACKET_FLAGS, FLAG_NEEDS_STATE | (p->cleared ? FLAG_CLEARED : 0));
	p->cleared = false;
	if (p->interned.size)
		proto_bytes(&p->packet, PACKET_INTERNED, p->interned.data, p->interned.size);
	if (p->packet.failed || p->interned.failed) {
		trace->error = trace->error ? trace->error : -EMSGSIZE;
		return;
	}
	trace_write(trace, head, 1 + proto_varint(head + 1, p->packet.size));
	trace_write(trace, p->packet.data, p->packet.size);
}

static void put_clock(struct perfetto *p, enum clock_id id, int64_t time_ns)
{
	size_t clock = proto_begin(&p->packet, CLOCKS_CLOCK);

	proto_uint(&p->packet, CLOCK_ID, id);
	proto_int(&p->packet, CLOCK_TIME, time_ns);
	proto_end(&p->packet, clock);
}

static void perfetto_forget(struct trace *trace, struct perfetto *p)
{
	text_pool_free(p->texts);
	p->texts = text_pool_new();
	if (!p->texts)
		trace->error = -ENOMEM;
	p->known = 0;
	memset(p->numbers, 0, sizeof(p->numbers));
	p->cleared = true;
}

/* Perfetto's timestamps are of the boot clock: declared equal to UTC. */
static void perfetto_begin(struct trace *trace)
{
	struct perfetto *p = trace->state;
	int64_t base_ns = trace->options.base_ns;
	size_t clocks;

	perfetto_forget(trace, p);
	if (trace->error)
		return;
	packet_start(p, (uint64_t)base_ns);
	proto_uint(&p->packet, PACKET_FIRST, 1);
	clocks = proto_begin(&p->packet, PACKET_CLOCKS);
	put_clock(p, CLOCK_ID_BOOT, base_ns);
	put_clock(p, CLOCK_ID_UTC, base_ns);
	proto_uint(&p->packet, CLOCKS_PRIMARY, CLOCK_ID_BOOT);
	proto_end(&p->packet, clocks);
	packet_write(trace, p);
}

static void put_process(struct perfetto *p, const struct trace_track *track, const char *name)
{
	size_t process = proto_begin(&p->packet, DESCRIPTOR_PROCESS);

	proto_int(&p->packet, PROCESS_PID, track->pid);
	proto_text(&p->packet, PROCESS_NAME, name);
	proto_end(&p->packet, process);
	proto_uint(&p->packet, DESCRIPTOR_ORDERING, ORDERING_EXPLICIT);
}

static void timeline_perfetto_put_thread(struct perfetto *p, const struct trace_track *track, const char *name)
{
	size_t thread = proto_begin(&p->packet, DESCRIPTOR_THREAD);

	proto_int(&p->packet, THREAD_PID, track->pid);
	proto_int(&p->packet, THREAD_TID, track->tid);
	proto_text(&p->packet, THREAD_NAME, name);
	proto_end(&p->packet, thread);
	proto_uint(&p->packet, DESCRIPTOR_ORDERING, ORDERING_EXPLICIT);
}

static void put_counter(struct perfetto *p, const struct trace_track *track, const char *name)
{
	size_t counter;

	proto_text(&p->packet, DESCRIPTOR_NAME, name);
	counter = proto_begin(&p->packet, DESCRIPTOR_COUNTER_OF);
	if (strcmp(track->unit, "ns") == 0)
		proto_uint(&p->packet, COUNTER_UNIT, UNIT_TIME_NS);
	else if (strcmp(track->unit, "bytes") == 0)
		proto_uint(&p->packet, COUNTER_UNIT, UNIT_SIZE_BYTES);
	else
		proto_text(&p->packet, COUNTER_UNIT_NAME, track->unit);
	proto_end(&p->packet, counter);
}

static void put_slices(struct perfetto *p, const struct trace_track *track, const char *name)
{
	proto_text(&p->packet, DESCRIPTOR_NAME, name);
}

static void perfetto_track(struct trace *trace, const struct trace_track *track)
{
	static void (*const put[])(struct perfetto *, const struct trace_track *, const char *) = {
		[TRACE_PROCESS] = put_process,
		[TRACE_THREAD] = timeline_perfetto_put_thread,
		[TRACE_SLICES] = put_slices,
		[TRACE_COUNTER] = put_counter,
	};
	struct perfetto *p = trace->state;
	char name[TRACE_NAME_BYTES];
	size_t descriptor;

	packet_start(p, (uint64_t)trace->options.base_ns);
	descriptor = proto_begin(&p->packet, PACKET_TRACK);
	proto_uint(&p->packet, DESCRIPTOR_UUID, track->id);
	if (track->parent)
		proto_uint(&p->packet, DESCRIPTOR_PARENT, track->parent);
	if (track->rank)
		proto_int(&p->packet, DESCRIPTOR_RANK, track->rank);
	put[track->kind](p, track, trace_clean(track->name, name, sizeof(name)));
	proto_end(&p->packet, descriptor);
	packet_write(trace, p);
}

/* Number of a clean text or key. True: it is new, and to be defined in this packet, between begin and proto_end(). */
static bool perfetto_intern(struct perfetto *p, enum intern_kind kind, const char *text, uint64_t *ret)
{
	char key[1 + TRACE_TEXT_BYTES];
	uint32_t at;

	snprintf(key, sizeof(key), "%c%s", 'A' + (int)kind, text);
	at = text_pool_number(p->texts, key);
	if (at > p->known && at <= INTERNED_MAX) {
		p->known = at;
		*ret = p->number[at] = ++p->numbers[kind];
		return true;
	}
	if (!at || at > INTERNED_MAX)
		p->interned.failed = true;
	*ret = at <= INTERNED_MAX ? p->number[at] : 0;
	return false;
}

static size_t perfetto_define(struct perfetto *p, enum intern_kind kind, uint64_t number)
{
	size_t place = proto_begin(&p->interned, interned_fields[kind]);

	proto_uint(&p->interned, INTERNED_NUMBER, number);
	return place;
}

static uint64_t timeline_perfetto_number_of(struct perfetto *p, enum intern_kind kind, const char *text)
{
	uint64_t number;

	if (perfetto_intern(p, kind, text, &number)) {
		size_t place = perfetto_define(p, kind, number);

		proto_text(&p->interned, INTERNED_TEXT, text);
		proto_end(&p->interned, place);
	}
	return number;
}

static void put_arg(struct perfetto *p, const struct trace_arg *arg)
{
	char text[TRACE_TEXT_BYTES];
	size_t place = proto_begin(&p->packet, EVENT_ARG);

	proto_uint(&p->packet, ARG_NAME,
		timeline_perfetto_number_of(p, INTERN_ARG, trace_clean(arg->name, text, VALUE_BYTES)));
	if (arg->type == TRACE_INT) {
		proto_int(&p->packet, ARG_INT, arg->integer);
	} else if (arg->type == TRACE_REAL) {
		proto_double(&p->packet, ARG_DOUBLE, arg->real);
	} else {
		trace_clean(arg->text, text, sizeof(text));
		if (strlen(text) < VALUE_BYTES)
			proto_uint(&p->packet, ARG_TEXT_NUMBER, timeline_perfetto_number_of(p, INTERN_VALUE, text));
		else
			proto_text(&p->packet, ARG_TEXT, text);
	}
	proto_end(&p->packet, place);
}

/* The kind of code as a mapping, which readers show beside the function. */
static uint64_t perfetto_mapping(struct perfetto *p, const char *kind)
{
	uint64_t path = timeline_perfetto_number_of(p, INTERN_PATH, kind), number;

	if (perfetto_intern(p, INTERN_MAPPING, kind, &number)) {
		size_t place = perfetto_define(p, INTERN_MAPPING, number);

		proto_uint(&p->interned, MAPPING_PATH, path);
		proto_end(&p->interned, place);
	}
	return number;
}

static uint64_t perfetto_frame(struct perfetto *p, const struct stack_frame *frame)
{
	char kind[VALUE_BYTES], place_text[STACK_PLACE_BYTES], text[TRACE_NAME_BYTES],
		key[VALUE_BYTES + TRACE_NAME_BYTES];
	uint64_t mapping, function, number;
	size_t place;

	trace_clean(frame->kind, kind, sizeof(kind));
	trace_clean(stack_frame_text(frame, false, place_text, sizeof(place_text)), text, sizeof(text));
	snprintf(key, sizeof(key), "%s %s", kind, text);
	if (!perfetto_intern(p, INTERN_FRAME, key, &number))
		return number;
	mapping = perfetto_mapping(p, kind);
	function = timeline_perfetto_number_of(p, INTERN_FUNCTION, text);
	place = perfetto_define(p, INTERN_FRAME, number);
	proto_uint(&p->interned, FRAME_FUNCTION, function);
	proto_uint(&p->interned, FRAME_MAPPING, mapping);
	proto_uint(&p->interned, FRAME_PLACE, frame->line);
	proto_end(&p->interned, place);
	return number;
}

static uint64_t perfetto_stack(struct perfetto *p, const struct trace_event *event)
{
	uint64_t frame[TRACE_FRAMES_MAX], number;
	char key[24];
	size_t place;

	snprintf(key, sizeof(key), "%lld", (long long)event->stack);
	if (!perfetto_intern(p, INTERN_STACK, key, &number))
		return number;
	for (size_t i = 0; i < event->frames; i++)
		frame[i] = perfetto_frame(p, &event->frame[i]);
	place = perfetto_define(p, INTERN_STACK, number);
	for (size_t i = 0; i < event->frames; i++)
		proto_uint(&p->interned, STACK_FRAME, frame[i]);
	proto_end(&p->interned, place);
	return number;
}

static void put_event(struct perfetto *p, const struct trace_event *event)
{
	char text[TRACE_NAME_BYTES];
	size_t place = proto_begin(&p->packet, PACKET_EVENT);

	proto_uint(&p->packet, EVENT_TYPE, event->instant ? TYPE_INSTANT : TYPE_BEGIN);
	proto_uint(&p->packet, EVENT_TRACK, event->track->id);
	proto_uint(&p->packet, EVENT_NAME,
		timeline_perfetto_number_of(p, INTERN_NAME, trace_clean(event->name, text, sizeof(text))));
	proto_uint(&p->packet, EVENT_CATEGORY,
		timeline_perfetto_number_of(p, INTERN_CATEGORY, trace_clean(event->category, text, VALUE_BYTES)));
	for (size_t i = 0; i < event->flows; i++)
		proto_fixed64(&p->packet, EVENT_FLOW, event->flow[i]);
	if (event->frames)
		proto_uint(&p->packet, EVENT_STACK, perfetto_stack(p, event));
	for (size_t i = 0; i < event->args; i++)
		put_arg(p, &event->arg[i]);
	proto_end(&p->packet, place);
}

/* A packet in which all texts of an event fit; false: the trace has failed. */
static bool perfetto_start(struct trace *trace, struct perfetto *p, const struct trace_event *event)
{
	if (!trace->error && 2 + 2 * TRACE_ARGS_MAX + 1 + 4 * event->frames > INTERNED_MAX - p->known)
		perfetto_forget(trace, p);
	if (!trace->error)
		packet_start(p, (uint64_t)event->start_ns);
	return !trace->error;
}

static void perfetto_event(struct trace *trace, const struct trace_event *event)
{
	struct perfetto *p = trace->state;
	size_t place;

	if (!perfetto_start(trace, p, event))
		return;
	put_event(p, event);
	packet_write(trace, p);
	if (event->instant || event->end_ns == TRACE_OPEN)
		return;
	packet_start(p, (uint64_t)event->end_ns);
	place = proto_begin(&p->packet, PACKET_EVENT);
	proto_uint(&p->packet, EVENT_TYPE, TYPE_END);
	proto_uint(&p->packet, EVENT_TRACK, event->track->id);
	proto_end(&p->packet, place);
	packet_write(trace, p);
}

static void perfetto_sample(struct trace *trace, const struct trace_event *event)
{
	struct perfetto *p = trace->state;
	size_t place;

	if (!perfetto_start(trace, p, event))
		return;
	place = proto_begin(&p->packet, PACKET_SAMPLE);
	proto_int(&p->packet, SAMPLE_PID, event->track->pid);
	proto_int(&p->packet, SAMPLE_TID, event->track->tid);
	proto_uint(&p->packet, SAMPLE_STACK, perfetto_stack(p, event));
	proto_uint(&p->packet, SAMPLE_MODE, MODE_USER);
	proto_end(&p->packet, place);
	packet_write(trace, p);
}

static void perfetto_counter(struct trace *trace, const struct trace_track *track, int64_t time_ns, double value)
{
	struct perfetto *p = trace->state;
	size_t place;

	packet_start(p, (uint64_t)time_ns);
	place = proto_begin(&p->packet, PACKET_EVENT);
	proto_uint(&p->packet, EVENT_TYPE, TYPE_COUNTER);
	proto_uint(&p->packet, EVENT_TRACK, track->id);
	proto_double(&p->packet, EVENT_DOUBLE, value);
	proto_end(&p->packet, place);
	packet_write(trace, p);
}

static void perfetto_close(struct trace *trace)
{
	struct perfetto *p = trace->state;

	text_pool_free(p->texts);
}

const struct trace_format trace_perfetto = {
	.name = "perfetto",
	.state_size = sizeof(struct perfetto),
	.begin = perfetto_begin,
	.track = perfetto_track,
	.event = perfetto_event,
	.sample = perfetto_sample,
	.counter = perfetto_counter,
	.close = perfetto_close,
};
