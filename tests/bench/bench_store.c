/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_store DIR PAIRS ROWS: rows like a stage's, through store_put_stages and store_flush and by a bare SQLite insert
 * into one table (prepared, WAL, synchronous=NORMAL, one transaction a BATCH rows), in turn; and rows like off-CPU
 * intervals through the store. The clock stops when the files are closed. Prints one sample a line for table.awk.
 */
#include <errno.h>
#include <ftw.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "bench_common.h"

#define BATCH 10000

struct row {
	int64_t rank, step, start_ns, duration_ns, thread_id, depth, instance;
	const char *stage, *name;
};

/* Eight ranks, seven stages a step of about 3 ms, as they would arrive. */
static struct row row_at(long i, uint64_t base_ns)
{
	static const char *const stage[] = {
		"dataloader", "forward", "zero_grad", "backward", "optimizer", "sync", "gc"};
	static const char *const name[] = {"enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
		"DistributedDataParallel.forward", "Optimizer.zero_grad#AdamW.zero_grad", "backward",
		"Optimizer.step#AdamW.step", "cudaStreamSynchronize", "gc"};
	long rank = i % 8, part = i / 8 % 7, step = i / 56;

	return (struct row){
		.rank = rank,
		.step = step + 1,
		.start_ns = (int64_t)(base_ns + (uint64_t)step * 3000000 + (uint64_t)part * 400000 +
				      (uint64_t)(i * 7919 % 100003)),
		.duration_ns = 300000 + i * 104729 % 1000003,
		.thread_id = 40000 + rank * 100,
		.depth = 0,
		.instance = rank + 1,
		.stage = stage[part],
		.name = name[part],
	};
}

static uint64_t size_sum_bytes;

static int add_size(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
	if (type == FTW_F)
		size_sum_bytes += (uint64_t)stat->st_size;
	return 0;
}

/* Stages as eight ranks make them. */
static int put_stage(struct store *store, long i, uint64_t base_ns)
{
	struct row row = row_at(i, base_ns);
	const struct row_stages values = {.rank = field_int(row.rank),
		.step = field_int(row.step),
		.stage = field_text(row.stage),
		.name = field_text(row.name),
		.start_ns = field_time(row.start_ns),
		.duration_ns = field_duration(row.duration_ns),
		.thread_id = field_int(row.thread_id),
		.depth = field_int(row.depth),
		.instance = field_int(row.instance)};

	store_put_stages(store, &values);
	return 0;
}

/* Off-CPU intervals of threads; a node has few task names. */
static int put_offcpu(struct store *store, long i, uint64_t base_ns)
{
	static const char *const name[] = {"python3", "pt_autograd_0", "pt_data_worker", "swapper/3", "ksoftirqd/3",
		"kworker/3:1", "nccl_monitor"};
	struct row row = row_at(i, base_ns);
	const struct row_offcpu values = {.rank = field_int(row.rank),
		.thread_id = field_int(row.thread_id + i % 3),
		.thread_name = field_text(name[i % 3]),
		.start_ns = field_time(row.start_ns),
		.duration_ns = field_duration(row.duration_ns),
		.run_delay_ns = field_duration(row.duration_ns / 7),
		.next_pid = field_int(i * 31 % 4096),
		.next_name = field_text(name[3 + i % 4]),
		.previous_pid = field_int(i * 31 % 4096),
		.previous_name = field_text(name[3 + i / 5 % 4]),
		.instance = field_int(row.instance)};

	store_put_offcpu(store, &values);
	return 0;
}

static int run_store(const char *dir, long rows, uint64_t base_ns, int (*put)(struct store *, long, uint64_t))
{
	struct store *store;
	struct store_status status;
	int r = bench_store_open(dir, &store);

	if (r < 0)
		return r;
	for (long i = 0; i < rows && r >= 0; i++) {
		r = put(store, i, base_ns);
		if (r >= 0 && ((i + 1) % BATCH == 0 || i + 1 == rows))
			r = store_flush(store, base_ns);
	}
	store_status(store, &status);
	if (r >= 0 && (status.rows_dropped || status.rows_pending || status.rows < (uint64_t)rows))
		r = -ENODATA;
	store_close(store);
	return r;
}

static int run_stages(const char *dir, long rows, uint64_t base_ns)
{
	return run_store(dir, rows, base_ns, put_stage);
}

static int run_offcpu(const char *dir, long rows, uint64_t base_ns)
{
	return run_store(dir, rows, base_ns, put_offcpu);
}

static int insert_all(sqlite3 *db, sqlite3_stmt *insert, long rows, uint64_t base_ns)
{
	for (long i = 0; i < rows; i++) {
		struct row row = row_at(i, base_ns);
		const int64_t integers[] = {
			row.rank, row.step, row.start_ns, row.duration_ns, row.thread_id, row.depth, row.instance};

		if (i % BATCH == 0 && sqlite3_exec(db, "BEGIN", NULL, NULL, NULL) != SQLITE_OK)
			return -EIO;
		for (int column = 0; column < (int)ARRAY_SIZE(integers); column++)
			sqlite3_bind_int64(insert, column + 1, integers[column]);
		sqlite3_bind_text(insert, 8, row.stage, -1, SQLITE_STATIC);
		sqlite3_bind_text(insert, 9, row.name, -1, SQLITE_STATIC);
		if (sqlite3_step(insert) != SQLITE_DONE)
			return -EIO;
		sqlite3_reset(insert);
		if (((i + 1) % BATCH == 0 || i + 1 == rows) &&
			sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
			return -EIO;
	}
	return 0;
}

static int run_sqlite(const char *dir, long rows, uint64_t base_ns)
{
	sqlite3_stmt *insert = NULL;
	sqlite3 *db = NULL;
	char path[4096];
	int r = -EIO;

	snprintf(path, sizeof(path), "%s/bare.db", dir);
	if (sqlite3_open(path, &db) == SQLITE_OK &&
		sqlite3_exec(db,
			"PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; CREATE TABLE stages(rank INTEGER, step "
			"INTEGER,"
			" start_ns INTEGER, duration_ns INTEGER, thread_id INTEGER, depth INTEGER, instance INTEGER,"
			" stage TEXT, name TEXT)",
			NULL, NULL, NULL) == SQLITE_OK &&
		sqlite3_prepare_v2(db, "INSERT INTO stages VALUES(?,?,?,?,?,?,?,?,?)", -1, &insert, NULL) == SQLITE_OK)
		r = insert_all(db, insert, rows, base_ns);
	sqlite3_finalize(insert);
	sqlite3_close(db);
	return r;
}

static int sample(const char *parent, const char *name, int (*run)(const char *, long, uint64_t), long rows, long pair)
{
	uint64_t start_ns, duration_ns;
	char dir[BENCH_FOLDER_BYTES];
	int r = bench_folder_new(parent, "bench_store", dir);

	if (r < 0)
		return r;
	start_ns = monotonic_ns();
	r = run(dir, rows, realtime_ns());
	duration_ns = monotonic_ns() - start_ns;
	size_sum_bytes = 0;
	nftw(dir, add_size, 16, FTW_PHYS);
	bench_folder_remove(dir);
	if (r < 0)
		return r;
	printf("store\t%s\trows/s\t%ld\t%.0f\n", name, pair, (double)rows * 1e9 / (double)duration_ns);
	printf("store size\t%s\tbytes/row\t%ld\t%.1f\n", name, pair, (double)size_sum_bytes / (double)rows);
	return 0;
}

int main(int argc, char **argv)
{
	long pairs = argc == 4 ? strtol(argv[2], NULL, 10) : 0, rows = argc == 4 ? strtol(argv[3], NULL, 10) : 0;
	int r = 0;

	if (pairs <= 0 || rows <= 0) {
		fprintf(stderr, "usage: bench_store DIR PAIRS ROWS\n");
		return 2;
	}
	for (long i = 0; i < pairs && r == 0; i++) {
		r = sample(argv[1], "bare SQLite", run_sqlite, rows, i);
		if (r == 0)
			r = sample(argv[1], "ranktrace, stages", run_stages, rows, i);
		if (r == 0)
			r = sample(argv[1], "ranktrace, off-CPU", run_offcpu, rows, i);
	}
	if (r < 0)
		fprintf(stderr, "bench_store: %s\n", r == -ENODATA ? "the store lost rows" : strerror(-r));
	return r < 0 ? 1 : 0;
}
