/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libexec/ranktrace/memory, which is `tracectl memory`: which lines hold memory of a device, what leaks, why a request
 * failed, which calls failed. Reads what L2 has stored; works with the daemon down. Exit codes: 0 done; 1 the store failed,
 * or has nothing of it; 2 usage.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stack.h"
#include "analyzers/base/term_table.h"
#include "analyzers/base/text.h"
#include "analyzers/base/units.h"
#include "analyzers/memory/memory.h"
#include "analyzers/store/reader.h"
#include "analyzers/tool/options.h"

#define SINCE "1d"
#define PLACES_MAX 4096 /* of a device; further ones are not listed */
#define FRAMES_MAX 512
#define POOLS_MAX 1024 /* processes and devices */
#define SHOWN 20       /* lines of a table for people */

static const char usage[] =
	"usage: tracectl memory [live | leaks | oom | errors] [--rank LIST] [--job JOB] [--since TIME] [--json] [--state-dir "
	"DIR]\n"
	"Shows what L2 recorded of memory of devices (tracectl set L2=on).\n"
	"  live             what is held, and by which lines (default)\n"
	"  leaks            what grows from step to step, by which lines\n"
	"  oom              requests that the framework's allocator could not serve, and why\n"
	"  errors           calls of the runtime and the driver that failed\n"
	"  --rank LIST      only ranks as in 0,3-7\n"
	"  --job JOB        only this job\n"
	"  --since TIME     what was recorded since then: 30m, 12h ago, or a date and time (" SINCE ")\n"
	"  --json           an object\n"
	"  --state-dir DIR  the store (RANKTRACE_STATE_DIR; else " RANKTRACE_STATEDIR ")\n"
	"  --help, --version\n";

/* A line that allocates. */
struct place {
	char text[STACK_PLACE_BYTES];
	double live, error2, blocks, alloc, alloc_blocks; /* error2: square of the standard error */
	double live_first;				  /* of the first snapshot in the window */
};

struct cmd_memory_name {
	char text[66];
};

/* One device of one process. */
struct pool {
	int64_t instance, rank, device; /* device -1: none */
	struct cmd_memory_name kind, host, job;
	int64_t pid;
	bool ended;
	int64_t first_ns, last_ns, peak_ns;
	double allocated, peak, reserved, reserved_peak, before;
	int64_t first_step, last_step;
	struct memory_series series;
	int64_t snapshot_ns; /* newest; 0: none */
	size_t places;
	struct place *place;
};

struct cmd_memory {
	const char *state_dir, *job;
	struct ranges ranks;
	uint64_t since_ns;
	bool json;
	struct reader *reader;
	size_t pools;
	struct pool *pool;
	json_t *list;	 /* with --json: what is shown */
	size_t rows;
};

/* Reading. */

/* A store may come from anybody. */
static struct cmd_memory_name cmd_memory_name(sqlite3_stmt *row, int column)
{
	const char *text = (const char *)sqlite3_column_text(row, column);
	struct cmd_memory_name ret;

	snprintf(ret.text, sizeof(ret.text), "%s", text ? text : "");
	text_clean(ret.text);
	return ret;
}

static int64_t cmd_memory_int(sqlite3_stmt *row, int column)
{
	return sqlite3_column_int64(row, column);
}

/* Of the device; -1: it has no number. */
static int64_t cmd_memory_number(sqlite3_stmt *row, int column)
{
	return sqlite3_column_type(row, column) == SQLITE_NULL ? -1 : sqlite3_column_int64(row, column);
}

static struct pool *cmd_memory_pool(struct cmd_memory *cmd, int64_t instance, const char *kind, int64_t device)
{
	for (size_t i = 0; i < cmd->pools; i++)
		if (cmd->pool[i].instance == instance && cmd->pool[i].device == device && !strcmp(cmd->pool[i].kind.text, kind))
			return &cmd->pool[i];
	if (cmd->pools == POOLS_MAX)
		return NULL;
	cmd->pool[cmd->pools] = (struct pool){.instance = instance, .device = device};
	snprintf(cmd->pool[cmd->pools].kind.text, sizeof(cmd->pool->kind.text), "%s", kind);
	return &cmd->pool[cmd->pools++];
}

enum { CURVE_INSTANCE, CURVE_KIND, CURVE_DEVICE, CURVE_START, CURVE_STEP, CURVE_ALLOCATED, CURVE_LOW, CURVE_PEAK,
	CURVE_RESERVED, CURVE_RESERVED_PEAK, CURVE_BEFORE, CURVE_RANK, CURVE_PID, CURVE_HOST, CURVE_JOB, CURVE_ENDED };

static int cmd_memory_on_curve(void *arg, sqlite3_stmt *row)
{
	struct cmd_memory *cmd = arg;
	int64_t device = cmd_memory_number(row, CURVE_DEVICE);
	struct pool *pool;

	if (!ranges_have(&cmd->ranks, cmd_memory_int(row, CURVE_RANK)))
		return 0;
	pool = cmd_memory_pool(cmd, cmd_memory_int(row, CURVE_INSTANCE), cmd_memory_name(row, CURVE_KIND).text, device);
	if (!pool)
		return 0;
	if (!pool->first_ns) {
		pool->rank = cmd_memory_int(row, CURVE_RANK);
		pool->pid = cmd_memory_int(row, CURVE_PID);
		pool->ended = sqlite3_column_int(row, CURVE_ENDED);
		pool->before = sqlite3_column_double(row, CURVE_BEFORE);
		pool->first_ns = cmd_memory_int(row, CURVE_START);
		pool->first_step = cmd_memory_int(row, CURVE_STEP);
		pool->host = cmd_memory_name(row, CURVE_HOST);
		pool->job = cmd_memory_name(row, CURVE_JOB);
	}
	pool->last_ns = cmd_memory_int(row, CURVE_START);
	if (sqlite3_column_type(row, CURVE_STEP) != SQLITE_NULL)
		pool->last_step = cmd_memory_int(row, CURVE_STEP);
	pool->allocated = sqlite3_column_double(row, CURVE_ALLOCATED);
	pool->reserved = sqlite3_column_double(row, CURVE_RESERVED);
	if (sqlite3_column_double(row, CURVE_PEAK) > pool->peak) {
		pool->peak = sqlite3_column_double(row, CURVE_PEAK);
		pool->peak_ns = pool->last_ns;
	}
	pool->reserved_peak = fmax(pool->reserved_peak, sqlite3_column_double(row, CURVE_RESERVED_PEAK));
	memory_series_add(&pool->series, (uint64_t)pool->last_ns, sqlite3_column_double(row, CURVE_LOW));
	return 0;
}

static int cmd_memory_each(
	struct cmd_memory *cmd, char *sql, int (*row)(void *arg, sqlite3_stmt *statement), void *arg)
{
	char error[1024] = "out of memory";
	int r = sql ? reader_each(cmd->reader, sql, row, arg, error, sizeof(error)) : -ENOMEM;

	sqlite3_free(sql);
	return r < 0 ? tool_fail(1, "%s", error) : 0;
}

static int cmd_memory_read_curves(struct cmd_memory *cmd)
{
	return cmd_memory_each(cmd,
		sqlite3_mprintf("SELECT m.instance, m.kind, m.device, m.start_ns, m.step, m.allocated_bytes, "
				"m.allocated_min_bytes, m.allocated_max_bytes, m.reserved_bytes, m.reserved_max_bytes, "
				"m.before_bytes, m.rank, r.pid, r.host, r.job, r.ended FROM memory_curve m JOIN ranks r ON "
				"r.instance = m.instance WHERE m.start_ns >= %lld AND (%Q IS NULL OR r.job = %Q) ORDER BY "
				"m.start_ns",
			(long long)cmd->since_ns, cmd->job, cmd->job),
		cmd_memory_on_curve, cmd);
}

/* The line of a stack: what stands in front of the libraries, as the job's people know it. */
static void cmd_memory_place(const char *frames, int64_t sites, char ret[STACK_PLACE_BYTES])
{
	struct stack_frame frame[FRAMES_MAX];
	struct stack_thread thread = {.frame = frame};
	char *text = frames ? strdup(frames) : NULL;

	snprintf(ret, STACK_PLACE_BYTES, sites > 1 ? "all others" : "unknown (its stack was not read)");
	if (text) {
		thread.frames = stack_frames_parse(text, frame, FRAMES_MAX);
		stack_place(&thread, ret);
	}
	free(text);
}

static struct place *cmd_memory_find_place(struct pool *pool, const char *text)
{
	struct place *more;

	for (size_t i = 0; i < pool->places; i++)
		if (!strcmp(pool->place[i].text, text))
			return &pool->place[i];
	if (pool->places == PLACES_MAX)
		return NULL;
	more = realloc(pool->place, (pool->places + 1) * sizeof(*more));
	if (!more)
		return NULL;
	pool->place = more;
	more[pool->places] = (struct place){.live = 0};
	snprintf(more[pool->places].text, sizeof(more->text), "%s", text);
	return &pool->place[pool->places++];
}

struct cmd_memory_snapshot {
	struct pool *pool;
	bool first;
};

enum { LIVE_FRAMES, LIVE_SITES, LIVE_BYTES, LIVE_ERROR, LIVE_BLOCKS, LIVE_ALLOC, LIVE_ALLOC_BLOCKS };

static int cmd_memory_on_live(void *arg, sqlite3_stmt *row)
{
	const struct cmd_memory_snapshot *snapshot = arg;
	char text[STACK_PLACE_BYTES];
	double error = sqlite3_column_double(row, LIVE_ERROR);
	struct place *place;

	cmd_memory_place((const char *)sqlite3_column_text(row, LIVE_FRAMES), cmd_memory_int(row, LIVE_SITES), text);
	place = cmd_memory_find_place(snapshot->pool, text);
	if (!place)
		return 0;
	if (snapshot->first) {
		place->live_first += sqlite3_column_double(row, LIVE_BYTES);
		return 0;
	}
	place->live += sqlite3_column_double(row, LIVE_BYTES);
	place->error2 += error * error;
	place->blocks += sqlite3_column_double(row, LIVE_BLOCKS);
	place->alloc += sqlite3_column_double(row, LIVE_ALLOC);
	place->alloc_blocks += sqlite3_column_double(row, LIVE_ALLOC_BLOCKS);
	return 0;
}

static int cmd_memory_read_snapshot(struct cmd_memory *cmd, struct pool *pool, int64_t start_ns, bool first)
{
	struct cmd_memory_snapshot snapshot = {pool, first};

	return cmd_memory_each(cmd,
		sqlite3_mprintf("SELECT (SELECT c.frames FROM call_stacks c WHERE c.id = m.stack LIMIT 1), m.sites, "
				"m.live_bytes, m.live_error_bytes, m.live_blocks, m.alloc_bytes, m.alloc_blocks FROM "
				"memory_live m WHERE m.instance = %lld AND m.start_ns = %lld AND m.kind = %Q AND "
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
	const struct place *x = a, *y = b;
	double p = x->live - x->live_first, q = y->live - y->live_first;

	return (p < q) - (p > q);
}

/* The newest snapshot, and with from_ns that which is the first since then. */
static int cmd_memory_read_places(struct cmd_memory *cmd, struct pool *pool, int64_t from_ns)
{
	struct cmd_memory_times times = {.from_ns = from_ns};
	int r = cmd_memory_each(cmd,
		sqlite3_mprintf("SELECT DISTINCT start_ns FROM memory_live WHERE instance = %lld AND start_ns >= %lld "
				"ORDER BY start_ns",
			(long long)pool->instance, (long long)cmd->since_ns),
		cmd_memory_on_time, &times);

	if (r == 0 && times.last_ns)
		r = cmd_memory_read_snapshot(cmd, pool, times.last_ns, false);
	if (r == 0 && from_ns && times.first_ns && times.first_ns < times.last_ns)
		r = cmd_memory_read_snapshot(cmd, pool, times.first_ns, true);
	pool->snapshot_ns = times.last_ns;
	if (pool->places)
		qsort(pool->place, pool->places, sizeof(*pool->place), cmd_memory_compare);
	return r;
}

/* Writing. */

struct cmd_memory_bytes {
	char text[96];
};

static struct cmd_memory_bytes cmd_memory_bytes(double bytes)
{
	struct cmd_memory_bytes ret;
	char buffer[UNITS_BYTES];

	snprintf(ret.text, sizeof(ret.text), "%s%s", bytes < 0 ? "-" : "", units_size((uint64_t)llround(fabs(bytes)), buffer));
	return ret;
}

static struct cmd_memory_bytes cmd_memory_device(const struct pool *pool)
{
	struct cmd_memory_bytes ret;

	if (pool->device < 0)
		snprintf(ret.text, sizeof(ret.text), "%s", pool->kind.text);
	else
		snprintf(ret.text, sizeof(ret.text), "%s:%" PRId64, pool->kind.text, pool->device);
	return ret;
}

static double cmd_memory_seen(const struct pool *pool, double *ret_error)
{
	double live = 0, error2 = 0;

	for (size_t i = 0; i < pool->places; i++) {
		live += pool->place[i].live;
		error2 += pool->place[i].error2;
	}
	*ret_error = sqrt(error2);
	return live;
}

static void cmd_memory_head(const struct pool *pool)
{
	char time[TOOL_TEXT_BYTES];

	printf("rank %" PRId64 " (%s, pid %" PRId64 "%s), %s: ", pool->rank, pool->host.text, pool->pid,
		pool->ended ? ", has ended" : "", cmd_memory_device(pool).text);
	printf("%s allocated at %s", cmd_memory_bytes(pool->allocated).text,
		tool_time((uint64_t)pool->last_ns, time));
	printf("; at most %s, at %s", cmd_memory_bytes(pool->peak).text, tool_time((uint64_t)pool->peak_ns, time));
	if (pool->reserved_peak > 0)
		printf("; %s reserved", cmd_memory_bytes(pool->reserved).text);
	putchar('\n');
}

static void cmd_memory_print_places(const struct pool *pool, bool grown)
{
	const struct term_column columns[] = {{.name = "HELD", .right = true}, {.name = "ERROR", .right = true},
		{.name = grown ? "GROWN" : "ALLOCATED", .right = true}, {.name = "BLOCKS", .right = true},
		{.name = "WHERE", .min = 30, .wraps = true}};
	struct term_table *table = term_table_new(columns, sizeof(columns) / sizeof(columns[0]));
	double rest = 0;

	for (size_t i = 0; table && i < pool->places; i++) {
		const struct place *place = &pool->place[i];

		if (i >= SHOWN || (place->live <= 0 && place->live_first <= 0)) {
			rest += place->live;
			continue;
		}
		term_table_cell(table, TERM_PLAIN, "%s", cmd_memory_bytes(place->live).text);
		term_table_cell(table, TERM_PLAIN, "%s", cmd_memory_bytes(sqrt(place->error2)).text);
		term_table_cell(table, TERM_PLAIN, "%s",
			cmd_memory_bytes(grown ? place->live - place->live_first : place->alloc).text);
		term_table_cell(table, TERM_PLAIN, "%.0f", place->blocks);
		term_table_cell(table, TERM_PLAIN, "%s", place->text);
	}
	if (table)
		term_table_print(table, stdout, 2);
	term_table_free(table);
	if (rest > 0)
		printf("  further lines hold %s\n", cmd_memory_bytes(rest).text);
}

static json_t *cmd_memory_json_pool(const struct pool *pool)
{
	return json_pack("{s:I, s:I, s:s, s:s, s:b, s:s, s:o, s:f, s:f, s:f, s:f, s:I}", "rank", (json_int_t)pool->rank, "pid",
		(json_int_t)pool->pid, "host", pool->host.text, "job", pool->job.text, "ended", (int)pool->ended, "kind", pool->kind.text,
		"device", pool->device < 0 ? json_null() : json_integer(pool->device), "allocated_bytes", pool->allocated,
		"peak_bytes", pool->peak, "reserved_bytes", pool->reserved, "before_bytes", pool->before, "time_ns",
		(json_int_t)pool->last_ns);
}

static json_t *cmd_memory_json_places(const struct pool *pool)
{
	json_t *places = json_array();

	for (size_t i = 0; i < pool->places; i++) {
		const struct place *place = &pool->place[i];

		json_array_append_new(places,
			json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f}", "where", place->text, "live_bytes", place->live,
				"error_bytes", sqrt(place->error2), "grown_bytes", place->live - place->live_first,
				"live_blocks", place->blocks, "alloc_bytes", place->alloc, "alloc_blocks",
				place->alloc_blocks));
	}
	return places;
}

static int cmd_memory_live(struct cmd_memory *cmd)
{
	for (size_t i = 0; i < cmd->pools; i++) {
		struct pool *pool = &cmd->pool[i];
		double error, seen;
		char time[TOOL_TEXT_BYTES];
		int r = cmd_memory_read_places(cmd, pool, 0);

		if (r)
			return r;
		cmd->rows++;
		seen = cmd_memory_seen(pool, &error);
		if (cmd->json) {
			json_t *object = cmd_memory_json_pool(pool);

			json_object_set_new(object, "seen_bytes", json_real(seen));
			json_object_set_new(object, "seen_error_bytes", json_real(error));
			json_object_set_new(object, "places", cmd_memory_json_places(pool));
			json_array_append_new(cmd->list, object);
			continue;
		}
		cmd_memory_head(pool);
		if (pool->before > 0)
			printf("  %s of it or less was allocated before L2 was on: of that, no line is known\n",
				cmd_memory_bytes(fmin(pool->before, pool->allocated)).text);
		if (pool->snapshot_ns)
			printf("  lines below hold %s, with a standard error of %s, as of %s\n", cmd_memory_bytes(seen).text,
				cmd_memory_bytes(error).text, tool_time((uint64_t)pool->snapshot_ns, time));
		cmd_memory_print_places(pool, false);
	}
	return 0;
}

static void cmd_memory_print_leak(const struct pool *pool, const struct memory_trend *trend)
{
	char window[UNITS_BYTES];

	cmd_memory_head(pool);
	printf("  leaks: the lows grew by %s in %s", cmd_memory_bytes(trend->to_bytes - trend->from_bytes).text,
		units_duration((uint64_t)(trend->window_s * 1e9), window));
	printf(": %s an hour", cmd_memory_bytes(trend->slope * 3600).text);
	printf(" (between %s", cmd_memory_bytes(trend->slope_low * 3600).text);
	printf(" and %s)\n", cmd_memory_bytes(trend->slope_high * 3600).text);
	cmd_memory_print_places(pool, true);
}

static int cmd_memory_leaks(struct cmd_memory *cmd)
{
	size_t leaks = 0, few = 0;

	for (size_t i = 0; i < cmd->pools; i++) {
		struct pool *pool = &cmd->pool[i];
		struct memory_trend trend;
		int r;

		cmd->rows++;
		if (!memory_trend(&pool->series, &trend)) {
			few++;
			continue;
		}
		if (!trend.leaks)
			continue;
		leaks++;
		r = cmd_memory_read_places(cmd, pool, pool->last_ns - (int64_t)(trend.window_s * 1e9));
		if (r)
			return r;
		if (cmd->json) {
			json_t *object = cmd_memory_json_pool(pool);

			json_object_set_new(object, "slope_bytes_per_s", json_real(trend.slope));
			json_object_set_new(object, "slope_low_bytes_per_s", json_real(trend.slope_low));
			json_object_set_new(object, "slope_high_bytes_per_s", json_real(trend.slope_high));
			json_object_set_new(object, "window_s", json_real(trend.window_s));
			json_object_set_new(object, "places", cmd_memory_json_places(pool));
			json_array_append_new(cmd->list, object);
		} else {
			cmd_memory_print_leak(pool, &trend);
		}
	}
	if (!cmd->json && !leaks)
		printf("nothing leaks in %zu allocators\n", cmd->pools - few);
	if (!cmd->json && few)
		printf("of %zu further ones, too little was recorded: a trend takes %u points\n", few, MEMORY_POINTS_MIN);
	return 0;
}

enum { OOM_RANK, OOM_START, OOM_STEP, OOM_STAGE, OOM_KIND, OOM_DEVICE, OOM_BYTES, OOM_ALLOCATED, OOM_RESERVED, OOM_FRAMES,
	OOM_INSTANCE };

static int cmd_memory_on_oom(void *arg, sqlite3_stmt *row)
{
	struct cmd_memory *cmd = arg;
	int64_t device = cmd_memory_number(row, OOM_DEVICE);
	struct memory_failure failure = {.asked = sqlite3_column_double(row, OOM_BYTES),
		.allocated = sqlite3_column_double(row, OOM_ALLOCATED),
		.reserved = sqlite3_column_double(row, OOM_RESERVED)};
	char place[STACK_PLACE_BYTES], time[TOOL_TEXT_BYTES];
	struct cmd_memory_name kind = cmd_memory_name(row, OOM_KIND);
	struct memory_trend trend;
	enum memory_cause cause;
	struct pool *pool;

	if (!ranges_have(&cmd->ranks, cmd_memory_int(row, OOM_RANK)))
		return 0;
	pool = cmd_memory_pool(cmd, cmd_memory_int(row, OOM_INSTANCE), kind.text, device);
	if (pool && memory_trend(&pool->series, &trend) && trend.leaks)
		failure.leaked = trend.to_bytes - trend.from_bytes;
	cause = memory_failure_cause(&failure);
	cmd_memory_place((const char *)sqlite3_column_text(row, OOM_FRAMES), 1, place);
	cmd->rows++;
	if (cmd->json) {
		json_array_append_new(cmd->list,
			json_pack("{s:I, s:I, s:s, s:I, s:I, s:s, s:f, s:f, s:f, s:s, s:s, s:s}", "rank",
				(json_int_t)cmd_memory_int(row, OOM_RANK), "time_ns",
				(json_int_t)cmd_memory_int(row, OOM_START), "kind", kind.text, "device", (json_int_t)device,
				"step", (json_int_t)cmd_memory_int(row, OOM_STEP), "stage",
				cmd_memory_name(row, OOM_STAGE).text, "asked_bytes", failure.asked, "allocated_bytes",
				failure.allocated, "reserved_bytes", failure.reserved, "where", place, "cause",
				memory_cause_word(cause), "advice", memory_cause_advice(cause)));
		return 0;
	}
	printf("rank %" PRId64 ", %s, step %" PRId64 "%s%s: %s asked for ", cmd_memory_int(row, OOM_RANK),
		tool_time((uint64_t)cmd_memory_int(row, OOM_START), time), cmd_memory_int(row, OOM_STEP),
		*cmd_memory_name(row, OOM_STAGE).text ? ", " : "", cmd_memory_name(row, OOM_STAGE).text, place);
	printf("%s of %s", cmd_memory_bytes(failure.asked).text, kind.text);
	if (device >= 0)
		printf(":%" PRId64, device);
	printf("; %s were allocated", cmd_memory_bytes(failure.allocated).text);
	if (failure.reserved > 0)
		printf(", %s reserved", cmd_memory_bytes(failure.reserved).text);
	printf("\n  why    %s\n  advice %s\n", memory_cause_word(cause), memory_cause_advice(cause));
	return 0;
}

static int cmd_memory_oom(struct cmd_memory *cmd)
{
	return cmd_memory_each(cmd,
		sqlite3_mprintf("SELECT m.rank, m.start_ns, m.step, m.stage, m.kind, m.device, m.bytes, m.allocated_bytes, "
				"m.reserved_bytes, (SELECT c.frames FROM call_stacks c WHERE c.id = m.stack LIMIT 1), "
				"m.instance FROM memory_failures m JOIN ranks r ON r.instance = m.instance WHERE m.start_ns >= "
				"%lld AND (%Q IS NULL OR r.job = %Q) ORDER BY m.start_ns",
			(long long)cmd->since_ns, cmd->job, cmd->job),
		cmd_memory_on_oom, cmd);
}

enum { ERROR_RANK, ERROR_START, ERROR_STEP, ERROR_OP, ERROR_BYTES, ERROR_RESULT };

static int cmd_memory_on_error(void *arg, sqlite3_stmt *row)
{
	struct cmd_memory *cmd = arg;
	char time[TOOL_TEXT_BYTES];

	if (!ranges_have(&cmd->ranks, cmd_memory_int(row, ERROR_RANK)))
		return 0;
	cmd->rows++;
	if (cmd->json) {
		json_array_append_new(cmd->list,
			json_pack("{s:I, s:I, s:I, s:s, s:f, s:I}", "rank", (json_int_t)cmd_memory_int(row, ERROR_RANK),
				"time_ns", (json_int_t)cmd_memory_int(row, ERROR_START), "step",
				(json_int_t)cmd_memory_int(row, ERROR_STEP), "op", cmd_memory_name(row, ERROR_OP).text,
				"bytes", sqlite3_column_double(row, ERROR_BYTES), "result",
				(json_int_t)cmd_memory_int(row, ERROR_RESULT)));
		return 0;
	}
	printf("rank %" PRId64 ", %s, step %" PRId64 ": %s", cmd_memory_int(row, ERROR_RANK),
		tool_time((uint64_t)cmd_memory_int(row, ERROR_START), time), cmd_memory_int(row, ERROR_STEP),
		cmd_memory_name(row, ERROR_OP).text);
	if (sqlite3_column_type(row, ERROR_BYTES) != SQLITE_NULL)
		printf(" of %s", cmd_memory_bytes(sqlite3_column_double(row, ERROR_BYTES)).text);
	printf(" returned %" PRId64 "\n", cmd_memory_int(row, ERROR_RESULT));
	return 0;
}

static int cmd_memory_errors(struct cmd_memory *cmd)
{
	return cmd_memory_each(cmd,
		sqlite3_mprintf("SELECT a.rank, a.start_ns, a.step, a.op, a.bytes, a.result FROM allocations a JOIN ranks r ON "
				"r.instance = a.instance WHERE a.start_ns >= %lld AND a.result <> 0 AND (%Q IS NULL OR r.job "
				"= %Q) ORDER BY a.start_ns",
			(long long)cmd->since_ns, cmd->job, cmd->job),
		cmd_memory_on_error, cmd);
}

static const struct {
	const char *word, *none; /* none: said where the store has nothing of it */
	int (*run)(struct cmd_memory *cmd);
} cmd_memory_views[] = {
	{"live", "the store has no memory of devices since then; was L2 on?", cmd_memory_live},
	{"leaks", "the store has no memory of devices since then; was L2 on?", cmd_memory_leaks},
	{"oom", NULL, cmd_memory_oom},
	{"errors", NULL, cmd_memory_errors},
};

#define VIEWS (sizeof(cmd_memory_views) / sizeof(cmd_memory_views[0]))

static int cmd_memory_run(struct cmd_memory *cmd, size_t view)
{
	const struct reader_options options = {.warning = tool_warn};
	char error[1024];
	int r;

	cmd->pool = calloc(POOLS_MAX, sizeof(*cmd->pool));
	cmd->list = json_array();
	if (!cmd->pool || !cmd->list)
		return tool_fail(1, "out of memory");
	if (reader_open(cmd->state_dir, &options, &cmd->reader, error, sizeof(error)) < 0)
		return tool_fail(1, "%s", error);
	r = cmd_memory_read_curves(cmd);
	if (r == 0)
		r = cmd_memory_views[view].run(cmd);
	if (r)
		return r;
	if (cmd->json) {
		json_t *object = json_pack("{s:O}", cmd_memory_views[view].word, cmd->list);

		json_dumpf(object, stdout, JSON_INDENT(2));
		putchar('\n');
		json_decref(object);
	} else if (!cmd->rows) {
		if (cmd_memory_views[view].none)
			return tool_fail(1, "%s", cmd_memory_views[view].none);
		printf("none since then\n");
	}
	return tool_written();
}

/* 0: go on; else the exit code plus one. */
static int cmd_memory_parse(int argc, char **argv, struct cmd_memory *cmd, size_t *ret_view)
{
	const struct tool_option options[] = {
		{"state-dir", .text = &cmd->state_dir},
		{"rank", .ranks = &cmd->ranks},
		{"job", .text = &cmd->job},
		{"since", .time_ns = &cmd->since_ns},
		{"json", .flag = &cmd->json},
	};
	int r = tool_options(argc, argv, usage, options, sizeof(options) / sizeof(options[0]));

	if (r)
		return r;
	*ret_view = 0;
	if (optind < argc) {
		while (*ret_view < VIEWS && strcmp(cmd_memory_views[*ret_view].word, argv[optind]))
			++*ret_view;
		if (*ret_view == VIEWS)
			return 1 + tool_fail(2, "\"%s\" is none of live, leaks, oom and errors", argv[optind]);
		optind++;
	}
	if (!cmd->since_ns)
		(void)tool_since(SINCE, tool_now_ns(), &cmd->since_ns);
	return tool_options_end(argc, argv);
}

int main(int argc, char **argv)
{
	struct cmd_memory cmd = {0};
	size_t view;
	int r, code;

	tool_begin("memory", argv);
	r = cmd_memory_parse(argc, argv, &cmd, &view);
	if (r)
		return r - 1;
	code = tool_state_dir(cmd.state_dir, &cmd.state_dir);
	if (code == 0)
		code = cmd_memory_run(&cmd, view);
	for (size_t i = 0; i < cmd.pools; i++)
		free(cmd.pool[i].place);
	free(cmd.pool);
	json_decref(cmd.list);
	reader_close(cmd.reader);
	return code;
}
