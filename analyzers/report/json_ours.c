/* SPDX-License-Identifier: Apache-2.0 */
/* See json.h. */
#include "analyzers/report/json.h"

#include <math.h>
#include <string.h>

#include "analyzers/report/judge.h"
#include "analyzers/report/render.h"
#include "analyzers/report/words.h"

#define CARDS_MAX 256

/* Texts are printable UTF-8 already, but a cut one may be less than that. */
static json_t *report_json_ours_text(const char *value)
{
	json_t *json = value[0] ? json_string(value) : NULL;

	return json ? json : json_null();
}

static json_t *report_json_ours_real(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

static json_t *report_json_ours_time_of(uint64_t ns)
{
	return ns ? json_integer((json_int_t)ns) : json_null();
}

static json_t *report_json_ours_number(int64_t value)
{
	return value >= 0 ? json_integer((json_int_t)value) : json_null();
}

static json_t *evidence(const struct finding *f)
{
	json_t *all = json_array();

	for (size_t i = 0; i < f->evidences; i++) {
		const struct finding_evidence *piece = &f->evidence[i];
		json_t *one = json_object();

		json_object_set_new(one, "name", report_json_ours_text(piece->name));
		json_object_set_new(one, "unit", report_json_ours_text(piece->unit));
		json_object_set_new(one, "value", report_json_ours_real(piece->value));
		json_object_set_new(one, "peers", report_json_ours_real(piece->peers));
		json_object_set_new(one, "detail", report_json_ours_text(piece->detail));
		json_array_append_new(all, one);
	}
	return all;
}

json_t *json_finding(const struct report *report, size_t index)
{
	const struct report_finding *finding = &report->finding[index];
	const struct finding *f = &finding->is;
	json_t *one = json_object();

	json_object_set_new(one, "finding", json_integer((json_int_t)f->id));
	json_object_set_new(one, "kind", report_json_ours_text(finding_kind_word(f->kind)));
	json_object_set_new(one, "cause", report_json_ours_text(finding_cause_word(f->cause)));
	json_object_set_new(one, "state", report_json_ours_text(finding_state_word(f->state)));
	json_object_set_new(one, "severity", report_json_ours_text(finding_severity_word(f->severity)));
	json_object_set_new(one, "tier", report_json_ours_text(finding_tier_word(f->tier)));
	json_object_set_new(one, "confidence", report_json_ours_real(f->confidence));
	json_object_set_new(one, "job", report_json_ours_text(f->job));
	json_object_set_new(one, "rank", report_json_ours_number(f->rank));
	json_object_set_new(
		one, "host", report_json_ours_text(finding->node != REPORT_NONE ? report->node[finding->node].name : f->host));
	json_object_set_new(
		one, "card", report_json_ours_text(finding->card != REPORT_NONE ? report->card[finding->card].name : f->card));
	json_object_set_new(one, "communicator", report_json_ours_text(f->communicator));
	json_object_set_new(one, "others", report_json_ours_text(f->others));
	json_object_set_new(one, "since_ns", report_json_ours_time_of(f->since_ns));
	json_object_set_new(one, "until_ns", report_json_ours_time_of(f->until_ns));
	json_object_set_new(one, "since_step", report_json_ours_time_of(f->since_step));
	json_object_set_new(one, "slowdown", f->slowdown > 0 ? report_json_ours_real(f->slowdown) : json_null());
	json_object_set_new(one, "cost_card_hours", report_json_ours_real(finding->cost_card_hours));
	json_object_set_new(one, "cost_card_hours_in_all", report_json_ours_real(f->cost_card_hours));
	json_object_set_new(one, "remark", json_boolean(finding->remark));
	json_object_set_new(one, "told_by_nodes", json_integer(finding->told_by));
	json_object_set_new(one, "across_nodes", json_boolean(finding->across));
	json_object_set_new(one, "evidence", evidence(f));
	json_object_set_new(one, "sentence", report_json_ours_text(f->sentence));
	json_object_set_new(one, "advice", report_json_ours_text(finding_cause_advice(f->cause)));
	return one;
}

static json_t *cards(const struct report *report)
{
	json_t *all = json_array();

	for (size_t i = 0; i < report->worsts && i < CARDS_MAX; i++) {
		const struct report_card *card = &report->card[report->worst[i]];
		json_t *one = json_object(), *days = json_array();
		char advice[WORDS_BYTES];
		uint32_t slow, of;

		judge_card_days(report, card, &slow, &of);
		judge_card_advice(report, card, advice, sizeof(advice));
		for (int day = 0; day < REPORT_DAYS; day++)
			if (card->slow_days >> day & 1)
				json_array_append_new(days, json_integer(day));
		json_object_set_new(one, "host", report_json_ours_text(report->node[card->node].name));
		json_object_set_new(one, "card", report_json_ours_text(card->name));
		json_object_set_new(one, "rank", report_json_ours_number(card->rank));
		json_object_set_new(
			one, "job", card->job != REPORT_NONE ? report_json_ours_text(report->job[card->job].name) : json_null());
		json_object_set_new(one, "findings", json_integer(card->findings));
		json_object_set_new(one, "cost_card_hours", report_json_ours_real(card->cost_card_hours));
		json_object_set_new(one, "past_cost_card_hours", report_json_ours_real(card->past_card_hours));
		json_object_set_new(one, "slow_days_ago", days);
		json_object_set_new(one, "slow_days", json_integer(slow));
		json_object_set_new(one, "of_days", json_integer(of));
		json_object_set_new(one, "replace", json_boolean(judge_card_is_chronic(report, card)));
		json_object_set_new(one, "advice", report_json_ours_text(advice));
		json_array_append_new(all, one);
	}
	return all;
}

static json_t *jobs(const struct report *report)
{
	json_t *all = json_array();

	for (size_t i = 0; i < report->jobs; i++) {
		const struct report_job *job = &report->job[i];
		json_t *one = json_object();

		json_object_set_new(one, "job", report_json_ours_text(job->name));
		json_object_set_new(one, "world_size", json_integer(job->world));
		json_object_set_new(one, "ranks", json_integer(job->ranks));
		json_object_set_new(one, "nodes", json_integer(job->nodes));
		json_object_set_new(one, "restarts", json_integer(job->restarts));
		json_object_set_new(one, "steps", json_integer((json_int_t)job->steps));
		json_object_set_new(one, "step_ns", job->median_ns > 0 ? report_json_ours_real(job->median_ns) : json_null());
		json_object_set_new(one, "findings", json_integer(job->findings));
		json_object_set_new(one, "cost_card_hours", report_json_ours_real(job->cost_card_hours));
		json_array_append_new(all, one);
	}
	return all;
}

static json_t *gaps(const struct report *report)
{
	json_t *all = json_array();

	for (size_t i = 0; i < report->gaps; i++) {
		const struct report_gap *gap = &report->gap[i];
		json_t *one = json_object();

		json_object_set_new(one, "host", report_json_ours_text(report->node[gap->node].name));
		json_object_set_new(one, "ranks", json_integer(gap->ranks));
		json_object_set_new(one, "of_ranks", json_integer(gap->of));
		json_object_set_new(one, "rank", report_json_ours_number(gap->rank));
		json_object_set_new(one, "since_ns", report_json_ours_time_of(gap->since_ns));
		json_object_set_new(one, "until_ns", report_json_ours_time_of(gap->until_ns));
		json_array_append_new(all, one);
	}
	return all;
}

static void add_line(void *arg, const char *line)
{
	json_array_append_new(arg, report_json_ours_text(line));
}

static json_t *report_json_ours_unwatched(const struct report *report)
{
	json_t *all = json_object(), *lines = json_array();

	render_unwatched(report, add_line, lines);
	json_object_set_new(all, "share",
		report->alive_slots ? report_json_ours_real((double)report->unseen_slots / (double)report->alive_slots) : json_null());
	json_object_set_new(all, "gaps", gaps(report));
	json_object_set_new(all, "sentences", lines);
	return all;
}

json_t *json_ours(const struct report *report)
{
	static const char *const verdicts[REPORT_VERDICT_MAX] = {"not_watched", "healthy", "slow", "hang"};
	const struct report_headline *headline = &report->headline;
	json_t *ours = json_object(), *findings = json_array();

	for (size_t i = 0; i < report->shown; i++)
		json_array_append_new(findings, json_finding(report, i));
	json_object_set_new(ours, "version", report_json_ours_text(RANKTRACE_VERSION));
	json_object_set_new(ours, "since_ns", report_json_ours_time_of(report->since_ns));
	json_object_set_new(ours, "until_ns", report_json_ours_time_of(report->until_ns));
	json_object_set_new(ours, "made_ns", report_json_ours_time_of(report->now_ns));
	json_object_set_new(ours, "verdict", report_json_ours_text(verdicts[headline->verdict]));
	json_object_set_new(ours, "sentence", report_json_ours_text(headline->line));
	json_object_set_new(ours, "which", report_json_ours_text(headline->which));
	json_object_set_new(ours, "since", report_json_ours_text(headline->since));
	json_object_set_new(ours, "why", report_json_ours_text(headline->finding != REPORT_NONE ? headline->why : ""));
	json_object_set_new(ours, "cost", report_json_ours_text(headline->cost));
	json_object_set_new(ours, "advice", report_json_ours_text(headline->todo));
	json_object_set_new(ours, "cards", json_integer(report->cards_here));
	json_object_set_new(ours, "cards_slow", json_integer(report->cards_slow));
	json_object_set_new(ours, "nodes", json_integer(report->nodes_here));
	json_object_set_new(ours, "card_hours", report_json_ours_real(report->card_hours));
	json_object_set_new(ours, "cost_card_hours", report_json_ours_real(report->cost_card_hours));
	json_object_set_new(ours, "findings_in_all", json_integer((json_int_t)report->findings));
	json_object_set_new(ours, "not_confirmed", json_integer((json_int_t)report->suspected));
	json_object_set_new(ours, "explained", json_integer((json_int_t)report->explained));
	json_object_set_new(ours, "compared_nodes", json_integer((json_int_t)report->compared));
	json_object_set_new(ours, "compared_until_ns", report_json_ours_time_of(report->compared_until_ns));
	json_object_set_new(ours, "findings", findings);
	json_object_set_new(ours, "worst_cards", cards(report));
	json_object_set_new(ours, "jobs", jobs(report));
	json_object_set_new(ours, "not_watched", report_json_ours_unwatched(report));
	return ours;
}
