/* SPDX-License-Identifier: Apache-2.0 */
/* Findings of the page: a row and an article a group, with plot, bars, measures and the episodes beneath. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analyzers/report/html.h"
#include "analyzers/report/judge.h"
#include "analyzers/report/words.h"

#define EPISODES_SHOWN 8 /* of a group, newest first */
#define BRIEFS_SHOWN 16
#define BAR_PERCENT 42 /* of its place, the longest bar; the rest is for its number */

static void html_group_row(FILE *out, const struct report *report, size_t i)
{
	const struct report_group *group = &report->group[i];
	const struct report_finding *finding = &report->finding[group->first];

	html_put(out, "<tr><td><a class=\"no%s\" href=\"#f%zu\">%zu</a></td><td class=\"m\">%s</td><td>%s",
		group->remark ? " r" : "", i + 1, i + 1, words_subject(report, finding, HTML_WORD),
		words_why(&finding->is, HTML_WORD));
	fputs(finding->reported_by ? "" : " <span class=\"mute\">(comparison of nodes)</span>", out);
	fputs(group->fresh ? " <span class=\"new\">new</span></td>" : "</td>", out);
	html_put(out, "<td class=\"w\">%s</td>" HTML_COUNTED "<td class=\"w\">%s",
		words_when(group->is.since_ns, HTML_WORD), group->is.count > 1 ? "episodes" : "episode",
		words_count(group->is.count, HTML_WORD), words_length(group->is.lasted_ns, HTML_WORD));
	fputs(group->remark ? ", note" : group->is.until_ns ? "" : ", <span class=\"open\">open</span>", out);
	html_put(out, "</td>" HTML_COUNTED "</tr>\n", "card-hours", words_hours(group->is.cost_card_hours, HTML_WORD));
}

static void html_briefs(FILE *out, const struct report *report)
{
	if (!report->briefs)
		return;
	fputs("<h3>Short slow-downs</h3><ul class=\"small\">\n", out);
	for (size_t i = 0; i < report->brief_ranks && i < BRIEFS_SHOWN; i++)
		html_put(out, "<li>%s</li>\n", words_brief(report, &report->brief[i], HTML_WORD));
	if (report->brief_ranks > BRIEFS_SHOWN)
		fprintf(out, "<li>and those of %zu more ranks</li>", report->brief_ranks - BRIEFS_SHOWN);
	fputs("</ul>", out);
}

void html_findings(FILE *out, const struct report *report)
{
	if (!report->groups && !report->briefs)
		return;
	fputs("<section class=\"box wide\"><h2>Findings</h2>", out);
	if (report->groups)
		fputs("<div class=\"scroll\"><table><tr><th></th><th>what</th><th>why</th><th>since</th><th "
		      "class=\"n\">episodes</th><th>in all</th><th class=\"n\">card-hours</th></tr>\n",
			out);
	for (size_t i = 0; i < report->groups_shown; i++)
		html_group_row(out, report, i);
	if (report->groups)
		fputs("</table></div>", out);
	if (report->groups > report->groups_shown)
		fprintf(out, "<p class=\"mute\">and %zu more: tracectl findings</p>",
			report->groups - report->groups_shown);
	html_briefs(out, report);
	fputs("</section>\n", out);
}

static void html_measured(FILE *out, const struct finding *f)
{
	if (!f->evidences)
		return;
	fputs("<div class=\"scroll\"><table><tr><th>measured</th><th class=\"n\">value</th><th class=\"n\">peers, or "
	      "before</th><th>where</th></tr>\n",
		out);
	for (size_t i = 0; i < f->evidences; i++)
		html_put(out,
			"<tr><td class=\"m\">%s</td><td class=\"n\">%s</td>" HTML_COUNTED
			"<td class=\"\">%s</td></tr>\n",
			f->evidence[i].name, words_value(f->evidence[i].value, f->evidence[i].unit, HTML_WORD),
			"peers, or before", words_value(f->evidence[i].peers, f->evidence[i].unit, HTML_WORD),
			f->evidence[i].detail);
	fputs("</table></div>\n", out);
}

/* "data loading, ms a step: 217 ms while found slow; peers 0.2 ms" */
static void html_plot_words(FILE *out, const struct report_finding *finding)
{
	const struct report_plot *plot = finding->plot;
	const char *each = strncmp(plot->unit, "ns ", 3) == 0 ? plot->unit + 3 : plot->unit;
	char text[WORDS_BYTES];

	html_put(out, "<p class=\"small\"><b>%s</b> <span class=\"mute\">",
		plot->activity < ACTIVITY_MAX ? activity_title(plot->activity) : plot->what);
	if (strcmp(plot->unit, "steps") == 0)
		html_put(out, "in %s each", words_length((plot->until_ns - plot->since_ns) / plot->buckets, text));
	else
		text_put_html(out, each);
	if (isfinite(plot->found_own))
		html_put(out, ": %s while found slow", words_value(plot->found_own, plot->unit, text));
	if (isfinite(plot->found_own) && isfinite(plot->found_peers))
		html_put(out, "; %s %s", isfinite(plot->before) ? "before, or peers" : "peers",
			words_value(plot->found_peers, plot->unit, text));
	if (finding->is.kind == FINDING_SLOW_RANK && strcmp(plot->what, "step_time") == 0)
		fputs(" (its steps: stages do not show the cause)", out);
	fputs("</span></p>", out);
}

static void html_plot(FILE *out, const struct report *report, const struct report_finding *finding)
{
	const struct report_plot *plot = finding->plot;

	if (!plot) {
		fputs("<p class=\"mute small\">No rows of that time are stored, or no plot shows it.</p>", out);
		return;
	}
	html_plot_words(out, finding);
	html_evidence_chart(out, report, finding);
	fputs("<p class=\"key\"><span><i class=\"k1\"></i>", out);
	if (finding->is.rank >= 0 && !isfinite(plot->before))
		html_put(out, "rank %" PRId32, finding->is.rank);
	else
		fputs("its ranks, median", out);
	fputs("</span>", out);
	if (isfinite(plot->before))
		fputs("<span><i class=\"k2\"></i>before, or peers</span>", out);
	else if (finding->is.rank >= 0 && plot->peers == 1)
		fputs("<span><i class=\"k2\"></i>the other rank</span>", out);
	else if (finding->is.rank >= 0 && plot->peers)
		fprintf(out,
			"<span><i class=\"k2\"></i>median of %" PRIu32
			" peers</span><span><i class=\"k3\"></i>10 to 90 %% of them</span>",
			plot->peers);
	fputs("<span><i class=\"k4\"></i>found slow</span></p>", out);
}

/* Two bars: own work, then waiting. */
static void html_bar(FILE *out, const char *class, double own_ns, double waiting_ns, double most_ns)
{
	html_put(out,
		"<span class=\"bb %s\"><i class=\"bo\" style=\"width:%.2f%%\"></i><i class=\"bw\" "
		"style=\"width:%.2f%%\"></i>"
		"<span>%s",
		class, BAR_PERCENT * own_ns / most_ns, BAR_PERCENT * waiting_ns / most_ns,
		words_value(own_ns, "ns", HTML_WORD));
	if (waiting_ns >= 0.01 * most_ns)
		html_put(out, " + %s", words_value(waiting_ns, "ns", HTML_WORD));
	fputs("</span></span>", out);
}

static void html_bars(FILE *out, const struct report_finding *finding)
{
	const struct report_bars *bars = finding->bars;
	double most_ns = 0;

	if (!bars || !bars->bars)
		return;
	for (size_t i = 0; i < bars->bars; i++) {
		const struct report_bar *bar = &bars->bar[i];

		most_ns = fmax(most_ns, fmax(bar->own_ns + bar->waiting_ns, bar->peers_own_ns + bar->peers_waiting_ns));
	}
	if (!(most_ns > 0))
		return;
	fputs("<p class=\"small\"><b>own work and waiting</b> <span class=\"mute\">a step, while found "
	      "slow</span></p><div "
	      "class=\"bars\">\n",
		out);
	for (size_t i = 0; i < bars->bars; i++) {
		const struct report_bar *bar = &bars->bar[i];

		html_put(out, "<span class=\"bl\">%s</span><span>", activity_title(bar->activity));
		html_bar(out, "bx", bar->own_ns, bar->waiting_ns, most_ns);
		html_bar(out, "by", bar->peers_own_ns, bar->peers_waiting_ns, most_ns);
		fputs("</span>\n", out);
	}
	html_put(out,
		"</div><p class=\"key\"><span><i class=\"k8\"></i>rank %" PRId32 "</span><span><i class=\"k9\"></i>",
		finding->is.rank);
	if (bars->peers == 1)
		fputs("the other rank", out);
	else
		fprintf(out, "median of %" PRIu32 " peers", bars->peers);
	fputs("</span><span><i class=\"kw\"></i>waiting for others</span></p>\n", out);
}

static void html_episode(FILE *out, const struct report *report, const struct report_finding *finding)
{
	uint64_t end_ns = finding->is.until_ns ? finding->is.until_ns : report->now_ns, since_ns = finding->is.since_ns;

	html_put(out, "<li>%s, %s, %s card-hours, %s", words_stamp(since_ns, HTML_WORD),
		words_length(end_ns > since_ns ? end_ns - since_ns : 0, HTML_WORD),
		words_hours(finding->cost_card_hours, HTML_WORD), finding_severity_word(finding->is.severity));
	fputs(finding->is.until_ns ? "" : ", <span class=\"open\">open</span>", out);
	html_put(out, "<span class=\"cmd\">%s</span></li>\n", words_timeline(report, finding, HTML_WORD));
}

/* Newest first. */
static void html_episodes(FILE *out, const struct report *report, const struct report_group *group)
{
	uint64_t before_ns = UINT64_MAX;
	size_t shown = 0;

	if (group->is.count > 1)
		html_put(out, "<p class=\"small\"><b>%s</b></p>", words_recurred(group, HTML_WORD));
	fputs("<ul class=\"small eps\">\n", out);
	for (; shown < EPISODES_SHOWN && shown < group->is.count; shown++) {
		const struct report_finding *next = NULL;

		for (size_t i = group->first; i < group->first + group->is.count; i++)
			if (report->finding[i].is.since_ns < before_ns &&
				(!next || report->finding[i].is.since_ns > next->is.since_ns))
				next = &report->finding[i];
		if (!next)
			break;
		before_ns = next->is.since_ns;
		html_episode(out, report, next);
	}
	if (group->is.count > shown)
		fprintf(out, "<li>and %zu more: tracectl findings --episodes</li>\n", group->is.count - shown);
	fputs("</ul>", out);
}

static void html_article(FILE *out, const struct report *report, size_t i)
{
	const struct report_group *group = &report->group[i];
	const struct report_finding *finding = &report->finding[group->first];
	char text[WORDS_BYTES];

	html_put(out, "<article id=\"f%zu\"><p><span class=\"no%s\">%zu</span> <b>%s</b>", i + 1,
		group->remark ? " r" : "", i + 1,
		finding->is.sentence[0] ? finding->is.sentence : words_subject(report, finding, text));
	fputs(group->fresh ? " <span class=\"new\">new since yesterday</span></p>" : "</p>", out);
	html_put(out, "<p class=\"mute small\">%s%s; %s; evidence: %s, confidence %.2f; %s",
		group->is.count > 1 ? "costliest episode: " : "", finding_kind_word(finding->is.kind),
		words_since(report, finding, text), finding_tier_word(finding->is.tier), finding->is.confidence,
		finding_severity_word(finding->is.severity));
	if (finding->is.side != FINDING_SIDE_UNKNOWN)
		html_put(out, "; slow on its %s", finding_side_word(finding->is.side));
	if (finding->is.others[0])
		html_put(out, "; also ranks %s", finding->is.others);
	if (words_reported_by(finding, text)[0])
		html_put(out, "; %s", text);
	html_put(out, "</p><p>Advice: %s.</p><div class=\"ev\"><div>", judge_advice(&finding->is));
	html_plot(out, report, finding);
	html_measured(out, &finding->is);
	fputs("</div><div>", out);
	html_bars(out, finding);
	html_episodes(out, report, group);
	fputs("</div></div></article>\n", out);
}

void html_evidence(FILE *out, const struct report *report)
{
	if (!report->groups_shown)
		return;
	fputs("<section class=\"box wide\"><h2>Evidence</h2><div class=\"articles\">\n", out);
	for (size_t i = 0; i < report->groups_shown; i++)
		html_article(out, report, i);
	fputs("</div></section>\n", out);
}
