/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof's protobuf (profile.proto of github.com/google/pprof), gzipped: samples with their number and ns, and the
 * labels rank, thread, stage and cpu. A message is a row of fields, so that each is written on its own.
 */
#include "analyzers/flame/flame.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "analyzers/timeline/trace.h"

enum { /* of Profile */
	PPROF_SAMPLE_TYPE = 1,
	PPROF_SAMPLE = 2,
	PPROF_LOCATION = 4,
	PPROF_FUNCTION = 5,
	PPROF_STRING = 6,
	PPROF_TIME_NS = 9,
	PPROF_DURATION_NS = 10,
	PPROF_PERIOD_TYPE = 11,
	PPROF_PERIOD = 12,
};

/* Texts that come first; 0 is "". Then, of each frame, its function and file. Then those of labels. */
enum {
	TEXT_NONE,
	TEXT_SAMPLES,
	TEXT_COUNT,
	TEXT_TIME,
	TEXT_NS,
	TEXT_RANK,
	TEXT_THREAD,
	TEXT_STAGE,
	TEXT_CPU,
	TEXT_ON,
	TEXT_OFF,
	TEXT_CPU_TIME,
	TEXTS
};
static const char *const texts[TEXTS] = {
	"", "samples", "count", "time", "nanoseconds", "rank", "thread", "stage", "cpu", "on", "off", "cpu"};
static const char *const texts_memory[TEXTS] = {
	[TEXT_SAMPLES] = "objects", [TEXT_TIME] = "space", [TEXT_NS] = "bytes", [TEXT_CPU_TIME] = "space"};

struct pprof {
	const struct flame_view *view;
	struct proto_writer writer;
	gzFile out;
	uint64_t texts; /* written */
	uint64_t frames;
	bool failed;
	const char *thread, *stage; /* of the last sample, and their texts */
	uint64_t thread_text, stage_text;
};

static void flame_pprof_put(struct pprof *p)
{
	if (p->writer.failed || gzwrite(p->out, p->writer.data, (unsigned)p->writer.size) != (int)p->writer.size)
		p->failed = true;
	proto_reset(&p->writer);
}

static uint64_t flame_pprof_text(struct pprof *p, const char *text)
{
	char clean[TRACE_TEXT_BYTES];

	proto_text(&p->writer, PPROF_STRING, trace_clean(text, clean, sizeof(clean)));
	flame_pprof_put(p);
	return p->texts++;
}

static void flame_pprof_number(struct pprof *p, uint32_t field, int64_t value)
{
	proto_int(&p->writer, field, value);
	flame_pprof_put(p);
}

static void flame_pprof_type(struct pprof *p, uint32_t field, uint64_t type, uint64_t unit)
{
	size_t place = proto_begin(&p->writer, field);

	proto_uint(&p->writer, 1, type);
	proto_uint(&p->writer, 2, unit);
	proto_end(&p->writer, place);
	flame_pprof_put(p);
}

/* A location and a function for each frame, both with its number + 1. */
static void flame_pprof_frame(struct pprof *p, const struct stack_frame *frame)
{
	uint64_t number = ++p->frames, name, file;
	char text[1024];
	size_t place, inner;

	name = flame_pprof_text(
		p, *frame->function ? frame->function : stack_frame_text(frame, false, text, sizeof(text)));
	file = flame_pprof_text(p, frame->file);
	place = proto_begin(&p->writer, PPROF_FUNCTION);
	proto_uint(&p->writer, 1, number);
	proto_uint(&p->writer, 2, name);
	proto_uint(&p->writer, 3, name);
	proto_uint(&p->writer, 4, file);
	proto_end(&p->writer, place);
	place = proto_begin(&p->writer, PPROF_LOCATION);
	proto_uint(&p->writer, 1, number);
	proto_uint(&p->writer, 3, frame->address);
	inner = proto_begin(&p->writer, 4);
	proto_uint(&p->writer, 1, number);
	proto_uint(&p->writer, 2, frame->line);
	proto_end(&p->writer, inner);
	proto_end(&p->writer, place);
	flame_pprof_put(p);
}

static void flame_pprof_label(struct pprof *p, uint64_t key, uint32_t field, int64_t value)
{
	size_t place = proto_begin(&p->writer, 3);

	proto_uint(&p->writer, 1, key);
	proto_int(&p->writer, field, value);
	proto_end(&p->writer, place);
}

/* Rows of one thread and stage come together; texts that come again are written again. */
static void flame_pprof_name(struct pprof *p, const char *name, const char **last, uint64_t *text)
{
	if (!*last || strcmp(*last, name) != 0)
		*text = flame_pprof_text(p, name);
	*last = name;
}

static int flame_pprof_row(void *arg, const struct profile_folded *row)
{
	struct pprof *p = arg;
	size_t place;

	flame_pprof_name(p, row->thread, &p->thread, &p->thread_text);
	flame_pprof_name(p, row->stage, &p->stage, &p->stage_text);
	place = proto_begin(&p->writer, PPROF_SAMPLE);
	for (size_t i = row->frames; i-- > 0;)
		proto_uint(&p->writer, 1, row->frame[i] + 1U);
	proto_uint(&p->writer, 2, row->samples);
	proto_uint(&p->writer, 2, row->weight_ns / (p->view->memory ? FLAME_BYTE : 1));
	flame_pprof_label(p, TEXT_RANK, 3, row->rank);
	flame_pprof_label(p, TEXT_THREAD, 2, (int64_t)p->thread_text);
	if (*row->stage)
		flame_pprof_label(p, TEXT_STAGE, 2, (int64_t)p->stage_text);
	flame_pprof_label(p, TEXT_CPU, 2, row->off_cpu ? TEXT_OFF : TEXT_ON);
	proto_end(&p->writer, place);
	flame_pprof_put(p);
	return p->failed ? -EIO : 0;
}

static int flame_pprof_all(struct pprof *p)
{
	const struct flame_source *source = p->view->source;
	const struct stack_frame *frame;

	for (size_t i = 0; i < TEXTS; i++)
		(void)flame_pprof_text(p, p->view->memory && texts_memory[i] ? texts_memory[i] : texts[i]);
	flame_pprof_type(p, PPROF_SAMPLE_TYPE, TEXT_SAMPLES, TEXT_COUNT);
	flame_pprof_type(p, PPROF_SAMPLE_TYPE, TEXT_TIME, TEXT_NS);
	flame_pprof_type(p, PPROF_PERIOD_TYPE, TEXT_CPU_TIME, TEXT_NS);
	flame_pprof_number(p, PPROF_PERIOD, source->frequency_hz ? (int64_t)(1000000000 / source->frequency_hz) : 0);
	flame_pprof_number(p, PPROF_TIME_NS, source->start_ns);
	flame_pprof_number(p, PPROF_DURATION_NS, source->end_ns - source->start_ns);
	for (uint32_t i = 0; (frame = profile_frame(p->view->profile, i)); i++)
		flame_pprof_frame(p, frame);
	return profile_fold(p->view->profile,
		&(struct profile_folding){
			.cpu = p->view->cpu, .by_rank = true, .by_thread = true, .by_stage = true, .by_cpu = true},
		flame_pprof_row, p);
}

int flame_write_pprof(const struct flame_view *view, FILE *out)
{
	struct pprof *p = calloc(1, sizeof(*p));
	int fd, r = -ENOMEM;

	if (!p)
		return r;
	p->view = view;
	proto_reset(&p->writer);
	fflush(out);
	fd = dup(fileno(out));
	p->out = fd < 0 ? NULL : gzdopen(fd, "wb");
	if (p->out) {
		r = flame_pprof_all(p);
		if (gzclose(p->out) != Z_OK || p->failed)
			r = r < 0 ? r : -EIO;
	} else if (fd >= 0) {
		close(fd);
	}
	free(p);
	return r;
}
