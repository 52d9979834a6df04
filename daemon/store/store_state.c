/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the store knows beyond one segment: the newest version of every state row (ranks), rows that are true now (calls
 * in flight), and process identities with their last step. Segments get from here what they need to be complete in
 * themselves. All bounded; the oldest goes first.
 */
#include "daemon/store/store_internal.h"
#include "analyzers/base/array.h"

#define TIERS_ALL ((1u << TIER_MAX) - 1)

int state_init(struct state *state)
{
	size_t tables = 0;

	for (size_t i = 0; i < TABLE_MAX; i++)
		for (size_t j = 0; j < TABLE_MAX; j++) {
			const struct schema_table *to = &schema_tables[j];

			state->reference[i][j] = -1;
			if (schema_tables[i].kind != SCHEMA_STATE && to->kind == SCHEMA_STATE)
				state->reference[i][j] =
					(int8_t)schema_column_find(&schema_tables[i], to->columns[schema_key(to)].name);
		}
	for (size_t i = 0; i < TABLE_MAX; i++)
		tables += schema_tables[i].kind == SCHEMA_STATE;
	state->rows = calloc(tables * STATE_ROWS_MAX, sizeof(*state->rows));
	return state->rows ? identities_init(&state->identities) : -ENOMEM;
}

void state_free(struct state *state)
{
	for (size_t i = 0; i < state->rows_count; i++)
		queue_free(&state->rows[i].row);
	for (size_t i = 0; i < TABLE_MAX; i++)
		queue_free(&state->now[i].rows);
	free(state->rows);
	identities_free(&state->identities);
	*state = (struct state){0};
}

/* First row that is not before (table, key). */
static size_t row_position(const struct state *state, enum schema_id table, int64_t key)
{
	const struct state_row *row = state->rows;

	return array_first_not(
		i, state->rows_count, row[i].table < table || (row[i].table == table && row[i].key < key));
}

static struct state_row *row_find(const struct state *state, enum schema_id table, int64_t key)
{
	size_t i = row_position(state, table, key);

	if (i == state->rows_count || state->rows[i].table != table || state->rows[i].key != key)
		return NULL;
	return &state->rows[i];
}

/* The table is full: drops the row that changed longest ago. */
static void forget_oldest(struct state *state, enum schema_id table)
{
	size_t first = row_position(state, table, INT64_MIN), oldest = first, end = first;

	for (; end < state->rows_count && state->rows[end].table == table; end++)
		if (state->rows[end].changed < state->rows[oldest].changed)
			oldest = end;
	if (end - first < STATE_ROWS_MAX)
		return;
	queue_free(&state->rows[oldest].row);
	memmove(&state->rows[oldest], &state->rows[oldest + 1],
		(--state->rows_count - oldest) * sizeof(state->rows[0]));
}

static int state_put(struct state *state, enum schema_id table, const struct store_value *values, size_t count)
{
	int key = schema_key(&schema_tables[table]);
	struct queue fresh = {0};
	struct state_row *row;
	int r;

	if (key < 0 || values[key].type != STORE_INT)
		return -EINVAL;
	r = queue_put(&fresh, table, values, count);
	if (r < 0)
		return r;
	row = row_find(state, table, values[key].integer);
	if (!row) {
		size_t at;

		forget_oldest(state, table);
		at = row_position(state, table, values[key].integer);
		row = &state->rows[at];
		memmove(row + 1, row, (state->rows_count++ - at) * sizeof(*row));
		*row = (struct state_row){.table = table, .key = values[key].integer};
	}
	queue_free(&row->row);
	row->row = fresh;
	row->fresh = TIERS_ALL;
	row->changed = ++state->changes;
	memset(row->written, 0, sizeof(row->written));
	return 0;
}

static void state_take_now(struct state *state, enum schema_id table, struct batch *batch, struct losses *lost)
{
	struct batch_now *fresh = &batch->now[table];
	struct now_rows *now = &state->now[table];
	struct store_value values[SCHEMA_COLUMNS_MAX];
	size_t offset = 0, count = 0;
	enum schema_id of;

	if (!fresh->changed)
		return;
	now->changed = true;
	if (fresh->replaces)
		queue_clear(&now->rows);
	while (queue_next(&fresh->rows, &offset, &of, values, &count))
		if (now->rows.rows >= NOW_ROWS_MAX || queue_put(&now->rows, table, values, count) < 0)
			losses_add(lost, STORE_LOST_QUEUE, table, 1, batch->now_ns);
	queue_clear(&fresh->rows);
	fresh->replaces = fresh->changed = false;
}

void state_take(struct state *state, struct batch *batch, struct losses *lost)
{
	struct store_value values[SCHEMA_COLUMNS_MAX];
	size_t offset = 0, count = 0;
	enum schema_id table;

	while (queue_next(&batch->state, &offset, &table, values, &count))
		if (state_put(state, table, values, count) < 0)
			losses_add(lost, STORE_LOST_QUEUE, table, 1, batch->now_ns);
	queue_clear(&batch->state);
	for (size_t i = 0; i < TABLE_MAX; i++)
		state_take_now(state, (enum schema_id)i, batch, lost);
	for (size_t i = 0; i < batch->identities_count; i++)
		*identities_add(&state->identities, batch->identities[i].instance) = batch->identities[i];
	batch->identities_count = 0;
}

bool state_waits(const struct state *state, enum schema_tier tier, uint64_t number)
{
	for (size_t i = 0; i < state->rows_count; i++)
		if (state->rows[i].fresh & (1u << tier))
			return true;
	for (size_t i = 0; i < TABLE_MAX; i++)
		if (schema_tables[i].kind == SCHEMA_NOW && schema_tables[i].tier == tier &&
			(state->now[i].changed || (number && state->now[i].written != number)))
			return true;
	for (size_t i = 0; i < state->identities.count; i++)
		if (!state->identities.list[i].written[tier])
			return true;
	return false;
}

static int write_row(struct state_row *row, struct segment *segment)
{
	struct store_value values[SCHEMA_COLUMNS_MAX];
	size_t offset = 0, count = 0;
	enum schema_id table;
	int r;

	if (!queue_next(&row->row, &offset, &table, values, &count))
		return 0;
	r = segment_insert(segment, table, values, count);
	if (r < 0)
		return r;
	row->written[segment->name.tier] = segment->name.number;
	row->fresh &= ~(1u << segment->name.tier);
	return 0;
}

static int write_now(struct state *state, struct segment *segment, enum schema_id table)
{
	struct store_value values[SCHEMA_COLUMNS_MAX];
	size_t offset = 0, count = 0;
	enum schema_id of;
	int r = segment_clear(segment, table);

	while (r == 0 && queue_next(&state->now[table].rows, &offset, &of, values, &count)) {
		r = state_write_referenced(state, segment, table, values);
		if (r == 0)
			r = segment_insert(segment, table, values, count);
	}
	if (r == 0) {
		state->now[table].written = segment->name.number;
		state->now[table].changed = false;
	}
	return r;
}

int state_write(struct state *state, struct segment *segment)
{
	enum schema_tier tier = segment->name.tier;
	int r = 0;

	for (size_t i = 0; i < state->rows_count && r == 0; i++)
		if (state->rows[i].fresh & (1u << tier))
			r = write_row(&state->rows[i], segment);
	for (size_t i = 0; i < TABLE_MAX && r == 0; i++)
		if (schema_tables[i].kind == SCHEMA_NOW && schema_tables[i].tier == tier &&
			(state->now[i].changed || state->now[i].written != segment->name.number))
			r = write_now(state, segment, (enum schema_id)i);
	for (size_t i = 0; i < state->identities.count && r == 0; i++) {
		struct identity *at = &state->identities.list[i];

		if (at->written[tier] == segment->name.number)
			continue;
		r = segment_instance(segment, at->instance, at->boot_id, at->pid, at->start_time_ns, at->last_step);
		if (r == 0)
			at->written[tier] = segment->name.number;
	}
	return r;
}

int state_write_referenced(
	struct state *state, struct segment *segment, enum schema_id table, const struct store_value *values)
{
	for (size_t i = 0; i < TABLE_MAX; i++) {
		int column = state->reference[table][i];
		struct state_row *row;

		if (column < 0 || values[column].type != STORE_INT)
			continue;
		row = row_find(state, (enum schema_id)i, values[column].integer);
		if (row && row->written[segment->name.tier] != segment->name.number) {
			int r = write_row(row, segment);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

void state_unwritten(struct state *state, enum schema_tier tier, uint64_t number)
{
	for (size_t i = 0; i < state->rows_count; i++)
		if (state->rows[i].written[tier] == number) {
			state->rows[i].written[tier] = 0;
			state->rows[i].fresh |= 1u << tier;
		}
	for (size_t i = 0; i < TABLE_MAX; i++)
		if (schema_tables[i].tier == tier && state->now[i].written == number)
			state->now[i] = (struct now_rows){state->now[i].rows, 0, true};
	for (size_t i = 0; i < state->identities.count; i++)
		if (state->identities.list[i].written[tier] == number)
			state->identities.list[i].written[tier] = 0;
}
