/* SPDX-License-Identifier: Apache-2.0 */
/* Stores with anything in them as timelines: a viewer can read them all the same. */
#include "tests/unit/timeline_script.h"

static uint64_t seed = 20261121;

static uint64_t any(void)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return seed >> 16;
}

static struct store_value any_value(const struct schema_column *column, char text[64])
{
	static const int64_t integers[] = {0, 1, -1, 2, 3, INT64_MAX, INT64_MIN, INT32_MAX, 4000, INT64_MAX / 2};

	if (any() % 8 == 0)
		return (struct store_value){0};
	if (column->type == SCHEMA_TEXT) {
		for (size_t i = 0; i < 63; i++)
			text[i] = (char)(any() % 255 + 1);
		text[any() % 63] = 0;
		text[63] = 0;
		return field_text(text).value;
	}
	if (column->type == SCHEMA_REAL)
		return (struct store_value){.type = STORE_REAL, .real = (double)any() * (any() % 2 ? 1e300 : -1e-300)};
	if (column->type == SCHEMA_TIME && any() % 4)
		return field_int(t0 + (int64_t)(any() % (uint64_t)(70 * S)) - 5 * S).value;
	if (strcmp(column->name, "instance") == 0)
		return field_int(any() % 4).value;
	if (column->type == SCHEMA_DURATION && any() % 2)
		return field_int(any() % (uint64_t)(3 * S)).value;
	return field_int(integers[any() % ARRAY_SIZE(integers)]).value;
}

/* Rows of anything in every table: the decoder's own rules hold (slices nest, texts are clean, JSON parses). */
TEST_WITH(test_anything, setup, teardown)
{
	struct decode *d;
	json_t *json;

	two_ranks();
	for (size_t table = 0; table < TABLE_MAX; table++)
		for (int i = 0; i < 300; i++) {
			const struct schema_table *schema = &schema_tables[table];
			struct store_value row[SCHEMA_COLUMNS_MAX];
			char text[SCHEMA_COLUMNS_MAX][64];

			for (size_t column = 0; column < schema_stored(schema); column++)
				row[column] = any_value(&schema->columns[column], text[column]);
			store_put_values(store, (enum schema_id)table, row);
		}
	for (int i = 0; i < 2; i++) {
		d = perfetto();
		assert_true(decode_count(d, DECODE_BEGIN, NULL) > 100);
		decode_free(d);
		json = chrome();
		assert_true(phases(json, "X") > 100);
		json_decref(json);
		how.since_ns = 1; /* everything */
		how.until_ns = INT64_MAX / 2;
	}
}

TEST_MAIN(NULL, NULL)
