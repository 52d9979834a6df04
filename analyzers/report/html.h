/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the HTML page (render.h): style, charts, map of cards, tables. All texts are escaped. */
#ifndef RANKTRACE_REPORT_HTML_H
#define RANKTRACE_REPORT_HTML_H

#include <stdio.h>

#include "analyzers/report/report.h"

/* Escaped for text and for attributes in quotes. */
void html_text(FILE *out, const char *text);
/* printf, escaped as a whole. */
void html_format(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

void html_style(FILE *out);
/* Step time of a job over the period, with its findings below. */
void html_job_chart(FILE *out, const struct report *report, uint32_t job);
/* A rank beside its peers; finding->plot is not NULL. */
void html_evidence_chart(FILE *out, const struct report *report, const struct report_finding *finding);
/* Cards by node. */
void html_map(FILE *out, const struct report *report);
/* Labels below a time axis at round times of the local zone, in the class xs. */
void html_ticks(FILE *out, uint64_t since_ns, uint64_t until_ns);
/* Slow-down by rank and time, a map a job. */
void html_heat(FILE *out, const struct report *report);
/* Table cells. Narrow screens show the unit behind the number instead of headers. */
void html_cell(FILE *out, const char *class, const char *text);
void html_counted(FILE *out, const char *class, const char *unit, const char *text);
/* Tables; html_evidence() shows each group of findings in detail. */
void html_findings(FILE *out, const struct report *report);
void html_evidence(FILE *out, const struct report *report);
void html_cards(FILE *out, const struct report *report);
void html_jobs(FILE *out, const struct report *report);

#endif
