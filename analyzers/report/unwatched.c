/* SPDX-License-Identifier: Apache-2.0 */
/* What was not watched, in sentences. See render.h. */
#include <stdio.h>

#include "analyzers/report/render.h"
#include "analyzers/report/words.h"

void render_unwatched(const struct report *report, render_line line, void *arg)
{
	char text[WORDS_BYTES], count[WORDS_BYTES];

	for (size_t i = 0; i < report->stores; i++) {
		if (report->store[i].here)
			continue;
		snprintf(text, sizeof(text), "%.80s: nothing in this time; no rank ran there, or no daemon saw it",
			report->store[i].name);
		line(arg, text);
	}
	for (size_t i = 0; i < report->gaps; i++)
		line(arg, words_gap(report, &report->gap[i], text));
	if (report->gaps_left_out) {
		snprintf(text, sizeof(text), "and %.40s, shorter ones",
			words_many(report->gaps_left_out, "more gap", "more gaps", count));
		line(arg, text);
	}
	for (size_t i = 0; i < report->jobs; i++)
		if (words_elsewhere(&report->job[i], text)[0])
			line(arg, text);
	if (report->ranks_left_out) {
		snprintf(text, sizeof(text), "%.40s had no room in this report",
			words_many(report->ranks_left_out, "process", "processes", count));
		line(arg, text);
	}
	for (size_t i = 0; i < report->lost; i++)
		line(arg, words_lost(report, &report->lose[i], text));
	for (size_t i = 0; i < report->notes; i++)
		line(arg, report->note[i]);
}
