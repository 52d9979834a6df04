/* SPDX-License-Identifier: Apache-2.0 */
/* Findings of a store. Those of the period are kept; earlier ones only mark the days on which cards were slow. */
#include "analyzers/report/model.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/array.h"
#include "analyzers/base/user.h"
#include "analyzers/finding/finding_advice.h"
#include "analyzers/report/judge.h"
#include "analyzers/tool/tool_rows.h"

#define ROWS_MAX 20000 /* of a store, costliest first */
#define COST_MAX 1e9
#define SLOW_DAY_NS 60000000000ULL /* slow for less than a minute in all is no slow day */

enum {
	KIND,
	CAUSE,
	STATE,
	SEVERITY,
	CONFIDENCE,
	TIER,
	JOB,
	RANK,
	HOST,
	CARD,
	COMMUNICATOR,
	SINCE_STEP,
	UNTIL_STEP,
	SINCE,
	NOTICED,
	UNTIL,
	SLOWDOWN,
	COST,
	OTHERS,
	EVIDENCE,
	SENTENCE,
	FINDING,
	ACTIVITY,
	SIDE,
	UID
};

static int64_t report_read_findings_uid(sqlite3_stmt *s, int column)
{
	int64_t uid = sqlite3_column_type(s, column) == SQLITE_INTEGER ? sqlite3_column_int64(s, column) : USER_UNKNOWN;

	return uid >= 0 && uid < UINT32_MAX ? uid : USER_UNKNOWN;
}

static double report_read_findings_real(sqlite3_stmt *s, int column, double most)
{
	double value = sqlite3_column_double(s, column);

	return isfinite(value) && value > 0 ? fmin(value, most) : 0;
}

/* Inverse of a function from numbers to words; max: unknown word. */
#define WORD_OF(ret, word, function, max) \
	do { \
		*(ret) = 0; \
		while (*(ret) < (max) && strcmp(word, function(*(ret))) != 0) \
			++*(ret); \
	} while (0)

static void report_read_findings_json_text(const json_t *object, const char *key, char *ret, size_t size)
{
	const char *text = json_string_value(json_object_get(object, key));

	report_name(text ? text : "", ret, size);
}

static void take_evidence(struct finding *finding, const char *text)
{
	json_t *all = json_loads(text, 0, NULL);
	const json_t *piece;
	size_t i;

	json_array_foreach(all, i, piece)
	{
		struct finding_evidence *to = &finding->evidence[finding->evidences];
		const json_t *peers = json_object_get(piece, "peers");
		char name[sizeof(to->name)];

		if (finding->evidences == FINDING_EVIDENCE_MAX)
			break;
		report_read_findings_json_text(piece, "name", name, sizeof(name));
		report_read_findings_json_text(piece, "unit", to->unit, sizeof(to->unit));
		report_read_findings_json_text(piece, "detail", to->detail, sizeof(to->detail));
		snprintf(to->name, sizeof(to->name), "%.23s", finding_evidence_name(name));
		to->value = json_number_value(json_object_get(piece, "value"));
		to->peers = json_is_number(peers) ? json_number_value(peers) : NAN;
		if (to->name[0])
			finding->evidences++;
	}
	json_decref(all);
}

static void take_words(struct finding *f, sqlite3_stmt *s)
{
	char word[32];

	tool_row_text(s, KIND, word, sizeof(word));
	f->kind = finding_kind_parse(word);
	tool_row_text(s, CAUSE, word, sizeof(word));
	f->cause = finding_cause_parse(word);
	if (f->cause == CAUSE_MAX)
		f->cause = CAUSE_UNKNOWN;
	tool_row_text(s, STATE, word, sizeof(word));
	WORD_OF(&f->state, word, finding_state_word, FINDING_STATE_MAX);
	tool_row_text(s, SEVERITY, word, sizeof(word));
	WORD_OF(&f->severity, word, finding_severity_word, SEVERITY_MAX);
	if (f->severity == SEVERITY_MAX)
		f->severity = SEVERITY_WARNING;
	tool_row_text(s, TIER, word, sizeof(word));
	WORD_OF(&f->tier, word, finding_tier_word, FRAME_TIER_MAX);
	if (f->tier == FRAME_TIER_MAX)
		f->tier = FRAME_TIER_STAGES;
	tool_row_text(s, ACTIVITY, word, sizeof(word));
	f->activity = activity_parse(word);
	tool_row_text(s, SIDE, word, sizeof(word));
	WORD_OF(&f->side, word, finding_side_word, FINDING_SIDE_MAX);
	if (f->side == FINDING_SIDE_MAX)
		f->side = FINDING_SIDE_UNKNOWN;
}

static void report_read_findings_take(struct finding *f, sqlite3_stmt *s)
{
	const char *evidence = (const char *)sqlite3_column_text(s, EVIDENCE);
	int64_t rank = sqlite3_column_type(s, RANK) == SQLITE_INTEGER ? sqlite3_column_int64(s, RANK) : -1;
	int64_t uid = report_read_findings_uid(s, UID);

	*f = (struct finding){
		.id = tool_row_count(s, FINDING),
		.confidence = report_read_findings_real(s, CONFIDENCE, 1),
		.uid_known = uid != USER_UNKNOWN,
		.uid = uid != USER_UNKNOWN ? (uint32_t)uid : 0,
		.rank = rank >= 0 && rank <= INT32_MAX ? (int32_t)rank : -1,
		.since_step = tool_row_count(s, SINCE_STEP),
		.until_step = tool_row_count(s, UNTIL_STEP),
		.since_ns = tool_row_count(s, SINCE),
		.noticed_ns = tool_row_count(s, NOTICED),
		.until_ns = tool_row_count(s, UNTIL),
		.slowdown = report_read_findings_real(s, SLOWDOWN, 1e6),
		.cost_card_hours = report_read_findings_real(s, COST, COST_MAX),
	};
	take_words(f, s);
	tool_row_text(s, JOB, f->job, sizeof(f->job));
	tool_row_text(s, HOST, f->host, sizeof(f->host));
	tool_row_text(s, CARD, f->card, sizeof(f->card));
	tool_row_text(s, COMMUNICATOR, f->communicator, sizeof(f->communicator));
	tool_row_text(s, OTHERS, f->others, sizeof(f->others));
	tool_row_text(s, SENTENCE, f->sentence, sizeof(f->sentence));
	take_evidence(f, evidence ? evidence : "");
}

/* Card of the finding's rank: of the process at that time, else as stored with the finding. */
static uint32_t card_of(struct report *report, const struct finding *f)
{
	uint32_t job;

	if (f->rank < 0)
		return REPORT_NONE;
	job = report_job_find(report, f->job, report_uid(f));
	for (size_t i = report->ranks; i-- > 0 && job != REPORT_NONE;) {
		const struct report_rank *rank = &report->rank[i];

		if (rank->rank == f->rank && rank->job == job && rank->first_ns <= f->since_ns)
			return rank->card;
	}
	if (!f->host[0])
		return REPORT_NONE;
	return report_card_of(report, report_node_of(report, f->host), f->card, -1, f->rank);
}

static uint64_t report_read_findings_end_of(const struct report *report, const struct finding *f)
{
	uint64_t end_ns = f->until_ns ? f->until_ns : report->now_ns;

	return end_ns > f->since_ns ? end_ns : f->since_ns;
}

/* Adds the time of [since, end) that is in the day, and whether that makes it a slow day. */
static uint32_t slow_day(
	const struct report *report, const struct finding *f, uint64_t end_ns, int day, uint64_t *slow_ns)
{
	uint64_t until_ns = report->until_ns - (uint64_t)day * REPORT_DAY_NS;
	uint64_t since_ns = until_ns > REPORT_DAY_NS ? until_ns - REPORT_DAY_NS : 0;

	since_ns = f->since_ns > since_ns ? f->since_ns : since_ns;
	until_ns = end_ns < until_ns ? end_ns : until_ns;
	slow_ns[day] += until_ns > since_ns ? until_ns - since_ns : 0;
	return slow_ns[day] >= SLOW_DAY_NS ? 1U << day : 0;
}

void report_note_past(struct report *report, const struct finding *f, uint32_t card)
{
	struct report_card *at = &report->card[card];
	uint64_t end_ns = report_read_findings_end_of(report, f);
	int newest = report_day(report, end_ns), oldest = report_day(report, f->since_ns);

	if (newest < 0 || !judge_accuses(f))
		return;
	for (int day = newest; day <= (oldest < 0 ? REPORT_DAYS - 1 : oldest); day++) {
		at->slow_days |= slow_day(report, f, end_ns, day, at->slow_ns);
		if (finding_blames_card(f->cause, f->activity, f->side))
			at->hard_days |= slow_day(report, f, end_ns, day, at->hard_ns);
	}
	at->past_card_hours += f->cost_card_hours;
	if (f->cost_card_hours >= at->cause_card_hours) {
		at->cause_card_hours = f->cost_card_hours;
		at->cause = f->cause;
		at->activity = f->activity;
		at->side = f->side;
	}
}

/* Kept to find what is new. */
static int keep_yesterday(struct report *report, const struct finding *f)
{
	struct finding_episode episode = finding_episode_of(f), before;

	for (size_t i = 0; i < report->yesterdays; i++) {
		before = finding_episode_of(&report->yesterday[i]);
		if (finding_episode_recurs(&before, &episode))
			return 0;
	}
	if (report->yesterdays == REPORT_YESTERDAY_MAX)
		return 0;
	if (!array_reserve((void **)&report->yesterday, &report->yesterday_capacity, report->yesterdays + 1, sizeof(*f),
		    REPORT_YESTERDAY_MAX))
		return -ENOMEM;
	report->yesterday[report->yesterdays++] = *f;
	return 0;
}

static int report_read_findings_keep(
	struct report *report, uint32_t store, const struct finding *f, uint32_t card, bool across)
{
	struct report_finding *to;
	uint64_t end_ns = report_read_findings_end_of(report, f);
	uint64_t from_ns = f->since_ns > report->since_ns ? f->since_ns : report->since_ns;
	uint64_t until_ns = end_ns < report->until_ns ? end_ns : report->until_ns;
	double share = end_ns > f->since_ns ? (double)(until_ns - from_ns) / (double)(end_ns - f->since_ns) : 1;

	if (!array_reserve((void **)&report->finding, &report->findings_capacity, report->findings + 1, sizeof(*to),
		    REPORT_FINDINGS_MAX))
		return -ENOMEM;
	to = &report->finding[report->findings++];
	*to = (struct report_finding){
		.is = *f,
		.store = store,
		.job = report_job_of(report, f->job, report_uid(f)),
		.card = card,
		.node = card != REPORT_NONE ? report->card[card].node
			: f->host[0]	    ? report_node_of(report, f->host)
					    : REPORT_NONE,
		.reported_by = across ? 0 : 1,
		.across = across,
		.cost_card_hours = f->cost_card_hours * share,
		.remark = judge_is_remark(f),
	};
	return 0;
}

int report_add_finding(struct report *report, uint32_t store, const struct finding *f, bool across)
{
	uint64_t end_ns = report_read_findings_end_of(report, f);
	uint32_t card;

	if (f->state != FINDING_OPEN && f->state != FINDING_CLOSED) {
		report->suspected += end_ns >= report->since_ns;
		return 0;
	}
	/* Counted by report_read_findings(). */
	if (finding_is_short(f->kind, f->severity))
		return 0;
	card = card_of(report, f);
	/* report_merge() marks the days of findings of the comparison. */
	if (card != REPORT_NONE && !across)
		report_note_past(report, f, card);
	if (end_ns < report->since_ns)
		return end_ns + REPORT_DAY_NS >= report->since_ns ? keep_yesterday(report, f) : 0;
	if (report->findings == REPORT_FINDINGS_MAX) {
		report_note(report, "more than %d findings: the others are left out", REPORT_FINDINGS_MAX);
		return 0;
	}
	return report_read_findings_keep(report, store, f, card, across);
}

static int finding_row(struct report_source *source, sqlite3_stmt *s)
{
	const char *only_job = source->report->only_job;
	struct finding f;

	report_read_findings_take(&f, s);
	if (f.kind == FINDING_KIND_MAX || (only_job && strcmp(only_job, f.job) != 0) ||
		!report_wants_rank(source->report, f.rank, f.others))
		return 0;
	return report_add_finding(source->report, source->store, &f, false);
}

static int brief_row(struct report_source *source, sqlite3_stmt *s)
{
	struct report *report = source->report;
	int64_t rank = sqlite3_column_type(s, 1) == SQLITE_INTEGER ? sqlite3_column_int64(s, 1) : -1;
	int64_t uid = report_read_findings_uid(s, 5);
	const struct report_brief brief = {
		.count = tool_row_count(s, 2),
		.lasted_ns = (uint64_t)report_read_findings_real(s, 3, 1e18),
		.cost_card_hours = report_read_findings_real(s, 4, COST_MAX),
	};
	char job[REPORT_NAME_BYTES];

	tool_row_text(s, 0, job, sizeof(job));
	rank = rank >= 0 && rank <= INT32_MAX ? rank : -1;
	if ((!report->only_job || strcmp(report->only_job, job) == 0) && report_wants_rank(report, (int32_t)rank, NULL))
		report_add_brief(report, report_job_of(report, job, uid), (int32_t)rank, &brief);
	return 0;
}

/* Short slow-downs: finding_is_short() as SQL, because a day may have too many to read. */
#define SHORT_KINDS "('slow_rank', 'slow_job', 'slow_communication')"

static int read_briefs(struct report_source *source, char *error, size_t error_size)
{
	const struct report *report = source->report;
	uint64_t rows = 0;
	char sql[640];

	snprintf(sql, sizeof(sql),
		"SELECT job, rank, count(*), total(max(0, coalesce(until_ns, %" PRIu64
		") - since_ns)), total(max(0, coalesce(cost_card_hours, 0))), uid FROM findings WHERE since_ns >= "
		"%" PRIu64 " AND since_ns < %" PRIu64
		" AND state IN ('open', 'closed') AND severity IS 'info' AND kind IN " SHORT_KINDS
		" GROUP BY job, uid, rank ORDER BY 5 DESC LIMIT %d",
		report->until_ns, report->since_ns, report->until_ns, REPORT_BRIEFS_MAX);
	return report_each(source, sql, brief_row, &rows, error, error_size);
}

int report_read_findings(struct report_source *source, char *error, size_t error_size)
{
	uint64_t until = source->report->until_ns, past = REPORT_DAYS * REPORT_DAY_NS, rows = 0;
	char sql[768];
	int r;

	snprintf(sql, sizeof(sql),
		"SELECT kind, cause, state, severity, confidence, tier, job, rank, host, card, communicator, "
		"since_step, until_step,"
		" since_ns, noticed_ns, until_ns, slowdown, cost_card_hours, others, evidence, sentence, finding,"
		" activity, side, uid FROM findings"
		" WHERE since_ns < %" PRIu64 " AND (until_ns IS NULL OR until_ns >= %" PRIu64 ") "
		" AND (severity IS NOT 'info' OR kind NOT IN " SHORT_KINDS ")"
		" ORDER BY cost_card_hours DESC, finding LIMIT %d",
		until, until > past ? until - past : 0, ROWS_MAX);
	r = report_each(source, sql, finding_row, &rows, error, error_size);
	if (r == 0 && rows == ROWS_MAX)
		report_note(source->report, "more than %d findings in %s: the costliest ones were read", ROWS_MAX,
			source->report->store[source->store].name);
	return r == 0 ? read_briefs(source, error, error_size) : r;
}
