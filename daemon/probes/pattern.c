/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shell patterns, see pattern.h. Only the last * is ever taken back to, so no pattern makes it exponential.
 */
#include "daemon/probes/pattern.h"

bool pattern_matches(const char *pattern, const char *text)
{
	const char *star = NULL, *resume = NULL;

	while (*text) {
		if (*pattern == '*') {
			star = pattern++;
			resume = text;
		} else if (*pattern == '?' || *pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star + 1;
			text = ++resume;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

size_t pattern_literal_bytes(const char *pattern)
{
	return strcspn(pattern, "*?");
}
