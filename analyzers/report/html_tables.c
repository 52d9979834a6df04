/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of the page: worst cards, memory of devices, jobs. */
#include <inttypes.h>
#include <math.h>

#include "analyzers/base/user.h"
#include "analyzers/report/html.h"
#include "analyzers/report/judge.h"
#include "analyzers/report/model.h"
#include "analyzers/report/words.h"

#define CARDS_SHOWN 20
#define MEMORY_SHOWN 20

/* Oldest on the left. */
static void put_days(FILE *out, const struct report *report, const struct report_card *card)
{
	fputs("<span class=\"days\">", out);
	for (int day = REPORT_DAYS; day-- > 0;) {
		bool slow = card->slow_days >> day & 1, data = report->node[card->node].data_days >> day & 1;

		html_put(out, "<b class=\"%s\" title=\"%s: %s\"></b>",
			slow   ? "s"
			: data ? "d"
			       : "x",
			words_day(report->until_ns - (uint64_t)day * 86400000000000ULL - 43200000000000ULL, HTML_WORD),
			slow   ? "slow"
			: data ? "not slow"
			       : "no data");
	}
	fputs("</span>", out);
}

/* What was lost and is of no card. */
static void put_rest(FILE *out, const char *what, double hours, const char *why)
{
	if (hours > 0)
		html_put(out,
			"<tr><td class=\"m\">%s</td>" HTML_COUNTED
			"<td class=\"\"></td><td class=\"mute\">%s</td></tr>\n",
			what, "card-hours", words_hours(hours, HTML_WORD), why);
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

		html_put(out, "<tr><td class=\"m\">%s</td>" HTML_COUNTED "<td class=\"w\">",
			words_card(report, report->worst[i], HTML_WORD), "card-hours",
			words_hours(card->cost_card_hours, HTML_WORD));
		put_days(out, report, card);
		judge_card_days(report, card, &slow, &of);
		judge_card_advice(report, card, text, sizeof(text));
		html_put(out,
			" <span class=\"small mute\">%" PRIu32 " of %" PRIu32
			"</span></td><td class=\"%s\">%s</td></tr>\n",
			slow, of, judge_card_is_chronic(report, card) ? "strong" : "", text);
	}
	put_rest(out, "not of a single card", report->cardless_card_hours,
		"jobs as a whole, networks: see the findings");
	put_rest(out, "short slow-downs", report->brief_card_hours, "of all ranks, too short to announce");
	fputs("</table></div>", out);
	if (report->worsts > CARDS_SHOWN)
		fprintf(out, "<p class=\"mute\">and %zu more</p>", report->worsts - CARDS_SHOWN);
	fputs("<p class=\"key\"><span><i class=\"k1\" "
	      "style=\"border:0;background:var(--badfill);width:.7rem\"></i>slow that day</span>"
	      "<span>card-hours within this report's period; newest day on the right</span></p></section>\n",
		out);
}

void html_memory(FILE *out, const struct report *report)
{
	if (!report->memories)
		return;
	fputs("<section class=\"box wide\"><h2>Device memory</h2><div class=\"scroll\"><table><tr><th>what</th>"
	      "<th>device</th><th class=\"n\">peak allocated</th><th class=\"n\">peak reserved</th><th "
	      "class=\"n\">failed requests</th><th class=\"n\">failed calls</th><th>leak</th></tr>\n",
		out);
	for (size_t i = 0; i < report->memories && i < MEMORY_SHOWN; i++) {
		const struct report_memory *memory = &report->memory[i];

		html_put(out,
			"<tr><td class=\"m %s\">%s</td><td>%s</td>" HTML_COUNTED HTML_COUNTED HTML_COUNTED HTML_COUNTED
			"<td>%s</td></tr>\n",
			i < report->memories_bad ? "strong" : "", words_memory_subject(report, memory, HTML_WORD),
			words_memory_device(memory, HTML_WORD), "allocated",
			words_memory_bytes(memory->allocated_bytes, HTML_WORD), "reserved",
			words_memory_bytes(memory->reserved_bytes, HTML_WORD), "failed requests",
			words_count(memory->failed, HTML_WORD), "failed calls",
			words_count(memory->calls_failed, HTML_WORD), words_memory_leak(report, memory, HTML_WORD));
	}
	fputs("</table></div>", out);
	if (report->memories > MEMORY_SHOWN)
		fprintf(out, "<p class=\"small mute\">and %zu more: tracectl report --json</p>",
			report->memories - MEMORY_SHOWN);
	fputs("</section>\n", out);
}

void html_jobs(FILE *out, const struct report *report)
{
	char ranks[32], nodes[16], user[USER_NAME_BYTES];
	size_t shown = 0;

	for (size_t i = 0; i < report->jobs; i++) {
		const struct report_job *job = &report->job[i];

		if (report_job_is_none(job) || shown++ >= REPORT_JOBS_SHOWN_MAX)
			continue;
		if (shown == 1)
			fputs("<section class=\"box\"><h2>Jobs</h2><div "
			      "class=\"scroll\"><table><tr><th>job</th><th>user</th><th "
			      "class=\"n\">ranks</th>"
			      "<th class=\"n\">nodes</th><th class=\"n\">steps</th><th class=\"n\">step</th><th "
			      "class=\"n\">findings</th>"
			      "<th class=\"n\">lost card-hours</th></tr>\n",
				out);
		snprintf(ranks, sizeof(ranks), job->world > job->ranks ? "%" PRIu32 " of %" PRIu32 : "%" PRIu32,
			job->ranks, job->world);
		snprintf(nodes, sizeof(nodes), "%" PRIu32, job->nodes);
		html_put(out,
			"<tr><td class=\"m\">%s</td><td class=\"m\">%s</td>" HTML_COUNTED HTML_COUNTED HTML_COUNTED
				HTML_COUNTED HTML_COUNTED HTML_COUNTED "</tr>\n",
			words_job(job), user_name(job->uid, user), "ranks", ranks, "nodes", nodes, "steps",
			words_count(job->steps, HTML_WORD), "a step",
			words_value(job->median_ns > 0 ? job->median_ns : NAN, "ns", HTML_WORD), "findings",
			words_count(job->findings, HTML_WORD), "card-hours lost",
			words_hours(job->cost_card_hours, HTML_WORD));
	}
	if (!shown)
		return;
	fputs("</table></div>", out);
	if (shown > REPORT_JOBS_SHOWN_MAX)
		fprintf(out, "<p class=\"small mute\">and %zu more: tracectl report --json</p>",
			shown - REPORT_JOBS_SHOWN_MAX);
	fputs("</section>\n", out);
}
