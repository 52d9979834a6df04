/* SPDX-License-Identifier: Apache-2.0 */
/* The client of the store against a server of this process that answers what a test says, and the table that is
 * read. */
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "analyzers/fleet/fleet_store.h"

#include "tests/test.h"

#define REQUEST_BYTES 8192
#define MS_MAX 300	 /* of a query of a store that does not answer */
#define MS_PATIENT 60000 /* of another one, under any load */

static struct {
	int fd;
	char url[64];
	const char *status; /* of the answer; NULL: none, the client waits */
	const char *body;
	char request[REQUEST_BYTES];
} server;

/* Headers and, after an empty line, the form in one write of curl's. */
static void receive(int fd)
{
	size_t used = 0;

	server.request[0] = 0;
	while (used < REQUEST_BYTES - 1 && !strstr(server.request, "query=")) {
		ssize_t n = recv(fd, server.request + used, REQUEST_BYTES - 1 - used, 0);

		if (n <= 0)
			break;
		used += (size_t)n;
		server.request[used] = 0;
	}
}

static void *serve_one(void *arg)
{
	int fd = accept4(server.fd, NULL, NULL, SOCK_CLOEXEC);
	char byte;

	receive(fd);
	if (server.status)
		dprintf(fd, "HTTP/1.1 %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s", server.status,
			strlen(server.body), server.body);
	else
		while (recv(fd, &byte, 1, 0) > 0)
			;
	close(fd);
	return NULL;
}

static int setup(void **state)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);

	unsetenv("http_proxy");
	unsetenv("all_proxy");
	unsetenv("ALL_PROXY");
	server.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (server.fd < 0 || bind(server.fd, (struct sockaddr *)&address, length) < 0 || listen(server.fd, 4) < 0 ||
		getsockname(server.fd, (struct sockaddr *)&address, &length) < 0)
		return -1;
	snprintf(server.url, sizeof(server.url), "http://127.0.0.1:%d/prefix/", ntohs(address.sin_port));
	return 0;
}

static int teardown(void **state)
{
	return server.fd >= 0 ? close(server.fd) : 0;
}

/* What was passed on. */
static struct {
	size_t samples;
	double sum;
	char job[32];
	int r; /* that the callback returns */
} heard;

static int take_value(void *arg, const json_t *labels, double value)
{
	const char *job = json_string_value(json_object_get(labels, "job"));

	heard.samples++;
	heard.sum += value;
	snprintf(heard.job, sizeof(heard.job), "%s", job ? job : "");
	return heard.r;
}

/* What a query of such an answer returns. */
static int query(const char *status, const char *body, size_t bytes_max, char error[1024])
{
	const struct fleet_api_options options = {
		.url = server.url, .bytes_max = bytes_max, .ms_max = status ? MS_PATIENT : MS_MAX};
	struct fleet_api *api = NULL;
	pthread_t thread;
	int r;

	server.status = status;
	server.body = body;
	memset(server.request, 0, sizeof(server.request));
	heard.samples = 0;
	heard.sum = 0;
	assert_int_equal(pthread_create(&thread, NULL, serve_one, NULL), 0);
	assert_int_equal(fleet_api_open(&options, &api, error, 1024), 0);
	r = fleet_api_query(api, &(struct fleet_request){"up{job=\"a&b\"}", take_value, NULL}, 1, 1.5, error, 1024);
	fleet_api_close(api);
	pthread_join(thread, NULL);
	return r;
}

#define VECTOR(samples) "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[" samples "]}}"

#define SAMPLE(job, value) "{\"metric\":{\"job\":\"" job "\"},\"value\":[1,\"" value "\"]}"

TEST(samples_are_passed_on)
{
	char error[1024] = "";

	/* A name may hold what ends a sample elsewhere; what is no number is left out. */
	assert_int_equal(
		query("200 OK",
			VECTOR(SAMPLE("gpt", "2.5") ", " SAMPLE("x", "NaN") ",{},7," SAMPLE("]},{\\\"[", "0.25")), 4096,
			error),
		0);
	assert_int_equal(heard.samples, 2);
	assert_true(heard.sum == 2.75);
	assert_string_equal(heard.job, "]},{\"[");
	assert_non_null(strstr(server.request, "POST /prefix/api/v1/query HTTP/1.1"));
	assert_non_null(strstr(server.request, "query=up%7Bjob%3D%22a%26b%22%7D&time=1.500&nocache=1"));
	assert_int_equal(query("200 OK", VECTOR(""), 4096, error), 0);
	assert_int_equal(heard.samples, 0);
}

#define SEVERAL (FLEET_API_PARALLEL + 2)

/* Of the query before, which failed: asked, and closed before it was accepted. */
static bool is_gone(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* The number that a client asks for; one that is gone has none. */
static int accept_number(int *ret_fd)
{
	for (;;) {
		const char *query;

		*ret_fd = accept4(server.fd, NULL, NULL, SOCK_CLOEXEC);
		assert_true(*ret_fd >= 0);
		receive(*ret_fd);
		query = strstr(server.request, "query=");
		if (query && !is_gone(*ret_fd))
			return atoi(query + 6);
		close(*ret_fd);
	}
}

/* Answers none before FLEET_API_PARALLEL are asked, the first of them last. Query N: N + 1; the one that fails is
 * refused. */
static void *serve_several(void *arg)
{
	const int *fails = arg;
	int fd[SEVERAL], number[SEVERAL];

	for (size_t begin = 0, end = FLEET_API_PARALLEL; begin < SEVERAL; begin = end, end = SEVERAL) {
		for (size_t i = begin; i < end; i++)
			number[i] = accept_number(&fd[i]);
		for (size_t i = end; i > begin; i--) {
			char body[256];

			snprintf(body, sizeof(body), VECTOR("{\"metric\":{},\"value\":[1,\"%d\"]}"), number[i - 1] + 1);
			if (number[i - 1] == *fails)
				snprintf(body, sizeof(body), "{\"error\":\"no\"}");
			dprintf(fd[i - 1], "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s",
				strlen(body), body);
			close(fd[i - 1]);
		}
		if (*fails >= 0)
			break;
	}
	return NULL;
}

static int sum(void *arg, const json_t *labels, double value)
{
	*(double *)arg += value;
	return 0;
}

/* Each gets its own answer; the first that fails ends all, and the next are asked as before. */
TEST(several_at_a_time)
{
	const struct fleet_api_options options = {.url = server.url, .bytes_max = 4096, .ms_max = 60000};
	struct fleet_request request[SEVERAL];
	struct fleet_api *api = NULL;
	char error[1024] = "", query[SEVERAL][24];

	signal(SIGPIPE, SIG_IGN); /* who has failed closes the other connections */
	assert_int_equal(fleet_api_open(&options, &api, error, sizeof(error)), 0);
	for (int fails = 1; fails >= -1; fails -= 2) {
		double value[SEVERAL] = {0};
		pthread_t thread;
		int r;

		for (size_t i = 0; i < SEVERAL; i++) {
			snprintf(query[i], sizeof(query[i]), "%zu", i);
			request[i] = (struct fleet_request){query[i], sum, &value[i]};
		}
		assert_int_equal(pthread_create(&thread, NULL, serve_several, &fails), 0);
		r = fleet_api_query(api, request, SEVERAL, 1.5, error, sizeof(error));
		pthread_join(thread, NULL);
		assert_int_equal(r, fails < 0 ? 0 : -EINVAL);
		for (size_t i = 0; fails < 0 && i < SEVERAL; i++)
			assert_true(value[i] == (double)i + 1);
	}
	assert_non_null(strstr(error, "the store refuses a query (HTTP 200): no"));
	fleet_api_close(api);
}

/* Whoever reads the samples may end it, and knows why. */
TEST(the_reader_may_end_it)
{
	char error[1024] = "";

	heard.r = -E2BIG;
	assert_int_equal(query("200 OK", VECTOR(SAMPLE("gpt", "1") "," SAMPLE("gpt", "1")), 4096, error), -E2BIG);
	heard.r = 0;
	assert_int_equal(heard.samples, 1);
}

/* In pieces of any size, an answer is the same. */
TEST(pieces_are_one_answer)
{
	static struct fleet_stream stream;
	const char *answer = VECTOR(SAMPLE("a\\\\", "1") "," SAMPLE("b", "2"));

	for (size_t piece = 1; piece <= strlen(answer); piece++) {
		json_t *envelope;

		heard.samples = 0;
		fleet_stream_begin(&stream, take_value, NULL);
		for (size_t at = 0; at < strlen(answer); at += piece)
			assert_int_equal(fleet_stream_feed(&stream, answer + at, strnlen(answer + at, piece)), 0);
		assert_int_equal(heard.samples, 2);
		envelope = fleet_stream_end(&stream);
		assert_string_equal(json_string_value(json_object_get(envelope, "status")), "success");
		json_decref(envelope);
	}
}

TEST(every_failure_is_a_sentence)
{
	static const struct {
		const char *status, *body;
		int r;
		const char *said;
	} rows[] = {
		{"200 OK", "<html>hello</html>", -EPROTO, "is no Prometheus API (HTTP 200)"},
		{"200 OK", "", -EPROTO, "is no Prometheus API"},
		{"200 OK", "{\"status\":\"success\",\"data\":[]}", -EPROTO, "is no Prometheus API"},
		{"200 OK", "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[]}}", -EPROTO,
			"is no Prometheus API"},
		{"200 OK", "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":{}}}", -EPROTO,
			"is no Prometheus API"},
		{"200 OK", VECTOR("{\"metric\":{,\"value\":[1,\"1\"]}"), -EPROTO, "is no Prometheus API"},
		{"200 OK", VECTOR("{\"metric\":{}"), -EPROTO, "is no Prometheus API"},
		{"302 Found", "", -EPROTO, "is no Prometheus API (HTTP 302)"},
		{"404 Not Found", "404 page not found", -EPROTO, "is no Prometheus API (HTTP 404)"},
		{"401 Unauthorized", "who?", -EACCES, "refuses access (HTTP 401)"},
		{"401 Unauthorized", "<script>f({a: [{b: [1] ]}</script>", -EACCES, "refuses access (HTTP 401)"},
		{"403 Forbidden", "{}", -EACCES, "refuses access (HTTP 403)"},
		{"422 Unprocessable Entity",
			"{\"status\":\"error\",\"error\":\"query processing would load too many samples\"}", -EINVAL,
			"refuses a query (HTTP 422): query processing would load too many samples"},
		{"503 Service Unavailable", "starting", -EHOSTUNREACH, "is not ready (HTTP 503)"},
		{NULL, NULL, -ETIMEDOUT, "no answer from http://127.0.0.1:"},
	};
	char error[1024];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		error[0] = 0;
		assert_int_equal(query(rows[i].status, rows[i].body, 4096, error), rows[i].r);
		assert_non_null(strstr(error, rows[i].said));
		assert_int_equal(heard.samples, 0);
	}
}

TEST(an_answer_that_is_too_large_is_refused)
{
	char error[1024] = "", body[8192];

	memset(body, ' ', sizeof(body) - 1);
	body[sizeof(body) - 1] = 0;
	assert_int_equal(query("200 OK", body, 4096, error), -EFBIG);
	assert_non_null(strstr(error, "larger than 4096 bytes; --job"));
}

/* JSON within JSON within JSON, and a sample without an end. */
TEST(a_sample_is_bounded)
{
	static char body[2 * FLEET_STREAM_SAMPLE];
	char error[1024] = "";

	memset(body, '[', sizeof(body) - 1);
	body[sizeof(body) - 1] = 0;
	assert_int_equal(query("200 OK", body, 1 << 20, error), -EPROTO);
}

TEST(nobody_listens)
{
	const struct fleet_api_options options = {.url = "http://127.0.0.1:1", .bytes_max = 4096, .ms_max = MS_MAX};
	struct fleet_api *api = NULL;
	char error[1024] = "";

	assert_int_equal(fleet_api_open(&options, &api, error, sizeof(error)), 0);
	assert_int_equal(
		fleet_api_query(api, &(struct fleet_request){"up", take_value, NULL}, 1, 0, error, sizeof(error)),
		-EHOSTUNREACH);
	assert_non_null(strstr(error, "no store answers at http://127.0.0.1:1/api/v1/query: "));
	fleet_api_close(api);
}

TEST(a_token_is_one_line)
{
	char path[] = "/tmp/test_fleet_token.XXXXXX", error[1024];
	int fd = mkstemp(path);
	struct fleet_api_options options = {.url = "ftp://store", .bytes_max = 4096, .ms_max = MS_MAX};
	struct fleet_api *api = NULL;

	assert_true(fd >= 0);
	assert_int_equal(fleet_api_open(&options, &api, error, sizeof(error)), -EINVAL);
	assert_non_null(strstr(error, "begins with http:// or https://"));
	options.url = "http://127.0.0.1:1";
	options.token_file = path;
	assert_int_equal(fleet_api_open(&options, &api, error, sizeof(error)), -EINVAL);
	assert_non_null(strstr(error, "holds no token"));
	assert_int_equal(write(fd, "a\r\nHost: evil\n", 14), 14);
	assert_int_equal(fleet_api_open(&options, &api, error, sizeof(error)), -EINVAL);
	assert_int_equal(ftruncate(fd, 1), 0);
	assert_int_equal(fleet_api_open(&options, &api, error, sizeof(error)), 0);
	api = fleet_api_close(api);
	options.token_file = "/nonexistent";
	assert_int_equal(fleet_api_open(&options, &api, error, sizeof(error)), -ENOENT);
	assert_non_null(strstr(error, "cannot read the token in /nonexistent: No such file"));
	close(fd);
	unlink(path);
}

/* Answers by the beginning of a query. */
struct answers {
	const char *query, *samples;
};

static char asked[64][2048];
static size_t n_asked;

static int answer(void *arg, const struct fleet_request *request, size_t count, double time_s, char *error, size_t size)
{
	static struct fleet_stream stream;
	const struct answers *rows = arg;
	int r = 0;

	(void)error, (void)size;
	/* All queries are of one time, of which scrapes have ended. */
	assert_true(time_s == (n_asked ? 1700000000.25 : 0));
	/* Those of several queries come in any order: here the last one is first. */
	for (size_t left = count; left > 0 && r == 0; left--) {
		const struct fleet_request *of = &request[left - 1];

		snprintf(asked[n_asked++ % 64], sizeof(asked[0]), "%s", of->query);
		fleet_stream_begin(&stream, of->sample, of->arg);
		for (size_t i = 0; rows[i].query; i++)
			if (strncmp(of->query, rows[i].query, strlen(rows[i].query)) == 0) {
				assert_int_equal(fleet_stream_feed(&stream, "[[", 2), 0);
				r = fleet_stream_feed(&stream, rows[i].samples, strlen(rows[i].samples));
				break;
			}
	}
	return r;
}

static bool was_asked(const char *query)
{
	bool was = false;

	for (size_t i = 0; i < n_asked; i++)
		was = was || strcmp(asked[i], query) == 0;
	return was;
}

#define WHO "\"job\":\"gpt\",\"rank\":\"3\",\"instance\":\"a:9797\""

TEST(samples_become_a_table)
{
	const struct answers rows[] = {
		{"vector(time())", "[{\"metric\":{},\"value\":[1,\"1700000003.25\"]}]"},
		{"ranktrace_build_info",
			"[{\"metric\":{\"instance\":\"a:9797\",\"node\":\"node-a\"},\"value\":[1,\"1\"]}]"},
		/* A rank twice, without a number, and of no job. */
		{"ranktrace_rank_info", "[{\"metric\":{" WHO ",\"card\":\"2\"},\"value\":[1,\"1\"]}, {\"metric\":{" WHO
					"},\"value\":[1,\"1\"]},"
					"{\"metric\":{\"job\":\"gpt\",\"rank\":\"x\"},\"value\":[1,\"1\"]}, "
					"{\"metric\":[],\"value\":[1,\"1\"]}, 7]"},
		{"ranktrace_rank_usual_activity_seconds",
			"[{\"metric\":{" WHO ",\"activity\":\"forward\"},\"value\":[1,\"0.25\"]}]"},
		{"ranktrace_rank_minute_step",
			"[{\"metric\":{" WHO
			"},\"value\":[1,\"1.5\"]}, {\"metric\":{\"job\":\"gone\"},\"value\":[1,\"9\"]},"
			"{\"metric\":{" WHO "},\"value\":[1,\"NaN\"]}, {\"metric\":{" WHO
			"},\"value\":[1]}, {\"metric\":{" WHO "},\"value\":[1,\"1x\"]}]"},
		{"ranktrace_rank_minute_activity",
			"[{\"metric\":{" WHO ",\"activity\":\"forward\"},\"value\":[1,\"0.5\"]},"
			"{\"metric\":{" WHO ",\"activity\":\"dancing\"},\"value\":[1,\"0.7\"]}]"},
		{"ranktrace_node_minute_operation", "[{\"metric\":{\"job\":\"gpt\",\"instance\":\"a:9797\",\"group\":"
						    "\"data\",\"operation\":\"all_reduce\"},\"value\":[1,\"0.2\"]}]"},
		{"sum by (job)", "[{\"metric\":{\"job\":\"gpt\"},\"value\":[1,\"7200\"]}]"},
		{"ranktrace_finding_info", "[{\"metric\":{" WHO ",\"finding\":\"17\",\"kind\":\"hang\",\"sentence\":"
					   "\"it\\nhangs \\u001b[2J\"},\"value\":[1,\"1\"]}]"},
		{"ranktrace_finding_age",
			"[{\"metric\":{\"instance\":\"a:9797\",\"finding\":\"17\"},\"value\":[1,\"60\"]}]"},
		{NULL, NULL},
	};
	struct fleet_read_options options = {.job = "g\"p\\t", .since_s = 7200};
	struct fleet fleet = {0};
	char error[1024] = "";

	n_asked = 0;
	assert_int_equal(fleet_read(&options, answer, (void *)rows, &fleet, error, sizeof(error)), 0);
	assert_int_equal(fleet.ranks, 1);
	assert_int_equal(fleet.rank[0].rank, 3);
	assert_string_equal(fleet.rank[0].card, "2");
	assert_true(fleet.rank[0].step == 1.5);
	assert_true(fleet.rank[0].act[ACTIVITY_FORWARD] == 0.5);
	assert_true(isnan(fleet.rank[0].operations));
	assert_true(fleet.recorded);
	assert_string_equal(fleet.node[fleet.rank[0].node].name, "node-a");
	assert_int_equal(fleet.operations, 1);
	assert_string_equal(fleet.operation[0].word, "all_reduce of data");
	assert_true(fleet.job[fleet.rank[0].job].lost_card_hours == 2);
	assert_int_equal(fleet.findings, 1);
	assert_string_equal(fleet.finding[0].sentence, "it hangs ?[2J");
	assert_true(fleet.finding[0].age_seconds == 60);
	fleet_free(&fleet);
	/* A name is a text of the query, never a part of it. */
	assert_true(was_asked("ranktrace_rank_minute_step_seconds{job=\"g\\\"p\\\\t\"}"));
	assert_true(was_asked(
		"quantile_over_time(0.25, ranktrace_rank_minute_step_seconds{job=\"g\\\"p\\\\t\"}[7200s:120s])"));
	assert_false(was_asked("ranktrace_rank_usual_step_seconds{job=\"g\\\"p\\\\t\"}"));
	/* Of the hour that the nodes serve, it is asked for; where there is none, it is computed. */
	n_asked = 0;
	options.since_s = FLEET_USUAL_S + 1;
	assert_int_equal(fleet_read(&options, answer, (void *)rows, &fleet, error, sizeof(error)), 0);
	assert_true(fleet.rank[0].usual[ACTIVITY_FORWARD] == 0.25);
	fleet_free(&fleet);
	assert_true(was_asked("ranktrace_rank_usual_step_seconds{job=\"g\\\"p\\\\t\"}"));
	assert_true(was_asked(
		"quantile_over_time(0.25, ranktrace_rank_minute_step_seconds{job=\"g\\\"p\\\\t\"}[3601s:60s])"));
	assert_true(was_asked("ranktrace_rank_usual_activity_seconds{job=\"g\\\"p\\\\t\"}"));
	assert_false(was_asked(
		"quantile_over_time(0.25, ranktrace_rank_minute_activity_seconds{job=\"g\\\"p\\\\t\"}[3601s:60s])"));
}

/* A store answers in any order. */
TEST(names_are_in_order)
{
	const struct answers rows[] = {
		{"vector(time())", "[{\"metric\":{},\"value\":[1,\"1700000003.25\"]}]"},
		{"ranktrace_build_info", "[{\"metric\":{\"instance\":\"x\",\"node\":\"node-10\"},\"value\":[1,\"1\"]},"
					 "{\"metric\":{\"instance\":\"y\",\"node\":\"node-9\"},\"value\":[1,\"1\"]}]"},
		{"ranktrace_rank_info",
			"[{\"metric\":{\"job\":\"z\",\"rank\":\"0\",\"instance\":\"y\"},\"value\":[1,\"1\"]},"
			"{\"metric\":{\"job\":\"a\",\"rank\":\"1\",\"instance\":\"x\"},\"value\":[1,\"1\"]},"
			"{\"metric\":{\"job\":\"a\",\"rank\":\"0\",\"instance\":\"y\"},\"value\":[1,\"1\"]}]"},
		{"ranktrace_node_minute_operation",
			"[{\"metric\":{\"job\":\"a\",\"instance\":\"x\",\"operation\":\"send\"},\"value\":[1,\"0.2\"]},"
			"{\"metric\":{\"job\":\"a\",\"instance\":\"y\",\"operation\":\"send\"},\"value\":[1,\"0.1\"]}"
			"]"},
		{"ranktrace_finding_info",
			"[{\"metric\":{\"instance\":\"x\",\"finding\":\"17\"},\"value\":[1,\"1\"]}]"},
		{NULL, NULL},
	};
	struct fleet_read_options options = {.since_s = 7200};
	struct fleet fleet = {0};
	char error[1024] = "";

	n_asked = 0;
	assert_int_equal(fleet_read(&options, answer, (void *)rows, &fleet, error, sizeof(error)), 0);
	assert_int_equal(fleet.jobs, 2);
	assert_string_equal(fleet.job[0].name, "a");
	assert_int_equal(fleet.nodes, 2);
	assert_string_equal(fleet.node[0].name, "node-9");
	assert_string_equal(fleet.node[1].name, "node-10");
	assert_int_equal(fleet.ranks, 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(fleet.rank[i].job, i == 2);
		assert_int_equal(fleet.rank[i].node, i == 1);
		assert_int_equal(fleet.rank[i].rank, i == 1);
	}
	assert_int_equal(fleet.operations, 2);
	assert_int_equal(fleet.operation[0].node, 0);
	assert_true(fleet.operation[0].now == 0.1);
	assert_int_equal(fleet.finding[0].node, 1);
	fleet_free(&fleet);
}

static int refuse(void *arg, const struct fleet_request *request, size_t count, double time_s, char *error, size_t size)
{
	(void)arg, (void)request, (void)count, (void)time_s;
	snprintf(error, size, "no");
	return -EACCES;
}

TEST(a_refusal_is_passed_on)
{
	const struct fleet_read_options options = {.since_s = 3600};
	struct fleet fleet = {0};
	char error[1024] = "";

	assert_int_equal(fleet_read(&options, refuse, NULL, &fleet, error, sizeof(error)), -EACCES);
	assert_string_equal(error, "no");
	fleet_free(&fleet);
}

TEST_MAIN(setup, teardown)
