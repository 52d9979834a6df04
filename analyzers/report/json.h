/* SPDX-License-Identifier: Apache-2.0 */
/* Our own part of the report's JSON: ns, card-hours, and texts as people read them. Times are ns since the epoch. */
#ifndef RANKTRACE_REPORT_JSON_H
#define RANKTRACE_REPORT_JSON_H

#include <jansson.h>

#include "analyzers/report/report.h"

/* One finding, with its evidence. */
json_t *json_finding(const struct report *report, size_t index);
/* All but what sysTrace's own fields hold. */
json_t *json_ours(const struct report *report);

#endif
