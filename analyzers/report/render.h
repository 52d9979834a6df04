/* SPDX-License-Identifier: Apache-2.0 */
/* The report as text, Markdown, JSON or HTML. What cannot be written shows in ferror(out). */
#ifndef RANKTRACE_REPORT_RENDER_H
#define RANKTRACE_REPORT_RENDER_H

#include "analyzers/report/report.h"

#include <jansson.h>
#include <stdio.h>

/* Our own part of the report's JSON: ns, card-hours, and texts as people read them. Times are ns since the epoch. */

/* One finding, with its evidence. */
json_t *json_finding(const struct report *report, size_t index);
/* All but what sysTrace's own fields hold. */
json_t *json_ours(const struct report *report);

/* A healthy fleet is one line, and what was not watched where there are gaps. */
void render_text(FILE *out, const struct report *report);
void render_markdown(FILE *out, const struct report *report);
/* An object with the fields of sysTrace's results of slow nodes and of slow steps, and ours under "ranktrace". */
void render_json(FILE *out, const struct report *report);
/* One page, complete in itself: no script, no other file, no network. */
void render_html(FILE *out, const struct report *report);

/* What was not watched, one sentence a call; the same in every form. */
typedef void (*render_line)(void *arg, const char *text);
void render_unwatched(const struct report *report, render_line line, void *arg);

#endif
