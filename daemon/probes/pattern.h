/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shell patterns of the probe tables: * is any text, ? any one character, everything else itself. No brackets, no
 * escapes: mangled names hold none. Takes time in proportion to the two lengths multiplied, whatever the input.
 */
#ifndef RANKTRACE_PROBES_PATTERN_H
#define RANKTRACE_PROBES_PATTERN_H

#include "daemon/util.h"

bool pattern_matches(const char *pattern, const char *text);
/* How many characters at the pattern's start stand for themselves; its length if it has no wildcard. */
size_t pattern_literal_bytes(const char *pattern);

#endif
