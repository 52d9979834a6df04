/* SPDX-License-Identifier: Apache-2.0 */
/* The event loop (daemon.h): schedules the modules' duties. */
#include <fcntl.h>
#include <event2/event.h>
#include <signal.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>
#include "analyzers/base/units.h"
#include "daemon/collect/collector.h"
#include "daemon/core/context.h"
#include "daemon/dump/dumps.h"
#include "daemon/findings/online.h"
#include "daemon/gauges/gauges.h"
#include "daemon/guard/guard.h"
#include "daemon/kernel/kernel.h"
#include "daemon/base/lag.h"
#include "daemon/base/log.h"
#include "daemon/base/log_limit.h"
#include "daemon/base/procfs.h"
#include "daemon/daemon.h"
#include "daemon/metrics/metrics.h"
#include "daemon/ranks/ranks.h"
#include "daemon/steps/rank_steps.h"
#include "daemon/store/store.h"

#define TICK_NS (100 * NSEC_PER_MSEC)
#define STATUS_NS (5 * NSEC_PER_SEC)
#define LAST_DRAINS_MAX 20 /* at the stop: 1 s */

static const int signals[] = {SIGTERM, SIGINT, SIGHUP};

struct loop {
	struct context *context;
	void (*reload)(void *arg);
	void *reload_arg;
	struct event *signal[ARRAY_SIZE(signals)];
	struct event *tick;
	struct event *ring;
	uint64_t watchdog_ns;	 /* 0: no systemd watchdog */
	int drain_error;	 /* last error: each is logged once */
	bool store_waits;	 /* for its writer: the next batch is passed as soon as that is done */
	uint64_t *due_ns;	 /* of duties[] */
	struct lag_place *place; /* NULL: where the loop waits is not read */
	int schedstat_fd;	 /* of its thread; -1: the kernel does not count */
};

/* 1: a drain that ended at its bound has left records. */
static int loop_drain_some(struct loop *loop)
{
	uint64_t begin_ns = monotonic_ns();
	int r = kernel_drain(loop->context->kernel);

	if (r == 0)
		loop->context->drained_ns = begin_ns;
	if (r < 0 && r != loop->drain_error)
		log_error_errno("loop", r, "cannot read the ring, trying again every 100 ms");
	loop->drain_error = r < 0 ? r : 0;
	return r;
}

static void loop_drain(struct loop *loop, uint64_t now_ns)
{
	(void)loop_drain_some(loop);
}

/* Records of before the stop. What ranks send meanwhile has no end. */
static void loop_drain_last(struct loop *loop)
{
	for (unsigned i = 0; i < LAST_DRAINS_MAX && loop_drain_some(loop) > 0; i++)
		;
}

static void loop_tick_collectors(struct loop *loop, uint64_t now_ns)
{
	collectors_tick(loop->context->collectors, now_ns);
}

static void loop_tick_steps(struct loop *loop, uint64_t now_ns)
{
	rank_steps_tick(loop->context->steps, now_ns);
}

static void loop_tick_ranks(struct loop *loop, uint64_t now_ns)
{
	ranks_tick(loop->context->ranks, now_ns);
}

static void loop_tick_findings(struct loop *loop, uint64_t now_ns)
{
	online_tick(loop->context->findings, now_ns);
}

static void loop_tick_gauges(struct loop *loop, uint64_t now_ns)
{
	gauges_tick(loop->context->gauges, now_ns);
}

static void loop_tick_levels(struct loop *loop, uint64_t now_ns)
{
	levels_tick(loop->context, now_ns);
}

static void loop_tick_guard(struct loop *loop, uint64_t now_ns)
{
	guard_tick(loop->context->guard, now_ns);
}

static void loop_tick_metrics(struct loop *loop, uint64_t now_ns)
{
	metrics_tick(loop->context->metrics, now_ns);
}

static void loop_tick_log(struct loop *loop, uint64_t now_ns)
{
	log_limit_tick(now_ns);
}

static void loop_tick_dumps(struct loop *loop, uint64_t now_ns)
{
	dumps_tick(loop->context->dumps, now_ns);
}

static void loop_pass_rows(struct loop *loop, uint64_t now_ns)
{
	struct store *store = loop->context->store;

	loop->store_waits = !store_pass(store, store_utc_ns(store, now_ns));
}

/* Status for `systemctl status`: "L0,L3 on; 8 ranks; 1.2 GiB stored". */
static void loop_describe(const struct context *context, char *text, size_t size)
{
	struct store_status store = {0};
	char on[64] = "", stored[UNITS_BYTES];
	size_t used = 0, ranks = ranks_count(context->ranks, RANK_ROLE_RANK);

	store_status(context->store, &store);
	for (enum level l = 0; l < LEVEL_MAX; l++)
		if (context->levels.on[l] && used < sizeof(on))
			used += (size_t)snprintf(on + used, sizeof(on) - used, "%s%s", used ? "," : "", level_name(l));
	snprintf(text, size, "%s on; %zu %s; %s stored", used ? on : "nothing", ranks, ranks == 1 ? "rank" : "ranks",
		units_size(store.size_bytes, stored));
}

static void loop_notify_status(struct loop *loop, uint64_t now_ns)
{
	char text[128];

	loop_describe(loop->context, text, sizeof(text));
	sd_notifyf(0, "STATUS=%s", text);
}

static void loop_notify_watchdog(struct loop *loop, uint64_t now_ns)
{
	if (loop->watchdog_ns)
		sd_notify(0, "WATCHDOG=1");
}

static uint64_t loop_every_tick(const struct loop *loop)
{
	return TICK_NS;
}

static uint64_t loop_every_second(const struct loop *loop)
{
	return NSEC_PER_SEC;
}

static uint64_t loop_every_pass(const struct loop *loop)
{
	return loop->store_waits ? TICK_NS : loop->context->config.flush_interval_ns;
}

static uint64_t loop_every_status(const struct loop *loop)
{
	return STATUS_NS;
}

static uint64_t loop_every_watchdog(const struct loop *loop)
{
	return loop->watchdog_ns ? loop->watchdog_ns : STATUS_NS;
}

/* Duties of a tick, in order: events first, so that later ones see all records from before the tick. */
static const struct duty {
	const char *name;
	void (*run)(struct loop *loop, uint64_t now_ns);
	uint64_t (*period_ns)(const struct loop *loop);
} duties[] = {
	{"ring", loop_drain, loop_every_tick},
	{"collectors", loop_tick_collectors, loop_every_tick},
	{"steps", loop_tick_steps, loop_every_tick},
	{"ranks", loop_tick_ranks, loop_every_tick},
	{"gauges", loop_tick_gauges, loop_every_second},
	{"findings", loop_tick_findings, loop_every_tick},
	{"levels", loop_tick_levels, loop_every_second},
	{"guard", loop_tick_guard, loop_every_tick},
	{"dumps", loop_tick_dumps, loop_every_second},
	{"metrics", loop_tick_metrics, loop_every_second},
	{"log", loop_tick_log, loop_every_second},
	{"store", loop_pass_rows, loop_every_pass},
	{"status", loop_notify_status, loop_every_status},
	{"watchdog", loop_notify_watchdog, loop_every_watchdog},
};

#define LAG_LONG_NS NSEC_PER_SEC
#define LAG_GOAL_NS (250 * NSEC_PER_MSEC) /* no stop is to be longer; a new maximum beyond it is logged */

/* At a tick's start. */
static void loop_measure_lag(struct loop *loop)
{
	uint64_t max_ns = loop->context->lag.max.late_ns;
	struct lag_thread thread = {0};
	char place[LAG_PLACE_BYTES];
	struct lag_stop stop;
	uint64_t most_ns;
	const char *most = lag_work_take(&most_ns);

	lag_place_turn(loop->place, TICK_NS, place);
	if (loop->schedstat_fd >= 0)
		(void)procfs_schedstat_of(loop->schedstat_fd, &thread.run_ns, &thread.ready_ns);
	stop = lag_run(&loop->context->lag, monotonic_ns(), TICK_NS, &thread);
	if (stop.late_ns >= LAG_LONG_NS || (stop.late_ns >= LAG_GOAL_NS && stop.late_ns > max_ns))
		log_warning("loop",
			"the event loop was late by %.2f s: %.2f s on a CPU, %.2f s ready without one%s%s (%.2f s for "
			"%s)",
			(double)stop.late_ns / 1e9, (double)stop.thread.run_ns / 1e9,
			(double)stop.thread.ready_ns / 1e9, place[0] ? ", it waited in the kernel in " : "", place,
			(double)most_ns / 1e9, most ? most : "nothing");
}

/* A duty runs in the last tick before its deadline: its period is an upper bound where possible. */
static void loop_on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct loop *loop = arg;

	loop_measure_lag(loop);
	for (size_t i = 0; i < ARRAY_SIZE(duties); i++) {
		uint64_t now_ns = monotonic_ns(), period_ns;

		if (now_ns + TICK_NS < loop->due_ns[i])
			continue;
		duties[i].run(loop, now_ns);
		period_ns = duties[i].period_ns(loop); /* which may depend on what the duty did */
		loop->due_ns[i] += period_ns;
		if (loop->due_ns[i] <= now_ns)
			loop->due_ns[i] = now_ns + period_ns;
		lag_work_add(duties[i].name, monotonic_ns() - now_ns);
	}
}

static void loop_on_ring(evutil_socket_t fd, short what, void *arg)
{
	uint64_t now_ns = monotonic_ns();
	struct loop *loop = arg;

	loop_drain(loop, now_ns);
	lag_work_add("records", monotonic_ns() - now_ns);
}

static void loop_on_reload(struct loop *loop)
{
	char text[128];

	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu", (unsigned long long)(monotonic_ns() / NSEC_PER_USEC));
	loop->reload(loop->reload_arg);
	loop_describe(loop->context, text, sizeof(text));
	sd_notifyf(0, "READY=1\nSTATUS=%s", text);
}

static void loop_on_signal(evutil_socket_t number, short what, void *arg)
{
	struct loop *loop = arg;

	if (number == SIGHUP) {
		loop_on_reload(loop);
		return;
	}
	log_notice("loop", "stopping: %s", strsignal((int)number));
	event_base_loopbreak(loop->context->base);
}

DEFINE_CLEANUP(struct loop *, loop_close)

int loop_open(struct context *context, void (*reload)(void *arg), void *arg, struct loop **ret)
{
	_cleanup_(loop_closep) struct loop *loop = calloc(1, sizeof(*loop));

	if (!loop)
		return -ENOMEM;
	loop->context = context;
	loop->reload = reload;
	loop->reload_arg = arg;
	loop->schedstat_fd = -1;
	loop->due_ns = calloc(ARRAY_SIZE(duties), sizeof(*loop->due_ns));
	context->base = event_base_new();
	if (!loop->due_ns || !context->base)
		return log_error_errno("loop", -ENOMEM, "cannot make the event loop");
	/* A closed connection must be a write error, not a fatal signal. */
	signal(SIGPIPE, SIG_IGN);
	/* From here on the loop handles signals: a stop during the start still closes every subsystem. */
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		loop->signal[i] = evsignal_new(context->base, signals[i], loop_on_signal, loop);
		if (!loop->signal[i] || event_add(loop->signal[i], NULL) < 0)
			return log_error_errno("loop", -ENOMEM, "cannot watch signals");
	}
	*ret = TAKE_PTR(loop);
	return 0;
}

static int loop_add_events(struct loop *loop)
{
	const struct timeval tick = {.tv_usec = TICK_NS / NSEC_PER_USEC};
	struct event_base *base = loop->context->base;
	int fd = kernel_fd(loop->context->kernel);
	uint64_t watchdog_us = 0;

	loop->tick = event_new(base, -1, EV_PERSIST, loop_on_tick, loop);
	if (!loop->tick || event_add(loop->tick, &tick) < 0)
		return log_error_errno("loop", -ENOMEM, "cannot make the timer");
	if (fd >= 0) {
		loop->ring = event_new(base, fd, EV_READ | EV_PERSIST, loop_on_ring, loop);
		if (!loop->ring || event_add(loop->ring, NULL) < 0)
			return log_error_errno("loop", -ENOMEM, "cannot watch the ring");
	}
	if (sd_watchdog_enabled(0, &watchdog_us) > 0)
		loop->watchdog_ns = watchdog_us * NSEC_PER_USEC / 2;
	return 0;
}

int loop_run(struct loop *loop)
{
	char text[128];
	int r = loop_add_events(loop);

	if (r < 0)
		return r;
	loop_describe(loop->context, text, sizeof(text));
	sd_notifyf(0, "READY=1\nSTATUS=%s", text);
	log_notice("loop", "ready: %s", text);
	loop->schedstat_fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	r = lag_place_new(&loop->place);
	if (r < 0)
		log_warning("loop",
			"cannot read where the event loop waits in the kernel: %s; logs of its delays lack it",
			strerror(-r));
	r = event_base_dispatch(loop->context->base);
	sd_notify(0, "STOPPING=1");
	loop_drain_last(loop);
	return r < 0 ? log_error_errno("loop", -EIO, "the event loop failed") : 0;
}

struct loop *loop_close(struct loop *loop)
{
	if (!loop)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		if (loop->signal[i])
			event_free(loop->signal[i]);
	loop->place = lag_place_free(loop->place);
	if (loop->schedstat_fd >= 0)
		close(loop->schedstat_fd);
	if (loop->tick)
		event_free(loop->tick);
	if (loop->ring)
		event_free(loop->ring);
	if (loop->context->base)
		event_base_free(loop->context->base);
	loop->context->base = NULL;
	free(loop->due_ns);
	free(loop);
	return NULL;
}
