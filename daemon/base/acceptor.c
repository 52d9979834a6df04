/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/base/acceptor.h"
#include "daemon/base/log.h"
#include "daemon/base/util.h"

#include <event2/event.h>
#include <sys/socket.h>
#include <unistd.h>

struct acceptor {
	int fd;
	const char *name;
	void (*take)(void *arg, int fd);
	void *arg;
	struct event *readable;
	struct event *resume;
};

static void acceptor_rest(struct acceptor *acceptor, int error)
{
	const struct timeval rest = {.tv_sec = 1};

	log_error_errno(acceptor->name, error, "cannot accept a client, trying again in 1 s");
	event_del(acceptor->readable);
	event_add(acceptor->resume, &rest);
}

static void acceptor_on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct acceptor *acceptor = arg;

	for (unsigned i = 0; i < ACCEPTOR_TURN_MAX; i++) {
		int client = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (client >= 0)
			acceptor->take(acceptor->arg, client);
		else if (errno == EAGAIN)
			return;
		else if (errno != EINTR && errno != ECONNABORTED) {
			acceptor_rest(acceptor, errno);
			return;
		}
	}
}

static void acceptor_on_resume(evutil_socket_t fd, short what, void *arg)
{
	struct acceptor *acceptor = arg;

	(void)fd, (void)what;
	event_add(acceptor->readable, NULL);
}

int acceptor_new(struct event_base *base, int fd, const char *name, void (*take)(void *arg, int fd), void *arg,
	struct acceptor **ret)
{
	struct acceptor *acceptor = calloc(1, sizeof(*acceptor));

	if (!acceptor) {
		close(fd);
		return -ENOMEM;
	}
	*acceptor = (struct acceptor){.fd = fd, .name = name, .take = take, .arg = arg};
	acceptor->readable = event_new(base, fd, EV_READ | EV_PERSIST, acceptor_on_readable, acceptor);
	acceptor->resume = evtimer_new(base, acceptor_on_resume, acceptor);
	if (!acceptor->readable || !acceptor->resume || event_add(acceptor->readable, NULL) < 0) {
		acceptor_free(acceptor);
		return -ENOMEM;
	}
	*ret = acceptor;
	return 0;
}

struct acceptor *acceptor_free(struct acceptor *acceptor)
{
	if (!acceptor)
		return NULL;
	if (acceptor->readable)
		event_free(acceptor->readable);
	if (acceptor->resume)
		event_free(acceptor->resume);
	close(acceptor->fd);
	free(acceptor);
	return NULL;
}
