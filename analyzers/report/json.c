/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report for programs. The outer object has the fields of both of sysTrace's results, so that what reads one of
 * them reads this: of slow nodes (resultCode 200 or 201, compute, network, storage, abnormalDetail, normalDetail,
 * errorMsg, timestamp in s) and of slow steps (is_anomaly, anomaly_count_times, anomaly_info, anomaly_type, start_time
 * and end_time in ms). sysTrace has no place for names, costs and days: these are under "ranktrace". See render.h.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/report/json.h"
#include "analyzers/report/judge.h"
#include "analyzers/report/render.h"
#include "analyzers/report/words.h"

#define RELATED_MAX 16 /* ranks beside an abnormal one, as sysTrace has it */
#define OTHERS_MAX 4096
#define NORMAL_MAX 4096

static const char *kpi_of(const struct finding *f)
{
	return f->evidences ? f->evidence[0].name : finding_cause_word(f->cause);
}

/* Slow beside its peers, slower than before, or not there. */
static const char *method_of(const struct finding *f)
{
	static const char *const methods[FINDING_KIND_MAX] = {
		[FINDING_SLOW_RANK] = "SPACE",
		[FINDING_SLOW_COMMUNICATION] = "TIME",
		[FINDING_SLOW_JOB] = "TIME",
		[FINDING_HANG] = "LACK",
		[FINDING_MISMATCH] = "LACK",
		[FINDING_IMBALANCE] = "SPACE",
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

/* Points of the plot, as sysTrace writes them with record_kpi: the time in ms, and whether it was found slow then. */
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
	static const char *const parts[JUDGE_PART_MAX] = {"compute", "network", "storage"};
	json_t *abnormal = json_array(), *normal = json_array();
	bool part[JUDGE_PART_MAX + 1] = {false}, wrong = report->findings > report->remarks;

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
	for (size_t i = 0; i < JUDGE_PART_MAX; i++)
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

	/* One result of sysTrace is of hangs or of slow steps, never of both. */
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
