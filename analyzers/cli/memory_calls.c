/* SPDX-License-Identifier: Apache-2.0 */
/* Views of `tracectl memory` of calls: requests that the framework's allocator could not serve, calls that failed. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "analyzers/base/units.h"
#include "analyzers/cli/memory_read.h"
#include "analyzers/tool/tool_json.h"

#define OOM_SHOWN 5		     /* lines that held most */
#define OOM_SNAPSHOT_NS 1000000000LL /* the daemon takes one within a tick of 100 ms after the failure */

enum {
	OOM_RANK,
	OOM_START,
	OOM_STEP,
	OOM_STAGE,
	OOM_KIND,
	OOM_DEVICE,
	OOM_BYTES,
	OOM_ALLOCATED,
	OOM_RESERVED,
	OOM_CARD,
	OOM_CARD_FREE,
	OOM_OTHERS,
	OOM_FRAMES,
	OOM_INSTANCE,
	OOM_COUNT,
	OOM_FIRST
};

/* Requests of a line that were not served, by the newest of them, and why. */
struct oom {
	int64_t rank, start_ns, device;
	int64_t step; /* -1: none was open */
	int64_t count, first_ns;
	struct memory_name kind, stage;
	struct memory_failure failure;
	struct memory_pool *pool; /* NULL: nothing of it is known */
	struct memory_pieces pieces;
	int64_t pieces_ns; /* 0: its segments are not known */
	char place[STACK_PLACE_BYTES];
	enum memory_cause cause;
};

static void oom_json(struct cmd_memory *cmd, const struct oom *oom)
{
	const struct memory_failure *failure = &oom->failure;
	json_t *object = json_pack("{s:I, s:I, s:I, s:I, s:s, s:I, s:o, s:s, s:f, s:f, s:f, s:o, s:o, s:s, s:s, s:s}",
		"rank", (json_int_t)oom->rank, "time_ns", (json_int_t)oom->start_ns, "count", (json_int_t)oom->count,
		"first_ns", (json_int_t)oom->first_ns, "kind", oom->kind.text, "device", (json_int_t)oom->device,
		"step", tool_known(oom->step), "stage", oom->stage.text, "asked_bytes", failure->asked,
		"allocated_bytes", failure->allocated, "reserved_bytes", failure->reserved, "largest_piece_bytes",
		oom->pieces_ns ? json_integer((json_int_t)oom->pieces.gap_bytes) : json_null(), "places",
		oom->pool ? cmd_memory_json_places(oom->pool) : json_array(), "where", oom->place, "cause",
		memory_cause_word(oom->cause), "advice", memory_cause_advice(oom->cause));

	cmd_memory_json_card(object, &failure->card);
	json_array_append_new(cmd->list, object);
}

/* "rank 0, 2026-11-21 12:30:15, step 7" */
static void calls_print_head(int64_t rank, int64_t start_ns, int64_t step)
{
	char time[TOOL_TEXT_BYTES];

	printf("rank %" PRId64 ", %s", rank, tool_time((uint64_t)start_ns, time));
	if (step >= 0)
		printf(", step %" PRId64, step);
}

static void oom_print(const struct oom *oom)
{
	const struct memory_failure *failure = &oom->failure;
	char time[TOOL_TEXT_BYTES];

	calls_print_head(oom->rank, oom->start_ns, oom->step);
	printf("%s%s: %s asked for ", *oom->stage.text ? ", " : "", oom->stage.text, oom->place);
	printf("%s of %s", cmd_memory_bytes(failure->asked).text, oom->kind.text);
	if (oom->device >= 0)
		printf(":%" PRId64, oom->device);
	printf("; %s were allocated", cmd_memory_bytes(failure->allocated).text);
	if (failure->reserved > 0)
		printf(", %s reserved", cmd_memory_bytes(failure->reserved).text);
	if (failure->card.total > 0) {
		printf("; the card has %s", cmd_memory_bytes(failure->card.total).text);
		if (!isnan(failure->card.others))
			printf(", other processes hold %s of it", cmd_memory_bytes(failure->card.others).text);
		printf(", %s are free", cmd_memory_bytes(failure->card.free).text);
	}
	if (oom->count > 1)
		printf("\n  times  %" PRId64 ", the first at %s; the newest is shown", oom->count,
			tool_time((uint64_t)oom->first_ns, time));
	printf("\n  why    %s\n  advice %s\n", memory_cause_word(oom->cause), memory_cause_advice(oom->cause));
	if (oom->pieces_ns) {
		printf("  pieces %s free in segments that hold blocks",
			cmd_memory_bytes((double)oom->pieces.split_bytes).text);
		printf(", the largest has %s", cmd_memory_bytes((double)oom->pieces.gap_bytes).text);
		printf("; as of %s\n", tool_time((uint64_t)oom->pieces_ns, time));
	}
	if (oom->pool && oom->pool->places) {
		printf("  held by these lines, as of %s:\n", tool_time((uint64_t)oom->pool->snapshot_ns, time));
		cmd_memory_print_places(oom->pool, false, OOM_SHOWN);
	}
}

static int oom_on_low(void *arg, sqlite3_stmt *row)
{
	memory_history_add(arg, (uint64_t)cmd_memory_int(row, 0), sqlite3_column_double(row, 1));
	return 0;
}

/* As they were when it failed: what had leaked, lines and pieces. */
static int oom_read(struct cmd_memory *cmd, struct memory_pool *pool, struct oom *ret)
{
	struct memory_history history = {.start_ns = 0};
	struct memory_trend trend;
	char rest[64];
	int r;

	snprintf(rest, sizeof(rest), "AND start_ns <= %" PRId64 " ORDER BY start_ns", ret->start_ns);
	r = cmd_memory_each_of(cmd, pool, "start_ns, allocated_min_bytes", "memory_curve", rest, oom_on_low, &history);
	if (memory_history_trend(&history, &trend) && trend.leaks)
		ret->failure.leaked = trend.to_bytes - trend.from_bytes;
	if (r == 0)
		r = cmd_memory_read_places(cmd, pool, 0, ret->start_ns + OOM_SNAPSHOT_NS);
	if (r == 0)
		r = cmd_memory_read_pieces(cmd, pool, ret->start_ns + OOM_SNAPSHOT_NS, &ret->pieces, &ret->pieces_ns);
	return r;
}

static int cmd_memory_on_oom(void *arg, sqlite3_stmt *row)
{
	struct cmd_memory *cmd = arg;
	struct oom oom = {.rank = cmd_memory_int(row, OOM_RANK),
		.start_ns = cmd_memory_int(row, OOM_START),
		.count = cmd_memory_int(row, OOM_COUNT),
		.first_ns = cmd_memory_int(row, OOM_FIRST),
		.step = cmd_memory_number(row, OOM_STEP),
		.device = cmd_memory_number(row, OOM_DEVICE),
		.kind = cmd_memory_name(row, OOM_KIND),
		.stage = cmd_memory_name(row, OOM_STAGE),
		.failure = {.asked = sqlite3_column_double(row, OOM_BYTES),
			.allocated = sqlite3_column_double(row, OOM_ALLOCATED),
			.reserved = sqlite3_column_double(row, OOM_RESERVED),
			.card = {.total = sqlite3_column_double(row, OOM_CARD),
				.free = sqlite3_column_double(row, OOM_CARD_FREE),
				.others = sqlite3_column_type(row, OOM_OTHERS) == SQLITE_NULL
						  ? NAN
						  : sqlite3_column_double(row, OOM_OTHERS)}}};
	int r;

	if (!ranges_have(&cmd->ranks, oom.rank))
		return 0;
	oom.pool = cmd_memory_pool(cmd, cmd_memory_int(row, OOM_INSTANCE), oom.kind.text, oom.device);
	r = oom.pool ? oom_read(cmd, oom.pool, &oom) : 0;
	if (r)
		return r;
	oom.cause = memory_failure_cause(&oom.failure);
	cmd_memory_place((const char *)sqlite3_column_text(row, OOM_FRAMES), NULL, 1, oom.place);
	cmd->rows++;
	if (cmd->json)
		oom_json(cmd, &oom);
	else
		oom_print(&oom);
	return 0;
}

/* A loop that catches the failure and goes on fails thousands of times: one row for each of its lines. Columns without an
 * aggregate are those of the row with the maximum. */
int cmd_memory_oom(struct cmd_memory *cmd)
{
	return tool_each(cmd->reader,
		sqlite3_mprintf(
			"SELECT rank, start_ns, step, stage, kind, device, bytes, allocated_bytes, reserved_bytes, "
			"card_bytes, card_free_bytes, others_bytes, (SELECT c.frames FROM call_stacks c WHERE c.id = "
			"m.stack LIMIT 1), instance, count, "
			"(SELECT min(f.start_ns) FROM memory_failures f WHERE f.start_ns >= %lld AND "
			"f.instance = m.instance AND f.kind = m.kind AND f.device IS m.device AND f.stack IS m.stack) "
			"FROM (SELECT *, max(start_ns), count(*) AS count FROM memory_failures WHERE start_ns >= %lld "
			"AND instance IN (SELECT instance FROM ranks WHERE %Q IS NULL OR job = %Q) "
			"GROUP BY instance, kind, device, stack) m ORDER BY start_ns",
			(long long)cmd->since_ns, (long long)cmd->since_ns, cmd->job, cmd->job),
		cmd_memory_on_oom, cmd);
}

/*
 * A failed copy, or wait, has its stack in a row of its own. The daemon may read the clock between the two records of a
 * call, which moves their times apart. Shorter than a probed call with its stack: no other failed call of the thread is
 * as near.
 */
#define SAME_CALL_NS 5000

enum { ERROR_RANK, ERROR_START, ERROR_STEP, ERROR_OP, ERROR_BYTES, ERROR_RESULT, ERROR_FRAMES, ERROR_COUNT };

static int cmd_memory_on_error(void *arg, sqlite3_stmt *row)
{
	struct cmd_memory *cmd = arg;
	char place[STACK_PLACE_BYTES] = "";
	const char *frames = (const char *)sqlite3_column_text(row, ERROR_FRAMES), *name;
	json_int_t count = cmd_memory_int(row, ERROR_COUNT);

	if (!ranges_have(&cmd->ranks, cmd_memory_int(row, ERROR_RANK)))
		return 0;
	cmd->rows++;
	name = memory_error_name(cmd_memory_name(row, ERROR_OP).text, cmd_memory_int(row, ERROR_RESULT));
	if (frames)
		cmd_memory_place(frames, NULL, 1, place);
	if (cmd->json) {
		json_array_append_new(cmd->list,
			json_pack("{s:I, s:I, s:I, s:o, s:s, s:o, s:I, s:s, s:s}", "rank",
				(json_int_t)cmd_memory_int(row, ERROR_RANK), "time_ns",
				(json_int_t)cmd_memory_int(row, ERROR_START), "count", count, "step",
				tool_known(cmd_memory_number(row, ERROR_STEP)), "op",
				cmd_memory_name(row, ERROR_OP).text, "bytes",
				tool_known(cmd_memory_number(row, ERROR_BYTES)), "result",
				(json_int_t)cmd_memory_int(row, ERROR_RESULT), "error", name, "where", place));
		return 0;
	}
	calls_print_head(
		cmd_memory_int(row, ERROR_RANK), cmd_memory_int(row, ERROR_START), cmd_memory_number(row, ERROR_STEP));
	printf(": %s%s%s", place, *place ? ": " : "", cmd_memory_name(row, ERROR_OP).text);
	if (sqlite3_column_type(row, ERROR_BYTES) != SQLITE_NULL)
		printf(" of %s", cmd_memory_bytes(sqlite3_column_double(row, ERROR_BYTES)).text);
	printf(*name ? " returned %s (%" PRId64 ")" : "%s returned %" PRId64, name, cmd_memory_int(row, ERROR_RESULT));
	if (count > 1)
		printf(", the first of %lld times", (long long)count);
	putchar('\n');
	return 0;
}

/*
 * One row for the calls of a line that fail alike, by the first of them: after an error that lasts, each call fails, and
 * the first one reported it. The row of a stack has no op. Columns without an aggregate are those of the row with the
 * minimum.
 */
int cmd_memory_errors(struct cmd_memory *cmd)
{
	return tool_each(cmd->reader,
		sqlite3_mprintf("SELECT rank, start_ns, step, op, bytes, result, "
				"(SELECT c.frames FROM call_stacks c WHERE c.id = a.at LIMIT 1), count "
				"FROM (SELECT *, min(start_ns), count(*) AS count FROM "
				"(SELECT *, coalesce(stack, max(stack) OVER "
				"(PARTITION BY instance, thread_id ORDER BY start_ns RANGE BETWEEN %d PRECEDING AND %d "
				"FOLLOWING)) AS at FROM api_errors WHERE start_ns >= %lld AND "
				"instance IN (SELECT instance FROM ranks WHERE %Q IS NULL OR job = %Q)) "
				"WHERE op IS NOT NULL GROUP BY instance, op, result, at) a ORDER BY start_ns",
			SAME_CALL_NS, SAME_CALL_NS, (long long)cmd->since_ns, cmd->job, cmd->job),
		cmd_memory_on_error, cmd);
}
