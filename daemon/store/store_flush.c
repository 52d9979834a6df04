/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One batch, in the writer's thread: which segment takes the rows, and what happens where it cannot. The order of
 * resorts on a full disk: unlink the oldest closed events segment and try again; with none left, drop the batch and
 * count it. Damage: set the file aside, go on with a new one. Every way out leaves a writer that tries again at the
 * next batch.
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

static uint64_t flush_size_max(const struct writer *writer, enum schema_tier tier)
{
	return tier == TIER_SUMMARY ? writer->options.events_size_bytes_max / SUMMARY_SHARE
				    : writer->options.events_size_bytes_max;
}

static uint64_t current_number(const struct writer *writer, enum schema_tier tier)
{
	return writer->current[tier] ? writer->current[tier]->name.number : 0;
}

void losses_add(struct losses *losses, enum store_lost why, enum schema_id table, uint64_t count, uint64_t now_ns)
{
	struct loss *loss = &losses->of[why][table];

	if (!count)
		return;
	if (!loss->count)
		loss->since_ns = now_ns;
	loss->count += count;
	losses->pending += count;
	losses->total[why][table] += count;
	losses->total_sum += count;
}

static void losses_add_queue(struct losses *losses, enum store_lost why, const struct queue *queue, uint64_t now_ns)
{
	struct store_value values[SCHEMA_COLUMNS_MAX];
	size_t offset = 0, count = 0;
	enum schema_id table;

	while (queue_next(queue, &offset, &table, values, &count))
		losses_add(losses, why, table, 1, now_ns);
}

void losses_move(struct losses *from, struct losses *to)
{
	for (size_t i = 0; from->pending && i < STORE_LOST_MAX * TABLE_MAX; i++) {
		struct loss *loss = &from->of[i / TABLE_MAX][i % TABLE_MAX],
			    *of = &to->of[i / TABLE_MAX][i % TABLE_MAX];

		if (loss->count && !of->count)
			of->since_ns = loss->since_ns;
		of->count += loss->count;
		to->pending += loss->count;
		loss->count = 0;
	}
	from->pending = 0;
}

static bool window_holds(const struct writer *writer, const struct segment_name *name, uint64_t now_ns)
{
	int64_t now = (int64_t)now_ns, length = (int64_t)writer->options.segment_ns;

	/* A clock that was put back by more than a window starts a new one. */
	return now < name->base_ns + length && now > name->base_ns - length;
}

static void close_current(struct writer *writer, enum schema_tier tier, uint64_t now_ns)
{
	uint64_t number = current_number(writer, tier);
	struct folder_file *file;

	if (!number)
		return;
	writer->current[tier] = segment_close(writer->current[tier]);
	folder_measure(&writer->folder, number);
	file = folder_find(&writer->folder, number);
	if (file)
		file->end_ns = (int64_t)now_ns;
}

static void store_flush_roll(struct writer *writer, enum schema_tier tier, uint64_t now_ns)
{
	const struct segment *segment = writer->current[tier];
	const struct folder_file *file;

	if (!segment)
		return;
	folder_measure(&writer->folder, segment->name.number);
	file = folder_find(&writer->folder, segment->name.number);
	if (access(segment->path, F_OK) < 0) {
		log_warning("store", "%s was removed by somebody else; going on with a new file", segment->path);
		folder_forget(&writer->folder, segment->name.number);
		writer->current[tier] = segment_close(writer->current[tier]);
	} else if (!window_holds(writer, &segment->name, now_ns) ||
		   (file && file->size_bytes > flush_size_max(writer, tier) / SEGMENTS_MIN)) {
		close_current(writer, tier, now_ns);
	}
}

static void flush_continue(struct writer *writer, enum schema_tier tier, uint64_t now_ns)
{
	struct folder *folder = &writer->folder;

	for (size_t i = folder->count; i-- > 0;) {
		struct segment_name name = folder->files[i].name;
		char path[PATH_MAX];
		int r;

		if (name.tier != tier)
			continue;
		if (!window_holds(writer, &name, now_ns))
			return;
		folder_path(folder, &name, path, sizeof(path));
		r = segment_open(path, &name, false, &writer->current[tier]);
		if (r == -EBADMSG) {
			folder_set_aside(folder, name.number, "it fails SQLite's checks");
			continue;
		}
		if (r < 0 && r != -ESTALE)
			log_warning("store", "cannot go on with %s (%s); starting a new file", path, strerror(-r));
		return;
	}
}

static int ensure_segment(struct writer *writer, enum schema_tier tier, uint64_t now_ns)
{
	struct segment_name name = {
		.tier = tier,
		.base_ns = (int64_t)(now_ns - now_ns % NSEC_PER_SEC),
		.number = writer->folder.next_number,
	};
	char path[PATH_MAX];
	int r;

	if (writer->current[tier])
		return 0;
	folder_path(&writer->folder, &name, path, sizeof(path));
	r = segment_open(path, &name, true, &writer->current[tier]);
	if (r < 0)
		return r;
	if (!folder_add(&writer->folder, &name, name.base_ns + (int64_t)writer->options.segment_ns)) {
		writer->current[tier] = segment_close(writer->current[tier]);
		return -ENOMEM;
	}
	folder_began(&writer->folder, tier);
	return 0;
}

static int write_lost(struct writer *writer, struct segment *segment)
{
	for (size_t i = 0; writer->lost.pending && i < STORE_LOST_MAX * TABLE_MAX; i++) {
		enum store_lost why = (enum store_lost)(i / TABLE_MAX);
		size_t table = i % TABLE_MAX;
		const struct row_drops row = {
			.start_ns = field_time(writer->lost.of[why][table].since_ns),
			.source = field_text("store"),
			.reason = field_text(store_lost_reasons[why]),
			.count = field_int((int64_t)writer->lost.of[why][table].count),
			.table_name = field_text(schema_tables[table].name),
			.rank = field_int_if(false, 0),
			.uid = field_int_if(false, 0),
			.instance = field_int_if(false, 0),
		};
		int r;

		if (!writer->lost.of[why][table].count)
			continue;
		r = segment_insert(segment, TABLE_DROPS, (const struct store_value *)(const void *)&row, COLUMNS_DROPS);
		if (r < 0)
			return r;
	}
	return 0;
}

static void flush_forget_lost(struct writer *writer)
{
	for (size_t i = 0; writer->lost.pending && i < STORE_LOST_MAX * TABLE_MAX; i++)
		writer->lost.of[i / TABLE_MAX][i % TABLE_MAX].count = 0;
	writer->lost.pending = 0;
}

static int write_clock(const struct writer *writer, struct segment *segment)
{
	uint64_t now_ns = monotonic_ns();
	const struct row_clock row = {
		.monotonic_ns = field_duration(now_ns),
		.utc_ns = field_time(now_ns + (uint64_t)writer->batch.clock_offset_ns),
	};

	return segment_insert(segment, TABLE_CLOCK, (const struct store_value *)(const void *)&row, COLUMNS_CLOCK);
}

static int write_rows(struct writer *writer, struct segment *segment)
{
	const struct queue *queue = &writer->batch.rows[segment->name.tier];
	struct store_value values[SCHEMA_COLUMNS_MAX];
	size_t offset = 0, count = 0;
	enum schema_id table;
	int r = 0;

	while (r == 0 && queue_next(queue, &offset, &table, values, &count)) {
		r = state_write_referenced(&writer->state, segment, table, values);
		if (r == 0)
			r = segment_insert(segment, table, values, count);
	}
	return r;
}

static int write_batch(struct writer *writer, enum schema_tier tier)
{
	struct segment *segment = writer->current[tier];
	bool clock = schema_tables[TABLE_CLOCK].tier == tier && !segment->clock_noted;
	bool drops = schema_tables[TABLE_DROPS].tier == tier;
	int r = segment_begin(segment);

	if (r == 0)
		r = state_write(&writer->state, segment);
	if (r == 0 && clock)
		r = write_clock(writer, segment);
	if (r == 0 && drops)
		r = write_lost(writer, segment);
	if (r == 0)
		r = write_rows(writer, segment);
	if (r == 0)
		r = segment_commit(segment);
	if (r < 0) {
		segment_rollback(segment);
		state_unwritten(&writer->state, tier, segment->name.number);
		return r;
	}
	segment->clock_noted |= clock;
	if (drops)
		flush_forget_lost(writer);
	return 0;
}

static bool has_work(const struct writer *writer, enum schema_tier tier)
{
	bool lost = schema_tables[TABLE_DROPS].tier == tier && writer->lost.pending;

	return lost || writer->batch.rows[tier].rows || state_waits(&writer->state, tier, current_number(writer, tier));
}

static void store_flush_failed(struct writer *writer, int error, uint64_t dropped)
{
	char text[sizeof(writer->reason)];

	if (error == -EAGAIN)
		snprintf(text, sizeof(text), "somebody else writes to a segment in %.100s; rows wait in memory",
			writer->folder.dir);
	else if (error == -ENOSPC)
		snprintf(text, sizeof(text),
			"the disk of %.100s is full and no closed segment is left to remove; rows are dropped and "
			"counted",
			writer->folder.dir);
	else
		snprintf(text, sizeof(text), "cannot write to %.100s (%s); rows are dropped and counted",
			writer->folder.dir, strerror(-error));
	if (!streq(text, writer->reason))
		log_error("store", "%s (%llu rows now)", text, (unsigned long long)dropped);
	(void)copy_text(writer->reason, sizeof(writer->reason), text);
}

/* Returns 0 or what kept the rows from the disk. */
static int flush_tier(struct writer *writer, enum schema_tier tier, uint64_t now_ns)
{
	struct queue *queue = &writer->batch.rows[tier];
	int damaged = 0, r;

	for (;;) {
		r = ensure_segment(writer, tier, now_ns);
		if (r == 0)
			r = write_batch(writer, tier);
		if (r == -ENOSPC && folder_remove_oldest(&writer->folder, TIER_EVENTS,
					    current_number(writer, TIER_EVENTS), "the disk is full"))
			continue;
		if (r == -EBADMSG && writer->current[tier] && damaged++ < CORRUPT_TRIES_MAX) {
			uint64_t number = current_number(writer, tier);

			writer->current[tier] = segment_close(writer->current[tier]);
			folder_set_aside(&writer->folder, number, "SQLite found it malformed");
			continue;
		}
		break;
	}
	if (r == 0) {
		writer->rows += queue->rows;
		queue_clear(queue);
		return 0;
	}
	store_flush_failed(writer, r, queue->rows);
	if (r == -EAGAIN)
		return r;
	losses_add_queue(&writer->lost, r == -ENOSPC ? STORE_LOST_DISK : STORE_LOST_ERROR, queue, now_ns);
	queue_clear(queue);
	/* A file that takes no rows for reasons unknown gets no second batch. */
	if (r != -ENOSPC)
		close_current(writer, tier, now_ns);
	return r;
}

/* After a crash, closed segments become plain files again. */
static void flush_tidy(struct folder *folder)
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

void flush_begin(struct writer *writer, uint64_t now_ns)
{
	flush_tidy(&writer->folder);
	for (unsigned tier = 0; tier < TIER_MAX; tier++)
		flush_continue(writer, (enum schema_tier)tier, now_ns);
}

static void flush_retain(struct writer *writer, uint64_t now_ns)
{
	uint64_t age_max_ns[TIER_MAX] = {writer->options.events_age_ns_max, writer->options.summary_age_ns_max};

	for (unsigned i = 0; i < TIER_MAX; i++) {
		enum schema_tier tier = (enum schema_tier)i;

		folder_measure(&writer->folder, current_number(writer, tier));
		folder_retain(&writer->folder, tier, current_number(writer, tier), flush_size_max(writer, tier),
			age_max_ns[tier], now_ns);
	}
}

int flush_batch(struct writer *writer)
{
	uint64_t now_ns = writer->batch.now_ns;
	bool worked = false;
	int first = 0;

	state_take(&writer->state, &writer->batch, &writer->lost);
	losses_move(&writer->batch.lost, &writer->lost);
	for (unsigned tier = 0; tier < TIER_MAX; tier++) {
		int r;

		store_flush_roll(writer, (enum schema_tier)tier, now_ns);
		if (!has_work(writer, (enum schema_tier)tier))
			continue;
		worked = true;
		r = flush_tier(writer, (enum schema_tier)tier, now_ns);
		if (first == 0)
			first = r;
	}
	flush_retain(writer, now_ns);
	if (worked && first == 0 && writer->reason[0]) {
		log_notice("store", "writing to %s again; %llu rows could not be written since the start",
			writer->folder.dir, (unsigned long long)writer->lost.total_sum);
		writer->reason[0] = 0;
	}
	return first;
}

void flush_end(struct writer *writer)
{
	for (size_t i = 0; i < TIER_MAX; i++)
		writer->current[i] = segment_close(writer->current[i]);
}
