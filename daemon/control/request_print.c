/* SPDX-License-Identifier: Apache-2.0 */
/* Request `print`: levels as they are now, for others, too. */
#include "daemon/control/request.h"
#include "daemon/core/context.h"
#include "daemon/guard/guard.h"

int request_levels_fill(const struct context *context, ProtobufCMessage *body, size_t offset)
{
	uint64_t now_ns = monotonic_ns();

	for (enum level l = 0; l < LEVEL_MAX; l++) {
		Ranktrace__Level *item = request_add(body, offset);
		uint64_t until_ns = context->levels.until_ns[l];

		if (!item)
			return -ENOMEM;
		item->level = strdup(level_name(l));
		item->on = context->levels.on[l] || context->levels.sampled[l];
		item->sampled = context->levels.sampled[l] && levels_may_sample(&context->levels, l, now_ns);
		item->coverage = item->sampled && context->guard ? guard_coverage(context->guard, l) : 1;
		if (item->on && until_ns)
			item->remaining_ns = until_ns > now_ns ? until_ns - now_ns : 1;
		item->raised = item->on && context->levels.is_auto[l];
		item->interval_minutes = context->levels.interval_minutes[l];
	}
	return 0;
}

int request_levels_body(struct context *context, Ranktrace__Response *response)
{
	Ranktrace__LevelsBody *body = request_body_new(response, RANKTRACE__RESPONSE__BODY_LEVELS);

	return body ? request_levels_fill(context, &body->base, offsetof(Ranktrace__LevelsBody, levels)) : -ENOMEM;
}

int request_print(struct context *context, const Ranktrace__Request *request, Ranktrace__Response *response)
{
	return request_levels_body(context, response);
}
