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

void html_text(FILE *out, const char *text)
{
	for (; *text; text++)
		switch (*text) {
		case '&':
			fputs("&amp;", out);
			break;
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		case '\'':
			fputs("&#39;", out);
			break;
		default:
			fputc(*text, out);
		}
}

void html_format(FILE *out, const char *format, ...)
{
	char text[2 * WORDS_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	html_text(out, text);
}

static void report_html_begin(FILE *out, const struct report *report)
{
	char since[WORDS_BYTES], until[WORDS_BYTES], zone[WORDS_BYTES];

	words_when(report->since_ns, since);
	words_when(report->until_ns, until);
	/* The policy forbids loading anything. */
	fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
	      "content=\"width=device-width, "
	      "initial-scale=1\"><meta name=\"referrer\" content=\"no-referrer\"><meta "
	      "http-equiv=\"Content-Security-Policy\" "
	      "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<title>",
		out);
	html_text(out, report->headline.answer);
	fputs("</title>\n", out);
	html_style(out);
	fputs("</head><body>\n<svg width=\"0\" height=\"0\" style=\"position:absolute\" "
	      "aria-hidden=\"true\"><defs><pattern id=\"hatch\" width=\"8\" "
	      "height=\"8\" patternUnits=\"userSpaceOnUse\"><path d=\"M0 8L8 0\" "
	      "style=\"stroke:var(--hatch);stroke-width:1;fill:none\"/></pattern>"
	      "</defs></svg>\n<div class=\"top\"><b>Slow cards</b><span>",
		out);
	html_format(out, "%s to %s %s", since, until, words_zone(report->until_ns, zone));
	fputs("</span>", out);
	if (report->chosen.count) {
		fputs("<span>", out);
		html_text(out, words_chosen(report, since));
		fputs("</span>", out);
	}
	if (report->only_job) {
		fputs("<span>", out);
		html_format(out, "job %.200s only", report->only_job);
		fputs("</span>", out);
	}
}

static void put_counts(FILE *out, const struct report *report)
{
	char a[WORDS_BYTES], b[WORDS_BYTES];

	fputs("<span>", out);
	html_format(out, "%s on %s", words_many(report->cards_here, "card", "cards", a),
		words_many(report->nodes_here, "node", "nodes", b));
	fputs("</span></div>\n", out);
}

static void fact(FILE *out, const char *name, const char *text)
{
	fprintf(out, "<div><dt>%s</dt><dd>", name);
	html_text(out, text);
	fputs("</dd></div>", out);
}

static void put_totals(FILE *out, const struct report *report)
{
	char a[WORDS_BYTES], b[WORDS_BYTES], c[WORDS_BYTES];

	fputs("<p class=\"small\">", out);
	html_format(out, "Total: %s of %s card-hours lost (%s) in %s", words_hours(report->cost_card_hours, a),
		words_hours(report->card_hours, b),
		words_percent(report->card_hours > 0 ? report->cost_card_hours / report->card_hours : 0, c),
		words_many(report->findings - report->remarks, "episode", "episodes", (char[WORDS_BYTES]){0}));
	if (report->groups - report->groups_remarks < report->findings - report->remarks)
		html_format(out, " of %s",
			words_many(report->groups - report->groups_remarks, "finding", "findings", (char[WORDS_BYTES]){0}));
	html_text(out, words_totals(report, a));
	html_format(out, "; %s slow", words_many(report->cards_slow, "card was", "cards were", a));
	if (report->unseen_slots && report->alive_slots)
		html_format(out, "; not watched: %s of the cards' time",
			words_percent((double)report->unseen_slots / (double)report->alive_slots, a));
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

	fprintf(out, "<header class=\"head %s\"><span class=\"badge\">%s</span><h1>", checks[headline->verdict].class,
		checks[headline->verdict].badge);
	html_text(out, headline->title);
	fputs("</h1>", out);
	if (headline->finding == REPORT_NONE) {
		fputs("<p>", out);
		html_text(out, headline->why[0] ? headline->why : headline->line);
		fputs("</p>", out);
	} else {
		fputs("<dl class=\"facts\">", out);
		fact(out, "since", headline->since);
		fact(out, "why", headline->why);
		fact(out, "cost", headline->cost);
		fact(out, "advice", headline->todo);
		fputs("</dl>", out);
		put_totals(out, report);
	}
	fputs("</header>\n", out);
}

/* Costliest jobs first, of those with steps. */
static void charts(FILE *out, const struct report *report)
{
	bool drawn[REPORT_JOBS_MAX] = {false};
	char text[WORDS_BYTES];
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
		fputs("<p class=\"small\"><b>", out);
		html_text(out, words_job(&report->job[best]));
		fputs("</b> <span class=\"mute\">", out);
		html_format(out, "median %s", words_value(report->job[best].median_ns, "ns", text));
		fputs("</span></p>", out);
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
	fputs("<li>", lines->out);
	html_text(lines->out, text);
	fputs("</li>\n", lines->out);
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
		      "all "
		      "the time.</p>"
		      "</section>\n",
			out);
}

static void footer(FILE *out, const struct report *report)
{
	char text[WORDS_BYTES];

	fputs("<footer>", out);
	html_format(out, "Made by ranktrace " RANKTRACE_VERSION " at %s.", words_stamp(report->now_ns, text));
	fputs(" A card-hour is one hour of one card, lost to slow work or waiting; the cost of a slow card includes "
	      "all "
	      "cards of its job.",
		out);
	if (report->compared)
		html_format(out, " Ranks of multi-node jobs were compared across %s.",
			words_many(report->compared, "node", "nodes", text));
	if (words_explained(report, text)[0])
		html_format(out, " %s.", text);
	if (report->suspected)
		html_format(out, " %s not confirmed and are not shown.",
			words_many(report->suspected, "suspicion was", "suspicions were", text));
	fputs("</footer>\n</body></html>\n", out);
}

void render_html(FILE *out, const struct report *report)
{
	report_html_begin(out, report);
	put_counts(out, report);
	report_html_headline(out, report);
	fputs("<main class=\"grid\">\n", out);
	html_heat(out, report);
	html_findings(out, report);
	charts(out, report);
	html_evidence(out, report);
	html_cards(out, report);
	html_map(out, report);
	html_jobs(out, report);
	report_html_unwatched(out, report);
	fputs("</main>\n", out);
	footer(out, report);
}
