/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes are rows of the stores of two nodes: in every column a value that is likely there, or any other of any
 * type, as who writes the files can put them there. What people read is made of them: findings, the report in its forms
 * and with its comparison across nodes, or a timeline, by the first byte. A text that rows may hold follows it.
 */
#undef NDEBUG
#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzers/report/judge.h"
#include "analyzers/report/render.h"
#include "analyzers/store/schema_sql.h"
#include "analyzers/timeline/timeline.h"
#include "analyzers/analyze/findings_rows.h"

#define NSEC 1000000000LL
#define BASE_NS (1795219200LL * NSEC) /* what the name of the segment says */
/* One file by two names: readers search each for the tables of its kind. */
#define SEGMENT "events-20261121T000000Z-000001.db"
#define SUMMARY "summary-20261121T000000Z-000002.db"
#define STORES 2
#define ROWS_MAX 256 /* of an input: more only take time */
#define COMPARE_NS 50000000
#define PATH_BYTES 128

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *data;
	size_t size;
};

/* By their number from 1. The last slot is the input's own. */
static const char *const texts[31] = {"", "job", "node-a", "node-b", "0", "1", "torchrun", "dataloader", "forward",
	"backward", "optimizer", "AllReduce", "AllGather", "Send", "float32", "nccl", "device", "host", "init",
	"0x00112233445566ff", "data", "slow_rank", "hang", "open", "closed", "warning", "suspected",
	"[{\"what\":\"step_time\",\"value\":1.5,\"unit\":\"s\"}]", "L1", "malloc", "a \033[1m<b>&\xff\n"};

static char folder[STORES][PATH_BYTES], segment[STORES][PATH_BYTES], summary[STORES][PATH_BYTES];
static uint8_t *empty;
static size_t empty_bytes;

static void remove_folders(void)
{
	char db[PATH_BYTES + 4];

	for (size_t i = 0; i < STORES; i++) {
		snprintf(db, sizeof(db), "%s/db", folder[i]);
		(void)unlink(segment[i]);
		(void)unlink(summary[i]);
		(void)rmdir(db);
		(void)rmdir(folder[i]);
	}
}

static void run(sqlite3 *db, const char *sql)
{
	assert(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
}

/* The bytes of a segment without rows. */
static void make_empty(void)
{
	sqlite3_stmt *statement = NULL;
	char sql[SCHEMA_SQL_BYTES];
	sqlite3_int64 bytes = 0;
	sqlite3 *db = NULL;

	assert(sqlite3_open(":memory:", &db) == SQLITE_OK);
	for (unsigned tier = 0; tier < TIER_MAX; tier++) {
		assert(schema_create_sql((enum schema_tier)tier, BASE_NS, sql, sizeof(sql)) == 0);
		run(db, sql);
	}
	snprintf(sql, sizeof(sql),
		"PRAGMA application_id=%d; PRAGMA user_version=%d; INSERT INTO meta "
		"VALUES('base_ns',%lld),('tier','events')",
		SCHEMA_APPLICATION_ID, SCHEMA_VERSION, BASE_NS);
	run(db, sql);
	assert(sqlite3_prepare_v2(db, "INSERT INTO texts VALUES(?1,?2)", -1, &statement, NULL) == SQLITE_OK);
	for (int i = 0; i < (int)(sizeof(texts) / sizeof(texts[0])); i++) {
		sqlite3_bind_int(statement, 1, i + 1);
		sqlite3_bind_text(statement, 2, texts[i], -1, SQLITE_STATIC);
		assert(sqlite3_step(statement) == SQLITE_DONE);
		sqlite3_reset(statement);
	}
	sqlite3_finalize(statement);
	empty = sqlite3_serialize(db, "main", &bytes, 0);
	assert(empty && bytes > 0);
	empty_bytes = (size_t)bytes;
	sqlite3_close(db);
}

static void make_folders(void)
{
	for (size_t i = 0; i < STORES; i++) {
		char db[PATH_BYTES + 4];

		snprintf(folder[i], sizeof(folder[i]), "/dev/shm/ranktrace-fuzz-XXXXXX");
		assert(mkdtemp(folder[i]));
		snprintf(db, sizeof(db), "%s/db", folder[i]);
		assert(mkdir(db, 0700) == 0);
		assert((size_t)snprintf(segment[i], PATH_BYTES, "%.60s/db/%s", folder[i], SEGMENT) < PATH_BYTES);
		assert((size_t)snprintf(summary[i], PATH_BYTES, "%.60s/db/%s", folder[i], SUMMARY) < PATH_BYTES);
		close(open(segment[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
		assert(link(segment[i], summary[i]) == 0);
	}
	atexit(remove_folders);
}

static uint64_t take(struct input *input, size_t bytes)
{
	uint64_t ret = 0;

	if (bytes > input->size)
		bytes = input->size;
	memcpy(&ret, input->data, bytes);
	input->data += bytes;
	input->size -= bytes;
	return ret;
}

static sqlite3 *open_segment(size_t store, const char *text, size_t length)
{
	int fd = open(segment[store], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	sqlite3_stmt *statement = NULL;
	sqlite3 *db = NULL;

	assert(fd >= 0 && write(fd, empty, empty_bytes) == (ssize_t)empty_bytes);
	close(fd);
	assert(sqlite3_open(segment[store], &db) == SQLITE_OK);
	run(db, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN");
	assert(sqlite3_prepare_v2(db, "INSERT OR IGNORE INTO texts VALUES(32,?1)", -1, &statement, NULL) == SQLITE_OK);
	sqlite3_bind_text(statement, 1, text, (int)length, SQLITE_TRANSIENT);
	(void)sqlite3_step(statement);
	sqlite3_finalize(statement);
	return db;
}

/* What one expects in the column. Rows that are repeated follow each other. */
static int64_t likely(const struct schema_column *column, unsigned what, unsigned repeat)
{
	switch (column->type) {
	case SCHEMA_TEXT:
		return 1 + what;
	case SCHEMA_TIME:
		return (int64_t)(10 + what + repeat) * NSEC;
	case SCHEMA_DURATION:
		return (int64_t)what * 50000000;
	default:
		return what + (strcmp(column->name, "step") == 0 || strcmp(column->name, "seq") == 0 ? repeat : 0);
	}
}

static void bind(struct input *input, sqlite3_stmt *row, int at, const struct schema_column *column, unsigned repeat)
{
	uint8_t what = (uint8_t)take(input, 1);
	uint64_t bits;
	double real;

	switch (what & 7) {
	case 4:
		sqlite3_bind_null(row, at);
		break;
	case 5:
		sqlite3_bind_int64(row, at, (int64_t)take(input, 8));
		break;
	case 6:
		bits = take(input, 8);
		memcpy(&real, &bits, sizeof(real));
		sqlite3_bind_double(row, at, real);
		break;
	case 7:
		bits = take(input, 8);
		sqlite3_bind_text(row, at, (const char *)&bits, sizeof(bits), SQLITE_TRANSIENT);
		break;
	default:
		sqlite3_bind_int64(row, at, likely(column, what >> 3, repeat));
	}
}

/* A row, or many of nearly the same values. */
static unsigned add_rows(struct input *input, sqlite3 *const *db)
{
	uint8_t which = (uint8_t)take(input, 1), times = (uint8_t)take(input, 1) & 63;
	const struct schema_table *table = &schema_tables[which % TABLE_MAX];
	sqlite3_stmt *statement = NULL;
	struct input same;
	char sql[1024];

	assert(schema_insert_sql(table, sql, sizeof(sql)) == 0);
	assert(sqlite3_prepare_v2(db[which >> 7], sql, -1, &statement, NULL) == SQLITE_OK);
	for (unsigned repeat = 0; repeat <= times; repeat++) {
		same = *input;
		for (size_t i = 0; i < schema_stored(table); i++)
			bind(&same, statement, (int)i + 1, &table->columns[i], repeat);
		(void)sqlite3_step(statement); /* keys take whole numbers only */
		sqlite3_reset(statement);
	}
	*input = same;
	sqlite3_finalize(statement);
	return times + 1u;
}

static void fill(struct input *input)
{
	size_t length = take(input, 1) & 63;
	sqlite3 *db[STORES];

	if (length > input->size)
		length = input->size;
	for (size_t i = 0; i < STORES; i++)
		db[i] = open_segment(i, (const char *)input->data, length);
	input->data += length;
	input->size -= length;
	for (unsigned rows = 0; input->size && rows < ROWS_MAX;)
		rows += add_rows(input, db);
	for (size_t i = 0; i < STORES; i++) {
		run(db[i], "COMMIT");
		sqlite3_close(db[i]);
	}
}

static void findings(void)
{
	const struct findings_filter filter = {.all = true};
	struct reader_options options = {0};
	struct reader *reader = NULL;
	char error[512] = "";
	json_t *json;

	assert(reader_open(folder[0], &options, &reader, error, sizeof(error)) == 0);
	json = findings_rows(reader, &filter, error, sizeof(error));
	assert(json || *error);
	json_decref(json);
	reader_close(reader);
}

static void report(FILE *out)
{
	static void (*const forms[])(FILE *, const struct report *) = {
		render_text, render_markdown, render_json, render_html};
	struct stores_one one[STORES] = {{.path = folder[0]}, {.path = folder[1]}};
	const struct stores stores = {.count = STORES, .one = one};
	const struct report_options options = {.since_ns = BASE_NS,
		.until_ns = BASE_NS + 3600 * NSEC,
		.now_ns = BASE_NS + 3600 * NSEC,
		.stores = &stores,
		.compare_ns = COMPARE_NS};
	struct report *report = NULL;
	char error[1024] = "";

	if (report_read(&options, &report, error, sizeof(error)) < 0) {
		assert(*error);
		return;
	}
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		forms[i](out, report);
	report_free(report);
}

static void on_warning(void *arg, const char *sentence)
{
	assert(*sentence);
}

static void timeline(FILE *out, const struct trace_format *format)
{
	const struct trace_options where = {.out = out, .base_ns = BASE_NS, .title = "fuzz"};
	struct stores_one one[STORES] = {{.path = folder[0]}, {.path = folder[1]}};
	const struct timeline_options options = {.store = one,
		.stores = STORES,
		.since_ns = BASE_NS,
		.until_ns = BASE_NS + 3600 * NSEC,
		.warning = on_warning};
	struct timeline_counts counts;
	struct trace *trace = NULL;
	char error[512] = "";

	assert(trace_open(format, &where, &trace) == 0);
	assert(timeline_write(&options, trace, &counts, error, sizeof(error)) == 0 || *error);
	(void)trace_finish(trace);
	trace_close(trace);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	static FILE *out;
	uint8_t what;

	if (!empty) {
		make_empty();
		make_folders();
		out = fopen("/dev/null", "we");
		assert(out);
	}
	what = (uint8_t)take(&input, 1) & 3;
	fill(&input);
	if (what == 0)
		findings();
	else if (what == 1)
		report(out);
	else
		timeline(out, what == 2 ? &trace_perfetto : &trace_chrome);
	return 0;
}
