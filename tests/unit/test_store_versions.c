/* SPDX-License-Identifier: Apache-2.0 */
/* Segments of earlier schema versions beside those of this one: one store, read as one. */
#include "tests/unit/store_fixture.h"

#include <glob.h>

#define STORES_DIR SOURCE_DIR "/tests/fixtures/stores"

/* The store of version 1 that tests/fixtures/stores has by that name, as the state folder. */
static void unpack(const char *name)
{
	char command[3 * PATH_MAX];

	snprintf(command, sizeof(command), "tar -xJf '%s/%s.tar.xz' -C '%s' --strip-components=1", STORES_DIR, name,
		dir);
	assert_int_equal(system(command), 0);
	/* Its rows are of long ago. */
	options.events_age_ns_max = options.summary_age_ns_max = 100 * 365 * 24 * 3600ULL * NSEC_PER_SEC;
}

static void put_comm(struct store *store, int64_t key, const char *reason)
{
	store_put_communicators(store, &(struct row_communicators){
					       .rank = field_int(7),
					       .family = field_text("nccl"),
					       .reason = field_text(reason),
					       .communicator_key = field_int(key),
				       });
}

TEST_WITH(old_and_new_are_one_store, store_setup, store_teardown)
{
	int64_t stages, drops, comms, troubles;
	struct store_status status;
	struct store *store;

	unpack("calls-v1");
	stages = query_int("select count(*) from stages");
	drops = query_int("select sum(count) from drops");
	comms = query_int("select count(*) from communicators");
	troubles = query_int("select count(*) from communicators where trouble is not null");
	assert_true(stages > 100 && drops > 0 && comms > 10 && troubles > 0);

	store = open_store();
	put_stage(store, 1, "of this version", realtime_ns(), 1);
	put_comm(store, 77, "of this version");
	store_put_ranks(store, &(struct row_ranks){.rank = field_int(1)}); /* refused: without its key */
	assert_int_equal(store_flush(store, realtime_ns()), 0);
	store_status(store, &status);
	assert_int_equal(status.segments, 4);
	store_close(store);

	assert_int_equal(query_int("select count(*) from stages"), stages + 1);
	assert_query("select count(*) from stages where stage = 'of this version'", "1\n");
	/* A column of version 2 is NULL in rows of version 1. */
	assert_int_equal(query_int("select sum(count) from drops where table_name is null"), drops);
	assert_query(
		"select table_name, reason, count from drops where table_name is not null", "ranks|row refused|1\n");
	/* A renamed column has both names, in rows of both versions; conditions see it under both. */
	assert_int_equal(query_int("select count(*) from communicators"), comms + 1);
	assert_int_equal(query_int("select count(*) from communicators where trouble is reason"), comms + 1);
	assert_int_equal(query_int("select count(*) from communicators where reason is not null"), troubles + 1);
	assert_query("select trouble from communicators where reason = 'of this version'", "of this version\n");
	assert_int_equal(
		query_int("select count(*) from communicators where reason = trouble and reason <> ''"), troubles + 1);
	assert_int_equal(warnings, 0);
}

/* Identities and steps go on where the earlier version left them. */
TEST_WITH(identities_go_on, store_setup, store_teardown)
{
	int64_t instance, last, step, newest, again = 0;
	char *text, boot_id[64] = "";
	struct store *store;
	sqlite3 *db = NULL;
	sqlite3_stmt *statement = NULL;
	unsigned pid = 0;
	long long start_ns = 0;
	char pattern[PATH_MAX];
	glob_t found;

	unpack("training-v1");
	last = query_int("select max(instance) from ranks");
	snprintf(pattern, sizeof(pattern), "%s/db/summary-*.db", dir);
	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	assert_int_equal(sqlite3_open_v2(found.gl_pathv[0], &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	globfree(&found);
	assert_int_equal(sqlite3_prepare_v2(db,
				 "select boot_id, pid, start_time_ns, last_step, instance from instances order by "
				 "instance limit 1",
				 -1, &statement, NULL),
		SQLITE_OK);
	text = rows_of(statement);
	sqlite3_finalize(statement);
	sqlite3_close(db);
	assert_int_equal(sscanf(text, "%63[^|]|%u|%lld|%ld|%ld", boot_id, &pid, &start_ns, &newest, &instance), 5);
	free(text);
	store = open_store();
	assert_int_equal(store_instance(store, boot_id, pid, (uint64_t)start_ns, &again), 0);
	assert_int_equal(again, instance);
	assert_int_equal(store_last_step(store, instance, &step), 0);
	assert_int_equal(step, newest);
	assert_true(step > 0);
	assert_int_equal(store_instance(store, "another boot", 1, 1, &again), 0);
	assert_int_equal(again, last + 1);
	store_close(store);
}

/* What a segment of an earlier version may go on with is its own: this version starts another file. */
TEST_WITH(an_old_segment_is_not_extended, store_setup, store_teardown)
{
	struct store *store = open_store();
	uint64_t now = realtime_ns();
	char pattern[PATH_MAX];
	glob_t found;

	put_stage(store, 1, "old", now, 1);
	store_close(store);
	snprintf(pattern, sizeof(pattern), "%s/db/events-*.db", dir);
	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		sqlite3 *db = NULL;

		assert_int_equal(sqlite3_open(found.gl_pathv[i], &db), SQLITE_OK);
		assert_int_equal(sqlite3_exec(db, "pragma user_version = 1", NULL, NULL, NULL), SQLITE_OK);
		sqlite3_close(db);
	}
	globfree(&found);
	store = open_store();
	put_stage(store, 1, "new", now, 1);
	store_close(store);
	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	assert_int_equal(found.gl_pathc, 2);
	globfree(&found);
	assert_query("select stage from stages order by 1", "new\nold\n");
	assert_int_equal(warnings, 0);
}

static size_t columns_of(sqlite3 *db, const char *name, char names[][32], size_t max)
{
	sqlite3_stmt *statement = NULL;
	char sql[128];
	size_t n = 0;

	snprintf(sql, sizeof(sql), "select * from %s_raw", name);
	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
	for (; n < max && (int)n < sqlite3_column_count(statement); n++)
		snprintf(names[n], 32, "%s", sqlite3_column_name(statement, (int)n));
	sqlite3_finalize(statement);
	return n;
}

/* Versions in schema.def are true: files of version 1 have what it says that version 1 has, in its order. */
TEST_WITH(versions_are_those_of_the_files, store_setup, store_teardown)
{
	char pattern[PATH_MAX];
	glob_t found;
	size_t tables = 0;

	unpack("calls-v1");
	snprintf(pattern, sizeof(pattern), "%s/db/*.db", dir);
	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	for (size_t f = 0; f < found.gl_pathc; f++) {
		bool events = strstr(found.gl_pathv[f], "events-") != NULL;
		sqlite3 *db = NULL;

		assert_int_equal(sqlite3_open_v2(found.gl_pathv[f], &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
		for (size_t i = 0; i < TABLE_MAX; i++) {
			const struct schema_table *table = &schema_tables[i];
			char names[SCHEMA_COLUMNS_MAX][32];
			size_t n, at = 0;

			if (table->since > 1 || !schema_in_tier(table, events ? TIER_EVENTS : TIER_SUMMARY))
				continue;
			tables++;
			n = columns_of(db, table->name, names, SCHEMA_COLUMNS_MAX);
			for (size_t j = 0; j < schema_stored(table); j++) {
				const struct schema_column *column = &table->columns[j];
				const char *name = column->since == 1 ? column->name : NULL;

				for (size_t k = schema_stored(table); k < schema_columns(table); k++)
					if (strcmp(table->columns[k].alias_of, column->name) == 0)
						name = table->columns[k].name;
				if (!name)
					continue;
				assert_true(at < n);
				assert_string_equal(names[at++], name);
			}
			assert_int_equal(at, n);
		}
		sqlite3_close(db);
	}
	globfree(&found);
	assert_true(tables >= 16);
}

/* Of the segment's own views, without the reader: both names are there. */
TEST_WITH(aliases_are_in_the_view, store_setup, store_teardown)
{
	struct store *store = open_store();
	char pattern[PATH_MAX], *text;
	sqlite3_stmt *statement = NULL;
	sqlite3 *db = NULL;
	glob_t found;

	put_comm(store, 1, "why");
	store_close(store);
	snprintf(pattern, sizeof(pattern), "%s/db/events-*.db", dir);
	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	assert_int_equal(sqlite3_open_v2(found.gl_pathv[0], &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	globfree(&found);
	assert_int_equal(
		sqlite3_prepare_v2(db, "select reason, trouble from communicators", -1, &statement, NULL), SQLITE_OK);
	text = rows_of(statement);
	assert_string_equal(text, "why|why\n");
	free(text);
	sqlite3_finalize(statement);
	sqlite3_close(db);
}

/* Aliases have the type and unit of their column; times and durations are named so. */
TEST(names_and_units_agree)
{
	for (size_t i = 0; i < TABLE_MAX; i++)
		for (size_t j = 0; j < schema_columns(&schema_tables[i]); j++) {
			const struct schema_column *column = &schema_tables[i].columns[j];
			size_t length = strlen(column->name);
			bool ns = length > 3 && strcmp(column->name + length - 3, "_ns") == 0;
			int of = column->alias_of ? schema_column_find(&schema_tables[i], column->alias_of) : -1;

			assert_true(ns == (column->unit == UNIT_NS || column->unit == UNIT_EPOCH_NS));
			if (!column->alias_of)
				continue;
			assert_true(of >= 0 && of < (int)schema_stored(&schema_tables[i]));
			assert_int_equal(column->type, schema_tables[i].columns[of].type);
			assert_int_equal(column->unit, schema_tables[i].columns[of].unit);
			assert_true(column->since < schema_tables[i].columns[of].since);
		}
}

TEST_MAIN(NULL, NULL)
