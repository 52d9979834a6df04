/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libexec/ranktrace/memory, which is `tracectl memory`: which lines hold memory of a device, what leaks, why a request
 * failed, which calls failed. Reads what L2 has stored; works with the daemon down. Exit codes: 0 done; 1 the store
 * failed, or has nothing of it; 2 usage.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/clock.h"
#include "analyzers/base/units.h"
#include "analyzers/cli/memory_read.h"

#define SINCE "1d"
#define SHOWN 20			     /* lines of a table for people */
#define FORECAST_MAX_S (365 * 86400.0)	     /* later is not soon */
#define UNWATCHED_NS (2 * 60 * NSEC_PER_SEC) /* while L2 is on, `coverage` has a row a minute */

static const char usage[] =
	"usage: tracectl memory [live | leaks | oom | fragmentation | copies | errors] [--rank LIST] [--job JOB]\n"
	"                       [--since TIME] [--json]\n"
	"                       [-o FILE] [--format FORMAT] [--allocated] [--state-dir DIR]\n"
	"Shows the device memory that L2 recorded (tracectl set L2=on).\n"
	"  live             bytes held, and the lines that hold them (default)\n"
	"  leaks            memory that grows from step to step, and its lines\n"
	"  oom              requests that the framework's allocator could not serve, and why\n"
	"  fragmentation    what the allocator has from the driver and cannot use, what that costs, which setting "
	"helps\n"
	"  copies           copies between host and devices: how much, how fast, which held their thread\n"
	"  errors           calls of the runtime and the driver that failed\n"
	"  --rank LIST      only ranks as in 0,3-7\n"
	"  --job JOB        only this job\n"
	"  --since TIME     data since then: 30m, 12h ago, or a date and time (" SINCE ")\n"
	"  --json           write an object\n"
	"  -o, --output FILE  draw the bytes held by each stack; - is standard output\n"
	"  --format FORMAT  html (a flame graph), folded, speedscope, pprof, snapshot, for PyTorch's memory_viz, or "
	"map, a\n"
	"                   page of segments over time (that of\n"
	"                   the suffix of FILE: .pickle is a snapshot; else html)\n"
	"  --allocated      draw the bytes allocated since L2 was on instead\n"
	"  --state-dir DIR  state folder (RANKTRACE_STATE_DIR; else " RANKTRACE_STATEDIR ")\n"
	"  --help, --version\n";

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
	return json_pack("{s:I, s:I, s:s, s:s, s:b, s:s, s:o, s:f, s:f, s:f, s:f, s:I, s:I}", "rank",
		(json_int_t)pool->rank, "pid", (json_int_t)pool->pid, "host", pool->host.text, "job", pool->job.text,
		"ended", (int)pool->ended, "kind", pool->kind.text, "device",
		pool->device < 0 ? json_null() : json_integer(pool->device), "allocated_bytes", pool->allocated,
		"peak_bytes", pool->peak, "reserved_bytes", pool->reserved, "before_bytes", pool->before, "time_ns",
		(json_int_t)pool->last_ns, "watched_until_ns", (json_int_t)pool->until_ns);
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

static int cmd_memory_live(struct cmd_memory *cmd)
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
		cmd_memory_growth(pool);
		cmd_memory_coverage(pool, seen);
		if (!pool->calls_only)
			cmd_memory_print_places(pool, false, SHOWN);
	}
	return 0;
}

/* Until the card is full: what is free on it, and what the allocator has in reserve. */
static struct memory_forecast cmd_memory_forecast(const struct memory_pool *pool, const struct memory_trend *trend)
{
	return memory_forecast(trend, cmd_memory_free(pool) + fmax(pool->reserved - pool->allocated, 0));
}

static void cmd_memory_print_forecast(const struct memory_pool *pool, const struct memory_trend *trend)
{
	struct memory_forecast forecast = cmd_memory_forecast(pool, trend);
	char text[UNITS_BYTES];

	if (pool->ended || pool->card.total <= 0 || !isfinite(forecast.seconds) || forecast.seconds > FORECAST_MAX_S)
		return;
	printf("  runs out in %s", units_duration((uint64_t)(forecast.seconds * 1e9), text));
	printf(" (%s", units_duration((uint64_t)(forecast.low * 1e9), text));
	if (isfinite(forecast.high) && forecast.high <= FORECAST_MAX_S)
		printf(" to %s)", units_duration((uint64_t)(forecast.high * 1e9), text));
	else
		printf(" or more)");
	printf("; %s of the card", cmd_memory_bytes(cmd_memory_free(pool)).text);
	printf("'s %s are free\n", cmd_memory_bytes(pool->card.total).text);
}

static void cmd_memory_print_leak(const struct memory_pool *pool, const struct memory_trend *trend)
{
	char window[UNITS_BYTES], time[TOOL_TEXT_BYTES], first[TOOL_TEXT_BYTES];

	cmd_memory_head(pool);
	printf("  leaks: the minima grew by %s in %s", cmd_memory_bytes(trend->to_bytes - trend->from_bytes).text,
		units_duration((uint64_t)(trend->window_s * 1e9), window));
	printf(": %s an hour", cmd_memory_bytes(trend->slope * 3600).text);
	printf(" (between %s", cmd_memory_bytes(trend->slope_low * 3600).text);
	printf(" and %s)\n", cmd_memory_bytes(trend->slope_high * 3600).text);
	cmd_memory_print_forecast(pool, trend);
	if (pool->snapshot_ns)
		printf("  lines as of %s, and their growth since %s:\n", tool_time((uint64_t)pool->snapshot_ns, time),
			tool_time((uint64_t)pool->snapshot_first_ns, first));
	cmd_memory_print_places(pool, true, SHOWN);
}

static json_t *cmd_memory_json_seconds(double seconds)
{
	return isfinite(seconds) ? json_real(seconds) : json_null();
}

static void cmd_memory_json_forecast(json_t *object, const struct memory_pool *pool, const struct memory_trend *trend)
{
	struct memory_forecast forecast = cmd_memory_forecast(pool, trend);
	bool known = pool->card.total > 0 && !pool->ended;

	json_object_set_new(object, "card_bytes", known ? json_real(pool->card.total) : json_null());
	json_object_set_new(object, "card_free_bytes", known ? json_real(cmd_memory_free(pool)) : json_null());
	json_object_set_new(object, "runs_out_s", known ? cmd_memory_json_seconds(forecast.seconds) : json_null());
	json_object_set_new(object, "runs_out_low_s", known ? cmd_memory_json_seconds(forecast.low) : json_null());
	json_object_set_new(object, "runs_out_high_s", known ? cmd_memory_json_seconds(forecast.high) : json_null());
}

static int cmd_memory_leaks(struct cmd_memory *cmd)
{
	size_t leaks = 0, few = 0;

	for (size_t i = 0; i < cmd->pools; i++) {
		struct memory_pool *pool = &cmd->pool[i];
		struct memory_trend trend;
		int64_t from_ns;
		int r;

		cmd->rows++;
		if (!memory_history_trend(&pool->history, &trend)) {
			few++;
			continue;
		}
		if (!trend.leaks)
			continue;
		leaks++;
		from_ns = pool->last_ns - (int64_t)(trend.window_s * 1e9);
		r = cmd_memory_read_places(cmd, pool, from_ns > pool->on_ns ? from_ns : pool->on_ns, INT64_MAX);
		if (r)
			return r;
		if (cmd->json) {
			json_t *object = cmd_memory_json_pool(pool);

			json_object_set_new(object, "slope_bytes_per_s", json_real(trend.slope));
			json_object_set_new(object, "slope_low_bytes_per_s", json_real(trend.slope_low));
			json_object_set_new(object, "slope_high_bytes_per_s", json_real(trend.slope_high));
			json_object_set_new(object, "window_s", json_real(trend.window_s));
			cmd_memory_json_forecast(object, pool, &trend);
			json_object_set_new(object, "places", cmd_memory_json_places(pool));
			json_array_append_new(cmd->list, object);
		} else {
			cmd_memory_print_leak(pool, &trend);
		}
	}
	if (!cmd->json && cmd->pools > few)
		printf("%zu of %zu devices of processes leak\n", leaks, cmd->pools - few);
	if (!cmd->json && few)
		printf("%zu cannot be judged: a trend takes %u s of changes\n", few, MEMORY_POINTS_MIN);
	return 0;
}

static const struct {
	const char *word, *none; /* none: said where nothing of it happened; NULL: what every allocator has */
	int (*run)(struct cmd_memory *cmd);
} cmd_memory_views[] = {
	{"live", NULL, cmd_memory_live},
	{"leaks", NULL, cmd_memory_leaks},
	{"oom", "no request for memory failed", cmd_memory_oom},
	{"fragmentation", NULL, cmd_memory_fragmentation},
	{"copies", "no copies", cmd_memory_copies},
	{"errors", "no call failed", cmd_memory_errors},
};

/* Exit code. */
static int cmd_memory_none(const struct cmd_memory *cmd, const char *none)
{
	char since[TOOL_TEXT_BYTES], who[256] = "";

	tool_time(cmd->since_ns, since);
	if (cmd->job)
		snprintf(who, sizeof(who), " of job %.200s", cmd->job);
	if (none && cmd->pools) {
		printf("%s%s since %s\n", none, who, since);
		return tool_written();
	}
	return tool_fail(1, "no memory of devices%s%s is stored since %s; L2 records it: tracectl set L2=on",
		cmd->ranks.count ? " of these ranks" : "", who, since);
}

#define VIEWS (sizeof(cmd_memory_views) / sizeof(cmd_memory_views[0]))

static int cmd_memory_run(struct cmd_memory *cmd, size_t view)
{
	int r;

	cmd->pool = calloc(MEMORY_POOLS_MAX, sizeof(*cmd->pool));
	cmd->list = json_array();
	if (!cmd->pool || !cmd->list)
		return tool_fail(1, "out of memory");
	r = tool_open(&cmd->state_dir, false, &cmd->reader);
	if (r == 0)
		r = cmd_memory_read_curves(cmd);
	if (r == 0)
		r = cmd_memory_read_cards(cmd);
	if (r == 0 && (cmd->output || cmd->format))
		return cmd_memory_picture(cmd, cmd->format, cmd->output, cmd->allocated);
	if (r == 0)
		r = cmd_memory_views[view].run(cmd);
	if (r)
		return r;
	if (cmd->json) {
		json_t *object = json_pack("{s:O}", cmd_memory_views[view].word, cmd->list);

		json_dumpf(object, stdout, JSON_INDENT(2));
		putchar('\n');
		json_decref(object);
	}
	if (!cmd->rows && !(cmd->json && cmd->pools))
		return cmd_memory_none(cmd, cmd_memory_views[view].none);
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
		{"output", 'o', .text = &cmd->output},
		{"format", .text = &cmd->format},
		{"allocated", .flag = &cmd->allocated},
	};
	int r = tool_options(argc, argv, usage, options, sizeof(options) / sizeof(options[0]));

	if (r)
		return r;
	*ret_view = 0;
	if (optind < argc) {
		while (*ret_view < VIEWS && strcmp(cmd_memory_views[*ret_view].word, argv[optind]))
			++*ret_view;
		if (*ret_view == VIEWS)
			return 1 + tool_fail(2, "'%s' is no view: live, leaks, oom, fragmentation, copies or errors",
					   argv[optind]);
		optind++;
	}
	if ((cmd->output || cmd->format) && (*ret_view || cmd->json))
		return 1 + tool_fail(2, "-o and --format draw the view live; they exclude the other views and --json");
	if (cmd->allocated && !cmd->output && !cmd->format)
		return 1 + tool_fail(2, "--allocated needs -o or --format");
	if ((cmd->output || cmd->format) && !cmd_memory_has_format(cmd->format, cmd->output))
		return 1 + tool_fail(2, "--format takes html, folded, speedscope, pprof, snapshot or map, not '%s'",
				   cmd->format);
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
	code = cmd_memory_run(&cmd, view);
	for (size_t i = 0; i < cmd.pools; i++)
		free(cmd.pool[i].place);
	free(cmd.pool);
	json_decref(cmd.list);
	reader_close(cmd.reader);
	return code;
}
