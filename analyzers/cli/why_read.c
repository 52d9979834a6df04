/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the store. See why_read.h. */
#include "analyzers/cli/why_read.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"
#include "analyzers/base/text.h"
#include "analyzers/offline/store_feed.h"
#include "analyzers/steps/stage_names.h"

#define AROUND_NS 300000000000ULL /* before and after: where the usual steps are from */
#define ADVANCE_NS 100000000ULL	  /* as the daemon does */
#define BEFORE_NS 10000000000ULL  /* what began so long before the first step reaches into it */
#define WHY_LINE_FRAMES 64	  /* as many Python frames as the kernel records */
#define THREAD_NS 60000000000ULL  /* before the time: stages that show the step thread */

struct cmd_why_frames {
	struct why *why;
	const struct align *align;
	int failed;
};

static void cmd_why_on_frame(void *arg, uint32_t job, const struct frame *frame)
{
	struct cmd_why_frames *frames = arg;
	struct align_job_info info;

	if (!frames->failed && align_job_info(frames->align, job, &info))
		frames->failed = why_frame(frames->why, info.id, frame);
}

static uint64_t cmd_why_from(const struct cmd_why *cmd)
{
	return cmd->since_ns > AROUND_NS ? cmd->since_ns - AROUND_NS : 1;
}

int cmd_why_feed(struct cmd_why *cmd)
{
	const struct store_feed_options options = {
		.since_ns = cmd_why_from(cmd),
		.until_ns = cmd->until_ns + AROUND_NS,
		.job = cmd->job,
		.warning = tool_warn,
	};
	struct cmd_why_frames frames = {.why = cmd->why};
	struct align *align = align_new(&(struct align_sink){.frame = cmd_why_on_frame, .arg = &frames});
	struct store_feed *feed = NULL;
	uint64_t next_ns, advanced_ns = 0;
	char error[1024] = "out of memory";
	int r = align ? store_feed_open(cmd->state_dir, &options, &feed, error, sizeof(error)) : -ENOMEM;

	frames.align = align;
	while (r >= 0 && !frames.failed && (next_ns = store_feed_source.next(feed)) != UINT64_MAX) {
		if (next_ns >= advanced_ns + ADVANCE_NS) {
			align_advance(align, next_ns);
			advanced_ns = next_ns;
		}
		r = store_feed_source.feed(feed, &(struct source_sink){.align = align}, error, sizeof(error));
	}
	if (r >= 0)
		align_end(align);
	store_feed_close(feed);
	align_free(align);
	return r < 0 || frames.failed ? tool_fail(1, "%s", error) : 0;
}

struct cmd_why_step {
	uint64_t start_ns, duration_ns;
	unsigned count;
};

static int cmd_why_on_step(void *arg, sqlite3_stmt *row)
{
	struct cmd_why_step *step = arg;

	if (step->count++ == 0) {
		step->start_ns = tool_row_count(row, 0);
		step->duration_ns = tool_row_count(row, 1);
	}
	return 0;
}

/* The newest step of that number: its end is the time. */
int cmd_why_find_step(struct cmd_why *cmd)
{
	struct cmd_why_step step = {0};
	char time[TOOL_TEXT_BYTES];
	int r = tool_each(cmd->reader,
		sqlite3_mprintf(
			"SELECT s.start_ns, s.duration_ns FROM steps s JOIN ranks r ON r.instance = s.instance WHERE "
			"s.rank = %lld AND s.step = %lld AND (%Q IS NULL OR r.job = %Q) ORDER BY s.start_ns DESC",
			(long long)cmd->ranks.range[0].first, (long long)cmd->step, cmd->job, cmd->job),
		cmd_why_on_step, &step);

	if (r)
		return r;
	if (!step.count)
		return tool_fail(1, "the store has no step %" PRIu64 " of rank %" PRId64 "%s%s", cmd->step,
			cmd->ranks.range[0].first, cmd->job ? " of job " : "", cmd->job ? cmd->job : "");
	if (step.count > 1)
		(void)tool_fail(0, "%u processes have such a step; this is the newest, of %s", step.count,
			tool_time(step.start_ns, time));
	cmd->until_ns = step.start_ns + step.duration_ns;
	cmd->since_ns = cmd->until_ns - 1;
	return 0;
}

static int cmd_why_on_count(void *arg, sqlite3_stmt *row)
{
	*(uint64_t *)arg = tool_row_count(row, 0);
	return 0;
}

int cmd_why_no_steps(struct cmd_why *cmd)
{
	const char *of = cmd->job ? " of job " : "", *job = cmd->job ? cmd->job : "";
	long long rank = (long long)cmd->ranks.range[0].first;
	uint64_t processes = 0, steps = 0;
	int r = tool_each(cmd->reader,
		sqlite3_mprintf("SELECT count(*) FROM ranks WHERE rank = %lld AND (%Q IS NULL OR job = %Q)", rank,
			cmd->job, cmd->job),
		cmd_why_on_count, &processes);

	if (!r)
		r = tool_each(cmd->reader,
			sqlite3_mprintf("SELECT count(*) FROM steps WHERE rank = %lld AND start_ns + duration_ns "
					"BETWEEN %lld AND %lld AND start_ns > %lld "
					"AND instance IN (SELECT instance FROM ranks WHERE %Q IS NULL OR job = %Q)",
				rank, (long long)cmd->since_ns, (long long)cmd->until_ns, (long long)cmd_why_from(cmd),
				cmd->job, cmd->job),
			cmd_why_on_count, &steps);
	if (r)
		return r;
	if (!processes)
		return tool_fail(1,
			"the store has no rank %lld%s%s; tracectl query 'SELECT DISTINCT rank, job FROM ranks' lists "
			"those it has",
			rank, of, job);
	if (!steps)
		return tool_fail(1, "no step of rank %lld%s%s was seen then", rank, of, job);
	return tool_fail(
		1, "the steps of rank %lld%s%s then cannot be aligned with those of the other ranks", rank, of, job);
}

/* The process and the step thread: of the most time in stages within steps. */
static int cmd_why_on_thread(void *arg, sqlite3_stmt *row)
{
	struct cmd_why *cmd = arg;

	cmd->instance = sqlite3_column_int64(row, 0);
	cmd->thread = sqlite3_column_int64(row, 1);
	cmd->pid = sqlite3_column_int64(row, 2);
	return 0;
}

static int cmd_why_on_stage(void *arg, sqlite3_stmt *row)
{
	struct cmd_why *cmd = arg;
	const char *word = (const char *)sqlite3_column_text(row, 2);
	const struct why_stage stage = {
		.start_ns = tool_row_count(row, 0),
		.end_ns = tool_row_count(row, 0) + tool_row_count(row, 1),
		.activity = activity_of_stage(stage_of_stage(word ? word : "").kind),
	};

	return stage.activity < ACTIVITY_MAX ? why_stage(cmd->why, &stage) : 0;
}

static int cmd_why_on_off(void *arg, sqlite3_stmt *row)
{
	struct cmd_why *cmd = arg;

	return why_off(cmd->why, &(struct why_off){
					 .start_ns = tool_row_count(row, 0),
					 .end_ns = tool_row_count(row, 0) + tool_row_count(row, 1),
					 .ready_ns = tool_row_count(row, 2),
					 .pid = (uint32_t)sqlite3_column_int64(row, 3),
					 .name = (const char *)sqlite3_column_text(row, 4),
				 });
}

static int cmd_why_on_off_other(void *arg, sqlite3_stmt *row)
{
	struct cmd_why *cmd = arg;

	return why_off_other(cmd->why, &(struct why_off){
					       .start_ns = tool_row_count(row, 0),
					       .end_ns = tool_row_count(row, 1),
					       .pid = (uint32_t)sqlite3_column_int64(row, 2),
					       .name = (const char *)sqlite3_column_text(row, 3),
				       });
}

static int cmd_why_on_short(void *arg, sqlite3_stmt *row)
{
	struct cmd_why *cmd = arg;

	return why_short(cmd->why, &(struct why_short){
					   .start_ns = tool_row_count(row, 0),
					   .off_ns = tool_row_count(row, 1),
					   .ready_ns = tool_row_count(row, 2),
				   });
}

static int cmd_why_on_covered(void *arg, sqlite3_stmt *row)
{
	struct cmd_why *cmd = arg;

	return why_covered(cmd->why, tool_row_count(row, 0), tool_row_count(row, 0) + tool_row_count(row, 1));
}

/* What the thread went through; nothing where L3 was off. %lld: instance, from, until, thread. */
static const struct {
	const char *sql;
	int (*row)(void *arg, sqlite3_stmt *row);
} cmd_why_reads[] = {
	/* L3 was on where it left a row: short intervals in sums, long ones alone. */
	{"SELECT start_ns, duration_ns FROM (SELECT start_ns, duration_ns, instance, thread_id FROM offcpu_sums "
	 "UNION ALL SELECT start_ns, duration_ns, instance, thread_id FROM offcpu) "
	 "WHERE instance = %lld AND start_ns BETWEEN %lld AND %lld AND thread_id = %lld ORDER BY start_ns",
		cmd_why_on_covered},
	{"SELECT start_ns, duration_ns, stage FROM stages WHERE instance = %lld AND start_ns BETWEEN %lld AND %lld AND "
	 "thread_id = %lld ORDER BY start_ns, duration_ns DESC",
		cmd_why_on_stage},
	{"SELECT start_ns, duration_ns, run_delay_ns, previous_pid, previous_name FROM offcpu WHERE instance = %lld "
	 "AND start_ns BETWEEN %lld AND %lld AND thread_id = %lld ORDER BY start_ns",
		cmd_why_on_off},
	{"SELECT start_ns, duration_ns, run_delay_ns FROM offcpu_sums WHERE instance = %lld AND start_ns BETWEEN %lld "
	 "AND %lld AND thread_id = %lld ORDER BY start_ns",
		cmd_why_on_short},
	{"SELECT start_ns + duration_ns - run_delay_ns, start_ns + duration_ns, previous_pid, previous_name FROM "
	 "offcpu "
	 "WHERE instance = %lld AND start_ns BETWEEN %lld AND %lld AND thread_id <> %lld AND run_delay_ns > 0 "
	 "ORDER BY 1",
		cmd_why_on_off_other},
};

int cmd_why_read_thread(struct cmd_why *cmd)
{
	uint64_t since_ns, until_ns;
	int r;

	why_span(cmd->why, &since_ns, &until_ns);
	if (since_ns >= until_ns)
		return 0;
	r = tool_each(cmd->reader,
		sqlite3_mprintf(
			"SELECT s.instance, s.thread_id, r.pid FROM stages s JOIN ranks r ON r.instance = s.instance "
			"WHERE "
			"s.rank = %lld AND s.start_ns BETWEEN %lld AND %lld AND s.depth = 0 AND s.step IS NOT NULL AND "
			"(%Q IS NULL OR r.job = %Q) GROUP BY 1, 2 ORDER BY sum(s.duration_ns)",
			(long long)cmd->ranks.range[0].first, (long long)(cmd->since_ns - THREAD_NS),
			(long long)cmd->until_ns, cmd->job, cmd->job),
		cmd_why_on_thread, cmd);
	for (size_t i = 0; r == 0 && cmd->thread && i < sizeof(cmd_why_reads) / sizeof(cmd_why_reads[0]); i++)
		r = tool_each(cmd->reader,
			sqlite3_mprintf(cmd_why_reads[i].sql, (long long)cmd->instance,
				(long long)(since_ns - BEFORE_NS), (long long)until_ns, (long long)cmd->thread),
			cmd_why_reads[i].row, cmd);
	return r;
}

static double cmd_why_a_step(sqlite3_stmt *row, int column, double steps)
{
	return steps > 0 ? sqlite3_column_double(row, column) / steps : 0;
}

static int cmd_why_on_file(void *arg, sqlite3_stmt *row)
{
	struct cmd_why *cmd = arg;
	struct cmd_why_file *file = &cmd->file[cmd->files];

	tool_row_text(row, 0, file->operation, sizeof(file->operation));
	tool_row_text(row, 1, file->name, sizeof(file->name));
	file->ns = sqlite3_column_double(row, 2);
	file->chosen_ns = cmd_why_a_step(row, 2, cmd->chosen_steps);
	file->usual_ns = cmd_why_a_step(row, 3, cmd->usual_steps);
	file->calls = sqlite3_column_int64(row, 4);
	return ++cmd->files == WHY_FILES_SHOWN;
}

static int cmd_why_on_steps(void *arg, sqlite3_stmt *row)
{
	struct cmd_why *cmd = arg;

	cmd->chosen_steps = sqlite3_column_double(row, 0);
	cmd->usual_steps = sqlite3_column_double(row, 1);
	return 0;
}

static int cmd_why_on_cause(void *arg, sqlite3_stmt *row)
{
	struct cmd_why *cmd = arg;
	struct cmd_why_cause *cause = &cmd->cause[cmd->causes];

	cause->kind = (enum cmd_why_cause_kind)sqlite3_column_int(row, 0);
	tool_row_text(row, 1, cause->name, sizeof(cause->name));
	cause->chosen = cmd_why_a_step(row, 2, cmd->chosen_steps);
	cause->usual = cmd_why_a_step(row, 3, cmd->usual_steps);
	return ++cmd->causes == WHY_CAUSES_SHOWN;
}

/* Of frames "kernel OUTER\n...kernel INNER", the innermost ones. */
static void cmd_why_place_name(const char *frames, char name[WHY_PLACE_BYTES])
{
	const char *end = frames + strlen(frames);
	size_t used = 0;

	name[0] = 0;
	for (unsigned i = 0; i < WHY_PLACE_FRAMES && end > frames && used < WHY_PLACE_BYTES; i++) {
		const char *line = end;

		while (line > frames && line[-1] != '\n')
			line--;
		if (strncmp(line, "kernel ", 7) == 0)
			used += (size_t)snprintf(name + used, WHY_PLACE_BYTES - used, "%s%.*s", used ? " < " : "",
				(int)(end - line - 7), line + 7);
		end = line > frames ? line - 1 : frames;
	}
	(void)text_clean(name);
}

/* Stacks that differ only in what is not shown are one place. */
static int cmd_why_add_place(
	const struct cmd_why *cmd, sqlite3_stmt *row, const char *name, struct cmd_why_place *places, size_t *count)
{
	size_t i = 0;

	while (i < *count && strcmp(places[i].name, name) != 0)
		i++;
	if (i == WHY_PLACES_MAX)
		return 0;
	if (i == *count)
		places[(*count)++] = (struct cmd_why_place){0};
	snprintf(places[i].name, sizeof(places[i].name), "%s", name);
	places[i].chosen_ns += cmd_why_a_step(row, 1, cmd->chosen_steps);
	places[i].usual_ns += cmd_why_a_step(row, 2, cmd->usual_steps);
	return 0;
}

static int cmd_why_compare_growth(const void *a, const void *b)
{
	const struct cmd_why_place *x = a, *y = b;

	return ORDER(y->chosen_ns - y->usual_ns, x->chosen_ns - x->usual_ns);
}

static int cmd_why_on_place(void *arg, sqlite3_stmt *row)
{
	struct cmd_why *cmd = arg;
	const char *frames = (const char *)sqlite3_column_text(row, 0);
	char name[WHY_PLACE_BYTES];

	cmd_why_place_name(frames ? frames : "", name);
	return cmd_why_add_place(cmd, row, name, cmd->place, &cmd->places);
}

/* Frames "python OUTER\n...python INNER". */
static void cmd_why_line_name(const char *frames, char name[WHY_PLACE_BYTES])
{
	struct stack_frame frame[WHY_LINE_FRAMES];
	struct stack_thread thread = {.frame = frame};
	char *text = strdup(frames);

	name[0] = 0;
	if (text) {
		thread.frames = stack_frames_parse(text, frame, WHY_LINE_FRAMES);
		(void)text_clean((char *)stack_place(&thread, name));
	}
	free(text);
}

static int cmd_why_on_line(void *arg, sqlite3_stmt *row)
{
	struct cmd_why *cmd = arg;
	const char *frames = (const char *)sqlite3_column_text(row, 0);
	char name[WHY_PLACE_BYTES];

	cmd_why_line_name(frames ? frames : "", name);
	return cmd_why_add_place(cmd, row, name, cmd->line, &cmd->lines);
}

static int cmd_why_on_swapped(void *arg, sqlite3_stmt *row)
{
	struct cmd_why *cmd = arg;

	cmd->swapped_bytes = sqlite3_column_type(row, 0) == SQLITE_NULL ? NAN : sqlite3_column_double(row, 0);
	return 0;
}

/*
 * A row in the chosen steps, from 0 to 1: of something that began then, all of it; of a sum over span_ns, the part of that time
 * that is theirs. %lld: until, since, since, until.
 */
#define WHY_CHOSEN \
	"CASE WHEN span_ns > 0 THEN max(0, min(start_ns + span_ns, %lld) - max(start_ns, %lld)) * 1.0 / span_ns ELSE " \
	"start_ns BETWEEN %lld AND %lld END"
#define WHY_SECOND "1000000000"

/* Steps in seconds of which L3 has rows: others have none of these. */
static int cmd_why_count_steps(struct cmd_why *cmd, long long since, long long until, long long from, long long to)
{
	return tool_each(cmd->reader,
		sqlite3_mprintf(
			"WITH seen AS (SELECT start_ns / " WHY_SECOND " AS second FROM (SELECT start_ns, instance "
			"FROM offcpu UNION ALL SELECT start_ns, instance FROM offcpu_sums UNION ALL SELECT "
			"start_ns, instance FROM system_sums UNION ALL SELECT start_ns + duration_ns, instance FROM "
			"system_sums) WHERE instance = %lld AND start_ns BETWEEN %lld AND %lld) SELECT "
			"sum(start_ns BETWEEN %lld AND %lld), sum(start_ns NOT BETWEEN %lld AND %lld) FROM steps "
			"WHERE instance = %lld AND start_ns BETWEEN %lld AND %lld AND start_ns / " WHY_SECOND
			" IN (SELECT second FROM seen)",
			(long long)cmd->instance, from, to, since, until, since, until, (long long)cmd->instance, from,
			to),
		cmd_why_on_steps, cmd);
}

/* What the step thread was blocked on and what the kernel did; what grew most, first. %lld: as WHY_CHOSEN, kinds. */
static int cmd_why_read_causes(struct cmd_why *cmd, long long since, long long until, long long from, long long to)
{
	long long thread = cmd->thread;

	return tool_each(cmd->reader,
		sqlite3_mprintf(
			"SELECT kind, word, sum(n * part) AS chosen, sum(n * (1 - part)) AS usual FROM (SELECT "
			"kind, word, n, " WHY_CHOSEN " AS part FROM (SELECT %d AS kind, waits_on AS word, start_ns, "
			"0 AS span_ns, duration_ns - run_delay_ns AS n, instance, thread_id FROM offcpu WHERE "
			"waits_on IS NOT NULL UNION ALL SELECT %d, operation || CASE operation WHEN 'send' THEN 's "
			"to sockets' ELSE 's of files' END, start_ns, CASE WHEN file IS NULL THEN " WHY_SECOND
			" ELSE 0 END, duration_ns, instance, thread_id FROM file_calls UNION ALL SELECT CASE WHEN "
			"time_ns IS NULL THEN %d ELSE %d END, cause || coalesce(' (' || device || ')', ''), start_ns, "
			"duration_ns, coalesce(time_ns, count), "
			"instance, NULL FROM system_sums) WHERE instance = %lld AND start_ns BETWEEN %lld AND %lld "
			"AND coalesce(thread_id, %lld) = %lld) GROUP BY 1, 2 ORDER BY kind = %d DESC, "
			"chosen * %f - usual * %f DESC",
			until, since, since, until, WHY_CAUSE_BLOCKED, WHY_CAUSE_KERNEL, WHY_CAUSE_COUNTED,
			WHY_CAUSE_KERNEL, (long long)cmd->instance, from, to, thread, thread, WHY_CAUSE_COUNTED,
			cmd->usual_steps, cmd->chosen_steps),
		cmd_why_on_cause, cmd);
}

/* In order of growth a step: both sides times both numbers of steps. %s: time, table. */
static int cmd_why_read_places(struct cmd_why *cmd, long long since, long long until, long long from, long long to,
	const char *time, const char *table, int (*on_row)(void *arg, sqlite3_stmt *row))
{
	return tool_each(cmd->reader,
		sqlite3_mprintf(
			"SELECT s.frames, sum(n * part) AS chosen, sum(n * (1 - part)) AS usual FROM (SELECT stack, "
			"%s AS n, start_ns BETWEEN %lld AND %lld AS part FROM %s WHERE instance = %lld AND start_ns "
			"BETWEEN %lld AND %lld AND thread_id = %lld) o JOIN (SELECT DISTINCT id, frames FROM "
			"call_stacks) s ON s.id = o.stack GROUP BY o.stack ORDER BY chosen * %f - usual * %f DESC",
			time, since, until, table, (long long)cmd->instance, from, to, (long long)cmd->thread,
			cmd->usual_steps, cmd->chosen_steps),
		on_row, cmd);
}

/* Of the chosen steps, and of those around them. */
int cmd_why_read_details(struct cmd_why *cmd, const struct why_result *result)
{
	long long since = (long long)result->begin_ns, until = (long long)result->end_ns - 1, instance = cmd->instance;
	long long from = (long long)cmd_why_from(cmd), to = (long long)(cmd->until_ns + AROUND_NS);
	int r = cmd_why_count_steps(cmd, since, until, from, to);

	r = r
		    ?: tool_each(cmd->reader,
			       sqlite3_mprintf(
				       "SELECT operation, file, sum(duration_ns * part) AS chosen, sum(duration_ns * "
				       "(1 - "
				       "part)) AS usual, sum(part) FROM (SELECT *, start_ns BETWEEN %lld AND %lld AS "
				       "part "
				       "FROM file_calls WHERE instance = %lld AND file IS NOT NULL AND start_ns "
				       "BETWEEN "
				       "%lld AND %lld) GROUP BY 1, 2 ORDER BY chosen * %f - usual * %f DESC LIMIT %d",
				       since, until, instance, from, to, cmd->usual_steps, cmd->chosen_steps,
				       WHY_FILES_SHOWN),
			       cmd_why_on_file, cmd);
	r = r
		    ?: tool_each(cmd->reader,
			       sqlite3_mprintf("SELECT max(swapped_bytes) FROM host_samples WHERE instance = %lld AND "
					       "start_ns <= "
					       "%lld AND start_ns + duration_ns >= %lld",
				       instance, until, since),
			       cmd_why_on_swapped, cmd);
	r = r
		    ?: cmd_why_read_places(
			       cmd, since, until, from, to, "duration_ns - run_delay_ns", "offcpu", cmd_why_on_place);
	r = r ?: cmd_why_read_places(cmd, since, until, from, to, "duration_ns", "wait_stacks", cmd_why_on_line);
	qsort(cmd->place, cmd->places, sizeof(cmd->place[0]), cmd_why_compare_growth);
	qsort(cmd->line, cmd->lines, sizeof(cmd->line[0]), cmd_why_compare_growth);
	return r ?: cmd_why_read_causes(cmd, since, until, from, to);
}
