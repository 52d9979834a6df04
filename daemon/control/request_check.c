/* SPDX-License-Identifier: Apache-2.0 */
/* Request `check`: what this machine allows (daemon/check). */
#include "daemon/check/check.h"
#include "daemon/control/request.h"

static const Ranktrace__Verdict wire_verdicts[CHECK_VERDICT_MAX] = {
	[CHECK_OK] = RANKTRACE__VERDICT__VERDICT_OK,
	[CHECK_LIMITED] = RANKTRACE__VERDICT__VERDICT_LIMITED,
	[CHECK_MISSING] = RANKTRACE__VERDICT__VERDICT_MISSING,
};

int request_check(struct context *context, const Ranktrace__Request *request, Ranktrace__Response *response)
{
	_cleanup_free_ struct check_list *list = calloc(1, sizeof(*list));
	Ranktrace__CheckBody *body = request_message_new(&ranktrace__check_body__descriptor);

	(void)request;
	if (!body || !list) {
		free(body);
		return -ENOMEM;
	}
	response->body_case = RANKTRACE__RESPONSE__BODY_CHECK;
	response->check = body;
	check_run(context, list);
	body->items = calloc(list->count, sizeof(*body->items));
	for (unsigned i = 0; body->items && i < list->count; i++) {
		Ranktrace__CheckItem *item = request_message_new(&ranktrace__check_item__descriptor);

		if (!item)
			return -ENOMEM;
		body->items[body->n_items++] = item;
		item->topic = strdup(list->item[i].topic);
		item->verdict = wire_verdicts[list->item[i].verdict];
		item->sentence = strdup(list->item[i].sentence);
		item->advice = strdup(list->item[i].advice);
		item->about_ranks = list->item[i].about_ranks;
	}
	return body->items ? 0 : -ENOMEM;
}
