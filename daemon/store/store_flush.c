/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One flush: which segment takes the rows, and what happens where it cannot. The order of resorts on a full disk:
 * unlink the oldest closed events segment and try again; with none left, drop the batch and count it. Damage: set the
 * file aside, go on with a new one. Every way out leaves a store that tries again at the next flush.
 */
#include "daemon/store/store_internal.h"

#include "daemon/base/log.h"

#define CORRUPT_TRIES_MAX 3
#define SUMMARY_SHARE 4 /* summaries take at most a quarter of what events may */
#define SEGMENTS_MIN 8	/* a segment is rolled early at this part of its tier's size */

const char *const store_lost_reasons[STORE_LOST_MAX] = {
	[STORE_LOST_DISK] = "disk full",
	[STORE_LOST_ERROR] = "segment could not be written",
	[STORE_LOST_QUEUE] = "too many rows waited in memory",
	[STORE_LOST_REFUSED] = "row refused",
};

uint64_t store_size_max(const struct store *store, enum schema_tier tier)
{
	return tier == TIER_SUMMARY ? store->options.events_size_bytes_max / SUMMARY_SHARE
				    : store->options.events_size_bytes_max;
}

static uint64_t current_number(const struct store *store, enum schema_tier tier)
{
	return store->current[tier] ? store->current[tier]->name.number : 0;
}

void store_lose(struct store *store, enum store_lost why, enum schema_id table, uint64_t count, uint64_t now_ns)
{
	if (!count)
		return;
	if (!store->lost[why][table].count)
		store->lost[why][table].since_ns = now_ns;
	store->lost[why][table].count += count;
	store->lost[why][table].total += count;
	store->lost_pending += count;
	store->rows_dropped += count;
}

void store_lose_queue(struct store *store, enum store_lost why, const struct queue *queue, uint64_t now_ns)
{
	struct store_value values[SCHEMA_COLUMNS_MAX];
	size_t offset = 0, count = 0;
	enum schema_id table;

	while (queue_next(queue, &offset, &table, values, &count))
		store_lose(store, why, table, 1, now_ns);
}

static bool window_holds(const struct store *store, const struct segment_name *name, uint64_t now_ns)
{
	int64_t now = (int64_t)now_ns, length = (int64_t)store->options.segment_ns;

	/* A clock that was put back by more than a window starts a new one. */
	return now < name->base_ns + length && now > name->base_ns - length;
}

static void close_current(struct store *store, enum schema_tier tier, uint64_t now_ns)
{
	uint64_t number = current_number(store, tier);
	struct folder_file *file;

	if (!number)
		return;
	store->current[tier] = segment_close(store->current[tier]);
	folder_measure(&store->folder, number);
	file = folder_find(&store->folder, number);
	if (file)
		file->end_ns = (int64_t)now_ns;
}

static void roll(struct store *store, enum schema_tier tier, uint64_t now_ns)
{
	const struct segment *segment = store->current[tier];
	const struct folder_file *file;

	if (!segment)
		return;
	folder_measure(&store->folder, segment->name.number);
	file = folder_find(&store->folder, segment->name.number);
	if (access(segment->path, F_OK) < 0) {
		log_warning("store", "%s was removed by somebody else; going on with a new file", segment->path);
		folder_forget(&store->folder, segment->name.number);
		store->current[tier] = segment_close(store->current[tier]);
	} else if (!window_holds(store, &segment->name, now_ns) ||
		   (file && file->size_bytes > store_size_max(store, tier) / SEGMENTS_MIN)) {
		close_current(store, tier, now_ns);
	}
}

void store_continue(struct store *store, enum schema_tier tier, uint64_t now_ns)
{
	struct folder *folder = &store->folder;

	for (size_t i = folder->count; i-- > 0;) {
		struct segment_name name = folder->files[i].name;
		char path[PATH_MAX];
		int r;

		if (name.tier != tier)
			continue;
		if (!window_holds(store, &name, now_ns))
			return;
		folder_path(folder, &name, path, sizeof(path));
		r = segment_open(path, &name, false, &store->current[tier]);
		if (r == -EBADMSG) {
			folder_set_aside(folder, name.number, "it fails SQLite's checks");
			continue;
		}
		if (r < 0 && r != -ESTALE)
			log_warning("store", "cannot go on with %s (%s); starting a new file", path, strerror(-r));
		return;
	}
}

static int ensure_segment(struct store *store, enum schema_tier tier, uint64_t now_ns)
{
	struct segment_name name = {
		.tier = tier,
		.base_ns = (int64_t)(now_ns - now_ns % NSEC_PER_SEC),
		.number = store->folder.next_number,
	};
	char path[PATH_MAX];
	int r;

	if (store->current[tier])
		return 0;
	folder_path(&store->folder, &name, path, sizeof(path));
	r = segment_open(path, &name, true, &store->current[tier]);
	if (r < 0)
		return r;
	if (!folder_add(&store->folder, &name, name.base_ns + (int64_t)store->options.segment_ns)) {
		store->current[tier] = segment_close(store->current[tier]);
		return -ENOMEM;
	}
	folder_began(&store->folder, tier);
	return 0;
}

static int write_lost(struct store *store, struct segment *segment)
{
	for (size_t i = 0; store->lost_pending && i < STORE_LOST_MAX * TABLE_MAX; i++) {
		enum store_lost why = (enum store_lost)(i / TABLE_MAX);
		size_t table = i % TABLE_MAX;
		const struct row_drops row = {
			.start_ns = field_time(store->lost[why][table].since_ns),
			.source = field_text("store"),
			.reason = field_text(store_lost_reasons[why]),
			.count = field_int((int64_t)store->lost[why][table].count),
			.table_name = field_text(schema_tables[table].name),
		};
		int r;

		if (!store->lost[why][table].count)
			continue;
		r = segment_insert(segment, TABLE_DROPS, (const struct store_value *)(const void *)&row, COLUMNS_DROPS);
		if (r < 0)
			return r;
	}
	return 0;
}

static void store_forget_lost(struct store *store)
{
	for (size_t i = 0; store->lost_pending && i < STORE_LOST_MAX * TABLE_MAX; i++)
		store->lost[i / TABLE_MAX][i % TABLE_MAX].count = 0;
	store->lost_pending = 0;
}

static int write_clock(const struct store *store, struct segment *segment)
{
	uint64_t now_ns = monotonic_ns();
	const struct row_clock row = {
		.monotonic_ns = field_duration(now_ns),
		.utc_ns = field_time(now_ns + (uint64_t)store->clock_offset_ns),
	};

	return segment_insert(segment, TABLE_CLOCK, (const struct store_value *)(const void *)&row, COLUMNS_CLOCK);
}

static int write_rows(struct store *store, struct segment *segment)
{
	const struct queue *queue = &store->queues[segment->name.tier];
	struct store_value values[SCHEMA_COLUMNS_MAX];
	size_t offset = 0, count = 0;
	enum schema_id table;
	int r = 0;

	while (r == 0 && queue_next(queue, &offset, &table, values, &count)) {
		r = state_write_referenced(&store->state, segment, table, values);
		if (r == 0)
			r = segment_insert(segment, table, values, count);
	}
	return r;
}

static int write_batch(struct store *store, enum schema_tier tier)
{
	struct segment *segment = store->current[tier];
	bool clock = schema_tables[TABLE_CLOCK].tier == tier && store->clock_known && !segment->clock_noted;
	bool drops = schema_tables[TABLE_DROPS].tier == tier;
	int r = segment_begin(segment);

	if (r == 0)
		r = state_write(&store->state, segment);
	if (r == 0 && clock)
		r = write_clock(store, segment);
	if (r == 0 && drops)
		r = write_lost(store, segment);
	if (r == 0)
		r = write_rows(store, segment);
	if (r == 0)
		r = segment_commit(segment);
	if (r < 0) {
		segment_rollback(segment);
		state_unwritten(&store->state, tier, segment->name.number);
		return r;
	}
	segment->clock_noted |= clock;
	if (drops)
		store_forget_lost(store);
	return 0;
}

static bool has_work(const struct store *store, enum schema_tier tier)
{
	bool lost = schema_tables[TABLE_DROPS].tier == tier && store->lost_pending;

	return lost || store->queues[tier].rows || state_waits(&store->state, tier, current_number(store, tier));
}

static void trouble(struct store *store, int error, uint64_t dropped)
{
	char text[sizeof(store->trouble)];

	if (error == -EAGAIN)
		snprintf(text, sizeof(text), "somebody else writes to a segment in %.100s; rows wait in memory",
			store->folder.dir);
	else if (error == -ENOSPC)
		snprintf(text, sizeof(text),
			"the disk of %.100s is full and no closed segment is left to remove; rows are dropped and "
			"counted",
			store->folder.dir);
	else
		snprintf(text, sizeof(text), "cannot write to %.100s (%s); rows are dropped and counted",
			store->folder.dir, strerror(-error));
	if (!streq(text, store->trouble))
		log_error("store", "%s (%llu rows now)", text, (unsigned long long)dropped);
	(void)copy_text(store->trouble, sizeof(store->trouble), text);
}

/* Returns 0 or what kept the rows from the disk. */
static int flush_tier(struct store *store, enum schema_tier tier, uint64_t now_ns)
{
	struct queue *queue = &store->queues[tier];
	int damaged = 0, r;

	for (;;) {
		r = ensure_segment(store, tier, now_ns);
		if (r == 0)
			r = write_batch(store, tier);
		if (r == -ENOSPC && folder_remove_oldest(&store->folder, TIER_EVENTS,
					    current_number(store, TIER_EVENTS), "the disk is full"))
			continue;
		if (r == -EBADMSG && store->current[tier] && damaged++ < CORRUPT_TRIES_MAX) {
			uint64_t number = current_number(store, tier);

			store->current[tier] = segment_close(store->current[tier]);
			folder_set_aside(&store->folder, number, "SQLite found it malformed");
			continue;
		}
		break;
	}
	if (r == 0) {
		store->rows += queue->rows;
		queue_clear(queue);
		return 0;
	}
	trouble(store, r, queue->rows);
	if (r == -EAGAIN)
		return r;
	store_lose_queue(store, r == -ENOSPC ? STORE_LOST_DISK : STORE_LOST_ERROR, queue, now_ns);
	queue_clear(queue);
	/* A file that takes no rows for reasons unknown gets no second batch. */
	if (r != -ENOSPC)
		close_current(store, tier, now_ns);
	return r;
}

int store_flush(struct store *store, uint64_t now_ns)
{
	uint64_t age_max_ns[TIER_MAX] = {store->options.events_age_ns_max, store->options.summary_age_ns_max};
	bool worked = false;
	int first = 0;

	store_clock_read(store);
	for (unsigned tier = 0; tier < TIER_MAX; tier++) {
		int r;

		roll(store, (enum schema_tier)tier, now_ns);
		if (!has_work(store, (enum schema_tier)tier))
			continue;
		worked = true;
		r = flush_tier(store, (enum schema_tier)tier, now_ns);
		if (first == 0)
			first = r;
	}
	for (unsigned tier = 0; tier < TIER_MAX; tier++) {
		folder_measure(&store->folder, current_number(store, (enum schema_tier)tier));
		folder_retain(&store->folder, (enum schema_tier)tier, current_number(store, (enum schema_tier)tier),
			store_size_max(store, (enum schema_tier)tier), age_max_ns[tier], now_ns);
	}
	if (worked && first == 0 && store->trouble[0]) {
		log_notice("store", "writing to %s again; %llu rows were dropped since the start", store->folder.dir,
			(unsigned long long)store->rows_dropped);
		store->trouble[0] = 0;
	}
	return first;
}
