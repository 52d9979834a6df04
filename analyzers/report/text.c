/* SPDX-License-Identifier: Apache-2.0 */
/* The report as text for terminal, journal and mail, and as Markdown. */
#include "analyzers/base/term.h"
#include "analyzers/base/term_table.h"
#include "analyzers/base/user.h"
#include "analyzers/report/judge.h"
#include "analyzers/report/model.h"
#include "analyzers/report/render.h"
#include "analyzers/report/words.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LAST_MIN 16 /* columns of the last one, which is wrapped if it is text */

struct table {
	bool markdown;
	size_t columns, cells;
	const char *const *headers;
	char *cell[TABLE_ROWS_MAX * TABLE_COLUMNS_MAX];
};

struct table *table_new(const char *const *headers, bool markdown)
{
	struct table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->markdown = markdown;
	table->headers = headers;
	while (table->columns < TABLE_COLUMNS_MAX && headers[table->columns])
		table->columns++;
	return table;
}

void table_add(struct table *table, const char *text)
{
	if (table && table->cells < TABLE_ROWS_MAX * table->columns)
		table->cell[table->cells++] = strdup(text);
}

static void markdown_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		const char *entity = *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : *text == '&' ? "&amp;" : NULL;

		if (strchr("\\`*_[]|#~!", *text))
			fputc('\\', out);
		if (entity)
			fputs(entity, out);
		else
			fputc(*text, out);
	}
}

static const char *text_header(const struct table *table, size_t column)
{
	return table->headers[column] + (table->headers[column][0] == '>');
}

static const char *text_at(const struct table *table, size_t at)
{
	return at < table->cells && table->cell[at] ? table->cell[at] : "";
}

static void report_table_put(const struct table *table, FILE *out, const char *indent)
{
	struct term_column column[TABLE_COLUMNS_MAX] = {0};
	struct term_table *text;

	for (size_t i = 0; i < table->columns; i++)
		column[i] = (struct term_column){.name = text_header(table, i), .right = table->headers[i][0] == '>'};
	if (!column[table->columns - 1].right)
		column[table->columns - 1].min = LAST_MIN, column[table->columns - 1].wraps = true;
	text = term_table_new(column, table->columns);
	for (size_t at = 0; at < table->cells; at++)
		term_table_cell(text, TERM_PLAIN, "%s", text_at(table, at));
	term_table_print(text, out, strlen(indent));
	term_table_free(text);
}

static void put_markdown(const struct table *table, FILE *out)
{
	for (size_t i = 0; i < table->columns; i++)
		fprintf(out, "| %s ", text_header(table, i));
	fputs("|\n", out);
	for (size_t i = 0; i < table->columns; i++)
		fputs(table->headers[i][0] == '>' ? "|---:" : "|---", out);
	fputs("|\n", out);
	for (size_t at = 0; at < table->cells; at++) {
		fputs("| ", out);
		markdown_text(out, text_at(table, at));
		fputs((at + 1) % table->columns ? " " : " |\n", out);
	}
}

void table_end(struct table *table, FILE *out, const char *indent)
{
	if (!table)
		return;
	if (table->markdown)
		put_markdown(table, out);
	else
		report_table_put(table, out, indent);
	for (size_t at = 0; at < table->cells; at++)
		free(table->cell[at]);
	free(table);
}

#define TEXT_CARDS_SHOWN 10
#define TEXT_LINES_MAX 20     /* of "Not watched" */
#define TEXT_EPISODES_SHOWN 5 /* of a group, newest first */
#define TEXT_BRIEFS_SHOWN 8
#define TEXT_MEMORY_SHOWN 10

struct page {
	FILE *out;
	const struct report *report;
	bool markdown;
	size_t lines;
};

/* From that column on. */
static void report_text_put(const struct page *page, size_t column, const char *text)
{
	if (page->markdown)
		markdown_text(page->out, text);
	else
		term_wrap(page->out, text, column, column, term_width(page->out));
}

static void text_heading(const struct page *page, const char *text)
{
	fprintf(page->out, page->markdown ? "\n## %s\n\n" : "\n%s\n", text);
}

static void text_part(const struct page *page, const char *name, const char *text)
{
	fprintf(page->out, page->markdown ? "* **%s**: " : "  %-6s ", name);
	report_text_put(page, 9, text);
	fputc('\n', page->out);
}

static void show_headline(const struct page *page)
{
	const struct report_headline *headline = &page->report->headline;

	if (page->markdown)
		fputs("**", page->out);
	report_text_put(page, 0, headline->line);
	fputs(page->markdown ? "**\n\n" : "\n", page->out);
	text_part(page, "which", headline->which);
	text_part(page, "since", headline->since);
	text_part(page, "why", headline->why);
	text_part(page, "cost", headline->cost);
	text_part(page, "advice", headline->todo);
}

/* Numbers of findings that only the comparison of nodes made. */
static void show_across(const struct page *page)
{
	const struct report *report = page->report;
	const char *before = page->markdown ? "\n" : "  ";
	char text[WORDS_BYTES];
	size_t count = 0;

	for (size_t i = 0; i < report->groups_shown; i++)
		if (!report->finding[report->group[i].first].reported_by)
			fprintf(page->out, "%s%zu", count++ ? ", " : before, i + 1);
	if (count)
		fprintf(page->out, ": found by comparing ranks across %zu nodes; not reported by any single node\n",
			report->compared);
	if (words_explained(report, text)[0])
		fprintf(page->out, "%s%s\n", before, text);
}

/* Newest first. */
static void show_episodes(const struct page *page, size_t index)
{
	const struct report *report = page->report;
	const struct report_group *group = &report->group[index];
	uint64_t before_ns = UINT64_MAX;
	char text[WORDS_BYTES], length[WORDS_BYTES], cost[WORDS_BYTES];

	for (size_t shown = 0; shown < TEXT_EPISODES_SHOWN && shown < group->is.count; shown++) {
		const struct report_finding *next = NULL;
		uint64_t end_ns;

		for (size_t i = group->first; i < group->first + group->is.count; i++)
			if (report->finding[i].is.since_ns < before_ns &&
				(!next || report->finding[i].is.since_ns > next->is.since_ns))
				next = &report->finding[i];
		if (!next)
			return;
		before_ns = next->is.since_ns;
		end_ns = next->is.until_ns ? next->is.until_ns : report->now_ns;
		fprintf(page->out, page->markdown ? "  * %s, %s, %s card-hours%s\n" : "      %s, %s, %s card-hours%s\n",
			words_stamp(before_ns, text), words_length(end_ns > before_ns ? end_ns - before_ns : 0, length),
			words_hours(next->cost_card_hours, cost), next->is.until_ns ? "" : ", open");
	}
	if (group->is.count > TEXT_EPISODES_SHOWN)
		fprintf(page->out, page->markdown ? "  * and %zu more\n" : "      and %zu more\n",
			group->is.count - TEXT_EPISODES_SHOWN);
}

static void show_recurrences(const struct page *page)
{
	const struct report *report = page->report;
	char text[WORDS_BYTES];
	size_t lines = 0;

	for (size_t i = 0; i < report->groups_shown; i++) {
		if (report->group[i].is.count < 2)
			continue;
		if (page->markdown && !lines++)
			fputc('\n', page->out);
		fprintf(page->out, page->markdown ? "* %zu: %s\n" : "  %zu: %s\n", i + 1,
			words_recurred(&report->group[i], text));
		show_episodes(page, i);
	}
}

static void show_findings(const struct page *page)
{
	static const char *const headers[] = {">#", "SINCE", "DURATION", "STATE", ">CARD-HOURS", "WHAT", "CAUSE", NULL};
	const struct report *report = page->report;
	struct table *table = table_new(headers, page->markdown);
	char text[WORDS_BYTES], state[64];

	text_heading(page, "Findings");
	for (size_t i = 0; i < report->groups_shown; i++) {
		const struct report_group *group = &report->group[i];
		const struct report_finding *finding = &report->finding[group->first];

		snprintf(text, sizeof(text), "%zu", i + 1);
		table_add(table, text);
		table_add(table, words_when(group->is.since_ns, text));
		table_add(table, words_length(group->is.lasted_ns, text));
		snprintf(state, sizeof(state), "%s%s",
			group->remark	     ? "note"
			: group->is.until_ns ? "closed"
					     : "OPEN",
			group->fresh ? ", new" : "");
		table_add(table, state);
		table_add(table, words_hours(group->is.cost_card_hours, text));
		table_add(table, words_subject(report, finding, text));
		table_add(table, words_why(&finding->is, text));
	}
	table_end(table, page->out, "  ");
	if (report->groups > report->groups_shown)
		fprintf(page->out, "%sand %zu more: tracectl findings\n", page->markdown ? "\n" : "  ",
			report->groups - report->groups_shown);
	show_recurrences(page);
	show_across(page);
}

static void show_briefs(const struct page *page)
{
	const struct report *report = page->report;
	char text[WORDS_BYTES];

	if (!report->briefs)
		return;
	text_heading(page, "Short slow-downs");
	for (size_t i = 0; i < report->brief_ranks && i < TEXT_BRIEFS_SHOWN; i++) {
		fputs(page->markdown ? "* " : "  ", page->out);
		report_text_put(page, 2, words_brief(report, &report->brief[i], text));
		fputc('\n', page->out);
	}
	if (report->brief_ranks > TEXT_BRIEFS_SHOWN)
		fprintf(page->out, "%sand those of %zu more ranks\n", page->markdown ? "* " : "  ",
			report->brief_ranks - TEXT_BRIEFS_SHOWN);
}

static void show_cards(const struct page *page)
{
	static const char *const headers[] = {"CARD", ">CARD-HOURS", ">FINDINGS", ">SLOW DAYS", "ADVICE", NULL};
	const struct report *report = page->report;
	struct table *table;
	char text[WORDS_BYTES], hours[WORDS_BYTES];

	if (!report->worsts && !words_totals(report, text)[0])
		return;
	text_heading(page, "Worst cards");
	table = report->worsts ? table_new(headers, page->markdown) : NULL;
	for (size_t i = 0; i < report->worsts && i < TEXT_CARDS_SHOWN; i++) {
		const struct report_card *card = &report->card[report->worst[i]];
		uint32_t slow, of;

		table_add(table, words_card(report, report->worst[i], text));
		table_add(table, words_hours(card->cost_card_hours, text));
		table_add(table, words_count(card->findings, text));
		judge_card_days(report, card, &slow, &of);
		snprintf(text, sizeof(text), "%" PRIu32 " of %" PRIu32, slow, of);
		table_add(table, text);
		judge_card_advice(report, card, text, sizeof(text));
		table_add(table, text);
	}
	table_end(table, page->out, "  ");
	if (words_totals(report, text)[0])
		fprintf(page->out, "%slost in all: %s card-hours%s\n", page->markdown ? "\n" : "  ",
			words_hours(report->cost_card_hours, hours), text);
}

static void show_memory(const struct page *page)
{
	static const char *const headers[] = {"WHAT", "DEVICE", ">PEAK ALLOCATED", ">PEAK RESERVED", ">FAILED REQUESTS",
		">FAILED CALLS", "LEAK", NULL};
	const struct report *report = page->report;
	struct table *table;
	char text[WORDS_BYTES];

	if (!report->memories)
		return;
	text_heading(page, "Device memory");
	table = table_new(headers, page->markdown);
	for (size_t i = 0; i < report->memories && i < TEXT_MEMORY_SHOWN; i++) {
		const struct report_memory *memory = &report->memory[i];

		table_add(table, words_memory_subject(report, memory, text));
		table_add(table, words_memory_device(memory, text));
		table_add(table, words_memory_bytes(memory->allocated_bytes, text));
		table_add(table, words_memory_bytes(memory->reserved_bytes, text));
		table_add(table, words_count(memory->failed, text));
		table_add(table, words_count(memory->calls_failed, text));
		table_add(table, memory->leak != REPORT_NONE ? words_memory_leak(report, memory, text) : "-");
	}
	table_end(table, page->out, "  ");
	if (report->memories > TEXT_MEMORY_SHOWN)
		fprintf(page->out, "%sand %zu more: tracectl report --json\n", page->markdown ? "\n" : "  ",
			report->memories - TEXT_MEMORY_SHOWN);
}

static void show_jobs(const struct page *page)
{
	static const char *const headers[] = {
		"JOB", "USER", ">RANKS", ">NODES", ">STEPS", ">MEDIAN STEP", ">LOST CARD-HOURS", NULL};
	const struct report *report = page->report;
	struct table *table = table_new(headers, page->markdown);
	char text[WORDS_BYTES], user[USER_NAME_BYTES];
	size_t shown = 0;

	text_heading(page, "Jobs");
	for (size_t i = 0; i < report->jobs; i++) {
		const struct report_job *job = &report->job[i];

		if (report_job_is_none(job))
			continue;
		if (shown++ >= REPORT_JOBS_SHOWN_MAX)
			continue;
		table_add(table, words_job(job));
		table_add(table, user_name(job->uid, user));
		snprintf(text, sizeof(text), job->world > job->ranks ? "%" PRIu32 " of %" PRIu32 : "%" PRIu32,
			job->ranks, job->world);
		table_add(table, text);
		snprintf(text, sizeof(text), "%" PRIu32, job->nodes);
		table_add(table, text);
		table_add(table, words_count(job->steps, text));
		table_add(table, words_value(job->median_ns > 0 ? job->median_ns : NAN, "ns", text));
		table_add(table, words_hours(job->cost_card_hours, text));
	}
	table_end(table, page->out, "  ");
	if (shown > REPORT_JOBS_SHOWN_MAX)
		fprintf(page->out, "  and %zu more: tracectl report --json\n", shown - REPORT_JOBS_SHOWN_MAX);
}

static void count_line(void *arg, const char *text)
{
	struct page *page = arg;

	page->lines++;
}

static void show_line(void *arg, const char *text)
{
	struct page *page = arg;

	if (page->lines++ >= TEXT_LINES_MAX)
		return;
	fputs(page->markdown ? "* " : "  ", page->out);
	report_text_put(page, 2, text);
	fputc('\n', page->out);
}

static void show_unwatched(struct page *page)
{
	size_t lines;
	char text[WORDS_BYTES];

	page->lines = 0;
	render_unwatched(page->report, count_line, page);
	lines = page->lines;
	if (!lines)
		return;
	text_heading(page, "Not watched");
	if (page->report->unseen_slots && page->report->alive_slots) {
		fputs(page->markdown ? "* " : "  ", page->out);
		fprintf(page->out, "%s of the cards' time in total\n",
			words_percent((double)page->report->unseen_slots / (double)page->report->alive_slots, text));
	}
	page->lines = 0;
	render_unwatched(page->report, show_line, page);
	if (lines > TEXT_LINES_MAX)
		fprintf(page->out, "%sand %zu more lines, in the report as HTML or JSON\n",
			page->markdown ? "* " : "  ", lines - TEXT_LINES_MAX);
}

static void show_title(const struct page *page)
{
	const struct report *report = page->report;
	char since[WORDS_BYTES], until[WORDS_BYTES], zone[WORDS_BYTES], chosen[WORDS_BYTES];

	fprintf(page->out, "%sSlow cards from %s to %s (%s)%s%s\n\n", page->markdown ? "# " : "",
		words_when(report->since_ns, since), words_when(report->until_ns, until),
		words_zone(report->until_ns, zone), report->chosen.count ? ", " : "", words_chosen(report, chosen));
}

static void text_render(FILE *out, const struct report *report, bool markdown)
{
	struct page page = {.out = out, .report = report, .markdown = markdown};
	bool wrong = report->headline.verdict == REPORT_SLOW || report->headline.verdict == REPORT_HANG;

	if (!wrong) {
		report_text_put(&page, 0, report->headline.line);
		fputc('\n', out);
	} else {
		show_title(&page);
		show_headline(&page);
	}
	if (wrong || report->remarks)
		show_findings(&page);
	if (wrong)
		show_briefs(&page);
	if (wrong)
		show_cards(&page);
	if (wrong || report->memories_bad)
		show_memory(&page);
	if (wrong)
		show_jobs(&page);
	if (wrong || report->gaps || report->unread || report->lost)
		show_unwatched(&page);
}

void render_text(FILE *out, const struct report *report)
{
	text_render(out, report, false);
}

void render_markdown(FILE *out, const struct report *report)
{
	text_render(out, report, true);
}
