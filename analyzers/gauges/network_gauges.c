/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/gauges/network_gauges.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"
#include "analyzers/gauges/gauge_history.h"

#define OBJECT_BYTES 72
#define REMEMBERED_MAX 64 /* findings; of more, the oldest are explained anew */

struct network_gauge {
	const char *what;
	double last;
	uint64_t last_ns;
	char object[OBJECT_BYTES];
	struct gauge_history rate; /* lost a second */
};

struct network_remembered {
	uint64_t id; /* of the finding; 0: free */
	size_t gauge;
	double before;
};

struct network_gauges {
	size_t count, capacity, next; /* next: the gauge that is sampled next, most likely */
	struct network_gauge *gauge;
	size_t remembered_next;
	struct network_remembered remembered[REMEMBERED_MAX];
};

struct network_gauges *network_gauges_new(void)
{
	return calloc(1, sizeof(struct network_gauges));
}

struct network_gauges *network_gauges_free(struct network_gauges *network)
{
	if (!network)
		return NULL;
	free(network->gauge);
	free(network);
	return NULL;
}

/* NULL: there are too many, or no memory. */
static struct network_gauge *network_gauge_add(struct network_gauges *network, const char *object, const char *what)
{
	struct network_gauge *gauge;

	if (strlen(object) >= OBJECT_BYTES || !array_reserve((void **)&network->gauge, &network->capacity,
						      network->count + 1, sizeof(*gauge), NETWORK_GAUGES_MAX))
		return NULL;
	gauge = &network->gauge[network->count];
	*gauge = (struct network_gauge){.what = what};
	snprintf(gauge->object, sizeof(gauge->object), "%s", object);
	network->count++;
	return gauge;
}

/* Samples come in the same order each second. */
static struct network_gauge *network_gauge_get(struct network_gauges *network, const char *object, const char *what)
{
	for (size_t i = 0; i < network->count; i++) {
		size_t at = (network->next + i) % network->count;
		struct network_gauge *gauge = &network->gauge[at];

		if (gauge->what == what && strcmp(gauge->object, object) == 0) {
			network->next = at + 1;
			return gauge;
		}
	}
	return network_gauge_add(network, object, what);
}

void network_gauges_sample(struct network_gauges *network, uint64_t time_ns, const char *object, const char *what,
	bool is_rate, double value)
{
	struct network_gauge *gauge = isfinite(value) && value >= 0 ? network_gauge_get(network, object, what) : NULL;
	double seconds;

	if (!gauge || time_ns <= gauge->last_ns)
		return;
	seconds = (double)(time_ns - gauge->last_ns) * 1e-9;
	if (gauge->last_ns)
		gauge_history_add(
			&gauge->rate, time_ns, is_rate ? value : fmax(0, value - gauge->last) / seconds, seconds);
	gauge->last = value;
	gauge->last_ns = time_ns;
}

/* What grew most; false: nothing did. */
static bool network_gauges_grown(const struct network_gauges *network, const struct finding *finding, uint64_t until_ns,
	struct network_remembered *ret)
{
	/* The slot in which the finding began counts as a part of it. */
	uint64_t begin_ns = finding->since_ns - finding->since_ns % GAUGE_HISTORY_SLOT_NS;
	uint64_t before_ns = begin_ns > NETWORK_GAUGES_BEFORE_NS ? begin_ns - NETWORK_GAUGES_BEFORE_NS : 0;
	double most = 0;

	for (size_t i = 0; i < network->count; i++) {
		const struct gauge_history *history = &network->gauge[i].rate;
		double rate = gauge_history_mean(history, begin_ns, until_ns),
		       before = begin_ns ? gauge_history_mean(history, before_ns, begin_ns - 1) : NAN,
		       times = rate / fmax(before, NETWORK_GAUGES_LEAST / NETWORK_GAUGES_GROWTH);

		if (!isfinite(before) || !(rate >= NETWORK_GAUGES_LEAST) || times < NETWORK_GAUGES_GROWTH ||
			times <= most)
			continue;
		most = times;
		*ret = (struct network_remembered){finding->id, i, before};
	}
	return most > 0;
}

/* Ranks that all wait without computing may wait for the network. */
static bool network_may_explain(const struct finding *finding)
{
	return finding_cause_row(finding->cause)->part == FINDING_PART_NETWORK ||
	       (finding->kind == FINDING_SLOW_JOB && finding->cause == CAUSE_ASLEEP);
}

static struct network_remembered *network_remembered(struct network_gauges *network, uint64_t id)
{
	for (size_t i = 0; id && i < REMEMBERED_MAX; i++)
		if (network->remembered[i].id == id)
			return &network->remembered[i];
	return NULL;
}

bool network_gauges_explain(struct network_gauges *network, uint64_t now_ns, struct finding *finding)
{
	uint64_t until_ns = finding->until_ns ? finding->until_ns : now_ns;
	struct network_remembered *known, grown;
	char detail[sizeof(finding->evidence->detail)];
	const struct network_gauge *gauge;
	double rate;

	if (!network || finding->kind == FINDING_HARDWARE || !network_may_explain(finding))
		return false;
	known = network_remembered(network, finding->id);
	if (!known) {
		if (!network_gauges_grown(network, finding, until_ns, &grown))
			return false;
		known = &network->remembered[network->remembered_next++ % REMEMBERED_MAX];
		*known = grown;
	}
	gauge = &network->gauge[known->gauge];
	rate = gauge_history_mean(&gauge->rate, finding->since_ns, until_ns);
	snprintf(detail, sizeof(detail), "%s%s%s%s", gauge->what, gauge->object[0] ? " (" : "", gauge->object,
		gauge->object[0] ? ")" : "");
	finding_add(finding, "network", "1/s", rate, known->before, detail);
	finding_write_sentence(finding);
	return true;
}
