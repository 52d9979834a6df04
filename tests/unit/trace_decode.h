/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads Perfetto's traces back, written from the wire format with nothing of the encoder: packets to tracks and events.
 * Fails the test on anything that a reader could not make sense of.
 */
#ifndef RANKTRACE_TESTS_TRACE_DECODE_H
#define RANKTRACE_TESTS_TRACE_DECODE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/utf8.h"

#include "tests/test.h"

#define DECODE_TRACKS 4096
#define DECODE_TEXTS 40000
#define DECODE_KINDS 32

enum { DECODE_BEGIN = 1, DECODE_END = 2, DECODE_INSTANT = 3, DECODE_COUNTER = 4, DECODE_SAMPLE = 100 };

struct decode_text {
	char *text[DECODE_TEXTS];
};

struct decode_track {
	uint64_t uuid, parent;
	char name[256];
	int64_t pid, tid; /* of processes and threads; else -1 */
	bool counter;
	int depth; /* of open slices */
	uint64_t open_ns[64];
};

struct decode_event {
	uint64_t time_ns, track, flow[4];
	unsigned type, flows, args;
	char name[256], category[64];
	char arg[512];	  /* "NAME=VALUE;" of each */
	char stack[1024]; /* "KIND FUNCTION;" of each frame */
	int64_t pid, tid; /* of a sample */
	double value;
	uint64_t end_ns; /* of a slice: UINT64_MAX, not ended. Filled by decode_nest() */
	size_t order;
};

struct decode {
	size_t tracks, events, packets, cleared, capacity;
	struct decode_track track[DECODE_TRACKS];
	struct decode_event *event;
	struct decode_text *texts; /* DECODE_KINDS */
};

struct decode_field {
	uint32_t number;
	uint64_t value;
	const uint8_t *data; /* of what has a length */
	size_t size;
};

static inline uint64_t decode_varint(const uint8_t **p, const uint8_t *end)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		assert_true(*p < end);
		value |= (uint64_t)(**p & 0x7f) << shift;
		if (!(*(*p)++ & 0x80))
			return value;
	}
	fail_msg("a varint has no end");
	return 0;
}

static inline bool decode_next(const uint8_t **p, const uint8_t *end, struct decode_field *ret)
{
	uint64_t tag;

	if (*p == end)
		return false;
	tag = decode_varint(p, end);
	*ret = (struct decode_field){.number = (uint32_t)(tag >> 3)};
	switch (tag & 7) {
	case 0:
		ret->value = decode_varint(p, end);
		return true;
	case 1:
		assert_true(end - *p >= 8);
		memcpy(&ret->value, *p, 8);
		*p += 8;
		return true;
	case 2:
		ret->size = decode_varint(p, end);
		assert_true(ret->size <= (size_t)(end - *p));
		ret->data = *p;
		*p += ret->size;
		return true;
	}
	fail_msg("wire type %u", (unsigned)(tag & 7));
	return false;
}

/* Valid UTF-8 with no control characters. */
static inline void decode_string(const struct decode_field *field, char *ret, size_t size)
{
	assert_true(field->size < size);
	for (size_t i = 0, n; i < field->size; i += n) {
		n = utf8_character(field->data + i, field->size - i);
		assert_true(n > 0 && field->data[i] >= ' ' && field->data[i] != 0x7f);
	}
	memcpy(ret, field->data, field->size);
	ret[field->size] = 0;
}

static inline const char *decode_text(const struct decode *d, unsigned kind, uint64_t number)
{
	assert_true(number > 0 && number < DECODE_TEXTS && d->texts[kind].text[number]);
	return d->texts[kind].text[number];
}

static inline void decode_forget(struct decode *d)
{
	for (size_t kind = 0; kind < DECODE_KINDS; kind++)
		for (size_t i = 0; i < DECODE_TEXTS; i++) {
			free(d->texts[kind].text[i]);
			d->texts[kind].text[i] = NULL;
		}
	d->cleared++;
}

/* A frame, a stack or a mapping, of numbers interned before or in this packet, as a text of these. */
static inline void decode_numbers(struct decode *d, unsigned kind, const struct decode_field *field, char text[1024])
{
	enum { FUNCTIONS = 5, FRAMES = 6, STACKS = 7, PATHS = 17, MAPPINGS = 19 };
	char before[1024];

	snprintf(before, sizeof(before), "%s", text);
	if (kind == FRAMES && field->number == 2)
		snprintf(text, 1024, "%.300s", decode_text(d, FUNCTIONS, field->value));
	else if (kind == FRAMES && field->number == 3)
		snprintf(text, 1024, "%s %.300s", decode_text(d, MAPPINGS, field->value), before);
	else if (kind == STACKS && field->number == 2)
		snprintf(text, 1024, "%.600s%.400s;", before, decode_text(d, FRAMES, field->value));
	else if (kind == MAPPINGS && field->number == 7)
		snprintf(text, 1024, "%.300s", decode_text(d, PATHS, field->value));
}

static inline void decode_interned(struct decode *d, const struct decode_field *data)
{
	const uint8_t *p = data->data, *end = p + data->size;
	struct decode_field kind, field;

	while (decode_next(&p, end, &kind)) {
		const uint8_t *q = kind.data, *stop = q + kind.size;
		char text[1024] = "";
		uint64_t number = 0;

		while (decode_next(&q, stop, &field)) {
			if (field.number == 1)
				number = field.value;
			else if (field.data)
				decode_string(&field, text, sizeof(text));
			else
				decode_numbers(d, kind.number, &field, text);
		}
		assert_true(kind.number < DECODE_KINDS && number > 0 && number < DECODE_TEXTS);
		assert_null(d->texts[kind.number].text[number]);
		d->texts[kind.number].text[number] = strdup(text);
	}
}

static inline struct decode_track *decode_track(struct decode *d, uint64_t uuid)
{
	for (size_t i = 0; i < d->tracks; i++)
		if (d->track[i].uuid == uuid)
			return &d->track[i];
	return NULL;
}

static inline void decode_process_or_thread(struct decode_track *track, const struct decode_field *data, bool thread)
{
	const uint8_t *p = data->data, *end = p + data->size;
	struct decode_field field;

	while (decode_next(&p, end, &field)) {
		if (field.number == 1)
			track->pid = (int64_t)field.value;
		else if (thread && field.number == 2)
			track->tid = (int64_t)field.value;
		else if (field.number == (thread ? 5 : 6))
			decode_string(&field, track->name, sizeof(track->name));
	}
}

static inline void decode_descriptor(struct decode *d, const struct decode_field *data)
{
	const uint8_t *p = data->data, *end = p + data->size;
	struct decode_track track = {.pid = -1, .tid = -1}, *known;
	struct decode_field field;

	while (decode_next(&p, end, &field)) {
		if (field.number == 1)
			track.uuid = field.value;
		else if (field.number == 2)
			decode_string(&field, track.name, sizeof(track.name));
		else if (field.number == 3 || field.number == 4)
			decode_process_or_thread(&track, &field, field.number == 4);
		else if (field.number == 5)
			track.parent = field.value;
		track.counter |= field.number == 8;
	}
	assert_true(track.uuid && (!track.parent || decode_track(d, track.parent)));
	known = decode_track(d, track.uuid);
	assert_true(known || d->tracks < DECODE_TRACKS);
	*(known ? known : &d->track[d->tracks++]) = track;
}

static inline void decode_arg(struct decode *d, struct decode_event *event, const struct decode_field *data)
{
	const uint8_t *p = data->data, *end = p + data->size;
	size_t used = strlen(event->arg);
	char value[8192] = "";
	const char *name = "";
	struct decode_field field;
	double real;

	while (decode_next(&p, end, &field)) {
		if (field.number == 1)
			name = decode_text(d, 3, field.value);
		else if (field.number == 4)
			snprintf(value, sizeof(value), "%lld", (long long)field.value);
		else if (field.number == 5)
			snprintf(value, sizeof(value), "%g", (memcpy(&real, &field.value, 8), real));
		else if (field.number == 6)
			decode_string(&field, value, sizeof(value));
		else if (field.number == 17)
			snprintf(value, sizeof(value), "%s", decode_text(d, 29, field.value));
	}
	event->args++;
	snprintf(event->arg + used, sizeof(event->arg) - used, "%s=%.200s;", name, value);
}

static inline void decode_add(struct decode *d, const struct decode_event *event)
{
	if (d->events == d->capacity) {
		d->capacity = d->capacity ? 2 * d->capacity : 1024;
		d->event = realloc(d->event, d->capacity * sizeof(*d->event));
		assert_non_null(d->event);
	}
	d->event[d->events++] = *event;
}

static inline void decode_event(struct decode *d, uint64_t time_ns, const struct decode_field *data)
{
	const uint8_t *p = data->data, *end = p + data->size;
	struct decode_event event = {.time_ns = time_ns, .end_ns = UINT64_MAX, .order = d->events};
	struct decode_field field;

	while (decode_next(&p, end, &field)) {
		if (field.number == 9)
			event.type = (unsigned)field.value;
		else if (field.number == 11)
			event.track = field.value;
		else if (field.number == 10)
			snprintf(event.name, sizeof(event.name), "%s", decode_text(d, 2, field.value));
		else if (field.number == 3)
			snprintf(event.category, sizeof(event.category), "%s", decode_text(d, 1, field.value));
		else if (field.number == 4)
			decode_arg(d, &event, &field);
		else if (field.number == 44)
			memcpy(&event.value, &field.value, 8);
		else if (field.number == 56)
			snprintf(event.stack, sizeof(event.stack), "%s", decode_text(d, 7, field.value));
		else if (field.number == 47)
			event.flow[event.flows++] = field.value;
	}
	assert_non_null(decode_track(d, event.track));
	assert_true(decode_track(d, event.track)->counter == (event.type == DECODE_COUNTER));
	decode_add(d, &event);
}

static inline void decode_sample(struct decode *d, uint64_t time_ns, const struct decode_field *data)
{
	const uint8_t *p = data->data, *end = p + data->size;
	struct decode_event event = {
		.type = DECODE_SAMPLE, .time_ns = time_ns, .end_ns = UINT64_MAX, .order = d->events};
	struct decode_field field;

	while (decode_next(&p, end, &field)) {
		if (field.number == 2)
			event.pid = (int64_t)field.value;
		else if (field.number == 3)
			event.tid = (int64_t)field.value;
		else if (field.number == 4)
			snprintf(event.stack, sizeof(event.stack), "%s", decode_text(d, 7, field.value));
	}
	decode_add(d, &event);
}

static inline void decode_packet(struct decode *d, const struct decode_field *data)
{
	struct decode_field field, event = {0}, track = {0}, interned = {0}, sample = {0};
	const uint8_t *p = data->data, *end = p + data->size;
	uint64_t time_ns = 0, flags = 0, sequence = 0;

	while (decode_next(&p, end, &field)) {
		if (field.number == 8)
			time_ns = field.value;
		else if (field.number == 10)
			sequence = field.value;
		else if (field.number == 13)
			flags = field.value;
		else if (field.number == 11)
			event = field;
		else if (field.number == 12)
			interned = field;
		else if (field.number == 60)
			track = field;
		else if (field.number == 66)
			sample = field;
	}
	assert_int_equal(sequence, 1);
	assert_true(d->packets++ > 0 || flags & 1);
	if (flags & 1)
		decode_forget(d);
	if (interned.data)
		decode_interned(d, &interned);
	if (track.data)
		decode_descriptor(d, &track);
	if (event.data)
		decode_event(d, time_ns, &event);
	if (sample.data)
		decode_sample(d, time_ns, &sample);
}

static inline int decode_by_time(const void *a, const void *b)
{
	const struct decode_event *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return (x->order > y->order) - (x->order < y->order);
}

/* Gives each slice its end, as a viewer does: events by time, a stack a track. */
static inline void decode_nest(struct decode *d)
{
	if (d->events)
		qsort(d->event, d->events, sizeof(*d->event), decode_by_time);
	for (size_t i = 0; i < d->events; i++) {
		struct decode_track *track = decode_track(d, d->event[i].track);

		if (d->event[i].type == DECODE_BEGIN) {
			assert_true(track->depth < 64);
			track->open_ns[track->depth++] = i;
		} else if (d->event[i].type == DECODE_END) {
			if (track->depth == 0)
				fail_msg("a slice of %s ends that did not begin", track->name);
			d->event[track->open_ns[--track->depth]].end_ns = d->event[i].time_ns;
		}
	}
}

static inline struct decode *decode_new(const void *data, size_t size)
{
	const uint8_t *p = data, *end = p + size;
	struct decode *d = calloc(1, sizeof(*d));
	struct decode_field field;

	assert_non_null(d);
	d->texts = calloc(DECODE_KINDS, sizeof(*d->texts));
	assert_non_null(d->texts);
	while (decode_next(&p, end, &field)) {
		assert_true(field.number == 1 && field.data);
		decode_packet(d, &field);
	}
	decode_nest(d);
	return d;
}

static inline void decode_free(struct decode *d)
{
	decode_forget(d);
	free(d->texts);
	free(d->event);
	free(d);
}

static inline size_t decode_count(const struct decode *d, unsigned type, const char *category)
{
	size_t n = 0;

	for (size_t i = 0; i < d->events; i++)
		n += d->event[i].type == type && (!category || strcmp(d->event[i].category, category) == 0);
	return n;
}

/* The first by time of that name, NULL if none. */
static inline const struct decode_event *decode_named(const struct decode *d, const char *name)
{
	for (size_t i = 0; i < d->events; i++)
		if (strcmp(d->event[i].name, name) == 0)
			return &d->event[i];
	return NULL;
}

/* Flows as viewers draw them: a chain of the slices of one number. */
static inline size_t decode_flows(const struct decode *d)
{
	size_t n = 0;

	for (size_t i = 0; i < d->events; i++)
		for (unsigned j = 0; j < d->event[i].flows; j++) {
			bool seen = false;

			for (size_t k = 0; k < i && !seen; k++)
				for (unsigned l = 0; l < d->event[k].flows; l++)
					seen |= d->event[k].flow[l] == d->event[i].flow[j];
			n += seen;
		}
	return n;
}

#endif
