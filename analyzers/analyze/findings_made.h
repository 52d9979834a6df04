/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts findings of detectors to the rows that a store would hold of them (findings_rows.h): of each the newest
 * telling. For tools that judge by themselves.
 */
#ifndef RANKTRACE_ANALYZE_FINDINGS_MADE_H
#define RANKTRACE_ANALYZE_FINDINGS_MADE_H

#include "analyzers/finding/finding.h"
#include "analyzers/analyze/findings_rows.h"

#define FINDINGS_MADE_MAX 16384 /* 2 KiB each, and more */

struct findings_made;

struct findings_made *findings_made_new(void); /* NULL: out of memory */
struct findings_made *findings_made_free(struct findings_made *made);
/* For struct detect_sink.finding; arg is the findings_made. */
void findings_made_tell(void *arg, const struct finding *finding);
/* An array of objects as of findings_rows(), oldest beginning first; NULL: out of memory. */
json_t *findings_made_rows(const struct findings_made *made, const struct findings_filter *filter);
/* The i-th, by its number; NULL past the last. */
const struct finding *findings_made_at(const struct findings_made *made, size_t i);
/* So many were more than FINDINGS_MADE_MAX, and left out. */
uint64_t findings_made_left_out(const struct findings_made *made);

#endif
