/* SPDX-License-Identifier: Apache-2.0 */
/* The report as text, Markdown, JSON or HTML. Write errors show in ferror(out). */
#ifndef RANKTRACE_REPORT_RENDER_H
#define RANKTRACE_REPORT_RENDER_H

#include "analyzers/report/report.h"

#include <stdio.h>

/* One line if healthy, plus gaps. */
void render_text(FILE *out, const struct report *report);
void render_markdown(FILE *out, const struct report *report);
/* The fields of sysTrace's results of slow nodes and of slow steps, and "ranktrace". */
void render_json(FILE *out, const struct report *report);
/* A self-contained page: no script, no other file, no network. */
void render_html(FILE *out, const struct report *report);

/* Gaps in the data, one sentence a call; the same in all formats. */
typedef void (*render_line)(void *arg, const char *text);
void render_unwatched(const struct report *report, render_line line, void *arg);

#endif
