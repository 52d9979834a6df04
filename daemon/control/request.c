/* SPDX-License-Identifier: Apache-2.0 */
/* The table of control requests, and the way of each: checked, allowed, handled. See request.h. */
#include <stdarg.h>
#include "daemon/core/context.h"
#include "daemon/control/request.h"
#include "proto/frame.h"

static const struct request_row rows[] = {
	{RANKTRACE__REQUEST_TYPE__REQUEST_SET, "set", true, request_set},
	{RANKTRACE__REQUEST_TYPE__REQUEST_INTERVAL, "interval", true, request_interval},
	{RANKTRACE__REQUEST_TYPE__REQUEST_PRINT, "print", false, request_print},
	{RANKTRACE__REQUEST_TYPE__REQUEST_STATUS, "status", false, request_status},
	{RANKTRACE__REQUEST_TYPE__REQUEST_RANKS, "ranks", false, request_ranks},
	{RANKTRACE__REQUEST_TYPE__REQUEST_WHERE, "where", false, request_where},
	{RANKTRACE__REQUEST_TYPE__REQUEST_CHECK, "check", false, request_preflight},
	{RANKTRACE__REQUEST_TYPE__REQUEST_OPS, "ops", false, request_ops},
};

const struct request_row *request_row(int type)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if ((int)rows[i].type == type)
			return &rows[i];
	return NULL;
}

void *request_message_new(const ProtobufCMessageDescriptor *descriptor)
{
	void *message = malloc(descriptor->sizeof_message);

	if (message)
		descriptor->message_init(message);
	return message;
}

void response_say(Ranktrace__Response *response, const char *format, ...)
{
	char text[4096];
	char *copy;
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	copy = strdup(text);
	if (!copy)
		return;
	if (response->message != protobuf_c_empty_string)
		free(response->message);
	response->message = copy;
}

static Ranktrace__Response *response_new(void)
{
	Ranktrace__Response *response = request_message_new(&ranktrace__response__descriptor);

	if (response)
		response->version = FRAME_VERSION;
	return response;
}

Ranktrace__Response *response_error(int error, const char *sentence)
{
	Ranktrace__Response *response = response_new();

	if (!response)
		return NULL;
	response->error = error < 0 ? -error : error;
	response_say(response, "%s", sentence);
	return response;
}

Ranktrace__Response *response_free(Ranktrace__Response *response)
{
	if (response)
		ranktrace__response__free_unpacked(response, NULL);
	return NULL;
}

Ranktrace__Response *request_answer(
	struct context *context, const struct request_peer *peer, const Ranktrace__Request *request)
{
	const struct request_row *row;
	char error[REQUEST_ERROR_BYTES];
	Ranktrace__Response *response;
	int r;

	r = request_check(request, error);
	if (r < 0)
		return response_error(r, error);
	row = request_row((int)request->type);
	if (!row) /* in control.proto, and not in the table */
		return response_error(-EOPNOTSUPP, "this daemon does not answer such requests");
	if (row->needs_control && !request_peer_may_control(peer, context->config.group)) {
		if (context->config.group[0])
			snprintf(error, sizeof(error), "%s needs root or group %s", row->name, context->config.group);
		else
			snprintf(error, sizeof(error), "%s needs root: the configuration names no group", row->name);
		return response_error(-EPERM, error);
	}
	response = response_new();
	if (!response)
		return NULL;
	r = row->handler(context, request, response);
	if (r < 0) {
		response->error = -r;
		if (!*response->message)
			response_say(response, "%s failed: %s", row->name, strerror(-r));
	}
	return response;
}

int request_where(struct context *context, const Ranktrace__Request *request, Ranktrace__Response *response)
{
	Ranktrace__WhereBody *body = request_message_new(&ranktrace__where_body__descriptor);

	(void)request;
	if (!body)
		return -ENOMEM;
	response->body_case = RANKTRACE__RESPONSE__BODY_WHERE;
	response->where = body;
	body->state_dir = strdup(context->config.state_dir);
	body->version = strdup(RANKTRACE_VERSION);
	body->pid = (uint32_t)getpid();
	body->socket = strdup(context->config.socket);
	return body->state_dir && body->version && body->socket ? 0 : -ENOMEM;
}
