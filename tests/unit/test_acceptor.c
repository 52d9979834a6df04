/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/base/acceptor: clients in any number do not hold the loop. */
#include <event2/event.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/acceptor.h"
#include "daemon/base/util.h"
#include "tests/test.h"

#define CLIENTS (2 * ACCEPTOR_TURN_MAX + 3)

static struct event_base *base;
static struct acceptor *acceptor;
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static unsigned taken;

static void take(void *arg, int fd)
{
	assert_ptr_equal(arg, &taken);
	taken++;
	close(fd);
}

static int setup(void **state)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	taken = 0;
	base = event_base_new();
	snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "ranktrace-test-acceptor-%d", (int)getpid());
	if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 2 * CLIENTS) < 0)
		return -1;
	return acceptor_new(base, fd, "test", take, &taken, &acceptor);
}

static int teardown(void **state)
{
	acceptor = acceptor_free(acceptor);
	event_base_free(base);
	return 0;
}

static void connect_all(int fd[static CLIENTS], unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		fd[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(fd[i], (const struct sockaddr *)&address, sizeof(address)), 0);
	}
}

TEST_WITH(test_turns, setup, teardown)
{
	int fd[CLIENTS];

	connect_all(fd, CLIENTS);
	event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	assert_int_equal(taken, ACCEPTOR_TURN_MAX);
	event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	assert_int_equal(taken, 2 * ACCEPTOR_TURN_MAX);
	event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	assert_int_equal(taken, CLIENTS);
	event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	assert_int_equal(taken, CLIENTS);
	for (unsigned i = 0; i < CLIENTS; i++)
		close(fd[i]);
}

/* Without a descriptor it rests, and does not spin. */
TEST_WITH(test_rests, setup, teardown)
{
	struct rlimit limit, none;
	int fd[CLIENTS];

	connect_all(fd, 1);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	assert_int_equal(taken, 0);
	event_base_loop(base, EVLOOP_ONCE); /* until the rest is over */
	event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	assert_int_equal(taken, 1);
	close(fd[0]);
}

TEST_MAIN(NULL, NULL)
