/* SPDX-License-Identifier: Apache-2.0 */
/* Request `set`: turns levels on and off. */
#include "daemon/control/control.h"
#include "daemon/control/request.h"
#include "daemon/core/context.h"
#include "daemon/kernel/uprobe.h"

#define REPORT_BYTES 4096

int request_set_valid(const Ranktrace__Request *request, char error[REQUEST_ERROR_BYTES])
{
	enum level level;

	if (request->n_set == 0 || request->n_set > REQUEST_ITEMS_MAX) {
		snprintf(error, REQUEST_ERROR_BYTES, "set takes 1 to %u levels", REQUEST_ITEMS_MAX);
		return -EINVAL;
	}
	for (size_t i = 0; i < request->n_set; i++) {
		if (level_parse(request->set[i]->level, &level) < 0) {
			snprintf(error, REQUEST_ERROR_BYTES, "unknown level '%.32s'; levels and switches are %s",
				request->set[i]->level, level_words());
			return -EINVAL;
		}
		if (request->for_ns && !request->set[i]->on) {
			snprintf(error, REQUEST_ERROR_BYTES,
				"a time goes with levels that are turned on, and %s is turned off", level_name(level));
			return -EINVAL;
		}
	}
	return 0;
}

static bool request_set_is_done(void)
{
	return !uprobe_is_detaching();
}

/* Every level asked for is tried, so that one that fails does not hide what happened to the others. */
int request_set(struct context *context, const Ranktrace__Request *request, Ranktrace__Response *response)
{
	Ranktrace__SetBody *body = request_body_new(response, RANKTRACE__RESPONSE__BODY_SET);
	_cleanup_free_ char *all = calloc(1, REPORT_BYTES);
	int result = 0;

	if (!body || !all)
		return -ENOMEM;
	for (size_t i = 0; i < request->n_set; i++) {
		Ranktrace__SetReport *item = REQUEST_ADD(body, reports);
		char report[REPORT_BYTES / 4] = "";
		size_t used = strlen(all);
		enum level level;
		int r;

		if (!item)
			return -ENOMEM;
		r = level_parse(request->set[i]->level, &level);
		if (r < 0)
			return r;
		r = levels_set(context, level, request->set[i]->on, request->for_ns, report, sizeof(report));
		item->level = strdup(level_name(level));
		item->on = context->levels.on[level] || context->levels.sampled[level];
		item->error = r < 0 ? -r : 0;
		item->report = strdup(report);
		snprintf(all + used, REPORT_BYTES - used, "%s%s", used ? "; " : "", report);
		if (r < 0 && result == 0)
			result = r;
	}
	/* Who asked is answered when nothing of it is attached any more. */
	if (!control_hold(context->control, request_set_is_done))
		uprobe_detach_wait();
	response_say(response, "%s", all);
	return result;
}
