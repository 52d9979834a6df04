/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries are rows: an expression, and what a sample of it fills in; those of a phase are asked at a time.
 * ranktrace_rank_info says which ranks live; samples of others are left out. The usual is the lower quartile over the
 * window: what is slow for less than three quarters of it does not count, and a rank that was slow then waited little,
 * so that it is accused less, not more.
 */
#include "analyzers/fleet/fleet_store.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"
#include "analyzers/base/fnv1a.h"
#include "analyzers/base/hash.h"
#include "analyzers/base/text.h"

#define FLEET_QUERY_BYTES 2048
#define FLEET_POINTS 60 /* of the window, whatever its length: so many samples of a series are read */

/*
 * Age of what is read: a sample has the time at which its scrape began. It is seen when the scrape has ended, of
 * VictoriaMetrics up to 2 s later and not with all others of the scrape.
 */
#define FLEET_SETTLED_S 3
#define FLEET_TIME_MAX_S 1e11 /* the year 5138: what a store may say without harm */

/* Positions by key: open addressing, sized so that half of it is free. */
struct fleet_index {
	uint32_t *slot; /* position plus one */
	size_t mask;
};

struct fleet_reading {
	const struct fleet_read_options *options;
	struct fleet *fleet;
	struct fleet_index ranks, nodes, jobs, operations;
	double time_s;
};

/* Those of a phase are asked at a time, and need what those of the phases before have answered. */
enum fleet_phase { FLEET_TIME, FLEET_WHO, FLEET_VALUES, FLEET_VALUES_BEFORE, FLEET_PHASE_MAX };

struct fleet_query {
	enum fleet_phase phase;
	const char *expression; /* $m: the job's matcher; $w: the window, as a subquery; $s: its length */
	int (*sample)(struct fleet_reading *reading, const json_t *labels, double value);
	const char *recorded; /* the same for the window of the nodes; NULL: none */
};

static int fleet_index_init(struct fleet_index *index, size_t max)
{
	size_t size = 2;

	while (size < 2 * max)
		size *= 2;
	index->slot = calloc(size, sizeof(*index->slot));
	index->mask = size - 1;
	return index->slot ? 0 : -ENOMEM;
}

static const char *fleet_label(const json_t *labels, const char *name)
{
	const char *text = json_string_value(json_object_get(labels, name));

	return text ? text : "";
}

/* The slot of the key, or the free one where it belongs. same: whether an item is that of the labels. */
static uint32_t *fleet_index_slot(const struct fleet_index *index, uint64_t key,
	bool (*same)(const struct fleet *fleet, size_t i, const void *of), const struct fleet *fleet, const void *of)
{
	size_t at = hash_mix(key, 0) & index->mask;

	while (index->slot[at] && !same(fleet, index->slot[at] - 1, of))
		at = (at + 1) & index->mask;
	return &index->slot[at];
}

static bool fleet_same_node(const struct fleet *fleet, size_t i, const void *of)
{
	return strcmp(fleet->node[i].instance, of) == 0;
}

static bool fleet_same_job(const struct fleet *fleet, size_t i, const void *of)
{
	return strcmp(fleet->job[i].name, of) == 0;
}

static bool fleet_same_rank(const struct fleet *fleet, size_t i, const void *of)
{
	const struct fleet_rank *rank = &fleet->rank[i], *other = of;

	return rank->job == other->job && rank->node == other->node && rank->rank == other->rank;
}

static bool fleet_same_operation(const struct fleet *fleet, size_t i, const void *of)
{
	const struct fleet_operation *operation = &fleet->operation[i], *other = of;

	return operation->job == other->job && operation->node == other->node &&
	       strcmp(operation->word, other->word) == 0;
}

/* A text of the labels into an array: cut, then cleaned. */
#define FLEET_TEXT(array, text) \
	text_clean(((void)snprintf(array, sizeof(array), "%.*s", (int)sizeof(array) - 1, text), array))

/* Adds an item at the end of fleet->name[]: its number in the slot. 0, -E2BIG, -ENOMEM. */
#define FLEET_ADD(fleet, name, slot, item, max) \
	fleet_add((void **)&(fleet)->name, &(fleet)->name##s, &(fleet)->name##s_size, slot, &(item), sizeof(item), max)

static int fleet_add(
	void **items, size_t *count, size_t *capacity, uint32_t *slot, const void *item, size_t size, size_t max)
{
	if (*count >= max)
		return -E2BIG;
	if (!array_reserve(items, capacity, *count + 1, size, max))
		return -ENOMEM;
	memcpy((char *)*items + *count * size, item, size);
	*slot = (uint32_t)++ * count;
	return 0;
}

/* Its number; -E2BIG, -ENOMEM. make: if there is none, one is added, else -ENOENT. Names are cut before they are
 * compared. */
static int fleet_node_of(struct fleet_reading *reading, const char *instance, bool make)
{
	struct fleet *fleet = reading->fleet;
	struct fleet_node node = {0};
	uint32_t *slot;
	int r;

	FLEET_TEXT(node.instance, instance);
	slot = fleet_index_slot(
		&reading->nodes, fnv1a_text(FNV1A_START, node.instance), fleet_same_node, fleet, node.instance);
	if (*slot)
		return (int)*slot - 1;
	if (!make)
		return -ENOENT;
	FLEET_TEXT(node.name, instance);
	node.number = (uint32_t)fleet->nodes;
	r = FLEET_ADD(fleet, node, slot, node, FLEET_NODES_MAX);
	return r < 0 ? r : (int)*slot - 1;
}

static int fleet_job_of(struct fleet_reading *reading, const char *name, bool make)
{
	struct fleet *fleet = reading->fleet;
	struct fleet_job job = {0};
	uint32_t *slot;
	int r;

	FLEET_TEXT(job.name, name);
	slot = fleet_index_slot(&reading->jobs, fnv1a_text(FNV1A_START, job.name), fleet_same_job, fleet, job.name);
	if (*slot)
		return (int)*slot - 1;
	if (!make)
		return -ENOENT;
	job.number = (uint32_t)fleet->jobs;
	r = FLEET_ADD(fleet, job, slot, job, FLEET_JOBS_MAX);
	return r < 0 ? r : (int)*slot - 1;
}

/* Job, node and number of a rank; -EINVAL: the labels are of none. */
static int fleet_read_who(struct fleet_reading *reading, const json_t *labels, bool make, struct fleet_rank *ret)
{
	const char *word = fleet_label(labels, "rank");
	int job = fleet_job_of(reading, fleet_label(labels, "job"), make);
	int node = fleet_node_of(reading, fleet_label(labels, "instance"), make);
	char *end;
	long rank = strtol(word, &end, 10);

	if (job < 0 || node < 0)
		return job < 0 ? job : node;
	if (!*word || *end || rank < 0 || rank > INT32_MAX)
		return -EINVAL;
	ret->job = (uint32_t)job;
	ret->node = (uint32_t)node;
	ret->rank = (int32_t)rank;
	return 0;
}

static uint32_t *fleet_rank_slot(const struct fleet_reading *reading, const struct fleet_rank *who)
{
	uint64_t key = hash_mix((uint64_t)who->job << 32 | who->node, (uint64_t)who->rank);

	return fleet_index_slot(&reading->ranks, key, fleet_same_rank, reading->fleet, who);
}

/* The rank of a sample; NULL: not one that lives. */
static struct fleet_rank *fleet_read_rank(struct fleet_reading *reading, const json_t *labels)
{
	struct fleet_rank who;
	uint32_t slot;

	if (fleet_read_who(reading, labels, false, &who) < 0)
		return NULL;
	slot = *fleet_rank_slot(reading, &who);
	return slot ? &reading->fleet->rank[slot - 1] : NULL;
}

/* One time for all: else some queries are before a scrape of a node, and some behind it. */
static int fleet_on_time(struct fleet_reading *reading, const json_t *labels, double value)
{
	reading->time_s = value > FLEET_SETTLED_S && value < FLEET_TIME_MAX_S ? value - FLEET_SETTLED_S : 0;
	return 0;
}

static int fleet_on_node(struct fleet_reading *reading, const json_t *labels, double value)
{
	int node = fleet_node_of(reading, fleet_label(labels, "instance"), true);
	const char *name = fleet_label(labels, "node");

	if (node >= 0 && *name)
		FLEET_TEXT(reading->fleet->node[node].name, name);
	return node < 0 ? node : 0;
}

static int fleet_on_rank(struct fleet_reading *reading, const json_t *labels, double value)
{
	struct fleet *fleet = reading->fleet;
	struct fleet_rank rank = {.operations = NAN, .operations_usual = NAN};
	int r = fleet_read_who(reading, labels, true, &rank);
	uint32_t *slot;

	if (r < 0)
		return r == -EINVAL ? 0 : r;
	slot = fleet_rank_slot(reading, &rank);
	FLEET_TEXT(rank.card, fleet_label(labels, "card"));
	return *slot ? 0 : FLEET_ADD(fleet, rank, slot, rank, FLEET_RANKS_MAX);
}

/* A sample of a rank or finding, whose field `where` takes its value. */
#define FLEET_ON(name, of, where) \
	static int fleet_on_##name(struct fleet_reading *reading, const json_t *labels, double value) \
	{ \
		struct fleet_##of *of = fleet_read_##of(reading, labels); \
\
		if (of) \
			of->where = value; \
		return 0; \
	}

FLEET_ON(step_usual, rank, step_usual)
FLEET_ON(operations, rank, operations)
FLEET_ON(operations_usual, rank, operations_usual)

static int fleet_on_step(struct fleet_reading *reading, const json_t *labels, double value)
{
	struct fleet_rank *rank = fleet_read_rank(reading, labels);

	reading->fleet->recorded = true;
	if (rank)
		rank->step = value;
	return 0;
}

#define FLEET_ON_ACTIVITY(name, where) \
	static int fleet_on_##name(struct fleet_reading *reading, const json_t *labels, double value) \
	{ \
		struct fleet_rank *rank = fleet_read_rank(reading, labels); \
		enum activity activity = activity_parse(fleet_label(labels, "activity")); \
\
		if (rank && activity < ACTIVITY_MAX) \
			rank->where[activity] = value; \
		return 0; \
	}

FLEET_ON_ACTIVITY(activity, act)
FLEET_ON_ACTIVITY(activity_usual, usual)

/* make: with the newest value; else what it was before. */
static int fleet_read_operation(struct fleet_reading *reading, const json_t *labels, double value, bool make)
{
	struct fleet *fleet = reading->fleet;
	int job = fleet_job_of(reading, fleet_label(labels, "job"), false);
	int node = fleet_node_of(reading, fleet_label(labels, "instance"), false);
	struct fleet_operation operation = {.now = value, .usual = value}; /* without a past it has not grown */
	uint32_t *slot;

	if (job < 0 || node < 0)
		return 0;
	operation.job = (uint32_t)job;
	operation.node = (uint32_t)node;
	snprintf(operation.word, sizeof(operation.word), "%.30s of %.28s", fleet_label(labels, "operation"),
		fleet_label(labels, "group"));
	text_clean(operation.word);
	slot = fleet_index_slot(&reading->operations, fnv1a_text((uint64_t)job << 32 | (uint32_t)node, operation.word),
		fleet_same_operation, fleet, &operation);
	if (*slot && !make)
		fleet->operation[*slot - 1].usual = value;
	if (*slot || !make)
		return 0;
	return FLEET_ADD(fleet, operation, slot, operation, FLEET_OPERATIONS_MAX);
}

static int fleet_on_operation(struct fleet_reading *reading, const json_t *labels, double value)
{
	return fleet_read_operation(reading, labels, value, true);
}

static int fleet_on_operation_usual(struct fleet_reading *reading, const json_t *labels, double value)
{
	return fleet_read_operation(reading, labels, value, false);
}

static int fleet_on_lost(struct fleet_reading *reading, const json_t *labels, double value)
{
	int job = fleet_job_of(reading, fleet_label(labels, "job"), false);

	if (job >= 0)
		reading->fleet->job[job].lost_card_hours = value / 3600;
	return 0;
}

static int fleet_on_finding(struct fleet_reading *reading, const json_t *labels, double value)
{
	struct fleet *fleet = reading->fleet;
	int node = fleet_node_of(reading, fleet_label(labels, "instance"), true);
	struct fleet_finding *finding;

	if (node < 0 || fleet->findings >= FLEET_FINDINGS_MAX)
		return node < 0 ? node : 0;
	if (!array_reserve((void **)&fleet->finding, &fleet->findings_size, fleet->findings + 1, sizeof(*finding),
		    FLEET_FINDINGS_MAX))
		return -ENOMEM;
	finding = &fleet->finding[fleet->findings++];
	*finding = (struct fleet_finding){.node = (uint32_t)node, .lost_card_seconds = NAN, .age_seconds = NAN};
	FLEET_TEXT(finding->number, fleet_label(labels, "finding"));
	FLEET_TEXT(finding->job, fleet_label(labels, "job"));
	FLEET_TEXT(finding->rank, fleet_label(labels, "rank"));
	FLEET_TEXT(finding->kind, fleet_label(labels, "kind"));
	FLEET_TEXT(finding->severity, fleet_label(labels, "severity"));
	FLEET_TEXT(finding->cause, fleet_label(labels, "cause"));
	FLEET_TEXT(finding->sentence, fleet_label(labels, "sentence"));
	return 0;
}

static struct fleet_finding *fleet_read_finding(struct fleet_reading *reading, const json_t *labels)
{
	int node = fleet_node_of(reading, fleet_label(labels, "instance"), false);

	for (size_t i = 0; node >= 0 && i < reading->fleet->findings; i++) {
		struct fleet_finding *finding = &reading->fleet->finding[i];

		if (finding->node == (uint32_t)node && strcmp(finding->number, fleet_label(labels, "finding")) == 0)
			return finding;
	}
	return NULL;
}

FLEET_ON(finding_lost, finding, lost_card_seconds)
FLEET_ON(finding_age, finding, age_seconds)

/* The lower quartile over the window. The nodes serve that of the last hour; of another window, the store reads
 * FLEET_POINTS of each series. */
#define FLEET_USUAL(phase, of, what, sample) \
	{ \
		phase, "quantile_over_time(0.25, ranktrace_" of "_minute_" what "_seconds$m$w)", sample, \
			"ranktrace_" of "_usual_" what "_seconds$m" \
	}

/* The time of all others is by the store's clock. */
static const struct fleet_query fleet_queries[] = {
	{FLEET_TIME, "vector(time())", fleet_on_time, NULL},
	{FLEET_WHO, "ranktrace_build_info", fleet_on_node, NULL},
	{FLEET_WHO, "ranktrace_rank_info$m", fleet_on_rank, NULL},
	{FLEET_WHO, "ranktrace_finding_info$m", fleet_on_finding, NULL},
	{FLEET_VALUES, "ranktrace_rank_minute_activity_seconds$m", fleet_on_activity, NULL},
	FLEET_USUAL(FLEET_VALUES, "rank", "activity", fleet_on_activity_usual),
	{FLEET_VALUES, "ranktrace_rank_minute_step_seconds$m", fleet_on_step, NULL},
	FLEET_USUAL(FLEET_VALUES, "rank", "step", fleet_on_step_usual),
	{FLEET_VALUES, "ranktrace_rank_minute_operations_seconds$m", fleet_on_operations, NULL},
	FLEET_USUAL(FLEET_VALUES, "rank", "operations", fleet_on_operations_usual),
	{FLEET_VALUES, "ranktrace_node_minute_operation_seconds$m", fleet_on_operation, NULL},
	FLEET_USUAL(FLEET_VALUES_BEFORE, "node", "operation", fleet_on_operation_usual),
	{FLEET_VALUES, "sum by (job) (increase(ranktrace_lost_card_seconds_total$m[$s]))", fleet_on_lost, NULL},
	{FLEET_VALUES, "ranktrace_finding_lost_card_seconds", fleet_on_finding_lost, NULL},
	{FLEET_VALUES, "ranktrace_finding_age_seconds", fleet_on_finding_age, NULL},
};

#define FLEET_QUERIES (sizeof(fleet_queries) / sizeof(fleet_queries[0]))

/* {job="NAME"}, with what PromQL escapes; a name may be anything. */
static void fleet_matcher(struct text *text, const char *job)
{
	if (!job)
		return;
	text_add(text, "{job=\"");
	for (; *job; job++)
		text_add(text, *job == '"' || *job == '\\' ? "\\%c" : *job == '\n' ? "\\n" : "%c", *job);
	text_add(text, "\"}");
}

static void fleet_expression(const struct fleet_read_options *options, const char *expression, char *ret, size_t size)
{
	uint64_t step_s = options->since_s / FLEET_POINTS;
	struct text text;

	text_begin(&text, ret, size);
	for (const char *at = expression; *at; at++) {
		if (*at != '$') {
			text_add(&text, "%c", *at);
			continue;
		}
		at++;
		if (*at == 'm')
			fleet_matcher(&text, options->job);
		else if (*at == 'w')
			text_add(&text, "[%llus:%llus]", (unsigned long long)options->since_s,
				(unsigned long long)(step_s ? step_s : 1));
		else
			text_add(&text, "%llus", (unsigned long long)options->since_s);
	}
	text_end(&text);
}

struct fleet_asking {
	struct fleet_reading *reading;
	const struct fleet_query *query;
	size_t samples;
	char expression[FLEET_QUERY_BYTES];
};

static int fleet_on_sample(void *arg, const json_t *labels, double value)
{
	struct fleet_asking *asking = arg;

	asking->samples++;
	return asking->query->sample(asking->reading, labels, value);
}

static int fleet_read_phase(
	struct fleet_reading *reading, enum fleet_phase phase, fleet_ask ask, void *arg, char *error, size_t size)
{
	bool served = reading->options->since_s / 60 == FLEET_USUAL_S / 60;
	struct fleet_asking asking[FLEET_QUERIES] = {0};
	int r = 0;

	/* Again for what is seen for less than a minute: it has no usual yet, and little to read. */
	for (int again = 0; r >= 0 && again <= served; again++) {
		struct fleet_request request[FLEET_QUERIES];
		size_t count = 0;

		for (size_t i = 0; i < FLEET_QUERIES; i++) {
			const struct fleet_query *query = &fleet_queries[i];

			if (query->phase != phase || (again && (!query->recorded || asking[i].samples)))
				continue;
			asking[i].reading = reading;
			asking[i].query = query;
			fleet_expression(reading->options,
				served && query->recorded && !again ? query->recorded : query->expression,
				asking[i].expression, sizeof(asking[i].expression));
			request[count++] = (struct fleet_request){asking[i].expression, fleet_on_sample, &asking[i]};
		}
		if (count)
			r = ask(arg, request, count, reading->time_s, error, size);
	}
	if (r == -E2BIG)
		snprintf(error, size,
			"the store has more than %d ranks, %d nodes, %d jobs or %d operations; --job asks for one job",
			FLEET_RANKS_MAX, FLEET_NODES_MAX, FLEET_JOBS_MAX, FLEET_OPERATIONS_MAX);
	else if (r == -ENOMEM)
		snprintf(error, size, "out of memory");
	return r;
}

/* The order of a store's answer is any. Numbers within names count as numbers: node-2 is before node-10. */
static int fleet_compare_jobs(const void *a, const void *b)
{
	const struct fleet_job *left = a, *right = b;

	return strverscmp(left->name, right->name);
}

static int fleet_compare_nodes(const void *a, const void *b)
{
	const struct fleet_node *left = a, *right = b;

	return strverscmp(left->name, right->name) ?: ORDER(left->number, right->number);
}

static int fleet_compare_ranks(const void *a, const void *b)
{
	const struct fleet_rank *left = a, *right = b;

	return ORDER(left->job, right->job) ?: ORDER(left->node, right->node) ?: ORDER(left->rank, right->rank);
}

static int fleet_compare_operations(const void *a, const void *b)
{
	const struct fleet_operation *left = a, *right = b;

	return ORDER(left->job, right->job) ?: strcmp(left->word, right->word) ?: ORDER(left->node, right->node);
}

static int fleet_sort(struct fleet *fleet)
{
	uint32_t *job = calloc(fleet->jobs + 1, sizeof(*job)),
		 *node = calloc(fleet->nodes + 1, sizeof(*node)); /* new numbers by old ones */
	int r = job && node ? 0 : -ENOMEM;

	if (r == 0 && fleet->jobs)
		qsort(fleet->job, fleet->jobs, sizeof(*fleet->job), fleet_compare_jobs);
	if (r == 0 && fleet->nodes)
		qsort(fleet->node, fleet->nodes, sizeof(*fleet->node), fleet_compare_nodes);
	for (size_t i = 0; r == 0 && i < fleet->jobs; i++)
		job[fleet->job[i].number] = (uint32_t)i;
	for (size_t i = 0; r == 0 && i < fleet->nodes; i++)
		node[fleet->node[i].number] = (uint32_t)i;
	for (size_t i = 0; r == 0 && i < fleet->ranks; i++) {
		fleet->rank[i].job = job[fleet->rank[i].job];
		fleet->rank[i].node = node[fleet->rank[i].node];
	}
	for (size_t i = 0; r == 0 && i < fleet->operations; i++) {
		fleet->operation[i].job = job[fleet->operation[i].job];
		fleet->operation[i].node = node[fleet->operation[i].node];
	}
	for (size_t i = 0; r == 0 && i < fleet->findings; i++)
		fleet->finding[i].node = node[fleet->finding[i].node];
	free(job);
	free(node);
	if (r == 0 && fleet->ranks)
		qsort(fleet->rank, fleet->ranks, sizeof(*fleet->rank), fleet_compare_ranks);
	if (r == 0 && fleet->operations)
		qsort(fleet->operation, fleet->operations, sizeof(*fleet->operation), fleet_compare_operations);
	return r;
}

int fleet_read(const struct fleet_read_options *options, fleet_ask ask, void *arg, struct fleet *fleet, char *error,
	size_t size)
{
	struct fleet_reading reading = {.options = options, .fleet = fleet};
	int r = fleet_index_init(&reading.ranks, FLEET_RANKS_MAX);

	r = r < 0 ? r : fleet_index_init(&reading.nodes, FLEET_NODES_MAX);
	r = r < 0 ? r : fleet_index_init(&reading.jobs, FLEET_JOBS_MAX);
	r = r < 0 ? r : fleet_index_init(&reading.operations, FLEET_OPERATIONS_MAX);
	if (r < 0)
		snprintf(error, size, "out of memory");
	for (enum fleet_phase phase = 0; r >= 0 && phase < FLEET_PHASE_MAX; phase++)
		r = fleet_read_phase(&reading, phase, ask, arg, error, size);
	free(reading.ranks.slot);
	free(reading.nodes.slot);
	free(reading.jobs.slot);
	free(reading.operations.slot);
	if (r >= 0) {
		r = fleet_sort(fleet);
		if (r < 0)
			snprintf(error, size, "out of memory");
	}
	return r < 0 ? r : 0;
}
