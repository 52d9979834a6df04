/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short texts and their numbers, those used last: the same few names come with every operation, and to compare the
 * bytes costs less than a hash of them that may be trusted. Sets of two each: of two texts that fall on one set
 * neither drives out the other.
 */
#ifndef RANKTRACE_DETECT_FRAMER_KNOWN_H
#define RANKTRACE_DETECT_FRAMER_KNOWN_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define ALIGN_KNOWN_BYTES 24 /* longer texts are not kept */

struct align_known {
	uint64_t word[3]; /* all of the text; the last one may overlap the one before it */
	uint32_t length;  /* 0: unused */
	uint32_t number;
};

/* The text as words; false where it is too long, or empty. */
static inline bool align_known_read(struct align_known *ret, const char *text, size_t length)
{
	const size_t word = sizeof(ret->word[0]);

	*ret = (struct align_known){.length = (uint32_t)length};
	if (!length || length > ALIGN_KNOWN_BYTES)
		return false;
	if (length < word) {
		memcpy(ret->word, text, length);
		return true;
	}
	memcpy(&ret->word[0], text, word);
	memcpy(&ret->word[1], text + (length < 2 * word ? length - word : word), word);
	memcpy(&ret->word[2], text + length - word, word);
	return true;
}

static inline bool align_known_equal(const struct align_known *a, const struct align_known *b)
{
	return !((a->word[0] ^ b->word[0]) | (a->word[1] ^ b->word[1]) | (a->word[2] ^ b->word[2]) |
		 (a->length ^ b->length));
}

/* The first of the two places where it may be. bits: log2 of the number of sets. */
static inline struct align_known *align_known_set(
	struct align_known *known, unsigned bits, const struct align_known *what)
{
	uint64_t all = what->word[0] ^ what->word[1] << 7 ^ what->word[2] ^ what->length;
	uint64_t hash = (all ^ all >> 32) * 0x9e3779b97f4a7c15ULL;

	return &known[hash >> (64 - bits) << 1];
}

/* NULL: not among them. */
static inline const struct align_known *align_known_find(struct align_known *set, const struct align_known *what)
{
	if (align_known_equal(&set[0], what))
		return &set[0];
	return align_known_equal(&set[1], what) ? &set[1] : NULL;
}

static inline void align_known_keep(struct align_known *set, const struct align_known *what)
{
	set[1] = set[0];
	set[0] = *what;
}

#endif
