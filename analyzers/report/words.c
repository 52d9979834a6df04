/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/report/model.h"
#include "analyzers/report/words.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "analyzers/base/text.h"

#define HOUR_NS 3600000000000ULL
#define TIMELINE_PAD_NS 5000000000ULL /* shown before and after an episode */

static const char *words_formatted(uint64_t ns, const char *format, char *buffer)
{
	time_t seconds = (time_t)(ns / 1000000000);
	struct tm tm;

	if (!localtime_r(&seconds, &tm) || strftime(buffer, WORDS_BYTES, format, &tm) == 0)
		snprintf(buffer, WORDS_BYTES, "?");
	return buffer;
}

const char *words_when(uint64_t ns, char *buffer)
{
	return words_formatted(ns, "%a %d %b %H:%M", buffer);
}

const char *words_clock(uint64_t ns, uint64_t step_ns, char *buffer)
{
	return words_formatted(ns,
		step_ns < 60000000000ULL      ? "%H:%M:%S"
		: step_ns > 86400000000000ULL ? "%d %b"
					      : "%H:%M",
		buffer);
}

const char *words_day(uint64_t ns, char *buffer)
{
	return words_formatted(ns, "%d %b", buffer);
}

const char *words_stamp(uint64_t ns, char *buffer)
{
	return words_formatted(ns, "%Y-%m-%d %H:%M:%S", buffer);
}

const char *words_zone(uint64_t ns, char *buffer)
{
	return words_formatted(ns, "%Z", buffer);
}

const char *words_length(uint64_t ns, char *buffer)
{
	if (!ns)
		snprintf(buffer, WORDS_BYTES, "-");
	return ns ? text_format_duration(ns, buffer, WORDS_BYTES) : buffer;
}

const char *words_count(uint64_t count, char *buffer)
{
	char digits[24];
	size_t n = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, count), used = 0;

	for (size_t i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			buffer[used++] = ',';
		buffer[used++] = digits[i];
	}
	buffer[used] = 0;
	return buffer;
}

const char *words_hours(double card_hours, char *buffer)
{
	if (!(card_hours >= 0))
		snprintf(buffer, WORDS_BYTES, "0");
	else if (card_hours >= 999.5)
		words_count((uint64_t)(card_hours + 0.5), buffer);
	else if (card_hours >= 99.95)
		snprintf(buffer, WORDS_BYTES, "%.0f", card_hours);
	else if (card_hours >= 9.995)
		snprintf(buffer, WORDS_BYTES, "%.1f", card_hours);
	else if (card_hours >= 0.0995)
		snprintf(buffer, WORDS_BYTES, "%.2f", card_hours);
	else
		snprintf(buffer, WORDS_BYTES, "%.2g", card_hours);
	return buffer;
}

const char *words_percent(double share, char *buffer)
{
	double percent = share * 100;

	if (!isfinite(percent) || percent < 0)
		percent = 0;
	snprintf(buffer, WORDS_BYTES,
		percent >= 9.95	   ? "%.0f %%"
		: percent >= 0.995 ? "%.1f %%"
				   : "%.2g %%",
		percent < 1e6 ? percent : 1e6);
	return buffer;
}

const char *words_value(double value, const char *unit, char *buffer)
{
	struct text text;

	if (strncmp(unit, "ns", 2) != 0 && strcmp(unit, "bytes") != 0 && value >= 1000 && value < 1e18)
		return words_count((uint64_t)(value + 0.5), buffer);
	text_begin(&text, buffer, WORDS_BYTES);
	if (isfinite(value))
		text_value(&text, value, strncmp(unit, "ns", 2) == 0 ? "ns" : unit);
	else
		text_add(&text, "-");
	return buffer;
}

const char *words_many(uint64_t count, const char *one, const char *many, char *buffer)
{
	size_t used = strlen(words_count(count, buffer));

	snprintf(buffer + used, WORDS_BYTES - used, " %s", count == 1 ? one : many);
	return buffer;
}

const char *words_job(const struct report_job *job)
{
	return job->title;
}

const char *words_card_kind(const struct report_card *card)
{
	return card->name[0] >= '0' && card->name[0] <= '9' ? "card " : "";
}

const char *words_card(const struct report *report, uint32_t card, char *buffer)
{
	const struct report_card *at = &report->card[card];

	snprintf(buffer, WORDS_BYTES, "%s%s of %s", words_card_kind(at), at->name, report->node[at->node].name);
	return buffer;
}

/* card: or REPORT_NONE; rank: -1 if it is not known. */
static const char *words_rank(
	const struct report *report, uint32_t card, int32_t rank, const struct report_job *job, char *buffer)
{
	size_t used = card != REPORT_NONE ? strlen(words_card(report, card, buffer)) : 0;
	char number[32] = "a process";

	if (rank >= 0)
		snprintf(number, sizeof(number), "rank %" PRId32, rank);
	snprintf(buffer + used, WORDS_BYTES - used, used ? " (%s of %s)" : "%s of %s", number, words_job(job));
	return buffer;
}

const char *words_memory_subject(const struct report *report, const struct report_memory *memory, char *buffer)
{
	return words_rank(report, memory->card, memory->rank, &report->job[memory->job], buffer);
}

const char *words_subject(const struct report *report, const struct report_finding *finding, char *buffer)
{
	const struct report_job *job = &report->job[finding->job];

	if (finding->card != REPORT_NONE || finding->is.rank >= 0)
		words_rank(report, finding->card, finding->is.rank, job, buffer);
	else if (finding->node != REPORT_NONE && !job->name[0])
		snprintf(buffer, WORDS_BYTES, "%s", report->node[finding->node].name);
	else if (finding->node != REPORT_NONE)
		snprintf(buffer, WORDS_BYTES, "%s (of %s)", report->node[finding->node].name, words_job(job));
	else if (job->name[0])
		snprintf(buffer, WORDS_BYTES, "job %s", job->title);
	else
		snprintf(buffer, WORDS_BYTES, "%s", words_job(job));
	return buffer;
}

const char *words_since(const struct report *report, const struct report_finding *finding, char *buffer)
{
	char when[WORDS_BYTES], length[WORDS_BYTES];
	uint64_t end_ns = finding->is.until_ns ? finding->is.until_ns : report->now_ns;

	if (end_ns <= finding->is.since_ns)
		return words_when(finding->is.since_ns, buffer); /* a moment, as a crash */
	words_when(finding->is.since_ns, when);
	words_length(end_ns > finding->is.since_ns ? end_ns - finding->is.since_ns : 0, length);
	snprintf(buffer, WORDS_BYTES, finding->is.until_ns ? "%.60s, for %.60s; closed" : "%.60s, for %.60s so far",
		when, length);
	return buffer;
}

const char *words_group_since(const struct report *report, const struct report_group *group, char *buffer)
{
	char since[WORDS_BYTES], until[WORDS_BYTES], lasted[WORDS_BYTES];

	if (group->is.count < 2)
		return words_since(report, &report->finding[group->first], buffer);
	words_when(group->is.since_ns, since);
	words_length(group->is.lasted_ns, lasted);
	if (group->is.until_ns)
		snprintf(buffer, WORDS_BYTES, "%.40s to %.40s, %zu times, %.40s in all; closed", since,
			words_when(group->is.until_ns, until), group->is.count, lasted);
	else
		snprintf(buffer, WORDS_BYTES, "%.40s, %zu times, %.40s in all so far", since, group->is.count, lasted);
	return buffer;
}

const char *words_recurred(const struct report_group *group, char *buffer)
{
	char since[WORDS_BYTES];

	return finding_group_words(&group->is, words_when(group->is.since_ns, since), buffer, WORDS_BYTES);
}

const char *words_why(const struct finding *finding, char *buffer)
{
	enum activity activity = finding_activity(finding->activity, finding->cause);
	bool slow = finding->kind == FINDING_SLOW_RANK || finding->kind == FINDING_SLOW_JOB;

	if (!slow || activity >= ACTIVITY_MAX)
		finding_write_cause(finding, buffer, WORDS_BYTES);
	else if (finding->cause == CAUSE_UNKNOWN || finding->cause == CAUSE_COMPUTE || finding->cause == CAUSE_HOST ||
		 finding->cause == finding_cause_of(activity))
		snprintf(buffer, WORDS_BYTES, "%s", activity_title(activity));
	else
		snprintf(buffer, WORDS_BYTES, "%s: %s", activity_title(activity), finding_cause_title(finding->cause));
	return buffer;
}

const char *words_brief(const struct report *report, const struct report_brief *brief, char *buffer)
{
	char who[WORDS_BYTES], count[WORDS_BYTES], rate[WORDS_BYTES] = "", length[WORDS_BYTES], cost[WORDS_BYTES];
	uint64_t period_ns = report->until_ns - report->since_ns;

	if (brief->rank >= 0)
		snprintf(who, sizeof(who), "rank %" PRId32 " of %.80s", brief->rank,
			words_job(&report->job[brief->job]));
	else
		snprintf(who, sizeof(who), "%.80s as a whole", words_job(&report->job[brief->job]));
	/* A rate from less than six hours is not significant, and one below 1 adds nothing to the count. */
	if (period_ns >= 6 * HOUR_NS && (period_ns < 23 * HOUR_NS || period_ns > 25 * HOUR_NS) &&
		(double)brief->count * 24.0 * HOUR_NS >= (double)period_ns)
		snprintf(
			rate, sizeof(rate), " (%.0f a day)", (double)brief->count * 24.0 * HOUR_NS / (double)period_ns);
	snprintf(buffer, WORDS_BYTES, "%.100s: %.40s%.30s, %.40s in all, %.20s card-hours", who,
		words_many(brief->count, "short slow-down", "short slow-downs", count), rate,
		words_length(brief->lasted_ns, length), words_hours(brief->cost_card_hours, cost));
	return buffer;
}

/* Nothing that a shell would read in another way. */
static bool words_is_plain(const char *path)
{
	return path[0] && !path[strspn(path, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._+:@-")];
}

const char *words_timeline(const struct report *report, const struct report_finding *finding, char *buffer)
{
	const char *path = finding->store < report->stores ? report->store[finding->store].path : "";
	char since[WORDS_BYTES], until[WORDS_BYTES];
	size_t used;

	/* Of all ranks: what the others wait for is seen only beside them. */
	words_stamp(finding->is.since_ns > TIMELINE_PAD_NS ? finding->is.since_ns - TIMELINE_PAD_NS : 0, since);
	used = (size_t)snprintf(buffer, WORDS_BYTES, "tracectl timeline --since '%.20s'", since);
	if (finding->is.until_ns)
		used += (size_t)snprintf(buffer + used, WORDS_BYTES - used, " --until '%.20s'",
			words_stamp(finding->is.until_ns + TIMELINE_PAD_NS, until));
	used += (size_t)snprintf(buffer + used, WORDS_BYTES - used, " -o finding-%" PRIu64 ".pftrace", finding->is.id);
	if (strcmp(path, RANKTRACE_STATEDIR) != 0 && words_is_plain(path) && strlen(path) < 120)
		(void)snprintf(buffer + used, WORDS_BYTES - used, " --dir %s", path);
	return buffer;
}

const char *words_chosen(const struct report *report, char *buffer)
{
	struct text text;

	text_begin(&text, buffer, WORDS_BYTES);
	for (size_t i = 0; i < report->chosen.count; i++) {
		int64_t first = report->chosen.range[i].first, last = report->chosen.range[i].last;

		text_add(&text, i ? ",%" PRId64 : "ranks %" PRId64, first);
		if (last > first)
			text_add(&text, "-%" PRId64, last);
	}
	if (report->chosen.count)
		text_add(&text, " only");
	text_end(&text);
	return buffer;
}

const char *words_totals(const struct report *report, char *buffer)
{
	char hours[WORDS_BYTES];
	struct text text;

	text_begin(&text, buffer, WORDS_BYTES);
	if (report->cardless_card_hours > 0)
		text_add(&text, "; of these %s not of a single card", words_hours(report->cardless_card_hours, hours));
	if (report->brief_card_hours > 0)
		text_add(&text, "%s %s in short slow-downs", report->cardless_card_hours > 0 ? "," : "; of these",
			words_hours(report->brief_card_hours, hours));
	if (report->remark_card_hours > 0)
		text_add(&text, "; not counted: %s of uneven work", words_hours(report->remark_card_hours, hours));
	if (report->chosen.count)
		text_add(&text, "; findings of other ranks are not counted");
	text_end(&text);
	return buffer;
}

const char *words_gap(const struct report *report, const struct report_gap *gap, char *buffer)
{
	char who[64], since[WORDS_BYTES], until[WORDS_BYTES], length[WORDS_BYTES];

	if (gap->rank >= 0 && gap->of > 1)
		snprintf(who, sizeof(who), "rank %" PRId32, gap->rank);
	else if (gap->ranks >= gap->of)
		snprintf(who, sizeof(who), gap->of == 1 ? "its only rank" : "all of its %" PRIu32 " ranks", gap->of);
	else
		snprintf(who, sizeof(who), "%" PRIu32 " of %" PRIu32 " ranks", gap->ranks, gap->of);
	snprintf(buffer, WORDS_BYTES, "%.80s, %s: %.40s to %.40s (%.40s)", report->node[gap->node].name, who,
		words_when(gap->since_ns, since),
		gap->until_ns >= report->until_ns ? "the end" : words_when(gap->until_ns, until),
		words_length(gap->until_ns - gap->since_ns, length));
	return buffer;
}

const char *words_elsewhere(const struct report_job *job, char *buffer)
{
	char count[WORDS_BYTES];

	buffer[0] = 0;
	if (job->world > job->ranks && job->ranks)
		snprintf(buffer, WORDS_BYTES,
			"%.40s of %.80s not seen: the stores of their nodes are not in this report",
			words_many(job->world - job->ranks, "rank", "ranks", count), words_job(job));
	return buffer;
}

const char *words_reported_by(const struct report_finding *finding, char *buffer)
{
	char count[WORDS_BYTES];

	buffer[0] = 0;
	if (!finding->reported_by)
		snprintf(buffer, WORDS_BYTES, "found by comparing nodes; not reported by any single node");
	else if (finding->reported_by > 1 || finding->across)
		snprintf(buffer, WORDS_BYTES, "reported by %.40s%s",
			words_many(finding->reported_by, "node", "nodes", count),
			finding->across ? ", and found by comparing nodes" : "");
	return buffer;
}

const char *words_explained(const struct report *report, char *buffer)
{
	char count[WORDS_BYTES];

	buffer[0] = 0;
	if (report->explained)
		snprintf(buffer, WORDS_BYTES, "%.40s reported by single nodes %s explained by findings across nodes",
			words_many(report->explained, "slow job", "slow jobs", count),
			report->explained == 1 ? "is" : "are");
	return buffer;
}

const char *words_lost(const struct report *report, const struct report_lost *lost, char *buffer)
{
	char count[WORDS_BYTES], since[WORDS_BYTES];

	snprintf(buffer, WORDS_BYTES, "%.80s: %.40s lost by %.60s (%.60s), first at %.40s",
		report->store[lost->store].name, words_many(lost->count, "record", "records", count), lost->source,
		lost->reason, words_when(lost->first_ns, since));
	return buffer;
}
