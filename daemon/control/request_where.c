/* SPDX-License-Identifier: Apache-2.0 */
/* Request `where`: where the store is, for programs that read it. */
#include "daemon/control/request.h"
#include "daemon/core/context.h"

int request_where(struct context *context, const Ranktrace__Request *request, Ranktrace__Response *response)
{
	Ranktrace__WhereBody *body = request_body_new(response, RANKTRACE__RESPONSE__BODY_WHERE);

	if (!body)
		return -ENOMEM;
	body->state_dir = strdup(context->config.state_dir);
	body->version = strdup(RANKTRACE_VERSION);
	body->pid = (uint32_t)getpid();
	body->socket = strdup(context->config.socket);
	return body->state_dir && body->version && body->socket ? 0 : -ENOMEM;
}
