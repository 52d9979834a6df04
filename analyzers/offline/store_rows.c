/* SPDX-License-Identifier: Apache-2.0 */
/* See store_rows.h. What a store holds is not trusted; the aligner refuses what makes no sense. */
#include "analyzers/offline/store_rows.h"

#include <stdio.h>

#include "analyzers/steps/steps.h"

enum { STAGE_STEP = STORE_DURATION + 1, STAGE_STAGE, STAGE_THREAD, STAGE_DEPTH };
enum {
	SAMPLE_STATE = STORE_DURATION + 1,
#define HOST_MEASURE(...)
#define HOST_SAMPLED(id, ...) SAMPLE_##id,
#include "analyzers/align/host_measures.def"
#undef HOST_MEASURE
};
enum { LAUNCH_GAP = STORE_DURATION + 1, LAUNCH_THREAD };
enum { LOST_SOURCE = STORE_DURATION + 1, LOST_REASON, LOST_COUNT };
enum { GAUGE_OBJECT = STORE_DURATION + 1, GAUGE_NAME, GAUGE_VALUE };
enum { MESSAGE_KIND = STORE_DURATION + 1, MESSAGE_OBJECT, MESSAGE_NUMBER, MESSAGE_TEXT };
enum { WORD_DEVICE, WORD_GLOO, WORD_ATTACH };
enum { WORD_CALL, WORD_KERNEL, WORD_LOST };
enum {
	STANDING_STATE = STORE_DURATION + 1,
	STANDING_ENDED,
	STANDING_PROGRESS,
	STANDING_STEP_END,
	STANDING_STEPS,
	STANDING_STAGE,
	STANDING_STAGE_SINCE,
	STANDING_CPU,
	STANDING_MAIN_THREAD
};
enum {
	CALL_COMMUNICATOR = STORE_DURATION + 1,
	CALL_SEQ,
	CALL_SEQ_FROM,
	CALL_OP,
	CALL_DTYPE,
	CALL_COUNT,
	CALL_BYTES,
	CALL_TIME,
	CALL_COMPLETED
};
enum { WORD_XID, WORD_CARD_LOST };
enum { WAIT_THREAD = STORE_DURATION + 1, WAIT_RUN_DELAY, WAIT_PID, WAIT_NAME };

static int64_t store_rows_get(struct reader_scan *scan, size_t column)
{
	return reader_scan_row(scan)->value[column];
}

static bool store_rows_has(struct reader_scan *scan, size_t column)
{
	return reader_row_has(reader_scan_row(scan), column);
}

static int64_t store_rows_sum(struct reader_scan *scan, size_t start, size_t duration)
{
	int64_t ret;

	if (!store_rows_has(scan, start) || !store_rows_has(scan, duration) ||
		__builtin_add_overflow(store_rows_get(scan, start), store_rows_get(scan, duration), &ret))
		return 0;
	return ret;
}

static int64_t time_start(struct reader_scan *scan)
{
	return store_rows_get(scan, STORE_START);
}

static int64_t time_end(struct reader_scan *scan)
{
	return store_rows_sum(scan, STORE_START, STORE_DURATION);
}

/* After the stages that end with it: ends become UTC each with the clock's offset of its own time, which differ by some
 * ns (3 seen) where the clock is steered. A user's mark around the step ends soon after it, too. */
#define STEP_AFTER_NS 1000000

static bool is_device(struct reader_scan *scan)
{
	return reader_scan_is(scan, STORE_OP_TIER, WORD_DEVICE);
}

static int64_t time_op(struct reader_scan *scan)
{
	int64_t end_ns;

	if (!is_device(scan))
		return time_end(scan);
	end_ns = store_rows_has(scan, STORE_START)
			 ? store_rows_sum(scan, STORE_OP_DEVICE_START, STORE_OP_DEVICE_DURATION)
			 : 0;
	return end_ns && end_ns < store_rows_get(scan, STORE_START) ? store_rows_get(scan, STORE_START) : end_ns;
}

static bool is_counted(struct reader_scan *scan)
{
	return reader_scan_is(scan, STORE_OP_SEQ_FROM, WORD_ATTACH);
}

/* Beside what was not done (only recorded into a graph, or refused), those that the host only queued say nothing of who
 * waits: gloo works on the host and is followed to its end, of the others the device's time counts. */
static bool accepts_op(struct reader_scan *scan)
{
	if (store_rows_get(scan, STORE_OP_SEQ) <= 0 || store_rows_get(scan, STORE_OP_CAPTURED) ||
		store_rows_get(scan, STORE_OP_RESULT) || !store_rows_has(scan, STORE_OP_SEQ_FROM) ||
		(is_counted(scan) && !store_rows_has(scan, STORE_OP_PEER)) ||
		!reader_scan_text(scan, STORE_OP_COMMUNICATOR))
		return false;
	if (is_device(scan) && store_rows_has(scan, STORE_OP_DEVICE_START) &&
		store_rows_has(scan, STORE_OP_DEVICE_DURATION))
		return true;
	return store_rows_has(scan, STORE_DURATION) && reader_scan_is(scan, STORE_OP_FAMILY, WORD_GLOO);
}

static bool accepts_lost(struct reader_scan *scan)
{
	return (reader_scan_is(scan, LOST_SOURCE, WORD_CALL) || reader_scan_is(scan, LOST_SOURCE, WORD_KERNEL)) &&
	       reader_scan_is(scan, LOST_REASON, WORD_LOST);
}

static bool accepts_gauge(struct reader_scan *scan)
{
	const char *name = reader_scan_text(scan, GAUGE_NAME);

	return name && hardware_is_gauge(name);
}

static bool accepts_message(struct reader_scan *scan)
{
	return reader_scan_is(scan, MESSAGE_KIND, WORD_XID) || reader_scan_is(scan, MESSAGE_KIND, WORD_CARD_LOST);
}

static bool accepts_wait(struct reader_scan *scan)
{
	return store_rows_get(scan, WAIT_RUN_DELAY) > 0;
}

static uint64_t get_number(const struct store_row *row, size_t column)
{
	int64_t value = store_rows_get(row->scan, column);

	return value > 0 ? (uint64_t)value : 0;
}

static uint64_t get_known(const struct store_row *row, size_t column)
{
	return store_rows_has(row->scan, column) ? get_number(row, column) : FRAME_UNKNOWN;
}

static const char *get_text(const struct store_row *row, size_t column)
{
	const char *text = reader_scan_text(row->scan, column);

	return text ? text : "";
}

static int64_t get_step(const struct store_row *row, size_t column)
{
	int64_t step = store_rows_get(row->scan, column);

	return !store_rows_has(row->scan, column) || step < 0 ? STEPS_NONE : step;
}

static uint64_t get_time(const struct store_row *row, size_t column)
{
	return store_feed_time(row->options, store_rows_get(row->scan, column));
}

static void store_rows_progress(struct store_rank *rank, uint64_t end_ns)
{
	if (end_ns > rank->progress_ns)
		rank->progress_ns = end_ns;
}

static void feed_stage(const struct store_row *row)
{
	const struct align_stage stage = {
		.step = get_step(row, STAGE_STEP),
		.kind = stage_of_stage(get_text(row, STAGE_STAGE)).kind,
		.start_ns = get_time(row, STORE_START),
		.duration_ns = get_number(row, STORE_DURATION),
		.thread_id = (uint32_t)get_number(row, STAGE_THREAD),
		.depth = (uint32_t)get_number(row, STAGE_DEPTH),
	};

	if (stage.depth == 0 && stage_is_loop(stage.kind) && stage.step != STEPS_NONE)
		row->rank->step_thread = stage.thread_id;
	store_rows_progress(row->rank, row->time_ns);
	align_stage(row->align, row->rank->process, &stage);
}

static void feed_step(const struct store_row *row)
{
	struct store_rank *rank = row->rank;

	store_rows_progress(rank, row->time_ns);
	rank->steps++;
	if (row->time_ns > rank->step_end_ns)
		rank->step_end_ns = row->time_ns;
	align_step(row->align, row->rank->process,
		&(struct align_step){get_step(row, STORE_STEP_STEP), get_time(row, STORE_START),
			get_number(row, STORE_DURATION),
			store_rows_has(row->scan, STORE_STEP_UNSPLIT) &&
				store_rows_get(row->scan, STORE_STEP_UNSPLIT)});
}

static int64_t get_lead(const struct store_row *row)
{
	int64_t called_ns = time_end(row->scan), ret;

	if (!called_ns || !store_rows_has(row->scan, STORE_OP_DEVICE_START) ||
		__builtin_sub_overflow(store_rows_get(row->scan, STORE_OP_DEVICE_START), called_ns, &ret))
		return ALIGN_LEAD_UNKNOWN;
	return ret;
}

static void feed_op(const struct store_row *row)
{
	bool device = is_device(row->scan);
	const char *communicator = get_text(row, STORE_OP_COMMUNICATOR);
	const struct align_op op = {
		.communicator = communicator,
		.seq = get_number(row, STORE_OP_SEQ),
		.op = get_text(row, STORE_OP_OP),
		.step = get_step(row, STORE_OP_STEP),
		.start_ns = get_time(row, device ? STORE_OP_DEVICE_START : STORE_START),
		.duration_ns = get_number(row, device ? STORE_OP_DEVICE_DURATION : STORE_DURATION),
		.bytes = get_number(row, STORE_OP_BYTES),
		.lead_ns = device ? get_lead(row) : ALIGN_LEAD_UNKNOWN,
		.peer = store_rows_has(row->scan, STORE_OP_PEER) ? (int32_t)store_rows_get(row->scan, STORE_OP_PEER)
								 : -1,
		.member = store_rank_member(row->rank, communicator),
		.counted = is_counted(row->scan),
		.tier = device ? FRAME_TIER_DEVICE : FRAME_TIER_HOST,
	};

	store_rows_progress(row->rank, row->time_ns);
	align_op(row->align, row->rank->process, &op);
}

/* What the kernel lost may have been records of any rank. */
static void feed_lost(const struct store_row *row)
{
	struct store_rank *rank;

	for (size_t i = 0; (rank = store_ranks_at(row->ranks, i)); i++)
		if (rank->process >= 0)
			align_lost(row->align, rank->process, get_number(row, LOST_COUNT));
}

/* A text is valid until the next is asked for. */
#define ROW_TEXT_BYTES 80

static void feed_gauge(const struct store_row *row)
{
	char object[ROW_TEXT_BYTES];

	snprintf(object, sizeof(object), "%s", get_text(row, GAUGE_OBJECT));
	if (row->hardware)
		hardware_gauge(row->hardware, row->time_ns, object, get_text(row, GAUGE_NAME),
			(double)store_rows_get(row->scan, GAUGE_VALUE));
}

static void feed_message(const struct store_row *row)
{
	char object[ROW_TEXT_BYTES];

	snprintf(object, sizeof(object), "%s", get_text(row, MESSAGE_OBJECT));
	if (row->hardware)
		hardware_message(row->hardware, row->time_ns,
			reader_scan_is(row->scan, MESSAGE_KIND, WORD_XID) ? "xid" : "card_lost", object,
			store_rows_get(row->scan, MESSAGE_NUMBER), get_text(row, MESSAGE_TEXT));
}

/* Only of the step thread, which is the main thread until known. */
static void feed_wait(const struct store_row *row)
{
	struct store_rank *rank = row->rank;

	if (get_number(row, WAIT_THREAD) != (rank->step_thread ? rank->step_thread : rank->pid))
		return;
	rank->waits = true;
	preemptors_add(&rank->preemptors, rank->pid, (uint32_t)get_number(row, WAIT_PID), get_text(row, WAIT_NAME),
		get_number(row, WAIT_RUN_DELAY));
}

/* The kernel's own count of waits, or what L3 saw of them; and who, if L3 was on. */
static void feed_sample(const struct store_row *row)
{
	struct store_rank *rank = row->rank;
	const struct preemptor *preemptor = preemptors_most(&rank->preemptors);
	struct align_host host = {
		.start_ns = get_time(row, STORE_START),
		.duration_ns = get_number(row, STORE_DURATION),
		.stopped_ns = align_host_stopped(get_text(row, SAMPLE_STATE)[0], get_number(row, STORE_DURATION)),
#define HOST_MEASURE(...)
#define HOST_SAMPLED(id, member, ...) .member = get_known(row, SAMPLE_##id),
#include "analyzers/align/host_measures.def"
#undef HOST_MEASURE
		.launch_gap_ns = FRAME_UNKNOWN,
		.preemptor_pid = preemptor ? preemptor->pid : 0,
		.preemptor_ns = preemptor ? preemptor->ns : 0,
		.preemptor_name = preemptor ? preemptor->name : "",
	};

	if (host.run_delay_ns == FRAME_UNKNOWN && rank->waits)
		host.run_delay_ns = rank->preemptors.waited_ns;
	align_host(row->align, rank->process, &host);
	rank->waits = false;
	rank->preemptors = (struct preemptors){0};
}

/* A row comes up to a second late. */
#define STANDING_LATE_NS 2000000000

static void feed_standing(const struct store_row *row)
{
	struct store_rank *rank = row->rank;
	uint64_t for_ns = get_number(row, STORE_DURATION);

	rank->standing_ns = row->time_ns;
	rank->standing_until_ns = row->time_ns + (for_ns < STORE_FEED_LONGEST_NS ? for_ns : 0) + STANDING_LATE_NS;
	rank->standing = (struct standing){
		.state = get_text(row, STANDING_STATE)[0],
		.ended = store_rows_has(row->scan, STANDING_ENDED),
		.ended_ns = get_time(row, STANDING_ENDED),
		.progress_ns = get_time(row, STANDING_PROGRESS),
		.step_end_ns = get_time(row, STANDING_STEP_END),
		.steps = get_number(row, STANDING_STEPS),
		.stage = stage_of_stage(get_text(row, STANDING_STAGE)).kind,
		.stage_since_ns = get_time(row, STANDING_STAGE_SINCE),
		.cpu_ns = get_known(row, STANDING_CPU),
		.stack = standing_stack_of(get_text(row, STANDING_MAIN_THREAD)),
	};
}

static void feed_call(const struct store_row *row)
{
	struct store_place *place = store_rank_place(row->rank, get_text(row, CALL_COMMUNICATOR));
	struct coll_point call = {
		.seq = get_number(row, CALL_SEQ),
		.count = get_known(row, CALL_COUNT),
		.bytes = get_known(row, CALL_BYTES),
		.time_ns = get_time(row, CALL_TIME),
	};

	if (!place)
		return;
	snprintf(call.op, sizeof(call.op), "%s", get_text(row, CALL_OP));
	snprintf(call.dtype, sizeof(call.dtype), "%s", get_text(row, CALL_DTYPE));
	store_ranks_add_call(row->ranks, place, row->time_ns, &call);
	if (!place->calls)
		return;
	place->calls->seq_from = coll_seq_from_parse(get_text(row, CALL_SEQ_FROM));
	place->calls->completion_known = store_rows_has(row->scan, CALL_COMPLETED);
	place->calls->completed_seq = get_number(row, CALL_COMPLETED);
}

static void thread_over(struct store_window *window)
{
	if (window->thread_gap_ns && (!window->gap_ns || window->thread_gap_ns < window->gap_ns))
		window->gap_ns = window->thread_gap_ns;
	window->thread_gap_ns = 0;
}

static void feed_launches(const struct store_row *row)
{
	struct store_window *window = &row->rank->window;
	uint32_t thread_id = (uint32_t)get_number(row, LAUNCH_THREAD);
	uint64_t gap_ns = get_number(row, LAUNCH_GAP);

	if (thread_id != window->thread_id)
		thread_over(window);
	window->thread_id = thread_id;
	window->start_ns = get_time(row, STORE_START);
	window->duration_ns = get_number(row, STORE_DURATION);
	if (gap_ns > window->thread_gap_ns)
		window->thread_gap_ns = gap_ns;
}

void store_rows_launches_over(struct store_ranks *ranks, struct align *align)
{
	struct store_rank *rank;

	for (size_t i = 0; (rank = store_ranks_at(ranks, i)); i++) {
		struct store_window *window = &rank->window;
		struct align_host host = align_host_unknown(window->start_ns, window->duration_ns);

		thread_over(window);
		host.launch_gap_ns = window->gap_ns;
		if (window->gap_ns && rank->process >= 0)
			align_host(align, rank->process, &host);
		*window = (struct store_window){.thread_id = 0};
	}
}

/* clang-format off */
const struct store_table store_tables[STORE_TABLES] = {
	[STORE_STAGES] = {
		.scanning = {
			.table = TABLE_STAGES,
			.columns = {"instance", "start_ns", "duration_ns", [STAGE_STEP] = "step", [STAGE_STAGE] = "stage",
				[STAGE_THREAD] = "thread_id", [STAGE_DEPTH] = "depth"},
		},
		.time_ns = time_end,
		.feed = feed_stage,
	},
	[STORE_OPS] = {
		.scanning = {
			.table = TABLE_COLLECTIVES,
			.columns = {"instance", "host_start_ns", "host_duration_ns", [STORE_OP_STEP] = "step",
				[STORE_OP_COMMUNICATOR] = "communicator", [STORE_OP_SEQ] = "seq", [STORE_OP_OP] = "op",
				[STORE_OP_BYTES] = "bytes", [STORE_OP_PEER] = "peer",
				[STORE_OP_DEVICE_START] = "device_start_ns",
				[STORE_OP_DEVICE_DURATION] = "device_duration_ns", [STORE_OP_TIER] = "tier",
				[STORE_OP_FAMILY] = "family", [STORE_OP_SEQ_FROM] = "seq_from",
				[STORE_OP_CAPTURED] = "captured", [STORE_OP_RESULT] = "result"},
			.words = {[WORD_DEVICE] = "device", [WORD_GLOO] = "gloo", [WORD_ATTACH] = "attach"},
		},
		.accepts = accepts_op,
		.time_ns = time_op,
		.feed = feed_op,
	},
	[STORE_STEPS] = {
		.scanning = {
			.table = TABLE_STEPS,
			.columns = {"instance", "start_ns", "duration_ns", [STORE_STEP_STEP] = "step", [STORE_STEP_UNSPLIT] = "unsplit"},
		},
		.time_ns = time_end,
		.after_ns = STEP_AFTER_NS,
		.feed = feed_step,
	},
	[STORE_SAMPLES] = {
		.scanning = {
			.table = TABLE_HOST_SAMPLES,
			.columns = {"instance", "start_ns", "duration_ns", [SAMPLE_STATE] = "state",
#define HOST_MEASURE(...)
#define HOST_SAMPLED(id, member, ...) [SAMPLE_##id] = #member,
#include "analyzers/align/host_measures.def"
#undef HOST_MEASURE
			},
		},
		.time_ns = time_start,
		.feed = feed_sample,
		.with_waits = true,
	},
	[STORE_LAUNCHES] = {
		.scanning = {
			.table = TABLE_LAUNCHES,
			.columns = {"instance", "start_ns", "duration_ns", [LAUNCH_GAP] = "longest_gap_ns",
				[LAUNCH_THREAD] = "thread_id"},
		},
		.time_ns = time_end,
		.feed = feed_launches,
		.in_windows = true,
	},
	[STORE_LOST] = {
		.scanning = {
			.table = TABLE_DROPS,
			.columns = {"", "start_ns", "", [LOST_SOURCE] = "source", [LOST_REASON] = "reason",
				[LOST_COUNT] = "count"},
			.words = {[WORD_CALL] = "call", [WORD_KERNEL] = "kernel", [WORD_LOST] = "lost in the kernel"},
		},
		.accepts = accepts_lost,
		.time_ns = time_start,
		.feed = feed_lost,
		.of_none = true,
	},
	[STORE_STANDINGS] = {
		.scanning = {
			.table = TABLE_STANDINGS,
			.columns = {"instance", "start_ns", "duration_ns", [STANDING_STATE] = "state",
				[STANDING_ENDED] = "ended_ns", [STANDING_PROGRESS] = "progress_ns",
				[STANDING_STEP_END] = "step_end_ns", [STANDING_STEPS] = "steps",
				[STANDING_STAGE] = "stage", [STANDING_STAGE_SINCE] = "stage_since_ns",
				[STANDING_CPU] = "cpu_ns", [STANDING_MAIN_THREAD] = "main_thread"},
		},
		.time_ns = time_start,
		.feed = feed_standing,
		.of_ended = true,
	},
	[STORE_CALLS] = {
		.scanning = {
			.table = TABLE_STANDING_CALLS,
			.columns = {"instance", "start_ns", "", [CALL_COMMUNICATOR] = "communicator",
				[CALL_SEQ] = "seq", [CALL_SEQ_FROM] = "seq_from", [CALL_OP] = "op",
				[CALL_DTYPE] = "dtype", [CALL_COUNT] = "count", [CALL_BYTES] = "bytes",
				[CALL_TIME] = "called_ns", [CALL_COMPLETED] = "completed_seq"},
		},
		.time_ns = time_start,
		.feed = feed_call,
		.of_ended = true,
	},
	/* Those that judge hardware are counts and states: what they have of a fraction says nothing. */
	[STORE_GAUGES] = {
		.scanning = {
			.table = TABLE_GAUGES,
			.columns = {"", "start_ns", "duration_ns", [GAUGE_OBJECT] = "object", [GAUGE_NAME] = "name",
				[GAUGE_VALUE] = "value"},
		},
		.accepts = accepts_gauge,
		.time_ns = time_start,
		.feed = feed_gauge,
		.of_none = true,
		.of_node = true,
	},
	[STORE_MESSAGES] = {
		.scanning = {
			.table = TABLE_KERNEL_MESSAGES,
			.columns = {"", "start_ns", "", [MESSAGE_KIND] = "kind", [MESSAGE_OBJECT] = "object",
				[MESSAGE_NUMBER] = "number", [MESSAGE_TEXT] = "message"},
			.words = {[WORD_XID] = "xid", [WORD_CARD_LOST] = "card_lost"},
		},
		.accepts = accepts_message,
		.time_ns = time_start,
		.feed = feed_message,
		.of_none = true,
		.of_node = true,
	},
	[STORE_WAITS] = {
		.scanning = {
			.table = TABLE_OFFCPU,
			.columns = {"instance", "start_ns", "duration_ns", [WAIT_THREAD] = "thread_id",
				[WAIT_RUN_DELAY] = "run_delay_ns", [WAIT_PID] = "previous_pid",
				[WAIT_NAME] = "previous_name"},
		},
		.accepts = accepts_wait,
		.time_ns = time_end,
		.feed = feed_wait,
	},
	/* The preemptor of these is unknown. */
	[STORE_WAITS + 1] = {
		.scanning = {
			.table = TABLE_OFFCPU_SUM,
			.columns = {"instance", "start_ns", "duration_ns", [WAIT_THREAD] = "thread_id",
				[WAIT_RUN_DELAY] = "run_delay_ns", [WAIT_PID] = "", [WAIT_NAME] = ""},
		},
		.time_ns = time_end,
		.feed = feed_wait,
	},
};
/* clang-format on */
