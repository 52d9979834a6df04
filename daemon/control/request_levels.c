/* SPDX-License-Identifier: Apache-2.0 */
/* Requests on levels and intervals: set, interval, print. What comes here has passed request_check(). */
#include "daemon/core/context.h"
#include "daemon/base/log.h"
#include "daemon/control/request.h"
#include "daemon/kernel/uprobe.h"

#define REPORT_BYTES 4096

int request_levels_fill(const struct context *context, size_t *ret_count, Ranktrace__Level ***ret)
{
	Ranktrace__Level **list = calloc(LEVEL_MAX, sizeof(*list));
	uint64_t now_ns = monotonic_ns();

	if (!list)
		return -ENOMEM;
	/* From here on the list belongs to the message, which frees what there is of it. */
	*ret = list;
	for (enum level l = 0; l < LEVEL_MAX; l++) {
		Ranktrace__Level *item = request_message_new(&ranktrace__level__descriptor);
		uint64_t until_ns = context->levels.until_ns[l];

		if (!item)
			return -ENOMEM;
		list[l] = item;
		*ret_count = l + 1;
		item->level = strdup(level_name(l));
		item->on = context->levels.on[l];
		if (item->on && until_ns)
			item->remaining_ns = until_ns > now_ns ? until_ns - now_ns : 1;
		item->raised = item->on && context->levels.raised[l];
		item->interval_minutes = context->levels.interval_minutes[l];
	}
	return 0;
}

static int levels_body(struct context *context, Ranktrace__Response *response)
{
	Ranktrace__LevelsBody *body = request_message_new(&ranktrace__levels_body__descriptor);

	if (!body)
		return -ENOMEM;
	response->body_case = RANKTRACE__RESPONSE__BODY_LEVELS;
	response->levels = body;
	return request_levels_fill(context, &body->n_levels, &body->levels);
}

int request_print(struct context *context, const Ranktrace__Request *request, Ranktrace__Response *response)
{
	(void)request;
	return levels_body(context, response);
}

/* Every level asked for is tried, so that one that fails does not hide what happened to the others. */
int request_set(struct context *context, const Ranktrace__Request *request, Ranktrace__Response *response)
{
	Ranktrace__SetBody *body = request_message_new(&ranktrace__set_body__descriptor);
	_cleanup_free_ char *all = calloc(1, REPORT_BYTES);
	int result = 0;

	if (!body || !all) {
		free(body);
		return -ENOMEM;
	}
	response->body_case = RANKTRACE__RESPONSE__BODY_SET;
	response->set = body;
	body->reports = calloc(request->n_set, sizeof(*body->reports));
	if (!body->reports)
		return -ENOMEM;
	for (size_t i = 0; i < request->n_set; i++) {
		Ranktrace__SetReport *item = request_message_new(&ranktrace__set_report__descriptor);
		char report[REPORT_BYTES / 4] = "";
		size_t used = strlen(all);
		enum level level;
		int r;

		if (!item)
			return -ENOMEM;
		body->reports[body->n_reports++] = item;
		r = level_parse(request->set[i]->level, &level);
		if (r < 0)
			return r;
		r = levels_set(context, level, request->set[i]->on, request->for_ns, report, sizeof(report));
		item->level = strdup(level_name(level));
		item->on = context->levels.on[level];
		item->error = r < 0 ? -r : 0;
		item->report = strdup(report);
		snprintf(all + used, REPORT_BYTES - used, "%s%s", used ? "\n" : "", report);
		if (r < 0 && result == 0)
			result = r;
	}
	uprobe_detach_wait(); /* who asked is answered when nothing of it is attached any more */
	response_say(response, "%s", all);
	return result;
}

int request_interval(struct context *context, const Ranktrace__Request *request, Ranktrace__Response *response)
{
	struct levels before = context->levels;
	int r;

	for (size_t i = 0; i < request->n_interval; i++) {
		enum level level;

		r = level_parse(request->interval[i]->level, &level);
		if (r < 0)
			return r;
		context->levels.interval_minutes[level] = request->interval[i]->minutes;
		log_notice("control", "interval of %s set to %g minutes", level_name(level),
			request->interval[i]->minutes);
	}
	r = levels_save(&context->levels, context->config.state_dir);
	if (r < 0) {
		context->levels = before;
		response_say(response, "the interval cannot be kept in %s, so nothing was changed: %s",
			context->config.state_dir, strerror(-r));
		return r;
	}
	return levels_body(context, response);
}
