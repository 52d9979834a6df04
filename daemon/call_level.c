/* SPDX-License-Identifier: Apache-2.0 */
/* See call_level.h. */
#include "daemon/call_level.h"
#include "daemon/probes/attachment.h"

/* What was attached before, or is now, whichever the switch is about. */
static void sum_library(struct call_level_sum *sum, const struct attachment *attachment, unsigned before)
{
	unsigned probes = sum->on ? attachment_attached_level(attachment, sum->level) : before;
	const char *name;
	int error;

	for (unsigned i = 0; attachment_refused(attachment, sum->level, i, &error); i++)
		sum->refused++;
	sum->probes += probes;
	sum->libraries += probes > 0;
	for (unsigned i = 0; (name = attachment_missing(attachment, sum->level, i)); i++) {
		size_t used = strlen(sum->names);

		sum->missing++;
		snprintf(sum->names + used, sizeof(sum->names) - used, "%s%s", used ? ", " : "", name);
	}
}

static void level_library(void *arg, struct library *library)
{
	struct call_level_sum *sum = arg;
	struct attachment *attachment = library->owner_data;
	unsigned before;
	int r;

	if (!attachment)
		return;
	before = attachment_attached_level(attachment, sum->level);
	r = attachment_level(attachment, sum->level, sum->on);
	sum->error = sum->error ? sum->error : r;
	sum_library(sum, attachment, before);
}

void call_level_switch(struct libraries *libraries, struct call_level_sum *sum)
{
	libraries_each(libraries, level_library, sum);
}

static const char *plural(size_t n)
{
	return n == 1 ? "" : "s";
}

int call_level_report(const struct call_level_sum *sum, char *report, size_t report_size)
{
	size_t used;

	if (!sum->on) {
		snprintf(report, report_size, "%u probe%s detached", sum->probes, plural(sum->probes));
		return 0;
	}
	if (sum->refused && sum->probes == 0) {
		snprintf(report, report_size, "none of %u probes could be attached: %s", sum->refused,
			strerror(-sum->error));
		return sum->error;
	}
	if (sum->rows == 0) {
		snprintf(report, report_size, "no probe table has a row of this level, so it collects nothing");
		return 0;
	}
	snprintf(report, report_size, "%u probe%s in %u librar%s, %zu rank%s", sum->probes, plural(sum->probes),
		sum->libraries, sum->libraries == 1 ? "y" : "ies", sum->ranks, plural(sum->ranks));
	used = strlen(report);
	if (sum->missing && used < report_size)
		snprintf(report + used, report_size - used, "; %u symbol%s not found: %s", sum->missing,
			plural(sum->missing), sum->names);
	used = strlen(report);
	if (sum->refused && used < report_size)
		snprintf(report + used, report_size - used, "; %u could not be attached (%s): see tracectl status",
			sum->refused, strerror(-sum->error));
	return 0;
}
