/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public face of the store, and all of it that the loop runs: opening, queueing, clocks, status. See store.h for
 * the promises. Nothing here waits for a disk but opening and closing.
 */
#include "daemon/store/store_internal.h"

#include <fcntl.h>
#include <sys/file.h>

#include "analyzers/base/array.h"
#include "daemon/base/log.h"

#define CLOCK_STEP_NS (1 * (int64_t)NSEC_PER_MSEC)
#define CLOCK_READINGS 5
#define CLOCK_READING_NS (20 * NSEC_PER_USEC) /* good enough to read no more */
#define LOCK_TRY_US 50000
#define LOCK_TRIES 40	    /* 2 s: on a busy node a process that was just started waits for a CPU */
#define IDENTITY_SEGMENTS 2 /* newest segments a tier that are asked for process identities */

/* Where the writer is still at work, what it uses is left to it, and the lock to the end of the process. */
static struct store *store_free(struct store *store, uint64_t until_ns)
{
	if (!store)
		return NULL;
	if (!writer_free(store->writer, until_ns)) {
		log_warning("store", "the disk of %s does not answer; its files are completed at the next start",
			store->state_dir);
		store->lock_fd = -1;
	}
	for (size_t i = 0; i < TIER_MAX; i++)
		queue_free(&store->batch.rows[i]);
	for (size_t i = 0; i < TABLE_MAX; i++)
		queue_free(&store->batch.now[i].rows);
	queue_free(&store->batch.state);
	identities_free(&store->identities);
	free(store->state_dir);
	if (store->lock_fd >= 0)
		close(store->lock_fd);
	free(store);
	return NULL;
}

/* A daemon that was killed while it started a process leaves the lock to that one, until it executes its program. */
static int lock_wait(int fd)
{
	for (unsigned i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
		if (errno != EWOULDBLOCK)
			return -errno;
		if (i == LOCK_TRIES)
			return -EBUSY;
		usleep(LOCK_TRY_US);
	}
	return 0;
}

static int store_lock(struct store *store)
{
	char path[PATH_MAX];
	int r = folder_make(store->state_dir);

	if (r < 0)
		return r;
	if ((size_t)snprintf(path, sizeof(path), "%s/lock", store->state_dir) >= sizeof(path))
		return -ENAMETOOLONG;
	store->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
	if (store->lock_fd < 0)
		return -errno;
	return lock_wait(store->lock_fd);
}

static void load_identities(struct store *store, struct folder *folder)
{
	unsigned good[TIER_MAX] = {0};

	for (size_t i = folder->count; i-- > 0;) {
		struct segment_name name = folder->files[i].name;
		char path[PATH_MAX];
		int r;

		if (good[name.tier] >= IDENTITY_SEGMENTS)
			continue;
		folder_path(folder, &name, path, sizeof(path));
		r = identities_load(&store->identities, path);
		if (r == 0)
			good[name.tier]++;
		else if (r == -EBADMSG)
			folder_set_aside(folder, name.number, "it cannot be read");
		else
			log_warning("store", "cannot read process identities from %s (%s); trying older ones", path,
				strerror(-r));
	}
}

/* The writer goes on from the same identities. */
static int store_start_writer(struct store *store, struct folder *folder)
{
	struct state state = {0};
	int r = state_init(&state);

	if (r == 0) {
		memcpy(state.identities.list, store->identities.list,
			store->identities.count * sizeof(*state.identities.list));
		state.identities.count = store->identities.count;
		r = writer_new(&store->options, folder, &state, &store->writer);
	}
	state_free(&state);
	return r;
}

void store_clock_note(struct store *store, uint64_t monotonic, uint64_t utc)
{
	int64_t offset_ns = (int64_t)(utc - monotonic), step_ns = offset_ns - store->clock_offset_ns;
	bool stepped = store->clock_known && (step_ns > CLOCK_STEP_NS || step_ns < -CLOCK_STEP_NS);

	store->clock_offset_ns = offset_ns;
	store->clock_known = true;
	if (!stepped)
		return;
	log_notice("store", "the clock was set by %lld us; times from here on follow it", (long long)(step_ns / 1000));
	store_put_clock(
		store, &(struct row_clock){.monotonic_ns = field_duration(monotonic), .utc_ns = field_time(utc)});
}

/* A paired reading of both clocks: the one with the shortest time between the two clocks, so that being interrupted is
 * no step. */
static void store_clock_read(struct store *store)
{
	uint64_t best_ns = UINT64_MAX, monotonic = 0, utc = 0;

	for (int i = 0; i < CLOCK_READINGS && best_ns > CLOCK_READING_NS; i++) {
		uint64_t before = monotonic_ns(), now_ns = realtime_ns(), after = monotonic_ns();

		if (after - before >= best_ns)
			continue;
		best_ns = after - before;
		monotonic = before + best_ns / 2;
		utc = now_ns;
	}
	store_clock_note(store, monotonic, utc);
}

int store_open(const struct store_options *options, struct store **ret)
{
	struct store *store = calloc(1, sizeof(*store));
	struct folder folder = {0};
	int r;

	if (!store)
		return -ENOMEM;
	store->options = *options;
	store->lock_fd = -1;
	store->state_dir = strdup(options->state_dir);
	store->options.state_dir = store->state_dir;
	r = store->state_dir ? identities_init(&store->identities) : -ENOMEM;
	if (r == 0)
		r = store_lock(store);
	if (r == 0)
		r = folder_open(&folder, store->state_dir, options->segment_ns);
	if (r == 0) {
		load_identities(store, &folder);
		r = store_start_writer(store, &folder);
	}
	folder_free(&folder);
	if (r < 0) {
		store_free(store, 0);
		return r;
	}
	store->given_ns = monotonic_ns();
	store_clock_read(store);
	*ret = store;
	return 0;
}

/* What the writer has, and whether it has it still. */
static bool store_refresh(struct store *store)
{
	bool is_idle = writer_is_idle(store->writer);

	for (unsigned tier = 0; is_idle && tier < TIER_MAX; tier++) {
		store->given[tier].rows = store->writer->batch.rows[tier].rows;
		store->given[tier].bytes = store->writer->batch.rows[tier].used;
	}
	return is_idle;
}

static void store_give_queue(struct queue *from, struct queue *to)
{
	struct queue empty = *to;

	*to = *from;
	*from = empty;
}

static void store_give_identities(struct store *store, struct batch *batch)
{
	for (size_t i = 0; i < store->identities.count; i++) {
		struct identity *at = &store->identities.list[i];

		if (!at->changed)
			continue;
		if (!array_reserve((void **)&batch->identities, &batch->identities_capacity,
			    batch->identities_count + 1, sizeof(*at), SIZE_MAX))
			return; /* with the next batch */
		at->changed = false;
		memset(at->written, 0, sizeof(at->written));
		batch->identities[batch->identities_count++] = *at;
	}
}

/* The writer has emptied all of its batch but rows that wait for another writer of the file. */
static void store_give(struct store *store, uint64_t now_ns)
{
	struct batch *from = &store->batch, *to = &store->writer->batch;

	for (unsigned tier = 0; tier < TIER_MAX; tier++)
		if (!to->rows[tier].rows)
			store_give_queue(&from->rows[tier], &to->rows[tier]);
	store_give_queue(&from->state, &to->state);
	for (size_t i = 0; i < TABLE_MAX; i++) {
		store_give_queue(&from->now[i].rows, &to->now[i].rows);
		to->now[i].replaces = from->now[i].replaces;
		to->now[i].changed = from->now[i].changed;
		from->now[i].replaces = from->now[i].changed = false;
	}
	store_give_identities(store, to);
	losses_move(&store->lost, &to->lost);
	to->now_ns = now_ns;
	to->clock_offset_ns = store->clock_offset_ns;
	(void)store_refresh(store);
	store->given_ns = monotonic_ns();
	writer_give(store->writer);
}

/* 0 where the writer is idle. */
static uint64_t store_writing_ns(struct store *store)
{
	return writer_is_idle(store->writer) ? 0 : monotonic_ns() - store->given_ns;
}

static uint64_t store_pending(const struct store *store)
{
	uint64_t rows = 0;

	for (unsigned tier = 0; tier < TIER_MAX; tier++)
		rows += store->batch.rows[tier].rows + store->given[tier].rows;
	return rows;
}

/* A sentence; "" where the disk is as fast as it should be. */
static void store_describe_slow(struct store *store, char *ret, size_t size)
{
	uint64_t writing_ns = store_writing_ns(store);

	ret[0] = 0;
	if (writing_ns > WRITE_SLOW_NS)
		snprintf(ret, size,
			"the disk of %.100s/db is slow: a write has taken %.0f s so far; %llu rows wait in memory",
			store->state_dir, (double)writing_ns / 1e9, (unsigned long long)store_pending(store));
}

static void store_note_slow(struct store *store, bool is_idle)
{
	char text[256];

	store_describe_slow(store, text, sizeof(text));
	if (text[0] && !store->is_slow)
		log_warning("store", "%s", text);
	if (is_idle && store->is_slow)
		log_notice("store", "writing to %s/db again after %.1f s", store->state_dir,
			(double)(monotonic_ns() - store->given_ns) / 1e9);
	store->is_slow = text[0] || (store->is_slow && !is_idle);
}

bool store_pass(struct store *store, uint64_t now_ns)
{
	bool is_idle = store_refresh(store);

	store_note_slow(store, is_idle);
	if (!is_idle)
		return false;
	store_clock_read(store);
	store_give(store, now_ns);
	return true;
}

/* -ETIMEDOUT, 0, or what kept rows from the disk. */
static int store_write(struct store *store, uint64_t now_ns, uint64_t until_ns)
{
	struct writer_report report;

	if (!writer_wait(store->writer, until_ns))
		return -ETIMEDOUT;
	do { /* twice, where rows of the batch before waited for another writer of the file */
		if (!store_pass(store, now_ns) || !writer_wait(store->writer, until_ns))
			return -ETIMEDOUT;
		(void)store_refresh(store);
		writer_read_report(store->writer, &report);
	} while (report.result == 0 && store_pending(store));
	return report.result;
}

int store_flush(struct store *store, uint64_t now_ns)
{
	return store_write(store, now_ns, UINT64_MAX);
}

struct store *store_close(struct store *store)
{
	uint64_t until_ns = monotonic_ns() + CLOSE_NS, dropped;
	struct store_status status;

	if (!store)
		return NULL;
	(void)store_write(store, realtime_ns(), until_ns);
	store_status(store, &status);
	dropped = status.rows_dropped + status.rows_pending;
	if (dropped)
		log_warning("store", "%llu rows were dropped and %llu written since the start",
			(unsigned long long)dropped, (unsigned long long)status.rows);
	return store_free(store, until_ns);
}

#define TABLE(ID, name, tier, kind, since, description) [TABLE_##ID] = COLUMNS_##ID,
#define COLUMN(name, type, unit, presence, since, description)
#define ALIAS(name, type, unit, of, until)
#define TABLE_END(ID, name)
static const uint8_t columns[TABLE_MAX] = {
#include "analyzers/store/schema.def"
};

static bool store_fits(const struct schema_column *column, const struct store_value *value)
{
	switch (value->type) {
	case STORE_NULL:
		return true;
	case STORE_TEXT:
		return column->type == SCHEMA_TEXT;
	case STORE_REAL:
		return column->type == SCHEMA_REAL;
	case STORE_INT:
		return column->type != SCHEMA_TEXT && column->type != SCHEMA_REAL;
	}
	return false;
}

static void store_note_step(struct store *store, const struct store_value *values)
{
	const struct row_steps *row = (const struct row_steps *)(const void *)values;

	if (row->instance.value.type == STORE_INT && row->step.value.type == STORE_INT)
		identities_step(&store->identities, row->instance.value.integer, row->step.value.integer);
}

/* The limit is for what waits here and what the writer has. */
static bool store_is_full(struct store *store, enum schema_tier tier)
{
	const struct queue *queue = &store->batch.rows[tier];

	return queue->rows + store->given[tier].rows >= QUEUE_ROWS_MAX ||
	       queue->used + store->given[tier].bytes >= QUEUE_BYTES_MAX;
}

static int store_queue(struct store *store, enum schema_id table, const struct store_value *values)
{
	const struct schema_table *schema = &schema_tables[table];
	struct batch_now *now = &store->batch.now[table];

	for (size_t i = 0; i < columns[table]; i++)
		if (!store_fits(&schema->columns[i], &values[i]))
			return -EINVAL;
	if (schema->kind == SCHEMA_STATE) {
		int key = schema_key(schema);

		return key >= 0 && values[key].type == STORE_INT
			       ? queue_put(&store->batch.state, table, values, columns[table])
			       : -EINVAL;
	}
	if (schema->kind == SCHEMA_NOW) {
		now->changed = true;
		return now->rows.rows < NOW_ROWS_MAX ? queue_put(&now->rows, table, values, columns[table]) : -ENOBUFS;
	}
	if (store_is_full(store, schema->tier) && !(store_refresh(store) && !store_is_full(store, schema->tier)))
		return -ENOBUFS;
	return queue_put(&store->batch.rows[schema->tier], table, values, columns[table]);
}

static void store_drop(struct store *store, enum schema_id table, int error)
{
	if (error == -EINVAL && !store->lost.total[STORE_LOST_REFUSED][table])
		log_error("store", "a row does not fit table %s; such rows are dropped and counted",
			schema_tables[table].name);
	losses_add(&store->lost, error == -EINVAL ? STORE_LOST_REFUSED : STORE_LOST_QUEUE, table, 1, realtime_ns());
}

void store_put_values(struct store *store, enum schema_id table, const struct store_value *values)
{
	int r = store_queue(store, table, values);

	if (r < 0)
		store_drop(store, table, r);
	else if (table == TABLE_STEPS)
		store_note_step(store, values);
}

void store_remove(struct store *store, enum schema_id table, int64_t key)
{
	struct store_value values[SCHEMA_COLUMNS_MAX] = {0};
	int column = schema_key(&schema_tables[table]);

	if (column < 0) {
		store_drop(store, table, -EINVAL);
		return;
	}
	values[column] = (struct store_value){.type = STORE_INT, .integer = key};
	store_put_values(store, table, values);
}

int store_replace(struct store *store, enum schema_id table)
{
	struct batch_now *now;

	if ((unsigned)table >= TABLE_MAX || schema_tables[table].kind != SCHEMA_NOW)
		return -EINVAL;
	now = &store->batch.now[table];
	now->replaces = now->changed = true;
	queue_clear(&now->rows);
	return 0;
}

uint64_t store_utc_ns(struct store *store, uint64_t monotonic)
{
	return monotonic + (uint64_t)store->clock_offset_ns;
}

int store_instance(struct store *store, const char *boot_id, uint32_t pid, uint64_t start_time_ns, int64_t *ret)
{
	return identities_number(&store->identities, boot_id, pid, start_time_ns, ret);
}

int store_last_step(struct store *store, int64_t instance, int64_t *ret)
{
	const struct identity *at = identities_find(&store->identities, instance);

	*ret = at ? at->last_step : 0;
	return 0;
}

void store_status(struct store *store, struct store_status *ret)
{
	struct writer_report report;

	(void)store_refresh(store);
	writer_read_report(store->writer, &report);
	report.status.rows_dropped = report.lost_sum + store->lost.total_sum;
	report.status.rows_pending = store_pending(store);
	for (size_t i = 0; report.status.rows_dropped && i < STORE_DROPS_MAX; i++) {
		size_t why = i / TABLE_MAX, table = i % TABLE_MAX;
		uint64_t rows = report.lost[why][table] + store->lost.total[why][table];

		if (rows)
			report.status.drops[report.status.drops_count++] =
				(struct store_drop){schema_tables[table].name, store_lost_reasons[why], rows};
	}
	if (!report.status.reason[0])
		store_describe_slow(store, report.status.reason, sizeof(report.status.reason));
	*ret = report.status;
}
