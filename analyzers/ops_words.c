/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of events, made safe and kept once. */
#include "analyzers/ops_internal.h"

#include <string.h>

void coll_text(char *ret, size_t size, const char *text)
{
	size_t n = text ? strnlen(text, size) : 0;

	if (n == size) {
		n = size - 1;
		for (int back = 0; n && back < 3 && ((unsigned char)text[n] & 0xc0) == 0x80; back++)
			n--;
	}
	for (size_t i = 0; i < n; i++)
		ret[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i];
	memset(ret + n, 0, size - n);
}

uint64_t coll_word_hash(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < COLL_NAME_BYTES && text[i]; i++) {
		unsigned char c = (unsigned char)text[i];

		hash = (hash ^ (c >= 'A' && c <= 'Z' ? c + 32u : c)) * 0x100000001b3ULL;
	}
	return hash;
}

const struct coll_word *coll_word(struct coll *ops, const char *text)
{
	char clean[COLL_NAME_BYTES];
	struct coll_word *word;
	size_t at;

	/* What was kept before is the rule: it is looked for as it stands, and made safe only if it is new. */
	for (at = 0; at < ops->words; at++) {
		if (strcmp(ops->word[at].text, text) == 0)
			return &ops->word[at];
	}
	coll_text(clean, sizeof(clean), ops->words < COLL_WORDS_MAX - 1 ? text : "other");
	for (at = 0; at < ops->words; at++) {
		if (strcmp(ops->word[at].text, clean) == 0)
			return &ops->word[at];
	}
	word = &ops->word[ops->words++];
	memcpy(word->text, clean, sizeof(word->text));
	word->hash = coll_word_hash(clean);
	word->operation = coll_operation(clean);
	return word;
}
