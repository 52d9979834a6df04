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
#include "analyzers/tool/tool_json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define CARDS_MAX 256
#define MEMORY_MAX 256 /* rows */

static json_t *json_evidence(const struct finding *f)
{
	json_t *all = json_array();

	for (size_t i = 0; i < f->evidences; i++) {
		const struct finding_evidence *piece = &f->evidence[i];

		json_array_append_new(all, tool_object("name", tool_text(piece->name), "unit", tool_text(piece->unit),
						   "value", tool_real(piece->value), "peers", tool_real(piece->peers),
						   "detail", tool_text(piece->detail), NULL));
	}
	return all;
}

static json_t *json_bars(const struct report_bars *from)
{
	json_t *all = json_array();

	for (size_t i = 0; from && i < from->bars; i++) {
		const struct report_bar *bar = &from->bar[i];

		json_array_append_new(all, tool_object("activity", tool_text(activity_word(bar->activity)), "own_ns",
						   tool_real(bar->own_ns), "waiting_ns", tool_real(bar->waiting_ns),
						   "peers_own_ns", tool_real(bar->peers_own_ns), "peers_waiting_ns",
						   tool_real(bar->peers_waiting_ns), NULL));
	}
	return all;
}

static json_t *json_finding(const struct report *report, size_t index)
{
	const struct report_finding *finding = &report->finding[index];
	const struct finding *f = &finding->is;
	char timeline[WORDS_BYTES];

	return tool_object("finding", tool_count(f->id), "kind", tool_text(finding_kind_word(f->kind)), "cause",
		tool_text(finding_cause_word(f->cause)), "state", tool_text(finding_state_word(f->state)), "severity",
		tool_text(finding_severity_word(f->severity)), "tier", tool_text(finding_tier_word(f->tier)),
		"confidence", tool_real(f->confidence), "job", tool_text(f->job), "uid", tool_known(report_uid(f)),
		"rank", tool_known(f->rank), "host",
		tool_text(finding->node != REPORT_NONE ? report->node[finding->node].name : f->host), "card",
		tool_text(finding->card != REPORT_NONE ? report->card[finding->card].name : f->card), "communicator",
		tool_text(f->communicator), "others", tool_text(f->others), "since_ns", tool_some(f->since_ns),
		"until_ns", tool_some(f->until_ns), "since_step", tool_some(f->since_step), "slowdown",
		f->slowdown > 0 ? tool_real(f->slowdown) : json_null(), "cost_card_hours",
		tool_real(finding->cost_card_hours), "cost_card_hours_in_all", tool_real(f->cost_card_hours), "remark",
		json_boolean(finding->remark), "told_by_nodes", tool_count(finding->reported_by), "across_nodes",
		json_boolean(finding->across), "evidence", json_evidence(f), "sentence", tool_text(f->sentence),
		"advice", tool_text(judge_advice(f)), "activity",
		tool_text(activity_word(finding_activity(f->activity, f->cause))), "side",
		tool_text(finding_side_word(f->side)), "group", tool_count(finding->group + 1), "bars",
		json_bars(finding->bars), "timeline", tool_text(words_timeline(report, finding, timeline)), NULL);
}

static json_t *json_groups(const struct report *report)
{
	json_t *all = json_array();

	for (size_t i = 0; i < report->groups_shown; i++) {
		const struct report_group *group = &report->group[i];
		const struct report_finding *finding = &report->finding[group->first];
		char subject[WORDS_BYTES], why[WORDS_BYTES], recurred[WORDS_BYTES];
		json_t *ids = json_array();

		for (size_t j = 0; j < group->is.count; j++)
			json_array_append_new(ids, tool_count(report->finding[group->first + j].is.id));
		json_array_append_new(
			all, tool_object("group", tool_count(i + 1), "subject",
				     tool_text(words_subject(report, finding, subject)), "why",
				     tool_text(words_why(&finding->is, why)), "episodes", tool_count(group->is.count),
				     "since_ns", tool_some(group->is.since_ns), "until_ns",
				     tool_some(group->is.until_ns), "lasted_ns", tool_count(group->is.lasted_ns),
				     "cost_card_hours", tool_real(group->is.cost_card_hours), "new",
				     json_boolean(group->fresh), "remark", json_boolean(group->remark), "recurred",
				     tool_text(words_recurred(group, recurred)), "findings", ids, NULL));
	}
	return all;
}

static json_t *json_briefs(const struct report *report)
{
	json_t *all = json_array();

	for (size_t i = 0; i < report->brief_ranks; i++) {
		const struct report_brief *brief = &report->brief[i];

		json_array_append_new(
			all, tool_object("job", tool_text(report->job[brief->job].name), "uid",
				     tool_known(report->job[brief->job].uid), "rank", tool_known(brief->rank), "count",
				     tool_count(brief->count), "lasted_ns", tool_count(brief->lasted_ns),
				     "cost_card_hours", tool_real(brief->cost_card_hours), NULL));
	}
	return all;
}

/* Shares are rounded: the map is as exact as its buckets. */
static json_t *json_heat(const struct report_heat *from)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < from->rows; i++) {
		const struct report_heat_row *row = &from->row[i];
		json_t *shares = json_array();

		for (uint32_t at = 0; at < from->buckets; at++)
			json_array_append_new(shares, tool_real(round((double)row->cell[at].share * 1000) / 1000));
		json_array_append_new(rows, tool_object("rank", tool_known(row->rank), "share", shares, NULL));
	}
	return tool_object("since_ns", tool_some(from->since_ns), "bucket_ns", tool_count(from->bucket_ns), "ranks",
		tool_count(from->ranks), "rows", rows, NULL);
}

static json_t *json_cards(const struct report *report)
{
	json_t *all = json_array();

	for (size_t i = 0; i < report->worsts && i < CARDS_MAX; i++) {
		const struct report_card *card = &report->card[report->worst[i]];
		json_t *days = json_array();
		char advice[WORDS_BYTES];
		uint32_t slow, of;

		judge_card_days(report, card, &slow, &of);
		judge_card_advice(report, card, advice, sizeof(advice));
		for (int day = 0; day < REPORT_DAYS; day++)
			if (card->slow_days >> day & 1)
				json_array_append_new(days, json_integer(day));
		json_array_append_new(all,
			tool_object("host", tool_text(report->node[card->node].name), "card", tool_text(card->name),
				"rank", tool_known(card->rank), "job",
				tool_text(card->job != REPORT_NONE ? report->job[card->job].name : ""), "findings",
				tool_count(card->findings), "cost_card_hours", tool_real(card->cost_card_hours),
				"past_cost_card_hours", tool_real(card->past_card_hours), "slow_days_ago", days,
				"slow_days", tool_count(slow), "of_days", tool_count(of), "replace",
				json_boolean(judge_card_is_chronic(report, card)), "advice", tool_text(advice), NULL));
	}
	return all;
}

static json_t *json_memory(const struct report *report)
{
	json_t *all = json_array();

	for (size_t i = 0; i < report->memories && i < MEMORY_MAX; i++) {
		const struct report_memory *memory = &report->memory[i];
		const struct report_job *job = &report->job[memory->job];
		const struct report_card *card = memory->card != REPORT_NONE ? &report->card[memory->card] : NULL;
		bool leaks = memory->leak != REPORT_NONE;
		char device[WORDS_BYTES];

		json_array_append_new(all,
			tool_object("job", tool_text(job->name), "uid", tool_known(job->uid), "rank",
				tool_known(memory->rank), "host", tool_text(card ? report->node[card->node].name : ""),
				"card", tool_text(card ? card->name : ""), "device",
				tool_text(words_memory_device(memory, device)), "peak_allocated_bytes",
				tool_some(memory->allocated_bytes), "peak_reserved_bytes",
				tool_some(memory->reserved_bytes), "failed_requests", tool_count(memory->failed),
				"failed_calls", tool_count(memory->calls_failed), "leak_finding",
				leaks ? tool_count(report->finding[memory->leak].is.id) : json_null(),
				"leak_hourly_bytes", tool_real(report_memory_hourly(report, memory)), "leak_where",
				tool_text(report_memory_place(report, memory)), NULL));
	}
	return all;
}

static json_t *json_jobs(const struct report *report)
{
	json_t *all = json_array();

	for (size_t i = 0; i < report->jobs; i++) {
		const struct report_job *job = &report->job[i];

		json_array_append_new(
			all, tool_object("job", tool_text(job->name), "uid", tool_known(job->uid), "world_size",
				     tool_count(job->world), "ranks", tool_count(job->ranks), "nodes",
				     tool_count(job->nodes), "restarts", tool_count(job->restarts), "steps",
				     tool_count(job->steps), "step_ns",
				     job->median_ns > 0 ? tool_real(job->median_ns) : json_null(), "findings",
				     tool_count(job->findings), "cost_card_hours", tool_real(job->cost_card_hours),
				     "heat", job->heat ? json_heat(job->heat) : json_null(), NULL));
	}
	return all;
}

static json_t *json_gaps(const struct report *report)
{
	json_t *all = json_array();

	for (size_t i = 0; i < report->gaps; i++) {
		const struct report_gap *gap = &report->gap[i];

		json_array_append_new(all,
			tool_object("host", tool_text(report->node[gap->node].name), "ranks", tool_count(gap->ranks),
				"of_ranks", tool_count(gap->of), "rank", tool_known(gap->rank), "since_ns",
				tool_some(gap->since_ns), "until_ns", tool_some(gap->until_ns), NULL));
	}
	return all;
}

static void add_line(void *arg, const char *line)
{
	json_array_append_new(arg, tool_text(line));
}

static json_t *report_json_unwatched(const struct report *report)
{
	json_t *lines = json_array();

	render_unwatched(report, add_line, lines);
	return tool_object("share",
		tool_real(report->alive_slots ? (double)report->unseen_slots / (double)report->alive_slots : NAN),
		"gaps", json_gaps(report), "sentences", lines, NULL);
}

/* All that sysTrace's fields do not hold. */
static json_t *json_ours(const struct report *report)
{
	static const char *const verdicts[REPORT_VERDICT_MAX] = {"not_watched", "healthy", "slow", "hang"};
	const struct report_headline *headline = &report->headline;
	json_t *findings = json_array();

	for (size_t i = 0; i < report->shown; i++)
		json_array_append_new(findings, json_finding(report, i));
	return tool_object("version", tool_text(RANKTRACE_VERSION), "since_ns", tool_some(report->since_ns), "until_ns",
		tool_some(report->until_ns), "made_ns", tool_some(report->now_ns), "verdict",
		tool_text(verdicts[headline->verdict]), "sentence", tool_text(headline->line), "which",
		tool_text(headline->which), "since", tool_text(headline->since), "why",
		tool_text(headline->finding != REPORT_NONE ? headline->why : ""), "cost", tool_text(headline->cost),
		"advice", tool_text(headline->todo), "cards", tool_count(report->cards_here), "cards_slow",
		tool_count(report->cards_slow), "nodes", tool_count(report->nodes_here), "card_hours",
		tool_real(report->card_hours), "cost_card_hours", tool_real(report->cost_card_hours), "findings_in_all",
		tool_count(report->findings), "not_confirmed", tool_count(report->suspected), "explained",
		tool_count(report->explained), "compared_nodes", tool_count(report->compared), "compared_until_ns",
		tool_some(report->compared_until_ns), "findings", findings, "groups", json_groups(report),
		"groups_in_all", tool_count(report->groups), "short_slowdowns", json_briefs(report),
		"short_cost_card_hours", tool_real(report->brief_card_hours), "uneven_cost_card_hours",
		tool_real(report->remark_card_hours), "cardless_cost_card_hours",
		tool_real(report->cardless_card_hours), "worst_cards", json_cards(report), "memory",
		json_memory(report), "memory_in_all", tool_count(report->memories), "jobs", json_jobs(report),
		"not_watched", report_json_unwatched(report), NULL);
}

#define RELATED_MAX 16 /* ranks beside an abnormal one, as sysTrace has it */
#define OTHERS_MAX 4096
#define NORMAL_MAX 4096

static const char *kpi_of(const struct finding *f)
{
	return f->evidences ? f->evidence[0].name : finding_cause_word(f->cause);
}

static const char *method_of(const struct finding *f)
{
	static const char *const methods[] = {
#define FINDING_KIND(id, word, method, title) [FINDING_##id] = #method,
#include "analyzers/finding/kinds.def"
#undef FINDING_KIND
	};

	return methods[f->kind];
}

static json_t *json_detail(const char *host, int32_t rank, const char *kpi, const char *method)
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
	json_t *one = json_detail(host, finding->is.rank, kpi_of(&finding->is), method_of(&finding->is));

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
			json_array_append_new(
				normal, json_detail(report->node[card->node].name, card->rank, "", "SPACE"));
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

static json_t *json_anomaly(const struct report_finding *finding)
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
			json_array_append_new(info, json_anomaly(&report->finding[i]));
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
