/* SPDX-License-Identifier: Apache-2.0 */
/* The request `stack`: the stacks of ranks and their children, now. Its answer comes later. An outsider gets its own
 * ranks. */
#include "daemon/control/control.h"
#include "daemon/control/request.h"
#include "daemon/core/context.h"
#include "daemon/ranks/ranks.h"
#include "daemon/stacks/stacks.h"
#include "proto/frame.h"

#define BODY_BYTES_MAX (FRAME_BYTES_MAX - 4096) /* the response's own fields are below 4 KiB */

struct request_stack {
	struct request_selection selection; /* first; during the call of the handler */
	struct context *context;
	uint64_t ticket;
};

/* What does not fit into a message is left out, whole processes, the last ones. */
static void request_stack_fit(Ranktrace__StackBody *body)
{
	size_t bytes = 0, kept = 0;

	for (size_t i = 0; i < body->n_processes; i++) {
		/* And its tag and length in the body. */
		bytes += ranktrace__stack_process__get_packed_size(body->processes[i]) + 8;
		if (bytes <= BODY_BYTES_MAX) {
			body->processes[kept++] = body->processes[i];
			continue;
		}
		ranktrace__stack_process__free_unpacked(body->processes[i], NULL);
		body->left_out++;
	}
	body->n_processes = kept;
}

static void request_stack_done(void *arg, Ranktrace__StackBody *body)
{
	struct request_stack *stack = arg;
	Ranktrace__Response *response = body ? response_error(0, "") : response_error(-ECANCELED, "the daemon stops");

	if (body)
		request_stack_fit(body);
	if (response && body) {
		response->body_case = RANKTRACE__RESPONSE__BODY_STACK;
		response->stack = body;
	} else if (body) {
		ranktrace__stack_body__free_unpacked(body, NULL);
	}
	control_answer(stack->context->control, stack->ticket, response);
	free(stack);
}

static int request_stack_refuse(const struct context *context, const struct request_selection *selection, int error,
	Ranktrace__Response *response)
{
	if (error == -ENOENT)
		return request_selects_none(selection, context->config.group, "see their stacks", response);
	if (error == -EBUSY)
		response_say(response, "stacks are being read for others; try again in a few seconds");
	else if (error == -EUSERS)
		response_say(response,
			"earlier workers that read this user's processes hang in the kernel; stacks are read "
			"again once these have ended");
	return error;
}

int request_stack(struct context *context, const Ranktrace__Request *request, Ranktrace__Response *response)
{
	const struct request_peer *peer = control_peer(context->control);
	struct request_stack *stack = calloc(1, sizeof(*stack));
	struct stacks_take take = {.wanted = request_selects, .done = request_stack_done, .arg = stack};
	int r;

	if (!stack)
		return -ENOMEM;
	stack->context = context;
	stack->selection.request = request;
	if (peer && !request_peer_is_insider(peer, context->config.group)) {
		stack->selection.outsider = peer;
		take.limited = true;
		take.uid = peer->uid;
	}
	r = peer ? stacks_start(context->stacks, &take) : -ENOTSUP;
	if (r < 0) {
		r = request_stack_refuse(context, &stack->selection, r, response);
		free(stack);
		return r;
	}
	stack->ticket = control_later(context->control);
	return 0;
}
