/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folded text, as flamegraph.pl and others read it: frames by ";", a blank, microseconds. Above the frames stands the
 * rank where there are several, and the thread where it is not the one that makes the steps.
 */
#include "analyzers/flame/flame.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/text.h"

#define FOLDED_FRAME_BYTES 1024

struct folded {
	const struct flame_view *view;
	FILE *out;
	const char *parted; /* before the next frame: "" or ";" */
};

static void flame_folded_frame(struct folded *folded, const char *name)
{
	char text[FOLDED_FRAME_BYTES];

	snprintf(text, sizeof(text), "%s", name);
	for (char *p = text_clean(text); *p; p++)
		*p = *p == ';' ? ',' : *p;
	fprintf(folded->out, "%s%s", folded->parted, text);
	folded->parted = ";";
}

static int flame_folded_row(void *arg, const struct profile_folded *row)
{
	struct folded *folded = arg;
	char name[FOLDED_FRAME_BYTES];
	uint64_t us = row->weight_ns / 1000;

	if (!us)
		return 0;
	folded->parted = "";
	if (folded->view->source->ranks > 1) {
		snprintf(name, sizeof(name), "rank %" PRId64, row->rank);
		flame_folded_frame(folded, name);
	}
	if (!row->steps_here) {
		snprintf(name, sizeof(name), "thread %s", row->thread);
		flame_folded_frame(folded, name);
	}
	for (size_t i = 0; i < row->frames; i++)
		flame_folded_frame(folded, stack_frame_text(profile_frame(folded->view->profile, row->frame[i]), false,
						   name, sizeof(name)));
	fprintf(folded->out, " %" PRIu64 "\n", us);
	return 0;
}

int flame_write_folded(const struct flame_view *view, FILE *out)
{
	struct folded folded = {view, out, ""};

	return profile_fold(view->profile,
		&(struct profile_folding){.cpu = view->cpu, .by_rank = true, .by_thread = true}, flame_folded_row,
		&folded);
}
