/* SPDX-License-Identifier: Apache-2.0 */
/* One row of `kinds` defines a kind: table, columns, file header, encoder. */
#include "analyzers/dump/dump_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"
#include "analyzers/base/fnv1a.h"
#include "analyzers/store/rank_table.h"

/*
 * Numbers of operations: a set-associative hash table, where a new operation replaces the oldest of its set. Keys are
 * 64-bit hashes; on a collision within a rank's file numbers still differ, because `taken` holds the members.
 */

#define WAYS 4

struct dump_id {
	uint64_t hash;
	uint64_t id;	/* 0: free */
	uint64_t taken; /* a bit a member, modulo 64 */
};

struct dump_ids {
	uint64_t next;
	struct dump_id way[DUMP_IDS_MAX];
};

struct dump_ids *dump_ids_new(uint64_t next)
{
	struct dump_ids *ids = calloc(1, sizeof(*ids));

	if (ids)
		ids->next = next ? next : 1;
	return ids;
}

struct dump_ids *dump_ids_free(struct dump_ids *ids)
{
	free(ids);
	return NULL;
}

static uint64_t dump_ids_add_text(uint64_t hash, const char *text)
{
	return fnv1a_bytes(hash, text ? text : "", text ? strlen(text) + 1 : 1);
}

static uint64_t dump_ids_hash_of(const struct dump_op_key *key)
{
	uint64_t hash = dump_ids_add_text(FNV1A_START, key->communicator);

	hash = dump_ids_add_text(hash, key->op);
	hash = fnv1a_bytes(hash, &key->seq, sizeof(key->seq));
	return fnv1a_bytes(hash, &key->peer, sizeof(key->peer));
}

uint64_t dump_ids_of(struct dump_ids *ids, const struct dump_op_key *key, uint64_t member)
{
	uint64_t hash, bit = 1ULL << (member % 64);
	struct dump_id *set, *oldest;

	if (!key->joins)
		return ids->next++;
	hash = dump_ids_hash_of(key);
	set = &ids->way[(hash ^ hash >> 32) % (DUMP_IDS_MAX / WAYS) * WAYS];
	oldest = set;
	for (unsigned i = 0; i < WAYS; i++) {
		if (set[i].id && set[i].hash == hash && !(set[i].taken & bit)) {
			set[i].taken |= bit;
			return set[i].id;
		}
		if (set[i].id < oldest->id)
			oldest = &set[i];
	}
	*oldest = (struct dump_id){hash, ids->next++, bit};
	return oldest->id;
}

uint64_t dump_ids_next(const struct dump_ids *ids)
{
	return ids->next;
}

#define RANKS_MAX 1000000 /* processes in one store */
#define COLUMNS_MAX 16

enum { STAGE_STEP, STAGE_STAGE, STAGE_NAME, STAGE_START, STAGE_DURATION };
enum {
	OP_COMMUNICATOR,
	OP_SEQ,
	OP_OP,
	OP_DTYPE,
	OP_COUNT,
	OP_HOST_START,
	OP_HOST_DURATION,
	OP_DEVICE_START,
	OP_DEVICE_DURATION,
	OP_SEQ_FROM,
	OP_PEER,
	OP_THREAD
};
enum { MEMORY_STEP, MEMORY_STAGE, MEMORY_OP, MEMORY_ADDRESS, MEMORY_BYTES, MEMORY_RESULT, MEMORY_STACK };

/* Results of an encoder besides a size. */
#define NO_RECORD SIZE_MAX /* the format has none */
#define STACKS_WANTED (SIZE_MAX - 1)
enum { OFF_THREAD, OFF_NAME, OFF_START, OFF_DURATION, OFF_DELAY, OFF_NEXT_PID, OFF_NEXT_NAME };

struct row {
	struct dump_rows *rows;
	sqlite3_stmt *columns;
	const struct dump_rank *rank;
};

static int column_of(const struct row *row, int field)
{
	return READER_FOLLOW_FIRST + row->rows->at[field];
}

static int64_t dump_rows_number(const struct row *row, int field)
{
	int column = column_of(row, field);

	return sqlite3_column_type(row->columns, column) == SQLITE_INTEGER ? sqlite3_column_int64(row->columns, column)
									   : DUMP_UNKNOWN;
}

static const char *dump_rows_text(const struct row *row, int field)
{
	return (const char *)sqlite3_column_text(row->columns, column_of(row, field));
}

static size_t stage_head(const struct dump_rank *rank, uint8_t *ret)
{
	return dump_encode_timeline_head(rank->rank, rank->job, ret);
}

static size_t op_head(const struct dump_rank *rank, uint8_t *ret)
{
	memcpy(ret, dump_csv_header, strlen(dump_csv_header));
	return strlen(dump_csv_header);
}

static size_t memory_head(const struct dump_rank *rank, uint8_t *ret)
{
	return dump_encode_memory_head(rank->rank, ret);
}

static size_t dump_rows_stage_row(const struct row *row, uint8_t *ret)
{
	const struct dump_stage stage = {
		.step = dump_rows_number(row, STAGE_STEP),
		.stage = dump_rows_text(row, STAGE_STAGE),
		.name = dump_rows_text(row, STAGE_NAME),
		.start_ns = dump_rows_number(row, STAGE_START),
		.duration_ns = dump_rows_number(row, STAGE_DURATION),
	};

	return dump_encode_stage(&stage, ret);
}

static size_t op_row(const struct row *row, uint8_t *ret)
{
	const char *from = dump_rows_text(row, OP_SEQ_FROM);
	int64_t peer = dump_rows_number(row, OP_PEER);
	struct dump_op_key key = {dump_rows_text(row, OP_COMMUNICATOR), dump_rows_text(row, OP_OP),
		dump_rows_number(row, OP_SEQ), peer == DUMP_UNKNOWN ? -1 : peer, false};
	struct dump_op op = {
		.communicator = key.communicator,
		.op = key.op,
		.dtype = dump_rows_text(row, OP_DTYPE),
		.count = dump_rows_number(row, OP_COUNT),
		.host_start_ns = dump_rows_number(row, OP_HOST_START),
		.host_duration_ns = dump_rows_number(row, OP_HOST_DURATION),
		.device_start_ns = dump_rows_number(row, OP_DEVICE_START),
		.device_duration_ns = dump_rows_number(row, OP_DEVICE_DURATION),
		.pid = row->rank->pid,
		.thread_id = dump_rows_number(row, OP_THREAD),
		.device = row->rank->local_rank,
	};

	key.joins = key.communicator && key.op && key.seq > 0 && from && strcmp(from, "attach") != 0;
	op.thread_id = op.thread_id == DUMP_UNKNOWN ? 0 : op.thread_id;
	op.id = dump_ids_of(row->rows->ids, &key, (uint64_t)row->rank->instance);
	return dump_encode_op(&op, ret);
}

static size_t memory_row(const struct row *row, uint8_t *ret)
{
	int64_t stack = dump_rows_number(row, MEMORY_STACK);
	const struct dump_memory memory = {
		.op = dump_rows_text(row, MEMORY_OP),
		.stage = dump_rows_text(row, MEMORY_STAGE),
		.address = dump_rows_number(row, MEMORY_ADDRESS),
		.bytes = dump_rows_number(row, MEMORY_BYTES),
		.step = dump_rows_number(row, MEMORY_STEP),
		.frames = stack == DUMP_UNKNOWN ? NULL : dump_stacks_find(row->rows->stacks, stack),
	};
	int64_t result = dump_rows_number(row, MEMORY_RESULT);

	if ((result != DUMP_UNKNOWN && result != 0) || memory.address == DUMP_UNKNOWN) {
		row->rows->failed++;
		return NO_RECORD;
	}
	if (stack != DUMP_UNKNOWN && !row->rows->stacks->loaded)
		return STACKS_WANTED;
	return dump_encode_memory(&memory, ret);
}

static size_t offcpu_row(const struct row *row, uint8_t *ret)
{
	struct dump_offcpu offcpu = {
		.rank = row->rank->rank,
		.thread_id = dump_rows_number(row, OFF_THREAD),
		.start_ns = dump_rows_number(row, OFF_START),
		.duration_ns = dump_rows_number(row, OFF_DURATION),
		.next_pid = dump_rows_number(row, OFF_NEXT_PID),
		.thread_name = dump_rows_text(row, OFF_NAME),
		.next_name = dump_rows_text(row, OFF_NEXT_NAME),
	};
	int64_t delay = dump_rows_number(row, OFF_DELAY);

	offcpu.run_delay_ns = dump_delay_add(
		row->rows->state, row->rank->instance, offcpu.thread_id, delay > 0 ? (uint64_t)delay : 0);
	return dump_encode_offcpu(&offcpu, ret);
}

/* encode: 0: too large. */
static const struct {
	enum schema_id table;
	const char *columns[COLUMNS_MAX];
	size_t (*head)(const struct dump_rank *rank, uint8_t *ret); /* header of a new file; may be NULL */
	size_t (*encode)(const struct row *row, uint8_t *ret);
} kinds[DUMP_KIND_MAX] = {
	[DUMP_L0] = {TABLE_STAGES, {"step", "stage", "name", "start_ns", "duration_ns"}, stage_head,
		dump_rows_stage_row},
	[DUMP_L1] = {TABLE_COLLECTIVES,
		{"communicator", "seq", "op", "dtype", "count", "host_start_ns", "host_duration_ns", "device_start_ns",
			"device_duration_ns", "seq_from", "peer", "thread_id"},
		op_head, op_row},
	[DUMP_L2] = {TABLE_ALLOCATIONS, {"step", "stage", "op", "address", "bytes", "result", "stack"}, memory_head,
		memory_row},
	[DUMP_L3] = {TABLE_OFFCPU,
		{"thread_id", "thread_name", "start_ns", "duration_ns", "run_delay_ns", "next_pid", "next_name"}, NULL,
		offcpu_row},
};

enum schema_id dump_rows_table(enum dump_kind kind)
{
	return kinds[kind].table;
}

void dump_rows_begin(struct dump_rows *rows, enum dump_kind kind)
{
	const struct schema_table *table = &schema_tables[kinds[kind].table];

	rows->kind = kind;
	rows->asked = -1;
	for (size_t i = 0; i < COLUMNS_MAX && kinds[kind].columns[i]; i++)
		rows->at[i] = schema_column_find(table, kinds[kind].columns[i]);
}

static int dump_rows_by_instance(const void *a, const void *b)
{
	const struct dump_rank *x = a, *y = b;

	return ORDER(x->instance, y->instance);
}

static int dump_rows_add_rank(void *arg, const struct rank_row *row)
{
	struct dump_ranks *ranks = arg;
	struct dump_rank *rank;

	if (ranks->count == RANKS_MAX)
		return 1;
	if (!array_reserve((void **)&ranks->rank, &ranks->capacity, ranks->count + 1, sizeof(*rank), RANKS_MAX))
		return -ENOMEM;
	rank = &ranks->rank[ranks->count++];
	*rank = (struct dump_rank){
		.instance = row->instance, .rank = row->rank, .local_rank = row->local_rank, .pid = row->pid};
	dump_utf8(row->job, rank->job, sizeof(rank->job));
	dump_utf8(row->host, rank->host, sizeof(rank->host));
	return 0;
}

int dump_ranks_load(struct reader *reader, struct dump_ranks *ret, char *error, size_t error_size)
{
	struct dump_ranks ranks = {0};
	int r = rank_table_read(reader, dump_rows_add_rank, &ranks, error, error_size);

	if (r < 0) {
		dump_ranks_clear(&ranks);
		return r;
	}
	*ret = ranks;
	return 0;
}

void dump_ranks_clear(struct dump_ranks *ranks)
{
	free(ranks->rank);
	*ranks = (struct dump_ranks){0};
}

/* Process of a row; instance and rank are columns of every table. *buffer: filled for an unknown one. NULL: the ranks
 * are to be loaded again. */
static const struct dump_rank *find_rank(struct dump_rows *rows, sqlite3_stmt *columns, struct dump_rank *buffer)
{
	const struct schema_table *table = &schema_tables[kinds[rows->kind].table];
	int instance = READER_FOLLOW_FIRST + schema_column_find(table, "instance");
	int rank = READER_FOLLOW_FIRST + schema_column_find(table, "rank");
	const struct dump_rank *found, wanted = {.instance = sqlite3_column_int64(columns, instance)};

	found = rows->ranks->count
			? bsearch(&wanted, rows->ranks->rank, rows->ranks->count, sizeof(wanted), dump_rows_by_instance)
			: NULL;
	if (found)
		return found;
	if (wanted.instance != rows->asked) {
		rows->asked = wanted.instance;
		return NULL;
	}
	*buffer = (struct dump_rank){.instance = wanted.instance, .rank = -1, .local_rank = -1};
	if (sqlite3_column_type(columns, rank) == SQLITE_INTEGER)
		buffer->rank = sqlite3_column_int64(columns, rank);
	return buffer;
}

static int write_record(struct dump_rows *rows, const struct dump_rank *rank, const uint8_t *record, size_t size)
{
	struct dump_of of = rows->of;
	struct dump_file *file;
	uint8_t head[DUMP_RECORD_BYTES];
	bool fresh;
	int r;

	of.rank = rank->rank;
	of.pid = rank->pid;
	if (rank->host[0])
		of.host = rank->host;
	r = dump_files_of(rows->files, rows->kind, rank->instance, &of, &file, &fresh);
	if (r == 0 && fresh && kinds[rows->kind].head)
		r = dump_file_write(rows->files, file, head, kinds[rows->kind].head(rank, head));
	if (r == 0)
		r = dump_file_write(rows->files, file, record, size);
	if (r == 0)
		dump_file_count(file);
	return r;
}

int dump_rows_row(void *arg, sqlite3_stmt *columns)
{
	struct dump_rows *rows = arg;
	uint8_t record[DUMP_RECORD_BYTES];
	struct dump_rank unknown;
	struct row row = {rows, columns, find_rank(rows, columns, &unknown)};
	size_t size;
	int r;

	if (!row.rank)
		return -EAGAIN;
	if (!ranges_have(rows->wanted, row.rank->rank))
		return 0;
	size = kinds[rows->kind].encode(&row, record);
	if (size == NO_RECORD)
		return 0;
	if (size == STACKS_WANTED) {
		rows->stacks->wanted = true;
		return -EAGAIN;
	}
	r = size ? write_record(rows, row.rank, record, size) : -EMSGSIZE;
	if (r == -E2BIG || r == -EMSGSIZE || r == -ENAMETOOLONG) {
		rows->left_out++;
		return 0;
	}
	rows->rows += r == 0;
	rows->bytes += r == 0 ? size : 0;
	return r;
}
