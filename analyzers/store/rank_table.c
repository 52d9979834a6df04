/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/store/rank_table.h"

enum {
	INSTANCE,
	RANK,
	WORLD_SIZE,
	LOCAL_RANK,
	PID,
	JOB,
	HOST,
	CARD,
	START,
	FIRST_SEEN,
	LAST_SEEN,
	ENDED,
	UID,
	LAUNCHER,
	PORT
};

#define RANK_TABLE_SQL \
	"SELECT instance, rank, world_size, local_rank, pid, job, host, card, start_time_ns, first_seen_ns, " \
	"last_seen_ns, ended, uid, launcher_pid, port" \
	" FROM ranks ORDER BY instance"

struct rank_table_reading {
	int (*row)(void *arg, const struct rank_row *row);
	void *arg;
};

static int64_t rank_table_number(sqlite3_stmt *s, int column, int64_t unknown)
{
	return sqlite3_column_type(s, column) == SQLITE_INTEGER ? sqlite3_column_int64(s, column) : unknown;
}

static const char *rank_table_text(sqlite3_stmt *s, int column)
{
	const unsigned char *text = sqlite3_column_text(s, column);

	return text ? (const char *)text : "";
}

static int rank_table_row(void *arg, sqlite3_stmt *s)
{
	const struct rank_table_reading *reading = arg;

	return reading->row(reading->arg, &(struct rank_row){
						  .has_instance = sqlite3_column_type(s, INSTANCE) != SQLITE_NULL,
						  .instance = sqlite3_column_int64(s, INSTANCE),
						  .rank = rank_table_number(s, RANK, -1),
						  .world_size = rank_table_number(s, WORLD_SIZE, -1),
						  .local_rank = rank_table_number(s, LOCAL_RANK, -1),
						  .pid = rank_table_number(s, PID, 0),
						  .job = rank_table_text(s, JOB),
						  .host = rank_table_text(s, HOST),
						  .card = rank_table_text(s, CARD),
						  .start_ns = rank_table_number(s, START, 0),
						  .first_seen_ns = rank_table_number(s, FIRST_SEEN, 0),
						  .last_seen_ns = rank_table_number(s, LAST_SEEN, 0),
						  .ended = sqlite3_column_int(s, ENDED) != 0,
						  .uid = rank_table_number(s, UID, -1),
						  .launcher_pid = rank_table_number(s, LAUNCHER, 0),
						  .port = rank_table_number(s, PORT, 0),
					  });
}

int rank_table_read(struct reader *reader, int (*row)(void *arg, const struct rank_row *row), void *arg, char *error,
	size_t error_size)
{
	struct rank_table_reading reading = {row, arg};

	return reader_each(reader, RANK_TABLE_SQL, rank_table_row, &reading, error, error_size);
}
