/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /metrics over HTTP/1.1: one request, one answer, and the connection ends. libevent's evhttp bounds neither the
 * number of clients nor the time of one, so only its connections are used. Of a request, the method, the path and one
 * field are read; a body is not.
 */
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <fcntl.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

#include "daemon/base/acceptor.h"
#include "daemon/base/log.h"
#include "daemon/base/passed.h"
#include "daemon/metrics/metrics_internal.h"

#define BACKLOG 16

struct metrics_client {
	TAILQ_ENTRY(metrics_client) link;
	struct metrics_http *http;
	struct bufferevent *stream;
	struct event *deadline;
	bool answered;
};

struct metrics_http {
	struct metrics *metrics;
	struct acceptor *acceptor;
	TAILQ_HEAD(, metrics_client) clients; /* the oldest first */
	unsigned count;
	char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)]; /* to remove at the end, "": none */
};

static const char *const content_types[METRICS_FORMAT_MAX] = {
	[METRICS_TEXT] = "text/plain; version=0.0.4; charset=utf-8",
	[METRICS_OPENMETRICS] = "application/openmetrics-text; version=1.0.0; charset=utf-8",
};

static void metrics_client_free(struct metrics_client *client)
{
	TAILQ_REMOVE(&client->http->clients, client, link);
	client->http->count--;
	if (client->deadline)
		event_free(client->deadline);
	if (client->stream)
		bufferevent_free(client->stream);
	free(client);
}

struct metrics_answer {
	const char *status, *type, *text;
	size_t bytes;
	bool head; /* without the text */
};

static void metrics_client_send(struct metrics_client *client, const struct metrics_answer *answer)
{
	struct evbuffer *out = bufferevent_get_output(client->stream);

	client->answered = true;
	bufferevent_disable(client->stream, EV_READ);
	if (evbuffer_add_printf(out,
		    "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n%s\r\n",
		    answer->status, answer->type, answer->bytes,
		    strncmp(answer->status, "405", 3) == 0 ? "Allow: GET, HEAD\r\n" : "") < 0 ||
		(!answer->head && evbuffer_add(out, answer->text, answer->bytes) < 0))
		metrics_client_free(client);
}

static void metrics_client_refuse(struct metrics_client *client, const char *status, bool head)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "%s\n", status);

	metrics_client_send(client, &(struct metrics_answer){.status = status,
					    .type = "text/plain; charset=utf-8",
					    .text = text,
					    .bytes = (size_t)n,
					    .head = head});
}

/* Prometheus asks for OpenMetrics first, others do not name it. */
static enum metrics_format metrics_http_format(const char *fields)
{
	const char *line = fields;

	while ((line = strstr(line, "\r\n"))) {
		size_t length;

		line += 2;
		length = strcspn(line, "\r");
		if (strncasecmp(line, "accept:", 7) == 0 && memmem(line, length, "application/openmetrics-text", 28))
			return METRICS_OPENMETRICS;
	}
	return METRICS_TEXT;
}

/* request: terminated, up to the empty line. */
static void metrics_client_answer(struct metrics_client *client, const char *request)
{
	bool head = strncmp(request, "HEAD ", 5) == 0, get = strncmp(request, "GET ", 4) == 0;
	const char *target = strchr(request, ' '), *end = target ? target + 1 + strcspn(target + 1, " \r\n") : NULL;
	enum metrics_format format = metrics_http_format(request);
	const struct metrics_page *page;
	size_t length;

	if (!end || strncmp(end, " HTTP/1.", 8) != 0) {
		metrics_client_refuse(client, "400 Bad Request", false);
		return;
	}
	length = strcspn(target + 1, "? ");
	if (!head && !get) {
		metrics_client_refuse(client, "405 Method Not Allowed", false);
		return;
	}
	if (length != 8 || strncmp(target + 1, "/metrics", 8) != 0) {
		metrics_client_refuse(client, "404 Not Found: metrics are at /metrics", head);
		return;
	}
	page = metrics_page_get(client->http->metrics, format);
	if (!page) {
		metrics_client_refuse(client, "503 Service Unavailable", head);
		return;
	}
	metrics_client_send(client, &(struct metrics_answer){.status = "200 OK",
					    .type = content_types[format],
					    .text = page->text,
					    .bytes = page->used,
					    .head = head});
}

static void metrics_http_on_read(struct bufferevent *stream, void *arg)
{
	struct evbuffer *input = bufferevent_get_input(stream);
	size_t bytes = evbuffer_get_length(input);
	struct evbuffer_ptr end = evbuffer_search(input, "\r\n\r\n", 4, NULL);
	struct metrics_client *client = arg;
	char request[LIMIT_METRIC_REQUEST_BYTES + 1];
	ev_ssize_t n;

	if (end.pos < 0) {
		if (bytes >= LIMIT_METRIC_REQUEST_BYTES)
			metrics_client_refuse(client, "431 Request Header Fields Too Large", false);
		return;
	}
	n = evbuffer_remove(input, request, LIMIT_METRIC_REQUEST_BYTES);
	request[n > 0 ? n : 0] = 0;
	if (n > end.pos)
		request[end.pos + 2] = 0;
	if (strlen(request) < (size_t)end.pos)
		metrics_client_refuse(client, "400 Bad Request", false); /* a zero byte, or too long */
	else
		metrics_client_answer(client, request);
}

static void metrics_http_on_written(struct bufferevent *stream, void *arg)
{
	struct metrics_client *client = arg;

	/* Also called once where there is nothing to write yet. */
	if (client->answered)
		metrics_client_free(client);
}

static void metrics_http_on_end(struct bufferevent *stream, short what, void *arg)
{
	(void)stream, (void)what;
	metrics_client_free(arg);
}

static void metrics_http_on_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct metrics_client *client = arg;

	(void)fd, (void)what;
	client->http->metrics->refused++;
	metrics_client_free(client);
}

/* One too many: the oldest is dropped. Any client can hold connections open, and a scrape takes milliseconds. */
static void metrics_http_on_accept(void *arg, int fd)
{
	const struct timeval limit = {.tv_sec = LIMIT_METRIC_CLIENT_S};
	struct metrics_http *http = arg;
	struct metrics_client *client;

	if (http->count == LIMIT_METRIC_CLIENTS) {
		http->metrics->refused++;
		metrics_client_free(TAILQ_FIRST(&http->clients));
	}
	client = calloc(1, sizeof(*client));
	if (!client) {
		close(fd);
		return;
	}
	client->http = http;
	TAILQ_INSERT_TAIL(&http->clients, client, link);
	http->count++;
	client->stream = bufferevent_socket_new(http->metrics->context->base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (!client->stream)
		close(fd);
	client->deadline = evtimer_new(http->metrics->context->base, metrics_http_on_deadline, client);
	if (!client->stream || !client->deadline) {
		metrics_client_free(client);
		return;
	}
	bufferevent_setcb(client->stream, metrics_http_on_read, metrics_http_on_written, metrics_http_on_end, client);
	bufferevent_setwatermark(client->stream, EV_READ, 0, LIMIT_METRIC_REQUEST_BYTES);
	event_add(client->deadline, &limit);
	bufferevent_enable(client->stream, EV_READ | EV_WRITE);
}

/* Its owner and group may connect: the daemon's, which are ranktrace's under systemd. */
static int metrics_http_make_unix(const char *path, struct metrics_http *http)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;
	mode_t mask;
	int r;

	if (!copy_text(address.sun_path, sizeof(address.sun_path), path))
		return -ENAMETOOLONG;
	/* The state folder is locked by this daemon, so an existing socket is stale. */
	if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
		(void)unlink(path);
	mask = umask(0117);
	r = fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
	umask(mask);
	if (r < 0)
		return r;
	(void)copy_text(http->path, sizeof(http->path), path);
	return listen(fd, BACKLOG) < 0 ? -errno : TAKE_FD(fd);
}

static int metrics_http_make_inet(const char *text)
{
	struct sockaddr_storage address;
	int length = sizeof(address), on = 1;
	_cleanup_close_ int fd = -1;

	if (evutil_parse_sockaddr_port(text, (struct sockaddr *)&address, &length) < 0)
		return -EINVAL;
	fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
		bind(fd, (const struct sockaddr *)&address, (socklen_t)length) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* A listening descriptor; -ENOENT: none is wanted. */
static int metrics_http_listen(const char *listen, struct metrics_http *http)
{
	int fd = -1, count = passed_sockets(PASSED_METRICS, &fd), r;

	if (count > 0 && (count > 1 || sd_is_socket(fd, AF_UNSPEC, SOCK_STREAM, 1) <= 0)) {
		log_error("metrics",
			"systemd passed %d sockets named " PASSED_METRICS " where one listening stream socket belongs",
			count);
		return -EINVAL;
	}
	if (count > 0) {
		if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0)
			return log_error_errno("metrics", errno, "cannot use the socket that systemd passed");
		log_info("metrics", "serving on the socket that systemd passed");
		return fd;
	}
	if (!listen[0])
		return -ENOENT;
	r = listen[0] == '/' ? metrics_http_make_unix(listen, http) : metrics_http_make_inet(listen);
	if (r < 0)
		return log_error_errno("metrics", r, "cannot serve metrics on %s", listen);
	log_info("metrics", "serving on %s", listen);
	return r;
}

int metrics_http_open(struct metrics *metrics, const char *listen, struct metrics_http **ret)
{
	struct metrics_http *http = calloc(1, sizeof(*http));
	int fd, r;

	if (!http)
		return -ENOMEM;
	http->metrics = metrics;
	TAILQ_INIT(&http->clients);
	fd = metrics_http_listen(listen, http);
	if (fd < 0) {
		*ret = metrics_http_close(http);
		return fd == -ENOENT ? 0 : fd;
	}
	r = acceptor_new(metrics->context->base, fd, "metrics", metrics_http_on_accept, http, &http->acceptor);
	if (r < 0) {
		metrics_http_close(http);
		return log_error_errno("metrics", r, "cannot serve metrics");
	}
	*ret = http;
	return 0;
}

struct metrics_http *metrics_http_close(struct metrics_http *http)
{
	if (!http)
		return NULL;
	while (!TAILQ_EMPTY(&http->clients))
		metrics_client_free(TAILQ_FIRST(&http->clients));
	acceptor_free(http->acceptor);
	if (http->path[0])
		unlink(http->path);
	free(http);
	return NULL;
}
