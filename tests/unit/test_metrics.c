/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics: what of a rank is counted, the two formats, bounds, hostile names, and clients over a real socket. */
#define TEST_ALONE /* replaces functions of the daemon */
#include <event2/event.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define FIXTURE_HAS_RANKS_EACH
#include "tests/unit/findings_fixture.h"
#include "daemon/gauges/gauges.h"
#include "daemon/metrics/metrics_internal.h"

static char socket_path[sizeof(dir) + 16];

#define NODE_RANKS 8

static struct rank node[NODE_RANKS]; /* in the place of ranks_here, where has_node */
static bool has_node;

/* The ranks that are here, as listed and found by slot. */
void ranks_each(const struct ranks *ranks, void (*callback)(void *arg, const struct rank *rank), void *arg)
{
	for (size_t i = 0; has_node && i < NODE_RANKS; i++)
		callback(arg, &node[i]);
	for (size_t i = 0; !has_node && i < ARRAY_SIZE(ranks_here); i++)
		if (!ranks_here[i].ended)
			callback(arg, &ranks_here[i]);
}

const struct rank *ranks_by_slot(const struct ranks *ranks, uint32_t slot)
{
	if (has_node)
		return &node[slot];
	return slot < ARRAY_SIZE(ranks_here) && !ranks_here[slot].ended ? &ranks_here[slot] : NULL;
}

static uint32_t users_here;

uint32_t ranks_users(const struct ranks *ranks)
{
	return users_here;
}

size_t ranks_count(const struct ranks *ranks, enum rank_role role)
{
	return role == RANK_ROLE_RANK ? ARRAY_SIZE(ranks_here) : 0;
}

bool collectors_status(
	struct collectors *collectors, unsigned i, const struct collector **ret_collector, struct collector_status *ret)
{
	(void)collectors, (void)i, (void)ret_collector, (void)ret;
	return false;
}

uint64_t collectors_refused(const struct collectors *collectors)
{
	return 0;
}

static int metrics_setup(void **state)
{
	if (setup(state) < 0)
		return -1;
	users_here = 1;
	context.base = event_base_new();
	snprintf(socket_path, sizeof(socket_path), "%s/m.sock", dir);
	context.config.budget_cpu_ppm = 10000;
	(void)copy_text(context.config.metrics_listen, sizeof(context.config.metrics_listen), socket_path);
	snprintf(context.config.metrics_textfile, sizeof(context.config.metrics_textfile), "%s", dir);
	assert_int_equal(metrics_new(&context, &context.metrics), 0);
	assert_non_null(context.metrics);
	return 0;
}

static int metrics_teardown(void **state)
{
	context.metrics = metrics_free(context.metrics);
	event_base_free(context.base);
	return teardown(state);
}

static const char *page(enum metrics_format format)
{
	const struct metrics_page *built;

	context.metrics->built_ns[format] = 0;
	built = metrics_page_get(context.metrics, format);
	assert_non_null(built);
	return built->text;
}

static void assert_has(const char *text, const char *line)
{
	const char *at = text;

	while ((at = strstr(at, line))) {
		if ((at == text || at[-1] == '\n') && at[strlen(line)] == '\n')
			return;
		at++;
	}
	fail_msg("no line '%s' in\n%s", line, text);
}

static void step(unsigned rank, int64_t number, uint64_t duration_ns)
{
	metrics_steps_observer.step(context.metrics, rank, 1 + rank,
		&(struct steps_step){
			.step = number, .start_ns = monotonic_ns(), .duration_ns = duration_ns, .kind = "train"});
}

static void row(unsigned rank, const char *op, uint64_t bytes, uint64_t device_ns)
{
	metrics_coll_observer.row(context.metrics, rank, 1 + rank,
		&(struct coll_row){.communicator = "",
			.op = op,
			.family = "nccl",
			.bytes = bytes,
			.peer = -1,
			.host_start_ns = monotonic_ns(),
			.host_duration_ns = 3 * MS,
			.device = device_ns > 0,
			.device_duration_ns = device_ns ? device_ns : COLL_UNKNOWN},
		1, -1);
}

TEST_WITH(test_rank, metrics_setup, metrics_teardown)
{
	struct frame_rank frame = {.here = true, .activity_ns = {[ACTIVITY_BACKWARD] = 20 * MS}};
	struct measure_rank measure = {.wait_ns = 5 * MS, .self_ns = 15 * MS};
	struct online_sample_info sample = {.cpu_ns = 70 * MS,
		.run_delay_ns = UINT64_MAX,
		.throttled_ns = UINT64_MAX,
		.major_faults = 3,
		.resident_bytes = 4096,
		.swapped_bytes = 8192};
	const char *text;

	step(1, 7, 60 * MS);
	step(1, 8, 120 * MS);
	metrics_online_observer.frame(context.metrics, 1, 2, FRAME_TIER_STAGES, &frame, &measure);
	metrics_online_observer.frame(context.metrics, 1, 2, FRAME_TIER_HOST, &frame, &measure);
	metrics_online_observer.sample(context.metrics, 1, 2, &sample);
	metrics_online_observer.sample(context.metrics, 1, 2, &sample);
	text = page(METRICS_TEXT);
	assert_has(text, "# TYPE ranktrace_rank_steps_total counter");
	assert_has(text, "ranktrace_rank_steps_total{job=\"j\",rank=\"1\",pid=\"101\"} 2");
	assert_has(text, "ranktrace_rank_step_seconds_bucket{job=\"j\",rank=\"1\",pid=\"101\",le=\"0.05\"} 0");
	assert_has(text, "ranktrace_rank_step_seconds_bucket{job=\"j\",rank=\"1\",pid=\"101\",le=\"0.1\"} 1");
	assert_has(text, "ranktrace_rank_step_seconds_bucket{job=\"j\",rank=\"1\",pid=\"101\",le=\"+Inf\"} 2");
	assert_has(text, "ranktrace_rank_step_seconds_sum{job=\"j\",rank=\"1\",pid=\"101\"} 0.180000");
	assert_has(text, "ranktrace_rank_activity_seconds_total{job=\"j\",rank=\"1\",pid=\"101\",activity=\"backward\"}"
			 " 0.040000");
	/* Frames of stages have no waits. */
	assert_has(text, "ranktrace_rank_own_seconds_total{job=\"j\",rank=\"1\",pid=\"101\",tier=\"host\"} 0.015000");
	assert_has(text, "ranktrace_rank_wait_seconds_total{job=\"j\",rank=\"1\",pid=\"101\",tier=\"host\"} 0.005000");
	assert_has(text, "ranktrace_rank_cpu_seconds_total{job=\"j\",rank=\"1\",pid=\"101\"} 0.140000");
	assert_null(strstr(text, "ranktrace_rank_run_delay_seconds_total{")); /* unknown is not 0 */
	assert_has(text, "ranktrace_rank_major_faults_total{job=\"j\",rank=\"1\",pid=\"101\"} 6");
	assert_has(text, "ranktrace_rank_resident_bytes{job=\"j\",rank=\"1\",pid=\"101\"} 4096");
	assert_has(text, "ranktrace_rank_swapped_bytes{job=\"j\",rank=\"1\",pid=\"101\"} 8192");
	assert_null(strstr(text, "# {")); /* no exemplars in this format */
	/* A rank that ended disappears, and what still comes of it does not bring it back. */
	notify_rank(&ranks_here[1], RANK_ENDED);
	step(1, 9, 60 * MS);
	assert_null(strstr(page(METRICS_TEXT), "rank=\"1\""));
}

TEST_WITH(test_openmetrics, metrics_setup, metrics_teardown)
{
	const char *text, *eof;

	step(0, 12, 700 * MS);
	text = page(METRICS_OPENMETRICS);
	assert_has(text, "# TYPE ranktrace_rank_steps counter");
	assert_has(text, "# UNIT ranktrace_rank_step_seconds seconds");
	assert_has(text, "# TYPE ranktrace_rank info");
	assert_non_null(strstr(text, "le=\"1.0\"} 1 # {step=\"12\"} 0.700000 "));
	assert_null(strstr(text, "le=\"2.0\"} 1 #"));
	eof = strstr(text, "# EOF\n");
	assert_non_null(eof);
	assert_string_equal(eof, "# EOF\n");
}

TEST_WITH(test_operations, metrics_setup, metrics_teardown)
{
	const char *text;
	char op[24];

	row(0, "AllReduce", 1 << 20, 0);
	row(0, "AllReduce", 1 << 20, 0);
	row(0, "AllReduce", 1 << 20, 2 * MS);
	row(0, "AllReduce", (1 << 20) + 1, 0);
	text = page(METRICS_TEXT);
	assert_has(text, "ranktrace_collectives_total{job=\"j\",rank=\"0\",pid=\"100\",group=\"unclear\",operation="
			 "\"AllReduce\",size=\"1Mi\",tier=\"host\"} 2");
	assert_has(text, "ranktrace_collective_seconds_total{job=\"j\",rank=\"0\",pid=\"100\",group=\"unclear\","
			 "operation=\"AllReduce\",size=\"1Mi\",tier=\"device\"} 0.002000");
	assert_has(text, "ranktrace_collective_bytes_total{job=\"j\",rank=\"0\",pid=\"100\",group=\"unclear\","
			 "operation=\"AllReduce\",size=\"16Mi\",tier=\"host\"} 1048577");
	/* Beyond the bound: counted together. */
	for (unsigned i = 0; i < 2 * LIMIT_METRIC_OPS; i++) {
		snprintf(op, sizeof(op), "Op%u", i);
		row(0, op, 8, 0);
	}
	text = page(METRICS_TEXT);
	snprintf(op, sizeof(op), "%u", 2 * LIMIT_METRIC_OPS - (LIMIT_METRIC_OPS - 3));
	snprintf(op, sizeof(op), "\"host\"} %u\n", LIMIT_METRIC_OPS + 3);
	assert_non_null(strstr(strstr(text, "operation=\"other\",size=\"unknown\""), op));
	assert_int_equal(context.metrics->slot[0]->ops, LIMIT_METRIC_OPS + 1);
}

/* A thousand durations from 1 to 1000 ms, a minute later others, and then none. */
TEST(test_quantiles)
{
	struct metrics_window window = {0};
	uint64_t now_ns = 1000 * NSEC_PER_SEC;

	assert_true(isnan(metrics_window_quantile_s(&window, now_ns, 0.5)));
	for (unsigned i = 1; i <= 1000; i++)
		metrics_window_add(&window, now_ns, i * MS);
	assert_true(fabs(metrics_window_quantile_s(&window, now_ns, 0.5) / 0.5 - 1) < 0.1);
	assert_true(fabs(metrics_window_quantile_s(&window, now_ns, 0.99) / 0.99 - 1) < 0.1);
	for (unsigned i = 1; i <= 3000; i++)
		metrics_window_add(&window, now_ns + 61 * NSEC_PER_SEC, 5000 * MS);
	assert_true(fabs(metrics_window_quantile_s(&window, now_ns + 61 * NSEC_PER_SEC, 0.2) / 0.8 - 1) < 0.1);
	assert_true(fabs(metrics_window_quantile_s(&window, now_ns + 130 * NSEC_PER_SEC, 0.01) / 5 - 1) < 0.1);
	assert_true(isnan(metrics_window_quantile_s(&window, now_ns + 181 * NSEC_PER_SEC, 0.5)));
	metrics_window_add(&window, now_ns + 300 * NSEC_PER_SEC, UINT64_MAX / 2);
	metrics_window_add(&window, now_ns + 300 * NSEC_PER_SEC, 0);
	assert_false(isnan(metrics_window_quantile_s(&window, now_ns + 300 * NSEC_PER_SEC, 1)));
}

/* 5 s of steps of so many ms, half of them compared: a tenth of each is data loading. */
static void five_seconds(struct metrics_minute *minute, struct metrics_minute_sums *sums, unsigned step_ms)
{
	unsigned steps = 5000 / step_ms;

	sums->steps += steps;
	sums->step_ns += steps * step_ms * MS;
	sums->activity_ns[ACTIVITY_DATALOADER] += steps * step_ms * MS / 20;
	sums->activity_ns[ACTIVITY_BACKWARD] += steps * step_ms * MS * 9 / 20;
	sums->operations_ns += steps * step_ms * MS / 4;
	metrics_minute_tick(minute, sums);
}

TEST(test_minutes)
{
	struct metrics_minute minute;
	struct metrics_minute_sums sums = {.l1 = true};

	metrics_minute_init(&minute);
	metrics_minute_tick(&minute, &sums);
	five_seconds(&minute, &sums, 500);
	assert_true(isnan(minute.step.now)); /* less than 10 s */
	for (unsigned i = 0; i < 12; i++)
		five_seconds(&minute, &sums, 500);
	assert_true(fabs(minute.step.now - 0.5) < 1e-6 && fabs(minute.step.usual - 0.5) < 1e-6);
	assert_true(fabs(minute.activity[ACTIVITY_DATALOADER].now - 0.05) < 1e-6);
	assert_true(fabs(minute.activity[ACTIVITY_BACKWARD].usual - 0.45) < 1e-6);
	assert_true(fabs(minute.operations.now - 0.125) < 1e-6);
	/* Half of the minute is slower, then all of it, for a third of the hour. */
	for (unsigned i = 0; i < 6; i++)
		five_seconds(&minute, &sums, 1000);
	assert_true(fabs(minute.step.now - 60.0 / 90) < 1e-6);
	for (unsigned i = 0; i < 39 * 12; i++)
		five_seconds(&minute, &sums, 500);
	for (unsigned i = 0; i < 20 * 12; i++)
		five_seconds(&minute, &sums, 1000);
	assert_true(fabs(minute.step.now - 1) < 1e-6 && fabs(minute.step.usual - 0.5) < 1e-6);
	/* For three quarters of it, it is usual. */
	for (unsigned i = 0; i < 30 * 12; i++)
		five_seconds(&minute, &sums, 1000);
	assert_true(fabs(minute.step.usual - 1) < 1e-6);
	/* A window in which L1 was off has no operations; one without steps has no means. */
	sums.l1 = false;
	five_seconds(&minute, &sums, 1000);
	sums.l1 = true;
	for (unsigned i = 0; i < 12; i++)
		five_seconds(&minute, &sums, 1000);
	assert_true(isnan(minute.operations.now));
	five_seconds(&minute, &sums, 1000);
	assert_false(isnan(minute.operations.now));
	for (unsigned i = 0; i < 12; i++)
		metrics_minute_tick(&minute, &sums);
	assert_true(isnan(minute.step.now) && isnan(minute.activity[ACTIVITY_BACKWARD].now));
	assert_true(fabs(minute.step.usual - 1) < 1e-6);
}

/* Operations of a node: of its two ranks of a job together, and not for longer than they live. */
TEST_WITH(test_node_minutes, metrics_setup, metrics_teardown)
{
	uint64_t now_ns = 1000 * NSEC_PER_SEC;
	const char *text;

	context.levels.on[LEVEL_L1] = true;
	for (unsigned i = 0; i < 4; i++) {
		for (unsigned rank = 0; rank < 2; rank++) {
			step(rank, i, 1000 * MS);
			row(rank, "AllReduce", 1 << 20, 0);
			row(rank, "AllReduce", 1 << 10, 0);
		}
		metrics_minutes_tick(context.metrics, now_ns += 5 * NSEC_PER_SEC);
		metrics_minutes_tick(context.metrics, now_ns + NSEC_PER_SEC); /* not due */
	}
	text = page(METRICS_TEXT);
	assert_has(text, "ranktrace_rank_minute_step_seconds{job=\"j\",rank=\"1\",pid=\"101\"} 1");
	assert_has(text, "ranktrace_rank_minute_operations_seconds{job=\"j\",rank=\"1\",pid=\"101\"} 0.006");
	assert_has(text,
		"ranktrace_node_minute_operation_seconds{job=\"j\",group=\"unclear\",operation=\"AllReduce\"} 0.006");
	assert_null(strstr(text, "ranktrace_rank_usual_step_seconds{")); /* not a minute yet */
	for (unsigned rank = 0; rank < 2; rank++)
		notify_rank(&ranks_here[rank], RANK_ENDED);
	metrics_minutes_tick(context.metrics, now_ns + 5 * NSEC_PER_SEC);
	assert_int_equal(context.metrics->node_ops, 0);
	context.levels.on[LEVEL_L1] = false;
}

static struct finding finding_of(uint64_t id, double hours, enum finding_state now)
{
	struct finding finding = {.id = id,
		.kind = FINDING_SLOW_RANK,
		.cause = CAUSE_DATALOADER,
		.state = now,
		.severity = SEVERITY_WARNING,
		.activity = ACTIVITY_DATALOADER,
		.job = "j",
		.rank = 3,
		.card = "2",
		.slowdown = 1.25,
		.cost_card_hours = hours};

	snprintf(finding.sentence, sizeof(finding.sentence), "rank 3 lost %g hours", hours);
	return finding;
}

static void publish(uint64_t id, double hours, enum finding_state now)
{
	struct finding finding = finding_of(id, hours, now);

	sink.finding(sink.arg, &finding);
}

TEST_WITH(test_findings, metrics_setup, metrics_teardown)
{
	char line[400];
	const char *text;

	publish(5, 0.5, FINDING_SUSPECTED);
	assert_null(strstr(page(METRICS_TEXT), "ranktrace_finding_info"));
	publish(5, 1, FINDING_OPEN);
	publish(5, 2, FINDING_OPEN);
	text = page(METRICS_TEXT);
	/* The sentence of the newest change, not of each growth of its cost: a label is a series. */
	snprintf(line, sizeof(line),
		"ranktrace_finding_info{finding=\"%llu\",job=\"j\",rank=\"3\",card=\"2\",kind=\"slow_rank\",severity="
		"\"warning\",cause=\"dataloader\","
		"activity=\"dataloader\",sentence=\"rank 3 lost 1 hours\"} 1",
		(unsigned long long)context.findings->id_base + 5);
	assert_has(text, line);
	assert_has(text, "ranktrace_findings_open{kind=\"slow_rank\",severity=\"warning\",cause=\"dataloader\"} 1");
	assert_has(text, "ranktrace_lost_card_seconds_total{job=\"j\",rank=\"3\",kind=\"slow_rank\",cause="
			 "\"dataloader\"} 7200.000000");
	/* A cost that is corrected downwards does not decrease a counter. */
	publish(5, 1.5, FINDING_OPEN);
	publish(5, 3, FINDING_CLOSED);
	publish(6, 1, FINDING_OPEN);
	text = page(METRICS_TEXT);
	assert_has(text, "ranktrace_lost_card_seconds_total{job=\"j\",rank=\"3\",kind=\"slow_rank\",cause="
			 "\"dataloader\"} 14400.000000");
	assert_has(text, "ranktrace_findings_total{kind=\"slow_rank\",cause=\"dataloader\"} 2");
	assert_null(strstr(text, "rank 3 lost 3 hours"));
	for (unsigned i = 0; i < LIMIT_METRIC_FINDINGS + 2; i++)
		publish(100 + i, 1, FINDING_OPEN);
	assert_has(page(METRICS_TEXT), "ranktrace_findings_left_out 3");
}

TEST_WITH(test_hostile_names, metrics_setup, metrics_teardown)
{
	const char *text;

	(void)copy_text(ranks_here[0].env.job, sizeof(ranks_here[0].env.job), "a\"} 1\nx\\\xff\x1b");
	step(0, 1, MS);
	text = page(METRICS_TEXT);
	assert_has(text, "ranktrace_rank_steps_total{job=\"a\\\"} 1?x\\\\??\",rank=\"0\",pid=\"100\"} 1");
}

/* A user with many ranks leaves the others' parts alone. */
TEST_WITH(test_parts_of_users, metrics_setup, metrics_teardown)
{
	users_here = LIMIT_METRIC_RANKS; /* a part is one rank */
	ranks_here[3].uid = 7;
	assert_has(page(METRICS_TEXT), "ranktrace_page_ranks_left_out 2");
	assert_non_null(strstr(page(METRICS_TEXT), "rank=\"3\",pid=\"103\""));
}

/* What a node of 8 ranks has at most: names as long as they get, all kinds of operations, and findings. */
TEST_WITH(test_size, metrics_setup, metrics_teardown)
{
	struct frame_rank frame = {.here = true};
	struct measure_rank measure = {.wait_ns = 5 * MS, .self_ns = 15 * MS};
	const struct metrics_page *built;
	char op[24];

	for (enum activity activity = 0; activity < ACTIVITY_MAX; activity++)
		frame.activity_ns[activity] = MS;
	for (unsigned i = 0; i < NODE_RANKS; i++) {
		node[i] = (struct rank){.pid = 4194300 + i,
			.instance = 1 + i,
			.slot = i,
			.env = {.rank = (int32_t)(10000 + i),
				.world_size = 16384,
				.local_rank = (int32_t)i,
				.job = "llama-405b-pretrain-2026-11-23-attempt-17",
				.card = "GPU-12345678-1234-1234-1234-1234567890ab",
				.pod = "llama-405b-pretrain-worker-0123"}};
	}
	has_node = true;
	for (unsigned i = 0; i < NODE_RANKS; i++) {
		for (unsigned j = 0; j < LIMIT_METRIC_OPS + 2; j++) {
			snprintf(op, sizeof(op), "ReduceScatter%u", j);
			row(i, op, 1 << 30, 12345678);
		}
		for (unsigned j = 0; j < 1000; j++)
			step(i, j, (1 + j % 20) * 123456789);
		metrics_online_observer.frame(context.metrics, i, 1 + i, FRAME_TIER_HOST, &frame, &measure);
		metrics_online_observer.frame(context.metrics, i, 1 + i, FRAME_TIER_DEVICE, &frame, &measure);
		metrics_online_observer.sample(
			context.metrics, i, 1 + i, &(struct online_sample_info){.resident_bytes = 1ULL << 40});
		publish(i, 1, FINDING_OPEN);
	}
	context.levels.on[LEVEL_L1] = true;
	for (unsigned tick = 0; tick < METRICS_MINUTE_TICKS + 2; tick++) {
		for (unsigned i = 0; i < NODE_RANKS; i++) {
			step(i, tick, 123456789);
			row(i, "ReduceScatter0", 1 << 30, 12345678);
			metrics_online_observer.frame(context.metrics, i, 1 + i, FRAME_TIER_HOST, &frame, &measure);
		}
		metrics_minutes_tick(context.metrics, (1000 + 5 * tick) * NSEC_PER_SEC);
	}
	context.levels.on[LEVEL_L1] = false;
	for (enum metrics_format format = 0; format < METRICS_FORMAT_MAX; format++) {
		(void)page(format);
		built = &context.metrics->page[format];
		print_message("format %d: %zu series, %zu bytes, %.2f ms\n", (int)format, built->series, built->used,
			(double)context.metrics->build_cpu_ns / 1e6);
		/* Beside them, a card has 21 series, and each rank one for its memory there. */
		assert_true(built->series > 900 && built->series + (21 + 1) * NODE_RANKS <= 1500);
		assert_true(built->used <= 300000);
	}
	has_node = false;
}

static void loop_for(unsigned ms)
{
	uint64_t end_ns = monotonic_ns() + ms * MS;

	while (monotonic_ns() < end_ns) {
		event_base_loop(context.base, EVLOOP_NONBLOCK);
		usleep(1000);
	}
}

static int client(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	assert_true(copy_text(address.sun_path, sizeof(address.sun_path), socket_path));
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* The answer to a request, up to its end. */
static void ask(const char *request, size_t bytes, char *ret, size_t size)
{
	int fd = client();
	size_t used = 0;
	ssize_t n = -1;

	assert_int_equal(write(fd, request, bytes), bytes);
	for (unsigned i = 0; i < 2000 && n != 0; i++) {
		event_base_loop(context.base, EVLOOP_NONBLOCK);
		n = read(fd, ret + used, size - 1 - used);
		used += n > 0 ? (size_t)n : 0;
		if (n < 0)
			usleep(1000);
	}
	assert_int_equal(n, 0);
	ret[used] = 0;
	close(fd);
}

TEST_WITH(test_http, metrics_setup, metrics_teardown)
{
	static char answer[1 << 20], large[LIMIT_METRIC_REQUEST_BYTES + 10];
	static const struct {
		const char *request, *begin;
	} cases[] = {
		{"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n",
			"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"},
		{"GET /metrics?x=1 HTTP/1.0\r\naccept: application/openmetrics-text;version=1.0.0,*/*;q=0.1\r\n\r\n",
			"HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0"},
		{"HEAD /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK"},
		{"POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 "},
		{"GET /metricsx HTTP/1.1\r\n\r\n", "HTTP/1.1 404 "},
		{"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 404 "},
		{"GET\r\n\r\n", "HTTP/1.1 400 "},
		{"\r\n\r\n", "HTTP/1.1 400 "},
	};
	const char *body;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		ask(cases[i].request, strlen(cases[i].request), answer, sizeof(answer));
		if (strncmp(answer, cases[i].begin, strlen(cases[i].begin)) != 0)
			fail_msg("%s: %.200s", cases[i].request, answer);
	}
	ask(cases[0].request, strlen(cases[0].request), answer, sizeof(answer));
	body = strstr(answer, "\r\n\r\n") + 4;
	assert_int_equal(strtoul(strstr(answer, "Content-Length: ") + 16, NULL, 10), strlen(body));
	ask(cases[2].request, strlen(cases[2].request), answer, sizeof(answer));
	assert_string_equal(strstr(answer, "\r\n\r\n"), "\r\n\r\n");
	memset(large, 'a', sizeof(large));
	ask(large, LIMIT_METRIC_REQUEST_BYTES, answer, sizeof(answer));
	assert_int_equal(strncmp(answer, "HTTP/1.1 431 ", 13), 0);
	ask("GET /metrics HTTP/1.1\r\na: \0\r\n\r\n", 31, answer, sizeof(answer));
	assert_int_equal(strncmp(answer, "HTTP/1.1 400 ", 13), 0);
}

/* Silent clients fill the places; the oldest loses its own to a new one, all of them after their time. */
TEST_WITH(test_clients_bounded, metrics_setup, metrics_teardown)
{
	int fd[LIMIT_METRIC_CLIENTS + 1];
	char byte;

	for (size_t i = 0; i < ARRAY_SIZE(fd); i++) {
		fd[i] = client();
		loop_for(5);
	}
	assert_int_equal(read(fd[0], &byte, 1), 0);
	assert_int_equal(read(fd[1], &byte, 1), -1);
	assert_int_equal(context.metrics->refused, 1);
	assert_int_equal(write(fd[LIMIT_METRIC_CLIENTS], "GET /metrics HTTP/1.1\r\n\r\n", 25), 25);
	loop_for(20);
	assert_int_equal(read(fd[LIMIT_METRIC_CLIENTS], &byte, 1), 1);
	assert_int_equal(byte, 'H');
	close(fd[LIMIT_METRIC_CLIENTS]);
	loop_for(LIMIT_METRIC_CLIENT_S * 1000 + 200);
	for (size_t i = 0; i < LIMIT_METRIC_CLIENTS; i++) {
		assert_int_equal(read(fd[i], &byte, 1), 0);
		close(fd[i]);
	}
	assert_int_equal(context.metrics->refused, LIMIT_METRIC_CLIENTS);
}

TEST_WITH(test_page_once_a_second, metrics_setup, metrics_teardown)
{
	const struct metrics_page *first = metrics_page_get(context.metrics, METRICS_TEXT);
	uint64_t built_ns = context.metrics->built_ns[METRICS_TEXT];

	assert_ptr_equal(metrics_page_get(context.metrics, METRICS_TEXT), first);
	assert_int_equal(context.metrics->built_ns[METRICS_TEXT], built_ns);
	context.metrics->built_ns[METRICS_TEXT] -= NSEC_PER_SEC;
	(void)metrics_page_get(context.metrics, METRICS_TEXT);
	assert_true(context.metrics->built_ns[METRICS_TEXT] > built_ns);
}

/* What the drivers of cards and the kernel say, with the rank that a process is. */
TEST_WITH(test_gauges, metrics_setup, metrics_teardown)
{
	static const struct {
		const char *name, *text;
	} files[] = {{"cards", "0 uuid GPU-1\n0 pci 0000:3b:00\n0 serial 165\n0 name H\n0 minor 3\n0 utilization 98\n0 "
			       "memory_busy 4\n0 power_mw 650500\n"
			       "0 clock_sm_mhz 1200\n0 reasons 0x04\n0 ecc_uncorrected 1\n0 processes 101 "
			       "123456789012\n1 uuid GPU-2\n1 lost 1\n"},
		{"pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"}};
	struct gauge_roots roots = {dir, dir, "/nowhere", CARD_FIXTURES "/libnvidia-ml.so.1", "no.so"};
	char path[sizeof(dir) + 32];
	const char *text = "";

	snprintf(path, sizeof(path), "%s/pressure", dir);
	assert_int_equal(mkdir(path, 0755), 0);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		FILE *f;

		snprintf(path, sizeof(path), "%s/%s", dir, files[i].name);
		f = fopen(path, "we");
		assert_non_null(f);
		fputs(files[i].text, f);
		fclose(f);
	}
	snprintf(path, sizeof(path), "%s/cards", dir);
	setenv("RANKTRACE_CARDS", path, 1);
	assert_int_equal(gauges_new_at(&context, &roots, &context.gauges), 0);
	/* A rate is known from the second sample on. */
	for (unsigned i = 0; i < 200 && !(strstr(text, "card_lost{") && strstr(text, "node_pressure")); i++) {
		usleep(50000);
		gauges_tick(context.gauges, monotonic_ns());
		text = page(METRICS_TEXT);
	}
	assert_has(text,
		"ranktrace_card_info{card=\"3\",uuid=\"GPU-1\",pci=\"0000:3b:00.0\",serial=\"165\",name=\"H\"} 1");
	assert_has(text, "ranktrace_card_utilization_ratio{card=\"3\",uuid=\"GPU-1\"} 0.98");
	assert_has(text, "ranktrace_card_power_watts{card=\"3\",uuid=\"GPU-1\"} 650.5");
	assert_has(text, "ranktrace_card_clock_hertz{card=\"3\",uuid=\"GPU-1\"} 1200000000");
	assert_has(text, "ranktrace_card_limited{card=\"3\",uuid=\"GPU-1\",reason=\"power\"} 1");
	assert_has(text, "ranktrace_card_limited{card=\"3\",uuid=\"GPU-1\",reason=\"thermal\"} 0");
	assert_has(text, "ranktrace_card_errors_total{card=\"3\",uuid=\"GPU-1\",error=\"ecc_uncorrected\"} 1");
	assert_has(text, "ranktrace_card_lost{card=\"\",uuid=\"GPU-2\"} 1");
	assert_has(text, "ranktrace_rank_device_bytes{job=\"j\",rank=\"1\",pid=\"101\",uuid=\"GPU-1\"} 123456789012");
	assert_has(text, "ranktrace_node_pressure_ratio{resource=\"cpu\",tasks=\"some\"} 0");
	assert_null(strstr(text, "card_temperature_celsius")); /* unknown is absent */
	context.gauges = gauges_free(context.gauges);
}

TEST_WITH(test_textfile, metrics_setup, metrics_teardown)
{
	char path[sizeof(dir) + 32];
	struct stat st = {0};

	snprintf(path, sizeof(path), "%s/ranktrace.prom", dir);
	metrics_tick(context.metrics, NSEC_PER_SEC);
	for (unsigned i = 0; i < 2000 && stat(path, &st) < 0; i++)
		usleep(1000);
	assert_true(st.st_size > 1000);
	assert_int_equal(st.st_mode & 0777, 0644);
	usleep(50000);
	assert_int_equal(unlink(path), 0);
	metrics_tick(context.metrics, 2 * NSEC_PER_SEC); /* its result; not due */
	usleep(50000);
	assert_int_equal(access(path, F_OK), -1);
	metrics_tick(context.metrics, 16 * NSEC_PER_SEC);
	for (unsigned i = 0; i < 2000 && access(path, F_OK) < 0; i++)
		usleep(1000);
	assert_int_equal(access(path, F_OK), 0);
	usleep(50000);
	context.metrics = metrics_free(context.metrics);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(access(socket_path, F_OK), -1);
}

TEST_WITH(test_off, metrics_setup, metrics_teardown)
{
	struct metrics *off = context.metrics;

	context.config.metrics_listen[0] = context.config.metrics_textfile[0] = 0;
	assert_int_equal(metrics_new(&context, &off), 0);
	assert_null(off);
	metrics_tick(off, 1);
}

TEST_MAIN(NULL, NULL)
