/* SPDX-License-Identifier: Apache-2.0 */
/* What the newest stacks of a finding show, from the table `stacks`. */
#ifndef RANKTRACE_ANALYZE_FINDINGS_STACKS_H
#define RANKTRACE_ANALYZE_FINDINGS_STACKS_H

#include <jansson.h>

#include "analyzers/store/reader.h"

/*
 * Lines for people on the main threads of ranks, equal stacks once, the rank that is alone first: "rank 1 is alone, waits:
 * read 5 (pipe:[7]): <module> (gpt.py:90) > burn (gpt.py:54)". An array, empty where no stacks are stored; NULL with the
 * sentence in error.
 */
json_t *findings_stacks(struct reader *reader, int64_t finding, char *error, size_t error_size);
/*
 * The same for a rank that ended with an error, from the table `ends`: "thread python3 (main), exception, ValueError: <module>
 * (gpt.py:90) > load (gpt.py:54)". An exception comes first, then the thread that ended it.
 */
json_t *findings_ends(struct reader *reader, int64_t finding, char *error, size_t error_size);

#endif
