/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket's connections: see control.h. */
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include "daemon/core/context.h"
#include "daemon/control/control.h"
#include "daemon/base/acceptor.h"
#include "daemon/base/log_limit.h"
#include "daemon/control/request.h"
#include "proto/frame.h"

#define HOLD_CHECK_NS (10 * NSEC_PER_MSEC)
/*
 * Requests are handled for so long before the loop does other work. A request takes up to tens of milliseconds, and 56
 * clients that nobody trusts may each have one waiting.
 */
#define TURN_NS (20 * NSEC_PER_MSEC)
#define SERVED_USERS 16 /* that were served last */

struct client {
	LIST_ENTRY(client) link;
	struct control *control;
	struct bufferevent *stream;
	struct event *deadline;
	struct request_peer peer;
	unsigned requests;
	bool asks;	 /* a whole request waits in its input for the next turn */
	bool answering;	 /* a response is on its way: nothing more is read before it has left */
	uint64_t ticket; /* of an answer that comes later; 0: none */
	bool last;	 /* close once it has */
	bool (*is_done)(
		void); /* control_hold(): asked every HOLD_CHECK_NS whether the held answer may leave; NULL: none */
	struct event *recheck;
	unsigned checks;
	Ranktrace__Response *held;
};

struct control {
	struct context *context;
	struct control_listen listening;
	struct acceptor *acceptor; /* owns the descriptor */
	LIST_HEAD(, client) clients;
	unsigned count;
	struct client *asking;	       /* its request is being handled */
	struct event *turn;	       /* requests wait */
	uint32_t served[SERVED_USERS]; /* users, a ring; the newest is before `serves` */
	unsigned serves;
	uint64_t tickets; /* given so far */
};

static struct client *control_client_free(struct client *client)
{
	if (!client)
		return NULL;
	LIST_REMOVE(client, link);
	client->control->count--;
	if (client->deadline)
		event_free(client->deadline);
	if (client->recheck)
		event_free(client->recheck);
	response_free(client->held);
	if (client->stream)
		bufferevent_free(client->stream);
	free(client);
	return NULL;
}

/* Header and message in one piece; what does not fit is answered by a sentence instead. */
static int control_response_pack(Ranktrace__Response *response, uint8_t **ret, size_t *ret_bytes)
{
	size_t body_bytes = ranktrace__response__get_packed_size(response);
	uint8_t *data;

	if (body_bytes > FRAME_BYTES_MAX)
		return -EMSGSIZE;
	data = malloc(FRAME_HEADER_BYTES + body_bytes);
	if (!data)
		return -ENOMEM;
	frame_header(data, FRAME_RESPONSE, body_bytes);
	ranktrace__response__pack(response, data + FRAME_HEADER_BYTES);
	*ret = data;
	*ret_bytes = FRAME_HEADER_BYTES + body_bytes;
	return 0;
}

/* Takes the response. */
static int control_response_bytes(Ranktrace__Response *response, uint8_t **ret, size_t *ret_bytes)
{
	int r = response ? control_response_pack(response, ret, ret_bytes) : -ENOMEM;

	response_free(response);
	if (r == -EMSGSIZE) {
		response = response_error(r, "the answer is longer than a message may be");
		r = response ? control_response_pack(response, ret, ret_bytes) : -ENOMEM;
		response_free(response);
	}
	return r;
}

/* Takes the response. The client may be gone afterwards. */
static void control_client_send(struct client *client, Ranktrace__Response *response)
{
	_cleanup_free_ uint8_t *data = NULL;
	size_t size_bytes;

	if (control_response_bytes(response, &data, &size_bytes) < 0 ||
		bufferevent_write(client->stream, data, size_bytes) < 0) {
		control_client_free(client);
		return;
	}
	client->answering = true;
	bufferevent_disable(client->stream, EV_READ);
}

static void control_client_refuse(struct client *client, int error, const char *sentence)
{
	log_limited(LOG_INFO, "control", client->peer.uid, "refusing process %d of user %u: %s", (int)client->peer.pid,
		(unsigned)client->peer.uid, sentence);
	client->last = true;
	control_client_send(client, response_error(error, sentence));
}

const struct request_peer *control_peer(const struct control *control)
{
	return control && control->asking ? &control->asking->peer : NULL;
}

uint64_t control_later(struct control *control)
{
	control->asking->ticket = ++control->tickets;
	return control->asking->ticket;
}

static void control_client_wait(struct client *client)
{
	const struct timeval limit = {.tv_sec = CONTROL_LATER_S};

	client->answering = true;
	bufferevent_disable(client->stream, EV_READ);
	event_add(client->deadline, &limit);
}

void control_answer(struct control *control, uint64_t ticket, Ranktrace__Response *response)
{
	struct client *client = NULL;

	if (control)
		LIST_FOREACH(client, &control->clients, link)
	if (client->ticket == ticket)
		break;
	if (!client) {
		response_free(response);
		return;
	}
	client->ticket = 0;
	control_client_send(client, response);
}

bool control_hold(struct control *control, bool (*is_done)(void))
{
	if (!control || !control->asking)
		return false;
	control->asking->is_done = is_done;
	return true;
}

static void control_client_check_later(struct client *client)
{
	static const struct timeval pause = {.tv_usec = HOLD_CHECK_NS / NSEC_PER_USEC};

	event_add(client->recheck, &pause);
}

static void control_on_check(evutil_socket_t fd, short what, void *arg)
{
	struct client *client = arg;

	if (!client->is_done() && ++client->checks < CONTROL_HOLD_S * NSEC_PER_SEC / HOLD_CHECK_NS) {
		control_client_check_later(client);
		return;
	}
	client->is_done = NULL;
	control_client_send(client, TAKE_PTR(client->held));
}

/* Takes the response. */
static void control_client_hold(struct client *client, Ranktrace__Response *response)
{
	client->held = response;
	client->checks = 0;
	control_client_wait(client);
	control_client_check_later(client);
}

static void control_client_request(struct client *client, const struct frame *frame)
{
	Ranktrace__Request *request = ranktrace__request__unpack(NULL, frame->body_bytes, frame->body);
	Ranktrace__Response *response;

	if (!request) {
		control_client_refuse(
			client, -EBADMSG, "the request cannot be read: it is not a message of control version 1");
		return;
	}
	client->control->asking = client;
	response = request_answer(client->control->context, &client->peer, request);
	client->control->asking = NULL;
	ranktrace__request__free_unpacked(request, NULL);
	evbuffer_drain(bufferevent_get_input(client->stream), frame->size_bytes);
	client->last = ++client->requests >= CONTROL_REQUESTS_MAX;
	if (client->ticket) {
		response_free(response);
		control_client_wait(client);
	} else if (client->is_done) {
		control_client_hold(client, response);
	} else {
		control_client_send(client, response);
	}
}

static void control_turn_later(struct control *control)
{
	static const struct timeval at_once;

	event_add(control->turn, &at_once);
}

/* How many others were served since this user was. */
static unsigned control_served_ago(const struct control *control, uid_t uid)
{
	unsigned ago = 0;

	while (ago < SERVED_USERS && ago < control->serves &&
		control->served[(control->serves - 1 - ago) % SERVED_USERS] != uid)
		ago++;
	return ago < control->serves ? ago : SERVED_USERS;
}

/* Of the user who was not served for longest, so that nobody waits for all requests of another one. */
static struct client *control_next(const struct control *control)
{
	struct client *client, *next = NULL;
	unsigned most = 0;

	LIST_FOREACH(client, &control->clients, link)
	{
		unsigned ago = client->asks ? 1 + control_served_ago(control, client->peer.uid) : 0;

		if (ago >= most && ago) {
			most = ago;
			next = client;
		}
	}
	return next;
}

/* The frame was found whole, and is as it was. */
static void control_client_serve(struct client *client)
{
	struct evbuffer *input = bufferevent_get_input(client->stream);
	char error[FRAME_ERROR_BYTES];
	struct frame frame;

	client->asks = false;
	client->control->served[client->control->serves++ % SERVED_USERS] = client->peer.uid;
	if (frame_parse(evbuffer_pullup(input, -1), evbuffer_get_length(input), FRAME_REQUEST, &frame, error) ==
		FRAME_MESSAGE)
		control_client_request(client, &frame);
}

static void control_on_turn(evutil_socket_t fd, short what, void *arg)
{
	struct control *control = arg;
	uint64_t end_ns = monotonic_ns() + TURN_NS;
	struct client *next = control_next(control);

	while (next && monotonic_ns() < end_ns) {
		control_client_serve(next);
		next = control_next(control);
	}
	if (next)
		control_turn_later(control);
}

static void control_on_read(struct bufferevent *stream, void *arg)
{
	struct evbuffer *input = bufferevent_get_input(stream);
	size_t size_bytes = evbuffer_get_length(input);
	struct client *client = arg;
	char error[FRAME_ERROR_BYTES], sentence[2 * FRAME_ERROR_BYTES];
	struct frame frame;

	if (client->asks || client->answering || client->last || size_bytes == 0)
		return;
	switch (frame_parse(evbuffer_pullup(input, -1), size_bytes, FRAME_REQUEST, &frame, error)) {
	case FRAME_NEED_MORE:
		break;
	case FRAME_MESSAGE:
		client->asks = true;
		control_turn_later(client->control);
		break;
	case FRAME_OTHER_VERSION:
		snprintf(sentence, sizeof(sentence),
			"this daemon (%s) speaks control version %u, the client version %u: use the tracectl of its "
			"release",
			RANKTRACE_VERSION, FRAME_VERSION, frame.version);
		control_client_refuse(client, -EPROTO, sentence);
		break;
	case FRAME_ERROR:
		control_client_refuse(client, -EBADMSG, error);
		break;
	}
}

static void control_deadline_renew(struct client *client)
{
	const struct timeval limit = {.tv_sec = CONTROL_IDLE_S};

	event_add(client->deadline, &limit);
}

/* All of the response has left. */
static void control_on_written(struct bufferevent *stream, void *arg)
{
	struct client *client = arg;

	if (client->last) {
		control_client_free(client);
		return;
	}
	client->answering = false;
	control_deadline_renew(client);
	bufferevent_enable(stream, EV_READ);
	control_on_read(stream, client);
}

static void control_on_end(struct bufferevent *stream, short what, void *arg)
{
	control_client_free(arg);
}

static void control_on_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct client *client = arg;

	log_debug(
		"control", "closing process %d: nothing whole from it for %d s", (int)client->peer.pid, CONTROL_IDLE_S);
	control_client_free(client);
}

/* Takes fd. */
static int control_client_new(struct control *control, int fd, const struct request_peer *peer)
{
	struct event_base *base = control->context->base;
	struct client *client = calloc(1, sizeof(*client));

	if (!client) {
		close(fd);
		return -ENOMEM;
	}
	client->control = control;
	client->peer = *peer;
	LIST_INSERT_HEAD(&control->clients, client, link);
	control->count++;
	client->stream = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (!client->stream)
		close(fd);
	client->deadline = evtimer_new(base, control_on_deadline, client);
	client->recheck = evtimer_new(base, control_on_check, client);
	if (!client->stream || !client->deadline || !client->recheck) {
		control_client_free(client);
		return -ENOMEM;
	}
	bufferevent_setcb(client->stream, control_on_read, control_on_written, control_on_end, client);
	bufferevent_setwatermark(client->stream, EV_READ, 0, FRAME_HEADER_BYTES + FRAME_REQUEST_BYTES_MAX);
	control_deadline_renew(client);
	bufferevent_enable(client->stream, EV_READ | EV_WRITE);
	return 0;
}

/* Says so without making a client of it: one short response fits into any socket buffer. */
static void control_turn_away(int fd, const struct request_peer *peer, const char *sentence)
{
	_cleanup_free_ uint8_t *data = NULL;
	size_t size_bytes;
	if (control_response_bytes(response_error(-EAGAIN, sentence), &data, &size_bytes) == 0 &&
		send(fd, data, size_bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug("control", "a client too many could not be answered");
	log_limited(LOG_WARNING, "control", peer->uid, "turning away process %d of user %u: %s", (int)peer->pid,
		(unsigned)peer->uid, sentence);
	close(fd);
}

static unsigned control_clients_of(const struct control *control, uid_t uid)
{
	const struct client *client;
	unsigned count = 0;

	LIST_FOREACH(client, &control->clients, link)
	count += client->peer.uid == uid;
	return count;
}

static void control_on_accept(void *arg, int fd)
{
	struct request_peer peer = {.fd = fd};
	struct control *control = arg;
	struct ucred credentials;
	socklen_t size_bytes = sizeof(credentials);
	unsigned limit = CONTROL_CLIENTS_MAX;
	char sentence[96] = "";

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size_bytes) < 0) {
		log_error_errno("control", errno, "cannot read the credentials of the peer, closing the connection");
		close(fd);
		return;
	}
	peer.uid = credentials.uid;
	peer.gid = credentials.gid;
	peer.pid = credentials.pid;
	if (!request_peer_is_owner(&peer))
		limit -= CONTROL_CLIENTS_RESERVED;
	if (control->count >= limit)
		snprintf(sentence, sizeof(sentence), "%u clients are connected already; try again later",
			control->count);
	else if (!request_peer_is_owner(&peer) && control_clients_of(control, peer.uid) >= CONTROL_CLIENTS_USER_MAX)
		snprintf(sentence, sizeof(sentence), "%u clients of this user are connected already; try again later",
			CONTROL_CLIENTS_USER_MAX);
	if (sentence[0])
		control_turn_away(fd, &peer, sentence);
	else if (control_client_new(control, fd, &peer) < 0)
		log_error("control", "no memory for a client, closing its connection");
}

struct control *control_close(struct control *control)
{
	if (!control)
		return NULL;
	while (!LIST_EMPTY(&control->clients))
		control_client_free(LIST_FIRST(&control->clients));
	control_listen_remove(&control->listening);
	acceptor_free(control->acceptor);
	if (control->turn)
		event_free(control->turn);
	free(control);
	return NULL;
}

int control_open(struct context *context, struct control **ret)
{
	struct control *control = calloc(1, sizeof(*control));
	int r;

	if (!control)
		return -ENOMEM;
	control->context = context;
	LIST_INIT(&control->clients);
	r = control_listen_open(context->config.socket, &control->listening);
	if (r < 0) {
		control_close(control);
		return r;
	}
	control->turn = evtimer_new(context->base, control_on_turn, control);
	r = acceptor_new(
		context->base, control->listening.fd, "control", control_on_accept, control, &control->acceptor);
	if (r < 0 || !control->turn) {
		control_close(control);
		return log_error_errno("control", r < 0 ? r : -ENOMEM, "cannot serve the control socket");
	}
	*ret = control;
	return 0;
}
