/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the HTML page (render.h), one file each: style, charts, map of cards, findings. All texts are escaped.
 */
#ifndef RANKTRACE_REPORT_HTML_H
#define RANKTRACE_REPORT_HTML_H

#include <stdio.h>

#include "analyzers/report/report.h"

/* Escaped for text and for attributes in quotes. */
void html_text(FILE *out, const char *text);
/* printf with its text escaped as a whole. */
void html_format(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

void html_style(FILE *out);
/* Length of steps of a job over the period, its findings below it. */
void html_job_chart(FILE *out, const struct report *report, uint32_t job);
/* A rank beside its peers; finding->plot is not NULL. */
void html_evidence_chart(FILE *out, const struct report *report, const struct report_finding *finding);
/* Cards by nodes. */
void html_map(FILE *out, const struct report *report);
/* Tables: findings in short, and each with its evidence. */
void html_findings(FILE *out, const struct report *report);
void html_evidence(FILE *out, const struct report *report);
void html_cards(FILE *out, const struct report *report);
void html_jobs(FILE *out, const struct report *report);

#endif
