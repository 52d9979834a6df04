/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks and findings of the period from the fleet's metrics. A series of ranktrace_rank_info is a process, one of
 * ranktrace_finding_info a finding with one sentence; when they were scraped first and last says how long they lasted.
 * What answers is not trusted, as the stores of nodes are not.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"
#include "analyzers/base/fnv1a.h"
#include "analyzers/base/user.h"
#include "analyzers/report/model.h"
#include "analyzers/store/rank_table.h"

#define FLEET_TIMES 1440 /* sample times of a series: each minute of a day */
#define FLEET_QUERY_BYTES 512
#define FLEET_SERIES_MAX REPORT_RANKS_MAX /* of an answer; the rest is left out */
#define FLEET_TIME_MAX_S 9e9		  /* the year 2255, in ns still a uint64_t */

/* A series and a time of it, or a finding. */
struct fleet_key {
	uint64_t key;
	double value;
	size_t finding;
};

struct fleet_series {
	struct fleet_key *item;
	size_t count, capacity;
};

struct report_fleet_finding {
	struct finding is;
	uint32_t store;
};

struct report_fleet_reading {
	struct report *report;
	const struct report_fleet *fleet;
	struct fleet_series node;	    /* of an instance: value is its store */
	struct fleet_series rank;	    /* last seen, s */
	struct fleet_series finding;	    /* the same; by finding, newest last */
	struct report_fleet_finding *found; /* of finding.item[].finding */
	size_t finds, finds_capacity;
	int64_t instance;
};

typedef int (*report_fleet_sample)(struct report_fleet_reading *reading, const json_t *labels, double value);

static const char *report_fleet_label(const json_t *labels, const char *name)
{
	const char *text = json_string_value(json_object_get(labels, name));

	return text ? text : "";
}

static uint64_t report_fleet_key(const json_t *labels, const char *const *names)
{
	uint64_t key = FNV1A_START;

	for (; *names; names++)
		key = fnv1a_text(fnv1a_text(key, report_fleet_label(labels, *names)), "\n");
	return key;
}

static const char *const fleet_node_names[] = {"instance", NULL};
static const char *const fleet_rank_names[] = {"instance", "job", "rank", "pid", "uid", NULL};
static const char *const fleet_finding_names[] = {"instance", "finding", NULL};

static int report_fleet_put(struct fleet_series *series, uint64_t key, double value, size_t finding)
{
	if (series->count == FLEET_SERIES_MAX)
		return 0;
	if (!array_reserve((void **)&series->item, &series->capacity, series->count + 1, sizeof(*series->item),
		    FLEET_SERIES_MAX))
		return -ENOMEM;
	series->item[series->count++] = (struct fleet_key){key, value, finding};
	return 0;
}

static int report_fleet_by_key(const void *a, const void *b)
{
	const struct fleet_key *x = a, *y = b;

	return ORDER(x->key, y->key) ?: ORDER(x->value, y->value);
}

static void report_fleet_sort(struct fleet_series *series)
{
	if (series->count)
		qsort(series->item, series->count, sizeof(*series->item), report_fleet_by_key);
}

/* The last of its key; NULL: none. Sorted. */
static struct fleet_key *report_fleet_find(const struct fleet_series *series, uint64_t key)
{
	size_t at = array_first_not(i, series->count, series->item[i].key <= key);

	return at && series->item[at - 1].key == key ? &series->item[at - 1] : NULL;
}

static uint64_t report_fleet_ns(double time_s)
{
	return time_s > 0 && time_s < FLEET_TIME_MAX_S ? (uint64_t)(time_s * 1e9) : 0;
}

static int64_t report_fleet_number(const json_t *labels, const char *name)
{
	const char *text = report_fleet_label(labels, name);
	char *end;
	long long number = strtoll(text, &end, 10);

	return *text && !*end && number >= 0 ? number : -1;
}

/* A node is a store with its name, added when it is met. Index, or -ENOMEM; -ENOENT: beyond the bound. */
static int report_fleet_store(struct report_fleet_reading *reading, const json_t *labels)
{
	const struct fleet_key *node = report_fleet_find(&reading->node, report_fleet_key(labels, fleet_node_names));

	return node ? (int)node->value : -ENOENT;
}

static int report_fleet_on_node(struct report_fleet_reading *reading, const json_t *labels, double value)
{
	struct report *report = reading->report;
	struct report_store *store = &report->store[report->stores];
	const char *node = report_fleet_label(labels, "node");
	char name[REPORT_NAME_BYTES];

	if (report->stores == REPORT_NODES_MAX) {
		report_note(report, "more than %d nodes: the others are left out", REPORT_NODES_MAX);
		return 0;
	}
	report_name(*node ? node : report_fleet_label(labels, "instance"), name, sizeof(name));
	store->name = strdup(name);
	store->path = strdup(reading->fleet->name);
	if (!store->name || !store->path) {
		free(store->name);
		free(store->path);
		return -ENOMEM;
	}
	return report_fleet_put(
		&reading->node, report_fleet_key(labels, fleet_node_names), (double)report->stores++, 0);
}

static int report_fleet_on_silent(struct report_fleet_reading *reading, const json_t *labels, double value)
{
	int store = report_fleet_store(reading, labels);

	if (store >= 0)
		report_note(
			reading->report, "%.60s: its daemon does not answer now", reading->report->store[store].name);
	return 0;
}

static int report_fleet_on_rank_last(struct report_fleet_reading *reading, const json_t *labels, double value)
{
	return report_fleet_put(&reading->rank, report_fleet_key(labels, fleet_rank_names), value, 0);
}

/* Of the time of its first sample; that of the last is known. */
static int report_fleet_on_rank(struct report_fleet_reading *reading, const json_t *labels, double value)
{
	const struct fleet_key *last = report_fleet_find(&reading->rank, report_fleet_key(labels, fleet_rank_names));
	struct report *report = reading->report;
	int store = report_fleet_store(reading, labels), r;
	struct report_source source = {.report = report, .store = (uint32_t)store};
	size_t before = report->ranks;
	const struct rank_row row = {
		.has_instance = true,
		.instance = ++reading->instance,
		.rank = report_fleet_number(labels, "rank"),
		.world_size = report_fleet_number(labels, "world_size"),
		.local_rank = report_fleet_number(labels, "local_rank"),
		.job = report_fleet_label(labels, "job"),
		.host = report_fleet_label(labels, "node"),
		.card = report_fleet_label(labels, "card"),
		.first_seen_ns = (int64_t)report_fleet_ns(value),
		.last_seen_ns = last ? (int64_t)report_fleet_ns(last->value) : 0,
		/* A store keeps a series for five minutes unless its target said that it ended. */
		.ended = last && report_fleet_ns(last->value) + 300000000000ULL < report->until_ns,
		.uid = report_fleet_number(labels, "uid"),
	};

	if (store < 0 || !last)
		return 0;
	r = report_add_rank(&source, &row);
	if (r == 0 && report->ranks > before)
		report_rank_saw(
			report, &report->rank[before], (uint64_t)row.first_seen_ns, (uint64_t)row.last_seen_ns + 1);
	return r;
}

static int report_fleet_on_steps(struct report_fleet_reading *reading, const json_t *labels, double value)
{
	uint32_t job = report_job_find(reading->report, report_fleet_label(labels, "job"), USER_UNKNOWN);

	if (job != REPORT_NONE && value < 1e15)
		reading->report->job[job].steps = (uint64_t)fmax(0, value);
	return 0;
}

static int report_fleet_on_step(struct report_fleet_reading *reading, const json_t *labels, double value)
{
	uint32_t job = report_job_find(reading->report, report_fleet_label(labels, "job"), USER_UNKNOWN);

	if (job != REPORT_NONE)
		reading->report->job[job].median_ns = fmax(0, value) * 1e9;
	return 0;
}

/* A finding of each series; of several with one number the newest counts. value: when it was seen last. */
static int report_fleet_on_finding(struct report_fleet_reading *reading, const json_t *labels, double value)
{
	int store = report_fleet_store(reading, labels);
	struct finding *f;

	if (store < 0)
		return 0;
	if (reading->finds == REPORT_FINDINGS_MAX) {
		report_note(reading->report, "more than %d findings: the others are left out", REPORT_FINDINGS_MAX);
		return 0;
	}
	if (!array_reserve((void **)&reading->found, &reading->finds_capacity, reading->finds + 1,
		    sizeof(*reading->found), REPORT_FINDINGS_MAX))
		return -ENOMEM;
	reading->found[reading->finds].store = (uint32_t)store;
	f = &reading->found[reading->finds].is;
	*f = (struct finding){
		.id = (uint64_t)report_fleet_number(labels, "finding"),
		.kind = finding_kind_parse(report_fleet_label(labels, "kind")),
		.cause = finding_cause_parse(report_fleet_label(labels, "cause")),
		.activity = activity_parse(report_fleet_label(labels, "activity")),
		.state = FINDING_CLOSED,
		.severity = SEVERITY_WARNING,
		.confidence = 1,
		.slowdown = 1,
		.until_ns = report_fleet_ns(value),
	};
	for (enum finding_severity severity = 0; severity < SEVERITY_MAX; severity++)
		if (strcmp(report_fleet_label(labels, "severity"), finding_severity_word(severity)) == 0)
			f->severity = severity;
	f->cause = f->cause == CAUSE_MAX ? CAUSE_UNKNOWN : f->cause;
	f->rank = (int32_t)fmin(INT32_MAX, (double)report_fleet_number(labels, "rank"));
	f->since_ns = f->until_ns;
	report_name(report_fleet_label(labels, "job"), f->job, sizeof(f->job));
	report_name(report_fleet_label(labels, "card"), f->card, sizeof(f->card));
	report_name(report_fleet_label(labels, "sentence"), f->sentence, sizeof(f->sentence));
	return report_fleet_put(
		&reading->finding, report_fleet_key(labels, fleet_finding_names), value, reading->finds++);
}

/* The finding of a sample about it, NULL: unknown. */
static struct finding *report_fleet_finding(const struct report_fleet_reading *reading, const json_t *labels)
{
	const struct fleet_key *finding =
		report_fleet_find(&reading->finding, report_fleet_key(labels, fleet_finding_names));

	return finding ? &reading->found[finding->finding].is : NULL;
}

static int report_fleet_on_open(struct report_fleet_reading *reading, const json_t *labels, double value)
{
	struct finding *f = report_fleet_finding(reading, labels);

	if (f)
		f->state = FINDING_OPEN;
	return 0;
}

static int report_fleet_on_age(struct report_fleet_reading *reading, const json_t *labels, double value)
{
	struct finding *f = report_fleet_finding(reading, labels);
	uint64_t age_ns = report_fleet_ns(value);

	if (f && age_ns < f->until_ns)
		f->since_ns = f->noticed_ns = f->until_ns - age_ns;
	return 0;
}

static int report_fleet_on_cost(struct report_fleet_reading *reading, const json_t *labels, double value)
{
	struct finding *f = report_fleet_finding(reading, labels);

	if (f)
		f->cost_card_hours = fmin(fmax(0, value) / 3600, 1e9);
	return 0;
}

static int report_fleet_on_slowdown(struct report_fleet_reading *reading, const json_t *labels, double value)
{
	struct finding *f = report_fleet_finding(reading, labels);

	if (f)
		f->slowdown = fmin(fmax(0, value), 1e6);
	return 0;
}

/* Then the series so far are sorted. $w: the period, sampled FLEET_TIMES times; $s: the period. */
static const struct {
	const char *expression;
	report_fleet_sample sample;
} report_fleet_queries[] = {
	{"group by (instance, node) (last_over_time(ranktrace_build_info[$s]))", report_fleet_on_node},
	{"up{job=\"ranktrace\"} == 0", report_fleet_on_silent},
	{"max_over_time(timestamp(ranktrace_rank_info)[$w])", report_fleet_on_rank_last},
	{"min_over_time(timestamp(ranktrace_rank_info)[$w])", report_fleet_on_rank},
	{"max by (job) (increase(ranktrace_rank_steps_total[$s]))", report_fleet_on_steps},
	{"quantile by (job) (0.5, quantile_over_time(0.5, ranktrace_rank_minute_step_seconds[$w]))",
		report_fleet_on_step},
	{"max_over_time(timestamp(ranktrace_finding_info)[$w])", report_fleet_on_finding},
	/* Also one that began after the last of those times. */
	{"timestamp(ranktrace_finding_info)", report_fleet_on_finding},
	{"ranktrace_finding_info", report_fleet_on_open},
	{"last_over_time(ranktrace_finding_age_seconds[$s])", report_fleet_on_age},
	{"last_over_time(ranktrace_finding_lost_card_seconds[$s])", report_fleet_on_cost},
	{"last_over_time(ranktrace_finding_slowdown_ratio[$s])", report_fleet_on_slowdown},
};

struct report_fleet_asking {
	struct report_fleet_reading *reading;
	report_fleet_sample sample;
};

static int report_fleet_on_sample(void *arg, const json_t *labels, double value)
{
	const struct report_fleet_asking *asking = arg;

	return asking->sample(asking->reading, labels, value);
}

static void report_fleet_expression(const struct report *report, const char *from, char *ret)
{
	unsigned long long length_s = (report->until_ns - report->since_ns) / 1000000000,
			   every_s = length_s / FLEET_TIMES;
	size_t used = 0;

	for (; *from && used < FLEET_QUERY_BYTES - 1; from++) {
		if (*from != '$')
			ret[used++] = *from;
		else if (*++from == 'w')
			used += (size_t)snprintf(ret + used, FLEET_QUERY_BYTES - used, "%llus:%llus", length_s,
				every_s < 15 ? 15 : every_s);
		else
			used += (size_t)snprintf(ret + used, FLEET_QUERY_BYTES - used, "%llus", length_s);
	}
	ret[used] = 0;
}

static int report_fleet_ask(struct report_fleet_reading *reading, size_t i, char *error, size_t error_size)
{
	struct report_fleet_asking asking = {reading, report_fleet_queries[i].sample};
	char expression[FLEET_QUERY_BYTES];
	const struct fleet_request request = {expression, report_fleet_on_sample, &asking};
	int r;

	report_fleet_expression(reading->report, report_fleet_queries[i].expression, expression);
	r = reading->fleet->ask(
		reading->fleet->arg, &request, 1, (double)reading->report->until_ns / 1e9, error, error_size);
	if (r == -ENOMEM)
		snprintf(error, error_size, "out of memory");
	report_fleet_sort(&reading->node);
	report_fleet_sort(&reading->rank);
	report_fleet_sort(&reading->finding);
	return r;
}

static int report_fleet_findings(struct report_fleet_reading *reading)
{
	struct report *report = reading->report;
	int r = 0;

	for (size_t i = 0; r == 0 && i < reading->finding.count; i++) {
		const struct fleet_key *at = &reading->finding.item[i];
		struct finding *f = &reading->found[at->finding].is;
		uint32_t store = reading->found[at->finding].store;

		/* Older sentences of one that follows. */
		if (i + 1 < reading->finding.count && at[1].key == at->key)
			continue;
		f->until_ns = f->state == FINDING_OPEN ? 0 : f->until_ns;
		snprintf(f->host, sizeof(f->host), "%.63s", report->store[store].name);
		if (f->kind == FINDING_KIND_MAX || (report->only_job && strcmp(report->only_job, f->job) != 0) ||
			!report_wants_rank(report, f->rank, NULL))
			continue;
		report->store[store].here = true;
		r = report_add_finding(report, store, f, false);
	}
	return r;
}

int report_read_fleet(struct report *report, const struct report_fleet *fleet, char *error, size_t error_size)
{
	struct report_fleet_reading reading = {.report = report, .fleet = fleet};
	int r = 0;

	for (size_t i = 0; r == 0 && i < sizeof(report_fleet_queries) / sizeof(report_fleet_queries[0]); i++)
		r = report_fleet_ask(&reading, i, error, error_size);
	if (r == 0)
		r = report_fleet_findings(&reading);
	if (r == 0)
		report_note(report, "from the metrics in %.160s: no plots, no short slow-downs", fleet->name);
	free(reading.node.item);
	free(reading.rank.item);
	free(reading.finding.item);
	free(reading.found);
	return r;
}
