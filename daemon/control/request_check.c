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
	Ranktrace__CheckBody *body = request_body_new(response, RANKTRACE__RESPONSE__BODY_CHECK);

	if (!body || !list)
		return -ENOMEM;
	check_run(context, list);
	for (unsigned i = 0; i < list->count; i++) {
		Ranktrace__CheckItem *item = REQUEST_ADD(body, items);

		if (!item)
			return -ENOMEM;
		item->topic = strdup(list->item[i].topic);
		item->verdict = wire_verdicts[list->item[i].verdict];
		item->sentence = strdup(list->item[i].sentence);
		item->advice = strdup(list->item[i].advice);
		item->about_ranks = list->item[i].about_ranks;
	}
	return 0;
}
