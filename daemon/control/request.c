/* SPDX-License-Identifier: Apache-2.0 */
/* The table of control requests, and the way of each: checked, allowed, handled. See request.h. */
#include <stdarg.h>
#include "daemon/core/context.h"
#include "daemon/base/lag.h"
#include "daemon/control/control.h"
#include "daemon/control/request.h"
#include "daemon/ranks/ranks.h"
#include "proto/frame.h"

static const struct request_row request_rows[] = {
#define REQUEST(number, name, needs_control, valid, reduce) \
	{RANKTRACE__REQUEST_TYPE__REQUEST_##number, #name, needs_control, valid, request_##name, reduce},
#include "daemon/control/requests.def"
#undef REQUEST
};

static const struct request_row *request_row(int type)
{
	for (size_t i = 0; i < ARRAY_SIZE(request_rows); i++)
		if ((int)request_rows[i].type == type)
			return &request_rows[i];
	return NULL;
}

static void *request_message_new(const ProtobufCMessageDescriptor *descriptor)
{
	void *message = malloc(descriptor->sizeof_message);

	if (message)
		descriptor->message_init(message);
	return message;
}

void *request_body_new(Ranktrace__Response *response, Ranktrace__Response__BodyCase body)
{
	response->body_case = body;
	/* All members of the union are such pointers. */
	response->set = request_message_new(
		protobuf_c_message_descriptor_get_field(&ranktrace__response__descriptor, body)->descriptor);
	if (!response->set)
		response->body_case = RANKTRACE__RESPONSE__BODY__NOT_SET;
	return response->set;
}

void *request_add(ProtobufCMessage *message, size_t offset)
{
	const ProtobufCFieldDescriptor *field = message->descriptor->fields;
	void *item, **list, **at = (void **)(void *)((char *)message + offset);
	size_t *count;

	while (field->offset != offset)
		field++;
	item = request_message_new(field->descriptor);
	if (field->label != PROTOBUF_C_LABEL_REPEATED)
		return *at = item;
	count = (size_t *)(void *)((char *)message + field->quantifier_offset);
	/* Grows at powers of two. */
	list = *count & (*count - 1) ? *at : reallocarray(*at, *count ? 2 * *count : 1, sizeof(*list));
	if (!item || !list) {
		free(item);
		return NULL;
	}
	*at = list;
	return list[(*count)++] = item;
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

const struct request_peer *request_outsider(const struct context *context)
{
	const struct request_peer *peer = control_peer(context->control);

	return peer && !request_peer_is_insider(peer, context->config.group) ? peer : NULL;
}

int request_ranges_valid(const Ranktrace__Request *request, char error[REQUEST_ERROR_BYTES])
{
	if (request->n_ranks > REQUEST_ITEMS_MAX) {
		snprintf(error, REQUEST_ERROR_BYTES, "a request names at most %u ranges of ranks", REQUEST_ITEMS_MAX);
		return -EINVAL;
	}
	for (size_t i = 0; i < request->n_ranks; i++)
		if (request->ranks[i]->first < 0 || request->ranks[i]->last < request->ranks[i]->first) {
			snprintf(error, REQUEST_ERROR_BYTES, "%d to %d is no range of ranks", request->ranks[i]->first,
				request->ranks[i]->last);
			return -EINVAL;
		}
	return 0;
}

bool request_has_rank(const Ranktrace__Request *request, int32_t rank, const char *job)
{
	if (*request->job && !streq(request->job, job))
		return false;
	for (size_t i = 0; i < request->n_ranks; i++)
		if (rank >= request->ranks[i]->first && rank <= request->ranks[i]->last)
			return true;
	return request->n_ranks == 0;
}

bool request_selects(void *arg, const struct rank *rank)
{
	struct request_selection *selection = arg;

	if (!request_has_rank(selection->request, rank->env.rank, rank->env.job))
		return false;
	if (!selection->outsider || rank->uid == selection->outsider->uid)
		return true;
	selection->others++;
	return false;
}

int request_selects_none(
	const struct request_selection *selection, const char *group, const char *may, Ranktrace__Response *response)
{
	if (selection->others)
		response_say(response, "these ranks are of other users: root and members of group %s may %s",
			group[0] ? group : "ranktrace", may);
	else if (*selection->request->job)
		response_say(response,
			"no such rank of job %.64s runs on this node; tracectl ranks shows those that do",
			selection->request->job);
	else if (selection->request->n_ranks)
		response_say(response, "no such rank runs on this node; tracectl ranks shows those that do");
	else
		response_say(response, "no training rank runs on this node");
	return selection->others ? -EPERM : -ENOENT;
}

int request_valid(const Ranktrace__Request *request, char error[REQUEST_ERROR_BYTES])
{
	const struct request_row *row;
	int type = (int)request->type;

	if (request->version != FRAME_VERSION) {
		snprintf(error, REQUEST_ERROR_BYTES,
			"this daemon (%s) speaks control version %u, the request version %u: use the tracectl of its "
			"release",
			RANKTRACE_VERSION, FRAME_VERSION, request->version);
		return -EPROTO;
	}
	if (type == RANKTRACE__REQUEST_TYPE__REQUEST_NONE ||
		!protobuf_c_enum_descriptor_get_value(&ranktrace__request_type__descriptor, type)) {
		snprintf(error, REQUEST_ERROR_BYTES, "this daemon (%s) knows no request number %d", RANKTRACE_VERSION,
			type);
		return -EOPNOTSUPP;
	}
	row = request_row(type);
	return row && row->valid ? row->valid(request, error) : 0;
}

Ranktrace__Response *request_answer(
	struct context *context, const struct request_peer *peer, const Ranktrace__Request *request)
{
	const struct request_row *row;
	char error[REQUEST_ERROR_BYTES];
	Ranktrace__Response *response;
	uint64_t began_ns;
	int r;

	r = request_valid(request, error);
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
	began_ns = monotonic_ns();
	r = row->handler(context, request, response);
	lag_work_add(row->name, monotonic_ns() - began_ns);
	if (r < 0) {
		response->error = -r;
		if (!*response->message)
			response_say(response, "%s failed: %s", row->name, strerror(-r));
	}
	if (row->reduce && !request_peer_is_insider(peer, context->config.group))
		row->reduce(peer, response);
	return response;
}
