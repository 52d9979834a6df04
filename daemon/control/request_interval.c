/* SPDX-License-Identifier: Apache-2.0 */
/* Request `interval`: how often levels are dumped. */
#include "daemon/base/log.h"
#include "daemon/control/request.h"
#include "daemon/core/context.h"

int request_interval_valid(const Ranktrace__Request *request, char error[REQUEST_ERROR_BYTES])
{
	enum level level;

	if (request->n_interval == 0 || request->n_interval > REQUEST_ITEMS_MAX) {
		snprintf(error, REQUEST_ERROR_BYTES, "interval takes 1 to %u levels", REQUEST_ITEMS_MAX);
		return -EINVAL;
	}
	for (size_t i = 0; i < request->n_interval; i++) {
		double minutes = request->interval[i]->minutes;

		if (level_parse(request->interval[i]->level, &level) < 0 || !level_has_interval(level)) {
			snprintf(error, REQUEST_ERROR_BYTES, "'%.32s' has no interval; L1, L2 and L3 have one",
				request->interval[i]->level);
			return -EINVAL;
		}
		if (!level_interval_good(minutes)) {
			snprintf(error, REQUEST_ERROR_BYTES, "an interval is above 0 and at most %d minutes, not %g",
				LEVEL_INTERVAL_MINUTES_MAX, minutes);
			return -EINVAL;
		}
	}
	return 0;
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
	return request_levels_body(context, response);
}
