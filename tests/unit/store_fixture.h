/* SPDX-License-Identifier: Apache-2.0 */
/* A store in a folder of its own, rows for it, and what a query over it says. For the tests of the store and reader. */
#ifndef RANKTRACE_TESTS_STORE_FIXTURE_H
#define RANKTRACE_TESTS_STORE_FIXTURE_H

#include <limits.h>

#include "analyzers/store/reader.h"
#include "daemon/store/store_internal.h"
#include "tests/test.h"
#include "tests/unit/log_stderr.h"

static char dir[PATH_MAX - 512];
static struct store_options options;
static unsigned warnings;
static char warning[PATH_MAX]; /* the last one */

static inline void warned(void *arg, const char *sentence)
{
	fprintf(stderr, "reader: %s\n", sentence);
	snprintf(warning, sizeof(warning), "%s", sentence);
	warnings++;
}

static inline void sh(const char *format, const char *a)
{
	char command[2 * PATH_MAX];

	snprintf(command, sizeof(command), format, a);
	if (system(command) != 0)
		fail_msg("failed: %s", command);
}

static inline int store_setup(void **state)
{
	const char *base = getenv("TMPDIR");

	snprintf(dir, sizeof(dir), "%s/ranktrace-store-XXXXXX", base ? base : "/tmp");
	if (!mkdtemp(dir))
		return -1;
	warnings = 0;
	options = (struct store_options){
		.state_dir = dir,
		.segment_ns = 3600 * NSEC_PER_SEC,
		.events_size_bytes_max = 1UL << 30,
		.events_age_ns_max = 24 * 3600 * NSEC_PER_SEC,
		.summary_age_ns_max = 14 * 24 * 3600 * NSEC_PER_SEC,
	};
	return 0;
}

static inline int store_teardown(void **state)
{
	sh("rm -rf '%s'", dir);
	return 0;
}

static inline struct store *open_store(void)
{
	struct store *store = NULL;

	assert_int_equal(store_open(&options, &store), 0);
	return store;
}

static inline void put_stage(
	struct store *store, int64_t instance, const char *stage, uint64_t start_ns, int64_t duration)
{
	const struct row_stages row = {.rank = field_int(instance),
		.stage = field_text(stage),
		.name = field_text("n"),
		.start_ns = field_time(start_ns),
		.duration_ns = field_duration(duration),
		.thread_id = field_int(7),
		.depth = field_int(0),
		.instance = field_int(instance)};

	store_put_stages(store, &row);
}

static inline void put_step(struct store *store, int64_t instance, int64_t step, uint64_t start_ns)
{
	const struct row_steps row = {.rank = field_int(0),
		.step = field_int(step),
		.start_ns = field_time(start_ns),
		.duration_ns = field_duration(5),
		.kind = field_text("train"),
		.instance = field_int(instance)};

	store_put_steps(store, &row);
}

static inline void put_rank(struct store *store, int64_t instance, int64_t rank, int ended)
{
	store_put_ranks(store, &(struct row_ranks){
				       .rank = field_int(rank),
				       .job = field_text("job"),
				       .first_seen_ns = field_time(1000),
				       .ended = field_int(ended),
				       .instance = field_int(instance),
			       });
}

static inline struct reader *open_reader(void)
{
	struct reader_options how = {.warning = warned};
	struct reader *reader = NULL;
	char error[512] = "";

	if (reader_open(dir, &how, &reader, error, sizeof(error)) < 0)
		fail_msg("%s", error);
	return reader;
}

/* All rows as text: values by "|", rows by newline. Freed by the caller. */
static inline char *rows_of(sqlite3_stmt *statement)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	int rc;

	while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
		for (int i = 0; i < sqlite3_column_count(statement); i++) {
			const char *value = (const char *)sqlite3_column_text(statement, i);

			fprintf(out, "%s%s", i ? "|" : "", value ? value : "NULL");
		}
		fputc('\n', out);
	}
	fclose(out);
	assert_int_equal(rc, SQLITE_DONE);
	return text;
}

static inline char *query(const char *sql)
{
	struct reader *reader = open_reader();
	sqlite3_stmt *statement = NULL;
	char error[512] = "", *text;

	if (reader_prepare(reader, sql, &statement, error, sizeof(error)) < 0)
		fail_msg("%s: %s", sql, error);
	text = rows_of(statement);
	sqlite3_finalize(statement);
	reader_close(reader);
	return text;
}

#define assert_query(sql, expected) \
	do { \
		char *_text = query(sql); \
		assert_string_equal(_text, expected); \
		free(_text); \
	} while (0)

static inline int64_t query_int(const char *sql)
{
	char *text = query(sql);
	int64_t value = strtoll(text, NULL, 10);

	free(text);
	return value;
}

#endif
