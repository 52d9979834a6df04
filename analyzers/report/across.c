/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares ranks across nodes: a node's daemon sees only its own ranks, so a rank that is slow relative to other nodes
 * is found here, by the same detectors over the rows of all stores of the job. merge.c merges the results with the
 * daemons' findings. Where clocks differ, times are those of the first store (offline/clocks.h).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/report/model.h"
#include "analyzers/report/words.h"
#include "analyzers/analyze/analysis.h"

/* Findings open at the end of the rows are open now, unless the rows end that long before. */
#define STILL_NS 600000000000ULL
#define CLOCKS_NOTED_NS 10000000000ULL

/* First store of each job, and whether there are more. */
struct parts {
	uint32_t first[REPORT_JOBS_MAX];
	bool several[REPORT_JOBS_MAX];
};

static void find_parts(const struct report *report, struct parts *ret)
{
	memset(ret->several, 0, sizeof(ret->several));
	for (size_t i = 0; i < REPORT_JOBS_MAX; i++)
		ret->first[i] = REPORT_NONE;
	for (size_t i = 0; i < report->ranks; i++) {
		const struct report_rank *rank = &report->rank[i];

		if (ret->first[rank->job] == REPORT_NONE)
			ret->first[rank->job] = rank->store;
		else if (ret->first[rank->job] != rank->store)
			ret->several[rank->job] = true;
	}
}

/* Stores with ranks of such jobs; folder has a place for each store. */
static size_t report_across_choose(const struct report *report, const struct parts *parts, char **folder)
{
	uint32_t last = REPORT_NONE;
	size_t count = 0;

	/* Ranks are sorted by store. */
	for (size_t i = 0; i < report->ranks; i++) {
		const struct report_rank *rank = &report->rank[i];

		if (!parts->several[rank->job] || rank->store == last)
			continue;
		last = rank->store;
		folder[count++] = report->store[last].path;
	}
	return count;
}

/* Index of a compared job, or REPORT_NONE. */
static uint32_t job_of(const struct report *report, const struct parts *parts, const struct finding *f)
{
	uint32_t job = report_job_find(report, f->job, report_uid(f));

	return job != REPORT_NONE && parts->several[job] ? job : REPORT_NONE;
}

/* Store of the finding's rank, else the job's first one. */
static uint32_t store_of(const struct report *report, const struct parts *parts, uint32_t job, int32_t rank)
{
	for (size_t i = report->ranks; rank >= 0 && i-- > 0;)
		if (report->rank[i].job == job && report->rank[i].rank == rank)
			return report->rank[i].store;
	return parts->first[job];
}

static void report_across_clean(char *text, size_t size)
{
	char copy[512];

	snprintf(copy, sizeof(copy), "%s", text);
	report_name(copy, text, size);
}

/* Its texts come from stores. */
static void clean_finding(struct finding *f)
{
	report_across_clean(f->job, sizeof(f->job));
	report_across_clean(f->host, sizeof(f->host));
	report_across_clean(f->card, sizeof(f->card));
	report_across_clean(f->communicator, sizeof(f->communicator));
	report_across_clean(f->others, sizeof(f->others));
	report_across_clean(f->sentence, sizeof(f->sentence));
	for (size_t i = 0; i < f->evidences; i++) {
		report_across_clean(f->evidence[i].name, sizeof(f->evidence[i].name));
		report_across_clean(f->evidence[i].unit, sizeof(f->evidence[i].unit));
		report_across_clean(f->evidence[i].detail, sizeof(f->evidence[i].detail));
	}
}

/* Index of an overlapping finding of the comparison, SIZE_MAX for none: detectors may split one. */
static size_t across_overlapped(const struct report *report, const struct finding *f)
{
	for (size_t i = report->findings; i-- > 0;) {
		const struct report_finding *other = &report->finding[i];

		if (!other->reported_by && other->is.kind == f->kind && other->is.rank == f->rank &&
			other->is.activity == f->activity && report_uid(&other->is) == report_uid(f) &&
			strcmp(other->is.job, f->job) == 0 && strcmp(other->is.communicator, f->communicator) == 0 &&
			(!other->is.until_ns || other->is.until_ns >= f->since_ns) &&
			(!f->until_ns || f->until_ns >= other->is.since_ns))
			return i;
	}
	return SIZE_MAX;
}

static void report_across_widen(struct report_finding *into, const struct finding *f, double cost_card_hours)
{
	struct finding *is = &into->is;
	uint64_t since_ns = is->since_ns < f->since_ns ? is->since_ns : f->since_ns;
	uint64_t until_ns = !is->until_ns || !f->until_ns ? 0 : is->until_ns > f->until_ns ? is->until_ns : f->until_ns;
	double cost_in_all = is->cost_card_hours + f->cost_card_hours;

	/* The costlier one gives the cause. */
	if (f->cost_card_hours > is->cost_card_hours)
		*is = *f;
	is->since_ns = since_ns;
	is->until_ns = until_ns;
	is->state = until_ns ? FINDING_CLOSED : FINDING_OPEN;
	is->cost_card_hours = cost_in_all;
	into->cost_card_hours += cost_card_hours;
}

static int report_across_take(
	struct report *report, const struct parts *parts, const struct analysis *analysis, const struct finding *found)
{
	struct finding f = *found;
	size_t before, count;
	uint32_t job;
	int r;

	if ((f.state != FINDING_OPEN && f.state != FINDING_CLOSED) || f.kind >= FINDING_KIND_MAX ||
		f.cause >= CAUSE_MAX)
		return 0;
	clean_finding(&f);
	job = job_of(report, parts, &f);
	if (job == REPORT_NONE)
		return 0;
	if (!f.until_ns && analysis->end_ns + STILL_NS < report->now_ns)
		f.until_ns = analysis->end_ns;
	before = across_overlapped(report, &f);
	count = report->findings;
	r = report_add_finding(report, store_of(report, parts, job, f.rank), &f, true);
	if (r == 0 && before != SIZE_MAX && report->findings > count) {
		report->findings = count;
		report_across_widen(&report->finding[before], &f, report->finding[count].cost_card_hours);
	}
	return r;
}

static void note_warning(void *arg, const char *sentence)
{
	report_note(arg, "%s", sentence);
}

static void note_enough(struct report *report, const struct report_options *options, uint64_t end_ns)
{
	char until[WORDS_BYTES], length[WORDS_BYTES];

	report_note(report, "ranks of different nodes were compared up to %s only: the time limit is %s",
		words_when(end_ns, until), words_length(options->compare_ns, length));
}

/* Small clock offsets are common. */
static void note_clocks(struct report *report, const struct analysis *analysis)
{
	char nodes[WORDS_BYTES], apart[WORDS_BYTES];

	if (analysis->clocks_apart_ns >= CLOCKS_NOTED_NS)
		report_note(report, "the clocks of %s are up to %s off: corrected in the comparison",
			words_many(analysis->clocks, "node", "nodes", nodes),
			words_length(analysis->clocks_apart_ns, apart));
}

static int report_across_compare(struct report *report, const struct report_options *options, const struct parts *parts,
	char *const *folder, size_t folders)
{
	const struct analysis_options how = {
		.folder = folder,
		.folders = folders,
		.job = options->job,
		.since_ns = report->since_ns,
		.until_ns = report->until_ns,
		.shows_progress = options->shows_progress,
		.enough_ns = options->compare_ns,
		.warning = note_warning,
		.arg = report,
	};
	const struct finding *finding;
	struct analysis analysis;
	int r = 0;

	if (analysis_run(&how, &analysis) == 0 && analysis.end_ns) {
		report->compared = analysis.sources;
		report->compared_until_ns = analysis.enough ? analysis.end_ns : report->until_ns;
		note_clocks(report, &analysis);
		if (analysis.enough)
			note_enough(report, options, analysis.end_ns);
		for (size_t i = 0; r == 0 && (finding = findings_made_at(analysis.made, i)); i++)
			r = report_across_take(report, parts, &analysis, finding);
	}
	analysis_free(&analysis);
	return r;
}

int report_across(struct report *report, const struct report_options *options)
{
	char **folder = calloc(report->stores + 1, sizeof(*folder));
	struct parts parts;
	size_t folders;
	int r = 0;

	if (!folder)
		return -ENOMEM;
	find_parts(report, &parts);
	folders = report_across_choose(report, &parts, folder);
	if (folders > 1)
		r = report_across_compare(report, options, &parts, folder, folders);
	free(folder);
	return r;
}
