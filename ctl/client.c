/* SPDX-License-Identifier: Apache-2.0 */
/* One request to the daemon and its response: see client.h. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "analyzers/base/text.h"
#include "analyzers/base/clock.h"
#include "ctl/client.h"
#include "proto/frame.h"

/* Turning a level on may open and read many libraries. */
#define ANSWER_S_MAX 60
#define CONNECT_S_MAX 10 /* a daemon that runs accepts within milliseconds: one that is stopped never does */
#define SILENCE_S_MAX 3	 /* before it is said that the daemon has not answered yet */

static int64_t client_now_ms(void)
{
	return (int64_t)(clock_ns(CLOCK_MONOTONIC) / 1000000);
}

/* Socket, or -1 with errno. */
static int client_connect(const char *path)
{
	static const struct timeval limit = {.tv_sec = CONNECT_S_MAX};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = strlen(path);
	int fd, error;

	if (length >= sizeof(address.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(address.sun_path, path, length + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	(void)setsockopt(
		fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)); /* connect() waits where the queue is full */
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		error = errno == EAGAIN ? ETIMEDOUT : errno;
		close(fd);
		errno = error;
		return -1;
	}
	return fd;
}

static int client_send(int fd, Ranktrace__Request *request)
{
	size_t body_bytes = ranktrace__request__get_packed_size(request), size_bytes = FRAME_HEADER_BYTES + body_bytes;
	uint8_t *data;
	size_t sent = 0;

	if (body_bytes > FRAME_REQUEST_BYTES_MAX)
		return -EMSGSIZE;
	data = malloc(size_bytes);
	if (!data)
		return -ENOMEM;
	frame_header(data, FRAME_REQUEST, body_bytes);
	ranktrace__request__pack(request, data + FRAME_HEADER_BYTES);
	while (sent < size_bytes) {
		ssize_t n = send(fd, data + sent, size_bytes - sent, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		/* A daemon that has closed may have said why before: read that. */
		if (n < 0)
			break;
		sent += (size_t)n;
	}
	free(data);
	return 0;
}

static bool client_is_stopped(pid_t pid)
{
	char path[64], state = '?';
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	/* Names of processes may hold blanks, but not the daemon's. */
	if (fscanf(file, "%*d %*s %c", &state) != 1)
		state = '?';
	fclose(file);
	return state == 'T';
}

/* False, with the reason, where there is no use in waiting. */
static bool client_may_answer(int fd, char error[FRAME_ERROR_BYTES])
{
	struct ucred daemon = {0};
	socklen_t bytes = sizeof(daemon);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &daemon, &bytes) < 0 || daemon.pid <= 0)
		return true;
	if (client_is_stopped(daemon.pid)) {
		snprintf(error, FRAME_ERROR_BYTES, "its process %d is stopped; kill -CONT %d lets it go on",
			(int)daemon.pid, (int)daemon.pid);
		return false;
	}
	ctl_fail(EXIT_DONE, "the daemon, pid %d, has not answered for %d s; waiting up to %d s", (int)daemon.pid,
		SILENCE_S_MAX, ANSWER_S_MAX);
	return true;
}

/* Reads until a frame is whole. Text says what went wrong. */
static enum frame_result client_receive(int fd, uint8_t *data, struct frame *frame, char error[FRAME_ERROR_BYTES])
{
	int64_t end_ms = client_now_ms() + ANSWER_S_MAX * 1000;
	bool said = false;
	size_t size_bytes = 0, size_max = FRAME_HEADER_BYTES + FRAME_BYTES_MAX;

	for (;;) {
		struct pollfd poller = {.fd = fd, .events = POLLIN};
		enum frame_result result = frame_parse(data, size_bytes, FRAME_RESPONSE, frame, error);
		int64_t left_ms = end_ms - client_now_ms();
		ssize_t n;

		if (result != FRAME_NEED_MORE)
			return result;
		if (left_ms <= 0) {
			snprintf(error, FRAME_ERROR_BYTES, "no answer within %d s", ANSWER_S_MAX);
			return FRAME_ERROR;
		}
		if (poll(&poller, 1, said ? (int)left_ms : SILENCE_S_MAX * 1000) == 0) {
			if (!said && !client_may_answer(fd, error))
				return FRAME_ERROR;
			said = true;
			continue;
		}
		n = recv(fd, data + size_bytes, size_max - size_bytes, MSG_DONTWAIT);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0) {
			snprintf(error, FRAME_ERROR_BYTES, "the connection was closed without an answer%s%s",
				n < 0 ? ": " : "", n < 0 ? strerror(errno) : "");
			return FRAME_ERROR;
		}
		size_bytes += (size_t)n;
	}
}

/* Texts come from jobs: none of them reaches a terminal as it is, whatever prints it. */
static void client_clean(const ProtobufCMessage *message)
{
	for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
		const char *base = (const char *)message;
		bool many = field->label == PROTOBUF_C_LABEL_REPEATED;
		size_t count = many ? *(const size_t *)(base + field->quantifier_offset) : 1;
		void *const *item = (void *const *)(base + field->offset);

		if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF &&
			*(const uint32_t *)(base + field->quantifier_offset) != field->id)
			continue;
		item = many ? *(void *const *const *)item : item;
		for (size_t j = 0; j < count; j++) {
			if (field->type == PROTOBUF_C_TYPE_MESSAGE && item[j])
				client_clean(item[j]);
			/* An absent text is a constant "". */
			else if (field->type == PROTOBUF_C_TYPE_STRING && item[j] && *(char *)item[j])
				text_clean(item[j]);
		}
	}
}

static int client_exchange(
	const struct command *command, int fd, Ranktrace__Request *request, Ranktrace__Response **ret)
{
	uint8_t *data = malloc(FRAME_HEADER_BYTES + FRAME_BYTES_MAX);
	Ranktrace__Response *response = NULL;
	char error[FRAME_ERROR_BYTES] = "";
	enum frame_result result;
	struct frame frame;

	if (!data || client_send(fd, request) < 0) {
		free(data);
		return ctl_fail(EXIT_REFUSED, "cannot make the request");
	}
	result = client_receive(fd, data, &frame, error);
	if (result == FRAME_MESSAGE)
		response = ranktrace__response__unpack(NULL, frame.body_bytes, frame.body);
	free(data);
	if (result == FRAME_OTHER_VERSION)
		return ctl_fail(EXIT_REFUSED,
			"the daemon on %s speaks control version %u and this tracectl (%s) version %u: use those of "
			"one release",
			command->socket, frame.version, RANKTRACE_VERSION, FRAME_VERSION);
	if (result != FRAME_MESSAGE)
		return ctl_fail(EXIT_UNREACHABLE, "the daemon on %s failed: %s", command->socket, error);
	if (!response)
		return ctl_fail(EXIT_REFUSED, "the answer from %s cannot be decoded", command->socket);
	client_clean(&response->base);
	if (response->error) {
		ctl_fail(EXIT_REFUSED, "%s", *response->message ? response->message : strerror(response->error));
		if (response->body_case == RANKTRACE__RESPONSE__BODY__NOT_SET) {
			client_free(response);
			return EXIT_REFUSED;
		}
	}
	*ret = response;
	return response->error ? EXIT_REFUSED : EXIT_DONE;
}

/* The daemon's answer, or EXIT_UNREACHABLE with errno where none listens. */
static int client_try(const struct command *command, Ranktrace__Request *request, Ranktrace__Response **ret)
{
	int fd = client_connect(command->socket), code;

	if (fd < 0)
		return EXIT_UNREACHABLE;
	request->version = FRAME_VERSION;
	code = client_exchange(command, fd, request, ret);
	close(fd);
	errno = 0;
	return code;
}

int client_ask_quietly(const struct command *command, Ranktrace__Request *request, Ranktrace__Response__BodyCase body,
	Ranktrace__Response **ret)
{
	int code = client_try(command, request, ret);

	if (code != EXIT_DONE || (*ret)->body_case == body)
		return code;
	client_free(*ret);
	*ret = NULL;
	return ctl_fail(EXIT_REFUSED, "the answer of the daemon on %s does not match the request", command->socket);
}

int client_ask(const struct command *command, Ranktrace__Request *request, Ranktrace__Response__BodyCase body,
	Ranktrace__Response **ret)
{
	int code = client_ask_quietly(command, request, body, ret);

	if (code == EXIT_UNREACHABLE && errno)
		ctl_fail(code, "no daemon answers on %s: %s; is ranktraced running? (--socket names another)",
			command->socket, strerror(errno));
	return code;
}

int client_get(const struct command *command, Ranktrace__RequestType type, Ranktrace__Response__BodyCase body,
	Ranktrace__Response **ret)
{
	Ranktrace__Request request = RANKTRACE__REQUEST__INIT;

	request.type = type;
	return client_ask(command, &request, body, ret);
}

int client_ask_of_ranks(const struct command *command, Ranktrace__Request *request, Ranktrace__Response__BodyCase body,
	struct ranges *ret_ranks, Ranktrace__Response **ret)
{
	Ranktrace__RankRange range[RANGES_MAX], *item[RANGES_MAX];
	const char *text = command_option(command, "rank"), *job = command_option(command, "job");
	int code;

	*ret_ranks = (struct ranges){0};
	if (text && ranges_parse(text, ret_ranks) < 0)
		return ctl_fail(
			EXIT_USAGE, "--rank takes ranks as in 0,3-7 (at most %d parts), not '%s'", RANGES_MAX, text);
	for (size_t i = 0; i < ret_ranks->count; i++) {
		range[i] = (Ranktrace__RankRange)RANKTRACE__RANK_RANGE__INIT;
		range[i].first = (int32_t)ret_ranks->range[i].first;
		range[i].last = (int32_t)ret_ranks->range[i].last;
		item[i] = &range[i];
	}
	request->ranks = item;
	request->n_ranks = ret_ranks->count;
	if (job)
		request->job = (char *)job; /* sent, and not changed */
	code = client_ask(command, request, body, ret);
	request->ranks = NULL;
	request->n_ranks = 0;
	return code;
}

int client_get_of_ranks(const struct command *command, Ranktrace__RequestType type, Ranktrace__Response__BodyCase body,
	struct ranges *ret_ranks, Ranktrace__Response **ret)
{
	Ranktrace__Request request = RANKTRACE__REQUEST__INIT;

	request.type = type;
	return client_ask_of_ranks(command, &request, body, ret_ranks, ret);
}

int client_need_ranks(const struct command *command, const Ranktrace__RanksBody *body, const struct ranges *wanted)
{
	if ((!wanted->count && !command_option(command, "job")) || body->left_out)
		return EXIT_DONE;
	for (size_t i = 0; i < body->n_ranks; i++)
		if (!wanted->count || ranges_have(wanted, body->ranks[i]->rank))
			return EXIT_DONE;
	return ctl_fail(EXIT_REFUSED, "no such rank%s%s runs on this node; tracectl ranks shows those that do",
		command_option(command, "job") ? " of job " : "",
		command_option(command, "job") ? command_option(command, "job") : "");
}

void client_free(Ranktrace__Response *response)
{
	if (response)
		ranktrace__response__free_unpacked(response, NULL);
}
