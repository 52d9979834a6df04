/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/fleet/fleet_store.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define STREAM_RESULT 3 /* depth of what is between the samples: the root, data, result */

void fleet_stream_begin(struct fleet_stream *stream, fleet_sample sample, void *arg)
{
	stream->sample = sample;
	stream->arg = arg;
	stream->depth = 0;
	stream->text = stream->escaped = false;
	stream->envelope_used = stream->sample_used = 0;
}

/* A number as text; false: none, or not finite. */
static bool fleet_stream_value(const json_t *sample, double *ret)
{
	const char *text = json_string_value(json_array_get(json_object_get(sample, "value"), 1));
	char *end;

	if (!text || !*text)
		return false;
	*ret = strtod(text, &end);
	return !*end && isfinite(*ret);
}

static int fleet_stream_sample(struct fleet_stream *stream)
{
	json_t *sample = json_loadb(stream->buffer, stream->sample_used, 0, NULL);
	double value;
	int r = 0;

	stream->sample_used = 0;
	if (!sample)
		return -EPROTO;
	if (fleet_stream_value(sample, &value))
		r = stream->sample(stream->arg, json_object_get(sample, "metric"), value);
	json_decref(sample);
	return r;
}

static void fleet_stream_text(struct fleet_stream *stream, char byte)
{
	if (stream->escaped)
		stream->escaped = false;
	else if (byte == '\\')
		stream->escaped = true;
	else
		stream->text = byte != '"';
}

/* Before the byte is kept: brackets that open count; true: it belongs to a sample. */
static bool fleet_stream_inside(struct fleet_stream *stream, char byte)
{
	bool inside = stream->depth > STREAM_RESULT;

	if (stream->text) {
		fleet_stream_text(stream, byte);
	} else if (byte == '"') {
		stream->text = true;
	} else if (byte == '{' || byte == '[') {
		inside = ++stream->depth > STREAM_RESULT;
	} else if ((byte == '}' || byte == ']') && stream->depth) {
		stream->depth--;
	}
	return inside;
}

int fleet_stream_feed(struct fleet_stream *stream, const char *data, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (fleet_stream_inside(stream, data[i])) {
			int r = 0;

			if (stream->sample_used == sizeof(stream->buffer))
				return -EPROTO;
			stream->buffer[stream->sample_used++] = data[i];
			if (stream->depth == STREAM_RESULT)
				r = fleet_stream_sample(stream);
			if (r < 0)
				return r;
		} else if (stream->envelope_used < sizeof(stream->envelope) &&
			   (stream->depth != STREAM_RESULT || stream->text || data[i] != ',')) {
			stream->envelope[stream->envelope_used++] = data[i];
		}
	}
	return 0;
}

json_t *fleet_stream_end(const struct fleet_stream *stream)
{
	/* One byte more than may be used is kept if it was cut. */
	if (stream->envelope_used > FLEET_STREAM_ENVELOPE)
		return NULL;
	return json_loadb(stream->envelope, stream->envelope_used, 0, NULL);
}
