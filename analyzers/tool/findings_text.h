/* SPDX-License-Identifier: Apache-2.0 */
/* Findings for people and spreadsheets. Rows are those of findings_rows.h. */
#ifndef RANKTRACE_TOOL_FINDINGS_TEXT_H
#define RANKTRACE_TOOL_FINDINGS_TEXT_H

#include <jansson.h>
#include <stdio.h>

#include "analyzers/tool/findings_rows.h"

void findings_text_header(FILE *out);
/* A line; verbose: and its evidence below it, with what to look at. */
void findings_text_row(FILE *out, const json_t *row, bool verbose, uint64_t now_ns);
/* Where there is no finding: who was watched, and since when. since_ns 0: all that there is was asked for. */
void findings_text_none(FILE *out, const struct findings_watched *watched, uint64_t since_ns, uint64_t now_ns);
/* RFC 4180; evidence is one JSON text. */
void findings_csv_header(FILE *out);
void findings_csv_row(FILE *out, const json_t *row);

#endif
