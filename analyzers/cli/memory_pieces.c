/* SPDX-License-Identifier: Apache-2.0 */
/* View of `tracectl memory`: what the allocator has from the driver and cannot use, what that costs, which setting
 * helps. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "analyzers/cli/memory_read.h"

#define WARM_UP_PART 6 /* of the time: pools fill */
#define CALLS_PERIOD_NS \
	32000000000 /* as the daemon's longest: what is taken in one and given back in another is kept */

struct memory_split {
	struct memory_pieces pieces;
	int64_t time_ns;		     /* of the snapshot; 0: none */
	double peak, peak_reserved;	     /* at the same time */
	double calls, again_ns;		     /* of the driver, after the warm-up; again_ns: memory_calls_again_ns() */
	double step_first, step_last;	     /* with such calls; 0: none */
	char calls_place[STACK_PLACE_BYTES]; /* the line with most of their time; "": unknown */
	double asked, asked_beside;	     /* newest request that failed, 0: none; reserved and not allocated then */
};

struct pieces_snapshot {
	struct memory_pieces *pieces;
	int64_t time_ns;
	int64_t reserved_ns;	   /* when the allocator had `reserved`; 0: unknown */
	uint64_t reserved, unused; /* unused: of these, not allocated */
};

static int pieces_on_segment(void *arg, sqlite3_stmt *row)
{
	struct pieces_snapshot *snapshot = arg;
	const struct memory_segment segment = {
		.address = (uint64_t)cmd_memory_int(row, SEGMENT_ADDRESS),
		.bytes = (uint64_t)cmd_memory_int(row, SEGMENT_BYTES),
		.used_bytes = (uint64_t)cmd_memory_int(row, SEGMENT_USED),
		.gap_bytes = (uint64_t)cmd_memory_int(row, SEGMENT_GAP),
		.blocks = (uint32_t)cmd_memory_int(row, SEGMENT_BLOCKS),
		.is_expandable = cmd_memory_int(row, SEGMENT_EXPANDABLE) != 0,
	};

	snapshot->time_ns = cmd_memory_int(row, SEGMENT_START);
	memory_pieces_add(snapshot->pieces, &segment);
	return 0;
}

static int pieces_on_reserved(void *arg, sqlite3_stmt *row)
{
	struct pieces_snapshot *snapshot = arg;

	if (cmd_memory_int(row, 0) < snapshot->reserved_ns)
		return 0;
	snapshot->reserved_ns = cmd_memory_int(row, 0);
	snapshot->reserved = (uint64_t)cmd_memory_int(row, 1);
	/* One that reports more than it has says nothing of what is free. */
	snapshot->unused = (uint64_t)cmd_memory_int(row, 2) <= snapshot->reserved
				   ? snapshot->reserved - (uint64_t)cmd_memory_int(row, 2)
				   : UINT64_MAX;
	return 0;
}

/* The newest report until the snapshot: an allocator gives memory back before it reports a failed request, and reports
 * no block then. */
static int pieces_read_reserved(
	struct cmd_memory *cmd, const struct memory_pool *pool, struct pieces_snapshot *snapshot)
{
	/* Of a second, the least that was allocated: the snapshot is of some moment in it. */
	static const char *const tables[][2] = {{"memory_curve", "start_ns, reserved_bytes, allocated_min_bytes"},
		{"memory_failures", "start_ns, reserved_bytes, allocated_bytes"}};
	char rest[96];
	int r = 0;

	snprintf(rest, sizeof(rest), "AND start_ns <= %" PRId64 " ORDER BY start_ns DESC LIMIT 1", snapshot->time_ns);
	for (size_t i = 0; r == 0 && i < sizeof(tables) / sizeof(tables[0]); i++)
		r = cmd_memory_each_of(cmd, pool, tables[i][1], tables[i][0], rest, pieces_on_reserved, snapshot);
	return r;
}

int cmd_memory_read_pieces(struct cmd_memory *cmd, const struct memory_pool *pool, int64_t until_ns,
	struct memory_pieces *ret, int64_t *ret_ns)
{
	struct pieces_snapshot snapshot = {.pieces = ret};
	char rest[160];
	int r;

	snprintf(rest, sizeof(rest),
		"AND start_ns = (SELECT max(start_ns) FROM memory_segments WHERE instance = %" PRId64
		" AND start_ns <= %" PRId64 ")",
		pool->instance, until_ns);
	r = cmd_memory_each_of(
		cmd, pool, MEMORY_SEGMENT_COLUMNS, "memory_segments", rest, pieces_on_segment, &snapshot);
	if (r == 0)
		r = pieces_read_reserved(cmd, pool, &snapshot);
	memory_pieces_end(ret, snapshot.reserved_ns ? snapshot.reserved : UINT64_MAX);
	if (snapshot.reserved_ns)
		memory_pieces_cap(ret, snapshot.unused);
	*ret_ns = snapshot.time_ns;
	return r;
}

static int pieces_on_peak(void *arg, sqlite3_stmt *row)
{
	struct memory_split *split = arg;

	split->peak = sqlite3_column_double(row, 0);
	split->peak_reserved = sqlite3_column_double(row, 1);
	return 0;
}

enum {
	CALLS_COUNT,
	CALLS_STEP_FIRST,
	CALLS_STEP_LAST,
	CALLS_TAKE_NS,
	CALLS_TAKE_BYTES,
	CALLS_GIVE_NS,
	CALLS_GIVE_BYTES
};

static int pieces_on_calls(void *arg, sqlite3_stmt *row)
{
	struct memory_split *split = arg;

	const struct memory_calls calls = {.take_ns = sqlite3_column_double(row, CALLS_TAKE_NS),
		.take_bytes = sqlite3_column_double(row, CALLS_TAKE_BYTES),
		.give_ns = sqlite3_column_double(row, CALLS_GIVE_NS),
		.give_bytes = sqlite3_column_double(row, CALLS_GIVE_BYTES)};

	split->calls += sqlite3_column_double(row, CALLS_COUNT);
	split->again_ns += memory_calls_again_ns(&calls);
	split->step_last = fmax(split->step_last, sqlite3_column_double(row, CALLS_STEP_LAST));
	if (split->step_first <= 0)
		split->step_first = sqlite3_column_double(row, CALLS_STEP_FIRST);
	return 0;
}

static int pieces_on_calls_place(void *arg, sqlite3_stmt *row)
{
	cmd_memory_place((const char *)sqlite3_column_text(row, 0), NULL, 1, ((struct memory_split *)arg)->calls_place);
	return 0;
}

static int pieces_on_failure(void *arg, sqlite3_stmt *row)
{
	struct memory_split *split = arg;

	split->asked = sqlite3_column_double(row, 0);
	split->asked_beside = sqlite3_column_double(row, 1);
	return 0;
}

static const struct {
	const char *columns, *table, *rest;
	int (*row)(void *arg, sqlite3_stmt *row);
} pieces_reads[] = {
	{"allocated_max_bytes, reserved_max_bytes", "memory_curve", "ORDER BY allocated_max_bytes DESC LIMIT 1",
		pieces_on_peak},
	{"bytes, reserved_bytes - allocated_bytes", "memory_failures", "ORDER BY start_ns DESC LIMIT 1",
		pieces_on_failure},
};

static int pieces_read(struct cmd_memory *cmd, const struct memory_pool *pool, struct memory_split *ret)
{
	int64_t from_ns = pool->first_ns + (pool->until_ns - pool->first_ns) / WARM_UP_PART;
	int r = tool_each(cmd->reader,
		/* As the daemon counts them: a call that failed takes time and no memory. */
		sqlite3_mprintf(
			"SELECT count(*), min(step), max(step), sum(ns * takes), sum(moved * takes), "
			"sum(ns * gives), sum(moved * gives) FROM (SELECT start_ns, step, "
			"CASE WHEN bytes IS NOT NULL THEN duration_ns END AS ns, "
			"CASE WHEN duration_ns IS NOT NULL THEN bytes * (coalesce(result, 0) = 0) END AS moved, "
			"op LIKE '%%Free%%' OR op LIKE '%%Release%%' AS gives, "
			"NOT (op LIKE '%%Free%%' OR op LIKE '%%Release%%') AS takes FROM allocations "
			"WHERE instance = %lld AND op NOT LIKE '%%Host%%' AND start_ns BETWEEN %lld AND %lld) "
			"GROUP BY start_ns / %lld ORDER BY start_ns / %lld",
			(long long)pool->instance, (long long)from_ns, (long long)pool->until_ns,
			(long long)CALLS_PERIOD_NS, (long long)CALLS_PERIOD_NS),
		pieces_on_calls, ret);

	if (r == 0)
		r = tool_each(cmd->reader,
			sqlite3_mprintf("SELECT (SELECT c.frames FROM call_stacks c WHERE c.id = a.stack LIMIT 1) FROM "
					"(SELECT stack FROM allocations "
					"WHERE instance = %lld AND op NOT LIKE '%%Host%%' AND start_ns BETWEEN %lld "
					"AND %lld AND stack IS NOT "
					"NULL GROUP BY stack ORDER BY sum(duration_ns) DESC, stack LIMIT 1) a",
				(long long)pool->instance, (long long)from_ns, (long long)pool->until_ns),
			pieces_on_calls_place, ret);
	if (r == 0)
		r = cmd_memory_read_pieces(cmd, pool, INT64_MAX, &ret->pieces, &ret->time_ns);
	for (size_t i = 0; r == 0 && i < sizeof(pieces_reads) / sizeof(pieces_reads[0]); i++)
		r = cmd_memory_each_of(cmd, pool, pieces_reads[i].columns, pieces_reads[i].table, pieces_reads[i].rest,
			pieces_reads[i].row, ret);
	return r;
}

static void pieces_print(
	const struct memory_pool *pool, const struct memory_split *split, const struct memory_waste *waste)
{
	const struct memory_pieces *pieces = &split->pieces;
	char time[TOOL_TEXT_BYTES];

	cmd_memory_print_pool(pool);
	if (!pool->calls_only) {
		printf("at the peak %s allocated of ", cmd_memory_bytes(split->peak).text);
		printf("%s reserved", cmd_memory_bytes(split->peak_reserved).text);
		printf("; %s not used even then\n", cmd_memory_bytes(fmax(split->peak_reserved - split->peak, 0)).text);
	}
	if (pieces->segments) {
		printf("  segments  %zu of %s, ", pieces->segments, cmd_memory_bytes((double)pieces->bytes).text);
		printf("%s in blocks, as of %s", cmd_memory_bytes((double)pieces->used_bytes).text,
			tool_time((uint64_t)split->time_ns, time));
		if (pieces->before_bytes)
			printf("; %s more that L2 did not see allocated",
				cmd_memory_bytes((double)pieces->before_bytes).text);
		if (pieces->outside_bytes)
			printf("\n  outside   %s that the process took without the framework's allocator",
				cmd_memory_bytes((double)pieces->outside_bytes).text);
		printf("\n  free      %s in pieces of %zu segments that hold blocks, ",
			cmd_memory_bytes((double)pieces->split_bytes).text, pieces->split);
		if (pieces->expandable_bytes)
			printf("%s of it expandable, ", cmd_memory_bytes((double)pieces->expandable_bytes).text);
		printf("%s in segments without; ", cmd_memory_bytes((double)pieces->empty_bytes).text);
		printf("the largest piece has %s\n", cmd_memory_bytes((double)pieces->gap_bytes).text);
	} else if (!pool->calls_only) {
		printf("  segments  none known: L2 did not see them allocated\n");
	}
	if (split->asked > 0) {
		printf("  failed    a request of %s", cmd_memory_bytes(split->asked).text);
		printf(", beside %s reserved and not allocated\n", cmd_memory_bytes(fmax(split->asked_beside, 0)).text);
	}
	if (split->calls > 0)
		printf("  calls     %.0f that take or give back memory after the warm-up, %.3g a step%s%s; to give it "
		       "back and take it again has %.2g %% of the time\n",
			split->calls, split->calls / fmax(split->step_last - split->step_first, 1),
			*split->calls_place ? ", most of their time in " : "", split->calls_place,
			100 * waste->calls_share);
	printf("  advice    %s\n",
		memory_waste_remedy(waste) ? memory_remedy_text(memory_waste_remedy(waste)) : "none");
}

static json_t *pieces_json(
	const struct memory_pool *pool, const struct memory_split *split, const struct memory_waste *waste)
{
	const struct memory_pieces *pieces = &split->pieces;

	return json_pack("{s:I, s:I, s:s, s:s, s:o, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, "
			 "s:f, s:s, s:s}",
		"rank", (json_int_t)pool->rank, "pid", (json_int_t)pool->pid, "host", pool->host.text, "kind",
		pool->kind.text, "device", pool->device < 0 ? json_null() : json_integer(pool->device), "peak_bytes",
		split->peak, "peak_reserved_bytes", split->peak_reserved, "segments", (json_int_t)pieces->segments,
		"segment_bytes", (json_int_t)pieces->bytes, "used_bytes", (json_int_t)pieces->used_bytes,
		"split_segments", (json_int_t)pieces->split, "split_bytes", (json_int_t)pieces->split_bytes,
		"expandable_bytes", (json_int_t)pieces->expandable_bytes, "empty_bytes",
		(json_int_t)pieces->empty_bytes, "outside_bytes", (json_int_t)pieces->outside_bytes,
		"largest_piece_bytes", (json_int_t)pieces->gap_bytes, "asked_bytes", split->asked, "calls",
		split->calls, "calls_share", waste->calls_share, "calls_where", split->calls_place, "advice",
		memory_remedy_text(memory_waste_remedy(waste)));
}

/* Of what the allocator has from the driver, in segments that L2 did not see it take. */
static double pieces_unseen_share(const struct memory_pieces *pieces)
{
	double seen = (double)(pieces->bytes - pieces->outside_bytes), unseen = (double)pieces->before_bytes;

	return seen > 0 ? unseen / (seen + unseen) : 1;
}

int cmd_memory_fragmentation(struct cmd_memory *cmd)
{
	for (size_t i = 0; i < cmd->pools; i++) {
		const struct memory_pool *pool = &cmd->pool[i];
		struct memory_split split = {.peak = 0};
		struct memory_waste waste;
		double after_ns = (double)(pool->until_ns - pool->first_ns) * (WARM_UP_PART - 1) / WARM_UP_PART;
		int r;

		/* An allocator that reserves nothing. */
		if (pool->reserved_peak <= 0 && !pool->calls_only)
			continue;
		r = pieces_read(cmd, pool, &split);
		if (r)
			return r;
		waste = (struct memory_waste){.reserved = split.peak_reserved,
			.allocated = split.peak,
			.split = (double)(split.pieces.split_bytes - split.pieces.expandable_bytes),
			.unseen_share = pieces_unseen_share(&split.pieces),
			.calls_share = after_ns > 0 ? split.again_ns / after_ns : 0};
		cmd->rows++;
		if (cmd->json)
			json_array_append_new(cmd->list, pieces_json(pool, &split, &waste));
		else
			pieces_print(pool, &split, &waste);
	}
	return 0;
}
