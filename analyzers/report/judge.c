/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/report/judge.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"
#include "analyzers/base/text.h"
#include "analyzers/finding/finding_advice.h"
#include "analyzers/report/words.h"

#define CHRONIC_DAYS 3

bool judge_accuses(const struct finding *finding)
{
	return finding->rank >= 0 && !judge_is_remark(finding);
}

const char *judge_advice(const struct finding *finding)
{
	return finding_advice(finding->cause, finding->activity, finding->side);
}

const char *judge_evidence_of(enum finding_cause cause)
{
	return finding_cause_row(cause)->evidence;
}

bool judge_is_remark(const struct finding *finding)
{
	return finding->kind == FINDING_IMBALANCE;
}

enum finding_part judge_part_of(const struct finding *finding)
{
	if (judge_is_remark(finding) || finding->cause >= CAUSE_MAX)
		return FINDING_PART_NONE;
	if (finding->kind == FINDING_SLOW_COMMUNICATION)
		return FINDING_PART_NETWORK;
	return finding_cause_row(finding->cause)->part;
}

static uint32_t judge_bits(uint32_t mask)
{
	return (uint32_t)__builtin_popcount(mask);
}

void judge_card_days(const struct report *report, const struct report_card *card, uint32_t *ret_slow, uint32_t *ret_of)
{
	uint32_t data = report->node[card->node].data_days | card->slow_days;

	*ret_slow = judge_bits(card->slow_days);
	*ret_of = judge_bits(data);
}

bool judge_card_is_chronic(const struct report *report, const struct report_card *card)
{
	uint32_t slow, of;

	judge_card_days(report, card, &slow, &of);
	return judge_bits(card->hard_days) >= CHRONIC_DAYS && judge_bits(card->hard_days) * 2 >= of;
}

void judge_card_advice(const struct report *report, const struct report_card *card, char *ret, size_t size)
{
	uint32_t slow, of;

	judge_card_days(report, card, &slow, &of);
	if (card->cause >= CAUSE_MAX && card->worst != REPORT_NONE)
		snprintf(ret, size, "%s", judge_advice(&report->finding[card->worst].is));
	else if (card->cause >= CAUSE_MAX)
		ret[0] = 0;
	else if (judge_card_is_chronic(report, card) && (card->cause == CAUSE_LINK || card->cause == CAUSE_NODE))
		snprintf(ret, size, "replace its network card, cable or port: slow on %u of %u days", slow, of);
	else if (judge_card_is_chronic(report, card))
		snprintf(ret, size, "replace the card: slow on %u of %u days", slow, of);
	else if (slow >= CHRONIC_DAYS)
		snprintf(ret, size, "recurring: %s", finding_advice(card->cause, card->activity, card->side));
	else
		snprintf(ret, size, "%s", finding_advice(card->cause, card->activity, card->side));
}

static int report_judge_by_cost(const void *a, const void *b, void *arg)
{
	const struct report *report = arg;
	const struct report_card *x = &report->card[*(const uint32_t *)a], *y = &report->card[*(const uint32_t *)b];

	return ORDER(y->cost_card_hours, x->cost_card_hours) ?: ORDER(judge_bits(y->slow_days), judge_bits(x->slow_days)) ?:
	       ORDER(y->past_card_hours, x->past_card_hours) ?: ORDER(x, y);
}

static void judge_finding(struct report *report, uint32_t i)
{
	const struct report_finding *finding = &report->finding[i];
	struct report_job *job = &report->job[finding->job];
	struct report_card *card = finding->card == REPORT_NONE ? NULL : &report->card[finding->card];

	if (finding->remark) {
		report->remarks++;
		report->remark_card_hours += finding->cost_card_hours;
		return;
	}
	job->findings++;
	job->cost_card_hours += finding->cost_card_hours;
	report->cost_card_hours += finding->cost_card_hours;
	if (!card || !judge_accuses(&finding->is)) {
		report->cardless_card_hours += finding->cost_card_hours;
		return;
	}
	card->findings++;
	card->cost_card_hours += finding->cost_card_hours;
	if (card->worst == REPORT_NONE || finding->cost_card_hours > report->finding[card->worst].cost_card_hours)
		card->worst = i;
}

static int judge_by_brief_cost(const void *a, const void *b)
{
	const struct report_brief *x = a, *y = b;

	return ORDER(y->cost_card_hours, x->cost_card_hours) ?: ORDER(y->lasted_ns, x->lasted_ns) ?:
	       ORDER(x->rank, y->rank);
}

static void judge_findings(struct report *report)
{
	for (uint32_t i = 0; i < report->findings; i++)
		judge_finding(report, i);
	for (size_t i = 0; i < report->brief_ranks; i++) {
		report->briefs += report->brief[i].count;
		report->brief_card_hours += report->brief[i].cost_card_hours;
		report->job[report->brief[i].job].cost_card_hours += report->brief[i].cost_card_hours;
	}
	report->cost_card_hours += report->brief_card_hours;
	if (report->brief_ranks)
		qsort(report->brief, report->brief_ranks, sizeof(*report->brief), judge_by_brief_cost);
	for (size_t i = 0; i < report->groups; i++)
		report->groups_remarks += report->group[i].remark;
	report->groups_shown = report->groups < REPORT_GROUPS_SHOWN_MAX ? report->groups : REPORT_GROUPS_SHOWN_MAX;
	report->shown = report->findings < REPORT_SHOWN_MAX ? report->findings : REPORT_SHOWN_MAX;
}

static void judge_cards(struct report *report)
{
	for (uint32_t i = 0; i < report->cards; i++) {
		report->cards_here += report->card[i].here;
		report->cards_slow += report->card[i].findings > 0;
		if (report->card[i].findings || report->card[i].slow_days)
			report->worst[report->worsts++] = i;
	}
	qsort_r(report->worst, report->worsts, sizeof(*report->worst), report_judge_by_cost, report);
	for (uint32_t i = 0; i < report->nodes; i++)
		for (uint32_t card = 0; card < report->cards; card++)
			if (report->card[card].node == i && report->card[card].here) {
				report->nodes_here++;
				break;
			}
}

static void judge_jobs(struct report *report)
{
	for (uint32_t i = 0; i < report->jobs; i++) {
		struct report_job *job = &report->job[i];
		uint32_t last = REPORT_NONE;

		for (size_t j = 0; j < report->ranks; j++) {
			uint32_t card = report->rank[j].card;

			if (report->rank[j].job != i || card == REPORT_NONE || !report->rank[j].here)
				continue;
			job->nodes += report->card[card].node != last;
			last = report->card[card].node;
		}
		if (job->series)
			job->median_ns = plot_series_quantile_all(job->series, 0.5);
		report->card_hours += (double)job->lived_ns / 3.6e12 *
				      (job->ranks && job->world > job->ranks ? (double)job->world / job->ranks : 1);
	}
	/* Findings may overlap. */
	if (report->card_hours > 0 && report->cost_card_hours > report->card_hours)
		report->cost_card_hours = report->card_hours;
}

static void headline_seen(const struct report *report, char *ret, size_t size)
{
	char cards[WORDS_BYTES], nodes[WORDS_BYTES], jobs[WORDS_BYTES], since[WORDS_BYTES], until[WORDS_BYTES];
	uint64_t first_ns = report->until_ns, last_ns = report->since_ns;
	size_t running = 0;

	for (size_t i = 0; i < report->jobs; i++) {
		const struct report_job *job = &report->job[i];

		if (!job->ranks)
			continue;
		running++;
		first_ns = job->first_ns < first_ns ? job->first_ns : first_ns;
		last_ns = job->last_ns > last_ns ? job->last_ns : last_ns;
	}
	first_ns = first_ns > report->since_ns ? first_ns : report->since_ns;
	last_ns = last_ns < report->until_ns ? last_ns : report->until_ns;
	snprintf(ret, size, "%.60s on %.60s watched from %.60s to %.60s, in %.60s",
		words_many(report->cards_here, "card", "cards", cards),
		words_many(report->nodes_here, "node", "nodes", nodes), words_when(first_ns, since),
		words_when(last_ns, until), words_many(running, "job", "jobs", jobs));
}

/* Reservations of a healthy line. */
static void headline_but(const struct report *report, char *ret, size_t size)
{
	char text[WORDS_BYTES];
	size_t used = 0, chronic = 0;

	ret[0] = 0;
	if (report->unseen_slots && report->alive_slots)
		used += (size_t)snprintf(ret + used, size - used, "; not watched: %.40s of the cards' time",
			words_percent((double)report->unseen_slots / (double)report->alive_slots, text));
	for (size_t i = 0; i < report->worsts; i++)
		chronic += judge_card_is_chronic(report, &report->card[report->worst[i]]);
	if (chronic)
		used += (size_t)snprintf(ret + used, size - used, "; slow on most previous days: %.120s%s",
			words_card(report, report->worst[0], text), chronic > 1 ? " and others" : "");
	if (report->briefs)
		used += (size_t)snprintf(ret + used, size - used, "; %.60s",
			words_many(report->briefs, "short slowdown", "short slowdowns", text));
	if (report->groups_remarks)
		(void)snprintf(ret + used, size - used, "; %.40s on work imbalance",
			words_many(report->groups_remarks, "note", "notes", text));
}

/* What the worst finding's rank or job does; others are slow. */
static const struct {
	enum finding_kind kind;
	enum finding_cause cause; /* CAUSE_MAX: any */
	const char *is, *was;
} headline_words[] = {
	{FINDING_HANG, CAUSE_MAX, "is hung", "was hung"},
	{FINDING_CRASH, CAUSE_MAX, "ended with an error", "ended with an error"},
	{FINDING_MEMORY, CAUSE_MEMORY_LEAK, "leaks memory", "leaked memory"},
	{FINDING_MEMORY, CAUSE_DEVICE_MEMORY, "ran out of memory", "ran out of memory"},
};

static const char *headline_how(const struct finding *worst, bool over)
{
	for (size_t i = 0; i < sizeof(headline_words) / sizeof(headline_words[0]); i++)
		if (headline_words[i].kind == worst->kind &&
			(headline_words[i].cause == CAUSE_MAX || headline_words[i].cause == worst->cause))
			return over ? headline_words[i].was : headline_words[i].is;
	return over ? "was slow" : "is slow";
}

static void headline_slow(struct report *report)
{
	struct report_headline *headline = &report->headline;
	char a[WORDS_BYTES], b[WORDS_BYTES], c[WORDS_BYTES];
	char cause[WORDS_BYTES];
	size_t others = report->groups - report->groups_remarks - 1, used;

	snprintf(headline->title, sizeof(headline->title), "%.320s %s", words_subject(report, &report->finding[0], a),
		headline_how(&report->finding[0].is, report->group[0].is.until_ns != 0));
	words_why(&report->finding[0].is, cause);
	snprintf(headline->answer, sizeof(headline->answer), "%s: %.200s", headline->title, cause);
	used = (size_t)snprintf(headline->line, sizeof(headline->line), "%s", headline->answer);
	if (others)
		used += (size_t)snprintf(headline->line + used, sizeof(headline->line) - used, "; %.40s",
			words_many(others, "more finding", "more findings", a));
	(void)snprintf(headline->line + used, sizeof(headline->line) - used,
		". Lost%s: %.40s of %.40s card-hours (%.40s)", others || report->briefs ? " in all" : "",
		words_hours(report->cost_card_hours, a), words_hours(report->card_hours, b),
		words_percent(report->card_hours > 0 ? report->cost_card_hours / report->card_hours : 0, c));
}

/* Evidence with a reference value: of the activity, else of the cause, else the first. */
static const struct finding_evidence *best_evidence(const struct finding *f)
{
	const char *activity = activity_word(finding_activity(f->activity, f->cause));
	const struct finding_evidence *best = NULL, *of_cause = NULL;

	for (size_t i = 0; i < f->evidences; i++) {
		const struct finding_evidence *piece = &f->evidence[i];

		if (!isfinite(piece->value) || !isfinite(piece->peers))
			continue;
		if (activity[0] && strcmp(piece->name, activity) == 0)
			return piece;
		if (!of_cause && strcmp(piece->name, judge_evidence_of(f->cause)) == 0)
			of_cause = piece;
		if (!best)
			best = piece;
	}
	return of_cause ? of_cause : best;
}

static void headline_why(struct report *report, const struct report_finding *finding)
{
	struct report_headline *headline = &report->headline;
	const struct finding *f = &finding->is;
	const struct finding_evidence *piece = best_evidence(f);
	char value[WORDS_BYTES], peers[WORDS_BYTES];
	size_t used;
	bool named;

	snprintf(headline->why, sizeof(headline->why), "%.200s", words_why(f, value));
	used = strlen(headline->why);
	named = piece && strcmp(piece->name, activity_word(finding_activity(f->activity, f->cause))) == 0;
	if (piece)
		(void)snprintf(headline->why + used, sizeof(headline->why) - used, ": %s%s%.40s%s, %s %.40s",
			named ? "" : piece->name, named ? "" : " ", words_value(piece->value, piece->unit, value),
			named && strcmp(piece->unit, "ns") == 0 ? " a step" : "",
			f->rank >= 0 && !finding_is_before(piece) ? "peers" : "before",
			words_value(piece->peers, piece->unit, peers));
}

static void headline_parts(struct report *report)
{
	const struct report_finding *finding = &report->finding[0];
	struct report_headline *headline = &report->headline;
	char text[WORDS_BYTES], part[WORDS_BYTES];

	headline->finding = 0;
	snprintf(headline->which, sizeof(headline->which), "%s", words_subject(report, finding, text));
	snprintf(
		headline->since, sizeof(headline->since), "%.127s", words_group_since(report, &report->group[0], text));
	headline_why(report, finding);
	words_percent(finding->is.slowdown > 1 ? finding->is.slowdown - 1 : 0, part);
	if (finding->is.slowdown > 1)
		snprintf(headline->cost, sizeof(headline->cost), "%.40s card-hours; steps of its job took %.40s longer",
			words_hours(report->group[0].is.cost_card_hours, text), part);
	else
		snprintf(headline->cost, sizeof(headline->cost), "%.40s card-hours",
			words_hours(report->group[0].is.cost_card_hours, text));
	/* The card's days count only where this finding itself blames the card. */
	if (finding->card != REPORT_NONE && judge_card_is_chronic(report, &report->card[finding->card]) &&
		finding_blames_card(finding->is.cause, finding->is.activity, finding->is.side))
		judge_card_advice(report, &report->card[finding->card], headline->todo, sizeof(headline->todo));
	else
		snprintf(headline->todo, sizeof(headline->todo), "%s", judge_advice(&finding->is));
}

static bool anything_here(const struct report *report)
{
	for (size_t i = 0; i < report->stores; i++)
		if (report->store[i].here)
			return true;
	return false;
}

static void headline_nothing(const struct report *report, char *ret, size_t size)
{
	char since[WORDS_BYTES], until[WORDS_BYTES], job[REPORT_NAME_BYTES] = "";
	struct text name;

	if (report->only_job) {
		text_begin(&name, job, sizeof(job));
		text_name(&name, report->only_job, sizeof(job) - 4);
	}
	snprintf(ret, size, "Nothing was watched%s%s%s from %.60s to %.60s: no rank%s ran, or no daemon watched it",
		report->chosen.count ? " of these ranks" : "", report->only_job ? " of job " : "", job,
		words_when(report->since_ns, since), words_when(report->until_ns, until),
		report->chosen.count ? " of them"
		: report->only_job   ? " of it"
				     : "");
}

void report_judge(struct report *report)
{
	struct report_headline *headline = &report->headline;
	char seen[WORDS_BYTES * 2], but[WORDS_BYTES * 2];

	judge_findings(report);
	judge_cards(report);
	judge_jobs(report);
	headline->finding = REPORT_NONE;
	if (report->findings > report->remarks) {
		headline->verdict = report->finding[0].is.kind == FINDING_HANG ? REPORT_HANG : REPORT_SLOW;
		headline_slow(report);
		headline_parts(report);
	} else if (!anything_here(report) || (report->chosen.count && !report->cards_here)) {
		headline->verdict = REPORT_UNSEEN;
		headline_nothing(report, headline->line, sizeof(headline->line));
		snprintf(headline->title, sizeof(headline->title), "Nothing was watched");
		snprintf(headline->answer, sizeof(headline->answer), "%s", headline->title);
	} else {
		const char *lasting = report->briefs ? "lasting " : "";

		headline->verdict = REPORT_HEALTHY;
		headline_seen(report, seen, sizeof(seen));
		headline_but(report, but, sizeof(but));
		snprintf(headline->line, sizeof(headline->line), "Healthy: no %sslowdowns, no hangs; %.400s%.400s",
			lasting, seen, but);
		snprintf(headline->why, sizeof(headline->why), "%.220s%.160s", seen, but);
		snprintf(headline->title, sizeof(headline->title), "No %sslowdowns, no hangs", lasting);
		snprintf(headline->answer, sizeof(headline->answer), "%s", headline->title);
	}
}
