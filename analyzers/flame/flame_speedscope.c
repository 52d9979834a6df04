/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of speedscope.app: a sampled profile for each rank and thread, on the CPU and off it, in ns. */
#include "analyzers/flame/flame.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/text.h"

void flame_json_text(FILE *out, const char *text)
{
	const unsigned char *p = (const unsigned char *)text, *end = p + strlen(text);

	fputc('"', out);
	while (p < end) {
		size_t length = text_printable((const char *)p);

		if (!length || *p == '<' || *p == '"' || *p == '\\')
			fprintf(out, "\\u%04x", length || *p < 0x80 ? *p : 0xfffd);
		else
			fwrite(p, 1, length, out);
		p += length ? length : 1;
	}
	fputc('"', out);
}

/* One of its profiles is open at a time: samples go to the file, their weights follow them. */
struct speedscope {
	const struct flame_view *view;
	FILE *out, *weights;
	char *weights_text;
	size_t weights_size;
	struct profile_folded of; /* the open one; its texts are the profile's */
	bool open;
	uint64_t sum_ns;
	const char *parted;
};

static bool flame_speedscope_is_same(const struct speedscope *s, const struct profile_folded *row)
{
	return s->open && s->of.rank == row->rank && s->of.off_cpu == row->off_cpu &&
	       s->of.steps_here == row->steps_here && strcmp(s->of.thread, row->thread) == 0;
}

static void flame_speedscope_end(struct speedscope *s)
{
	if (!s->open)
		return;
	fclose(s->weights);
	fprintf(s->out, "],\"weights\":[%s],\"endValue\":%" PRIu64 "}", s->weights_text ? s->weights_text : "",
		s->sum_ns);
	free(s->weights_text);
	s->weights_text = NULL;
	s->open = false;
}

static int flame_speedscope_begin(struct speedscope *s, const struct profile_folded *row)
{
	char name[2 * FLAME_NAME_BYTES];

	flame_speedscope_end(s);
	s->weights = open_memstream(&s->weights_text, &s->weights_size);
	if (!s->weights)
		return -ENOMEM;
	snprintf(name, sizeof(name), "rank %" PRId64 ", %.64s, %s", row->rank,
		row->steps_here ? "thread of the steps" : row->thread, row->off_cpu ? "off the CPU" : "on the CPU");
	fprintf(s->out, "%s{\"type\":\"sampled\",\"unit\":\"%s\",\"startValue\":0,\"name\":", s->parted,
		s->view->memory ? "bytes" : "nanoseconds");
	flame_json_text(s->out, name);
	fputs(",\"samples\":[", s->out);
	s->parted = ",\n";
	s->of = *row;
	s->open = true;
	s->sum_ns = 0;
	return 0;
}

static int flame_speedscope_row(void *arg, const struct profile_folded *row)
{
	struct speedscope *s = arg;
	bool first = !flame_speedscope_is_same(s, row);
	uint64_t weight = row->weight_ns / (s->view->memory ? FLAME_BYTE : 1);
	int r = first ? flame_speedscope_begin(s, row) : 0;

	if (r < 0)
		return r;
	fputs(first ? "[" : ",[", s->out);
	for (size_t i = 0; i < row->frames; i++)
		fprintf(s->out, "%s%" PRIu32, i ? "," : "", row->frame[i]);
	fputc(']', s->out);
	fprintf(s->weights, "%s%" PRIu64, first ? "" : ",", weight);
	s->sum_ns += weight;
	return 0;
}

static void flame_speedscope_frames(const struct profile *profile, FILE *out)
{
	const struct stack_frame *frame;
	char name[1024];

	for (uint32_t i = 0; (frame = profile_frame(profile, i)); i++) {
		fputs(i ? ",\n{\"name\":" : "{\"name\":", out);
		flame_json_text(
			out, *frame->function ? frame->function : stack_frame_text(frame, false, name, sizeof(name)));
		if (*frame->file) {
			fputs(",\"file\":", out);
			flame_json_text(out, frame->file);
		}
		if (frame->line)
			fprintf(out, ",\"line\":%" PRIu32, frame->line);
		fputc('}', out);
	}
}

int flame_write_speedscope(const struct flame_view *view, FILE *out)
{
	struct speedscope s = {.view = view, .out = out, .parted = ""};
	int r;

	fprintf(out,
		"{\"$schema\":\"https://www.speedscope.app/"
		"file-format-schema.json\",\"exporter\":\"ranktrace " RANKTRACE_VERSION
		"\",\n\"name\":\"profile %" PRId64 "\",\"activeProfileIndex\":0,\n\"profiles\":[\n",
		view->source->number);
	r = profile_fold(view->profile,
		&(struct profile_folding){.cpu = view->cpu, .by_rank = true, .by_thread = true, .by_cpu = true},
		flame_speedscope_row, &s);
	flame_speedscope_end(&s);
	fputs("],\n\"shared\":{\"frames\":[\n", out);
	flame_speedscope_frames(view->profile, out);
	fputs("]}}\n", out);
	return r;
}
