/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report for programs. The outer object has the fields of both of sysTrace's results, so that their consumers can
 * read it: of slow nodes (resultCode 200 or 201, compute, network, storage, abnormalDetail, normalDetail, errorMsg,
 * timestamp in s) and of slow steps (is_anomaly, anomaly_count_times, anomaly_info, anomaly_type, start_time and
 * end_time in ms). Names, costs and days, which sysTrace does not have, are under "ranktrace".
 */
#include "analyzers/report/judge.h"
#include "analyzers/report/render.h"
#include "analyzers/report/words.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CARDS_MAX 256

/* NULL for a text that was cut within a character. */
static json_t *report_json_text(const char *value)
{
	json_t *json = value[0] ? json_string(value) : NULL;

	return json ? json : json_null();
}

static json_t *report_json_real(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

static json_t *report_json_time_of(uint64_t ns)
{
	return ns ? json_integer((json_int_t)ns) : json_null();
}

static json_t *report_json_number(int64_t value)
{
	return value >= 0 ? json_integer((json_int_t)value) : json_null();
}

static json_t *evidence(const struct finding *f)
{
	json_t *all = json_array();

	for (size_t i = 0; i < f->evidences; i++) {
		const struct finding_evidence *piece = &f->evidence[i];
		json_t *one = json_object();

		json_object_set_new(one, "name", report_json_text(piece->name));
		json_object_set_new(one, "unit", report_json_text(piece->unit));
		json_object_set_new(one, "value", report_json_real(piece->value));
		json_object_set_new(one, "peers", report_json_real(piece->peers));
		json_object_set_new(one, "detail", report_json_text(piece->detail));
		json_array_append_new(all, one);
	}
	return all;
}

static json_t *bars(const struct report_bars *from)
{
	json_t *all = json_array();

	for (size_t i = 0; from && i < from->bars; i++) {
		const struct report_bar *bar = &from->bar[i];
		json_t *one = json_object();

		json_object_set_new(one, "activity", report_json_text(activity_word(bar->activity)));
		json_object_set_new(one, "own_ns", report_json_real(bar->own_ns));
		json_object_set_new(one, "waiting_ns", report_json_real(bar->waiting_ns));
		json_object_set_new(one, "peers_own_ns", report_json_real(bar->peers_own_ns));
		json_object_set_new(one, "peers_waiting_ns", report_json_real(bar->peers_waiting_ns));
		json_array_append_new(all, one);
	}
	return all;
}

json_t *json_finding(const struct report *report, size_t index)
{
	const struct report_finding *finding = &report->finding[index];
	const struct finding *f = &finding->is;
	char timeline[WORDS_BYTES];
	json_t *one = json_object();

	json_object_set_new(one, "finding", json_integer((json_int_t)f->id));
	json_object_set_new(one, "kind", report_json_text(finding_kind_word(f->kind)));
	json_object_set_new(one, "cause", report_json_text(finding_cause_word(f->cause)));
	json_object_set_new(one, "state", report_json_text(finding_state_word(f->state)));
	json_object_set_new(one, "severity", report_json_text(finding_severity_word(f->severity)));
	json_object_set_new(one, "tier", report_json_text(finding_tier_word(f->tier)));
	json_object_set_new(one, "confidence", report_json_real(f->confidence));
	json_object_set_new(one, "job", report_json_text(f->job));
	json_object_set_new(one, "uid", report_json_number(report_uid(f)));
	json_object_set_new(one, "rank", report_json_number(f->rank));
	json_object_set_new(one, "host",
		report_json_text(finding->node != REPORT_NONE ? report->node[finding->node].name : f->host));
	json_object_set_new(one, "card",
		report_json_text(finding->card != REPORT_NONE ? report->card[finding->card].name : f->card));
	json_object_set_new(one, "communicator", report_json_text(f->communicator));
	json_object_set_new(one, "others", report_json_text(f->others));
	json_object_set_new(one, "since_ns", report_json_time_of(f->since_ns));
	json_object_set_new(one, "until_ns", report_json_time_of(f->until_ns));
	json_object_set_new(one, "since_step", report_json_time_of(f->since_step));
	json_object_set_new(one, "slowdown", f->slowdown > 0 ? report_json_real(f->slowdown) : json_null());
	json_object_set_new(one, "cost_card_hours", report_json_real(finding->cost_card_hours));
	json_object_set_new(one, "cost_card_hours_in_all", report_json_real(f->cost_card_hours));
	json_object_set_new(one, "remark", json_boolean(finding->remark));
	json_object_set_new(one, "told_by_nodes", json_integer(finding->reported_by));
	json_object_set_new(one, "across_nodes", json_boolean(finding->across));
	json_object_set_new(one, "evidence", evidence(f));
	json_object_set_new(one, "sentence", report_json_text(f->sentence));
	json_object_set_new(one, "advice", report_json_text(judge_advice(f)));
	json_object_set_new(one, "activity", report_json_text(activity_word(finding_activity(f->activity, f->cause))));
	json_object_set_new(one, "side", report_json_text(finding_side_word(f->side)));
	json_object_set_new(one, "group", json_integer((json_int_t)finding->group + 1));
	json_object_set_new(one, "bars", bars(finding->bars));
	json_object_set_new(one, "timeline", report_json_text(words_timeline(report, finding, timeline)));
	return one;
}

static json_t *groups(const struct report *report)
{
	json_t *all = json_array();

	for (size_t i = 0; i < report->groups_shown; i++) {
		const struct report_group *group = &report->group[i];
		const struct report_finding *finding = &report->finding[group->first];
		json_t *one = json_object(), *ids = json_array();
		char text[WORDS_BYTES];

		for (size_t j = 0; j < group->is.count; j++)
			json_array_append_new(ids, json_integer((json_int_t)report->finding[group->first + j].is.id));
		json_object_set_new(one, "group", json_integer((json_int_t)i + 1));
		json_object_set_new(one, "subject", report_json_text(words_subject(report, finding, text)));
		json_object_set_new(one, "why", report_json_text(words_why(&finding->is, text)));
		json_object_set_new(one, "episodes", json_integer((json_int_t)group->is.count));
		json_object_set_new(one, "since_ns", report_json_time_of(group->is.since_ns));
		json_object_set_new(one, "until_ns", report_json_time_of(group->is.until_ns));
		json_object_set_new(one, "lasted_ns", json_integer((json_int_t)group->is.lasted_ns));
		json_object_set_new(one, "cost_card_hours", report_json_real(group->is.cost_card_hours));
		json_object_set_new(one, "new", json_boolean(group->fresh));
		json_object_set_new(one, "remark", json_boolean(group->remark));
		json_object_set_new(one, "recurred", report_json_text(words_recurred(group, text)));
		json_object_set_new(one, "findings", ids);
		json_array_append_new(all, one);
	}
	return all;
}

static json_t *briefs(const struct report *report)
{
	json_t *all = json_array();

	for (size_t i = 0; i < report->brief_ranks; i++) {
		const struct report_brief *brief = &report->brief[i];
		json_t *one = json_object();

		json_object_set_new(one, "job", report_json_text(report->job[brief->job].name));
		json_object_set_new(one, "uid", report_json_number(report->job[brief->job].uid));
		json_object_set_new(one, "rank", report_json_number(brief->rank));
		json_object_set_new(one, "count", json_integer((json_int_t)brief->count));
		json_object_set_new(one, "lasted_ns", json_integer((json_int_t)brief->lasted_ns));
		json_object_set_new(one, "cost_card_hours", report_json_real(brief->cost_card_hours));
		json_array_append_new(all, one);
	}
	return all;
}

/* Shares are rounded: the map is as exact as its buckets. */
static json_t *json_heat(const struct report_heat *from)
{
	json_t *rows = json_array(), *all = json_object();

	for (size_t i = 0; i < from->rows; i++) {
		const struct report_heat_row *row = &from->row[i];
		json_t *one = json_object(), *shares = json_array();

		for (uint32_t at = 0; at < from->buckets; at++)
			json_array_append_new(shares, report_json_real(round((double)row->cell[at].share * 1000) / 1000));
		json_object_set_new(one, "rank", report_json_number(row->rank));
		json_object_set_new(one, "share", shares);
		json_array_append_new(rows, one);
	}
	json_object_set_new(all, "since_ns", report_json_time_of(from->since_ns));
	json_object_set_new(all, "bucket_ns", json_integer((json_int_t)from->bucket_ns));
	json_object_set_new(all, "ranks", json_integer((json_int_t)from->ranks));
	json_object_set_new(all, "rows", rows);
	return all;
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
		json_object_set_new(one, "host", report_json_text(report->node[card->node].name));
		json_object_set_new(one, "card", report_json_text(card->name));
		json_object_set_new(one, "rank", report_json_number(card->rank));
		json_object_set_new(one, "job",
			card->job != REPORT_NONE ? report_json_text(report->job[card->job].name) : json_null());
		json_object_set_new(one, "findings", json_integer(card->findings));
		json_object_set_new(one, "cost_card_hours", report_json_real(card->cost_card_hours));
		json_object_set_new(one, "past_cost_card_hours", report_json_real(card->past_card_hours));
		json_object_set_new(one, "slow_days_ago", days);
		json_object_set_new(one, "slow_days", json_integer(slow));
		json_object_set_new(one, "of_days", json_integer(of));
		json_object_set_new(one, "replace", json_boolean(judge_card_is_chronic(report, card)));
		json_object_set_new(one, "advice", report_json_text(advice));
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

		json_object_set_new(one, "job", report_json_text(job->name));
		json_object_set_new(one, "uid", report_json_number(job->uid));
		json_object_set_new(one, "world_size", json_integer(job->world));
		json_object_set_new(one, "ranks", json_integer(job->ranks));
		json_object_set_new(one, "nodes", json_integer(job->nodes));
		json_object_set_new(one, "restarts", json_integer(job->restarts));
		json_object_set_new(one, "steps", json_integer((json_int_t)job->steps));
		json_object_set_new(
			one, "step_ns", job->median_ns > 0 ? report_json_real(job->median_ns) : json_null());
		json_object_set_new(one, "findings", json_integer(job->findings));
		json_object_set_new(one, "cost_card_hours", report_json_real(job->cost_card_hours));
		json_object_set_new(one, "heat", job->heat ? json_heat(job->heat) : json_null());
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

		json_object_set_new(one, "host", report_json_text(report->node[gap->node].name));
		json_object_set_new(one, "ranks", json_integer(gap->ranks));
		json_object_set_new(one, "of_ranks", json_integer(gap->of));
		json_object_set_new(one, "rank", report_json_number(gap->rank));
		json_object_set_new(one, "since_ns", report_json_time_of(gap->since_ns));
		json_object_set_new(one, "until_ns", report_json_time_of(gap->until_ns));
		json_array_append_new(all, one);
	}
	return all;
}

static void add_line(void *arg, const char *line)
{
	json_array_append_new(arg, report_json_text(line));
}

static json_t *report_json_unwatched(const struct report *report)
{
	json_t *all = json_object(), *lines = json_array();

	render_unwatched(report, add_line, lines);
	json_object_set_new(all, "share",
		report->alive_slots ? report_json_real((double)report->unseen_slots / (double)report->alive_slots)
				    : json_null());
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
	json_object_set_new(ours, "version", report_json_text(RANKTRACE_VERSION));
	json_object_set_new(ours, "since_ns", report_json_time_of(report->since_ns));
	json_object_set_new(ours, "until_ns", report_json_time_of(report->until_ns));
	json_object_set_new(ours, "made_ns", report_json_time_of(report->now_ns));
	json_object_set_new(ours, "verdict", report_json_text(verdicts[headline->verdict]));
	json_object_set_new(ours, "sentence", report_json_text(headline->line));
	json_object_set_new(ours, "which", report_json_text(headline->which));
	json_object_set_new(ours, "since", report_json_text(headline->since));
	json_object_set_new(ours, "why", report_json_text(headline->finding != REPORT_NONE ? headline->why : ""));
	json_object_set_new(ours, "cost", report_json_text(headline->cost));
	json_object_set_new(ours, "advice", report_json_text(headline->todo));
	json_object_set_new(ours, "cards", json_integer(report->cards_here));
	json_object_set_new(ours, "cards_slow", json_integer(report->cards_slow));
	json_object_set_new(ours, "nodes", json_integer(report->nodes_here));
	json_object_set_new(ours, "card_hours", report_json_real(report->card_hours));
	json_object_set_new(ours, "cost_card_hours", report_json_real(report->cost_card_hours));
	json_object_set_new(ours, "findings_in_all", json_integer((json_int_t)report->findings));
	json_object_set_new(ours, "not_confirmed", json_integer((json_int_t)report->suspected));
	json_object_set_new(ours, "explained", json_integer((json_int_t)report->explained));
	json_object_set_new(ours, "compared_nodes", json_integer((json_int_t)report->compared));
	json_object_set_new(ours, "compared_until_ns", report_json_time_of(report->compared_until_ns));
	json_object_set_new(ours, "findings", findings);
	json_object_set_new(ours, "groups", groups(report));
	json_object_set_new(ours, "groups_in_all", json_integer((json_int_t)report->groups));
	json_object_set_new(ours, "short_slowdowns", briefs(report));
	json_object_set_new(ours, "short_cost_card_hours", report_json_real(report->brief_card_hours));
	json_object_set_new(ours, "uneven_cost_card_hours", report_json_real(report->remark_card_hours));
	json_object_set_new(ours, "cardless_cost_card_hours", report_json_real(report->cardless_card_hours));
	json_object_set_new(ours, "worst_cards", cards(report));
	json_object_set_new(ours, "jobs", jobs(report));
	json_object_set_new(ours, "not_watched", report_json_unwatched(report));
	return ours;
}

#define RELATED_MAX 16 /* ranks beside an abnormal one, as sysTrace has it */
#define OTHERS_MAX 4096
#define NORMAL_MAX 4096

static const char *kpi_of(const struct finding *f)
{
	return f->evidences ? f->evidence[0].name : finding_cause_word(f->cause);
}

/* Slow compared with peers, slower than before, or missing. */
static const char *method_of(const struct finding *f)
{
	static const char *const methods[FINDING_KIND_MAX] = {
		[FINDING_SLOW_RANK] = "SPACE",
		[FINDING_SLOW_COMMUNICATION] = "TIME",
		[FINDING_SLOW_JOB] = "TIME",
		[FINDING_HANG] = "LACK",
		[FINDING_MISMATCH] = "LACK",
		[FINDING_IMBALANCE] = "SPACE",
		[FINDING_HARDWARE] = "TIME",
		[FINDING_MEMORY] = "TIME",
	};

	return methods[f->kind];
}

static json_t *detail(const char *host, int32_t rank, const char *kpi, const char *method)
{
	char id[16] = "-1", device[32] = "";

	if (rank >= 0) {
		snprintf(id, sizeof(id), "%d", rank);
		snprintf(device, sizeof(device), "rank_%d", rank);
	}
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:[], s:[], s:[]}", "objectId", id, "serverIp", host, "deviceInfo",
		device, "kpiId", kpi, "methodType", method, "kpiData", "relaIds", "omittedDevices");
}

/* Points of the plot in sysTrace's record_kpi form: time in ms, and whether it was slow. */
static void add_kpi(json_t *data, const struct report_finding *finding)
{
	const struct report_plot *plot = finding->plot;

	for (size_t i = 0; plot && i < plot->buckets; i++) {
		uint64_t at = plot->since_ns + (plot->until_ns - plot->since_ns) / plot->buckets * i;
		char time[24], value[32];
		bool slow = at >= finding->is.since_ns && (!finding->is.until_ns || at < finding->is.until_ns);

		if (!isfinite(plot->own[i]))
			continue;
		snprintf(time, sizeof(time), "%llu", (unsigned long long)(at / 1000000));
		snprintf(value, sizeof(value), "%.6g", plot->own[i]);
		json_array_append_new(data, json_pack("{s:s, s:i}", time, value, "abnormal", slow));
	}
}

/* The other ranks of its job: the first RELATED_MAX, and the rest. */
static void add_others(const struct report *report, const struct report_finding *finding, json_t *related, json_t *rest)
{
	const struct report_job *job = &report->job[finding->job];
	int32_t most = (int32_t)(job->world > OTHERS_MAX ? OTHERS_MAX : job->world);

	for (int32_t rank = 0; job->rank_seen && rank < most; rank++)
		if (rank != finding->is.rank && (job->rank_seen[rank / 8] >> rank % 8 & 1))
			json_array_append_new(
				json_array_size(related) < RELATED_MAX ? related : rest, json_integer(rank));
}

static void add_abnormal(json_t *all, const struct report *report, size_t i)
{
	const struct report_finding *finding = &report->finding[i];
	const char *host = finding->node != REPORT_NONE ? report->node[finding->node].name : finding->is.host;
	json_t *one = detail(host, finding->is.rank, kpi_of(&finding->is), method_of(&finding->is));

	add_kpi(json_object_get(one, "kpiData"), finding);
	add_others(report, finding, json_object_get(one, "relaIds"), json_object_get(one, "omittedDevices"));
	json_object_set_new(one, "ranktrace", json_finding(report, i));
	json_array_append_new(all, one);
}

static void add_slow_node(json_t *root, const struct report *report)
{
	static const char *const parts[FINDING_PART_NONE] = {"compute", "network", "storage"};
	json_t *abnormal = json_array(), *normal = json_array();
	bool part[FINDING_PART_NONE + 1] = {false}, wrong = report->findings > report->remarks;

	for (size_t i = 0; i < report->findings; i++)
		part[judge_part_of(&report->finding[i].is)] = true;
	for (size_t i = 0; i < report->shown; i++)
		if (!report->finding[i].remark)
			add_abnormal(abnormal, report, i);
	for (size_t i = 0; wrong && i < report->cards && json_array_size(normal) < NORMAL_MAX; i++) {
		const struct report_card *card = &report->card[i];

		if (card->here && !card->findings && card->rank >= 0)
			json_array_append_new(normal, detail(report->node[card->node].name, card->rank, "", "SPACE"));
	}
	json_object_set_new(root, "resultCode", json_integer(wrong ? 201 : 200));
	for (size_t i = 0; i < FINDING_PART_NONE; i++)
		json_object_set_new(root, parts[i], json_boolean(part[i]));
	json_object_set_new(root, "abnormalDetail", abnormal);
	json_object_set_new(root, "normalDetail", normal);
	json_object_set_new(
		root, "errorMsg", json_string(report->headline.verdict == REPORT_UNSEEN ? report->headline.line : ""));
	json_object_set_new(root, "timestamp", json_integer((json_int_t)(report->now_ns / 1000000000)));
}

static json_t *anomaly(const struct report_finding *finding)
{
	const struct finding *f = &finding->is;
	char when[WORDS_BYTES], slow[48] = "", normal[48] = "";
	uint64_t end_ns = f->until_ns ? f->until_ns : f->since_ns;

	words_stamp(f->since_ns, when);
	if (f->kind == FINDING_HANG)
		return json_pack(
			"{s:[s], s:f}", "detect_point", when, "hang_minutes", (double)(end_ns - f->since_ns) / 6e10);
	for (size_t i = 0; i < f->evidences; i++) {
		if (strcmp(f->evidence[i].unit, "ns") != 0 || !isfinite(f->evidence[i].peers))
			continue;
		snprintf(slow, sizeof(slow), "%.3fms", f->evidence[i].value / 1e6);
		snprintf(normal, sizeof(normal), "%.3fms", f->evidence[i].peers / 1e6);
		break;
	}
	return json_pack("{s:I, s:s, s:f, s:s, s:s}", "training_step", (json_int_t)f->since_step, "anomaly_time", when,
		"anomaly_degree", f->slowdown > 1 ? round((f->slowdown - 1) * 1000) / 1000 : 0.0,
		"anomaly_training_time", slow, "normal_training_time", normal);
}

static void add_fail_slow(json_t *root, const struct report *report)
{
	json_t *info = json_array();
	bool hang = report->headline.verdict == REPORT_HANG, wrong = report->findings > report->remarks;

	/* A result of sysTrace is of hangs or of slow steps, never of both. */
	for (size_t i = 0; i < report->shown; i++)
		if (!report->finding[i].remark && (report->finding[i].is.kind == FINDING_HANG) == hang)
			json_array_append_new(info, anomaly(&report->finding[i]));
	json_object_set_new(root, "is_anomaly", json_boolean(wrong));
	json_object_set_new(root, "anomaly_count_times", json_integer((json_int_t)json_array_size(info)));
	json_object_set_new(root, "anomaly_info", info);
	json_object_set_new(root, "anomaly_type", json_string(hang ? "hang" : wrong ? "failSlow" : "normal"));
	json_object_set_new(root, "start_time", json_integer((json_int_t)(report->since_ns / 1000000)));
	json_object_set_new(root, "end_time", json_integer((json_int_t)(report->until_ns / 1000000)));
}

void render_json(FILE *out, const struct report *report)
{
	json_t *root = json_object();

	add_slow_node(root, report);
	add_fail_slow(root, report);
	json_object_set_new(root, "ranktrace", json_ours(report));
	json_dumpf(root, out, JSON_INDENT(1));
	fputc('\n', out);
	json_decref(root);
}
