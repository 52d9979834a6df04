/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches of kernels on the device, in sampled windows: while the switch L1.launches is on, one window per period at
 * a random time, so that windows cover all parts of a step and nodes do not synchronize. Between windows no probe is
 * attached; with the switch off there is no BPF program, no thread and no scan of libraries.
 *
 * This is the loop's side: follows the ranks' libraries, orders windows from the worker (launch.h) and turns results
 * into rows. A rank with traced launch functions and no launch gets a row with count 0.
 */
#include <sys/random.h>

#include "daemon/collect/collector.h"
#include "daemon/core/context.h"
#include "daemon/findings/online.h"
#include "daemon/kernel/kernel.h"
#include "daemon/collect/launch.h"
#include "daemon/base/log.h"
#include "daemon/steps/rank_steps.h"
#include "daemon/store/store.h"

#define SCAN_FIRST_NS (500 * NSEC_PER_MSEC)
#define SCAN_RETRY_NS NSEC_PER_SEC /* a scan that did not begin, or has not ended */
#define SCAN_SHARE 20		   /* scans use at most 1/SCAN_SHARE of a CPU */
/* Time of a window besides its length: attaching, detaching, the loop's ticks. Measured: 8 to 16 and 25 to 50 ms. */
#define WINDOW_MARGIN_NS (200 * NSEC_PER_MSEC)
/* Waits for the worker's thread: in the loop, whose longest stop is 250 ms, and at the end, which takes 5 s at most. */
#define OFF_WAIT_NS (100 * NSEC_PER_MSEC)
#define CLOSE_WAIT_NS NSEC_PER_SEC

/* A followed rank, by slot. */
struct watch {
	int64_t instance; /* 0: free */
	uint32_t pid, uid;
	uint64_t next_scan_ns, interval_ns;
	uint64_t gap_ns; /* minimum over threads of their longest gap in the window; 0: none */
	bool is_traced;	 /* by the current window, with all its libraries known: others count in the runtime at first */
	bool has_launched; /* in the current window */
};

struct launches {
	struct context *context;
	struct launch_sites *sites;
	size_t rows;		      /* in the tables */
	struct launch_window *window; /* these two only while on */
	struct launch_worker *worker;
	bool on;
	uint64_t period_start_ns;
	uint64_t events;    /* windows stored */
	uint64_t not_ranks; /* threads of processes that are no longer ranks */
	int error;	    /* of the last window */
	size_t watches;
	struct watch *watch;
};

extern const struct collector collector_launches;

/* A worker that is blocked in the kernel keeps its window. */
static void collect_launches_stop(struct launches *launches, uint64_t wait_ns)
{
	if (!launches->worker || launch_worker_stop(launches->worker, wait_ns))
		return;
	launches->worker = NULL;
	launches->window = NULL;
}

static void launches_close(void *state)
{
	struct launches *launches = state;

	if (!launches)
		return;
	collect_launches_stop(launches, CLOSE_WAIT_NS);
	launch_worker_free(launches->worker);
	launch_window_close(launches->window);
	launch_sites_free(launches->sites);
	free(launches->watch);
	free(launches);
}

DEFINE_CLEANUP(struct launches *, launches_close)

static int load_table(struct launches *launches, struct probe_table *table)
{
	const struct config *config = &launches->context->config;
	const char *dirs[] = {config->probes_base_dir, config->probes_dir};
	char error[512];
	int r = probe_table_load_dirs(table, dirs, ARRAY_SIZE(dirs), collector_launches.levels, error, sizeof(error));

	if (r < 0) {
		log_error("launches", "%s", error);
		return r;
	}
	launches->rows = table->count;
	return 0;
}

static void collect_launches_scanned(void *arg, int64_t instance, int result, uint64_t cost_ns)
{
	struct launches *launches = arg;
	uint64_t limit_ns = launches->context->config.scan_interval_ns, now_ns = monotonic_ns(), pause_ns;

	/* The process controls a scan's cost: it may map a million files. */
	pause_ns = cost_ns * SCAN_SHARE * ranks_count(launches->context->ranks, RANK_ROLE_RANK);
	for (size_t i = 0; i < launches->watches; i++) {
		struct watch *watch = &launches->watch[i];

		if (watch->instance != instance)
			continue;
		watch->next_scan_ns = now_ns + (pause_ns > watch->interval_ns ? pause_ns : watch->interval_ns);
		watch->interval_ns = watch->interval_ns * 3 / 2 < limit_ns ? watch->interval_ns * 3 / 2 : limit_ns;
	}
}

static int launches_open(struct context *context, void **ret_state)
{
	_cleanup_(launches_closep) struct launches *launches = calloc(1, sizeof(*launches));
	_cleanup_(probe_table_free) struct probe_table table = {0};
	int r;

	if (!launches)
		return -ENOMEM;
	launches->context = context;
	r = load_table(launches, &table);
	if (r == 0)
		r = launch_sites_new(&table, context, &launches->sites);
	if (r < 0)
		return r;
	launch_sites_observe(launches->sites, collect_launches_scanned, launches);
	launches->watches = context->config.ranks_max;
	launches->watch = calloc(launches->watches, sizeof(*launches->watch));
	if (!launches->watch)
		return -ENOMEM;
	*ret_state = TAKE_PTR(launches);
	return 0;
}

/* What it finds comes later: collect_launches_scanned(). */
static void collect_launches_scan(struct launches *launches, struct watch *watch, uint64_t now_ns)
{
	watch->next_scan_ns = now_ns + SCAN_RETRY_NS;
	launch_sites_scan(launches->sites, watch->pid, watch->uid, watch->instance);
}

static void collect_launches_forget(struct launches *launches, struct watch *watch)
{
	launch_sites_forget(launches->sites, watch->instance);
	*watch = (struct watch){0};
}

static void collect_launches_follow(void *arg, const struct rank *rank)
{
	struct launches *launches = arg;
	struct watch *watch = rank->slot < launches->watches ? &launches->watch[rank->slot] : NULL;

	if (!watch || rank->role != RANK_ROLE_RANK || watch->instance == rank->instance)
		return;
	if (watch->instance)
		collect_launches_forget(launches, watch);
	*watch = (struct watch){
		.pid = rank->pid, .uid = rank->uid, .instance = rank->instance, .interval_ns = SCAN_FIRST_NS};
	collect_launches_scan(launches, watch, monotonic_ns());
}

static void launches_rank(void *state, const struct rank *rank, enum rank_change change)
{
	struct launches *launches = state;

	if (!launches->on)
		return;
	if (change != RANK_ENDED && rank->role == RANK_ROLE_RANK) {
		collect_launches_follow(launches, rank);
		return;
	}
	/* A rank that changed its role has lost its slot: search by instance. */
	for (size_t i = 0; i < launches->watches; i++)
		if (launches->watch[i].instance && launches->watch[i].instance == rank->instance)
			collect_launches_forget(launches, &launches->watch[i]);
}

static struct field_int collect_launches_step_at(
	const struct launches *launches, const struct rank *rank, uint64_t time_ns)
{
	int64_t step = rank_steps_step(launches->context->steps, rank, time_ns);

	return field_int_if(step >= 1, step);
}

/* thread NULL: the rank launched nothing. */
static void collect_launches_put_row(struct launches *launches, const struct rank *rank,
	const struct launch_result *result, const struct launch_thread *thread, unsigned api)
{
	const struct row_launches row = {
		.rank = field_int(rank->env.rank),
		.step = collect_launches_step_at(launches, rank, result->start_ns),
		.start_ns = field_time(store_utc_ns(launches->context->store, result->start_ns)),
		.duration_ns = field_duration(result->duration_ns),
		.thread_id = field_int_if(thread, thread ? thread->thread_id : 0),
		.api = field_text(thread ? launch_sites_api(launches->sites, api) : NULL),
		.count = field_int(thread ? thread->api[api].count : 0),
		.longest_gap_ns = field_duration(thread ? thread->api[api].longest_gap_ns : result->duration_ns),
		.instance = field_int(rank->instance),
	};

	store_put_launches(launches->context->store, &row);
}

static void collect_launches_put_thread(
	struct launches *launches, const struct launch_result *result, const struct launch_thread *thread)
{
	const struct rank *rank = ranks_by_pid(launches->context->ranks, thread->pid);
	struct watch *watch;
	uint64_t gap_ns = 1;

	if (!rank) {
		launches->not_ranks++;
		return;
	}
	watch = rank->slot < launches->watches ? &launches->watch[rank->slot] : NULL;
	if (!watch || watch->instance != rank->instance || !watch->is_traced)
		return;
	watch->has_launched = true;
	for (unsigned api = 0; api < RT_LAUNCH_APIS_MAX; api++) {
		if (!thread->api[api].count)
			continue;
		collect_launches_put_row(launches, rank, result, thread, api);
		if (thread->api[api].longest_gap_ns > gap_ns)
			gap_ns = thread->api[api].longest_gap_ns;
	}
	if (!watch->gap_ns || gap_ns < watch->gap_ns)
		watch->gap_ns = gap_ns;
}

static void collect_launches_put_quiet(struct launches *launches, const struct launch_result *result)
{
	for (size_t i = 0; i < launches->watches; i++) {
		struct watch *watch = &launches->watch[i];
		const struct rank *rank = ranks_by_pid(launches->context->ranks, watch->pid);

		if (!watch->is_traced || watch->has_launched || !rank || rank->instance != watch->instance)
			continue;
		collect_launches_put_row(launches, rank, result, NULL, 0);
		watch->gap_ns = result->duration_ns;
	}
}

/* A rank's gap is that of its busiest thread: one thread launches while another waits. */
static void collect_launches_feed_gaps(struct launches *launches, const struct launch_result *result)
{
	for (size_t i = 0; i < launches->watches; i++) {
		struct watch *watch = &launches->watch[i];

		if (watch->instance && watch->gap_ns)
			online_launches(launches->context->findings, (uint32_t)i, watch->instance, result->start_ns,
				result->duration_ns, watch->gap_ns);
		watch->gap_ns = 0;
	}
}

static void collect_launches_take_result(struct launches *launches)
{
	_cleanup_free_ struct launch_thread *threads = NULL;
	struct launch_result result;

	if (!launch_worker_take(launches->worker, &result))
		return;
	threads = result.thread;
	if (result.error && result.error != launches->error)
		log_warning("launches", "cannot probe a library: %s; its launches are not counted",
			strerror(-result.error));
	launches->error = result.error;
	if (result.duration_ns == 0)
		return;
	for (size_t i = 0; i < result.threads; i++)
		collect_launches_put_thread(launches, &result, &threads[i]);
	collect_launches_put_quiet(launches, &result);
	collect_launches_feed_gaps(launches, &result);
	launches->events++;
}

static uint64_t collect_launches_window_ns(const struct launches *launches)
{
	const struct config *config = &launches->context->config;
	uint64_t half_ns = config->launches_period_ns / 2;

	return config->launches_window_ns < half_ns ? config->launches_window_ns : half_ns;
}

/* Random start within the period, so that window and margin fit; 0 if they do not. */
static uint64_t collect_launches_random_ns(const struct launches *launches)
{
	uint64_t taken_ns = collect_launches_window_ns(launches) + WINDOW_MARGIN_NS,
		 period_ns = launches->context->config.launches_period_ns;
	uint64_t number = 0;

	if (taken_ns >= period_ns || getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number))
		return 0;
	return number % (period_ns - taken_ns);
}

static void collect_launches_order_window(struct launches *launches, uint64_t now_ns)
{
	struct launch_order *order = calloc(1, sizeof(*order));

	if (!order)
		return;
	order->at_ns = launches->period_start_ns + collect_launches_random_ns(launches);
	order->length_ns = collect_launches_window_ns(launches);
	order->targets = launch_sites_targets(launches->sites, order->target, LAUNCH_TARGETS_MAX);
	launches->period_start_ns += launches->context->config.launches_period_ns;
	if (launches->period_start_ns < now_ns)
		launches->period_start_ns = now_ns;
	if (order->targets == 0 || launch_worker_order(launches->worker, order) < 0) {
		launch_order_free(order);
		return;
	}
	for (size_t i = 0; i < launches->watches; i++) {
		struct watch *watch = &launches->watch[i];

		watch->has_launched = false;
		watch->is_traced = watch->instance && launch_sites_are_known(launches->sites, watch->instance);
	}
}

static void launches_tick(void *state, uint64_t now_ns)
{
	struct launches *launches = state;

	if (!launches->on)
		return;
	collect_launches_take_result(launches);
	for (size_t i = 0; i < launches->watches; i++)
		if (launches->watch[i].instance && now_ns >= launches->watch[i].next_scan_ns)
			collect_launches_scan(launches, &launches->watch[i], now_ns);
	if (now_ns >= launches->period_start_ns && launch_worker_is_idle(launches->worker))
		collect_launches_order_window(launches, now_ns);
}

static int collect_launches_turn_off(struct launches *launches, char *report, size_t report_size)
{
	collect_launches_stop(launches, OFF_WAIT_NS);
	if (launches->worker)
		collect_launches_take_result(launches);
	launch_worker_free(launches->worker);
	launches->worker = NULL;
	launches->window = launch_window_close(launches->window);
	for (size_t i = 0; i < launches->watches; i++)
		if (launches->watch[i].instance)
			collect_launches_forget(launches, &launches->watch[i]);
	launches->on = false;
	launches->error = 0;
	snprintf(report, report_size, "windows stopped");
	return 0;
}

static int launches_level(void *state, enum level level, bool on, char *report, size_t report_size)
{
	struct launches *launches = state;
	int r;

	if (!on)
		return collect_launches_turn_off(launches, report, report_size);
	if (launches->on)
		return 0;
	r = launch_window_open(launches->context->kernel, &launches->window);
	if (r == 0)
		r = launch_worker_start(launches->window, &launches->worker);
	if (r < 0) {
		launches->window = launch_window_close(launches->window);
		snprintf(report, report_size, "cannot count launches: %s",
			r == -EOPNOTSUPP ? "this kernel supports no uprobes" : strerror(-r));
		return r;
	}
	launches->on = true;
	launches->period_start_ns = monotonic_ns();
	ranks_each(launches->context->ranks, collect_launches_follow, launches);
	if (launches->rows == 0) {
		snprintf(report, report_size, "no probe table has a row for it: nothing is collected");
		return 0;
	}
	snprintf(report, report_size,
		"a window of %g ms in every %g s on the launch functions of %zu rank%s (tracectl status counts them)%s",
		(double)collect_launches_window_ns(launches) / (double)NSEC_PER_MSEC,
		(double)launches->context->config.launches_period_ns / (double)NSEC_PER_SEC,
		ranks_count(launches->context->ranks, RANK_ROLE_RANK),
		ranks_count(launches->context->ranks, RANK_ROLE_RANK) == 1 ? "" : "s",
		launch_window_has_apis(launches->window) ? "" : "; this kernel does not distinguish functions");
	return 0;
}

static void launches_status(void *state, struct collector_status *ret)
{
	struct launches *launches = state;
	unsigned functions = 0, libraries = 0;

	/* What each window attaches: between windows nothing is. */
	if (launches->on)
		launch_sites_count(launches->sites, &functions, &libraries);
	ret->probes_attached = functions;
	ret->libraries = libraries;
	ret->events = launches->events;
	ret->drops = kernel_drops(launches->context->kernel, RT_KIND_LAUNCHES) + launches->not_ranks;
	if (launches->rows == 0)
		ret->levels_empty = LEVEL_BIT(LEVEL_L1_LAUNCHES);
	if (launches->on && launches->error)
		collector_note(ret, "cannot probe a library in the last window (%s): its launches are not counted",
			strerror(-launches->error));
	if (launches->on && launch_sites_reason(launches->sites)[0])
		collector_note(ret, "%s", launch_sites_reason(launches->sites));
	if (launches->on && !launch_window_has_apis(launches->window))
		collector_note(ret, "this kernel has no cookies for uprobes: every launch is shown as '%s'",
			launch_sites_api(launches->sites, 0));
}

const struct collector collector_launches = {
	.name = "launches",
	.summary = "launches of kernels, in sampled windows",
	.levels = LEVEL_BIT(LEVEL_L1_LAUNCHES),
	.kinds = 1u << RT_KIND_LAUNCHES,
	.open = launches_open,
	.level = launches_level,
	.rank = launches_rank,
	.tick = launches_tick,
	.status = launches_status,
	.close = launches_close,
};
