/* SPDX-License-Identifier: Apache-2.0 */
/* Destinations of a report: a file, a folder with a bounded number of reports, the journal. */
#ifndef RANKTRACE_REPORT_PUBLISH_H
#define RANKTRACE_REPORT_PUBLISH_H

#include <stddef.h>
#include <stdio.h>

#include "analyzers/report/report.h"

#define PUBLISH_KEEP_MAX 3650

/* A regular file is replaced by rename; others (a pipe) are written to. 0, or negative errno with a sentence. */
int publish_file(const char *path, void (*render)(FILE *out, const struct report *report), const struct report *report,
	char *error, size_t error_size);
/* Writes DIR/report-YYYYMMDDTHHMMSSZ.{txt,json,html} and the links latest.{txt,json,html}, creates DIR, and removes the
 * oldest reports beyond max. Other files are not touched. */
int publish_keep(const char *dir, unsigned long max, const struct report *report, char *error, size_t error_size);
/* One entry with the text and the fields of ranktrace-report(8). -ENOENT: no journal. */
int publish_journal(const struct report *report);

#endif
