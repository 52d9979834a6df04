/* SPDX-License-Identifier: Apache-2.0 */
/* The request `stack`: the stacks of ranks and their children, now. Its answer comes later. An outsider gets its own ranks. */
#include "daemon/control/control.h"
#include "daemon/control/request.h"
#include "daemon/core/context.h"
#include "daemon/ranks/ranks.h"
#include "daemon/stacks/stacks.h"
#include "proto/frame.h"

#define BODY_BYTES_MAX (FRAME_BYTES_MAX - 4096) /* the response's own fields are below 4 KiB */

struct request_stack {
	struct context *context;
	const Ranktrace__Request *request; /* during the call of the handler */
	const struct request_peer *outsider; /* NULL: sees all. During the call, too */
	size_t others;			     /* ranks of other users that were asked for */
	uint64_t ticket;
};

static bool request_stack_wanted(void *arg, const struct rank *rank)
{
	struct request_stack *stack = arg;

	if (!request_has_rank(stack->request, rank->env.rank))
		return false;
	if (stack->outsider && rank->uid != stack->outsider->uid) {
		stack->others++;
		return false;
	}
	return true;
}

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

static int request_stack_refuse(int error, const struct request_stack *stack, Ranktrace__Response *response)
{
	if (error == -ENOENT && stack->others)
		response_say(response, "these ranks are of other users: root and members of group %s may see their stacks",
			stack->context->config.group[0] ? stack->context->config.group : "ranktrace");
	else if (error == -ENOENT && stack->request->n_ranks)
		response_say(response, "no such rank runs on this node; tracectl ranks shows those that do");
	else if (error == -ENOENT)
		response_say(response, "no training rank runs on this node");
	else if (error == -EBUSY)
		response_say(response, "stacks are being read for others; try again in a few seconds");
	else if (error == -EUSERS)
		response_say(response, "earlier workers that read this user's processes hang in the kernel; stacks are read "
				       "again once these have ended");
	return error == -ENOENT && stack->others ? -EPERM : error;
}

int request_stack(struct context *context, const Ranktrace__Request *request, Ranktrace__Response *response)
{
	const struct request_peer *peer = control_peer(context->control);
	struct request_stack *stack = calloc(1, sizeof(*stack));
	const struct stacks_take take = {request_stack_wanted, request_stack_done, stack};
	int r;

	if (!stack)
		return -ENOMEM;
	stack->context = context;
	stack->request = request;
	if (peer && !request_peer_is_insider(peer, context->config.group))
		stack->outsider = peer;
	r = peer ? stacks_start(context->stacks, &take) : -ENOTSUP;
	if (r < 0) {
		r = request_stack_refuse(r, stack, response);
		free(stack);
		return r;
	}
	stack->request = NULL;
	stack->outsider = NULL;
	stack->ticket = control_later(context->control);
	return 0;
}
