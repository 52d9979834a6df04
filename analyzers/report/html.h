/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the HTML page (render.h): style, charts, map of cards, tables. All texts are escaped. */
#ifndef RANKTRACE_REPORT_HTML_H
#define RANKTRACE_REPORT_HTML_H

#include <stdio.h>

#include "analyzers/base/text.h"
#include "analyzers/report/report.h"
#include "analyzers/report/words.h"

/* printf: the format is markup, each value is escaped. Of the modifiers, l, ll and z. */
void html_put(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* For the text of one value in a call. */
#define HTML_WORD ((char[WORDS_BYTES]){0})

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
/* A table's cell of a number: narrow screens show the unit behind it instead of headers. */
#define HTML_COUNTED "<td class=\"n\" data-u=\"%s\">%s</td>"
/* Tables; html_evidence() shows each group of findings in detail. */
void html_findings(FILE *out, const struct report *report);
void html_evidence(FILE *out, const struct report *report);
void html_cards(FILE *out, const struct report *report);
void html_memory(FILE *out, const struct report *report);
void html_jobs(FILE *out, const struct report *report);

#endif
