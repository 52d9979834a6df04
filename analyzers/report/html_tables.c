/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of the page: findings, worst cards, jobs, and evidence of each finding. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analyzers/report/html.h"
#include "analyzers/report/judge.h"
#include "analyzers/report/words.h"

#define CARDS_SHOWN 20

/* Narrow screens show the unit behind the number instead of headers. */
static void counted(FILE *out, const char *class, const char *unit, const char *text)
{
	fprintf(out, "<td class=\"%s\" data-u=\"%s\">", class, unit);
	html_text(out, text);
	fputs("</td>", out);
}

static void cell(FILE *out, const char *class, const char *text)
{
	fprintf(out, "<td class=\"%s\">", class);
	html_text(out, text);
	fputs("</td>", out);
}

static void report_html_tables_number(FILE *out, const struct report_finding *finding, size_t i)
{
	fprintf(out, "<td><a class=\"no%s\" href=\"#f%zu\">%zu</a></td>", finding->remark ? " r" : "", i + 1, i + 1);
}

void html_findings(FILE *out, const struct report *report)
{
	char text[WORDS_BYTES];

	if (!report->findings)
		return;
	fputs("<section class=\"box\"><h2>Findings</h2><div "
	      "class=\"scroll\"><table><tr><th></th><th>what</th><th>cause</th><th>since</th>"
	      "<th>duration</th><th class=\"n\">card-hours</th></tr>\n",
		out);
	for (size_t i = 0; i < report->shown; i++) {
		const struct report_finding *finding = &report->finding[i];
		uint64_t end_ns = finding->is.until_ns ? finding->is.until_ns : report->now_ns,
			 since_ns = finding->is.since_ns;

		fputs("<tr>", out);
		report_html_tables_number(out, finding, i);
		cell(out, "m", words_subject(report, finding, text));
		fputs("<td>", out);
		html_text(out, finding_cause_title(finding->is.cause));
		fputs(finding->reported_by ? "</td>" : " <span class=\"mute\">(comparison of nodes)</span></td>", out);
		cell(out, "", words_when(since_ns, text));
		fputs("<td>", out);
		html_text(out, words_length(end_ns > since_ns ? end_ns - since_ns : 0, text));
		fputs(finding->brief	       ? ", short"
			: finding->remark      ? ", note"
			: finding->is.until_ns ? ""
					       : ", <span class=\"open\">open</span>",
			out);
		fputs("</td>", out);
		counted(out, "n", "card-hours", words_hours(finding->cost_card_hours, text));
		fputs("</tr>\n", out);
	}
	fputs("</table></div>", out);
	if (report->findings > report->shown)
		fprintf(out, "<p class=\"mute\">and %zu more: tracectl findings</p>", report->findings - report->shown);
	fputs("</section>\n", out);
}

/* Oldest on the left. */
static void put_days(FILE *out, const struct report *report, const struct report_card *card)
{
	char text[WORDS_BYTES];

	fputs("<span class=\"days\">", out);
	for (int day = REPORT_DAYS; day-- > 0;) {
		bool slow = card->slow_days >> day & 1, data = report->node[card->node].data_days >> day & 1;

		fprintf(out, "<b class=\"%s\" title=\"", slow ? "s" : data ? "d" : "x");
		html_format(out, "%s: %s",
			words_day(report->until_ns - (uint64_t)day * 86400000000000ULL - 43200000000000ULL, text),
			slow   ? "slow"
			: data ? "not slow"
			       : "no data");
		fputs("\"></b>", out);
	}
	fputs("</span>", out);
}

void html_cards(FILE *out, const struct report *report)
{
	char text[WORDS_BYTES];

	if (!report->worsts)
		return;
	fprintf(out,
		"<section class=\"box\"><h2>Worst cards</h2><div class=\"scroll\"><table><tr><th>card</th><th "
		"class=\"n\">card-hours</th>"
		"<th>last %d days</th><th>advice</th></tr>\n",
		REPORT_DAYS);
	for (size_t i = 0; i < report->worsts && i < CARDS_SHOWN; i++) {
		const struct report_card *card = &report->card[report->worst[i]];
		uint32_t slow, of;

		fputs("<tr>", out);
		cell(out, "m", words_card(report, report->worst[i], text));
		counted(out, "n", "card-hours", words_hours(card->cost_card_hours, text));
		fputs("<td class=\"w\">", out);
		put_days(out, report, card);
		judge_card_days(report, card, &slow, &of);
		fprintf(out, " <span class=\"small mute\">%" PRIu32 " of %" PRIu32 "</span></td>", slow, of);
		judge_card_advice(report, card, text, sizeof(text));
		cell(out, judge_card_is_chronic(report, card) ? "strong" : "", text);
		fputs("</tr>\n", out);
	}
	fputs("</table></div>", out);
	if (report->worsts > CARDS_SHOWN)
		fprintf(out, "<p class=\"mute\">and %zu more</p>", report->worsts - CARDS_SHOWN);
	fputs("<p class=\"key\"><span><i class=\"k1\" "
	      "style=\"border:0;background:var(--badfill);width:.7rem\"></i>slow that day</span>"
	      "<span>card-hours within this report's period; newest day on the right</span></p></section>\n",
		out);
}

void html_jobs(FILE *out, const struct report *report)
{
	char text[WORDS_BYTES];
	bool any = false;

	for (size_t i = 0; i < report->jobs; i++) {
		const struct report_job *job = &report->job[i];

		if (!job->ranks && !job->findings)
			continue;
		if (!any)
			fputs("<section class=\"box\"><h2>Jobs</h2><div class=\"scroll\"><table><tr><th>job</th><th "
			      "class=\"n\">ranks</th>"
			      "<th class=\"n\">nodes</th><th class=\"n\">steps</th><th class=\"n\">step</th><th "
			      "class=\"n\">findings</th>"
			      "<th class=\"n\">lost card-hours</th></tr>\n",
				out);
		any = true;
		fputs("<tr>", out);
		cell(out, "m", words_job(job));
		snprintf(text, sizeof(text), job->world > job->ranks ? "%" PRIu32 " of %" PRIu32 : "%" PRIu32,
			job->ranks, job->world);
		counted(out, "n", "ranks", text);
		snprintf(text, sizeof(text), "%" PRIu32, job->nodes);
		counted(out, "n", "nodes", text);
		counted(out, "n", "steps", words_count(job->steps, text));
		counted(out, "n", "a step", words_value(job->median_ns > 0 ? job->median_ns : NAN, "ns", text));
		counted(out, "n", "findings", words_count(job->findings, text));
		counted(out, "n", "card-hours lost", words_hours(job->cost_card_hours, text));
		fputs("</tr>\n", out);
	}
	if (any)
		fputs("</table></div></section>\n", out);
}

static void put_measured(FILE *out, const struct finding *f)
{
	char text[WORDS_BYTES];

	if (!f->evidences)
		return;
	fputs("<div class=\"scroll\"><table><tr><th>measured</th><th class=\"n\">value</th><th class=\"n\">peers, or "
	      "before</th><th>where</th></tr>\n",
		out);
	for (size_t i = 0; i < f->evidences; i++) {
		fputs("<tr>", out);
		cell(out, "m", f->evidence[i].name);
		cell(out, "n", words_value(f->evidence[i].value, f->evidence[i].unit, text));
		counted(out, "n", "peers, or before", words_value(f->evidence[i].peers, f->evidence[i].unit, text));
		cell(out, "", f->evidence[i].detail);
		fputs("</tr>\n", out);
	}
	fputs("</table></div>\n", out);
}

static void put_plot(FILE *out, const struct report *report, const struct report_finding *finding)
{
	const struct report_plot *plot = finding->plot;
	char text[WORDS_BYTES];

	if (!plot) {
		fputs("<p class=\"mute small\">No rows of that time are stored.</p>", out);
		return;
	}
	fputs("<p class=\"small\"><b>", out);
	html_format(out, "%s", plot->what);
	fputs("</b> <span class=\"mute\">", out);
	if (strcmp(plot->unit, "steps") == 0)
		html_format(out, "in %s each", words_length((plot->until_ns - plot->since_ns) / plot->buckets, text));
	else
		html_format(out, "%s", strncmp(plot->unit, "ns ", 3) == 0 ? plot->unit + 3 : plot->unit);
	fputs("</span></p>", out);
	html_evidence_chart(out, report, finding);
	fputs("<p class=\"key\"><span><i class=\"k1\"></i>", out);
	if (finding->is.rank >= 0 && !isfinite(plot->before))
		html_format(out, "rank %" PRId32, finding->is.rank);
	else
		fputs("its ranks, median", out);
	fputs("</span>", out);
	if (isfinite(plot->before))
		fputs("<span><i class=\"k2\"></i>before, or peers</span>", out);
	else if (finding->is.rank >= 0 && plot->peers)
		fprintf(out,
			"<span><i class=\"k2\"></i>median of %" PRIu32
			" peers</span><span><i class=\"k3\"></i>10 to 90 %% of them</span>",
			plot->peers);
	fputs("<span><i class=\"k4\"></i>found slow</span></p>", out);
}

void html_evidence(FILE *out, const struct report *report)
{
	char text[WORDS_BYTES];

	if (!report->shown)
		return;
	fputs("<section class=\"box wide\"><h2>Evidence</h2><div class=\"articles\">\n", out);
	for (size_t i = 0; i < report->shown; i++) {
		const struct report_finding *finding = &report->finding[i];

		fprintf(out, "<article id=\"f%zu\"><p><span class=\"no%s\">%zu</span> <b>", i + 1,
			finding->remark ? " r" : "", i + 1);
		html_text(out, finding->is.sentence[0] ? finding->is.sentence : words_subject(report, finding, text));
		fputs("</b></p><p class=\"mute small\">", out);
		html_format(out, "%s; %s; evidence: %s, confidence %.2f; %s", finding_kind_word(finding->is.kind),
			words_since(report, finding, text), finding_tier_word(finding->is.tier), finding->is.confidence,
			finding_severity_word(finding->is.severity));
		if (finding->is.others[0])
			html_format(out, "; also ranks %s", finding->is.others);
		if (words_reported_by(finding, text)[0])
			html_format(out, "; %s", text);
		fputs("</p><p>", out);
		html_format(out, "Advice: %s.", finding_cause_advice(finding->is.cause));
		fputs("</p><div class=\"ev\"><div>", out);
		put_plot(out, report, finding);
		fputs("</div><div>", out);
		put_measured(out, &finding->is);
		fputs("</div></div></article>\n", out);
	}
	fputs("</div></section>\n", out);
}
