/* SPDX-License-Identifier: Apache-2.0 */
/* Records that are sorted beyond memory, and the texts that they name by numbers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/text_pool.h"
#include "analyzers/timeline/timeline_internal.h"
#include "tests/test.h"

struct record {
	int64_t key[SORTED_KEYS];
	uint32_t number; /* in which it came */
	char filler[52];
};

struct made {
	uint32_t count, given, taken, fails_at, stops_at; /* 0: it does not */
	uint64_t random;
	struct record at, before;
};

static int give(void *arg, struct sorted_record *ret)
{
	struct made *made = arg;

	if (made->given == made->count)
		return 0;
	if (made->fails_at && made->given == made->fails_at)
		return -EBADMSG;
	made->at.number = made->given++;
	/* Few keys, so that many are the same */
	for (size_t i = 0; i < SORTED_KEYS; i++) {
		made->random = made->random * 6364136223846793005ULL + 1442695040888963407ULL;
		made->at.key[i] = (int64_t)(made->random >> 60) - 8;
	}
	if (made->at.number == 3)
		made->at.key[0] = INT64_MIN;
	if (made->at.number == 2)
		made->at.key[0] = INT64_MAX;
	memcpy(ret->key, made->at.key, sizeof(ret->key));
	ret->bytes = &made->at;
	ret->size = sizeof(made->at);
	return 1;
}

static int compare(const struct record *a, const struct record *b)
{
	for (size_t i = 0; i < SORTED_KEYS; i++)
		if (a->key[i] != b->key[i])
			return a->key[i] < b->key[i] ? -1 : 1;
	return (a->number > b->number) - (a->number < b->number);
}

static int take(void *arg, const void *bytes, int size)
{
	struct made *made = arg;
	struct record record;

	assert_int_equal(size, sizeof(record));
	memcpy(&record, bytes, sizeof(record));
	if (made->taken)
		assert_int_equal(compare(&made->before, &record), -1);
	made->before = record;
	made->taken++;
	return made->stops_at && made->taken == made->stops_at ? -ECANCELED : 0;
}

static int sort(struct made *made, char error[64])
{
	const struct sorting sorting = {.next = give, .take = take, .arg = made};

	error[0] = 0;
	return sorted_each(&sorting, error, 64);
}

TEST(in_order)
{
	static const uint32_t counts[] = {0, 1, 2, 1000, 300000}; /* the last one is in files, more than once over */
	char error[64];

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct made made = {.count = counts[i]};

		assert_int_equal(sort(&made, error), 0);
		assert_int_equal(made.taken, counts[i]);
		assert_string_equal(error, "");
		if (counts[i] > 3)
			assert_true(made.before.key[0] == INT64_MAX);
	}
}

TEST(who_fails_ends_it)
{
	struct made made = {.count = 1000, .fails_at = 500};
	char error[64];

	assert_int_equal(sort(&made, error), -EBADMSG);
	assert_int_equal(made.taken, 0);
	made = (struct made){.count = 1000, .stops_at = 7};
	assert_int_equal(sort(&made, error), -ECANCELED);
	assert_int_equal(made.taken, 7);
	assert_string_equal(error, "");
}

TEST(texts_have_numbers)
{
	struct text_pool *texts = text_pool_new();
	char text[64];

	assert_null(text_pool_text(texts, 0));
	assert_null(text_pool_text(texts, 1));
	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < 100000; i++) {
			snprintf(text, sizeof(text), "%u", i * 7919);
			assert_int_equal(text_pool_number(texts, text), i + 1);
		}
	for (unsigned i = 0; i < 100000; i++) {
		snprintf(text, sizeof(text), "%u", i * 7919);
		assert_string_equal(text_pool_text(texts, i + 1), text);
	}
	assert_int_equal(text_pool_number(texts, ""), 100001);
	assert_string_equal(text_pool_text(texts, 100001), "");
	assert_null(text_pool_text(texts, 100002));
	assert_null(text_pool_text(texts, UINT32_MAX));
	text_pool_free(texts);
	text_pool_free(NULL);
}

TEST(texts_are_bounded)
{
	enum { LONG = 1 << 20 };
	struct text_pool *texts = text_pool_new();
	char *text = malloc(LONG);
	uint32_t last = 1, count = 0;
	char number[16];

	memset(text, 'x', LONG - 1);
	text[LONG - 1] = 0;
	while (last) {
		snprintf(number, sizeof(number), "%07u", count);
		memcpy(text, number, 7);
		last = text_pool_number(texts, text);
		count += last != 0;
		assert_true((size_t)count * LONG <= TEXT_POOL_BYTES_MAX);
	}
	assert_int_equal(count, TEXT_POOL_BYTES_MAX / LONG);
	memcpy(text, "0000000", 7);
	assert_int_equal(text_pool_number(texts, text), 1); /* those that are there still are */
	text_pool_free(texts);
	texts = text_pool_new();
	for (count = 0; count <= TEXT_POOL_MAX; count++) {
		snprintf(number, sizeof(number), "%u", count);
		assert_int_equal(text_pool_number(texts, number), count < TEXT_POOL_MAX ? count + 1 : 0);
	}
	text_pool_free(texts);
	free(text);
}

TEST_MAIN(NULL, NULL)
