/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An answer of the store as it arrives: samples are the elements of the array three levels deep, data.result. Each is parsed
 * alone and passed on, so that memory does not grow with their number. The rest is the envelope, which says whether the
 * query succeeded.
 */
#ifndef RANKTRACE_FLEET_FLEET_STREAM_H
#define RANKTRACE_FLEET_FLEET_STREAM_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define FLEET_STREAM_ENVELOPE 4096   /* bytes; what is longer is cut, and then no JSON */
#define FLEET_STREAM_SAMPLE (64 << 10) /* bytes; the daemon's longest sample, of a finding, has 3 KiB */

/* Of one sample: its labels and its value, which is finite. 0, or a negative errno that ends the reading. */
typedef int (*fleet_sample)(void *arg, const json_t *labels, double value);

struct fleet_stream {
	fleet_sample sample;
	void *arg;
	unsigned depth; /* of brackets */
	bool text, escaped; /* within a string, behind a backslash */
	size_t envelope_used, sample_used;
	char envelope[FLEET_STREAM_ENVELOPE + 1], buffer[FLEET_STREAM_SAMPLE];
};

void fleet_stream_begin(struct fleet_stream *stream, fleet_sample sample, void *arg);
/* 0; -EPROTO: a sample that is no JSON or too long; what the callback returned. */
int fleet_stream_feed(struct fleet_stream *stream, const char *data, size_t size);
/* The envelope without the samples; the caller releases it. NULL: it is no JSON. */
json_t *fleet_stream_end(const struct fleet_stream *stream);

#endif
