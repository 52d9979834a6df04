/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charts. The SVG holds only shapes, because it is stretched to any width; labels are HTML around it and keep their
 * size.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analyzers/report/html.h"
#include "analyzers/report/model.h"
#include "analyzers/report/words.h"

#define WIDTH 1000
#define HEIGHT 200
#define LANES_MAX 8
#define LANE_REM 1.3
#define LABELS 9 /* below the time axis, at most */
#define DAY_NS 86400000000000ULL

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

/* The next of 1, 2 and 5 times a power of ten, of the unit that is shown; of minutes, as clocks are divided. */
static double report_html_chart_round(double value, const char *unit)
{
	static const double clock[] = {60e9, 120e9, 300e9, 600e9, 900e9, 1800e9, 3600e9};
	bool time = strncmp(unit, "ns", 2) == 0;
	double of = 1, ten;

	for (size_t i = 0; time && value > 50e9 && i < sizeof(clock) / sizeof(clock[0]); i++)
		if (value <= clock[i])
			return clock[i];
	if (time && value > 3600e9)
		of = 3600e9;
	while (strcmp(unit, "bytes") == 0 && value >= 1024 * of)
		of *= 1024;
	ten = of * pow(10, floor(log10(value / of)));
	return ten * (value <= ten ? 1 : value <= 2 * ten ? 2 : value <= 5 * ten ? 5 : 10);
}

/* Two round steps that hold everything between them. */
static void report_html_chart_axis(struct axis *axis)
{
	double step = report_html_chart_round((axis->top - axis->bottom) / 2, axis->unit),
	       bottom = step * floor(axis->bottom / step);

	while (bottom + 2 * step < axis->top) {
		step = report_html_chart_round(1.01 * step, axis->unit);
		bottom = step * floor(axis->bottom / step);
	}
	axis->bottom = bottom;
	axis->top = bottom + 2 * step;
}

/* Covers all values with a margin, from zero if that is near; cuts far outliers, but never also. */
static void report_html_chart_fit(struct axis *axis, const double *low, const double *high, size_t n, double also)
{
	double least = INFINITY, most = isfinite(also) ? also : 0, typical[SERIES_BUCKETS], middle;
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
		most = fmin(most, fmax(2.5 * middle, isfinite(also) ? 1.3 * also : 0));
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
	report_html_chart_axis(axis);
}

/* The next tick at or after a time: weeks and months have no round start, so a day is the longest step. */
static uint64_t report_html_chart_tick(uint64_t since_ns, uint64_t until_ns, uint64_t *ret_step_ns)
{
	*ret_step_ns = report_round_step(until_ns - since_ns, LABELS);
	return report_round_time(since_ns, *ret_step_ns);
}

void html_ticks(FILE *out, uint64_t since_ns, uint64_t until_ns)
{
	uint64_t step_ns, at_ns = report_html_chart_tick(since_ns, until_ns, &step_ns);

	fputs("<div class=\"xs\">", out);
	for (unsigned i = 0; at_ns <= until_ns; at_ns += step_ns, i++) {
		double at = 100.0 * (double)(at_ns - since_ns) / (double)(until_ns - since_ns);

		/* Narrow screens show every second one, narrow charts on them every fourth. */
		html_put(out, "<span class=\"%s%s\" style=\"left:%.2f%%\">%s</span>",
			i % 2	? "odd"
			: i % 4 ? "two"
				: "",
			at > 97 ? " l" : "", at,
			/* Midnight is a day's name. */
			step_ns < DAY_NS && report_round_time(at_ns, DAY_NS) == at_ns
				? words_day(at_ns, HTML_WORD)
				: words_clock(at_ns, step_ns, HTML_WORD));
	}
	fputs("</div>", out);
}

static void report_html_chart_end(FILE *out, const struct axis *axis)
{
	fputs("</svg></div>", out);
	html_ticks(out, axis->since_ns, axis->until_ns);
}

/* Vertical lines at the labels. */
static void report_html_chart_grid(FILE *out, const struct axis *axis)
{
	uint64_t step_ns, at_ns = report_html_chart_tick(axis->since_ns, axis->until_ns, &step_ns);

	for (; at_ns <= axis->until_ns; at_ns += step_ns)
		fprintf(out, "<line class=\"gridl\" x1=\"%.1f\" y1=\"0\" x2=\"%.1f\" y2=\"%d\"/>", x_of(axis, at_ns),
			x_of(axis, at_ns), HEIGHT);
}

static void report_html_chart_begin(FILE *out, const struct axis *axis, const char *class)
{
	html_put(out,
		"<div class=\"chart %s\"><div class=\"ys\"><span class=\"t\" style=\"top:0\">%s</span><span "
		"style=\"top:50%%\">%s</span><span class=\"b\" style=\"top:100%%\">%s</span></div><div class=\"plot\">"
		"<svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" aria-hidden=\"true\">"
		"<line class=\"gridl\" x1=\"0\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>",
		class, words_value(axis->top, axis->unit, HTML_WORD),
		words_value((axis->top + axis->bottom) / 2, axis->unit, HTML_WORD),
		axis->bottom > 0 ? words_value(axis->bottom, axis->unit, HTML_WORD) : "0", WIDTH, HEIGHT, HEIGHT / 2,
		WIDTH, HEIGHT / 2);
	report_html_chart_grid(out, axis);
}

/* A line with gaps where values are missing, of more than bridged ones. */
static void report_html_chart_line(
	FILE *out, const struct axis *axis, const double *value, size_t n, size_t bridged, const char *class)
{
	size_t missing = 0;
	bool down = false;

	fprintf(out, "<path class=\"%s\" d=\"", class);
	for (size_t i = 0; i < n; i++) {
		double x = ((double)i + 0.5) / (double)n * WIDTH;

		if (!isfinite(value[i])) {
			down = down && ++missing <= bridged;
			continue;
		}
		missing = 0;
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

static void html_chart_band(FILE *out, const struct axis *axis, const double *low, const double *high, size_t n)
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

static void html_chart_shade(
	FILE *out, const struct axis *axis, uint64_t since_ns, uint64_t until_ns, const char *class)
{
	double from = x_of(axis, since_ns), to = x_of(axis, until_ns);

	if (to > from)
		fprintf(out, "<rect class=\"%s\" x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"%d\"/>", class, from,
			to - from, HEIGHT);
}

/* Buckets in a row that may be empty because a step is longer. */
static size_t report_html_chart_empty(const struct axis *axis, const struct report_job *job)
{
	uint64_t bucket_ns = (axis->until_ns - axis->since_ns) / SERIES_BUCKETS;

	return (size_t)(job->median_ns * 3 / (double)(bucket_ns ? bucket_ns : 1)) + 1;
}

/* Hatches times without steps that are longer than a step. */
static void shade_empty(FILE *out, const struct axis *axis, const struct report_job *job, const double *middle)
{
	uint64_t bucket_ns = (axis->until_ns - axis->since_ns) / SERIES_BUCKETS;
	size_t least = report_html_chart_empty(axis, job) + 1;

	for (size_t i = 0; i < SERIES_BUCKETS; i++) {
		size_t last = i;

		if (isfinite(middle[i]))
			continue;
		while (last + 1 < SERIES_BUCKETS && !isfinite(middle[last + 1]))
			last++;
		if (last - i + 1 >= least)
			html_chart_shade(out, axis, axis->since_ns + i * bucket_ns,
				axis->since_ns + (last + 1) * bucket_ns, "void");
		i = last;
	}
}

static uint64_t report_html_chart_end_of(const struct report *report, const struct report_finding *finding)
{
	return finding->is.until_ns && finding->is.until_ns < report->until_ns ? finding->is.until_ns
									       : report->until_ns;
}

/* Share of the axis in percent. */
static double percent_of(const struct axis *axis, uint64_t ns)
{
	return x_of(axis, ns) / WIDTH * 100;
}

/* Lane of a group, below those that its episodes or its number would cover; SIZE_MAX: all are full. */
static size_t lane_of(
	const struct report *report, const struct axis *axis, const struct report_group *group, double *taken)
{
	double from = 100, to = 0;
	size_t lane = 0;

	for (size_t i = group->first; i < group->first + group->is.count; i++) {
		from = fmin(from, percent_of(axis, report->finding[i].is.since_ns));
		to = fmax(to, percent_of(axis, report_html_chart_end_of(report, &report->finding[i])));
	}
	from = fmin(from, 93.5);
	while (lane < LANES_MAX && taken[lane] > from)
		lane++;
	if (lane == LANES_MAX)
		return SIZE_MAX;
	taken[lane] = fmax(to, from + 4) + 0.5;
	return lane;
}

static void lane_bar(FILE *out, const struct report *report, const struct axis *axis,
	const struct report_finding *finding, double top_rem, bool numbered)
{
	double from = percent_of(axis, finding->is.since_ns),
	       to = percent_of(axis, report_html_chart_end_of(report, finding));

	if (numbered)
		from = fmin(from, 97);
	html_put(out,
		"<a class=\"%s%s\" href=\"#f%" PRIu32 "\" style=\"left:%.2f%%;width:%.2f%%;top:%.2frem\" title=\"%s\">",
		finding->remark ? "r" : "", numbered ? "" : " q", finding->group + 1, from, fmax(to - from, 0.1),
		top_rem, words_subject(report, finding, HTML_WORD));
	if (numbered)
		fprintf(out, "%" PRIu32, finding->group + 1);
	fputs("</a>", out);
}

/* A bar an episode, a number a group; groups that overlap go to separate lanes. */
static void html_chart_lanes(FILE *out, const struct report *report, const struct axis *axis, uint32_t job)
{
	double taken[LANES_MAX];
	size_t used = 0, lane[REPORT_GROUPS_SHOWN_MAX];

	for (size_t i = 0; i < LANES_MAX; i++)
		taken[i] = -1;
	for (size_t i = 0; i < report->groups_shown; i++) {
		const struct report_group *group = &report->group[i];

		lane[i] = report->finding[group->first].job == job ? lane_of(report, axis, group, taken) : SIZE_MAX;
		used = lane[i] < LANES_MAX && lane[i] + 1 > used ? lane[i] + 1 : used;
	}
	fprintf(out, "<div class=\"lanes\" style=\"height:%.2frem\">", LANE_REM * (double)used);
	for (size_t i = 0; i < report->groups_shown; i++) {
		const struct report_group *group = &report->group[i];
		size_t oldest = group->first;

		if (lane[i] == SIZE_MAX)
			continue;
		for (size_t at = group->first; at < group->first + group->is.count; at++)
			oldest = report->finding[at].is.since_ns < report->finding[oldest].is.since_ns ? at : oldest;
		for (size_t at = group->first; at < group->first + group->is.count; at++)
			lane_bar(out, report, axis, &report->finding[at], LANE_REM * (double)lane[i], at == oldest);
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
			html_chart_shade(out, &axis, report->finding[i].is.since_ns,
				report_html_chart_end_of(report, &report->finding[i]), "when");
	html_chart_band(out, &axis, low, high, SERIES_BUCKETS);
	report_html_chart_line(out, &axis, middle, SERIES_BUCKETS, report_html_chart_empty(&axis, job), "mid");
	report_html_chart_end(out, &axis);
	html_chart_lanes(out, report, &axis, index);
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
	report_html_chart_fit(&axis, least, most, plot->buckets,
		isfinite(plot->before) && isfinite(plot->found_own) ? fmax(plot->before, plot->found_own)
		: isfinite(plot->before)			    ? plot->before
								    : plot->found_own);
	report_html_chart_begin(out, &axis, "short");
	html_chart_shade(out, &axis, finding->is.since_ns, end_ns, "when");
	html_chart_band(out, &axis, plot->low, plot->high, plot->buckets);
	report_html_chart_line(out, &axis, isfinite(plot->before) ? before : plot->middle, plot->buckets, 0, "peer");
	report_html_chart_line(out, &axis, plot->own, plot->buckets, 0, "own");
	report_html_chart_end(out, &axis);
	fputs("</div>\n", out);
}
