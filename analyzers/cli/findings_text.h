/* SPDX-License-Identifier: Apache-2.0 */
/* Findings for people and spreadsheets. Rows are those of findings_rows.h. */
#ifndef RANKTRACE_CLI_FINDINGS_TEXT_H
#define RANKTRACE_CLI_FINDINGS_TEXT_H

#include <jansson.h>
#include <stdio.h>

#include "analyzers/analyze/findings_rows.h"

/* A table of findings, as wide as the terminal. verbose: with evidence and advice below each. NULL without memory. */
struct findings_text *findings_text_new(FILE *out, bool verbose);
void findings_text_free(struct findings_text *text);
/* As of now_ns, which is the end of what still lasts. */
void findings_text_add(struct findings_text *text, json_t *row, uint64_t now_ns);
/*
 * Adds the rows by group (finding_groups.h): one line each, with the sentence of the costliest episode, and counts
 * short slow-downs instead of listing them. verbose: the episodes beneath. The newest group is last. false: out of
 * memory.
 */
bool findings_text_add_groups(struct findings_text *text, json_t *rows, uint64_t now_ns);
/* Writes what was added since the last time, the first time below a header. */
void findings_text_print(struct findings_text *text);
/* Where there is no finding: who was watched, and since when. since_ns 0: all that there is was asked for. */
void findings_text_none(FILE *out, const struct findings_watched *watched, uint64_t since_ns, uint64_t now_ns);
/* RFC 4180; evidence is one JSON text. */
void findings_csv_header(FILE *out);
void findings_csv_row(FILE *out, const json_t *row);

#endif
