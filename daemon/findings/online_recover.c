/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings left open in the store by a daemon that was killed. STATE_DIR/findings exists while findings are open; if
 * it exists at start, they are closed with their newest known time.
 */
#include <fcntl.h>
#include <limits.h>

#include "analyzers/store/reader.h"
#include "daemon/core/context.h"
#include "daemon/findings/online_internal.h"
#include "daemon/base/log.h"
#include "daemon/store/store.h"

#define RECOVER_MAX 512
#define RECOVER_NS_MAX (5 * NSEC_PER_SEC)

static bool online_recover_mark_path(const struct online *online, char path[PATH_MAX])
{
	return snprintf(path, PATH_MAX, "%s/findings", online->context->config.state_dir) < PATH_MAX;
}

void online_recover_mark(struct online *online, bool open)
{
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX];

	if (open == online->marked || !online_recover_mark_path(online, path))
		return;
	online->marked = open;
	if (open)
		fd = openat(AT_FDCWD, path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	else if (!online->unclosed)
		(void)unlink(path);
}

static struct store_value online_recover_value_of(sqlite3_stmt *statement, int column)
{
	switch (sqlite3_column_type(statement, column)) {
	case SQLITE_INTEGER:
		return V_INT(sqlite3_column_int64(statement, column));
	case SQLITE_FLOAT:
		return V_REAL(sqlite3_column_double(statement, column));
	case SQLITE_TEXT:
		return V_TEXT((const char *)sqlite3_column_text(statement, column));
	default:
		return V_NULL;
	}
}

/* Copies the row, with state and until_ns closed. */
static void online_recover_put_closed(struct online *online, sqlite3_stmt *statement, uint64_t now_ns)
{
	const struct schema_table *table = &schema_tables[TABLE_FINDINGS];
	size_t columns = schema_columns(table);
	int state = schema_column_find(table, "state"), until = schema_column_find(table, "until_ns");
	struct store_value row[SCHEMA_COLUMNS_MAX];
	bool open;

	for (size_t i = 0; i < columns; i++)
		row[i] = online_recover_value_of(statement, (int)i);
	open = row[state].type == STORE_TEXT && streq(row[state].text, "open");
	row[state] = V_TEXT(open ? "closed" : "dropped");
	if (row[until].type == STORE_NULL)
		row[until] = V_INT(now_ns);
	(void)store_put(online->context->store, TABLE_FINDINGS, row, columns);
}

static int online_recover_close_all(struct online *online, char *error, size_t error_size)
{
	const struct reader_options options = {.timeout_ns = RECOVER_NS_MAX};
	uint64_t now_ns = store_utc_ns(online->context->store, monotonic_ns());
	sqlite3_stmt *statement = NULL;
	struct reader *reader = NULL;
	int rc = SQLITE_DONE;
	unsigned count = 0;
	int r = reader_open(online->context->config.state_dir, &options, &reader, error, error_size);

	if (r < 0)
		return r;
	r = reader_prepare(
		reader, "SELECT * FROM findings WHERE state IN ('open', 'suspected')", &statement, error, error_size);
	while (r == 0 && (rc = sqlite3_step(statement)) == SQLITE_ROW && count < RECOVER_MAX) {
		online_recover_put_closed(online, statement, now_ns);
		count++;
	}
	if (r == 0 && rc != SQLITE_DONE) {
		snprintf(error, error_size, "%s",
			rc == SQLITE_ROW	 ? "too many for one start"
			: rc == SQLITE_INTERRUPT ? "reading timed out"
						 : sqlite3_errstr(rc));
		r = rc == SQLITE_ROW ? -E2BIG : -EIO;
	}
	sqlite3_finalize(statement);
	reader_close(reader);
	if (count)
		log_notice("findings", "closed %u finding%s left open by an earlier ranktraced", count,
			count == 1 ? "" : "s");
	return r;
}

void online_recover_close(struct online *online)
{
	char path[PATH_MAX], error[512] = "";

	if (!online_recover_mark_path(online, path) || access(path, F_OK) < 0)
		return;
	online->unclosed = online_recover_close_all(online, error, sizeof(error)) < 0;
	if (online->unclosed)
		log_warning("findings",
			"cannot close all findings of an earlier ranktraced, retrying at the next start: %s", error);
	else
		(void)unlink(path);
}
