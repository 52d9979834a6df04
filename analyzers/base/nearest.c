/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/base/nearest.h"

#include <stdbool.h>
#include <string.h>

#define WORD_BYTES 32u
#define SHARED_BYTES_MIN 3u

enum nearest_class { NEAREST_PREFIX, NEAREST_EDITS, NEAREST_PART, NEAREST_NONE };

unsigned nearest_distance(const char *a, const char *b)
{
	unsigned row[WORD_BYTES + 1];
	size_t length = strlen(b);

	if (length > WORD_BYTES || strlen(a) > WORD_BYTES)
		return WORD_BYTES;
	for (size_t j = 0; j <= length; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; a[i - 1]; i++) {
		unsigned diagonal = row[0];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= length; j++) {
			unsigned best = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			best = best < row[j] + 1 ? best : row[j] + 1;
			best = best < row[j - 1] + 1 ? best : row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[length];
}

static bool nearest_is_part(const char *text, const char *part)
{
	size_t n = strlen(part), length = strlen(text);

	return n >= SHARED_BYTES_MIN && n < length &&
	       (strncmp(text, part, n) == 0 || strcmp(text + length - n, part) == 0);
}

static enum nearest_class nearest_classify(const char *word, const char *known, unsigned distance)
{
	size_t length = strlen(word);

	if (length && strncmp(known, word, length) == 0)
		return NEAREST_PREFIX;
	if (distance <= 1 + length / 3 && distance < length)
		return NEAREST_EDITS;
	return nearest_is_part(known, word) || nearest_is_part(word, known) ? NEAREST_PART : NEAREST_NONE;
}

void nearest_try(struct nearest *nearest, const char *known)
{
	unsigned distance = nearest_distance(nearest->word, known);
	enum nearest_class class = nearest_classify(nearest->word, known, distance);
	unsigned score = (unsigned)class * (WORD_BYTES + 1) + distance;

	if (class == NEAREST_NONE || (nearest->found && score >= nearest->score))
		return;
	nearest->found = known;
	nearest->score = score;
}
