/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an outsider (request.h) does not see: other users' ranks with their command lines, calls and clocks, and
 * sentences that name processes or files of ranks. Each function takes it out of a finished answer, whatever its
 * handler put there.
 */
#include "daemon/control/request.h"

/* Keeps the messages for which `keeps` is true, frees the others. */
static void request_outsider_keep(ProtobufCMessage **messages, size_t *count, const struct request_peer *peer,
	bool (*keeps)(const struct request_peer *peer, const ProtobufCMessage *message))
{
	size_t kept = 0;

	for (size_t i = 0; i < *count; i++) {
		if (keeps(peer, messages[i]))
			messages[kept++] = messages[i];
		else
			protobuf_c_message_free_unpacked(messages[i], NULL);
	}
	*count = kept;
}
#define KEEP(body, field, peer, keeps) \
	request_outsider_keep((ProtobufCMessage **)(body)->field, &(body)->n_##field, peer, keeps)

static bool keeps_clock(const struct request_peer *peer, const ProtobufCMessage *message)
{
	return ((const Ranktrace__DeviceClock *)message)->uid == peer->uid;
}

static void forget_text(char **text)
{
	if (*text != protobuf_c_empty_string)
		free(*text);
	*text = (char *)protobuf_c_empty_string;
}

void request_status_reduce(const struct request_peer *peer, Ranktrace__Response *response)
{
	Ranktrace__StatusBody *body = response->body_case == RANKTRACE__RESPONSE__BODY_STATUS ? response->status : NULL;

	if (!body)
		return;
	KEEP(body, device_clocks, peer, keeps_clock);
	for (size_t i = 0; i < body->n_collectors; i++) {
		Ranktrace__Collector *item = body->collectors[i];

		item->notes_left_out += item->n_notes;
		for (size_t n = 0; n < item->n_notes; n++)
			free(item->notes[n]);
		item->n_notes = 0;
	}
	if (body->store)
		forget_text(&body->store->reason);
	if (body->dumps)
		forget_text(&body->dumps->reason);
}

static bool keeps_rank(const struct request_peer *peer, const ProtobufCMessage *message)
{
	const Ranktrace__Rank *rank = (const Ranktrace__Rank *)message;

	return rank->uid_known && rank->uid == peer->uid;
}

void request_ranks_reduce(const struct request_peer *peer, Ranktrace__Response *response)
{
	if (response->body_case != RANKTRACE__RESPONSE__BODY_RANKS || !response->ranks)
		return;
	KEEP(response->ranks, ranks, peer, keeps_rank);
	response->ranks->left_out = 0; /* whose they are is not known here */
}

static bool keeps_item(const struct request_peer *peer, const ProtobufCMessage *message)
{
	return !((const Ranktrace__CheckItem *)message)->about_ranks;
}

void request_check_reduce(const struct request_peer *peer, Ranktrace__Response *response)
{
	if (response->body_case == RANKTRACE__RESPONSE__BODY_CHECK && response->check)
		KEEP(response->check, items, peer, keeps_item);
}

static bool keeps_call(const struct request_peer *peer, const ProtobufCMessage *message)
{
	return ((const Ranktrace__OpsCall *)message)->uid == peer->uid;
}

static bool keeps_stack(const struct request_peer *peer, const ProtobufCMessage *message)
{
	return ((const Ranktrace__OpsStack *)message)->uid == peer->uid;
}

/* Members of a communicator are of one user. */
static bool keeps_communicator(const struct request_peer *peer, const ProtobufCMessage *message)
{
	const Ranktrace__OpsCommunicator *communicator = (const Ranktrace__OpsCommunicator *)message;

	for (size_t i = 0; i < communicator->n_ranks; i++)
		if (communicator->ranks[i]->uid != peer->uid)
			return false;
	return communicator->n_ranks > 0;
}

void request_ops_reduce(const struct request_peer *peer, Ranktrace__Response *response)
{
	Ranktrace__OpsBody *body = response->body_case == RANKTRACE__RESPONSE__BODY_OPS ? response->ops : NULL;

	if (!body)
		return;
	KEEP(body, communicators, peer, keeps_communicator);
	KEEP(body, calls, peer, keeps_call);
	KEEP(body, stacks, peer, keeps_stack);
	body->left_out = 0; /* whose they are is not known here */
}
