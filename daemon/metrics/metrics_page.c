/* SPDX-License-Identifier: Apache-2.0 */
/* The two formats: Prometheus text 0.0.4 and OpenMetrics 1.0. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>

#include "analyzers/base/array.h"
#include "analyzers/base/text.h"
#include "daemon/metrics/metrics_internal.h"

static const uint64_t metrics_bucket_ns[METRICS_BUCKETS] = {
	50 * NSEC_PER_MSEC,
	100 * NSEC_PER_MSEC,
	200 * NSEC_PER_MSEC,
	500 * NSEC_PER_MSEC,
	1 * NSEC_PER_SEC,
	2 * NSEC_PER_SEC,
	5 * NSEC_PER_SEC,
	10 * NSEC_PER_SEC,
	30 * NSEC_PER_SEC,
	120 * NSEC_PER_SEC,
};

/* Of a sample: what follows the word. */
static const char *const suffixes[] = {
	[METRICS_COUNTER] = "_total",
	[METRICS_GAUGE] = "",
	[METRICS_HISTOGRAM] = "",
	[METRICS_INFO] = "_info",
	[METRICS_SUMMARY] = "",
};

static const char *const types[METRICS_FORMAT_MAX][METRICS_TYPE_MAX] = {
	{"counter", "gauge", "histogram", "gauge", "summary"},
	{"counter", "gauge", "histogram", "info", "summary"},
};

static void metrics_labels_put(struct metrics_labels *labels, const char *text, size_t length)
{
	if (labels->used + length >= sizeof(labels->text))
		return;
	memcpy(labels->text + labels->used, text, length);
	labels->used += length;
	labels->text[labels->used] = 0;
}

void metrics_labels_add(struct metrics_labels *labels, const char *name, const char *value)
{
	if (labels->used)
		metrics_labels_put(labels, ",", 1);
	metrics_labels_put(labels, name, strlen(name));
	metrics_labels_put(labels, "=\"", 2);
	while (*value) {
		size_t length = text_printable(value);

		/* The closing quote must fit, too. */
		if (labels->used + 6 >= sizeof(labels->text))
			break;
		if (*value == '"' || *value == '\\')
			metrics_labels_put(labels, "\\", 1);
		metrics_labels_put(labels, length ? value : "?", length ? length : 1);
		value += length ? length : 1;
	}
	metrics_labels_put(labels, "\"", 1);
}

void metrics_labels_add_number(struct metrics_labels *labels, const char *name, int64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, value);
	metrics_labels_add(labels, name, text);
}

static bool metrics_page_reserve(struct metrics_page *page, size_t more)
{
	page->failed |= !array_reserve((void **)&page->text, &page->size, page->used + more + 1, 1, SIZE_MAX);
	return !page->failed;
}

static void metrics_page_put(struct metrics_page *page, const char *text, size_t length)
{
	if (!metrics_page_reserve(page, length + 1))
		return;
	memcpy(page->text + page->used, text, length);
	page->used += length;
	page->text[page->used] = 0;
}

static void metrics_page_puts(struct metrics_page *page, const char *text)
{
	metrics_page_put(page, text, strlen(text));
}

static void metrics_page_printf(struct metrics_page *page, const char *format, ...) _printf_(2, 3);

static void metrics_page_printf(struct metrics_page *page, const char *format, ...)
{
	char text[256];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (n > 0)
		metrics_page_put(page, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

void metrics_page_begin(struct metrics_page *page, enum metrics_format format)
{
	page->format = format;
	page->used = page->series = 0;
	page->failed = false;
}

void metrics_page_family(struct metrics_page *page, enum metrics_id id)
{
	page->family = &metrics_families[id];
	page->begun = false;
}

/* OpenMetrics names the family, the older format its samples. */
static void metrics_page_name(struct metrics_page *page, const char *key)
{
	metrics_page_puts(page, key);
	metrics_page_puts(page, " ranktrace_");
	metrics_page_puts(page, page->family->word);
	if (page->format == METRICS_TEXT)
		metrics_page_puts(page, suffixes[page->family->type]);
	metrics_page_puts(page, " ");
}

static void metrics_page_head(struct metrics_page *page)
{
	const struct metrics_family *family = page->family;

	if (page->begun)
		return;
	page->begun = true;
	metrics_page_name(page, "# HELP");
	metrics_page_puts(page, family->help);
	metrics_page_puts(page, "\n");
	metrics_page_name(page, "# TYPE");
	metrics_page_puts(page, types[page->format][family->type]);
	metrics_page_puts(page, "\n");
	if (page->format == METRICS_TEXT || !family->unit[0])
		return;
	metrics_page_name(page, "# UNIT");
	metrics_page_puts(page, family->unit);
	metrics_page_puts(page, "\n");
}

/* Up to the value. */
static void metrics_page_sample(
	struct metrics_page *page, const char *suffix, const struct metrics_labels *labels, const char *le)
{
	bool some = labels && labels->used;

	metrics_page_head(page);
	page->series++;
	metrics_page_puts(page, "ranktrace_");
	metrics_page_puts(page, page->family->word);
	metrics_page_puts(page, suffix);
	if (some || le) {
		metrics_page_puts(page, "{");
		if (some)
			metrics_page_put(page, labels->text, labels->used);
		if (le) {
			metrics_page_puts(page, some ? ",le=\"" : "le=\"");
			metrics_page_puts(page, le);
			metrics_page_puts(page, "\"");
		}
		metrics_page_puts(page, "}");
	}
	metrics_page_puts(page, " ");
}

void metrics_page_count(struct metrics_page *page, const struct metrics_labels *labels, uint64_t value)
{
	metrics_page_sample(page, suffixes[page->family->type], labels, NULL);
	metrics_page_printf(page, "%" PRIu64 "\n", value);
}

/* To a microsecond. */
static void metrics_page_put_seconds(struct metrics_page *page, uint64_t value_ns)
{
	uint64_t us = value_ns / NSEC_PER_USEC, us_per_s = NSEC_PER_SEC / NSEC_PER_USEC;

	metrics_page_printf(page, "%" PRIu64 ".%06" PRIu64, us / us_per_s, us % us_per_s);
}

void metrics_page_seconds(struct metrics_page *page, const struct metrics_labels *labels, uint64_t value_ns)
{
	metrics_page_sample(page, suffixes[page->family->type], labels, NULL);
	metrics_page_put_seconds(page, value_ns);
	metrics_page_puts(page, "\n");
}

void metrics_page_real(struct metrics_page *page, const struct metrics_labels *labels, double value)
{
	metrics_page_sample(page, suffixes[page->family->type], labels, NULL);
	if (isfinite(value))
		metrics_page_printf(page, "%.6g\n", value);
	else
		metrics_page_puts(page, isnan(value) ? "NaN\n" : value > 0 ? "+Inf\n" : "-Inf\n");
}

void metrics_histogram_add(struct metrics_histogram *histogram, int64_t step, uint64_t duration_ns, uint64_t utc_ns)
{
	unsigned i = 0;

	while (i < METRICS_BUCKETS && duration_ns > metrics_bucket_ns[i])
		i++;
	histogram->bucket[i]++;
	histogram->count++;
	histogram->sum_ns += duration_ns;
	histogram->newest.step = step;
	histogram->newest.duration_ns = duration_ns;
	histogram->newest.utc_ns = utc_ns;
	histogram->newest.bucket = i;
}

static void metrics_page_exemplar(struct metrics_page *page, const struct metrics_histogram *histogram, unsigned bucket)
{
	if (page->format != METRICS_OPENMETRICS || !histogram->count || histogram->newest.bucket != bucket)
		return;
	metrics_page_printf(page, " # {step=\"%" PRId64 "\"} ", histogram->newest.step);
	metrics_page_put_seconds(page, histogram->newest.duration_ns);
	metrics_page_puts(page, " ");
	metrics_page_put_seconds(page, histogram->newest.utc_ns);
}

void metrics_page_histogram(
	struct metrics_page *page, const struct metrics_labels *labels, const struct metrics_histogram *histogram)
{
	uint64_t sum = 0;
	char le[24];

	for (unsigned i = 0; i <= METRICS_BUCKETS; i++) {
		sum += histogram->bucket[i];
		if (i < METRICS_BUCKETS) /* %g of a whole number has no point, which OpenMetrics wants */
			snprintf(le, sizeof(le), metrics_bucket_ns[i] % NSEC_PER_SEC ? "%g" : "%.1f",
				(double)metrics_bucket_ns[i] / (double)NSEC_PER_SEC);
		metrics_page_sample(page, "_bucket", labels, i < METRICS_BUCKETS ? le : "+Inf");
		metrics_page_printf(page, "%" PRIu64, sum);
		metrics_page_exemplar(page, histogram, i);
		metrics_page_puts(page, "\n");
	}
	metrics_page_sample(page, "_sum", labels, NULL);
	metrics_page_put_seconds(page, histogram->sum_ns);
	metrics_page_puts(page, "\n");
	metrics_page_sample(page, "_count", labels, NULL);
	metrics_page_printf(page, "%" PRIu64 "\n", histogram->count);
}

void metrics_page_end(struct metrics_page *page)
{
	if (page->format == METRICS_OPENMETRICS)
		metrics_page_puts(page, "# EOF\n");
}

void metrics_page_free(struct metrics_page *page)
{
	free(page->text);
	*page = (struct metrics_page){0};
}
