/* SPDX-License-Identifier: Apache-2.0 */
/* The known word that a mistyped one most likely stands for. Pure. */
#ifndef RANKTRACE_BASE_NEAREST_H
#define RANKTRACE_BASE_NEAREST_H

struct nearest {
	const char *word;  /* the mistyped one */
	const char *found; /* NULL: nothing is near */
	unsigned score;
};

#define NEAREST(text) ((struct nearest){.word = (text)})

/* Levenshtein distance; words of more than 32 bytes count as 32 apart. */
unsigned nearest_distance(const char *a, const char *b);

/*
 * Compares one known word. In this order wins: a word that the mistyped one begins, one that is few edits away, one
 * that begins or ends with it or the reverse (3 bytes and more). Within each the smaller distance wins, then the first.
 */
void nearest_try(struct nearest *nearest, const char *known);

#endif
