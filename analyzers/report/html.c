/* SPDX-License-Identifier: Apache-2.0 */
/* The page: head, headline, charts of jobs, gaps and footer. */
#include "analyzers/report/html.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/report/render.h"
#include "analyzers/report/words.h"

#define JOB_CHARTS 6
#define LINES_MAX 60

void html_put(FILE *out, const char *format, ...)
{
	char conversion[16], text[2 * WORDS_BYTES];
	va_list args;

	va_start(args, format);
	for (size_t n; *format; format += n) {
		n = strcspn(format, "%");
		fwrite(format, 1, n, out);
		format += n;
		n = *format ? 1 + strcspn(format + 1, "%csdufgx") + 1 : 0;
		snprintf(conversion, sizeof(conversion), "%.*s", (int)n, format);
		text[0] = 0;
		if (n && format[n - 1] == '%')
			snprintf(text, sizeof(text), "%%");
		else if (n && format[n - 1] == 's')
			snprintf(text, sizeof(text), conversion, va_arg(args, const char *));
		else if (n && strchr("fg", format[n - 1]))
			snprintf(text, sizeof(text), conversion, va_arg(args, double));
		else if (n && strpbrk(conversion, "lz"))
			snprintf(text, sizeof(text), conversion, va_arg(args, unsigned long));
		else if (n)
			snprintf(text, sizeof(text), conversion, va_arg(args, unsigned));
		text_put_html(out, text);
	}
	va_end(args);
}

static void report_html_begin(FILE *out, const struct report *report)
{
	/* The policy forbids loading anything. */
	html_put(out,
		"<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
		"content=\"width=device-width, initial-scale=1\"><meta name=\"referrer\" content=\"no-referrer\"><meta "
		"http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
		"<title>%s</title>\n",
		report->headline.answer);
	html_style(out);
	html_put(out,
		"</head><body>\n<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\"><defs>"
		"<pattern id=\"hatch\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\"><path d=\"M0 8L8 0\" "
		"style=\"stroke:var(--hatch);stroke-width:1;fill:none\"/></pattern></defs></svg>\n<div class=\"top\">"
		"<b>Slow cards</b><span>%s to %s %s</span>",
		words_when(report->since_ns, HTML_WORD), words_when(report->until_ns, HTML_WORD),
		words_zone(report->until_ns, HTML_WORD));
	if (report->chosen.count)
		html_put(out, "<span>%s</span>", words_chosen(report, HTML_WORD));
	if (report->only_job)
		html_put(out, "<span>job %.200s only</span>", report->only_job);
	html_put(out, "<span>%s on %s</span></div>\n", words_many(report->cards_here, "card", "cards", HTML_WORD),
		words_many(report->nodes_here, "node", "nodes", HTML_WORD));
}

static void html_fact(FILE *out, const char *name, const char *text)
{
	html_put(out, "<div><dt>%s</dt><dd>%s</dd></div>", name, text);
}

static void put_totals(FILE *out, const struct report *report)
{
	html_put(out, "<p class=\"small\">Total: %s of %s card-hours lost (%s) in %s",
		words_hours(report->cost_card_hours, HTML_WORD), words_hours(report->card_hours, HTML_WORD),
		words_percent(report->card_hours > 0 ? report->cost_card_hours / report->card_hours : 0, HTML_WORD),
		words_many(report->findings - report->remarks, "episode", "episodes", HTML_WORD));
	if (report->groups - report->groups_remarks < report->findings - report->remarks)
		html_put(out, " of %s",
			words_many(report->groups - report->groups_remarks, "finding", "findings", HTML_WORD));
	html_put(out, "%s; %s slow", words_totals(report, HTML_WORD),
		words_many(report->cards_slow, "card was", "cards were", HTML_WORD));
	if (report->unseen_slots && report->alive_slots)
		html_put(out, "; not watched: %s of the cards&#39; time",
			words_percent((double)report->unseen_slots / (double)report->alive_slots, HTML_WORD));
	fputs(".</p>", out);
}

static void report_html_headline(FILE *out, const struct report *report)
{
	static const struct {
		const char *class, *badge;
	} checks[REPORT_VERDICT_MAX] = {
		[REPORT_UNSEEN] = {"unseen", "? NOT WATCHED"},
		[REPORT_HEALTHY] = {"healthy", "&#10003; HEALTHY"},
		[REPORT_SLOW] = {"slow", "&#9650; SLOW"},
		[REPORT_HANG] = {"hang", "&#9632; HANG"},
	};
	const struct report_headline *headline = &report->headline;

	fprintf(out, "<header class=\"head %s\"><span class=\"badge\">%s</span>", checks[headline->verdict].class,
		checks[headline->verdict].badge);
	html_put(out, "<h1>%s</h1>", headline->title);
	if (headline->finding == REPORT_NONE) {
		html_put(out, "<p>%s</p>", headline->why[0] ? headline->why : headline->line);
	} else {
		fputs("<dl class=\"facts\">", out);
		html_fact(out, "since", headline->since);
		html_fact(out, "why", headline->why);
		html_fact(out, "cost", headline->cost);
		html_fact(out, "advice", headline->todo);
		fputs("</dl>", out);
		put_totals(out, report);
	}
	fputs("</header>\n", out);
}

/* Costliest jobs first, of those with steps. */
static void html_charts(FILE *out, const struct report *report)
{
	bool drawn[REPORT_JOBS_MAX] = {false};
	size_t n = 0;

	for (; n < JOB_CHARTS; n++) {
		uint32_t best = REPORT_NONE;

		for (uint32_t i = 0; i < report->jobs; i++)
			if (!drawn[i] && report->job[i].series && report->job[i].median_ns > 0 &&
				(best == REPORT_NONE ||
					report->job[i].cost_card_hours > report->job[best].cost_card_hours))
				best = i;
		if (best == REPORT_NONE)
			break;
		drawn[best] = true;
		fputs(n ? "" : "<section class=\"box wide\"><h2>Step time</h2>\n", out);
		html_put(out, "<p class=\"small\"><b>%s</b> <span class=\"mute\">median %s</span></p>",
			words_job(&report->job[best]), words_value(report->job[best].median_ns, "ns", HTML_WORD));
		html_job_chart(out, report, best);
	}
	if (n)
		fputs("<p class=\"key\"><span><i class=\"k5\"></i>median</span><span><i class=\"k3\"></i>10 to 90 % of "
		      "ranks and steps</span>"
		      "<span><i class=\"k4\"></i>a finding, with its number below</span><span><i class=\"k6\"></i>no "
		      "steps</span></p></section>\n",
			out);
}

struct lines {
	FILE *out;
	size_t count;
};

static void put_line(void *arg, const char *text)
{
	struct lines *lines = arg;

	if (lines->count == 0)
		fputs("<section class=\"box\"><h2>Not watched</h2><ul>\n", lines->out);
	if (lines->count++ >= LINES_MAX)
		return;
	html_put(lines->out, "<li>%s</li>\n", text);
}

static void report_html_unwatched(FILE *out, const struct report *report)
{
	struct lines lines = {.out = out};

	render_unwatched(report, put_line, &lines);
	if (lines.count > LINES_MAX)
		fprintf(out, "<li>and %zu more</li>", lines.count - LINES_MAX);
	if (lines.count)
		fputs("</ul></section>\n", out);
	else if (report->headline.verdict != REPORT_UNSEEN)
		fputs("<section class=\"box\"><h2>Not watched</h2><p class=\"mute\">Nothing: every rank was watched "
		      "all the "
		      "time.</p></section>\n",
			out);
}

static void html_footer(FILE *out, const struct report *report)
{
	char text[WORDS_BYTES];

	html_put(out,
		"<footer>Made by ranktrace " RANKTRACE_VERSION
		" at %s. A card-hour is one hour of one card, lost to slow work or "
		"waiting; the cost of a slow card includes all cards of its job.",
		words_stamp(report->now_ns, text));
	if (report->compared)
		html_put(out, " Ranks of multi-node jobs were compared across %s.",
			words_many(report->compared, "node", "nodes", text));
	if (words_explained(report, text)[0])
		html_put(out, " %s.", text);
	if (report->suspected)
		html_put(out, " %s not confirmed, and not shown.",
			words_many(report->suspected, "suspicion was", "suspicions were", text));
	fputs("</footer>\n</body></html>\n", out);
}

void render_html(FILE *out, const struct report *report)
{
	report_html_begin(out, report);
	report_html_headline(out, report);
	fputs("<main class=\"grid\">\n", out);
	html_heat(out, report);
	html_findings(out, report);
	html_charts(out, report);
	html_evidence(out, report);
	html_cards(out, report);
	html_map(out, report);
	html_memory(out, report);
	html_jobs(out, report);
	report_html_unwatched(out, report);
	fputs("</main>\n", out);
	html_footer(out, report);
}
