/* SPDX-License-Identifier: Apache-2.0 */
/* The loop with modules of the test: order of a tick, systemd notifications, signals that end or reload it. */
#define TEST_ALONE /* has a file of the daemon within */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "daemon/loop.c" /* with the modules below */
#include "tests/test.h"

static char order[64]; /* first letters of the modules, of one tick */
static unsigned ticks, reloads, flushes;
static int ring[2];
static int notify = -1;

static void tick(char letter)
{
	size_t n = strlen(order);

	if (n + 1 < sizeof(order))
		order[n] = letter;
}

int kernel_drain(struct kernel *kernel)
{
	char byte;

	if (ring[0] >= 0 && read(ring[0], &byte, 1) == 1) {
		tick('R');
		return 1;
	}
	tick('d');
	return 0;
}

int kernel_fd(const struct kernel *kernel)
{
	return ring[0];
}

void collectors_tick(struct collectors *collectors, uint64_t now_ns)
{
	tick('c');
}

void rank_steps_tick(struct rank_steps *rank_steps, uint64_t now_ns)
{
	tick('s');
}

void gauges_tick(struct gauges *gauges, uint64_t now_ns)
{
}

/* A module of every tick drives the test. */
void ranks_tick(struct ranks *ranks, uint64_t now_ns)
{
	assert_true(now_ns > 0);
	tick('r');
	ticks++;
	if (ticks == 1)
		raise(SIGHUP);
	if (ticks == 12)
		raise(SIGTERM);
}

void online_tick(struct online *online, uint64_t now_ns)
{
	tick('v'); /* verdicts */
}

void guard_tick(struct guard *guard, uint64_t now_ns)
{
}

void metrics_tick(struct metrics *metrics, uint64_t now_ns)
{
}

void levels_tick(struct context *context, uint64_t now_ns)
{
	tick('l');
}

const char *level_name(enum level level)
{
	static const char *const names[] = {
#define LEVEL(id, word, on, interval_minutes) [LEVEL_##id] = word,
#include "proto/levels.def"
#undef LEVEL
	};

	return names[level];
}

uint64_t store_utc_ns(struct store *store, uint64_t now_ns)
{
	return now_ns;
}

static bool store_is_busy;

bool store_pass(struct store *store, uint64_t now_ns)
{
	tick('f');
	flushes++;
	return !store_is_busy;
}

void store_status(struct store *store, struct store_status *ret)
{
	*ret = (struct store_status){.size_bytes = 3ULL << 29};
}

size_t ranks_count(const struct ranks *ranks, enum rank_role role)
{
	assert_int_equal(role, RANK_ROLE_RANK);
	return 8;
}

static void on_reload_asked(void *arg)
{
	assert_ptr_equal(arg, &reloads);
	reloads++;
}

static char notified[4096]; /* all notifications to systemd */

static void read_notify(void)
{
	size_t n = strlen(notified);
	ssize_t r;

	while ((r = recv(notify, notified + n, sizeof(notified) - n - 2, MSG_DONTWAIT)) > 0) {
		n += (size_t)r;
		notified[n++] = '\n';
		notified[n] = 0;
	}
}

static int setup(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char pid[32];

	snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/test_loop.%d", getpid());
	notify = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (notify < 0 || bind(notify, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -1;
	setenv("NOTIFY_SOCKET", address.sun_path, 1);
	snprintf(pid, sizeof(pid), "%d", getpid());
	setenv("WATCHDOG_PID", pid, 1);
	setenv("WATCHDOG_USEC", "800000", 1);
	return pipe2(ring, O_NONBLOCK | O_CLOEXEC);
}

static int teardown(void **state)
{
	unlink(getenv("NOTIFY_SOCKET"));
	close(notify);
	return 0;
}

static void expect_in_order(const char *const *texts, size_t count)
{
	const char *at = notified;

	for (size_t i = 0; i < count; i++) {
		const char *found = strstr(at, texts[i]);

		if (!found)
			fail_msg("'%s' is not in what follows in: %s", texts[i], at);
		else
			at = found + strlen(texts[i]);
	}
}

TEST(runs_until_stopped)
{
	static const char *const expected[] = {
		"READY=1\nSTATUS=L0,L3 on; 8 ranks; 1.5 GiB stored\n",
		"RELOADING=1\nMONOTONIC_USEC=",
		"READY=1\nSTATUS=",
		"WATCHDOG=1\n",
		"WATCHDOG=1\n",
		"STOPPING=1\n",
	};
	static struct context context;
	struct loop *loop = NULL;

	context.config.flush_interval_ns = NSEC_PER_SEC;
	context.levels.on[LEVEL_L0] = context.levels.on[LEVEL_L3] = true;
	assert_int_equal(loop_open(&context, on_reload_asked, &reloads, &loop), 0);
	assert_non_null(context.base);
	assert_int_equal(write(ring[1], "x", 1), 1);
	assert_int_equal(loop_run(loop), 0);
	assert_null(loop_close(loop));
	assert_null(context.base);
	read_notify();
	expect_in_order(expected, ARRAY_SIZE(expected));
	assert_int_equal(reloads, 1);
	assert_int_equal(ticks, 12);
	assert_in_range(flushes, 1, ticks);
	/* The record that waited was read when it came and not with the tick. */
	assert_int_equal(order[0], 'R');
}

TEST(a_tick_calls_the_modules_in_order)
{
	static uint64_t due_ns[ARRAY_SIZE(duties)];
	static struct context context;
	struct loop loop = {.context = &context, .due_ns = due_ns};

	context.config.flush_interval_ns = NSEC_PER_SEC;
	memset(order, 0, sizeof(order));
	memset(due_ns, 0, sizeof(due_ns));
	ring[0] = -1;
	loop_on_tick(-1, 0, &loop);
	assert_string_equal(order, "dcsrvlf");
	/* Each next time is a period away, and what is not due is not asked. */
	assert_true(due_ns[ARRAY_SIZE(duties) - 1] > due_ns[0]);
	for (size_t i = 0; i < ARRAY_SIZE(duties); i++)
		due_ns[i] = duties[i].period_ns(&loop) == TICK_NS ? 0 : UINT64_MAX;
	memset(order, 0, sizeof(order));
	loop_on_tick(-1, 0, &loop);
	assert_string_equal(order, "dcsrv");
}

/* As if a tick later. */
static void tick_later(struct loop *loop)
{
	for (size_t i = 0; i < ARRAY_SIZE(duties); i++)
		loop->due_ns[i] -= loop->due_ns[i] > TICK_NS ? TICK_NS : 0;
	loop_on_tick(-1, 0, loop);
}

/* Rows that the writer did not take are offered with each tick, so that a slow write delays no further second of
 * rows. */
TEST(what_the_store_does_not_take_is_offered_again)
{
	static uint64_t due_ns[ARRAY_SIZE(duties)];
	static struct context context;
	struct loop loop = {.context = &context, .due_ns = due_ns};
	unsigned before = flushes;

	context.config.flush_interval_ns = NSEC_PER_SEC;
	store_is_busy = true;
	for (int i = 0; i < 3; i++)
		tick_later(&loop);
	assert_int_equal(flushes, before + 3);
	store_is_busy = false;
	for (int i = 0; i < 3; i++)
		tick_later(&loop);
	assert_int_equal(flushes, before + 4);
}

TEST_MAIN(setup, teardown)
