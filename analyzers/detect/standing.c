/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/detect/detector.h"

#include <string.h>

static const char *const words[STANDING_STACK_MAX] = {
	[STANDING_STACK_OTHER] = "other", [STANDING_STACK_LOCK] = "lock", [STANDING_STACK_COMMUNICATION] = "communication"};

const char *standing_stack_word(enum standing_stack stack)
{
	return (size_t)stack < STANDING_STACK_MAX ? words[stack] : NULL;
}

enum standing_stack standing_stack_of(const char *word)
{
	for (int i = STANDING_STACK_UNKNOWN + 1; i < STANDING_STACK_MAX; i++)
		if (strcmp(words[i], word) == 0)
			return (enum standing_stack)i;
	return STANDING_STACK_UNKNOWN;
}
