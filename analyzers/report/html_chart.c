/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charts. The SVG holds only shapes, because it is stretched to any width; labels are HTML around it and keep their
 * size.
 */
#include <math.h>
#include <string.h>

#include "analyzers/report/html.h"
#include "analyzers/report/words.h"

#define WIDTH 1000
#define HEIGHT 200
#define LANES_MAX 8
#define LANE_REM 1.3
#define LABELS 6 /* below the time axis */

struct axis {
	uint64_t since_ns, until_ns;
	double bottom, top;
	const char *unit;
};

static double x_of(const struct axis *axis, uint64_t ns)
{
	double at =
		ns <= axis->since_ns ? 0 : (double)(ns - axis->since_ns) / (double)(axis->until_ns - axis->since_ns);

	return at < 1 ? at * WIDTH : WIDTH;
}

static double y_of(const struct axis *axis, double value)
{
	double at = (value - axis->bottom) / (axis->top - axis->bottom);

	return HEIGHT - HEIGHT * (at < 0 ? 0 : at > 1 ? 1 : at);
}

/* Covers all values with a margin, from zero if that is near; cuts far outliers. */
static void report_html_chart_fit(struct axis *axis, const double *low, const double *high, size_t n, double also)
{
	double least = isfinite(also) ? also : INFINITY, most = isfinite(also) ? also : 0, typical[SERIES_BUCKETS],
	       middle;
	size_t count = 0;

	for (size_t i = 0; i < n; i++) {
		if (!isfinite(low[i]) || !isfinite(high[i]))
			continue;
		least = fmin(least, low[i]);
		most = fmax(most, high[i]);
		if (count < SERIES_BUCKETS)
			typical[count++] = high[i];
	}
	middle = values_quantile(typical, count, 0.9);
	if (isfinite(middle) && middle > 0)
		most = fmin(most, 2.5 * middle);
	if (!(least < INFINITY))
		least = 0;
	axis->bottom = least > most * 0.6 ? fmax(0, least - (most - least) * 0.6) : 0;
	axis->top = most + (most - axis->bottom) * 0.12;
	/* Small differences appear small. */
	if (axis->top - axis->bottom < 0.3 * axis->top) {
		axis->bottom = fmin(axis->bottom, 0.85 * (least + most) / 2);
		axis->top = fmax(axis->top, 1.15 * (least + most) / 2);
	}
	if (!(axis->top > axis->bottom))
		axis->top = axis->bottom + 1;
}

static void report_html_chart_begin(FILE *out, const struct axis *axis, const char *class)
{
	char text[WORDS_BYTES];

	fprintf(out, "<div class=\"chart %s\"><div class=\"ys\">", class);
	fputs("<span class=\"t\" style=\"top:0\">", out);
	html_text(out, words_value(axis->top, axis->unit, text));
	fputs("</span><span style=\"top:50%\">", out);
	html_text(out, words_value((axis->top + axis->bottom) / 2, axis->unit, text));
	fputs("</span><span class=\"b\" style=\"top:100%\">", out);
	html_text(out, axis->bottom > 0 ? words_value(axis->bottom, axis->unit, text) : "0");
	fprintf(out,
		"</span></div><div class=\"plot\"><svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" "
		"aria-hidden=\"true\">"
		"<line class=\"gridl\" x1=\"0\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>",
		WIDTH, HEIGHT, HEIGHT / 2, WIDTH, HEIGHT / 2);
}

static void report_html_chart_end(FILE *out, const struct axis *axis)
{
	uint64_t step_ns = (axis->until_ns - axis->since_ns) / LABELS;
	char text[WORDS_BYTES];

	fputs("</svg></div><div class=\"xs\">", out);
	for (unsigned i = 0; i <= LABELS; i++) {
		fprintf(out, "<span class=\"%s\" style=\"left:%.2f%%\">",
			i == 0	      ? "f"
			: i == LABELS ? "l"
			: i % 2	      ? "odd"
				      : "",
			100.0 * i / LABELS);
		html_text(out, words_clock(axis->since_ns + i * step_ns, step_ns, text));
		fputs("</span>", out);
	}
	fputs("</div>", out);
}

/* A line with gaps where values are missing. */
static void report_html_chart_line(FILE *out, const struct axis *axis, const double *value, size_t n, const char *class)
{
	bool down = false;

	fprintf(out, "<path class=\"%s\" d=\"", class);
	for (size_t i = 0; i < n; i++) {
		double x = ((double)i + 0.5) / (double)n * WIDTH;

		if (!isfinite(value[i])) {
			down = false;
			continue;
		}
		/* A single point is a short line. */
		if (!down && (i + 1 == n || !isfinite(value[i + 1])))
			fprintf(out, "M%.1f %.1fh%.1f", x - 0.4 * WIDTH / (double)n, y_of(axis, value[i]),
				0.8 * WIDTH / (double)n);
		else
			fprintf(out, "%c%.1f %.1f", down ? 'L' : 'M', x, y_of(axis, value[i]));
		down = true;
	}
	fputs("\"/>", out);
}

static void band(FILE *out, const struct axis *axis, const double *low, const double *high, size_t n)
{
	double step = WIDTH / (double)n;

	fputs("<path class=\"bandp\" d=\"", out);
	for (size_t i = 0; i < n; i++) {
		size_t last = i;

		if (!isfinite(low[i]) || !isfinite(high[i]))
			continue;
		while (last + 1 < n && isfinite(low[last + 1]) && isfinite(high[last + 1]))
			last++;
		fprintf(out, "M%.1f %.1f", (double)i * step, y_of(axis, high[i]));
		for (size_t j = i; j <= last; j++)
			fprintf(out, "L%.1f %.1f", ((double)j + 0.5) * step, y_of(axis, high[j]));
		fprintf(out, "L%.1f %.1fL%.1f %.1f", ((double)last + 1) * step, y_of(axis, high[last]),
			((double)last + 1) * step, y_of(axis, low[last]));
		for (size_t j = last + 1; j-- > i;)
			fprintf(out, "L%.1f %.1f", ((double)j + 0.5) * step, y_of(axis, low[j]));
		fprintf(out, "L%.1f %.1fZ", (double)i * step, y_of(axis, low[i]));
		i = last;
	}
	fputs("\"/>", out);
}

static void shade(FILE *out, const struct axis *axis, uint64_t since_ns, uint64_t until_ns, const char *class)
{
	double from = x_of(axis, since_ns), to = x_of(axis, until_ns);

	if (to > from)
		fprintf(out, "<rect class=\"%s\" x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"%d\"/>", class, from,
			to - from, HEIGHT);
}

/* Hatches times without steps that are longer than a step. */
static void shade_empty(FILE *out, const struct axis *axis, const struct report_job *job, const double *middle)
{
	uint64_t bucket_ns = (axis->until_ns - axis->since_ns) / SERIES_BUCKETS;
	size_t least = (size_t)(job->median_ns * 3 / (double)(bucket_ns ? bucket_ns : 1)) + 2;

	for (size_t i = 0; i < SERIES_BUCKETS; i++) {
		size_t last = i;

		if (isfinite(middle[i]))
			continue;
		while (last + 1 < SERIES_BUCKETS && !isfinite(middle[last + 1]))
			last++;
		if (last - i + 1 >= least)
			shade(out, axis, axis->since_ns + i * bucket_ns, axis->since_ns + (last + 1) * bucket_ns,
				"void");
		i = last;
	}
}

static uint64_t report_html_chart_end_of(const struct report *report, const struct report_finding *finding)
{
	return finding->is.until_ns && finding->is.until_ns < report->until_ns ? finding->is.until_ns
									       : report->until_ns;
}

/* A bar a finding, numbered as in the tables; overlapping bars go to separate lanes. */
static void lanes(FILE *out, const struct report *report, const struct axis *axis, uint32_t job)
{
	double taken[LANES_MAX] = {0};
	size_t lane, used = 0;
	char text[WORDS_BYTES];

	for (lane = 0; lane < LANES_MAX; lane++)
		taken[lane] = -1;
	fputs("<div class=\"lanes\" style=\"height:", out);
	for (int pass = 0; pass < 2; pass++) {
		for (lane = 0; lane < LANES_MAX; lane++)
			taken[lane] = -1;
		for (size_t i = 0; i < report->shown; i++) {
			const struct report_finding *finding = &report->finding[i];
			double from = x_of(axis, finding->is.since_ns) / WIDTH * 100;
			double to = x_of(axis, report_html_chart_end_of(report, finding)) / WIDTH * 100;

			if (finding->job != job)
				continue;
			from = fmin(from, 93.5);
			for (lane = 0; lane < LANES_MAX - 1 && taken[lane] > from; lane++)
				;
			taken[lane] = fmax(to, from + 7.5) + 0.5;
			used = lane + 1 > used ? lane + 1 : used;
			if (!pass)
				continue;
			fprintf(out,
				"<a class=\"%s\" href=\"#f%zu\" style=\"left:%.2f%%;width:%.2f%%;top:%.2frem\" "
				"title=\"",
				finding->remark ? "r" : "", i + 1, from, fmax(to - from, 0.1), LANE_REM * (double)lane);
			html_text(out, words_subject(report, finding, text));
			fprintf(out, "\">%zu</a>", i + 1);
		}
		if (!pass)
			fprintf(out, "%.2frem\">", LANE_REM * (double)used);
	}
	fputs("</div>", out);
}

void html_job_chart(FILE *out, const struct report *report, uint32_t index)
{
	const struct report_job *job = &report->job[index];
	struct axis axis = {.since_ns = job->drawn_since_ns, .until_ns = job->drawn_until_ns, .unit = "ns"};
	double low[SERIES_BUCKETS], middle[SERIES_BUCKETS], high[SERIES_BUCKETS];

	for (size_t i = 0; i < SERIES_BUCKETS; i++) {
		low[i] = plot_series_quantile(job->series, i, 0.1);
		middle[i] = plot_series_quantile(job->series, i, 0.5);
		high[i] = plot_series_quantile(job->series, i, 0.9);
	}
	report_html_chart_fit(&axis, low, high, SERIES_BUCKETS, NAN);
	report_html_chart_begin(out, &axis, "");
	shade_empty(out, &axis, job, middle);
	for (size_t i = 0; i < report->shown; i++)
		if (report->finding[i].job == index && !report->finding[i].remark)
			shade(out, &axis, report->finding[i].is.since_ns, report_html_chart_end_of(report, &report->finding[i]), "when");
	band(out, &axis, low, high, SERIES_BUCKETS);
	report_html_chart_line(out, &axis, middle, SERIES_BUCKETS, "mid");
	report_html_chart_end(out, &axis);
	lanes(out, report, &axis, index);
	fputs("</div>\n", out);
}

void html_evidence_chart(FILE *out, const struct report *report, const struct report_finding *finding)
{
	const struct report_plot *plot = finding->plot;
	struct axis axis = {.since_ns = plot->since_ns, .until_ns = plot->until_ns, .unit = plot->unit};
	double least[REPORT_PLOT_BUCKETS], most[REPORT_PLOT_BUCKETS], before[REPORT_PLOT_BUCKETS];
	uint64_t end_ns = finding->is.until_ns ? finding->is.until_ns : report->now_ns;

	for (size_t i = 0; i < plot->buckets; i++) {
		least[i] = fmin(plot->own[i], plot->low[i]);
		most[i] = fmax(plot->own[i], plot->high[i]);
		before[i] = plot->before;
	}
	report_html_chart_fit(&axis, least, most, plot->buckets, plot->before);
	report_html_chart_begin(out, &axis, "short");
	shade(out, &axis, finding->is.since_ns, end_ns, "when");
	band(out, &axis, plot->low, plot->high, plot->buckets);
	report_html_chart_line(out, &axis, isfinite(plot->before) ? before : plot->middle, plot->buckets, "peer");
	report_html_chart_line(out, &axis, plot->own, plot->buckets, "own");
	report_html_chart_end(out, &axis);
	fputs("</div>\n", out);
}
