/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/base/array.h"
#include "analyzers/detect/detector.h"

#include <string.h>

WORD_OF_ENUM(standing_stack_word, standing_stack,
	STANDING_STACK_MAX, [STANDING_STACK_UNKNOWN] = "", [STANDING_STACK_OTHER] = "other",
	[STANDING_STACK_LOCK] = "lock", [STANDING_STACK_COMMUNICATION] = "communication")

enum standing_stack standing_stack_of(const char *word)
{
	int i = STANDING_STACK_MAX;

	while (--i > STANDING_STACK_UNKNOWN && strcmp(standing_stack_word((enum standing_stack)i), word) != 0)
		;
	return (enum standing_stack)i;
}
