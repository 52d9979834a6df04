/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/control and daemon/request over a real socket: a child serves, with the modules it queries replaced by the few
 * functions below; the test is its client, good, bad, slow, and without rights.
 */
#define TEST_ALONE /* replaces functions of the daemon */
#include <event2/event.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include "daemon/core/context.h"
#include "daemon/control/control.h"
#include "daemon/control/request.h"
#include "daemon/kernel/uprobe.h"
#include "proto/frame.h"
#include "tests/test.h"
#include "tests/unit/control_fixture.h"

#define WAIT_MS 20000
#define NOBODY 65534
#define DETACHING_LOOKS 20 /* of 10 ms each (control.c) */

static char folder[] = "/tmp/ranktrace-test-control-XXXXXX";
static char path[sizeof(folder) + 32];
static pid_t server;

/* In the server: so often the probes of a level are still being detached. */
static unsigned detaching_left;

bool uprobe_is_detaching(void)
{
	return detaching_left && --detaching_left;
}

void uprobe_detach_wait(void)
{
	fail_msg("the loop waits");
}

static void serve(int ready)
{
	static struct context context;

	snprintf(context.config.state_dir, sizeof(context.config.state_dir), "%s", folder);
	snprintf(context.config.socket, sizeof(context.config.socket), "%s", path);
	snprintf(context.config.group, sizeof(context.config.group), "%s", "ranktrace-test-no-such-group");
	levels_defaults(&context.levels);
	context.levels.save_wait_ns = 60 * NSEC_PER_SEC;
	context.levels.apply = collectors_level;
	detaching_left = DETACHING_LOOKS;
	context.base = event_base_new();
	/* Opaque: the modules are the functions above. */
	context.kernel = (struct kernel *)&context;
	context.store = (struct store *)&context;
	context.ranks = (struct ranks *)&context;
	context.steps = (struct rank_steps *)&context;
	context.stacks = (struct stacks *)context.base; /* the fixture's timer */
	context.ops = (struct rank_coll *)&context;
	context.allocs = (struct allocs *)&context;
	context.collectors = (struct collectors *)&context;
	if (control_open(&context, &context.control) < 0)
		_exit(1);
	if (write(ready, "1", 1) != 1)
		_exit(1);
	event_base_dispatch(context.base);
	_exit(0);
}

static int start(void **state)
{
	int pipes[2];
	char byte;

	if (pipe(pipes) < 0)
		return -1;
	server = fork();
	if (server == 0) {
		close(pipes[0]);
		serve(pipes[1]);
	}
	close(pipes[1]);
	if (read(pipes[0], &byte, 1) != 1)
		return -1;
	close(pipes[0]);
	return 0;
}

/* It must have lived until now: a test that kills the server has found something. */
static int stop(void **state)
{
	int status;

	kill(server, SIGKILL);
	waitpid(server, &status, 0);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? 0 : -1;
}

static int dial(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static bool wait_readable(int fd)
{
	struct pollfd poller = {.fd = fd, .events = POLLIN};

	return poll(&poller, 1, WAIT_MS) == 1;
}

/* NULL where the other side closed, or sent what is no response. */
static Ranktrace__Response *receive(int fd)
{
	static uint8_t data[FRAME_HEADER_BYTES + FRAME_BYTES_MAX];
	char error[FRAME_ERROR_BYTES];
	struct frame frame;
	size_t size = 0;
	ssize_t n;

	for (;;) {
		enum frame_result result = frame_parse(data, size, FRAME_RESPONSE, &frame, error);
		/* Not a byte more than this frame: the next one may be in the queue. */
		size_t want = frame.size_bytes ? frame.size_bytes : FRAME_HEADER_BYTES;

		if (result == FRAME_MESSAGE)
			return ranktrace__response__unpack(NULL, frame.body_bytes, frame.body);
		if (result != FRAME_NEED_MORE || !wait_readable(fd))
			return NULL;
		n = read(fd, data + size, want - size);
		if (n <= 0)
			return NULL;
		size += (size_t)n;
	}
}

static bool closed(int fd)
{
	char byte;

	return wait_readable(fd) && read(fd, &byte, 1) <= 0;
}

static size_t pack(const Ranktrace__Request *request, uint8_t *data)
{
	size_t size = ranktrace__request__pack(request, data + FRAME_HEADER_BYTES);

	frame_header(data, FRAME_REQUEST, size);
	return size + FRAME_HEADER_BYTES;
}

static Ranktrace__Response *ask(int fd, Ranktrace__RequestType type, char *level, bool on)
{
	Ranktrace__Request request = RANKTRACE__REQUEST__INIT;
	Ranktrace__LevelSwitch item = RANKTRACE__LEVEL_SWITCH__INIT, *list[] = {&item};
	uint8_t data[256];
	size_t size;

	request.version = FRAME_VERSION;
	request.type = type;
	if (level) {
		item.level = level;
		item.on = on;
		request.n_set = 1;
		request.set = list;
	}
	size = pack(&request, data);
	return write(fd, data, size) == (ssize_t)size ? receive(fd) : NULL;
}

static void expect_alive(void)
{
	int fd = dial();
	Ranktrace__Response *response;

	assert_true(fd >= 0);
	response = ask(fd, RANKTRACE__REQUEST_TYPE__REQUEST_WHERE, NULL, false);
	assert_non_null(response);
	assert_int_equal(response->error, 0);
	assert_string_equal(response->where->state_dir, folder);
	assert_int_equal(response->where->pid, server);
	response_free(response);
	close(fd);
}

TEST_WITH(test_several_requests, start, stop)
{
	int fd = dial();
	Ranktrace__Response *response;

	response = ask(fd, RANKTRACE__REQUEST_TYPE__REQUEST_SET, (char[]){"L1"}, true);
	assert_non_null(response);
	assert_int_equal(response->error, 0);
	assert_string_equal(response->message, "L1 on: 7 probes in 1 library");
	response_free(response);
	response = ask(fd, RANKTRACE__REQUEST_TYPE__REQUEST_PRINT, NULL, false);
	assert_non_null(response);
	assert_int_equal(response->levels->n_levels, LEVEL_MAX);
	assert_true(response->levels->levels[1]->on && !response->levels->levels[2]->on);
	response_free(response);
	/* A level that fails is reported and unchanged. */
	response = ask(fd, RANKTRACE__REQUEST_TYPE__REQUEST_SET, (char[]){"L2"}, true);
	assert_non_null(response);
	assert_int_equal(response->error, EIO);
	assert_false(response->set->reports[0]->on);
	response_free(response);
	/* A level that is not one closes nothing. */
	response = ask(fd, RANKTRACE__REQUEST_TYPE__REQUEST_SET, (char[]){"L7"}, true);
	assert_non_null(response);
	assert_int_equal(response->error, EINVAL);
	assert_non_null(strstr(response->message, "'L7'"));
	response_free(response);
	close(fd);
	expect_alive();
}

static const Ranktrace__Limit *status_limit(const Ranktrace__StatusBody *body, const char *name)
{
	for (size_t i = 0; i < body->n_limits; i++)
		if (strcmp(body->limits[i]->name, name) == 0)
			return body->limits[i];
	fail_msg("no limit '%s'", name);
	return NULL;
}

TEST_WITH(test_status, start, stop)
{
	int fd = dial();
	Ranktrace__Response *response = ask(fd, RANKTRACE__REQUEST_TYPE__REQUEST_STATUS, NULL, false);
	const Ranktrace__StatusBody *body;

	assert_non_null(response);
	body = response->status;
	assert_int_equal(body->n_collectors, 1);
	assert_int_equal(body->collectors[0]->events, 4242);
	assert_int_equal(body->collectors[0]->n_notes, COLLECTOR_NOTES_MAX);
	assert_int_equal(body->ring_drops, 11);
	assert_int_equal(body->records_refused, 3);
	assert_int_equal(body->records_limited, 13);
	assert_int_equal(status_limit(body, "processes that may become ranks")->used, 7);
	assert_int_equal(body->store->rows, 99);
	assert_int_equal(body->self->ranks, 2);
	assert_true(body->self->rss_bytes > 0);
	assert_int_equal(body->operations->rows, 77);
	assert_int_equal(body->operations->late, 5);
	assert_int_equal(body->operations->allocations, 66);
	assert_int_equal(body->n_device_clocks, 256);
	assert_int_equal(body->device_clocks[0]->device, -1);
	assert_int_equal(body->device_clocks[1]->device, 0);
	assert_string_equal(body->device_clocks[1]->card, "GPU-0");
	assert_in_range(body->device_clocks[1]->offset_ns + 1000000000, 0, 2000000000);
	assert_int_equal(body->device_clocks[1]->offset_ns - body->device_clocks[1]->offset_min_ns, 4000);
	assert_true(body->device_clocks[1]->offset_min_known && !body->device_clocks[1]->offset_max_known);
	assert_true(body->device_clocks[1]->drift_ppm > 1.9 && body->device_clocks[1]->drift_ppm < 2.1);
	assert_int_equal(body->device_clocks[1]->steps, 2);
	response_free(response);
	close(fd);
}

TEST_WITH(test_many_ranks, start, stop)
{
	int fd = dial();
	Ranktrace__Response *response = ask(fd, RANKTRACE__REQUEST_TYPE__REQUEST_RANKS, NULL, false);

	assert_non_null(response);
	assert_int_equal(response->error, 0);
	assert_int_equal(response->ranks->n_ranks + response->ranks->left_out, 600);
	assert_string_equal(response->ranks->ranks[0]->stage, "backward");
	assert_int_equal(response->ranks->ranks[0]->step, 30);
	response_free(response);
	close(fd);
}

TEST_WITH(test_check, start, stop)
{
	int fd = dial();
	Ranktrace__Response *response = ask(fd, RANKTRACE__REQUEST_TYPE__REQUEST_CHECK, NULL, false);

	assert_non_null(response);
	assert_int_equal(response->error, 0);
	assert_true(response->check->n_items > 8);
	response_free(response);
	close(fd);
}

/* Sends bytes; expects a response with this error and text, and then the end. */
static void expect_refused(const void *bytes, size_t size, int error, const char *text)
{
	int fd = dial();
	Ranktrace__Response *response;

	assert_int_equal(write(fd, bytes, size), size);
	response = receive(fd);
	assert_non_null(response);
	assert_int_equal(response->error, error);
	assert_non_null(strstr(response->message, text));
	response_free(response);
	assert_true(closed(fd));
	close(fd);
	expect_alive();
}

/* An answer that comes later; others are served meanwhile, and a client that does not wait for it harms nobody. */
TEST_WITH(test_answer_later, start, stop)
{
	int waiting = dial(), leaving = dial();
	Ranktrace__Request request = RANKTRACE__REQUEST__INIT;
	Ranktrace__Response *response;
	uint8_t data[256];
	size_t size;

	request.version = FRAME_VERSION;
	request.type = RANKTRACE__REQUEST_TYPE__REQUEST_STACK;
	size = pack(&request, data);
	assert_int_equal(write(leaving, data, size), size);
	usleep(10000);
	close(leaving);
	usleep(100000);
	assert_int_equal(write(waiting, data, size), size);
	expect_alive();
	response = receive(waiting);
	assert_non_null(response);
	assert_int_equal(response->error, 0);
	/* What does not fit is left out. */
	assert_int_equal(response->stack->n_processes, 1);
	assert_int_equal(response->stack->processes[0]->pid, 77);
	assert_int_equal(response->stack->left_out, 1);
	response_free(response);
	/* The connection goes on. */
	response = ask(waiting, RANKTRACE__REQUEST_TYPE__REQUEST_WHERE, NULL, false);
	assert_non_null(response);
	response_free(response);
	close(waiting);
	expect_alive();
}

/* The answer to `set` comes when nothing is attached any more. Others are served meanwhile; nobody waits for one that
 * left. */
TEST_WITH(test_answer_held, start, stop)
{
	int waiting = dial(), leaving = dial();
	Ranktrace__Request request = RANKTRACE__REQUEST__INIT;
	Ranktrace__LevelSwitch item = RANKTRACE__LEVEL_SWITCH__INIT, *list[] = {&item};
	struct pollfd poller = {.fd = waiting, .events = POLLIN};
	Ranktrace__Response *response;
	uint8_t data[256];
	size_t size;

	item.level = (char[]){"L2"};
	request.version = FRAME_VERSION;
	request.type = RANKTRACE__REQUEST_TYPE__REQUEST_SET;
	request.n_set = 1;
	request.set = list;
	size = pack(&request, data);
	assert_int_equal(write(waiting, data, size), size);
	assert_int_equal(write(leaving, data, size), size);
	expect_alive();
	close(leaving);
	expect_alive();
	assert_int_equal(poll(&poller, 1, 0), 0);
	response = receive(waiting);
	assert_non_null(response);
	assert_int_equal(response->set->n_reports, 1);
	response_free(response);
	/* The connection goes on. */
	response = ask(waiting, RANKTRACE__REQUEST_TYPE__REQUEST_WHERE, NULL, false);
	assert_non_null(response);
	response_free(response);
	close(waiting);
	expect_alive();
}

TEST_WITH(test_garbage, start, stop)
{
	uint8_t data[FRAME_HEADER_BYTES + 16];

	expect_refused("GET / HTTP/1.1\r\n\r\n", 18, EBADMSG, "not a ranktrace control message");
	frame_header(data, FRAME_REQUEST, 16);
	memset(data + FRAME_HEADER_BYTES, 0xff, 16);
	expect_refused(data, sizeof(data), EBADMSG, "cannot be read");
	frame_header(data, FRAME_RESPONSE, 0);
	expect_refused(data, FRAME_HEADER_BYTES, EBADMSG, "type 2");
}

TEST_WITH(test_too_long, start, stop)
{
	uint8_t header[FRAME_HEADER_BYTES];

	frame_header(header, FRAME_REQUEST, FRAME_BYTES_MAX);
	expect_refused(header, sizeof(header), EBADMSG, "longer than");
}

TEST_WITH(test_other_version, start, stop)
{
	uint8_t header[FRAME_HEADER_BYTES];

	frame_header(header, FRAME_REQUEST, 0);
	header[4] = 9;
	expect_refused(header, sizeof(header), EPROTO, "control version 1, the client version 9");
}

TEST_WITH(test_half_a_frame, start, stop)
{
	Ranktrace__Request request = RANKTRACE__REQUEST__INIT;
	uint8_t data[64];
	size_t size;

	request.version = FRAME_VERSION;
	request.type = RANKTRACE__REQUEST_TYPE__REQUEST_STATUS;
	size = pack(&request, data);
	for (size_t n = 0; n < size; n++) {
		int fd = dial();

		assert_int_equal(write(fd, data, n), n);
		close(fd);
	}
	expect_alive();
}

TEST_WITH(test_two_at_once, start, stop)
{
	Ranktrace__Request request = RANKTRACE__REQUEST__INIT;
	int fd = dial();
	uint8_t data[128];
	size_t size;

	request.version = FRAME_VERSION;
	request.type = RANKTRACE__REQUEST_TYPE__REQUEST_PRINT;
	size = pack(&request, data);
	request.type = RANKTRACE__REQUEST_TYPE__REQUEST_WHERE;
	size += pack(&request, data + size);
	assert_int_equal(write(fd, data, size), size);
	for (unsigned i = 0; i < 2; i++) {
		Ranktrace__Response *response = receive(fd);

		assert_non_null(response);
		assert_int_equal(
			response->body_case, i ? RANKTRACE__RESPONSE__BODY_WHERE : RANKTRACE__RESPONSE__BODY_LEVELS);
		response_free(response);
	}
	close(fd);
}

TEST_WITH(test_a_client_too_many, start, stop)
{
	int fds[CONTROL_CLIENTS_MAX], extra;
	Ranktrace__Response *response;

	for (unsigned i = 0; i < CONTROL_CLIENTS_MAX; i++) {
		fds[i] = dial();
		assert_true(fds[i] >= 0);
		/* Answered means accepted. */
		response = ask(fds[i], RANKTRACE__REQUEST_TYPE__REQUEST_WHERE, NULL, false);
		assert_non_null(response);
		assert_int_equal(response->error, 0);
		response_free(response);
	}
	extra = dial();
	assert_true(extra >= 0);
	response = receive(extra);
	assert_non_null(response);
	assert_int_equal(response->error, EAGAIN);
	response_free(response);
	assert_true(closed(extra));
	close(extra);
	/* All others are still served; one that leaves frees a slot. */
	for (unsigned i = 0; i < CONTROL_CLIENTS_MAX; i++) {
		response = ask(fds[i], RANKTRACE__REQUEST_TYPE__REQUEST_PRINT, NULL, false);
		assert_non_null(response);
		response_free(response);
		close(fds[i]);
	}
	expect_alive();
}

/* Runs as nobody: 0 if status is readable and set refused with the sentence. */
static int as_nobody(void)
{
	Ranktrace__Response *response;
	int fd;

	if (setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
		return 10;
	fd = dial();
	if (fd < 0)
		return 11;
	response = ask(fd, RANKTRACE__REQUEST_TYPE__REQUEST_SET, (char[]){"L1"}, true);
	if (!response || response->error != EPERM || response->body_case != RANKTRACE__RESPONSE__BODY__NOT_SET ||
		!streq(response->message, "set needs root or group ranktrace-test-no-such-group"))
		return 12;
	response_free(response);
	response = ask(fd, RANKTRACE__REQUEST_TYPE__REQUEST_STATUS, NULL, false);
	if (!response || response->error || response->status->levels[1]->on)
		return 13;
	response_free(response);
	close(fd);
	return 0;
}

TEST_WITH(test_unprivileged, start, stop)
{
	pid_t child;
	int status;

	if (geteuid() != 0)
		skip();
	child = fork();
	if (child == 0)
		_exit(as_nobody());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static int make_folder(void **state)
{
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/control.sock", folder);
	signal(SIGPIPE, SIG_IGN);
	return chmod(folder, 0755);
}

static int remove_folder(void **state)
{
	char file[sizeof(path)];

	snprintf(file, sizeof(file), "%s/levels", folder);
	unlink(file);
	unlink(path);
	return rmdir(folder);
}

TEST_MAIN(make_folder, remove_folder)
