/* SPDX-License-Identifier: Apache-2.0 */
/* Findings for people and spreadsheets. Rows are those of findings_rows.h. */
#ifndef RANKTRACE_CLI_FINDINGS_TEXT_H
#define RANKTRACE_CLI_FINDINGS_TEXT_H

#include <jansson.h>
#include <stdio.h>

#include "analyzers/analyze/findings_rows.h"

void findings_text_header(FILE *out);
enum findings_text {
	FINDINGS_TEXT_VERBOSE = 1 << 0, /* its evidence below it, with what to look at */
	FINDINGS_TEXT_JOB = 1 << 1,     /* its job behind its sentence, which names a rank and a node only */
};

/* A line. flags: of enum findings_text. */
void findings_text_row(FILE *out, const json_t *row, unsigned flags, uint64_t now_ns);
/* Whether they are of more than one job. */
bool findings_text_many_jobs(const json_t *rows);
/* Where there is no finding: who was watched, and since when. since_ns 0: all that there is was asked for. */
void findings_text_none(FILE *out, const struct findings_watched *watched, uint64_t since_ns, uint64_t now_ns);
/* RFC 4180; evidence is one JSON text. */
void findings_csv_header(FILE *out);
void findings_csv_row(FILE *out, const json_t *row);

#endif
