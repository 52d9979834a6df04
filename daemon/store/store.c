/* SPDX-License-Identifier: Apache-2.0 */
/* The public face of the store: opening, queueing, clocks, status. See store.h for the promises. */
#include "daemon/store/store_internal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "daemon/base/log.h"

#define CLOCK_STEP_NS (1 * (int64_t)NSEC_PER_MSEC)
#define CLOCK_READINGS 5
#define CLOCK_READING_NS (20 * NSEC_PER_USEC) /* good enough to read no more */
#define IDENTITY_SEGMENTS 2		      /* newest segments a tier that are asked for process identities */

static struct store *store_free(struct store *store)
{
	if (!store)
		return NULL;
	for (size_t i = 0; i < TIER_MAX; i++) {
		segment_close(store->current[i]);
		queue_free(&store->queues[i]);
	}
	state_free(&store->state);
	folder_free(&store->folder);
	free(store->state_dir);
	if (store->lock_fd >= 0)
		close(store->lock_fd);
	free(store);
	return NULL;
}

static int lock(struct store *store)
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
	if (flock(store->lock_fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	return 0;
}

/* After a crash, closed segments become plain files again. */
static void tidy(struct folder *folder)
{
	for (size_t i = folder->count; i-- > 0;) {
		struct segment_name name = folder->files[i].name;
		char path[PATH_MAX], wal[PATH_MAX + 8];

		folder_path(folder, &name, path, sizeof(path));
		snprintf(wal, sizeof(wal), "%s-wal", path);
		if (access(wal, F_OK) < 0)
			continue;
		if (segment_tidy(path) == -EBADMSG)
			folder_set_aside(folder, name.number, "its write-ahead log cannot be recovered");
		else
			folder_measure(folder, name.number);
	}
}

static void load_identities(struct store *store)
{
	struct folder *folder = &store->folder;
	unsigned good[TIER_MAX] = {0};

	for (size_t i = folder->count; i-- > 0;) {
		struct segment_name name = folder->files[i].name;
		char path[PATH_MAX];
		int r;

		if (good[name.tier] >= IDENTITY_SEGMENTS)
			continue;
		folder_path(folder, &name, path, sizeof(path));
		r = state_load(&store->state, path);
		if (r == 0)
			good[name.tier]++;
		else if (r == -EBADMSG)
			folder_set_aside(folder, name.number, "it cannot be read");
		else
			log_warning("store", "cannot read process identities from %s (%s); trying older ones", path,
				strerror(-r));
	}
}

int store_open(const struct store_options *options, struct store **ret)
{
	struct store *store = calloc(1, sizeof(*store));
	uint64_t now_ns = realtime_ns();
	int r;

	if (!store)
		return -ENOMEM;
	store->options = *options;
	store->lock_fd = -1;
	store->state_dir = strdup(options->state_dir);
	store->options.state_dir = store->state_dir;
	r = store->state_dir ? state_init(&store->state) : -ENOMEM;
	if (r == 0)
		r = lock(store);
	if (r == 0)
		r = folder_open(&store->folder, store->state_dir, options->segment_ns);
	if (r < 0) {
		store_free(store);
		return r;
	}
	tidy(&store->folder);
	load_identities(store);
	for (unsigned tier = 0; tier < TIER_MAX; tier++)
		store_continue(store, (enum schema_tier)tier, now_ns);
	store_clock_read(store);
	*ret = store;
	return 0;
}

struct store *store_close(struct store *store)
{
	if (!store)
		return NULL;
	(void)store_flush(store, realtime_ns());
	for (size_t i = 0; i < TIER_MAX; i++)
		store_lose_queue(store, STORE_LOST_ERROR, &store->queues[i], realtime_ns());
	if (store->rows_dropped)
		log_warning("store", "%llu rows were dropped and %llu written since the start",
			(unsigned long long)store->rows_dropped, (unsigned long long)store->rows);
	return store_free(store);
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
		state_step(&store->state, row->instance.value.integer, row->step.value.integer);
}

static int store_queue(struct store *store, enum schema_id table, const struct store_value *values)
{
	const struct schema_table *schema = &schema_tables[table];
	struct now_rows *now = &store->state.now[table];

	for (size_t i = 0; i < columns[table]; i++)
		if (!store_fits(&schema->columns[i], &values[i]))
			return -EINVAL;
	if (schema->kind == SCHEMA_STATE)
		return state_put(&store->state, table, values, columns[table]);
	if (schema->kind == SCHEMA_NOW) {
		now->changed = true;
		return now->rows.rows < NOW_ROWS_MAX ? queue_put(&now->rows, table, values, columns[table]) : -ENOBUFS;
	}
	return queue_put(&store->queues[schema->tier], table, values, columns[table]);
}

static void store_drop(struct store *store, enum schema_id table, int error)
{
	if (error == -EINVAL && !store->lost[STORE_LOST_REFUSED][table].total)
		log_error("store", "a row does not fit table %s; such rows are dropped and counted",
			schema_tables[table].name);
	store_lose(store, error == -EINVAL ? STORE_LOST_REFUSED : STORE_LOST_QUEUE, table, 1, realtime_ns());
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
	struct now_rows *now;

	if ((unsigned)table >= TABLE_MAX || schema_tables[table].kind != SCHEMA_NOW)
		return -EINVAL;
	now = &store->state.now[table];
	now->changed |= now->rows.rows > 0;
	queue_clear(&now->rows);
	return 0;
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

/* The reading with the shortest time between the two clocks, so that being interrupted is no step. */
void store_clock_read(struct store *store)
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

uint64_t store_utc_ns(struct store *store, uint64_t monotonic)
{
	return monotonic + (uint64_t)store->clock_offset_ns;
}

int store_instance(struct store *store, const char *boot_id, uint32_t pid, uint64_t start_time_ns, int64_t *ret)
{
	return state_identity(&store->state, boot_id, pid, start_time_ns, ret);
}

int store_last_step(struct store *store, int64_t instance, int64_t *ret)
{
	const struct instance *at = state_instance(&store->state, instance);

	*ret = at ? at->last_step : 0;
	return 0;
}

void store_status(struct store *store, struct store_status *ret)
{
	const struct folder *folder = &store->folder;
	struct store_status status = {
		.segments = folder->count,
		.rows = store->rows,
		.rows_dropped = store->rows_dropped,
		.segments_removed = folder->removed,
		.segments_corrupt = folder->corrupt,
	};

	for (unsigned tier = 0; tier < TIER_MAX; tier++) {
		const struct segment *segment = store->current[tier];

		status.size_bytes += folder_size(folder, (enum schema_tier)tier);
		status.rows_pending += store->queues[tier].rows;
		for (size_t i = 0; segment && i < TABLE_MAX; i++)
			if (segment->spans[i].set && segment->spans[i].newest_ns > (int64_t)status.newest_ns)
				status.newest_ns = (uint64_t)segment->spans[i].newest_ns;
	}
	for (size_t i = 0; i < folder->count; i++) {
		uint64_t base_ns = (uint64_t)folder->files[i].name.base_ns;

		if (!status.oldest_ns || base_ns < status.oldest_ns)
			status.oldest_ns = base_ns;
		if (base_ns > status.newest_ns)
			status.newest_ns = base_ns;
	}
	for (size_t i = 0; store->rows_dropped && i < STORE_DROPS_MAX; i++) {
		size_t why = i / TABLE_MAX, table = i % TABLE_MAX;

		if (store->lost[why][table].total)
			status.drops[status.drops_count++] = (struct store_drop){
				schema_tables[table].name, store_lost_reasons[why], store->lost[why][table].total};
	}
	(void)copy_text(status.trouble, sizeof(status.trouble), store->trouble);
	*ret = status;
}
