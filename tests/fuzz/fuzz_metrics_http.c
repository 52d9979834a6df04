/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a request for the metrics, in one or two pieces: one answer, whole, or none; and the connection ends. */
#undef NDEBUG
#include <assert.h>

#include "daemon/core/context.h"
#include "daemon/metrics/metrics_http.c" /* a client at a time, without a listener */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* No page: everything else of it is made of the daemon's own numbers. */
const struct metrics_page *metrics_page_get(struct metrics *metrics, enum metrics_format format)
{
	static char text[] = "# EOF\n";
	static struct metrics_page page = {.text = text, .used = sizeof(text) - 1};

	assert(format < METRICS_FORMAT_MAX);
	return &page;
}

static void check_answer(int fd)
{
	char answer[4096];
	ssize_t n = recv(fd, answer, sizeof(answer) - 1, MSG_DONTWAIT);

	if (n <= 0)
		return;
	answer[n] = 0;
	assert(strncmp(answer, "HTTP/1.1 ", 9) == 0 && strstr(answer, "\r\n\r\n") &&
		strstr(answer, "Content-Length: "));
	assert(!strstr(answer + 9, "HTTP/1.1 "));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct context context;
	static struct metrics metrics;
	struct metrics_http http = {.metrics = &metrics};
	size_t piece;
	int ends[2];

	if (!context.base)
		context.base = event_base_new();
	metrics.context = &context;
	TAILQ_INIT(&http.clients);
	if (size < 2 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) < 0)
		return 0;
	piece = ((size_t)data[0] << 8 | data[1]) % size;
	data += 2;
	size -= 2;
	piece = piece < size ? piece : size;
	metrics_http_on_accept(&http, ends[1]);
	(void)send(ends[0], data, piece, MSG_NOSIGNAL);
	event_base_loop(context.base, EVLOOP_NONBLOCK);
	(void)send(ends[0], data + piece, size - piece, MSG_NOSIGNAL);
	shutdown(ends[0], SHUT_WR);
	for (unsigned i = 0; i < 64 && http.count; i++)
		event_base_loop(context.base, EVLOOP_NONBLOCK);
	check_answer(ends[0]);
	assert(http.count == 0 && TAILQ_EMPTY(&http.clients));
	close(ends[0]);
	return 0;
}
