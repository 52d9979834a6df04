/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishes findings: a row of the store for each update, and a journal message when state, rank, cause or severity
 * changed (growing cost alone logs nothing). ranktraced(8) documents the fields.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>

#include "analyzers/base/text.h"
#include "analyzers/base/units.h"
#include "analyzers/finding/finding_advice.h"
#include "analyzers/gauges/card_gauges.h"
#include "analyzers/gauges/network_gauges.h"
#include "daemon/core/context.h"
#include "daemon/findings/online_internal.h"
#include "daemon/gauges/gauges.h"
#include "daemon/base/log.h"
#include "daemon/store/store.h"

/* One per state, so that watchers can filter on it. */
static const char *const message_id[FINDING_STATE_MAX] = {
	[FINDING_SUSPECTED] = "MESSAGE_ID=0e6703e664c44501a3d0b096198aafbf",
	[FINDING_OPEN] = "MESSAGE_ID=7d1c0f8b1c0a4d0c9f4e6f4b6a1e52d3",
	[FINDING_CLOSED] = "MESSAGE_ID=b64f5f0d58a94e4bb0a6fd9b5b5c8e17",
	[FINDING_DROPPED] = "MESSAGE_ID=e2f3a97c0e8b4c5f8a0d9e21c7b4f6a9",
};

static const char *const state_prefix[FINDING_STATE_MAX] = {
	[FINDING_SUSPECTED] = "suspected: ",
	[FINDING_OPEN] = "",
	[FINDING_CLOSED] = "over: ",
	[FINDING_DROPPED] = "not confirmed: ",
};

static int online_publish_priority_of(const struct finding *finding)
{
	static const int of_severity[SEVERITY_MAX] = {
		[SEVERITY_INFO] = LOG_INFO,
		[SEVERITY_NOTICE] = LOG_NOTICE,
		[SEVERITY_WARNING] = LOG_WARNING,
		[SEVERITY_CRITICAL] = LOG_CRIT,
	};

	if (finding->state == FINDING_OPEN || finding->kind == FINDING_CRASH)
		return of_severity[finding->severity];
	if (finding->state == FINDING_CLOSED)
		return finding->severity == SEVERITY_INFO ? LOG_INFO : LOG_NOTICE;
	return finding->state == FINDING_SUSPECTED ? LOG_INFO : LOG_DEBUG;
}

static struct field_time online_publish_time(struct store *store, uint64_t time_ns)
{
	return field_time_if(time_ns, store_utc_ns(store, time_ns));
}

void online_publish_put_row(const struct online *online, const struct finding *f)
{
	struct store *store = online->context->store;
	char evidence[FINDING_JSON_BYTES];

	(void)finding_evidence_json(f, evidence, sizeof(evidence));
	const struct row_findings row = {
		.kind = field_text(finding_kind_word(f->kind)),
		.cause = field_text(finding_cause_word(f->cause)),
		.state = field_text(finding_state_word(f->state)),
		.severity = field_text(finding_severity_word(f->severity)),
		.confidence = field_real(f->confidence),
		.tier = field_text(finding_tier_word(f->tier)),
		.job = field_text_if(f->job),
		.rank = field_int_if(f->rank >= 0, f->rank),
		.host = field_text_if(f->host),
		.card = field_text_if(f->card),
		.communicator = field_text_if(f->communicator),
		.since_step = field_int_if(f->since_step, f->since_step),
		.until_step = field_int_if(f->until_step && f->until_ns, f->until_step),
		.since_ns = online_publish_time(store, f->since_ns),
		.noticed_ns = online_publish_time(store, f->noticed_ns),
		.until_ns = online_publish_time(store, f->until_ns),
		.slowdown = field_real_if(f->slowdown > 0, f->slowdown),
		.cost_card_hours = field_real(f->cost_card_hours),
		.activity = field_text_if(activity_word(f->activity)),
		.side = field_text_if(finding_side_word(f->side)),
		.others = field_text_if(f->others),
		.evidence = field_text(evidence),
		.sentence = field_text(f->sentence),
		.uid = field_int_if(f->uid_known, f->uid),
		.finding = field_int(online->id_base + f->id),
	};

	store_put_findings(store, &row);
}

#define FIELD_BYTES 192

struct fields {
	char text[LOG_FIELDS_MAX][FIELD_BYTES];
	const char *field[LOG_FIELDS_MAX];
	size_t count;
};

static void online_publish_add(struct fields *fields, const char *format, ...) _printf_(2, 3);

static void online_publish_add(struct fields *fields, const char *format, ...)
{
	char *text = fields->text[fields->count];
	va_list args;

	if (fields->count == LOG_FIELDS_MAX)
		return;
	va_start(args, format);
	vsnprintf(text, FIELD_BYTES, format, args);
	va_end(args);
	fields->field[fields->count++] = text;
}

/* Fields of the affected rank; unknown ones are omitted. */
static void online_publish_add_subject(struct fields *fields, const struct finding *f)
{
	if (f->job[0])
		online_publish_add(fields, "RANKTRACE_JOB=%s", f->job);
	if (f->uid_known)
		online_publish_add(fields, "RANKTRACE_UID=%" PRIu32, f->uid);
	if (f->rank >= 0)
		online_publish_add(fields, "RANKTRACE_RANK=%" PRId32, f->rank);
	if (f->host[0])
		online_publish_add(fields, "RANKTRACE_HOST=%s", f->host);
	if (f->card[0])
		online_publish_add(fields, "RANKTRACE_CARD=%s", f->card);
	if (f->communicator[0])
		online_publish_add(fields, "RANKTRACE_COMMUNICATOR=%s", f->communicator);
	if (f->others[0])
		online_publish_add(fields, "RANKTRACE_OTHERS=%s", f->others);
}

/* Does the node run another job now? */
static bool online_publish_has_other_job(const struct online *online, const char *job)
{
	for (size_t i = 0; i < online->slots_used; i++)
		if (online->slot[i].instance && online->slot[i].job[0] && !streq(online->slot[i].job, job))
			return true;
	return false;
}

static void online_publish_journal(const struct online *online, const struct finding *f)
{
	char message[sizeof(f->sentence) + sizeof(f->job) + 64];
	bool many = f->job[0] && online_publish_has_other_job(online, f->job);
	struct fields fields = {.count = 0};

	/* A crash is over when it is seen. */
	snprintf(message, sizeof(message), "%s%s%s%s%s", f->kind == FINDING_CRASH ? "" : state_prefix[f->state],
		f->sentence, many ? " (job " : "", many ? f->job : "", many ? ")" : "");
	online_publish_add(&fields, "%s", message_id[f->state]);
	online_publish_add(&fields, "RANKTRACE_FINDING=%" PRIu64, online->id_base + f->id);
	online_publish_add(&fields, "RANKTRACE_KIND=%s", finding_kind_word(f->kind));
	online_publish_add(&fields, "RANKTRACE_CAUSE=%s", finding_cause_word(f->cause));
	online_publish_add(&fields, "RANKTRACE_STATE=%s", finding_state_word(f->state));
	online_publish_add(&fields, "RANKTRACE_SEVERITY=%s", finding_severity_word(f->severity));
	online_publish_add(&fields, "RANKTRACE_TIER=%s", finding_tier_word(f->tier));
	online_publish_add(&fields, "RANKTRACE_CONFIDENCE=%.2f", f->confidence);
	online_publish_add_subject(&fields, f);
	if (f->slowdown > 0 && isfinite(f->slowdown))
		online_publish_add(&fields, "RANKTRACE_SLOWDOWN=%.3f", f->slowdown);
	if (isfinite(f->cost_card_hours))
		online_publish_add(&fields, "RANKTRACE_COST_CARD_HOURS=%.3f", f->cost_card_hours);
	if (f->since_ns)
		online_publish_add(&fields, "RANKTRACE_SINCE_USEC=%llu",
			(unsigned long long)(store_utc_ns(online->context->store, f->since_ns) / NSEC_PER_USEC));
	online_publish_add(&fields, "RANKTRACE_ADVICE=%s", finding_advice(f->cause, f->activity, f->side));
	log_fields(online_publish_priority_of(f), "findings", message, fields.field, fields.count);
}

static bool online_publish_is_over(enum finding_state state)
{
	return state == FINDING_CLOSED || state == FINDING_DROPPED;
}

static void online_publish_count(struct online *online, enum finding_state state, uint64_t by)
{
	if (state == FINDING_SUSPECTED)
		online->counts.suspected += by;
	else if (state == FINDING_OPEN)
		online->counts.open += by;
}

bool online_publish_suspects(const struct online *online)
{
	for (size_t i = 0; i < online->published_count; i++)
		if (online->published[i].state == FINDING_SUSPECTED && !online->published[i].doubtful)
			return true;
	return false;
}

/* Records the published state; true if it changed. */
static bool online_publish_note(struct online *online, const struct finding *f, bool doubtful)
{
	const struct online_published latest = {f->id, f->state, f->cause, f->severity, f->rank, doubtful};
	size_t i = 0;
	bool changed;

	while (i < online->published_count && online->published[i].id != f->id)
		i++;
	if (i < online->published_count) {
		changed = online->published[i].state != latest.state || online->published[i].cause != latest.cause ||
			  online->published[i].severity != latest.severity || online->published[i].rank != latest.rank;
		online_publish_count(online, online->published[i].state, -1ULL);
		if (online_publish_is_over(latest.state))
			online->published[i] = online->published[--online->published_count];
		else
			online->published[i] = latest;
	} else {
		changed = true;
		if (online_publish_is_over(latest.state) || i == ONLINE_PUBLISHED_MAX)
			return true;
		online->published[online->published_count++] = latest;
	}
	online_publish_count(online, latest.state, 1);
	return changed;
}

/* That of the rank that it names; NULL: none, or not here. */
static const struct online_process *online_publish_process(const struct online *online, const struct finding *f)
{
	for (size_t i = 0; i < online->slots_used; i++) {
		const struct online_process *process = &online->slot[i];

		if (process->instance && !process->ended_ns && process->rank == f->rank && streq(process->job, f->job))
			return process;
	}
	return NULL;
}

static uint64_t online_publish_swapped(const struct online *online, const struct finding *f)
{
	const struct online_process *process = online_publish_process(online, f);

	return process && process->newest.state ? process->newest.swapped_bytes : HOST_UNKNOWN;
}

/* Page faults are those of swapped memory if there is as much of it as they read in a step. */
static void online_publish_swap(const struct online *online, struct finding *f)
{
	uint64_t swapped_bytes = f->cause == CAUSE_FAULTS ? online_publish_swapped(online, f) : HOST_UNKNOWN;
	char size[UNITS_BYTES];

	for (size_t i = 0; swapped_bytes != HOST_UNKNOWN && i < f->evidences; i++) {
		struct finding_evidence *evidence = &f->evidence[i];

		if (!streq(evidence->name, "major_faults") || evidence->value <= 0 ||
			(double)swapped_bytes < evidence->value * (double)sysconf(_SC_PAGESIZE))
			continue;
		f->cause = CAUSE_SWAP;
		snprintf(evidence->detail, sizeof(evidence->detail), "%s of its memory swapped out",
			units_size(swapped_bytes, size));
		finding_write_sentence(f);
	}
}

/* A slow rank that may run only far from its card. */
static void online_publish_far(const struct online *online, struct finding *f)
{
	const struct ranks *ranks = online->context->ranks;
	const struct online_process *process =
		f->kind == FINDING_SLOW_RANK && ranks ? online_publish_process(online, f) : NULL;
	const struct rank *rank = process ? ranks_by_pid(ranks, process->pid) : NULL;

	if (rank && rank_cpus_are_far(&rank->cpus))
		finding_add(f, "near_cpus", "1", 0, NAN, "none of the CPUs that it may use is near its card");
}

void online_publish(void *arg, const struct finding *finding)
{
	struct online *online = arg;
	struct finding f = *finding;
	uint64_t now_ns = monotonic_ns();
	bool doubtful = f.uid_known && online_doubts(online, f.uid), changed;

	if (f.kind >= FINDING_KIND_MAX || f.cause >= CAUSE_MAX || f.state >= FINDING_STATE_MAX ||
		f.severity >= SEVERITY_MAX || f.tier >= FRAME_TIER_MAX)
		return;
	online_publish_swap(online, &f);
	online_publish_far(online, &f);
	(void)card_gauges_explain(
		gauges_cards(online->context->gauges), now_ns, store_utc_ns(online->context->store, now_ns), &f);
	(void)network_gauges_explain(gauges_network(online->context->gauges), now_ns, &f);
	online_system_explain(online, &f);
	if (online->ending && !online_publish_is_over(f.state)) {
		f.state = f.state == FINDING_OPEN ? FINDING_CLOSED : FINDING_DROPPED;
		f.until_ns = monotonic_ns();
		text_append(f.sentence, sizeof(f.sentence), "; still so when ranktraced stopped");
	}
	changed = online_publish_note(online, &f, doubtful);
	online_stacks_take(online, &f, changed);
	online_stacks_add(online, &f);
	online_end_add(online, &f);
	online_profile_note(online, &f);
	online_profile_add(online, &f);
	online->counts.closed += changed && f.state == FINDING_CLOSED;
	online->counts.dropped += changed && f.state == FINDING_DROPPED;
	if (changed && f.state == FINDING_OPEN && !doubtful)
		online_auto_level_confirmed(&online->auto_level);
	online_recover_mark(online, online->published_count > 0);
	online_publish_put_row(online, &f);
	if (changed)
		online_publish_journal(online, &f);
	if (online->observer && online->observer->finding)
		online->observer->finding(online->observer_arg, online->id_base + f.id, &f, changed);
}
