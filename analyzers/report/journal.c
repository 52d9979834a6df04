/* SPDX-License-Identifier: Apache-2.0 */
/* The report as a journal entry. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <syslog.h>
#include <systemd/sd-journal.h>
#include <time.h>
#include <unistd.h>

#include "analyzers/report/publish.h"
#include "analyzers/report/render.h"

#define JOURNAL_SOCKET "/run/systemd/journal/socket"
#define DELIVERY_NS 300000000L
#define FIELDS_MAX 32
#define FIELD_BYTES 448
#define MESSAGE_BYTES_MAX 49152
#define MESSAGE_ID "MESSAGE_ID=3f0a4e8c5bd54a5e9a41c1f5d2b6e790"

struct fields {
	struct iovec vector[FIELDS_MAX];
	char text[FIELDS_MAX][FIELD_BYTES];
	size_t count;
};

static void report_journal_add(struct fields *fields, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void report_journal_add(struct fields *fields, const char *format, ...)
{
	char *text;
	va_list args;

	if (fields->count == FIELDS_MAX - 1) /* the last is the message's */
		return;
	text = fields->text[fields->count];
	va_start(args, format);
	vsnprintf(text, FIELD_BYTES, format, args);
	va_end(args);
	fields->vector[fields->count++] = (struct iovec){text, strlen(text)};
}

static int report_journal_priority_of(const struct report *report)
{
	enum finding_severity worst = SEVERITY_INFO;

	if (report->headline.verdict == REPORT_HEALTHY)
		return LOG_INFO;
	if (report->headline.verdict == REPORT_UNSEEN)
		return LOG_NOTICE;
	for (size_t i = 0; i < report->findings; i++)
		if (!report->finding[i].remark && report->finding[i].is.severity > worst)
			worst = report->finding[i].is.severity;
	return worst == SEVERITY_CRITICAL ? LOG_CRIT : LOG_WARNING;
}

/* Of the headline's finding. */
static void add_worst(struct fields *fields, const struct report *report)
{
	const struct report_finding *finding = &report->finding[report->headline.finding];

	report_journal_add(fields, "RANKTRACE_FINDING=%" PRIu64, finding->is.id);
	report_journal_add(fields, "RANKTRACE_CAUSE=%s", finding_cause_word(finding->is.cause));
	if (finding->is.job[0])
		report_journal_add(fields, "RANKTRACE_JOB=%s", finding->is.job);
	if (finding->is.rank >= 0)
		report_journal_add(fields, "RANKTRACE_RANK=%" PRId32, finding->is.rank);
	if (finding->node != REPORT_NONE)
		report_journal_add(fields, "RANKTRACE_HOST=%s", report->node[finding->node].name);
	if (finding->card != REPORT_NONE)
		report_journal_add(fields, "RANKTRACE_CARD=%s", report->card[finding->card].name);
	report_journal_add(fields, "RANKTRACE_SINCE_USEC=%" PRIu64, finding->is.since_ns / 1000);
	report_journal_add(fields, "RANKTRACE_ADVICE=%s", report->headline.todo);
}

static void add_all(struct fields *fields, const struct report *report)
{
	static const char *const verdicts[REPORT_VERDICT_MAX] = {"not_watched", "healthy", "slow", "hang"};

	report_journal_add(fields, "SYSLOG_IDENTIFIER=ranktrace-report");
	report_journal_add(fields, "PRIORITY=%d", report_journal_priority_of(report));
	report_journal_add(fields, "%s", MESSAGE_ID);
	report_journal_add(fields, "RANKTRACE_KIND=report");
	report_journal_add(fields, "RANKTRACE_VERDICT=%s", verdicts[report->headline.verdict]);
	report_journal_add(fields, "RANKTRACE_SENTENCE=%s", report->headline.line);
	report_journal_add(fields, "RANKTRACE_FINDINGS=%zu", report->findings - report->remarks);
	report_journal_add(fields, "RANKTRACE_CARDS=%" PRIu32, report->cards_here);
	report_journal_add(fields, "RANKTRACE_CARDS_SLOW=%" PRIu32, report->cards_slow);
	report_journal_add(fields, "RANKTRACE_NODES=%" PRIu32, report->nodes_here);
	report_journal_add(fields, "RANKTRACE_COST_CARD_HOURS=%.3f", report->cost_card_hours);
	report_journal_add(fields, "RANKTRACE_NOT_WATCHED_PERCENT=%.2f",
		report->alive_slots ? 100.0 * (double)report->unseen_slots / (double)report->alive_slots : 0.0);
	if (report->headline.finding != REPORT_NONE)
		add_worst(fields, report);
}

/* journald resolves the sender's unit when it reads the message: the process must still exist then. */
static void report_journal_wait(void)
{
	const struct timespec moment = {.tv_nsec = DELIVERY_NS};

	(void)nanosleep(&moment, NULL);
}

int publish_journal(const struct report *report)
{
	struct fields *fields = calloc(1, sizeof(*fields));
	char *message = NULL;
	size_t size = 0;
	FILE *out;
	int r = -ENOMEM;

	/* sd_journal_sendv() reports no error without a journal. */
	if (access(JOURNAL_SOCKET, W_OK) < 0) {
		free(fields);
		return -ENOENT;
	}
	out = open_memstream(&message, &size);
	if (fields && out) {
		fputs("MESSAGE=", out);
		render_text(out, report);
		if (fclose(out) == 0) {
			while (size && message[size - 1] == '\n')
				size--;
			add_all(fields, report);
			fields->vector[fields->count++] =
				(struct iovec){message, size < MESSAGE_BYTES_MAX ? size : MESSAGE_BYTES_MAX};
			r = sd_journal_sendv(fields->vector, (int)fields->count);
			if (r >= 0 && getenv("INVOCATION_ID"))
				report_journal_wait();
		}
	} else if (out) {
		(void)fclose(out);
	}
	free(message);
	free(fields);
	return r;
}
