/* SPDX-License-Identifier: Apache-2.0 */
/* Shows where the time went, for people and as JSON. See why_read.h. */
#include "analyzers/cli/why_read.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/term.h"
#include "analyzers/base/term_table.h"
#include "analyzers/base/units.h"
#include "analyzers/finding/finding.h"
#include "analyzers/tool/tool_json.h"

#define SHOWN_PART 0.01 /* of the step: smaller excesses are summed */
/* Of the step: work that is so much longer than the peers' is named, however usual: it may be slow from the start */
#define BEYOND_PEERS 0.1

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
	fprintf(f, "%s; usual %s (%zu %ssteps)", cmd_why_text_time(result->chosen_ns, false).text,
		cmd_why_text_time(result->usual_ns, false).text, result->usual,
		result->usual_within ? "shorter ones of these " : "");
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
		term_table_cell(table, TERM_PLAIN, "%.0f %%", round(100 * share) + 0.0); /* -0 is 0 */
	else
		term_table_cell(table, TERM_PLAIN, "-");
	term_table_cell(table, TERM_PLAIN, "%s", cmd_why_text_time(peers_ns, false).text);
}

/* Of the whole excess; of what shrank beside it: none. */
static double cmd_why_text_share(double grown_ns, double excess_ns, double whole_ns)
{
	return grown_ns * whole_ns < 0 ? NAN : excess_ns / whole_ns;
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
		double grown_ns = part->chosen_ns - part->usual_ns;

		if (fabs(grown_ns) < SHOWN_PART * result->chosen_ns) {
			chosen_ns += part->chosen_ns;
			usual_ns += part->usual_ns;
			small_ns += part->excess_ns;
			continue;
		}
		term_table_cell(table, part->excess_ns > excess_ns / 2 && grown_ns > 0 ? TERM_YELLOW : TERM_PLAIN,
			"%s: %s", activity_title(part->activity), why_kind_title(part->kind));
		cmd_why_text_cells(table, part->chosen_ns, part->usual_ns, grown_ns,
			cmd_why_text_share(grown_ns, part->excess_ns, whole), part->peers_ns);
	}
	term_table_cell(table, TERM_PLAIN, "all others");
	cmd_why_text_cells(table, chosen_ns, usual_ns, chosen_ns - usual_ns,
		cmd_why_text_share(chosen_ns - usual_ns, small_ns, whole), NAN);
	term_table_cell(table, TERM_PLAIN, "not explained");
	cmd_why_text_cells(table, NAN, NAN, result->residual_ns, result->residual_ns / whole, NAN);
	term_table_print(table, f, 0);
	term_table_free(table);
}

/* One line: the excess by what the rank did, summed over its activities. */
static void cmd_why_text_kinds(FILE *f, const struct why_result *result)
{
	double excess_ns = result->chosen_ns - result->usual_ns;
	unsigned shown = 0;

	for (enum why_kind kind = 0; kind < WHY_KIND_MAX; kind++) {
		double grown_ns = 0, share_ns = 0;

		for (size_t i = 0; i < result->parts; i++) {
			if (result->part[i].kind != kind)
				continue;
			grown_ns += result->part[i].chosen_ns - result->part[i].usual_ns;
			share_ns += result->part[i].excess_ns;
		}
		if (fabs(grown_ns) < SHOWN_PART * result->chosen_ns)
			continue;
		fprintf(f, "%s %s %s", shown++ ? ";" : "\nin all activities:", why_kind_title(kind),
			cmd_why_text_time(grown_ns, true).text);
		if (excess_ns > SHOWN_PART * result->usual_ns && grown_ns > 0)
			fprintf(f, " (%.0f %%)", 100 * share_ns / excess_ns);
	}
	if (shown)
		fputs("\n", f);
}

/* What the rank does longer than its peers in its usual steps, too; not where it waits for them. With L3 only the
 * peers' time without a CPU is known. */
static void cmd_why_text_peers(FILE *f, const struct why_result *result)
{
	unsigned shown = 0;

	for (size_t i = 0; i < result->parts; i++) {
		const struct why_part *part = &result->part[i];
		double beyond_ns = part->chosen_ns - part->peers_ns;

		if (part->kind == WHY_WAITING || !(beyond_ns >= BEYOND_PEERS * result->chosen_ns) ||
			part->usual_ns - part->peers_ns < beyond_ns / 2)
			continue;
		fprintf(f, "%s %s %s (peers %s)",
			shown++ ? "," : "\nbeyond its peers, in its usual steps, too:", activity_title(part->activity),
			cmd_why_text_time(part->chosen_ns, false).text, cmd_why_text_time(part->peers_ns, false).text);
	}
	if (shown)
		fputs("\n", f);
}

/* While it was ready. Its own other threads are no fault of others. */
static void cmd_why_text_others(FILE *f, const struct cmd_why *cmd, const struct why_result *result)
{
	unsigned shown = 0;

	for (size_t i = 0; i < result->others && shown < 3; i++) {
		const struct why_other *other = &result->other[i];

		if (other->chosen_ns - fmax(0, other->usual_ns) < SHOWN_PART * result->chosen_ns)
			continue;
		fputs(shown++ ? ", " : "\npreempted by: ", f);
		if (other->pid == cmd->pid)
			fputs("its own other threads", f);
		else
			fprintf(f, "%s (pid %" PRIu32 ")", other->name, other->pid);
		fprintf(f, " %s a step", cmd_why_text_time(other->chosen_ns, false).text);
		if (other->usual_ns > 0)
			fprintf(f, " (usual %s)", cmd_why_text_time(other->usual_ns, false).text);
	}
	if (shown)
		fputs("\n", f);
}

static void cmd_why_text_places(
	FILE *f, const struct cmd_why_place *places, size_t count, const char *title, const struct why_result *result)
{
	unsigned shown = 0;

	for (size_t i = 0; i < count && shown < WHY_PLACES_SHOWN; i++) {
		const struct cmd_why_place *place = &places[i];

		if (!place->name[0] || place->chosen_ns - place->usual_ns < SHOWN_PART * result->chosen_ns)
			continue;
		fprintf(f, "%s %s %s a step", shown++ ? ";" : title, place->name,
			cmd_why_text_time(place->chosen_ns, false).text);
		if (place->usual_ns > 0)
			fprintf(f, " (usual %s)", cmd_why_text_time(place->usual_ns, false).text);
	}
	if (shown)
		fputs("\n", f);
}

static void cmd_why_text_files(FILE *f, const struct cmd_why *cmd, const struct why_result *result)
{
	unsigned shown = 0;

	for (size_t i = 0; i < cmd->files; i++) {
		const struct cmd_why_file *file = &cmd->file[i];

		if (file->chosen_ns - file->usual_ns < SHOWN_PART * result->chosen_ns)
			continue;
		fprintf(f, "%s %s %s %s %s a step", shown++ ? ";" : "\nslow calls:", file->operation,
			strcmp(file->operation, "send") == 0 ? "to" : "of", file->name,
			cmd_why_text_time(file->chosen_ns, false).text);
		if (file->usual_ns > 0)
			fprintf(f, " (usual %s)", cmd_why_text_time(file->usual_ns, false).text);
		fprintf(f, ", %" PRId64 " call%s", file->calls, file->calls == 1 ? "" : "s");
	}
	if (shown)
		fputs("\n", f);
}

static struct cmd_why_time cmd_why_text_amount(enum cmd_why_cause_kind kind, double amount)
{
	struct cmd_why_time text;

	if (kind != WHY_CAUSE_COUNTED)
		return cmd_why_text_time(amount, false);
	snprintf(text.text, sizeof(text.text), "%.3g", amount);
	return text;
}

/* The time that one of them takes: of these it takes many to matter. All others matter if there is one. */
static const struct {
	const char *name;
	double each_ns;
} cmd_why_counted[] = {
	{"minor page faults", 500}, /* a page that is zeroed and mapped; twice as long in a virtual machine */
	{"CPU migrations", 50000},  /* a cache of 1 MiB is read again at 20 GB/s */
};

/* What grew: by a time worth a name; what is counted, to more than double the number, too. */
static bool cmd_why_cause_grew(const struct cmd_why_cause *cause, const struct why_result *result)
{
	double each_ns = cause->kind == WHY_CAUSE_COUNTED ? INFINITY : 1;

	for (size_t i = 0; i < sizeof(cmd_why_counted) / sizeof(cmd_why_counted[0]); i++)
		if (strcmp(cause->name, cmd_why_counted[i].name) == 0)
			each_ns = cmd_why_counted[i].each_ns;
	if (cause->kind == WHY_CAUSE_COUNTED && cause->chosen <= 2 * cause->usual)
		return false;
	return (cause->chosen - cause->usual) * each_ns >= SHOWN_PART * result->chosen_ns;
}

/* Causes of a kind may overlap: a thread that frees memory is blocked on the disk. */
static void cmd_why_text_causes(FILE *f, const struct cmd_why *cmd, const struct why_result *result,
	enum cmd_why_cause_kind kind, const char *head)
{
	unsigned shown = 0;

	for (size_t i = 0; i < cmd->causes; i++) {
		const struct cmd_why_cause *cause = &cmd->cause[i];

		if (cause->kind != kind || !cmd_why_cause_grew(cause, result))
			continue;
		fprintf(f, "%s %s %s a step", shown++ ? "," : head, cause->name,
			cmd_why_text_amount(kind, cause->chosen).text);
		if (cause->usual > 0)
			fprintf(f, " (usual %s)", cmd_why_text_amount(kind, cause->usual).text);
	}
	if (shown)
		fputs("\n", f);
}

/* What was off, and what it would show. */
static void cmd_why_text_levels(FILE *f, const struct cmd_why *cmd, const struct why_result *result)
{
	char size[UNITS_BYTES];

	if (result->of > WHY_STEPS_USED)
		fprintf(f, "\nThat time has %zu steps, of which %d at equal distances were read.\n", result->of,
			WHY_STEPS_USED);
	if (result->left_out)
		fprintf(f, "\n%zu of the steps that were read %s left out: L1 or L3 was off in %s.\n", result->left_out,
			result->left_out == 1 ? "is" : "are", result->left_out == 1 ? "it" : "them");
	if (!isnan(result->major_faults) && result->major_faults > result->major_faults_usual + 1) {
		fprintf(f, "\nmajor page faults: %.1f a step, usual %.1f", result->major_faults,
			result->major_faults_usual);
		if (cmd->swapped_bytes > 0)
			fprintf(f, "; %s of its memory swapped out", units_size((uint64_t)cmd->swapped_bytes, size));
		fputs("\n", f);
	}
	if (result->tier == FRAME_TIER_STAGES && result->peers)
		fputs("\nL1 was off: with it, waiting is known from the operations, not from what peers have least.\n",
			f);
	if (!result->thread_known)
		fputs("\nL3 was off: with it, work, sleep and time without a CPU are measured, and what preempted the "
		      "rank.\n",
			f);
	else if (!result->usual_known)
		fputs("\nL3 was off in the usual steps: they are taken to work as much as these, and to sleep in the "
		      "rest.\n",
			f);
}

static void cmd_why_text_sentences(FILE *f, const struct cmd_why *cmd, const struct why_result *result)
{
	cmd_why_text_kinds(f, result);
	cmd_why_text_peers(f, result);
	cmd_why_text_others(f, cmd, result);
	cmd_why_text_causes(f, cmd, result, WHY_CAUSE_BLOCKED, "\nblocked longer on:");
	cmd_why_text_places(f, cmd->place, cmd->places, "\nblocked in the kernel's", result);
	cmd_why_text_places(f, cmd->line, cmd->lines, "\nin long system calls of", result);
	cmd_why_text_causes(f, cmd, result, WHY_CAUSE_KERNEL, "\nthe kernel took longer for it:");
	cmd_why_text_causes(f, cmd, result, WHY_CAUSE_COUNTED, "\nmore often than usual:");
	cmd_why_text_files(f, cmd, result);
	cmd_why_text_levels(f, cmd, result);
}

/* On a terminal, sentences are wrapped. */
void cmd_why_text(FILE *f, const struct cmd_why *cmd, const struct why_result *result)
{
	char *text = NULL, *rest;
	size_t size;
	FILE *sentences = open_memstream(&text, &size);

	cmd_why_text_head(f, result, cmd->step, cmd->since_ns, cmd->until_ns);
	cmd_why_text_parts(f, result);
	cmd_why_text_sentences(sentences ? sentences : f, cmd, result);
	rest = sentences && fclose(sentences) == 0 ? text : NULL;
	for (char *line; (line = strsep(&rest, "\n")) && rest;) {
		term_wrap(f, line, 0, 2, term_width(f));
		fputc('\n', f);
	}
	free(text);
}

static json_t *cmd_why_json_parts(const struct why_result *result)
{
	json_t *parts = json_array();

	for (size_t i = 0; i < result->parts; i++) {
		const struct why_part *part = &result->part[i];

		json_array_append_new(parts,
			json_pack("{s:s, s:s, s:f, s:f, s:f, s:o}", "activity", activity_word(part->activity), "what",
				why_kind_word(part->kind), "chosen_ns", part->chosen_ns, "usual_ns", part->usual_ns,
				"excess_ns", part->excess_ns, "peers_ns", tool_real(part->peers_ns)));
	}
	return parts;
}

static json_t *cmd_why_json_others(const struct why_result *result)
{
	json_t *others = json_array();

	for (size_t i = 0; i < result->others; i++)
		json_array_append_new(others,
			tool_object("name", json_string(result->other[i].name), "pid",
				json_integer(result->other[i].pid), "chosen_ns", tool_real(result->other[i].chosen_ns),
				"usual_ns", tool_real(result->other[i].usual_ns), NULL));
	return others;
}

static json_t *cmd_why_json_files(const struct cmd_why *cmd)
{
	json_t *files = json_array();

	for (size_t i = 0; i < cmd->files; i++)
		json_array_append_new(files,
			json_pack("{s:s, s:s, s:f, s:f, s:f, s:I}", "operation", cmd->file[i].operation, "file",
				cmd->file[i].name, "duration_ns", cmd->file[i].ns, "chosen_ns", cmd->file[i].chosen_ns,
				"usual_ns", cmd->file[i].usual_ns, "calls", (json_int_t)cmd->file[i].calls));
	return files;
}

static json_t *cmd_why_json_causes(const struct cmd_why *cmd, enum cmd_why_cause_kind kind)
{
	bool counted = kind == WHY_CAUSE_COUNTED;
	json_t *causes = json_array();

	for (size_t i = 0; i < cmd->causes; i++)
		if (cmd->cause[i].kind == kind)
			json_array_append_new(causes, json_pack("{s:s, s:f, s:f}", "what", cmd->cause[i].name,
							      counted ? "chosen" : "chosen_ns", cmd->cause[i].chosen,
							      counted ? "usual" : "usual_ns", cmd->cause[i].usual));
	return causes;
}

static json_t *cmd_why_json_places(const struct cmd_why_place *place, size_t count)
{
	json_t *places = json_array();

	for (size_t i = 0; i < count && i < WHY_PLACES_SHOWN; i++)
		json_array_append_new(places, json_pack("{s:s, s:f, s:f}", "what", place[i].name, "chosen_ns",
						      place[i].chosen_ns, "usual_ns", place[i].usual_ns));
	return places;
}

static json_t *cmd_why_json_whole(const struct cmd_why *cmd, const struct why_result *result)
{
	return tool_object("rank", json_integer(result->who.rank), "host", json_string(result->who.host), "card",
		json_string(result->who.card), "tier", tool_text(finding_tier_word(result->tier)), "thread_known",
		json_boolean(result->thread_known), "usual_known", json_boolean(result->usual_known), "steps",
		tool_count(result->chosen), "usual_steps", tool_count(result->usual), "usual_within",
		json_boolean(result->usual_within), "of", tool_count(result->of), "left_out",
		tool_count(result->left_out), "peers", tool_count(result->peers), "chosen_ns",
		tool_real(result->chosen_ns), "usual_ns", tool_real(result->usual_ns), "peers_ns",
		tool_real(result->peers_ns), "excess_ns", tool_real(result->chosen_ns - result->usual_ns),
		"residual_ns", tool_real(result->residual_ns), "major_faults", tool_real(result->major_faults),
		"major_faults_usual", tool_real(result->major_faults_usual), "swapped_bytes",
		tool_real(cmd->swapped_bytes), "parts", cmd_why_json_parts(result), "cpu_taken_by",
		cmd_why_json_others(result), "blocked_on", cmd_why_json_causes(cmd, WHY_CAUSE_BLOCKED), "blocked_in",
		cmd_why_json_places(cmd->place, cmd->places), "long_calls_of",
		cmd_why_json_places(cmd->line, cmd->lines), "kernel", cmd_why_json_causes(cmd, WHY_CAUSE_KERNEL),
		"counted", cmd_why_json_causes(cmd, WHY_CAUSE_COUNTED), "slow_files", cmd_why_json_files(cmd), NULL);
}

int cmd_why_json(const struct cmd_why *cmd, const struct why_result *result)
{
	return tool_print(cmd_why_json_whole(cmd, result), JSON_INDENT(2));
}
