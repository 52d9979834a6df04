/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes are a segment file; the reader reads every table of the store that holds it, by SQL and by scans. No
 * crash, no leak, and no longer than the timeout whatever the file's schema makes SQLite do.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzers/store/reader_scan.h"

#define TIMEOUT_NS 50000000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char state_dir[64];
static char path[PATH_MAX];

static void remove_folder(void)
{
	char db[PATH_MAX];

	(void)unlink(path);
	snprintf(db, sizeof(db), "%s/db", state_dir);
	(void)rmdir(db);
	(void)rmdir(state_dir);
}

static void make_folder(void)
{
	char db[PATH_MAX];

	snprintf(state_dir, sizeof(state_dir), "/dev/shm/ranktrace-fuzz-XXXXXX");
	if (!mkdtemp(state_dir))
		abort();
	snprintf(db, sizeof(db), "%s/db", state_dir);
	if (mkdir(db, 0700) < 0)
		abort();
	snprintf(path, sizeof(path), "%s/events-20261121T000000Z-000001.db", db);
	atexit(remove_folder);
}

static void query(struct reader *reader, const char *format, const char *table)
{
	sqlite3_stmt *statement = NULL;
	char sql[256], error[256];
	unsigned rows = 0;

	snprintf(sql, sizeof(sql), format, table);
	if (reader_prepare(reader, sql, &statement, error, sizeof(error)) < 0)
		return;
	while (sqlite3_step(statement) == SQLITE_ROW && rows++ < 10000)
		for (int i = 0; i < sqlite3_column_count(statement); i++)
			(void)sqlite3_column_text(statement, i);
	reader_error(reader, error, sizeof(error));
	sqlite3_finalize(statement);
}

/* All of the table's columns, or the first ones. */
static void scan(struct reader *reader, size_t table, int64_t since_ns)
{
	struct reader_scanning scanning = {.table = (enum schema_id)table, .words = {"device", "call"}};
	struct reader_scan *at = NULL;
	char error[256];
	unsigned rows = 0;

	for (size_t i = 0; i < READER_SCAN_COLUMNS_MAX && i < schema_columns(&schema_tables[table]); i++)
		scanning.columns[i] = schema_tables[table].columns[i].name;
	if (reader_scan_open(reader, &scanning, &at) < 0)
		abort();
	if (reader_scan_begin(at, since_ns, INT64_MAX, error, sizeof(error)) == 0)
		while (reader_scan_next(at) > 0 && rows++ < 10000)
			for (size_t i = 0; i < READER_SCAN_COLUMNS_MAX && scanning.columns[i]; i++)
				if (schema_tables[table].columns[i].type == SCHEMA_TEXT &&
					!reader_scan_is(at, i, rows % 2))
					(void)reader_scan_text(at, i);
	reader_scan_close(at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct reader_options options = {.timeout_ns = TIMEOUT_NS};
	struct reader *reader = NULL;
	char error[256];
	ssize_t written;
	int fd;

	if (!path[0])
		make_folder();
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		abort();
	written = write(fd, data, size);
	close(fd);
	if (written != (ssize_t)size || reader_open(state_dir, &options, &reader, error, sizeof(error)) < 0)
		return 0;
	for (size_t i = 0; i < TABLE_MAX; i++) {
		query(reader, "SELECT * FROM \"%s\"", schema_tables[i].name);
		if (schema_column_find(&schema_tables[i], "start_ns") >= 0)
			query(reader, "SELECT count(*) FROM \"%s\" WHERE start_ns > 1700000000000000000",
				schema_tables[i].name);
		if (schema_tables[i].kind == SCHEMA_LOG) {
			scan(reader, i, INT64_MIN);
			scan(reader, i, 1700000000000000000);
		}
	}
	reader_close(reader);
	return 0;
}
