/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a store: the list of its files, the connection, and what SQL may do. */
#include "analyzers/store/reader_internal.h"
#include "analyzers/base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analyzers/base/array.h"

void reader_start_clock(struct reader *reader)
{
	reader->late = false;
	reader->deadline_ns = reader->options.timeout_ns ? clock_ns(CLOCK_MONOTONIC) + reader->options.timeout_ns : 0;
}

int reader_progress(void *arg)
{
	struct reader *reader = arg;

	if (!reader->deadline_ns || clock_ns(CLOCK_MONOTONIC) < reader->deadline_ns)
		return 0;
	reader->late = true;
	return 1;
}

/* Allows only what SELECT needs: SQL opens and changes no file. */
static int reader_authorize(void *arg, int action, const char *a, const char *b, const char *c, const char *d)
{
	struct reader *reader = arg;

	switch (action) {
	case SQLITE_SELECT:
	case SQLITE_READ:
	case SQLITE_RECURSIVE:
		return SQLITE_OK;
	case SQLITE_FUNCTION:
		if (!b || sqlite3_stricmp(b, "load_extension") != 0)
			return SQLITE_OK;
	}
	reader->denied = true;
	return SQLITE_DENY;
}

static int reader_by_number(const void *a, const void *b)
{
	const struct reader_file *x = a, *y = b;

	return ORDER(x->name.number, y->name.number);
}

int reader_list(struct reader *reader)
{
	struct reader_file *files = NULL;
	size_t count = 0, capacity = 0;
	struct dirent *entry;
	DIR *dir = opendir(reader->dir);

	if (!dir)
		return -errno;
	while (count < READER_FILES_MAX && (entry = readdir(dir))) {
		struct segment_name name;

		if (segment_name_parse(entry->d_name, &name) < 0)
			continue;
		if (!array_reserve((void **)&files, &capacity, count + 1, sizeof(*files), READER_FILES_MAX)) {
			free(files);
			closedir(dir);
			return -ENOMEM;
		}
		files[count++] = (struct reader_file){.name = name};
	}
	closedir(dir);
	if (count)
		qsort(files, count, sizeof(*files), reader_by_number);
	/* Warn once a file, not once a statement; what was left out remains so. */
	for (size_t i = 0, j = 0; i < count; i++) {
		while (j < reader->files_count && reader->files[j].name.number < files[i].name.number)
			j++;
		if (j < reader->files_count && reader->files[j].name.number == files[i].name.number)
			files[i] = reader->files[j];
	}
	free(reader->files);
	reader->files = files;
	reader->files_count = count;
	return 0;
}

/* A first use declares the table: later the authorizer would deny it as CREATE TABLE. */
static int reader_add_table(struct reader *reader, size_t i)
{
	const char *name = schema_tables[i].name;
	sqlite3_stmt *statement = NULL;
	char sql[128];
	int rc;

	reader->tables[i] = (struct reader_table){.reader = reader, .schema = &schema_tables[i]};
	rc = sqlite3_create_module_v2(reader->db, name, &segment_table_module, &reader->tables[i], NULL);
	if (rc != SQLITE_OK)
		return rc;
	snprintf(sql, sizeof(sql), "SELECT 1 FROM \"%s\"", name);
	rc = sqlite3_prepare_v2(reader->db, sql, -1, &statement, NULL);
	sqlite3_finalize(statement);
	return rc;
}

static int open_databases(struct reader *reader)
{
	int rc;

	rc = sqlite3_open_v2(":memory:", &reader->cache, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_open_v2(":memory:", &reader->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
	if (rc != SQLITE_OK)
		return rc;
	sqlite3_limit(reader->db, SQLITE_LIMIT_LENGTH, 1 << 26);
	sqlite3_exec(reader->db, reader->options.sort_on_disk ? "PRAGMA temp_store=FILE" : "PRAGMA temp_store=MEMORY",
		NULL, NULL, NULL);
	for (size_t i = 0; i < TABLE_MAX && rc == SQLITE_OK; i++)
		rc = reader_add_table(reader, i);
	if (rc == SQLITE_OK)
		rc = sqlite3_set_authorizer(reader->db, reader_authorize, reader);
	sqlite3_progress_handler(reader->db, 2000, reader_progress, reader);
	sqlite3_progress_handler(reader->cache, 2000, reader_progress, reader);
	return rc;
}

int reader_open(const char *state_dir, const struct reader_options *options, struct reader **ret, char *error,
	size_t error_size)
{
	struct reader *reader = calloc(1, sizeof(*reader));
	int r;

	if (!reader) {
		snprintf(error, error_size, "out of memory");
		return -ENOMEM;
	}
	if (options)
		reader->options = *options;
	if ((size_t)snprintf(reader->dir, sizeof(reader->dir), "%s%s", state_dir, reader->options.is_db ? "" : "/db") >=
		sizeof(reader->dir)) {
		snprintf(error, error_size, "the path of the state folder is too long");
		reader_close(reader);
		return -ENAMETOOLONG;
	}
	r = reader_list(reader);
	if (r < 0) {
		snprintf(error, error_size, "cannot read the store in %s: %s%s", reader->dir, strerror(-r),
			r == -ENOENT || r == -ENOTDIR ? "; --state-dir names ranktraced's state folder"
			: r == -EACCES		      ? "; only root and members of group ranktrace may read it"
						      : "");
		reader_close(reader);
		return r;
	}
	if (open_databases(reader) != SQLITE_OK) {
		snprintf(error, error_size, "cannot set up SQLite: %s",
			reader->db ? sqlite3_errmsg(reader->db) : "out of memory");
		reader_close(reader);
		return -EIO;
	}
	*ret = reader;
	return 0;
}

struct reader *reader_close(struct reader *reader)
{
	if (!reader)
		return NULL;
	sqlite3_close(reader->db);
	reader_files_close(reader);
	sqlite3_close(reader->cache);
	free(reader->files);
	free(reader);
	return NULL;
}

void reader_error(struct reader *reader, char *error, size_t error_size)
{
	if (reader->denied)
		snprintf(error, error_size, "only SELECT is allowed: the store is read-only");
	else if (reader->late)
		snprintf(error, error_size, "the query took longer than %g s and was stopped",
			(double)reader->options.timeout_ns / 1e9);
	else
		snprintf(error, error_size, "%s", sqlite3_errmsg(reader->db));
}

static bool reader_blank(const char *text)
{
	return text[strspn(text, " \t\r\n;")] == 0;
}

int reader_prepare(struct reader *reader, const char *sql, sqlite3_stmt **ret, char *error, size_t error_size)
{
	sqlite3_stmt *statement = NULL;
	const char *rest = "";
	int rc, r;

	r = reader_list(reader);
	if (r < 0) {
		snprintf(error, error_size, "cannot read the store in %s: %s", reader->dir, strerror(-r));
		return r;
	}
	reader->generation++;
	reader->denied = false;
	reader_start_clock(reader);
	rc = sqlite3_prepare_v2(reader->db, sql, -1, &statement, &rest);
	if (rc != SQLITE_OK) {
		reader_error(reader, error, error_size);
		return -EINVAL;
	}
	if (!statement || !reader_blank(rest)) {
		snprintf(error, error_size, statement ? "one statement at a time" : "no statement");
		sqlite3_finalize(statement);
		return -EINVAL;
	}
	if (!sqlite3_stmt_readonly(statement)) {
		reader->denied = true;
		reader_error(reader, error, error_size);
		sqlite3_finalize(statement);
		return -EINVAL;
	}
	*ret = statement;
	return 0;
}

int reader_each(struct reader *reader, const char *sql, int (*row)(void *arg, sqlite3_stmt *statement), void *arg,
	char *error, size_t error_size)
{
	sqlite3_stmt *statement = NULL;
	int rc = SQLITE_DONE, r = reader_prepare(reader, sql, &statement, error, error_size);

	if (r < 0)
		return r;
	while (r == 0 && (rc = sqlite3_step(statement)) == SQLITE_ROW)
		r = row(arg, statement);
	if (r < 0) {
		snprintf(error, error_size, "out of memory");
	} else if (r == 0 && rc != SQLITE_DONE) {
		reader_error(reader, error, error_size);
		r = -EIO;
	}
	sqlite3_finalize(statement);
	return r < 0 ? r : 0;
}
