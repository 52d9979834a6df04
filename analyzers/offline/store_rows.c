/* SPDX-License-Identifier: Apache-2.0 */
/* See store_rows.h. What a store holds is not trusted; the framer refuses what makes no sense. */
#include "analyzers/offline/store_rows.h"

#include "analyzers/steps.h"

static uint64_t get_number(const struct store_row *row, int column)
{
	int64_t value = sqlite3_column_int64(row->statement, column);

	return value > 0 ? (uint64_t)value : 0;
}

static uint64_t get_known(const struct store_row *row, int column)
{
	return sqlite3_column_type(row->statement, column) == SQLITE_NULL ? FRAME_UNKNOWN : get_number(row, column);
}

static const char *get_text(const struct store_row *row, int column)
{
	const unsigned char *text = sqlite3_column_text(row->statement, column);

	return text ? (const char *)text : "";
}

static int64_t get_step(const struct store_row *row, int column)
{
	int64_t step = sqlite3_column_int64(row->statement, column);

	return sqlite3_column_type(row->statement, column) == SQLITE_NULL || step < 0 ? STEPS_NONE : step;
}

static uint64_t get_time(const struct store_row *row, int column)
{
	return store_feed_time(row->options, sqlite3_column_int64(row->statement, column));
}

static void progress(struct store_rank *rank, uint64_t end_ns)
{
	if (end_ns > rank->progress_ns)
		rank->progress_ns = end_ns;
}

void store_row_stage(const struct store_row *row)
{
	const struct framer_stage stage = {
		.step = get_step(row, 2),
		.kind = stage_of_stage(get_text(row, 3)).kind,
		.start_ns = get_time(row, 4),
		.duration_ns = get_number(row, 5),
		.thread_id = (uint32_t)get_number(row, 6),
		.depth = (uint32_t)get_number(row, 7),
	};

	if (stage.depth == 0 && stage_is_loop(stage.kind) && stage.step != STEPS_NONE)
		row->rank->step_thread = stage.thread_id;
	progress(row->rank, get_time(row, 0));
	framer_stage(row->framer, row->rank->process, &stage);
}

void store_row_step(const struct store_row *row)
{
	struct store_rank *rank = row->rank;

	progress(rank, get_time(row, 0));
	rank->steps++;
	if (get_time(row, 0) > rank->step_end_ns)
		rank->step_end_ns = get_time(row, 0);
	framer_step(row->framer, row->rank->process,
		&(struct framer_step){get_step(row, 2), get_time(row, 3), get_number(row, 4)});
}

void store_row_op(const struct store_row *row)
{
	bool p2p = sqlite3_column_type(row->statement, 9) != SQLITE_NULL;
	const char *communicator = get_text(row, 3);
	const struct framer_op op = {
		.communicator = communicator,
		.seq = get_number(row, 4),
		.op = get_text(row, 5),
		.step = get_step(row, 2),
		.start_ns = get_time(row, 6),
		.duration_ns = get_number(row, 7),
		.bytes = get_number(row, 8),
		.peer = p2p ? sqlite3_column_int(row->statement, 9) : -1,
		.member = store_rank_member(row->rank, communicator),
		.tier = sqlite3_column_int(row->statement, 10) ? FRAME_TIER_DEVICE : FRAME_TIER_HOST,
	};

	progress(row->rank, get_time(row, 0));
	framer_op(row->framer, row->rank->process, &op);
}

/* What the kernel lost may have been records of any rank. */
void store_row_lost(const struct store_row *row)
{
	struct store_rank *rank;

	for (size_t i = 0; (rank = store_ranks_at(row->ranks, i)); i++)
		if (rank->process >= 0)
			framer_lost(row->framer, rank->process, get_number(row, 2));
}

/* Only of the step thread, which is the main thread as long as nothing tells. */
void store_row_wait(const struct store_row *row)
{
	struct store_rank *rank = row->rank;

	if (get_number(row, 2) != (rank->step_thread ? rank->step_thread : rank->pid))
		return;
	rank->waits = true;
	hogs_add(&rank->hogs, rank->pid, (uint32_t)get_number(row, 4), get_text(row, 5), get_number(row, 3));
}

/* The kernel's own count of waits, or what L3 saw of them; and who, if L3 was on. */
void store_row_sample(const struct store_row *row)
{
	struct store_rank *rank = row->rank;
	const struct hog *hog = hogs_most(&rank->hogs);
	struct framer_host host = {
		.start_ns = get_time(row, 2),
		.duration_ns = get_number(row, 3),
		.cpu_ns = get_known(row, 4),
		.run_delay_ns = get_known(row, 5),
		.throttled_ns = get_known(row, 6),
		.major_faults = get_known(row, 7),
		.launch_gap_ns = FRAME_UNKNOWN,
		.hog_pid = hog ? hog->pid : 0,
		.hog_ns = hog ? hog->ns : 0,
		.hog_name = hog ? hog->name : "",
	};

	if (host.run_delay_ns == FRAME_UNKNOWN && rank->waits)
		host.run_delay_ns = rank->hogs.waited_ns;
	framer_host(row->framer, rank->process, &host);
	rank->waits = false;
	rank->hogs = (struct hogs){0};
}

static void thread_over(struct store_window *window)
{
	if (window->thread_gap_ns && (!window->gap_ns || window->thread_gap_ns < window->gap_ns))
		window->gap_ns = window->thread_gap_ns;
	window->thread_gap_ns = 0;
}

void store_row_launches(const struct store_row *row)
{
	struct store_window *window = &row->rank->window;
	uint32_t thread_id = (uint32_t)get_number(row, 5);
	uint64_t gap_ns = get_number(row, 4);

	if (thread_id != window->thread_id)
		thread_over(window);
	window->thread_id = thread_id;
	window->start_ns = get_time(row, 2);
	window->duration_ns = get_number(row, 3);
	if (gap_ns > window->thread_gap_ns)
		window->thread_gap_ns = gap_ns;
}

void store_rows_launches_over(struct store_ranks *ranks, struct framer *framer)
{
	struct store_rank *rank;

	for (size_t i = 0; (rank = store_ranks_at(ranks, i)); i++) {
		struct store_window *window = &rank->window;
		struct framer_host host = {
			.start_ns = window->start_ns,
			.duration_ns = window->duration_ns,
			.cpu_ns = FRAME_UNKNOWN,
			.run_delay_ns = FRAME_UNKNOWN,
			.throttled_ns = FRAME_UNKNOWN,
			.major_faults = FRAME_UNKNOWN,
			.hog_name = "",
		};

		thread_over(window);
		host.launch_gap_ns = window->gap_ns;
		if (window->gap_ns && rank->process >= 0)
			framer_host(framer, rank->process, &host);
		*window = (struct store_window){.thread_id = 0};
	}
}
