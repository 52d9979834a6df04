/* SPDX-License-Identifier: Apache-2.0 */
/* Views of `tracectl memory` of calls: requests that the framework's allocator could not serve, calls that failed. */
#include <inttypes.h>
#include <stdio.h>

#include "analyzers/base/units.h"
#include "analyzers/cli/memory_read.h"

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
	OOM_FRAMES,
	OOM_INSTANCE,
	OOM_COUNT,
	OOM_FIRST
};

/* Requests of a line that were not served, by the newest of them, and why. */
struct oom {
	int64_t rank, start_ns, step, device;
	int64_t count, first_ns;
	struct memory_name kind, stage;
	struct memory_failure failure;
	double card_bytes, card_free; /* 0: unknown */
	struct memory_pool *pool;     /* NULL: nothing of it is known */
	struct memory_pieces pieces;
	int64_t pieces_ns; /* 0: its segments are not known */
	char place[STACK_PLACE_BYTES];
	enum memory_cause cause;
};

static void oom_json(struct cmd_memory *cmd, const struct oom *oom)
{
	const struct memory_failure *failure = &oom->failure;

	json_array_append_new(cmd->list,
		json_pack("{s:I, s:I, s:I, s:I, s:s, s:I, s:I, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:s, s:s, "
			  "s:s}",
			"rank", (json_int_t)oom->rank, "time_ns", (json_int_t)oom->start_ns, "count",
			(json_int_t)oom->count, "first_ns", (json_int_t)oom->first_ns, "kind", oom->kind.text, "device",
			(json_int_t)oom->device, "step", (json_int_t)oom->step, "stage", oom->stage.text, "asked_bytes",
			failure->asked, "allocated_bytes", failure->allocated, "reserved_bytes", failure->reserved,
			"card_bytes", oom->card_bytes, "card_free_bytes", oom->card_free, "others_bytes",
			failure->others, "largest_piece_bytes",
			oom->pieces_ns ? json_integer((json_int_t)oom->pieces.gap_bytes) : json_null(), "places",
			oom->pool ? cmd_memory_json_places(oom->pool) : json_array(), "where", oom->place, "cause",
			memory_cause_word(oom->cause), "advice", memory_cause_advice(oom->cause)));
}

static void oom_print(const struct oom *oom)
{
	const struct memory_failure *failure = &oom->failure;
	char time[TOOL_TEXT_BYTES];

	printf("rank %" PRId64 ", %s, step %" PRId64 "%s%s: %s asked for ", oom->rank,
		tool_time((uint64_t)oom->start_ns, time), oom->step, *oom->stage.text ? ", " : "", oom->stage.text,
		oom->place);
	printf("%s of %s", cmd_memory_bytes(failure->asked).text, oom->kind.text);
	if (oom->device >= 0)
		printf(":%" PRId64, oom->device);
	printf("; %s were allocated", cmd_memory_bytes(failure->allocated).text);
	if (failure->reserved > 0)
		printf(", %s reserved", cmd_memory_bytes(failure->reserved).text);
	if (oom->card_bytes > 0) {
		printf("; the card has %s", cmd_memory_bytes(oom->card_bytes).text);
		printf(", of which other processes hold %s", cmd_memory_bytes(failure->others).text);
		printf(" and %s are free", cmd_memory_bytes(oom->card_free).text);
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

static int cmd_memory_on_oom(void *arg, sqlite3_stmt *row)
{
	struct cmd_memory *cmd = arg;
	struct oom oom = {.rank = cmd_memory_int(row, OOM_RANK),
		.start_ns = cmd_memory_int(row, OOM_START),
		.count = cmd_memory_int(row, OOM_COUNT),
		.first_ns = cmd_memory_int(row, OOM_FIRST),
		.step = cmd_memory_int(row, OOM_STEP),
		.device = cmd_memory_number(row, OOM_DEVICE),
		.kind = cmd_memory_name(row, OOM_KIND),
		.stage = cmd_memory_name(row, OOM_STAGE),
		.failure = {.asked = sqlite3_column_double(row, OOM_BYTES),
			.allocated = sqlite3_column_double(row, OOM_ALLOCATED),
			.reserved = sqlite3_column_double(row, OOM_RESERVED)}};
	struct memory_trend trend;
	struct memory_pool *pool;
	int r = 0;

	if (!ranges_have(&cmd->ranks, oom.rank))
		return 0;
	pool = cmd_memory_pool(cmd, cmd_memory_int(row, OOM_INSTANCE), oom.kind.text, oom.device);
	if (pool && memory_history_trend(&pool->history, &trend) && trend.leaks)
		oom.failure.leaked = trend.to_bytes - trend.from_bytes;
	if (pool && pool->card.total > 0) {
		oom.card_bytes = oom.failure.device = pool->card.total;
		oom.card_free = cmd_memory_free(pool);
		oom.failure.others = cmd_memory_others(pool);
	}
	oom.cause = memory_failure_cause(&oom.failure);
	cmd_memory_place((const char *)sqlite3_column_text(row, OOM_FRAMES), NULL, 1, oom.place);
	if (pool)
		r = cmd_memory_read_places(cmd, pool, 0, oom.start_ns + OOM_SNAPSHOT_NS);
	if (pool && r == 0)
		r = cmd_memory_read_pieces(cmd, pool, oom.start_ns + OOM_SNAPSHOT_NS, &oom.pieces, &oom.pieces_ns);
	if (r)
		return r;
	oom.pool = pool;
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
			"(SELECT c.frames FROM call_stacks c WHERE c.id = m.stack LIMIT 1), instance, count, "
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
	char place[STACK_PLACE_BYTES] = "", time[TOOL_TEXT_BYTES];
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
			json_pack("{s:I, s:I, s:I, s:I, s:s, s:f, s:I, s:s, s:s}", "rank",
				(json_int_t)cmd_memory_int(row, ERROR_RANK), "time_ns",
				(json_int_t)cmd_memory_int(row, ERROR_START), "count", count, "step",
				(json_int_t)cmd_memory_int(row, ERROR_STEP), "op", cmd_memory_name(row, ERROR_OP).text,
				"bytes", sqlite3_column_double(row, ERROR_BYTES), "result",
				(json_int_t)cmd_memory_int(row, ERROR_RESULT), "error", name, "where", place));
		return 0;
	}
	printf("rank %" PRId64 ", %s, step %" PRId64 ": %s%s%s", cmd_memory_int(row, ERROR_RANK),
		tool_time((uint64_t)cmd_memory_int(row, ERROR_START), time), cmd_memory_int(row, ERROR_STEP), place,
		*place ? ": " : "", cmd_memory_name(row, ERROR_OP).text);
	if (sqlite3_column_type(row, ERROR_BYTES) != SQLITE_NULL)
		printf(" of %s", cmd_memory_bytes(sqlite3_column_double(row, ERROR_BYTES)).text);
	printf(*name ? " returned %s (%" PRId64 ")" : "%s returned %" PRId64, name, cmd_memory_int(row, ERROR_RESULT));
	if (count > 1)
		printf(", the newest of %lld times", (long long)count);
	putchar('\n');
	return 0;
}

/* As of requests: one row for the calls of a line that fail alike. */
int cmd_memory_errors(struct cmd_memory *cmd)
{
	return tool_each(cmd->reader,
		sqlite3_mprintf(
			"SELECT rank, start_ns, step, op, bytes, result, "
			"coalesce((SELECT c.frames FROM call_stacks c WHERE c.id = a.stack LIMIT 1), "
			"(SELECT c.frames FROM api_errors e JOIN call_stacks c ON c.id = e.stack WHERE "
			"e.instance = a.instance AND e.thread_id = a.thread_id AND "
			"e.start_ns BETWEEN a.start_ns - %d AND a.start_ns + %d LIMIT 1)), count "
			"FROM (SELECT *, max(start_ns), count(*) AS count FROM "
			"(SELECT rank, start_ns, step, op, bytes, result, stack, instance, thread_id FROM allocations "
			"WHERE result <> 0 UNION ALL "
			"SELECT rank, start_ns, step, op, bytes, result, stack, instance, thread_id FROM api_errors "
			"WHERE op IS NOT NULL) WHERE start_ns >= %lld AND "
			"instance IN (SELECT instance FROM ranks WHERE %Q IS NULL OR job = %Q) "
			"GROUP BY instance, op, result, stack) a ORDER BY start_ns",
			SAME_CALL_NS, SAME_CALL_NS, (long long)cmd->since_ns, cmd->job, cmd->job),
		cmd_memory_on_error, cmd);
}
