/* SPDX-License-Identifier: Apache-2.0 */
/* Request `print`: levels as they are now, for others, too. */
#include "daemon/control/request.h"
#include "daemon/core/context.h"

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

int request_levels_body(struct context *context, Ranktrace__Response *response)
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
	return request_levels_body(context, response);
}
