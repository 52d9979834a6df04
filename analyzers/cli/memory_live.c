/* SPDX-License-Identifier: Apache-2.0 */
/* Views of `tracectl memory`: bytes held, and the lines that hold them; memory that grows from step to step. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "analyzers/base/clock.h"
#include "analyzers/base/units.h"
#include "analyzers/cli/memory_read.h"
#include "analyzers/tool/tool_json.h"

#define SHOWN 20			     /* lines of a table for people */
#define FORECAST_MAX_S (365 * 86400.0)	     /* later is not soon */
#define UNWATCHED_NS (2 * 60 * NSEC_PER_SEC) /* while L2 is on, `coverage` has a row a minute */
#define RECENT_NS (60 * NSEC_PER_SEC)	     /* longer than a step: all of its phases are in it */

static double cmd_memory_seen(const struct memory_pool *pool)
{
	double live = 0;

	for (size_t i = 0; i < pool->places; i++)
		live += pool->place[i].live;
	return live;
}

static void cmd_memory_head(const struct memory_pool *pool)
{
	char time[TOOL_TEXT_BYTES];

	cmd_memory_print_pool(pool);
	if (pool->calls_only)
		return;
	printf("%s allocated at %s", cmd_memory_bytes(pool->allocated).text, tool_time((uint64_t)pool->last_ns, time));
	printf("; at most %s, at %s", cmd_memory_bytes(pool->peak).text, tool_time((uint64_t)pool->peak_ns, time));
	if (pool->reserved_peak > 0)
		printf("; %s reserved", cmd_memory_bytes(pool->reserved).text);
	putchar('\n');
	if (!pool->ended && tool_now_ns() > (uint64_t)pool->until_ns + UNWATCHED_NS)
		printf("  L2 has not watched it since %s: tracectl set L2=on\n",
			tool_time((uint64_t)pool->until_ns, time));
}

static json_t *cmd_memory_json_pool(const struct memory_pool *pool)
{
	json_t *object = json_pack("{s:I, s:I, s:s, s:s, s:b, s:s, s:o, s:f, s:f, s:f, s:f, s:I, s:I}", "rank",
		(json_int_t)pool->rank, "pid", (json_int_t)pool->pid, "host", pool->host.text, "job", pool->job.text,
		"ended", (int)pool->ended, "kind", pool->kind.text, "device",
		pool->device < 0 ? json_null() : json_integer(pool->device), "allocated_bytes", pool->allocated,
		"peak_bytes", pool->peak, "reserved_bytes", pool->reserved, "before_bytes", pool->before, "time_ns",
		(json_int_t)pool->last_ns, "watched_until_ns", (json_int_t)pool->until_ns);

	cmd_memory_json_card(object, &pool->card);
	return object;
}

static void cmd_memory_print_card(const struct memory_card *card)
{
	if (card->total <= 0)
		return;
	printf("  card: %s of ", cmd_memory_bytes(card->free).text);
	printf("%s free", cmd_memory_bytes(card->total).text);
	if (!isnan(card->others))
		printf(", %s held by other processes", cmd_memory_bytes(card->others).text);
	putchar('\n');
}

/* How much of what is allocated the lines show, and why not all. */
static void cmd_memory_coverage(const struct memory_pool *pool, double seen)
{
	double rest = (double)pool->snapshot_allocated - seen, before = fmin(pool->before, rest);
	char time[TOOL_TEXT_BYTES];

	if (!pool->snapshot_ns || pool->calls_only)
		return;
	if (cmd_memory_seen_share(pool) < 1)
		printf("  reports are seen in windows, %.2g %% of the time: lines are estimates, and what a line "
		       "releases between two windows "
		       "counts until its memory is used again, beyond the interval\n",
			100 * cmd_memory_seen_share(pool));
	printf("  lines below hold %s", cmd_memory_bytes(seen).text);
	if (pool->snapshot_allocated >= 0)
		printf(" of %s", cmd_memory_bytes((double)pool->snapshot_allocated).text);
	printf(", as of %s\n", tool_time((uint64_t)pool->snapshot_ns, time));
	if (pool->snapshot_allocated < 0 || rest <= 0)
		return;
	printf("  of the other %s, ", cmd_memory_bytes(rest).text);
	if (before > 0)
		printf("%s or less was allocated while L2 did not see it; ", cmd_memory_bytes(before).text);
	printf("%s is in blocks that were not sampled\n", before > 0 ? "the rest" : "all");
}

static void cmd_memory_growth(const struct memory_pool *pool)
{
	struct memory_trend trend;

	if (memory_history_trend(&pool->history, &trend) && trend.leaks)
		printf("  it grows by %s an hour: tracectl memory leaks\n", cmd_memory_bytes(trend.slope * 3600).text);
}

int cmd_memory_live(struct cmd_memory *cmd)
{
	for (size_t i = 0; i < cmd->pools; i++) {
		struct memory_pool *pool = &cmd->pool[i];
		double seen;
		int r = cmd_memory_read_places(cmd, pool, 0, INT64_MAX);

		if (r)
			return r;
		cmd->rows++;
		seen = cmd_memory_seen(pool);
		if (cmd->json) {
			json_t *object = cmd_memory_json_pool(pool);

			json_object_set_new(object, "seen_of_bytes",
				pool->snapshot_allocated < 0 ? json_null() : json_integer(pool->snapshot_allocated));
			json_object_set_new(object, "seen_bytes", json_real(seen));
			json_object_set_new(object, "seen_share", json_real(cmd_memory_seen_share(pool)));
			json_object_set_new(object, "places", cmd_memory_json_places(pool));
			json_array_append_new(cmd->list, object);
			continue;
		}
		cmd_memory_head(pool);
		cmd_memory_print_card(&pool->card);
		cmd_memory_growth(pool);
		cmd_memory_coverage(pool, seen);
		if (!pool->calls_only)
			cmd_memory_print_places(pool, false, SHOWN);
	}
	return 0;
}

static int cmd_memory_on_need(void *arg, sqlite3_stmt *row)
{
	*(double *)arg = sqlite3_column_double(row, 0);
	return 0;
}

/*
 * Until the card is full: what is free on it, and what the allocator has and no phase of a step needs. What is allocated
 * at one moment is less than what a step needs, and the peak of all time may be that of a phase that is over.
 */
static int cmd_memory_read_forecast(struct cmd_memory *cmd, const struct memory_pool *pool,
	const struct memory_trend *trend, struct memory_forecast *ret)
{
	double need = 0;
	char rest[64];
	int r;

	snprintf(rest, sizeof(rest), "AND start_ns >= %" PRId64, pool->last_ns - (int64_t)RECENT_NS);
	r = cmd_memory_each_of(cmd, pool, "max(allocated_max_bytes)", "memory_curve", rest, cmd_memory_on_need, &need);
	*ret = memory_forecast(trend, pool->card.free + fmax(pool->reserved - need, 0));
	return r;
}

static void cmd_memory_print_forecast(const struct memory_pool *pool, const struct memory_forecast *forecast)
{
	char text[UNITS_BYTES];

	if (pool->card.total <= 0 || !isfinite(forecast->seconds) || forecast->seconds > FORECAST_MAX_S)
		return;
	printf("  runs out in %s", units_duration((uint64_t)(forecast->seconds * 1e9), text));
	printf(" (%s", units_duration((uint64_t)(forecast->low * 1e9), text));
	if (isfinite(forecast->high) && forecast->high <= FORECAST_MAX_S)
		printf(" to %s)", units_duration((uint64_t)(forecast->high * 1e9), text));
	else
		printf(" or more)");
	printf("; %s of the card", cmd_memory_bytes(pool->card.free).text);
	printf("'s %s are free\n", cmd_memory_bytes(pool->card.total).text);
}

static void cmd_memory_print_leak(
	const struct memory_pool *pool, const struct memory_trend *trend, const struct memory_forecast *forecast)
{
	char window[UNITS_BYTES], time[TOOL_TEXT_BYTES], first[TOOL_TEXT_BYTES];

	cmd_memory_head(pool);
	printf("  leaks: the minima grew by %s in %s", cmd_memory_bytes(trend->to_bytes - trend->from_bytes).text,
		units_duration((uint64_t)(trend->window_s * 1e9), window));
	printf(": %s an hour", cmd_memory_bytes(trend->slope * 3600).text);
	printf(" (between %s", cmd_memory_bytes(trend->slope_low * 3600).text);
	printf(" and %s)\n", cmd_memory_bytes(trend->slope_high * 3600).text);
	cmd_memory_print_forecast(pool, forecast);
	if (pool->snapshot_ns)
		printf("  lines as of %s, and their growth since %s:\n", tool_time((uint64_t)pool->snapshot_ns, time),
			tool_time((uint64_t)pool->snapshot_first_ns, first));
	cmd_memory_print_places(pool, true, SHOWN);
}

static void cmd_memory_json_forecast(
	json_t *object, const struct memory_pool *pool, const struct memory_forecast *forecast)
{
	bool known = pool->card.total > 0;

	json_object_set_new(object, "runs_out_s", known ? tool_real(forecast->seconds) : json_null());
	json_object_set_new(object, "runs_out_low_s", known ? tool_real(forecast->low) : json_null());
	json_object_set_new(object, "runs_out_high_s", known ? tool_real(forecast->high) : json_null());
}

/* How many of the pools have which answer. */
struct cmd_memory_judged {
	size_t leaks, few, silent; /* few: too few points; silent: no reports */
};

static void cmd_memory_print_judged(const struct cmd_memory *cmd, const struct cmd_memory_judged *judged)
{
	size_t rest = cmd->pools - judged->few - judged->silent;

	if (rest)
		printf("%zu of %zu devices of processes leak\n", judged->leaks, rest);
	if (judged->few)
		printf("%zu cannot be judged: a trend takes %u seconds, or windows of reports, with changes\n",
			judged->few, MEMORY_POINTS_MIN);
	if (judged->silent)
		printf("%zu cannot be judged: calls of the driver alone are known, without reports of the framework's "
		       "allocator\n",
			judged->silent);
}

int cmd_memory_leaks(struct cmd_memory *cmd)
{
	struct cmd_memory_judged judged = {.leaks = 0};

	for (size_t i = 0; i < cmd->pools; i++) {
		struct memory_pool *pool = &cmd->pool[i];
		struct memory_forecast forecast;
		struct memory_trend trend;
		int64_t from_ns;
		int r;

		cmd->rows++;
		if (!memory_history_trend(&pool->history, &trend)) {
			judged.silent += pool->calls_only;
			judged.few += !pool->calls_only;
			continue;
		}
		if (!trend.leaks)
			continue;
		judged.leaks++;
		from_ns = pool->last_ns - (int64_t)(trend.window_s * 1e9);
		r = cmd_memory_read_places(cmd, pool, from_ns > pool->on_ns ? from_ns : pool->on_ns, INT64_MAX);
		if (r == 0)
			r = cmd_memory_read_forecast(cmd, pool, &trend, &forecast);
		if (r)
			return r;
		if (cmd->json) {
			json_t *object = cmd_memory_json_pool(pool);

			json_object_set_new(object, "slope_bytes_per_s", json_real(trend.slope));
			json_object_set_new(object, "slope_low_bytes_per_s", json_real(trend.slope_low));
			json_object_set_new(object, "slope_high_bytes_per_s", json_real(trend.slope_high));
			json_object_set_new(object, "window_s", json_real(trend.window_s));
			cmd_memory_json_forecast(object, pool, &forecast);
			json_object_set_new(object, "places", cmd_memory_json_places(pool));
			json_array_append_new(cmd->list, object);
		} else {
			cmd_memory_print_leak(pool, &trend, &forecast);
		}
	}
	if (!cmd->json)
		cmd_memory_print_judged(cmd, &judged);
	return 0;
}
