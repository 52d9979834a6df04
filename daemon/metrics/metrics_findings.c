/* SPDX-License-Identifier: Apache-2.0 */
/* Families of findings. */
#include <math.h>
#include "daemon/metrics/metrics_internal.h"

#define NS_PER_CARD_HOUR (3600.0 * (double)NSEC_PER_SEC)

/* Time lost to this rank, kind and cause; the least recently updated row is evicted for a new one. */
static struct metrics_lost *metrics_lost_of(struct metrics_findings *findings, const struct finding *of)
{
	struct metrics_lost *oldest = findings->lost, *lost;

	for (size_t i = 0; i < findings->losts; i++) {
		lost = &findings->lost[i];
		if (lost->rank == of->rank && lost->kind == of->kind && lost->cause == of->cause &&
			streq(lost->job, of->job))
			return lost;
		oldest = lost->updated_ns < oldest->updated_ns ? lost : oldest;
	}
	lost = oldest;
	if (findings->losts < LIMIT_METRIC_LOST)
		lost = &findings->lost[findings->losts++];
	else
		findings->lost_beyond_ns += lost->lost_ns;
	*lost = (struct metrics_lost){.rank = of->rank, .kind = of->kind, .cause = of->cause};
	(void)copy_text(lost->job, sizeof(lost->job), of->job);
	return lost;
}

/* Adds what the finding has cost since it was published last. A cost that was corrected downwards adds nothing until it
 * is beyond what was counted. Only confirmed ones cost. */
static void metrics_count_cost(struct metrics_findings *findings, uint64_t number, const struct finding *of)
{
	double cost_ns = of->cost_card_hours * NS_PER_CARD_HOUR;
	uint64_t now_ns = isfinite(cost_ns) && cost_ns > 0 && cost_ns < 1e18 ? (uint64_t)cost_ns : 0;
	struct metrics_lost *lost;
	size_t i = 0;

	while (i < findings->counteds && findings->counted[i].number != number)
		i++;
	if (i == findings->counteds) {
		if (of->state != FINDING_OPEN || i == ARRAY_SIZE(findings->counted))
			return;
		findings->counteds++;
		findings->counted[i].number = number;
		findings->counted[i].lost_ns = 0;
		findings->confirmed[of->kind][of->cause]++;
	}
	if (now_ns > findings->counted[i].lost_ns) {
		lost = metrics_lost_of(findings, of);
		lost->lost_ns += now_ns - findings->counted[i].lost_ns;
		lost->updated_ns = monotonic_ns();
		findings->counted[i].lost_ns = now_ns;
	}
	if (of->state == FINDING_CLOSED || of->state == FINDING_DROPPED)
		findings->counted[i] = findings->counted[--findings->counteds];
}

void metrics_on_finding(void *arg, uint64_t number, const struct finding *finding, bool changed)
{
	struct metrics_findings *findings = &((struct metrics *)arg)->findings;
	size_t i = 0;

	metrics_count_cost(findings, number, finding);
	while (i < findings->opens && findings->open[i].number != number)
		i++;
	if (finding->state != FINDING_OPEN) {
		if (i < findings->opens)
			findings->open[i] = findings->open[--findings->opens];
		return;
	}
	if (i == LIMIT_METRIC_FINDINGS)
		return;
	if (i == findings->opens) {
		findings->opens++;
		changed = true;
	}
	findings->open[i].number = number;
	findings->open[i].newest = *finding;
	/* A label that changes with every second of cost would be a series for each. */
	if (changed)
		(void)copy_text(findings->open[i].sentence, sizeof(findings->open[i].sentence), finding->sentence);
}

void metrics_of_findings_open(const struct metrics_gather *gather, struct metrics_page *page)
{
	const struct metrics_findings *findings = &gather->metrics->findings;

	for (size_t i = 0; i < findings->opens; i++) {
		const struct finding *of = &findings->open[i].newest;
		struct metrics_labels labels = {.used = 0};
		size_t same = 0, before = 0;

		for (size_t j = 0; j < findings->opens; j++) {
			const struct finding *other = &findings->open[j].newest;
			bool is =
				other->kind == of->kind && other->severity == of->severity && other->cause == of->cause;

			same += is;
			before += is && j < i;
		}
		if (before)
			continue;
		metrics_labels_add(&labels, "kind", finding_kind_word(of->kind));
		metrics_labels_add(&labels, "severity", finding_severity_word(of->severity));
		metrics_labels_add(&labels, "cause", finding_cause_word(of->cause));
		metrics_page_count(page, &labels, same);
	}
}

void metrics_of_findings_suspected(const struct metrics_gather *gather, struct metrics_page *page)
{
	if (gather->context->findings)
		metrics_page_count(page, NULL, gather->findings.suspected);
}

void metrics_of_findings(const struct metrics_gather *gather, struct metrics_page *page)
{
	for (enum finding_kind kind = 0; kind < FINDING_KIND_MAX; kind++)
		for (enum finding_cause cause = 0; cause < CAUSE_MAX; cause++) {
			uint64_t count = gather->metrics->findings.confirmed[kind][cause];
			struct metrics_labels labels = {.used = 0};

			if (!count)
				continue;
			metrics_labels_add(&labels, "kind", finding_kind_word(kind));
			metrics_labels_add(&labels, "cause", finding_cause_word(cause));
			metrics_page_count(page, &labels, count);
		}
}

static void metrics_labels_add_rank(struct metrics_labels *labels, int32_t rank)
{
	if (rank >= 0)
		metrics_labels_add_number(labels, "rank", rank);
	else
		metrics_labels_add(labels, "rank", "");
}

void metrics_of_lost_card_seconds(const struct metrics_gather *gather, struct metrics_page *page)
{
	const struct metrics_findings *findings = &gather->metrics->findings;
	struct metrics_labels beyond = {.used = 0};

	for (size_t i = 0; i < findings->losts; i++) {
		struct metrics_labels labels = {.used = 0};

		metrics_labels_add(&labels, "job", findings->lost[i].job);
		metrics_labels_add_rank(&labels, findings->lost[i].rank);
		metrics_labels_add(&labels, "kind", finding_kind_word(findings->lost[i].kind));
		metrics_labels_add(&labels, "cause", finding_cause_word(findings->lost[i].cause));
		metrics_page_seconds(page, &labels, findings->lost[i].lost_ns);
	}
	if (!findings->lost_beyond_ns)
		return;
	metrics_labels_add(&beyond, "job", "");
	metrics_labels_add(&beyond, "rank", "");
	metrics_labels_add(&beyond, "kind", "other");
	metrics_labels_add(&beyond, "cause", "other");
	metrics_page_seconds(page, &beyond, findings->lost_beyond_ns);
}

static struct metrics_labels metrics_finding_label(const struct metrics_open *open)
{
	struct metrics_labels labels;

	labels.used = 0;
	metrics_labels_add_number(&labels, "finding", (int64_t)open->number);
	return labels;
}

void metrics_of_finding(const struct metrics_gather *gather, struct metrics_page *page)
{
	const struct metrics_findings *findings = &gather->metrics->findings;

	for (size_t i = 0; i < findings->opens; i++) {
		const struct finding *of = &findings->open[i].newest;
		struct metrics_labels labels = metrics_finding_label(&findings->open[i]);

		metrics_labels_add(&labels, "job", of->job);
		metrics_labels_add_rank(&labels, of->rank);
		metrics_labels_add(&labels, "card", of->card);
		metrics_labels_add(&labels, "kind", finding_kind_word(of->kind));
		metrics_labels_add(&labels, "severity", finding_severity_word(of->severity));
		metrics_labels_add(&labels, "cause", finding_cause_word(of->cause));
		metrics_labels_add(&labels, "activity", activity_word(of->activity));
		metrics_labels_add(&labels, "sentence", findings->open[i].sentence);
		metrics_page_count(page, &labels, 1);
	}
}

/* A family of one sample a finding: the value is an expression of `of`. */
#define METRICS_OF_FINDINGS(name, put, value) \
	void metrics_of_finding_##name(const struct metrics_gather *gather, struct metrics_page *page) \
	{ \
		const struct metrics_findings *findings = &gather->metrics->findings; \
\
		for (size_t i = 0; i < findings->opens; i++) { \
			const struct finding *of = &findings->open[i].newest; \
			struct metrics_labels labels = metrics_finding_label(&findings->open[i]); \
\
			metrics_page_##put(page, &labels, value); \
		} \
	}

METRICS_OF_FINDINGS(slowdown_ratio, real, of->slowdown)
METRICS_OF_FINDINGS(lost_card_seconds, real, of->cost_card_hours * 3600)
METRICS_OF_FINDINGS(age_seconds, seconds, gather->now_ns > of->since_ns ? gather->now_ns - of->since_ns : 0)

void metrics_of_findings_left_out(const struct metrics_gather *gather, struct metrics_page *page)
{
	const struct metrics_findings *findings = &gather->metrics->findings;

	if (gather->context->findings)
		metrics_page_count(page, NULL,
			gather->findings.open > findings->opens ? gather->findings.open - findings->opens : 0);
}
