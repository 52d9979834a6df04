/* SPDX-License-Identifier: Apache-2.0 */
/* The heat map: a row a rank, a column a bucket of time; darker (on dark: brighter) is a larger part of the step
 * lost. */
#include <inttypes.h>
#include <math.h>

#include "analyzers/report/html.h"
#include "analyzers/report/words.h"

#define MAPS 6	     /* jobs */
#define FOLDED_MIN 3 /* neighbouring ranks without a slow-down that share a row */
#define LEVELS 6

/* Shares of a step from which a level begins. */
static const double levels[LEVELS] = {0, 0.02, 0.05, 0.10, 0.25, 0.50};

static unsigned heat_level(double share)
{
	unsigned level = LEVELS - 1;

	while (level && !(share >= levels[level]))
		level--;
	return level;
}

static bool heat_is_quiet(const struct report_heat_row *row)
{
	return row->rank >= 0 && heat_level((double)row->worst) == 0;
}

/* Cells of one level, activity and finding are one rectangle. */
static bool heat_same(const struct report_heat_cell *a, const struct report_heat_cell *b)
{
	return isfinite(a->share) == isfinite(b->share) && a->group == b->group &&
	       heat_level((double)a->share) == heat_level((double)b->share) &&
	       (heat_level((double)a->share) == 0 || a->activity == b->activity);
}

static void heat_title(
	FILE *out, const struct report_heat *heat, const struct report_heat_row *row, uint32_t first, uint32_t end)
{
	const struct report_heat_cell *cell = &row->cell[first];
	float most = 0;

	for (uint32_t i = first; i < end; i++)
		most = row->cell[i].share > most ? row->cell[i].share : most;
	html_put(out, "<title>%s to %s: %s of the step lost",
		words_clock(heat->since_ns + first * heat->bucket_ns, heat->bucket_ns, HTML_WORD),
		words_clock(heat->since_ns + end * heat->bucket_ns, heat->bucket_ns, HTML_WORD),
		words_percent((double)most, HTML_WORD));
	if (cell->activity < ACTIVITY_MAX)
		html_put(out, ", %s", activity_title(cell->activity));
	if (cell->group != REPORT_NONE)
		html_put(out, "; finding %" PRIu32, cell->group + 1);
	fputs("</title>", out);
}

static void heat_cells(FILE *out, const struct report_heat *heat, const struct report_heat_row *row)
{
	uint32_t next;

	fprintf(out, "<svg viewBox=\"0 0 %" PRIu32 " 10\" preserveAspectRatio=\"none\">", heat->buckets);
	for (uint32_t at = 0; at < heat->buckets; at = next) {
		const struct report_heat_cell *cell = &row->cell[at];
		unsigned level = heat_level((double)cell->share);

		for (next = at + 1; next < heat->buckets && heat_same(cell, &row->cell[next]);)
			next++;
		if (!isfinite(cell->share))
			continue;
		fprintf(out, "<rect class=\"e%u\" x=\"%" PRIu32 "\" width=\"%" PRIu32 "\" height=\"10\">", level, at,
			next - at);
		if (level)
			heat_title(out, heat, row, at, next);
		fputs("</rect>", out);
		if (cell->group != REPORT_NONE)
			fprintf(out,
				"<rect class=\"em\" x=\"%" PRIu32 "\" y=\"8\" width=\"%" PRIu32 "\" height=\"2\"/>", at,
				next - at);
	}
	fputs("</svg>", out);
}

/* What the row shows, in words: its worst cell. */
static void heat_words(FILE *out, const struct report *report, const struct report_heat_row *row, uint32_t buckets)
{
	const struct report_heat_cell *worst = NULL;
	char share[WORDS_BYTES];

	for (uint32_t i = 0; i < buckets; i++)
		if (isfinite(row->cell[i].share) && (!worst || row->cell[i].share > worst->share))
			worst = &row->cell[i];
	fputs("<span class=\"hw\">", out);
	if (worst && heat_level((double)worst->share)) {
		if (worst->group != REPORT_NONE && worst->group < report->groups_shown)
			fprintf(out, "<a class=\"no\" href=\"#f%" PRIu32 "\">%" PRIu32 "</a> ", worst->group + 1,
				worst->group + 1);
		text_put_html(out, words_percent((double)worst->share, share));
		if (worst->activity < ACTIVITY_MAX)
			html_put(out, " %s", activity_title(worst->activity));
		else if (worst->group != REPORT_NONE)
			html_put(out, " %s", words_why(&report->finding[report->group[worst->group].first].is, share));
	}
	fputs("</span>", out);
}

static void heat_row(FILE *out, const struct report *report, const struct report_heat *heat, size_t first, size_t count)
{
	const struct report_heat_row *row = &heat->row[first];

	fputs("<div class=\"hr\"><span class=\"hl\">", out);
	if (row->rank < 0)
		fputs("whole job", out);
	else if (count > 1)
		fprintf(out, "%" PRId32 " to %" PRId32, row->rank, heat->row[first + count - 1].rank);
	else
		fprintf(out, "rank %" PRId32, row->rank);
	fputs("</span>", out);
	heat_cells(out, heat, row);
	heat_words(out, report, row, heat->buckets);
	fputs("</div>\n", out);
}

static void heat_map(FILE *out, const struct report *report, const struct report_job *job)
{
	const struct report_heat *heat = job->heat;
	size_t ranks = heat->rows - (heat->row[0].rank < 0); /* that are shown */

	html_put(out,
		"<p class=\"small\"><b>%s</b> <span class=\"mute\">%s, %s a column</span></p>\n<div class=\"heat\">\n",
		words_job(job), words_many(heat->ranks, "rank", "ranks", HTML_WORD),
		words_length(heat->bucket_ns, HTML_WORD));
	for (size_t i = 0, next; i < heat->rows; i = next) {
		for (next = i + 1;
			heat_is_quiet(&heat->row[i]) && next < heat->rows && heat_is_quiet(&heat->row[next]);)
			next++;
		if (next - i < FOLDED_MIN)
			next = i + 1;
		heat_row(out, report, heat, i, next - i);
	}
	fputs("<div class=\"hr\"><span class=\"hl\"></span>", out);
	html_ticks(out, heat->since_ns, heat->since_ns + heat->buckets * heat->bucket_ns);
	fputs("<span class=\"hw\"></span></div></div>\n", out);
	if (heat->ranks > ranks)
		fprintf(out, "<p class=\"mute small\">The other %zu of %zu ranks lost less%s.</p>", heat->ranks - ranks,
			heat->ranks, report->chosen.count ? " or were not chosen" : "");
}

static void heat_legend(FILE *out)
{
	static const char *const names[LEVELS] = {
		"less than 2 %", "2 to 5 %", "5 to 10 %", "10 to 25 %", "25 to 50 %", "50 % and more"};

	fputs("<p class=\"key\"><span>Part of its step that a rank loses against the median of the others:</span>",
		out);
	for (size_t i = 0; i < LEVELS; i++)
		fprintf(out, "<span><i class=\"c b%zu\"></i>%s</span>", i, names[i]);
	fputs("<span><i class=\"c km\"></i>found slow or hung (number on the right)</span><span>empty: no "
	      "steps</span></p>\n",
		out);
}

void html_heat(FILE *out, const struct report *report)
{
	bool shown[REPORT_JOBS_MAX] = {false};
	size_t maps = 0;

	for (; maps < MAPS; maps++) {
		uint32_t best = REPORT_NONE;

		for (uint32_t i = 0; i < report->jobs; i++)
			if (!shown[i] && report->job[i].heat && report->job[i].heat->rows &&
				(best == REPORT_NONE ||
					report->job[i].cost_card_hours > report->job[best].cost_card_hours))
				best = i;
		if (best == REPORT_NONE)
			break;
		shown[best] = true;
		fputs(maps ? "" : "<section class=\"box wide\"><h2>Slow-down by rank and time</h2>\n", out);
		heat_map(out, report, &report->job[best]);
	}
	if (maps) {
		heat_legend(out);
		fputs("</section>\n", out);
	}
}
