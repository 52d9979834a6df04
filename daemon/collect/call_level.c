/* SPDX-License-Identifier: Apache-2.0 */
/* See collect_internal.h. */
#include "daemon/collect/collect_internal.h"
#include "daemon/probes/attachment.h"

static void level_library(void *arg, struct library *library)
{
	struct call_level_sum *sum = arg;
	struct attachment *attachment = library->owner_data;
	unsigned probes;
	int error;

	if (!attachment)
		return;
	if (sum->on && monotonic_ns() >= sum->until_ns) {
		sum->left++;
		return;
	}
	probes = attachment_attached_level(attachment, sum->level);
	attachment_level(attachment, sum->level, sum->on);
	if (sum->on) {
		sum->left += !attachment_settle(attachment, sum->until_ns);
		probes = attachment_attached_level(attachment, sum->level);
	}
	for (unsigned i = 0; attachment_refused(attachment, sum->level, i, &error); i++) {
		sum->error = sum->error ? sum->error : error;
		sum->refused++;
	}
	sum->probes += probes;
	sum->libraries += probes > 0;
}

void call_level_switch(struct libraries *libraries, struct call_level_sum *sum)
{
	_cleanup_(unresolved_free) struct unresolved missing = {0};

	sum->until_ns = monotonic_ns() + LIMIT_LEVEL_TURN_MS * NSEC_PER_MSEC;
	libraries_each(libraries, level_library, sum);
	sum->reading = libraries_busy(libraries);
	/* Where nothing is known yet, what is not found is in the files that are being read. */
	if (!sum->on || (sum->reading && !sum->libraries) || unresolved_find(libraries, &missing) < 0)
		return;
	sum->missing = unresolved_names(&missing, sum->level, false, sum->unresolved_names);
	sum->unusable = unresolved_names(&missing, sum->level, true, sum->unusable_names);
}

static const char *call_level_plural(size_t n)
{
	return n == 1 ? "" : "s";
}

int call_level_report(const struct call_level_sum *sum, char *report, size_t report_size)
{
	size_t used;

	if (!sum->on) {
		snprintf(report, report_size, "%u probe%s detached", sum->probes, call_level_plural(sum->probes));
		return 0;
	}
	if (sum->refused && sum->probes == 0) {
		snprintf(
			report, report_size, "cannot attach any of %u probes: %s", sum->refused, strerror(-sum->error));
		return sum->error;
	}
	if (sum->rows == 0) {
		snprintf(report, report_size, "no probe table has a row of this level: nothing is collected");
		return 0;
	}
	snprintf(report, report_size, "%u probe%s in %u librar%s, %zu rank%s", sum->probes,
		call_level_plural(sum->probes), sum->libraries, sum->libraries == 1 ? "y" : "ies", sum->ranks,
		call_level_plural(sum->ranks));
	used = strlen(report);
	if (sum->left && used < report_size)
		snprintf(report + used, report_size - used, "; %u more librar%s within seconds", sum->left,
			sum->left == 1 ? "y" : "ies");
	used = strlen(report);
	if (sum->reading && used < report_size)
		snprintf(report + used, report_size - used, "; %u more file%s of ranks %s being read", sum->reading,
			call_level_plural(sum->reading), sum->reading == 1 ? "is" : "are");
	used = strlen(report);
	if (sum->missing && used < report_size)
		snprintf(report + used, report_size - used, "; %u symbol%s not found: %s", sum->missing,
			call_level_plural(sum->missing), sum->unresolved_names);
	used = strlen(report);
	if (sum->unusable && used < report_size)
		snprintf(report + used, report_size - used, "; %u function%s unusable (see tracectl status): %s",
			sum->unusable, call_level_plural(sum->unusable), sum->unusable_names);
	used = strlen(report);
	if (sum->refused && used < report_size)
		snprintf(report + used, report_size - used, "; %u not attached (%s): see tracectl status", sum->refused,
			strerror(-sum->error));
	return 0;
}

void call_level_notes(struct libraries *libraries, struct collector_status *status)
{
	_cleanup_(unresolved_free) struct unresolved missing = {0};

	if (unresolved_find(libraries, &missing) < 0)
		collector_note(status, "out of memory: functions without probe are not listed");
	for (size_t i = 0; i < missing.count; i++) {
		const struct unresolved_thing *thing = &missing.thing[i];
		const char *level = level_name(thing->probe->level), *path = thing->library->path;
		char others[32] = "";

		if (thing->others)
			snprintf(others, sizeof(others), " nor in %u other%s", thing->others,
				thing->others == 1 ? "" : "s");
		if (thing->reason)
			collector_note(status, "%s: '%s' is unusable in %s: %s", level, thing->probe->name, path,
				thing->reason);
		else
			collector_note(status, "%s: '%s': no symbol %s in %s%s", level, thing->probe->name,
				thing->probe->symbol[0], path, others);
	}
}
