/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the store. See memory_read.h. */
#include "analyzers/cli/memory_read.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"
#include "analyzers/base/clock.h"
#include "analyzers/base/text.h"
#include "analyzers/base/units.h"

#define PLACES_MAX 4096 /* of a device; further ones are not listed */
#define FRAMES_MAX 512

struct memory_name cmd_memory_name(sqlite3_stmt *row, int column)
{
	struct memory_name ret;

	tool_row_text(row, column, ret.text, sizeof(ret.text));
	return ret;
}

int64_t cmd_memory_int(sqlite3_stmt *row, int column)
{
	return sqlite3_column_int64(row, column);
}

/* Of the device; -1: it has no number. */
int64_t cmd_memory_number(sqlite3_stmt *row, int column)
{
	return sqlite3_column_type(row, column) == SQLITE_NULL ? -1 : sqlite3_column_int64(row, column);
}

struct memory_pool *cmd_memory_pool(struct cmd_memory *cmd, int64_t instance, const char *kind, int64_t device)
{
	for (size_t i = 0; i < cmd->pools; i++)
		if (cmd->pool[i].instance == instance && cmd->pool[i].device == device &&
			!strcmp(cmd->pool[i].kind.text, kind))
			return &cmd->pool[i];
	if (cmd->pools == MEMORY_POOLS_MAX)
		return NULL;
	cmd->pool[cmd->pools] = (struct memory_pool){.instance = instance, .device = device};
	snprintf(cmd->pool[cmd->pools].kind.text, sizeof(cmd->pool->kind.text), "%s", kind);
	return &cmd->pool[cmd->pools++];
}

enum {
	CURVE_INSTANCE,
	CURVE_KIND,
	CURVE_DEVICE,
	CURVE_START,
	CURVE_ALLOCATED,
	CURVE_LOW,
	CURVE_PEAK,
	CURVE_RESERVED,
	CURVE_RESERVED_PEAK,
	CURVE_BEFORE,
	CURVE_RANK,
	CURVE_PID,
	CURVE_HOST,
	CURVE_JOB,
	CURVE_ENDED,
	CURVE_SEEN
};

static int cmd_memory_on_curve(void *arg, sqlite3_stmt *row)
{
	struct cmd_memory *cmd = arg;
	int64_t device = cmd_memory_number(row, CURVE_DEVICE), end_ns;
	bool windows = sqlite3_column_type(row, CURVE_SEEN) != SQLITE_NULL; /* the row is of one, not of a second */
	struct memory_pool *pool;

	if (!ranges_have(&cmd->ranks, cmd_memory_int(row, CURVE_RANK)))
		return 0;
	pool = cmd_memory_pool(cmd, cmd_memory_int(row, CURVE_INSTANCE), cmd_memory_name(row, CURVE_KIND).text, device);
	if (!pool)
		return 0;
	if (!pool->first_ns) {
		pool->rank = cmd_memory_int(row, CURVE_RANK);
		pool->pid = cmd_memory_int(row, CURVE_PID);
		pool->ended = sqlite3_column_int(row, CURVE_ENDED);
		pool->first_ns = cmd_memory_int(row, CURVE_START);
		pool->host = cmd_memory_name(row, CURVE_HOST);
		pool->job = cmd_memory_name(row, CURVE_JOB);
	}
	pool->last_ns = cmd_memory_int(row, CURVE_START);
	end_ns = pool->last_ns + (windows ? cmd_memory_int(row, CURVE_SEEN) : (int64_t)NSEC_PER_SEC);
	if (windows) {
		pool->seen_ns += sqlite3_column_double(row, CURVE_SEEN);
		pool->span_ns += (double)(end_ns - (pool->end_ns ? pool->end_ns : pool->last_ns));
	}
	pool->until_ns = pool->end_ns = end_ns;
	/* The sum is of one time in which L2 is on: it changes only when L2 comes on again. */
	if (sqlite3_column_double(row, CURVE_BEFORE) != pool->before)
		pool->on_ns = pool->last_ns;
	pool->before = sqlite3_column_double(row, CURVE_BEFORE);
	pool->allocated = sqlite3_column_double(row, CURVE_ALLOCATED);
	pool->reserved = sqlite3_column_double(row, CURVE_RESERVED);
	if (sqlite3_column_double(row, CURVE_PEAK) > pool->peak) {
		pool->peak = sqlite3_column_double(row, CURVE_PEAK);
		pool->peak_ns = pool->last_ns;
	}
	pool->reserved_peak = fmax(pool->reserved_peak, sqlite3_column_double(row, CURVE_RESERVED_PEAK));
	memory_history_add(&pool->history, (uint64_t)pool->last_ns, sqlite3_column_double(row, CURVE_LOW));
	return 0;
}

int cmd_memory_each_of(struct cmd_memory *cmd, const struct memory_pool *pool, const char *columns, const char *table,
	const char *rest, int (*row)(void *arg, sqlite3_stmt *statement), void *arg)
{
	return tool_each(cmd->reader,
		sqlite3_mprintf(
			"SELECT %s FROM %s m WHERE instance = %lld AND kind = %Q AND coalesce(device, -1) = %lld AND "
			"start_ns >= %lld %s",
			columns, table, (long long)pool->instance, pool->kind.text, (long long)pool->device,
			(long long)cmd->since_ns, rest),
		row, arg);
}

static int cmd_memory_on_newest(void *arg, sqlite3_stmt *row)
{
	struct cmd_memory *cmd = arg;

	for (size_t i = 0; i < cmd->pools; i++)
		if (cmd->pool[i].instance == cmd_memory_int(row, 0) && cmd->pool[i].until_ns < cmd_memory_int(row, 1))
			cmd->pool[i].until_ns = cmd_memory_int(row, 1);
	return 0;
}

enum { CALLS_INSTANCE, CALLS_FIRST, CALLS_LAST, CALLS_RANK, CALLS_PID, CALLS_HOST, CALLS_JOB, CALLS_ENDED };

static int cmd_memory_on_calls(void *arg, sqlite3_stmt *row)
{
	struct cmd_memory *cmd = arg;
	struct memory_pool *pool;

	for (size_t i = 0; i < cmd->pools; i++)
		if (cmd->pool[i].instance == cmd_memory_int(row, CALLS_INSTANCE))
			return 0;
	pool = ranges_have(&cmd->ranks, cmd_memory_int(row, CALLS_RANK))
		       ? cmd_memory_pool(cmd, cmd_memory_int(row, CALLS_INSTANCE), "", -1)
		       : NULL;
	if (!pool)
		return 0;
	pool->calls_only = true;
	pool->rank = cmd_memory_int(row, CALLS_RANK);
	pool->pid = cmd_memory_int(row, CALLS_PID);
	pool->ended = sqlite3_column_int(row, CALLS_ENDED);
	pool->first_ns = cmd_memory_int(row, CALLS_FIRST);
	pool->last_ns = pool->end_ns = pool->until_ns = cmd_memory_int(row, CALLS_LAST);
	pool->host = cmd_memory_name(row, CALLS_HOST);
	pool->job = cmd_memory_name(row, CALLS_JOB);
	return 0;
}

static int cmd_memory_read_calls(struct cmd_memory *cmd)
{
	return tool_each(cmd->reader,
		sqlite3_mprintf("SELECT a.instance, a.first_ns, a.last_ns, a.rank, r.pid, r.host, r.job, r.ended FROM "
				"(SELECT instance, rank, min(start_ns) AS first_ns, max(start_ns) AS last_ns FROM "
				"allocations WHERE start_ns >= %lld GROUP BY instance) a JOIN ranks r ON r.instance = "
				"a.instance WHERE %Q IS NULL OR r.job = %Q ORDER BY r.job, a.rank, a.instance",
			(long long)cmd->since_ns, cmd->job, cmd->job),
		cmd_memory_on_calls, cmd);
}

/* Of blocks in the host's memory some versions report no sum. */
static void cmd_memory_drop_empty(struct cmd_memory *cmd)
{
	size_t n = 0;

	for (size_t i = 0; i < cmd->pools; i++)
		if (cmd->pool[i].peak > 0)
			cmd->pool[n++] = cmd->pool[i];
	cmd->pools = n;
}

double cmd_memory_seen_share(const struct memory_pool *pool)
{
	double span_ns = pool->span_ns + (double)(pool->until_ns - pool->end_ns);

	if (pool->calls_only)
		return 0;
	return pool->seen_ns > 0 && span_ns > pool->seen_ns ? pool->seen_ns / span_ns : 1;
}

int cmd_memory_read_curves(struct cmd_memory *cmd)
{
	int r = tool_each(cmd->reader,
		sqlite3_mprintf(
			"SELECT m.instance, m.kind, m.device, m.start_ns, m.allocated_bytes, "
			"m.allocated_min_bytes, m.allocated_max_bytes, m.reserved_bytes, m.reserved_max_bytes, "
			"m.before_bytes, m.rank, r.pid, r.host, r.job, r.ended, m.seen_ns FROM memory_curve m JOIN "
			"ranks r ON "
			"r.instance = m.instance WHERE m.start_ns >= %lld AND (%Q IS NULL OR r.job = %Q) ORDER BY "
			"r.job, m.rank, m.instance, m.start_ns",
			(long long)cmd->since_ns, cmd->job, cmd->job),
		cmd_memory_on_curve, cmd);

	cmd_memory_drop_empty(cmd);
	if (r == 0)
		r = cmd_memory_read_calls(cmd);
	/* L2 is on between windows, too, and after the last one. */
	return r ? r
		 : tool_each(cmd->reader,
			   sqlite3_mprintf(
				   "SELECT instance, max(end_ns) FROM (SELECT instance, start_ns AS end_ns FROM "
				   "memory_live WHERE start_ns >= %lld UNION ALL SELECT instance, start_ns + "
				   "duration_ns FROM coverage WHERE level = 'L2' AND watched_ns > 0 AND "
				   "start_ns >= %lld) GROUP BY instance",
				   (long long)cmd->since_ns, (long long)cmd->since_ns),
			   cmd_memory_on_newest, cmd);
}

enum { CARD_OBJECT, CARD_NAME, CARD_VALUE };

struct cmd_memory_card {
	struct memory_card_gauges gauges;
	int64_t pid;
};

static int cmd_memory_on_card(void *arg, sqlite3_stmt *row)
{
	struct cmd_memory_card *card = arg;
	const char *object = (const char *)sqlite3_column_text(row, CARD_OBJECT);

	if (object)
		memory_card_gauge(&card->gauges, object, cmd_memory_name(row, CARD_NAME).text, card->pid,
			sqlite3_column_double(row, CARD_VALUE));
	return 0;
}

/* Of a gauge: a row a minute if it does not change, or one in minutes where readings are costly */
#define CARD_AGE_NS 600000000000LL

static bool cmd_memory_on_device(const struct memory_pool *pool)
{
	return !pool->calls_only && strcmp(pool->kind.text, "cpu") != 0;
}

/* The store has one card of a process. Of a process with several it is not known which of them that is. */
static bool cmd_memory_card_known(const struct cmd_memory *cmd, const struct memory_pool *pool)
{
	bool known = pool->calls_only || cmd_memory_on_device(pool);

	for (size_t i = 0; i < cmd->pools; i++)
		if (&cmd->pool[i] != pool && cmd->pool[i].instance == pool->instance)
			known &= !cmd_memory_on_device(&cmd->pool[i]);
	return known;
}

static int cmd_memory_read_card(struct cmd_memory *cmd, struct memory_pool *pool)
{
	struct cmd_memory_card card = {.pid = pool->pid};
	int r;

	if (pool->ended || !cmd_memory_card_known(cmd, pool))
		return 0;
	r = tool_each(cmd->reader,
		sqlite3_mprintf("SELECT g.object, g.name, g.value FROM gauges g JOIN ranks r ON r.instance = %lld "
				"WHERE g.source = 'nvml' AND g.start_ns BETWEEN %lld AND %lld AND "
				"(g.object = r.card_uuid OR substr(g.object, 1, length(r.card_uuid) + 1) = "
				"r.card_uuid || '/') ORDER BY g.start_ns",
			(long long)pool->instance, (long long)(pool->until_ns - CARD_AGE_NS),
			(long long)pool->until_ns),
		cmd_memory_on_card, &card);
	pool->card = memory_card_of(&card.gauges);
	return r;
}

int cmd_memory_read_cards(struct cmd_memory *cmd)
{
	int r = 0;

	for (size_t i = 0; i < cmd->pools && r == 0; i++)
		r = cmd_memory_read_card(cmd, &cmd->pool[i]);
	return r;
}

void cmd_memory_json_card(json_t *object, const struct memory_card *card)
{
	bool known = card->total > 0;

	json_object_set_new(object, "card_bytes", known ? json_real(card->total) : json_null());
	json_object_set_new(object, "card_free_bytes", known ? json_real(card->free) : json_null());
	json_object_set_new(
		object, "others_bytes", known && !isnan(card->others) ? json_real(card->others) : json_null());
}

/* Threads of PyTorch that run no Python of their own. */
static const struct {
	const char *prefix, *role;
} cmd_memory_roles[] = {{"pt_autograd_", "backward"}};

/* The function that asked the allocator, and the thread, which has no frame of Python. */
static void cmd_memory_thread_place(const struct stack_thread *thread, const char *name, char ret[STACK_PLACE_BYTES])
{
	char function[STACK_PLACE_BYTES] = "", who[66];

	for (size_t i = thread->frames; i-- > 0 && !*function;) {
		const struct stack_frame *frame = &thread->frame[i];

		if (stack_frame_shows(frame) && *frame->function && !strstr(frame->file, "libc10"))
			stack_frame_text(frame, false, function, sizeof(function));
	}
	for (size_t i = 0; i < sizeof(cmd_memory_roles) / sizeof(cmd_memory_roles[0]) && !*function; i++)
		if (!strncmp(name, cmd_memory_roles[i].prefix, strlen(cmd_memory_roles[i].prefix)))
			snprintf(function, sizeof(function), "%s", cmd_memory_roles[i].role);
	snprintf(who, sizeof(who), "%s", name);
	text_clean(who);
	text_clean(function);
	snprintf(ret, STACK_PLACE_BYTES, *function ? "%.100s (thread %s)" : "%.0sthread %s", function, who);
}

void cmd_memory_place(const char *frames, const char *thread_name, int64_t sites, char ret[STACK_PLACE_BYTES])
{
	struct stack_frame frame[FRAMES_MAX];
	struct stack_thread thread = {.frame = frame};
	char *text = frames ? strdup(frames) : NULL;

	snprintf(ret, STACK_PLACE_BYTES, sites > 1 ? "all others" : "unknown (its stack was not read)");
	if (text)
		thread.frames = stack_frames_parse(text, frame, FRAMES_MAX);
	if (thread_name && *thread_name)
		cmd_memory_thread_place(&thread, thread_name, ret);
	else if (text)
		stack_place(&thread, ret);
	free(text);
}

static struct memory_place *cmd_memory_find_place(struct memory_pool *pool, const char *text)
{
	struct memory_place *place;

	for (size_t i = 0; i < pool->places; i++)
		if (!strcmp(pool->place[i].text, text))
			return &pool->place[i];
	if (!array_reserve((void **)&pool->place, &pool->place_capacity, pool->places + 1, sizeof(*place), PLACES_MAX))
		return NULL;
	place = &pool->place[pool->places++];
	*place = (struct memory_place){.live = 0};
	snprintf(place->text, sizeof(place->text), "%s", text);
	return place;
}

struct cmd_memory_snapshot {
	struct memory_pool *pool;
	bool first;
};

enum {
	LIVE_FRAMES,
	LIVE_SITES,
	LIVE_BYTES,
	LIVE_ERROR,
	LIVE_LOW,
	LIVE_HIGH,
	LIVE_BLOCKS,
	LIVE_ALLOC,
	LIVE_ALLOC_BLOCKS,
	LIVE_THREAD,
	LIVE_ALLOCATED
};

static int cmd_memory_on_live(void *arg, sqlite3_stmt *row)
{
	const struct cmd_memory_snapshot *snapshot = arg;
	char text[STACK_PLACE_BYTES];
	double live = sqlite3_column_double(row, LIVE_BYTES), error = sqlite3_column_double(row, LIVE_ERROR);
	double below = live - sqlite3_column_double(row, LIVE_LOW),
	       above = sqlite3_column_double(row, LIVE_HIGH) - live;
	struct memory_place *place;

	if (!snapshot->first)
		snapshot->pool->snapshot_allocated = cmd_memory_number(row, LIVE_ALLOCATED);
	cmd_memory_place((const char *)sqlite3_column_text(row, LIVE_FRAMES),
		(const char *)sqlite3_column_text(row, LIVE_THREAD), cmd_memory_int(row, LIVE_SITES), text);
	place = cmd_memory_find_place(snapshot->pool, text);
	if (!place)
		return 0;
	if (snapshot->first) {
		place->live_first += live;
		return 0;
	}
	place->live += live;
	place->error2 += error * error;
	place->below2 += below * below;
	place->above2 += above * above;
	place->blocks += sqlite3_column_double(row, LIVE_BLOCKS);
	place->alloc += sqlite3_column_double(row, LIVE_ALLOC);
	place->alloc_blocks += sqlite3_column_double(row, LIVE_ALLOC_BLOCKS);
	return 0;
}

static int cmd_memory_read_snapshot(struct cmd_memory *cmd, struct memory_pool *pool, int64_t start_ns, bool first)
{
	struct cmd_memory_snapshot snapshot = {pool, first};

	return tool_each(cmd->reader,
		/* Rows of before the intervals have two standard errors. */
		sqlite3_mprintf("SELECT (SELECT c.frames FROM call_stacks c WHERE c.id = m.stack LIMIT 1), m.sites, "
				"m.live_bytes, m.live_error_bytes, coalesce(m.live_low_bytes, m.live_bytes - 2 * "
				"m.live_error_bytes), "
				"coalesce(m.live_high_bytes, m.live_bytes + 2 * m.live_error_bytes), m.live_blocks, "
				"m.alloc_bytes, "
				"m.alloc_blocks, m.thread, m.allocated_bytes FROM memory_live m WHERE m.instance = "
				"%lld AND m.start_ns = %lld AND m.kind = %Q AND "
				"coalesce(m.device, -1) = %lld AND m.sampled > 0",
			(long long)pool->instance, (long long)start_ns, pool->kind.text, (long long)pool->device),
		cmd_memory_on_live, &snapshot);
}

struct cmd_memory_times {
	int64_t from_ns, first_ns, last_ns;
};

static int cmd_memory_on_time(void *arg, sqlite3_stmt *row)
{
	struct cmd_memory_times *times = arg;
	int64_t time_ns = sqlite3_column_int64(row, 0);

	if (!times->first_ns && time_ns >= times->from_ns)
		times->first_ns = time_ns;
	times->last_ns = time_ns;
	return 0;
}

static int cmd_memory_compare(const void *a, const void *b)
{
	const struct memory_place *x = a, *y = b;
	double p = x->live - x->live_first, q = y->live - y->live_first;

	return (p < q) - (p > q);
}

int cmd_memory_read_places(struct cmd_memory *cmd, struct memory_pool *pool, int64_t from_ns, int64_t until_ns)
{
	struct cmd_memory_times times = {.from_ns = from_ns};
	int r = tool_each(cmd->reader,
		sqlite3_mprintf("SELECT DISTINCT start_ns FROM memory_live WHERE instance = %lld AND start_ns BETWEEN "
				"%lld AND %lld "
				"ORDER BY start_ns",
			(long long)pool->instance, (long long)cmd->since_ns, (long long)until_ns),
		cmd_memory_on_time, &times);

	pool->places = 0;
	if (r == 0 && times.last_ns)
		r = cmd_memory_read_snapshot(cmd, pool, times.last_ns, false);
	if (r == 0 && from_ns && times.first_ns && times.first_ns < times.last_ns)
		r = cmd_memory_read_snapshot(cmd, pool, times.first_ns, true);
	pool->snapshot_ns = times.last_ns;
	pool->snapshot_first_ns = times.first_ns;
	if (pool->places)
		qsort(pool->place, pool->places, sizeof(*pool->place), cmd_memory_compare);
	return r;
}

struct memory_text cmd_memory_bytes(double bytes)
{
	struct memory_text ret;
	char buffer[UNITS_BYTES];

	snprintf(ret.text, sizeof(ret.text), "%s%s", bytes < 0 ? "-" : "",
		units_size((uint64_t)llround(fabs(bytes)), buffer));
	return ret;
}

struct memory_text cmd_memory_device(const struct memory_pool *pool)
{
	struct memory_text ret;

	if (pool->device < 0)
		snprintf(ret.text, sizeof(ret.text), "%s", pool->kind.text);
	else
		snprintf(ret.text, sizeof(ret.text), "%s:%" PRId64, pool->kind.text, pool->device);
	return ret;
}

void cmd_memory_print_pool(const struct memory_pool *pool)
{
	printf("rank %" PRId64 " (%s, pid %" PRId64 "%s)", pool->rank, pool->host.text, pool->pid,
		pool->ended ? ", has ended" : "");
	if (pool->calls_only)
		printf(": calls of the driver alone are known: the framework's allocator reported nothing while L2 was "
		       "on, or no window of L2 was open\n");
	else
		printf(", %s: ", cmd_memory_device(pool).text);
}
