/* SPDX-License-Identifier: Apache-2.0 */
/* Families of cards and of the node: the newest samples of gauges. Names of gauges are those of docs/gauges.md. */
#include <math.h>

#include "daemon/gauges/gauge_cards.h"
#include "daemon/gauges/gauges.h"
#include "daemon/metrics/metrics_internal.h"

/* The gauge with the name, or all whose name begins with it where it ends with '_': the rest is the label's value. */
struct metrics_gauge {
	const char *name, *label;
};

struct metrics_gauges {
	const struct metrics_gather *gather;
	struct metrics_page *page;
	const struct metrics_gauge *gauge;
	size_t count;
};

static void metrics_card_labels(const struct context *context, const char *uuid, struct metrics_labels *labels)
{
	int minor = -1;

	for (size_t i = 0; context->cards && i < context->cards->count; i++)
		minor = streq(context->cards->card[i].object, uuid) ? context->cards->card[i].minor : minor;
	labels->used = 0;
	if (minor >= 0)
		metrics_labels_add_number(labels, "card", minor);
	else
		metrics_labels_add(labels, "card", "");
	metrics_labels_add(labels, "uuid", uuid);
}

/* Bytes and counts to the last digit. */
static void metrics_page_gauge(struct metrics_page *page, const struct metrics_labels *labels, double value)
{
	if (value >= 0 && value < 1e18 && value == floor(value))
		metrics_page_count(page, labels, (uint64_t)value);
	else
		metrics_page_real(page, labels, value);
}

static bool metrics_gauge_is(const struct metrics_gauge *gauge, const char *name)
{
	size_t length = strlen(gauge->name);

	return gauge->name[length - 1] == '_' ? strncmp(name, gauge->name, length) == 0 : streq(name, gauge->name);
}

static void metrics_on_card_gauge(
	void *arg, const struct gauge_source *source, const struct gauge *gauge, const char *object, double value)
{
	const struct metrics_gauges *of = arg;
	struct metrics_labels labels;

	if (!streq(source->name, "nvml") && !streq(source->name, "dcmi"))
		return;
	for (size_t i = 0; i < of->count; i++) {
		if (!metrics_gauge_is(&of->gauge[i], gauge->name))
			continue;
		metrics_card_labels(of->gather->context, object, &labels);
		if (of->gauge[i].label)
			metrics_labels_add(&labels, of->gauge[i].label,
				gauge->name + (streq(of->gauge[i].name, gauge->name) ? 0 : strlen(of->gauge[i].name)));
		metrics_page_gauge(of->page, &labels, value);
	}
}

#define METRICS_OF_CARDS(word, ...) \
	void metrics_of_##word(const struct metrics_gather *gather, struct metrics_page *page) \
	{ \
		static const struct metrics_gauge of[] = {__VA_ARGS__}; \
\
		gauges_each(gather->context->gauges, metrics_on_card_gauge, \
			&(struct metrics_gauges){gather, page, of, ARRAY_SIZE(of)}); \
	}

METRICS_OF_CARDS(card_utilization_ratio, {"utilization", NULL})
METRICS_OF_CARDS(card_memory_used_bytes, {"memory_used", NULL})
METRICS_OF_CARDS(card_memory_total_bytes, {"memory_total", NULL})
METRICS_OF_CARDS(card_clock_hertz, {"clock_sm", NULL})
METRICS_OF_CARDS(card_temperature_celsius, {"temperature", NULL})
METRICS_OF_CARDS(card_power_watts, {"power", NULL})
METRICS_OF_CARDS(card_limited, {"limited_", "reason"})
METRICS_OF_CARDS(card_errors, {"ecc_corrected", "error"}, {"ecc_uncorrected", "error"},
	{"rows_remapped_corrected", "error"}, {"rows_remapped_uncorrected", "error"}, {"nvlink_replays", "error"},
	{"nvlink_recoveries", "error"}, {"nvlink_crc_errors", "error"}, {"pcie_replays", "error"})
METRICS_OF_CARDS(card_lost, {"lost", NULL})

void metrics_of_card(const struct metrics_gather *gather, struct metrics_page *page)
{
	const struct gauge_cards *cards = gather->context->cards;

	for (size_t i = 0; cards && i < cards->count; i++) {
		struct metrics_labels labels;

		metrics_card_labels(gather->context, cards->card[i].object, &labels);
		metrics_labels_add(&labels, "pci", cards->card[i].pci);
		metrics_labels_add(&labels, "serial", cards->card[i].serial);
		metrics_labels_add(&labels, "name", cards->card[i].name);
		metrics_page_count(page, &labels, 1);
	}
}

/* Of the source `pressure` alone: "cpu_some". */
static void metrics_on_pressure(
	void *arg, const struct gauge_source *source, const struct gauge *gauge, const char *object, double value)
{
	static const char *const resources[] = {"cpu_", "memory_", "io_"};
	const struct metrics_gauges *of = arg;
	struct metrics_labels labels = {.used = 0};

	if (!streq(source->name, "pressure"))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(resources); i++) {
		const char *tasks = gauge->name + strlen(resources[i]);
		char resource[8];

		if (strncmp(gauge->name, resources[i], strlen(resources[i])) != 0 ||
			(!streq(tasks, "some") && !streq(tasks, "full")))
			continue;
		snprintf(resource, sizeof(resource), "%.*s", (int)strlen(resources[i]) - 1, resources[i]);
		metrics_labels_add(&labels, "resource", resource);
		metrics_labels_add(&labels, "tasks", tasks);
		metrics_page_gauge(of->page, &labels, value);
	}
}

void metrics_of_node_pressure_ratio(const struct metrics_gather *gather, struct metrics_page *page)
{
	gauges_each(gather->context->gauges, metrics_on_pressure, &(struct metrics_gauges){gather, page, NULL, 0});
}

/* "UUID/PID name" */
static void metrics_on_process(
	void *arg, const struct gauge_source *source, const struct gauge *gauge, const char *object, double value)
{
	const struct metrics_gauges *of = arg;
	const char *slash = strchr(object, '/');
	char uuid[GAUGE_OBJECT_BYTES];

	if (!streq(source->name, "nvml") || !streq(gauge->name, "process_memory") || !slash)
		return;
	snprintf(uuid, sizeof(uuid), "%.*s", (int)(slash - object), object);
	for (size_t i = 0; i < of->gather->ranks; i++) {
		struct metrics_labels labels = of->gather->rank[i].labels;

		if (strtol(slash + 1, NULL, 10) != of->gather->rank[i].rank->pid)
			continue;
		metrics_labels_add(&labels, "uuid", uuid);
		metrics_page_gauge(of->page, &labels, value);
	}
}

void metrics_of_rank_device_bytes(const struct metrics_gather *gather, struct metrics_page *page)
{
	gauges_each(gather->context->gauges, metrics_on_process, &(struct metrics_gauges){gather, page, NULL, 0});
}
