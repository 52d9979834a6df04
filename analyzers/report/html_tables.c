/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of the page: worst cards and jobs. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analyzers/base/user.h"
#include "analyzers/report/html.h"
#include "analyzers/report/judge.h"
#include "analyzers/report/words.h"

#define CARDS_SHOWN 20

void html_counted(FILE *out, const char *class, const char *unit, const char *text)
{
	fprintf(out, "<td class=\"%s\" data-u=\"%s\">", class, unit);
	html_text(out, text);
	fputs("</td>", out);
}

void html_cell(FILE *out, const char *class, const char *text)
{
	fprintf(out, "<td class=\"%s\">", class);
	html_text(out, text);
	fputs("</td>", out);
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

/* What was lost and is of no card. */
static void put_rest(FILE *out, const char *what, double hours, const char *why)
{
	char text[WORDS_BYTES];

	if (!(hours > 0))
		return;
	fputs("<tr>", out);
	html_cell(out, "m", what);
	html_counted(out, "n", "card-hours", words_hours(hours, text));
	html_cell(out, "", "");
	html_cell(out, "mute", why);
	fputs("</tr>\n", out);
}

void html_cards(FILE *out, const struct report *report)
{
	char text[WORDS_BYTES];

	if (!report->worsts && !(report->cardless_card_hours > 0))
		return;
	fprintf(out,
		"<section class=\"box wide\"><h2>Worst cards</h2><div class=\"scroll\"><table><tr><th>card</th><th "
		"class=\"n\">card-hours</th>"
		"<th>last %d days</th><th>advice</th></tr>\n",
		REPORT_DAYS);
	for (size_t i = 0; i < report->worsts && i < CARDS_SHOWN; i++) {
		const struct report_card *card = &report->card[report->worst[i]];
		uint32_t slow, of;

		fputs("<tr>", out);
		html_cell(out, "m", words_card(report, report->worst[i], text));
		html_counted(out, "n", "card-hours", words_hours(card->cost_card_hours, text));
		fputs("<td class=\"w\">", out);
		put_days(out, report, card);
		judge_card_days(report, card, &slow, &of);
		fprintf(out, " <span class=\"small mute\">%" PRIu32 " of %" PRIu32 "</span></td>", slow, of);
		judge_card_advice(report, card, text, sizeof(text));
		html_cell(out, judge_card_is_chronic(report, card) ? "strong" : "", text);
		fputs("</tr>\n", out);
	}
	put_rest(out, "not of a single card", report->cardless_card_hours, "jobs as a whole, networks: see the findings");
	put_rest(out, "short slow-downs", report->brief_card_hours, "of all ranks, too short to announce");
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
	char text[WORDS_BYTES], user[USER_NAME_BYTES];
	bool any = false;

	for (size_t i = 0; i < report->jobs; i++) {
		const struct report_job *job = &report->job[i];

		if (!job->ranks && !job->findings)
			continue;
		if (!any)
			fputs("<section class=\"box\"><h2>Jobs</h2><div class=\"scroll\"><table><tr><th>job</th><th>user</th>"
			      "<th class=\"n\">ranks</th>"
			      "<th class=\"n\">nodes</th><th class=\"n\">steps</th><th class=\"n\">step</th><th "
			      "class=\"n\">findings</th>"
			      "<th class=\"n\">lost card-hours</th></tr>\n",
				out);
		any = true;
		fputs("<tr>", out);
		html_cell(out, "m", words_job(job));
		html_cell(out, "m", user_name(job->uid, user));
		snprintf(text, sizeof(text), job->world > job->ranks ? "%" PRIu32 " of %" PRIu32 : "%" PRIu32,
			job->ranks, job->world);
		html_counted(out, "n", "ranks", text);
		snprintf(text, sizeof(text), "%" PRIu32, job->nodes);
		html_counted(out, "n", "nodes", text);
		html_counted(out, "n", "steps", words_count(job->steps, text));
		html_counted(out, "n", "a step", words_value(job->median_ns > 0 ? job->median_ns : NAN, "ns", text));
		html_counted(out, "n", "findings", words_count(job->findings, text));
		html_counted(out, "n", "card-hours lost", words_hours(job->cost_card_hours, text));
		fputs("</tr>\n", out);
	}
	if (any)
		fputs("</table></div></section>\n", out);
}
