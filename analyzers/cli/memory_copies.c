/* SPDX-License-Identifier: Apache-2.0 */
/* View of `tracectl memory` of copies between host and devices: how much, how fast, and which held their thread. */
#include <inttypes.h>
#include <stdio.h>

#include "analyzers/base/term_table.h"
#include "analyzers/base/units.h"
#include "analyzers/cli/memory_read.h"

#define HELD_MIN 0.01 /* of a rank's time: then it is worth a change of the program */
#define HELD_ADVICE \
	"copies that need not wait held their thread: the host's memory is not pinned (pin_memory=True of the " \
	"DataLoader, or " \
	"tensor.pin_memory()), or the card's queue was full"

enum {
	COPY_RANK,
	COPY_PID,
	COPY_HOST,
	COPY_DIRECTION,
	COPY_ASYNC,
	COPY_COUNT,
	COPY_BYTES,
	COPY_TIME,
	COPY_LONGEST,
	COPY_HELD,
	COPY_HELD_BYTES,
	COPY_HELD_TIME,
	COPY_SPAN
};

struct copies_view {
	struct cmd_memory *cmd;
	struct term_table *table;
	bool held;
};

/* Bytes a second. Of asynchronous calls it is that of those that held their thread. */
static double copies_speed(sqlite3_stmt *row)
{
	bool async = cmd_memory_int(row, COPY_ASYNC);
	double bytes = sqlite3_column_double(row, async ? COPY_HELD_BYTES : COPY_BYTES);
	double ns = sqlite3_column_double(row, async ? COPY_HELD_TIME : COPY_TIME);

	return ns > 0 ? bytes / ns * 1e9 : 0;
}

static void copies_json(struct cmd_memory *cmd, sqlite3_stmt *row, double share)
{
	json_array_append_new(cmd->list,
		json_pack("{s:I, s:I, s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f}", "rank",
			(json_int_t)cmd_memory_int(row, COPY_RANK), "pid", (json_int_t)cmd_memory_int(row, COPY_PID),
			"host", cmd_memory_name(row, COPY_HOST).text, "direction",
			cmd_memory_name(row, COPY_DIRECTION).text, "async", (int)cmd_memory_int(row, COPY_ASYNC),
			"count", (json_int_t)cmd_memory_int(row, COPY_COUNT), "bytes",
			(json_int_t)cmd_memory_int(row, COPY_BYTES), "duration_ns",
			(json_int_t)cmd_memory_int(row, COPY_TIME), "longest_ns",
			(json_int_t)cmd_memory_int(row, COPY_LONGEST), "held_count",
			(json_int_t)cmd_memory_int(row, COPY_HELD), "held_bytes",
			(json_int_t)cmd_memory_int(row, COPY_HELD_BYTES), "held_ns",
			(json_int_t)cmd_memory_int(row, COPY_HELD_TIME), "bytes_per_s", copies_speed(row), "held_share",
			share));
}

static int copies_on_row(void *arg, sqlite3_stmt *row)
{
	struct copies_view *view = arg;
	char longest[UNITS_BYTES];
	double span = sqlite3_column_double(row, COPY_SPAN),
	       share = span > 0 ? sqlite3_column_double(row, COPY_HELD_TIME) / span : 0;

	if (!ranges_have(&view->cmd->ranks, cmd_memory_int(row, COPY_RANK)))
		return 0;
	view->cmd->rows++;
	view->held |= share >= HELD_MIN;
	if (view->cmd->json) {
		copies_json(view->cmd, row, share);
		return 0;
	}
	term_table_cell(view->table, TERM_PLAIN, "%" PRId64, cmd_memory_int(row, COPY_RANK));
	term_table_cell(view->table, TERM_PLAIN, "%" PRId64, cmd_memory_int(row, COPY_PID));
	term_table_cell(view->table, TERM_PLAIN, "%s%s", cmd_memory_name(row, COPY_DIRECTION).text,
		cmd_memory_int(row, COPY_ASYNC) ? ", async" : "");
	term_table_cell(view->table, TERM_PLAIN, "%" PRId64, cmd_memory_int(row, COPY_COUNT));
	term_table_cell(view->table, TERM_PLAIN, "%s", cmd_memory_bytes(sqlite3_column_double(row, COPY_BYTES)).text);
	term_table_cell(
		view->table, TERM_PLAIN, "%s", copies_speed(row) > 0 ? cmd_memory_bytes(copies_speed(row)).text : "-");
	term_table_cell(view->table, TERM_PLAIN, "%s",
		cmd_memory_int(row, COPY_LONGEST) ? units_duration((uint64_t)cmd_memory_int(row, COPY_LONGEST), longest)
						  : "-");
	term_table_cell(view->table, TERM_PLAIN, "%" PRId64, cmd_memory_int(row, COPY_HELD));
	term_table_cell(view->table, TERM_PLAIN, "%.2g %%", 100 * share);
	return 0;
}

int cmd_memory_copies(struct cmd_memory *cmd)
{
	const struct term_column columns[] = {{.name = "RANK", .right = true}, {.name = "PID", .right = true},
		{.name = "COPIES"}, {.name = "COUNT", .right = true}, {.name = "BYTES", .right = true},
		{.name = "A SECOND", .right = true}, {.name = "LONGEST", .right = true},
		{.name = "HELD", .right = true}, {.name = "OF TIME", .right = true}};
	struct copies_view view = {.cmd = cmd, .table = term_table_new(columns, sizeof(columns) / sizeof(columns[0]))};
	int r = view.table ? 0 : tool_fail(1, "out of memory");

	if (r == 0)
		r = tool_each(cmd->reader,
			sqlite3_mprintf("SELECT c.rank, r.pid, r.host, c.direction, c.is_async, sum(c.count), "
					"sum(c.bytes), sum(c.duration_ns), "
					"coalesce(max(c.longest_ns), 0), sum(c.held_count), sum(c.held_bytes), "
					"sum(c.held_ns), max(c.start_ns) "
					"- min(c.start_ns) + 1000000000 FROM copies c JOIN ranks r ON r.instance = "
					"c.instance WHERE c.start_ns "
					">= %lld AND (%Q IS NULL OR r.job = %Q) GROUP BY c.instance, c.direction, "
					"c.is_async ORDER BY r.job, "
					"c.rank, c.instance, sum(c.duration_ns) DESC, sum(c.bytes) DESC",
				(long long)cmd->since_ns, cmd->job, cmd->job),
			copies_on_row, &view);
	if (r == 0 && !cmd->json && cmd->rows) {
		term_table_print(view.table, stdout, 0);
		if (view.held)
			printf("advice  %s\n", HELD_ADVICE);
	}
	term_table_free(view.table);
	return r;
}
