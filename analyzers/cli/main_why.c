/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libexec/ranktrace/why, which is `tracectl why`: where the time of one step, or of some time, of one rank went, beside
 * its usual step and its peers. Works with the daemon down. Exit codes: 0 done; 1 the store failed, or has no such
 * step; 2 usage.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/term_table.h"
#include "analyzers/base/text.h"
#include "analyzers/base/units.h"
#include "analyzers/finding/finding.h"
#include "analyzers/offline/store_feed.h"
#include "analyzers/steps/stage_names.h"
#include "analyzers/store/reader.h"
#include "analyzers/tool/options.h"
#include "analyzers/tool/tool_json.h"
#include "analyzers/why/why.h"

#define SINCE "1m"
#define AROUND_NS 300000000000ULL /* before and after: where the usual steps are from */
#define SHOWN_PART 0.01		  /* of the step: smaller excesses are summed */
#define ADVANCE_NS 100000000ULL	  /* as the daemon does */

static const char usage[] =
	"usage: tracectl why --rank RANK [--step N | --since TIME [--until TIME]] [--job JOB] [--json] [--state-dir "
	"DIR]\n"
	"Shows where the time of a rank's step went: the excess of each part over its usual value, and the peers' values.\n"
	"The excesses add up to that of the step.\n"
	"  --rank RANK      the rank\n"
	"  --step N         explain this step (tracectl query 'SELECT rank, step FROM steps' lists them)\n"
	"  --since TIME     explain the mean of the steps since then: 30s, 5m ago, or a date and time (" SINCE ")\n"
	"  --until TIME     end of the window (now)\n"
	"  --job JOB        only this job (the newest that has the rank)\n"
	"  --json           write an object\n"
	"  --state-dir DIR  state folder (RANKTRACE_STATE_DIR; else " RANKTRACE_STATEDIR ")\n"
	"  --help, --version\n";

#define FILES_SHOWN 3
#define FILE_BYTES 128 /* of a name of file_calls */

/* Slow calls of the rank on one file, of all its threads, in the chosen time. */
struct cmd_why_file {
	char operation[8], name[FILE_BYTES];
	double ns;
	int64_t calls;
};

#define CAUSES_SHOWN 16
#define CAUSE_BYTES 32

/* What the step thread was blocked on, or what the kernel did to the rank. A step, in the mean. */
struct cmd_why_cause {
	bool blocked;
	char name[CAUSE_BYTES];
	double chosen_ns, usual_ns;
};

struct cmd_why {
	const char *state_dir, *job;
	struct ranges ranks;
	uint64_t since_ns, until_ns;
	uint64_t step; /* 0: a time */
	bool json;
	struct why *why;
	const struct align *align;
	int64_t instance;
	int64_t thread;
	int failed;
	size_t files;
	struct cmd_why_file file[FILES_SHOWN];
	double chosen_steps, usual_steps; /* of the causes */
	size_t causes;
	struct cmd_why_cause cause[CAUSES_SHOWN];
};

static void cmd_why_on_frame(void *arg, uint32_t job, const struct frame *frame)
{
	struct cmd_why *cmd = arg;
	struct align_job_info info;

	if (!cmd->failed && align_job_info(cmd->align, job, &info))
		cmd->failed = why_frame(cmd->why, info.id, frame);
}

/* All frames around the time. */
static int cmd_why_feed(struct cmd_why *cmd)
{
	const struct store_feed_options options = {
		.since_ns = cmd->since_ns > AROUND_NS ? cmd->since_ns - AROUND_NS : 1,
		.until_ns = cmd->until_ns + AROUND_NS,
		.job = cmd->job,
		.warning = tool_warn,
	};
	struct align *align = align_new(&(struct align_sink){.frame = cmd_why_on_frame, .arg = cmd});
	struct store_feed *feed = NULL;
	uint64_t next_ns, advanced_ns = 0;
	char error[1024] = "out of memory";
	int r = align ? store_feed_open(cmd->state_dir, &options, &feed, error, sizeof(error)) : -ENOMEM;

	cmd->align = align;
	while (r >= 0 && !cmd->failed && (next_ns = store_feed_source.next(feed)) != UINT64_MAX) {
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
	return r < 0 || cmd->failed ? tool_fail(1, "%s", error) : 0;
}

struct cmd_why_step {
	uint64_t start_ns, duration_ns;
	unsigned count;
};

static int cmd_why_on_step(void *arg, sqlite3_stmt *row)
{
	struct cmd_why_step *step = arg;

	if (step->count++ == 0) {
		step->start_ns = (uint64_t)sqlite3_column_int64(row, 0);
		step->duration_ns = (uint64_t)sqlite3_column_int64(row, 1);
	}
	return 0;
}

/* The newest step of that number: its end is the time. */
static int cmd_why_find_step(struct cmd_why *cmd, struct reader *reader)
{
	struct cmd_why_step step = {0};
	char error[1024], time[TOOL_TEXT_BYTES], *sql;
	int r;

	sql = sqlite3_mprintf("SELECT s.start_ns, s.duration_ns FROM steps s JOIN ranks r ON r.instance = s.instance "
			      "WHERE s.rank = %lld "
			      "AND s.step = %lld AND (%Q IS NULL OR r.job = %Q) ORDER BY s.start_ns DESC",
		(long long)cmd->ranks.range[0].first, (long long)cmd->step, cmd->job, cmd->job);
	if (!sql)
		return tool_fail(1, "out of memory");
	r = reader_each(reader, sql, cmd_why_on_step, &step, error, sizeof(error));
	sqlite3_free(sql);
	if (r < 0)
		return tool_fail(1, "%s", error);
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

/* The process and the step thread: of the most time in stages within steps. */
static int cmd_why_on_thread(void *arg, sqlite3_stmt *row)
{
	struct cmd_why *cmd = arg;

	cmd->instance = sqlite3_column_int64(row, 0);
	cmd->thread = sqlite3_column_int64(row, 1);
	return 0;
}

static int cmd_why_on_stage(void *arg, sqlite3_stmt *row)
{
	struct cmd_why *cmd = arg;
	const char *word = (const char *)sqlite3_column_text(row, 2);
	const struct why_stage stage = {
		.start_ns = (uint64_t)sqlite3_column_int64(row, 0),
		.end_ns = (uint64_t)(sqlite3_column_int64(row, 0) + sqlite3_column_int64(row, 1)),
		.activity = activity_of_stage(stage_of_stage(word ? word : "").kind),
	};

	return stage.activity < ACTIVITY_MAX ? why_stage(cmd->why, &stage) : 0;
}

static int cmd_why_on_off(void *arg, sqlite3_stmt *row)
{
	struct cmd_why *cmd = arg;

	return why_off(
		cmd->why, &(struct why_off){
				  .start_ns = (uint64_t)sqlite3_column_int64(row, 0),
				  .end_ns = (uint64_t)(sqlite3_column_int64(row, 0) + sqlite3_column_int64(row, 1)),
				  .ready_ns = (uint64_t)sqlite3_column_int64(row, 2),
				  .pid = (uint32_t)sqlite3_column_int64(row, 3),
				  .name = (const char *)sqlite3_column_text(row, 4),
			  });
}

static int cmd_why_on_off_other(void *arg, sqlite3_stmt *row)
{
	struct cmd_why *cmd = arg;

	return why_off_other(cmd->why, &(struct why_off){
					       .start_ns = (uint64_t)sqlite3_column_int64(row, 0),
					       .end_ns = (uint64_t)sqlite3_column_int64(row, 1),
					       .pid = (uint32_t)sqlite3_column_int64(row, 2),
					       .name = (const char *)sqlite3_column_text(row, 3),
				       });
}

static int cmd_why_on_covered(void *arg, sqlite3_stmt *row)
{
	struct cmd_why *cmd = arg;
	int64_t start_ns = sqlite3_column_int64(row, 0);

	return why_covered(cmd->why, (uint64_t)start_ns, (uint64_t)(start_ns + sqlite3_column_int64(row, 1)));
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
	 "thread_id = %lld "
	 "ORDER BY start_ns, duration_ns DESC",
		cmd_why_on_stage},
	{"SELECT start_ns, duration_ns, run_delay_ns, previous_pid, previous_name FROM offcpu WHERE instance = %lld "
	 "AND start_ns BETWEEN %lld AND %lld AND thread_id = %lld ORDER BY start_ns",
		cmd_why_on_off},
	{"SELECT start_ns + duration_ns - run_delay_ns, start_ns + duration_ns, previous_pid, previous_name FROM "
	 "offcpu "
	 "WHERE instance = %lld AND start_ns BETWEEN %lld AND %lld AND thread_id <> %lld AND run_delay_ns > 0 ORDER BY "
	 "1",
		cmd_why_on_off_other},
};

static int cmd_why_read_thread(struct cmd_why *cmd, struct reader *reader)
{
	uint64_t since_ns, until_ns;
	char error[1024], *sql;
	int r;

	why_span(cmd->why, &since_ns, &until_ns);
	if (since_ns >= until_ns)
		return 0;
	sql = sqlite3_mprintf("SELECT s.instance, s.thread_id FROM stages s JOIN ranks r ON r.instance = s.instance "
			      "WHERE s.rank = %lld AND "
			      "s.start_ns BETWEEN %lld AND %lld AND s.depth = 0 AND s.step IS NOT NULL AND (%Q IS NULL "
			      "OR r.job = %Q) "
			      "GROUP BY 1, 2 ORDER BY sum(s.duration_ns)",
		(long long)cmd->ranks.range[0].first, (long long)cmd->since_ns - 60000000000LL,
		(long long)cmd->until_ns, cmd->job, cmd->job);
	r = sql ? reader_each(reader, sql, cmd_why_on_thread, cmd, error, sizeof(error)) : -ENOMEM;
	sqlite3_free(sql);
	for (size_t i = 0; r >= 0 && cmd->thread && i < sizeof(cmd_why_reads) / sizeof(cmd_why_reads[0]); i++) {
		/* What began before the first step reaches into it. */
		sql = sqlite3_mprintf(cmd_why_reads[i].sql, (long long)cmd->instance,
			(long long)since_ns - 10000000000LL, (long long)until_ns, (long long)cmd->thread);
		r = sql ? reader_each(reader, sql, cmd_why_reads[i].row, cmd, error, sizeof(error)) : -ENOMEM;
		sqlite3_free(sql);
	}
	return r < 0 ? tool_fail(1, "%s", r == -ENOMEM ? "out of memory" : error) : 0;
}

static int cmd_why_on_file(void *arg, sqlite3_stmt *row)
{
	struct cmd_why *cmd = arg;
	struct cmd_why_file *file = &cmd->file[cmd->files];
	const char *operation = (const char *)sqlite3_column_text(row, 0), *name = (const char *)sqlite3_column_text(row, 1);

	snprintf(file->operation, sizeof(file->operation), "%s", operation ? operation : "");
	snprintf(file->name, sizeof(file->name), "%s", name ? name : "");
	(void)text_clean(file->operation);
	(void)text_clean(file->name);
	file->ns = sqlite3_column_double(row, 2);
	file->calls = sqlite3_column_int64(row, 3);
	return ++cmd->files == FILES_SHOWN;
}

/* The costliest; none where L3 was off. Calls that begin in the chosen steps. */
static int cmd_why_read_files(struct cmd_why *cmd, struct reader *reader, const struct why_result *result)
{
	uint64_t since_ns = cmd->step ? cmd->until_ns - (uint64_t)result->chosen_ns : cmd->since_ns;
	char error[1024], *sql = sqlite3_mprintf("SELECT operation, file, sum(duration_ns), count(*) FROM file_calls WHERE "
						 "instance = %lld AND file IS NOT NULL AND start_ns BETWEEN %lld AND %lld "
						 "GROUP BY 1, 2 ORDER BY 3 DESC LIMIT %d",
				   (long long)cmd->instance, (long long)since_ns, (long long)cmd->until_ns, FILES_SHOWN);
	int r = sql ? reader_each(reader, sql, cmd_why_on_file, cmd, error, sizeof(error)) : -ENOMEM;

	sqlite3_free(sql);
	return r < 0 ? tool_fail(1, "%s", r == -ENOMEM ? "out of memory" : error) : 0;
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
	const char *name = (const char *)sqlite3_column_text(row, 1);

	cause->blocked = sqlite3_column_int(row, 0) != 0;
	snprintf(cause->name, sizeof(cause->name), "%s", name ? name : "");
	(void)text_clean(cause->name);
	cause->chosen_ns = cmd->chosen_steps > 0 ? sqlite3_column_double(row, 2) / cmd->chosen_steps : 0;
	cause->usual_ns = cmd->usual_steps > 0 ? sqlite3_column_double(row, 3) / cmd->usual_steps : 0;
	return ++cmd->causes == CAUSES_SHOWN;
}

/* %1$lld and %2$lld the chosen time, %3$lld the process, %4$lld and %5$lld that around it, %6$lld the step thread. */
static const struct {
	const char *sql;
	int (*row)(void *arg, sqlite3_stmt *row);
} cmd_why_cause_reads[] = {
	{"SELECT sum(start_ns BETWEEN %1$lld AND %2$lld), sum(start_ns NOT BETWEEN %1$lld AND %2$lld) FROM steps WHERE "
	 "instance = %3$lld AND start_ns BETWEEN %4$lld AND %5$lld",
		cmd_why_on_steps},
	{"SELECT blocked, word, sum(CASE WHEN start_ns BETWEEN %1$lld AND %2$lld THEN ns ELSE 0 END), "
	 "sum(CASE WHEN start_ns BETWEEN %1$lld AND %2$lld THEN 0 ELSE ns END) FROM ("
	 "SELECT 1 AS blocked, waits_on AS word, start_ns, duration_ns - run_delay_ns AS ns, instance, thread_id FROM offcpu "
	 "WHERE waits_on IS NOT NULL UNION ALL "
	 "SELECT 0, cause, start_ns, time_ns, instance, NULL FROM system_sums WHERE time_ns IS NOT NULL) "
	 "WHERE instance = %3$lld AND start_ns BETWEEN %4$lld AND %5$lld AND coalesce(thread_id, %6$lld) = %6$lld "
	 "GROUP BY 1, 2 ORDER BY 3 DESC",
		cmd_why_on_cause},
};

/* Nothing where L3 was off. */
static int cmd_why_read_causes(struct cmd_why *cmd, struct reader *reader, const struct why_result *result)
{
	uint64_t since_ns = cmd->step ? cmd->until_ns - (uint64_t)result->chosen_ns : cmd->since_ns;
	char error[1024];
	int r = 0;

	for (size_t i = 0; r >= 0 && i < sizeof(cmd_why_cause_reads) / sizeof(cmd_why_cause_reads[0]); i++) {
		char *sql = NULL;

		if (asprintf(&sql, cmd_why_cause_reads[i].sql, (long long)since_ns, (long long)cmd->until_ns,
			    (long long)cmd->instance, (long long)(since_ns > AROUND_NS ? since_ns - AROUND_NS : 1),
			    (long long)(cmd->until_ns + AROUND_NS), (long long)cmd->thread) < 0)
			return tool_fail(1, "out of memory");
		r = reader_each(reader, sql, cmd_why_cause_reads[i].row, cmd, error, sizeof(error));
		free(sql);
	}
	return r < 0 ? tool_fail(1, "%s", r == -ENOMEM ? "out of memory" : error) : 0;
}

struct cmd_why_time {
	char text[UNITS_BYTES + 1];
};

/* "+1.2 ms" with sign, "-" if unknown. */
static struct cmd_why_time cmd_why_text_time(double ns, bool sign)
{
	struct cmd_why_time time;
	char buffer[UNITS_BYTES];

	if (isnan(ns))
		snprintf(time.text, sizeof(time.text), "-");
	else
		snprintf(time.text, sizeof(time.text), "%s%s",
			ns < -0.5 ? "-"
			: sign	  ? "+"
				  : "",
			units_duration((uint64_t)llround(fabs(ns)), buffer));
	return time;
}

static void cmd_why_text_head(
	FILE *f, const struct why_result *result, uint64_t step, uint64_t since_ns, uint64_t until_ns)
{
	double excess_ns = result->chosen_ns - result->usual_ns;
	char from[TOOL_TEXT_BYTES], to[TOOL_TEXT_BYTES];

	fprintf(f, "rank %" PRId32 " (%s%s%s)", result->who.rank, result->who.host,
		result->who.card[0] ? ", card " : "", result->who.card);
	if (step)
		fprintf(f, ", step %" PRIu64 ", ended %s:\n", step, tool_time(until_ns, to));
	else
		fprintf(f, ", %s to %s, %zu steps in the mean:\n", tool_time(since_ns, from), tool_time(until_ns, to),
			result->chosen);
	fprintf(f, "%s; usual %s (%zu steps)", cmd_why_text_time(result->chosen_ns, false).text,
		cmd_why_text_time(result->usual_ns, false).text, result->usual);
	if (result->peers)
		fprintf(f, "; median of %zu peer%s %s", result->peers, result->peers == 1 ? "" : "s",
			cmd_why_text_time(result->peers_ns, false).text);
	fprintf(f, "\nexcess %s (%+.0f %%)\n\n", cmd_why_text_time(excess_ns, true).text,
		100 * excess_ns / result->usual_ns);
}

static void cmd_why_text_cells(
	struct term_table *table, double chosen_ns, double usual_ns, double excess_ns, double share, double peers_ns)
{
	term_table_cell(table, TERM_PLAIN, "%s", cmd_why_text_time(chosen_ns, false).text);
	term_table_cell(table, TERM_PLAIN, "%s", cmd_why_text_time(usual_ns, false).text);
	term_table_cell(table, TERM_PLAIN, "%s", cmd_why_text_time(excess_ns, true).text);
	if (isfinite(share))
		term_table_cell(table, TERM_PLAIN, "%.0f %%", 100 * share);
	else
		term_table_cell(table, TERM_PLAIN, "-");
	term_table_cell(table, TERM_PLAIN, "%s", cmd_why_text_time(peers_ns, false).text);
}

static void cmd_why_text_parts(FILE *f, const struct why_result *result)
{
	static const struct term_column columns[] = {{.name = "PART", .min = 24}, {.name = "THIS", .right = true},
		{.name = "USUAL", .right = true}, {.name = "EXCESS", .right = true}, {.name = "SHARE", .right = true},
		{.name = "PEERS", .right = true, .optional = true}};
	struct term_table *table = term_table_new(columns, sizeof(columns) / sizeof(columns[0]));
	double excess_ns = result->chosen_ns - result->usual_ns, chosen_ns = 0, usual_ns = 0, small_ns = 0;
	/* Without an excess worth a name, a share of it says nothing. */
	double whole = fabs(excess_ns) > SHOWN_PART * result->usual_ns ? excess_ns : NAN;

	for (size_t i = 0; i < result->parts; i++) {
		const struct why_part *part = &result->part[i];
		double grown_ns = part->excess_ns;

		if (fmax(fabs(grown_ns), fabs(part->chosen_ns - part->usual_ns)) < SHOWN_PART * result->chosen_ns) {
			chosen_ns += part->chosen_ns;
			usual_ns += part->usual_ns;
			small_ns += grown_ns;
			continue;
		}
		term_table_cell(table, grown_ns > excess_ns / 2 && grown_ns > 0 ? TERM_YELLOW : TERM_PLAIN, "%s: %s",
			activity_title(part->activity), why_kind_title(part->kind));
		cmd_why_text_cells(table, part->chosen_ns, part->usual_ns, grown_ns, grown_ns / whole, part->peers_ns);
	}
	term_table_cell(table, TERM_PLAIN, "all others");
	cmd_why_text_cells(table, chosen_ns, usual_ns, small_ns, small_ns / whole, NAN);
	term_table_cell(table, TERM_PLAIN, "not explained");
	cmd_why_text_cells(table, NAN, NAN, result->residual_ns, result->residual_ns / whole, NAN);
	term_table_print(table, f, 0);
	term_table_free(table);
}

/* The same by what the rank did, in whatever activity. */
static void cmd_why_text_kinds(FILE *f, const struct why_result *result)
{
	double excess_ns = result->chosen_ns - result->usual_ns;
	unsigned shown = 0;

	for (enum why_kind kind = 0; kind < WHY_KIND_MAX; kind++) {
		double grown_ns = 0;

		for (size_t i = 0; i < result->parts; i++)
			if (result->part[i].kind == kind)
				grown_ns += result->part[i].excess_ns;
		if (fabs(grown_ns) < SHOWN_PART * result->chosen_ns)
			continue;
		fprintf(f, "%s %s %s", shown++ ? ";" : "\nin all activities:", why_kind_title(kind),
			cmd_why_text_time(grown_ns, true).text);
		if (excess_ns > SHOWN_PART * result->usual_ns)
			fprintf(f, " (%.0f %%)", 100 * grown_ns / excess_ns);
	}
	if (shown)
		fputs("\n", f);
}

static void cmd_why_text_others(FILE *f, const struct why_result *result)
{
	unsigned shown = 0;

	for (size_t i = 0; i < result->others && shown < 3; i++) {
		const struct why_other *other = &result->other[i];

		if (other->chosen_ns - other->usual_ns < SHOWN_PART * result->chosen_ns)
			continue;
		fprintf(f, "%s %s (pid %" PRIu32 ") %s", shown++ ? "," : "\nits CPU had:", other->name, other->pid,
			cmd_why_text_time(other->chosen_ns, false).text);
		if (other->usual_ns > 0)
			fprintf(f, " (usual %s)", cmd_why_text_time(other->usual_ns, false).text);
	}
	if (shown)
		fputs("\n", f);
}

static void cmd_why_text_files(FILE *f, const struct cmd_why *cmd)
{
	for (size_t i = 0; i < cmd->files; i++)
		fprintf(f, "%s %s of %s: %s in %" PRId64 " call%s", i ? ";" : "\nslow calls on files:", cmd->file[i].operation,
			cmd->file[i].name, cmd_why_text_time(cmd->file[i].ns, false).text, cmd->file[i].calls,
			cmd->file[i].calls == 1 ? "" : "s");
	if (cmd->files)
		fputs("\n", f);
}

/* What grew. Causes of a kind may overlap: a thread that frees memory is blocked on the disk. */
static void cmd_why_text_causes(FILE *f, const struct cmd_why *cmd, const struct why_result *result, bool blocked, const char *head)
{
	unsigned shown = 0;

	for (size_t i = 0; i < cmd->causes; i++) {
		const struct cmd_why_cause *cause = &cmd->cause[i];

		if (cause->blocked != blocked || cause->chosen_ns - cause->usual_ns < SHOWN_PART * result->chosen_ns)
			continue;
		fprintf(f, "%s %s %s a step", shown++ ? "," : head, cause->name, cmd_why_text_time(cause->chosen_ns, false).text);
		if (cause->usual_ns > 0)
			fprintf(f, " (usual %s)", cmd_why_text_time(cause->usual_ns, false).text);
	}
	if (shown)
		fputs("\n", f);
}

/* What was off, and what it would show. */
static void cmd_why_text_levels(FILE *f, const struct why_result *result)
{
	if (!isnan(result->major_faults) && result->major_faults > result->major_faults_usual + 1)
		fprintf(f, "\nmajor page faults: %.1f a step, usual %.1f\n", result->major_faults,
			result->major_faults_usual);
	if (result->tier == FRAME_TIER_STAGES && result->peers)
		fputs("\nL1 was off: with it, waiting is known from the operations, not from what peers have least.\n",
			f);
	if (!result->thread_known)
		fputs("\nL3 was off (then, or in usual steps): with it, work and sleep are known apart, and who had "
		      "the CPU.\n",
			f);
}

static void cmd_why_text_print(FILE *f, const struct cmd_why *cmd, const struct why_result *result)
{
	cmd_why_text_head(f, result, cmd->step, cmd->since_ns, cmd->until_ns);
	cmd_why_text_parts(f, result);
	cmd_why_text_kinds(f, result);
	cmd_why_text_others(f, result);
	cmd_why_text_causes(f, cmd, result, true, "\nblocked longer on:");
	cmd_why_text_causes(f, cmd, result, false, "\nthe kernel took longer for it:");
	cmd_why_text_files(f, cmd);
	cmd_why_text_levels(f, result);
}

static json_t *cmd_why_text_json_parts(const struct why_result *result)
{
	json_t *parts = json_array();

	for (size_t i = 0; i < result->parts; i++) {
		const struct why_part *part = &result->part[i];

		json_array_append_new(
			parts, json_pack("{s:s, s:s, s:f, s:f, s:f, s:o}", "activity", activity_word(part->activity),
				       "what", why_kind_word(part->kind), "chosen_ns", part->chosen_ns, "usual_ns",
				       part->usual_ns, "excess_ns", part->excess_ns, "peers_ns",
				       tool_real(part->peers_ns)));
	}
	return parts;
}

static json_t *cmd_why_text_json_others(const struct why_result *result)
{
	json_t *others = json_array();

	for (size_t i = 0; i < result->others; i++)
		json_array_append_new(
			others, json_pack("{s:s, s:i, s:f, s:f}", "name", result->other[i].name, "pid",
					(int)result->other[i].pid, "chosen_ns", result->other[i].chosen_ns, "usual_ns",
					result->other[i].usual_ns));
	return others;
}

static json_t *cmd_why_text_json_files(const struct cmd_why *cmd)
{
	json_t *files = json_array();

	for (size_t i = 0; i < cmd->files; i++)
		json_array_append_new(
			files, json_pack("{s:s, s:s, s:f, s:I}", "operation", cmd->file[i].operation, "file",
				       cmd->file[i].name, "duration_ns", cmd->file[i].ns, "calls", (json_int_t)cmd->file[i].calls));
	return files;
}

static json_t *cmd_why_text_json_causes(const struct cmd_why *cmd, bool blocked)
{
	json_t *causes = json_array();

	for (size_t i = 0; i < cmd->causes; i++)
		if (cmd->cause[i].blocked == blocked)
			json_array_append_new(causes, json_pack("{s:s, s:f, s:f}", "what", cmd->cause[i].name, "chosen_ns",
							      cmd->cause[i].chosen_ns, "usual_ns", cmd->cause[i].usual_ns));
	return causes;
}

static json_t *cmd_why_text_json(const struct cmd_why *cmd, const struct why_result *result)
{
	return tool_object("rank", json_integer(result->who.rank), "host", json_string(result->who.host), "card",
		json_string(result->who.card), "tier", tool_text(finding_tier_word(result->tier)), "thread_known",
		json_boolean(result->thread_known), "steps", tool_count(result->chosen), "usual_steps", tool_count(result->usual),
		"peers", tool_count(result->peers), "chosen_ns", tool_real(result->chosen_ns), "usual_ns",
		tool_real(result->usual_ns), "peers_ns", tool_real(result->peers_ns), "excess_ns",
		tool_real(result->chosen_ns - result->usual_ns), "residual_ns", tool_real(result->residual_ns), "major_faults",
		tool_real(result->major_faults), "major_faults_usual", tool_real(result->major_faults_usual), "parts",
		cmd_why_text_json_parts(result), "cpu_taken_by", cmd_why_text_json_others(result), "blocked_on",
		cmd_why_text_json_causes(cmd, true), "kernel", cmd_why_text_json_causes(cmd, false), "slow_files",
		cmd_why_text_json_files(cmd), NULL);
}

static int cmd_why_explain(struct cmd_why *cmd, struct reader *reader)
{
	struct why_result result;
	uint64_t job, other;
	int r;

	if (!why_job(cmd->why, 0, &job))
		return tool_fail(1,
			"no step of rank %" PRId64
			" was seen then, or it could not be aligned with those of other ranks",
			cmd->ranks.range[0].first);
	if (why_job(cmd->why, 1, &other))
		(void)tool_fail(0, "several jobs have a rank %" PRId64 " then; this is the newest (--job)",
			cmd->ranks.range[0].first);
	if (why_choose(cmd->why, job) < 0)
		return tool_fail(1, "out of memory");
	r = cmd_why_read_thread(cmd, reader);
	if (r)
		return r;
	r = why_explain(cmd->why, &result);
	if (r < 0)
		return tool_fail(
			1, "the store has no other ordinary step of this rank within five minutes to compare with");
	r = cmd_why_read_files(cmd, reader, &result);
	if (r == 0)
		r = cmd_why_read_causes(cmd, reader, &result);
	if (r)
		return r;
	if (cmd->json)
		return tool_print(cmd_why_text_json(cmd, &result), JSON_INDENT(2)) ?: tool_written();
	cmd_why_text_print(stdout, cmd, &result);
	return tool_written();
}

static int cmd_why_run(struct cmd_why *cmd)
{
	const struct reader_options options = {.warning = tool_warn};
	struct reader *reader = NULL;
	char error[1024];
	int status;

	if (reader_open(cmd->state_dir, &options, &reader, error, sizeof(error)) < 0)
		return tool_fail(1, "%s", error);
	status = cmd->step ? cmd_why_find_step(cmd, reader) : 0;
	if (!status) {
		cmd->why = why_new(&(struct why_options){.rank = (int32_t)cmd->ranks.range[0].first,
			.since_ns = cmd->since_ns,
			.until_ns = cmd->until_ns});
		status = cmd->why ? cmd_why_feed(cmd) : tool_fail(1, "out of memory");
	}
	if (!status)
		status = cmd_why_explain(cmd, reader);
	why_free(cmd->why);
	reader_close(reader);
	return status;
}

static int cmd_why_take_step(void *arg, const char *value)
{
	struct cmd_why *cmd = arg;
	char *end;

	errno = 0;
	cmd->step = strtoull(value, &end, 10);
	if (errno || *end || end == value || value[0] == '-' || !cmd->step || cmd->step > INT64_MAX)
		return 1 + tool_fail(2, "--step takes the number of a step, from 1, not \"%s\"", value);
	return 0;
}

static int cmd_why_parse(int argc, char **argv, struct cmd_why *cmd)
{
	const struct tool_option options[] = {
		{"state-dir", .text = &cmd->state_dir},
		{"rank", .ranks = &cmd->ranks},
		{"step", .call = cmd_why_take_step, .arg = cmd},
		{"since", .time_ns = &cmd->since_ns},
		{"until", .time_ns = &cmd->until_ns},
		{"job", .text = &cmd->job},
		{"json", .flag = &cmd->json},
	};
	int r = tool_options(argc, argv, usage, options, sizeof(options) / sizeof(options[0]));

	if (r)
		return r;
	if (cmd->ranks.count != 1 || cmd->ranks.range[0].first != cmd->ranks.range[0].last)
		return 1 + tool_fail(2, "--rank with one rank is needed; see --help");
	if (cmd->step && (cmd->since_ns || cmd->until_ns))
		return 1 + tool_fail(2, "--step excludes --since and --until");
	if (!cmd->until_ns)
		cmd->until_ns = tool_now_ns();
	if (!cmd->since_ns)
		(void)tool_since(SINCE, cmd->until_ns, &cmd->since_ns);
	if (cmd->since_ns >= cmd->until_ns)
		return 1 + tool_fail(2, "--since is not before --until");
	return tool_options_end(argc, argv);
}

int main(int argc, char **argv)
{
	struct cmd_why cmd = {0};
	int r;

	tool_begin("why", argv);
	r = cmd_why_parse(argc, argv, &cmd);
	if (r)
		return r - 1;
	r = tool_state_dir(cmd.state_dir, &cmd.state_dir);
	return r ? r : cmd_why_run(&cmd);
}
