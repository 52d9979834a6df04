/* SPDX-License-Identifier: Apache-2.0 */
/* Where a report goes: a file, a folder that keeps a bounded number of them, the journal. */
#ifndef RANKTRACE_REPORT_PUBLISH_H
#define RANKTRACE_REPORT_PUBLISH_H

#include <stddef.h>
#include <stdio.h>

#include "analyzers/report/report.h"

#define PUBLISH_KEEP_MAX 3650

/* Written beside it and renamed, so that nobody reads half of one; what is no plain file (a pipe) is written to. 0, or
 * negative errno with a sentence. */
int publish_file(const char *path, void (*render)(FILE *out, const struct report *report), const struct report *report,
	char *error, size_t error_size);
/* DIR/report-YYYYMMDDTHHMMSSZ.{txt,json,html}, latest.{txt,json,html} that point to them, and of older ones only as
 * many that there are max. Makes the folder. Other files are left alone. */
int publish_keep(const char *dir, unsigned long max, const struct report *report, char *error, size_t error_size);
/* One entry with the text, identifier ranktrace-report and fields: see ranktrace-report(8). -ENOENT: there is no
 * journal. */
int publish_journal(const struct report *report);

#endif
