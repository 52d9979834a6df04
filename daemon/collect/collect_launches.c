/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches of kernels on the device, in sampled windows: while the switch L1.launches is on, one window a period at a
 * random time of it, so that the windows fall on all parts of a step and those of two nodes do not go in step. Between
 * windows no probe is attached; with the switch off there is no program in the kernel, no thread and no look at
 * libraries.
 *
 * The loop's side: follows the ranks' libraries, gives the worker (launch.h) its orders and turns results into
 * rows. A rank in which launches would be seen and none came has a row of its own with count 0.
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
#define SCAN_SHARE 20 /* all looks at libraries together take at most one part in so many of a CPU */
/* What a window takes besides its length: probes on and off, and the ticks of the loop. Measured: 8 to 16 and 25 to 50
 * ms. */
#define WINDOW_MARGIN_NS (200 * NSEC_PER_MSEC)

/* What we follow of a rank, by its slot. */
struct watch {
	int64_t instance; /* 0: free */
	uint32_t pid;
	uint64_t next_scan_ns, interval_ns;
	uint64_t gap_ns;  /* of the window that is told: of its threads the shortest longest time without a launch; 0: none told */
	bool in_window; /* the window under way sees it, and has not shown a launch of it yet */
};

struct launches {
	struct context *context;
	struct launch_sites *places;
	size_t rows;		      /* of the tables */
	struct launch_window *window; /* these two with the switch on only */
	struct launch_worker *worker;
	bool on;
	uint64_t period_start_ns;
	uint64_t events;    /* windows that were stored */
	uint64_t strangers; /* threads of processes that are no rank any more */
	int error;	    /* of the last window */
	size_t watches;
	struct watch *watch;
};

extern const struct collector collector_launches;

static void launches_close(void *state)
{
	struct launches *launches = state;

	if (!launches)
		return;
	launch_worker_free(launches->worker);
	launch_window_close(launches->window);
	launch_sites_free(launches->places);
	free(launches->watch);
	free(launches);
}

static void launches_closep(struct launches **launches)
{
	launches_close(*launches);
}

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
		r = launch_sites_new(&table, &launches->places);
	if (r < 0)
		return r;
	launches->watches = context->config.ranks_max;
	launches->watch = calloc(launches->watches, sizeof(*launches->watch));
	if (!launches->watch)
		return -ENOMEM;
	*ret_state = TAKE_PTR(launches);
	return 0;
}

static void collect_launches_scan(struct launches *launches, struct watch *watch, uint64_t now_ns)
{
	uint64_t limit_ns = launches->context->config.scan_interval_ns, pause_ns;
	uint64_t start_ns = monotonic_ns();

	launch_sites_scan(launches->places, watch->pid, watch->instance);
	/* What a look costs is the process's choice: it may map a million files. */
	pause_ns = (monotonic_ns() - start_ns) * SCAN_SHARE * ranks_count(launches->context->ranks, RANK_ROLE_RANK);
	watch->next_scan_ns = now_ns + (pause_ns > watch->interval_ns ? pause_ns : watch->interval_ns);
	watch->interval_ns = watch->interval_ns * 3 / 2 < limit_ns ? watch->interval_ns * 3 / 2 : limit_ns;
}

static void collect_launches_forget(struct launches *launches, struct watch *watch)
{
	launch_sites_forget(launches->places, watch->instance);
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
	*watch = (struct watch){.pid = rank->pid, .instance = rank->instance, .interval_ns = SCAN_FIRST_NS};
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
	/* A rank that turned out to be none has lost its slot: it is found by what it was. */
	for (size_t i = 0; i < launches->watches; i++)
		if (launches->watch[i].instance && launches->watch[i].instance == rank->instance)
			collect_launches_forget(launches, &launches->watch[i]);
}

static struct store_value collect_launches_step_at(const struct launches *launches, const struct rank *rank, uint64_t time_ns)
{
	int64_t step = rank_steps_step(launches->context->steps, rank, time_ns);

	return step < 1 ? V_NULL : V_INT(step);
}

/* thread NULL: the rank launched nothing. */
static void collect_launches_put_row(struct launches *launches, const struct rank *rank, const struct launch_result *result,
	const struct launch_thread *thread, unsigned api)
{
	const struct store_value none = V_NULL;
	const struct store_value row[] = {
		V_INT(rank->env.rank),
		collect_launches_step_at(launches, rank, result->start_ns),
		V_INT(store_utc_ns(launches->context->store, result->start_ns)),
		V_INT(result->duration_ns),
		thread ? V_INT(thread->thread_id) : none,
		thread ? V_TEXT(launch_sites_api(launches->places, api)) : none,
		V_INT(thread ? thread->api[api].count : 0),
		V_INT(thread ? thread->api[api].longest_gap_ns : result->duration_ns),
		V_INT(rank->instance),
	};

	(void)store_put(launches->context->store, TABLE_LAUNCHES, row, ARRAY_SIZE(row));
}

static void collect_launches_put_thread(
	struct launches *launches, const struct launch_result *result, const struct launch_thread *thread)
{
	const struct rank *rank = ranks_by_pid(launches->context->ranks, thread->pid);
	struct watch *watch;
	uint64_t gap_ns = 1;

	if (!rank) {
		launches->strangers++;
		return;
	}
	for (unsigned api = 0; api < RT_LAUNCH_APIS_MAX; api++) {
		if (!thread->api[api].count)
			continue;
		collect_launches_put_row(launches, rank, result, thread, api);
		if (thread->api[api].longest_gap_ns > gap_ns)
			gap_ns = thread->api[api].longest_gap_ns;
	}
	if (rank->slot >= launches->watches || launches->watch[rank->slot].instance != rank->instance)
		return;
	watch = &launches->watch[rank->slot];
	watch->in_window = false;
	if (!watch->gap_ns || gap_ns < watch->gap_ns)
		watch->gap_ns = gap_ns;
}

static void put_quiet(struct launches *launches, const struct launch_result *result)
{
	for (size_t i = 0; i < launches->watches; i++) {
		struct watch *watch = &launches->watch[i];
		const struct rank *rank = watch->in_window ? ranks_by_pid(launches->context->ranks, watch->pid) : NULL;

		watch->in_window = false;
		if (!rank || rank->instance != watch->instance)
			continue;
		collect_launches_put_row(launches, rank, result, NULL, 0);
		watch->gap_ns = result->duration_ns;
	}
}

/* One thread launches while another waits: the rank as a whole was without a launch for no longer than the busiest of them. */
static void tell_gaps(struct launches *launches, const struct launch_result *result)
{
	for (size_t i = 0; i < launches->watches; i++) {
		struct watch *watch = &launches->watch[i];

		if (watch->instance && watch->gap_ns)
			online_launches(launches->context->findings, (uint32_t)i, watch->instance,
				result->start_ns, result->duration_ns, watch->gap_ns);
		watch->gap_ns = 0;
	}
}

static void take_result(struct launches *launches)
{
	_cleanup_free_ struct launch_thread *threads = NULL;
	struct launch_result result;

	if (!launch_worker_take(launches->worker, &result))
		return;
	threads = result.thread;
	if (result.error && result.error != launches->error)
		log_warning("launches", "a library cannot be probed: %s; its launches stay unseen",
			strerror(-result.error));
	launches->error = result.error;
	if (result.duration_ns == 0)
		return;
	for (size_t i = 0; i < result.threads; i++)
		collect_launches_put_thread(launches, &result, &threads[i]);
	put_quiet(launches, &result);
	tell_gaps(launches, &result);
	launches->events++;
}

static uint64_t window_ns(const struct launches *launches)
{
	const struct config *config = &launches->context->config;
	uint64_t half_ns = config->launches_period_ns / 2;

	return config->launches_window_ns < half_ns ? config->launches_window_ns : half_ns;
}

/* Some time of the period, so that window and margin still fit; where they do not, its start. */
static uint64_t random_part_ns(const struct launches *launches)
{
	uint64_t taken_ns = window_ns(launches) + WINDOW_MARGIN_NS,
		 period_ns = launches->context->config.launches_period_ns;
	uint64_t number = 0;

	if (taken_ns >= period_ns || getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number))
		return 0;
	return number % (period_ns - taken_ns);
}

static void order_window(struct launches *launches, uint64_t now_ns)
{
	struct launch_order *order = calloc(1, sizeof(*order));

	if (!order)
		return;
	order->at_ns = launches->period_start_ns + random_part_ns(launches);
	order->length_ns = window_ns(launches);
	order->targets = launch_sites_targets(launches->places, order->target, LAUNCH_TARGETS_MAX);
	launches->period_start_ns += launches->context->config.launches_period_ns;
	if (launches->period_start_ns < now_ns)
		launches->period_start_ns = now_ns;
	if (order->targets == 0 || launch_worker_order(launches->worker, order) < 0) {
		launch_order_free(order);
		return;
	}
	for (size_t i = 0; i < launches->watches; i++)
		launches->watch[i].in_window =
			launches->watch[i].instance && launch_sites_has(launches->places, launches->watch[i].instance);
}

static void launches_tick(void *state, uint64_t now_ns)
{
	struct launches *launches = state;

	if (!launches->on)
		return;
	take_result(launches);
	for (size_t i = 0; i < launches->watches; i++)
		if (launches->watch[i].instance && now_ns >= launches->watch[i].next_scan_ns)
			collect_launches_scan(launches, &launches->watch[i], now_ns);
	if (now_ns >= launches->period_start_ns && launch_worker_is_idle(launches->worker))
		order_window(launches, now_ns);
}

static int collect_launches_turn_off(struct launches *launches, char *report, size_t report_size)
{
	if (launches->worker) {
		launch_worker_stop(launches->worker);
		take_result(launches);
	}
	launches->worker = launch_worker_free(launches->worker);
	launches->window = launch_window_close(launches->window);
	for (size_t i = 0; i < launches->watches; i++)
		if (launches->watch[i].instance)
			collect_launches_forget(launches, &launches->watch[i]);
	launches->on = false;
	launches->error = 0;
	snprintf(report, report_size, "no further window on launches");
	return 0;
}

static int launches_level(void *state, enum level level, bool on, char *report, size_t report_size)
{
	struct launches *launches = state;
	unsigned functions, libraries;
	int r;

	(void)level;
	if (!on)
		return collect_launches_turn_off(launches, report, report_size);
	if (launches->on)
		return 0;
	r = launch_window_open(launches->context->kernel, &launches->window);
	if (r == 0)
		r = launch_worker_start(launches->window, &launches->worker);
	if (r < 0) {
		launches->window = launch_window_close(launches->window);
		snprintf(report, report_size, "launches cannot be counted: %s",
			r == -EOPNOTSUPP ? "this kernel lets us attach no uprobe" : strerror(-r));
		return r;
	}
	launches->on = true;
	launches->period_start_ns = monotonic_ns();
	ranks_each(launches->context->ranks, collect_launches_follow, launches);
	if (launches->rows == 0) {
		snprintf(report, report_size, "no probe table has a row of this switch, so it collects nothing");
		return 0;
	}
	launch_sites_count(launches->places, &functions, &libraries);
	snprintf(report, report_size, "a window of %g ms in every %g s on %u function%s in %u librar%s, %zu rank%s%s",
		(double)window_ns(launches) / (double)NSEC_PER_MSEC,
		(double)launches->context->config.launches_period_ns / (double)NSEC_PER_SEC, functions,
		functions == 1 ? "" : "s", libraries, libraries == 1 ? "y" : "ies",
		ranks_count(launches->context->ranks, RANK_ROLE_RANK),
		ranks_count(launches->context->ranks, RANK_ROLE_RANK) == 1 ? "" : "s",
		launch_window_tells_apis(launches->window) ? "" : "; this kernel cannot tell functions apart");
	return 0;
}

static void launches_status(void *state, struct collector_status *ret)
{
	struct launches *launches = state;
	unsigned functions = 0, libraries = 0;

	/* Not what is attached this very moment, which is nothing most of the time, but what each window attaches. */
	if (launches->on)
		launch_sites_count(launches->places, &functions, &libraries);
	ret->probes_attached = functions;
	ret->libraries = libraries;
	ret->events = launches->events;
	ret->drops = kernel_drops(launches->context->kernel, RT_KIND_LAUNCHES) + launches->strangers;
	if (launches->rows == 0)
		ret->levels_empty = LEVEL_BIT(LEVEL_L1_LAUNCHES);
	if (launches->on && launches->error)
		collector_note(ret, "a library could not be probed in the last window (%s): its launches were not seen",
			strerror(-launches->error));
	if (launches->on && launch_sites_trouble(launches->places)[0])
		collector_note(ret, "%s", launch_sites_trouble(launches->places));
	if (launches->on && !launch_window_tells_apis(launches->window))
		collector_note(ret, "this kernel has no cookies for uprobes: every launch is shown as '%s'",
			launch_sites_api(launches->places, 0));
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
