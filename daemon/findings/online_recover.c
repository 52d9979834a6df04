/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings left open in the store by a daemon that was killed. STATE_DIR/findings exists while findings are open; if
 * it exists at start, they are closed: they end with the newest sample of ranks in the store.
 */
#include <fcntl.h>
#include <limits.h>

#include "analyzers/store/reader.h"
#include "daemon/core/context.h"
#include "daemon/findings/online_internal.h"
#include "daemon/base/job_thread.h"
#include "daemon/base/log.h"
#include "daemon/store/store.h"

#define RECOVER_MAX 512

static bool online_recover_mark_path(const struct online *online, char path[PATH_MAX])
{
	return snprintf(path, PATH_MAX, "%s/findings", online->context->config.state_dir) < PATH_MAX;
}

/* Of the writer: a disk can wait for long. */
struct online_mark {
	struct thread_job job; /* first */
	bool open;
	char path[PATH_MAX];
};

static void online_mark_run(struct thread_job *job)
{
	const struct online_mark *mark = (struct online_mark *)job;
	_cleanup_close_ int fd = -1;

	if (mark->open)
		fd = openat(AT_FDCWD, mark->path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	else
		(void)unlink(mark->path);
}

static void online_mark_free(struct thread_job *job)
{
	free(job);
}

/* False: it is still being written. */
static bool online_mark_end(struct online *online, uint64_t wait_ns)
{
	if (!online->mark)
		return true;
	if (!job_thread_wait(online->writer, online->mark, wait_ns))
		return false;
	job_thread_forget(online->writer, online->mark);
	online->mark = NULL;
	return true;
}

void online_recover_mark(struct online *online, bool open)
{
	struct online_mark *mark;

	if (open == online->marked || !online_mark_end(online, online->ending ? online->wait_ns : 0))
		return; /* with the next finding */
	online->marked = open;
	if (!open && online->unclosed)
		return;
	mark = calloc(1, sizeof(*mark));
	if (!mark || !online_recover_mark_path(online, mark->path)) {
		free(mark);
		return;
	}
	mark->job = (struct thread_job){.run = online_mark_run, .free = online_mark_free};
	mark->open = open;
	online->mark = &mark->job;
	job_thread_order(online->writer, online->mark);
	(void)online_mark_end(online, online->wait_ns);
}

void online_recover_forget(struct online *online)
{
	if (online->mark)
		job_thread_forget(online->writer, online->mark);
	online->mark = NULL;
}

static struct store_value online_recover_value(sqlite3_stmt *statement, int column)
{
	switch (sqlite3_column_type(statement, column)) {
	case SQLITE_INTEGER:
		return (struct store_value){.type = STORE_INT, .integer = sqlite3_column_int64(statement, column)};
	case SQLITE_FLOAT:
		return (struct store_value){.type = STORE_REAL, .real = sqlite3_column_double(statement, column)};
	case SQLITE_TEXT:
		return (struct store_value){
			.type = STORE_TEXT, .text = (const char *)sqlite3_column_text(statement, column)};
	default:
		return (struct store_value){.type = STORE_NULL};
	}
}

/* Copies the row, with state and until_ns closed. Its sentence is of the time when it was open. */
static void online_recover_put_closed(struct online *online, sqlite3_stmt *statement, uint64_t seen_ns)
{
	struct row_findings row; /* filled by the loop */
	struct store_value *values = (struct store_value *)(void *)&row;
	char sentence[sizeof(((struct finding *)NULL)->sentence) + 64];
	const char *state;

	for (int i = 0; i < COLUMNS_FINDINGS; i++)
		values[i] = online_recover_value(statement, i);
	state = row.state.value.type == STORE_TEXT ? row.state.value.text : "";
	row.state = field_text(streq(state, "open") ? "closed" : "dropped");
	if (row.sentence.value.type == STORE_TEXT) {
		snprintf(sentence, sizeof(sentence), "when ranktraced ended unexpectedly: %s", row.sentence.value.text);
		row.sentence = field_text(sentence);
	}
	if (row.until_ns.value.type == STORE_NULL) {
		uint64_t since_ns = row.since_ns.value.type == STORE_INT ? (uint64_t)row.since_ns.value.integer : 0;

		row.until_ns = field_time(seen_ns > since_ns ? seen_ns : since_ns);
	}
	store_put_findings(online->context->store, &row);
}

#define WHERE_LEFT " WHERE state IN ('open', 'suspected')"

/* End of the newest sample since the first of them began; now_ns: there is none. */
static int online_recover_seen(struct reader *reader, uint64_t now_ns, uint64_t *ret_ns, char *error, size_t error_size)
{
	sqlite3_stmt *statement = NULL;
	int64_t seen_ns = 0;
	int rc = SQLITE_DONE, r = reader_prepare(reader,
				      "SELECT max(start_ns + duration_ns) FROM host_samples WHERE start_ns >= (SELECT "
				      "min(since_ns) FROM findings" WHERE_LEFT ")",
				      &statement, error, error_size);

	if (r == 0 && (rc = sqlite3_step(statement)) == SQLITE_ROW)
		seen_ns = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	if (r == 0 && rc != SQLITE_ROW) {
		snprintf(error, error_size, "%s", rc == SQLITE_INTERRUPT ? "reading timed out" : sqlite3_errstr(rc));
		return -EIO;
	}
	*ret_ns = seen_ns > 0 && (uint64_t)seen_ns < now_ns ? (uint64_t)seen_ns : now_ns;
	return r;
}

static int online_recover_close_all(struct online *online, uint64_t timeout_ns, char *error, size_t error_size)
{
	const struct reader_options options = {.timeout_ns = timeout_ns};
	uint64_t seen_ns = store_utc_ns(online->context->store, monotonic_ns());
	sqlite3_stmt *statement = NULL;
	struct reader *reader = NULL;
	int rc = SQLITE_DONE;
	unsigned count = 0;
	int r = reader_open(online->context->config.state_dir, &options, &reader, error, error_size);

	if (r < 0)
		return r;
	r = online_recover_seen(reader, seen_ns, &seen_ns, error, error_size);
	if (r == 0)
		r = reader_prepare(reader, "SELECT * FROM findings" WHERE_LEFT, &statement, error, error_size);
	while (r == 0 && (rc = sqlite3_step(statement)) == SQLITE_ROW && count < RECOVER_MAX) {
		online_recover_put_closed(online, statement, seen_ns);
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

void online_recover_close(struct online *online, uint64_t timeout_ns)
{
	char path[PATH_MAX], error[512] = "";

	if (!online_recover_mark_path(online, path) || access(path, F_OK) < 0)
		return;
	online->unclosed = online_recover_close_all(online, timeout_ns, error, sizeof(error)) < 0;
	if (online->unclosed)
		log_warning("findings",
			"cannot close all findings of an earlier ranktraced, retrying at the next start: %s", error);
	else
		(void)unlink(path);
}
