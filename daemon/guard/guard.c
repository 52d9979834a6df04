/* SPDX-License-Identifier: Apache-2.0 */
/* See guard.h. Reads the counts of the programs, keeps shares and the table `coverage`, opens and closes windows. */
#include <malloc.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "analyzers/base/fnv1a.h"
#include "daemon/base/job_thread.h"
#include "daemon/base/log.h"
#include "daemon/base/procfs.h"
#include "daemon/collect/collector.h"
#include "daemon/core/context.h"
#include "daemon/guard/guard_internal.h"
#include "daemon/kernel/kernel.h"
#include "daemon/steps/rank_steps.h"
#include "daemon/store/store.h"
#include "daemon/worker/worker.h"

_Static_assert((int)RT_COST_L0 == (int)LEVEL_L0 && (int)RT_COST_L3 == (int)LEVEL_L3,
	"bpf/cost.h has the levels of levels.def");

#define PLAN_NS (10 * NSEC_PER_SEC)	/* between two plans */
#define COVERAGE_NS (60 * NSEC_PER_SEC) /* of a row of `coverage` */
#define SHARE_NS (10 * NSEC_PER_SEC)	/* time with the level on that a share is a mean of */
#define SHARE_WINDOWS_NS NSEC_PER_SEC	/* the same of a level in windows, at the end of one */
#define OWN_NS (60 * NSEC_PER_SEC)	/* the same of the daemon's own cost */

struct guard_calibration {
	struct thread_job job; /* first */
	struct kernel *kernel;
	struct guard_model model;
	int result;
};

static void guard_put_row(struct guard *guard, struct guard_rank *of, const struct rank *rank, uint64_t now_ns)
{
	struct store *store = guard->context->store;

	for (enum level level = 0; level < GUARD_LEVELS; level++) {
		struct guard_level *at = &of->level[level];
		const struct row_coverage row = {
			.rank = field_int(rank->env.rank),
			.level = field_text(level_name(level)),
			.start_ns = field_time(store_utc_ns(store, of->row_ns)),
			.duration_ns = field_duration(now_ns - of->row_ns),
			.watched_ns = field_duration(at->row_watched_ns),
			.hits = field_int((int64_t)at->row.hits),
			.cost_ns = field_duration_if(guard->calibrated, (uint64_t)at->row.ns),
			.cost_min_ns = field_duration_if(guard->calibrated, (uint64_t)at->row.low_ns),
			.cost_max_ns = field_duration_if(guard->calibrated, (uint64_t)at->row.high_ns),
			.instance = field_int(rank->instance),
		};

		if (at->row_watched_ns || at->row.hits)
			store_put_coverage(store, &row);
		at->row = (struct guard_cost){0};
		at->row_watched_ns = 0;
	}
	of->row_ns = now_ns;
}

struct guard_walk {
	struct guard *guard;
	uint64_t now_ns;
};

static void guard_end_rank(void *arg, const struct rank *rank)
{
	const struct guard_walk *walk = arg;
	struct guard_rank *of =
		rank->role == RANK_ROLE_RANK && rank->slot < walk->guard->slots ? walk->guard->rank[rank->slot] : NULL;

	if (of && of->instance == rank->instance)
		guard_put_row(walk->guard, of, rank, walk->now_ns);
	guard_end_excess(walk->guard, rank);
}

struct guard *guard_free(struct guard *guard)
{
	struct guard_walk walk = {guard, monotonic_ns()};

	if (!guard)
		return NULL;
	if (guard->context->ranks && guard->context->store) {
		ranks_each(guard->context->ranks, guard_end_rank, &walk);
		guard_end_own_excess(guard);
	}
	if (guard->calibration)
		job_thread_forget(guard->thread, &guard->calibration->job);
	job_thread_free(guard->thread);
	for (size_t i = 0; i < guard->slots; i++)
		free(guard->rank[i]);
	free(guard);
	return NULL;
}

/* Calibration: once, when there is a rank. */

static void guard_calibrate_run(struct thread_job *job)
{
	struct guard_calibration *calibration = (struct guard_calibration *)job;

	calibration->result = guard_calibrate(calibration->kernel, &calibration->model);
}

static void guard_calibrate_free(struct thread_job *job)
{
	free(job);
}

static void guard_take_calibration(struct guard *guard)
{
	struct guard_calibration *calibration = guard->calibration;

	if (!calibration || !job_thread_wait(guard->thread, &calibration->job, 0))
		return;
	guard->calibrated = calibration->result == 0;
	guard->error = calibration->result;
	guard->model = calibration->model;
	free(calibration);
	guard->calibration = NULL;
	guard->thread = job_thread_free(guard->thread);
	if (guard->calibrated)
		log_info("guard",
			"a hit costs %.0f ns where caches are warm, %.0f ns where they are cold; two standard "
			"deviations are %.0f %%",
			guard->model.hot_ns[RT_COST_EMULATED], guard->model.cold_ns[RT_COST_EMULATED],
			200 * guard->model.spread);
	else
		log_notice("guard", "what a hit costs cannot be measured (%s): only the time of the programs counts",
			strerror(-guard->error));
}

static void guard_order_calibration(struct guard *guard)
{
	if (guard->calibration || guard->calibrated || guard->error || !guard->context->kernel ||
		ranks_count(guard->context->ranks, RANK_ROLE_RANK) == 0)
		return;
	guard->calibration = calloc(1, sizeof(*guard->calibration));
	guard->error = guard->calibration ? job_thread_new(&guard->thread) : -ENOMEM;
	if (guard->error) {
		free(guard->calibration);
		guard->calibration = NULL;
		return;
	}
	guard->calibration->kernel = guard->context->kernel;
	guard->calibration->job = (struct thread_job){.run = guard_calibrate_run, .free = guard_calibrate_free};
	job_thread_order(guard->thread, &guard->calibration->job);
}

/* Costs of ranks. */

static struct rt_cost guard_delta(const struct rt_cost *now, struct rt_cost *last)
{
	struct rt_cost is = {__atomic_load_n(&now->hits, __ATOMIC_RELAXED),
		__atomic_load_n(&now->timed, __ATOMIC_RELAXED), __atomic_load_n(&now->run_ns, __ATOMIC_RELAXED),
		__atomic_load_n(&now->find_ns, __ATOMIC_RELAXED)};
	struct rt_cost delta = {
		is.hits - last->hits, is.timed - last->timed, is.run_ns - last->run_ns, is.find_ns - last->find_ns};

	*last = is;
	return delta;
}

static void guard_add(struct guard_cost *sum, const struct guard_cost *cost)
{
	sum->hits += cost->hits;
	sum->ns += cost->ns;
	sum->low_ns += cost->low_ns;
	sum->high_ns += cost->high_ns;
}

static struct guard_share guard_share_from(const struct guard *guard, const struct guard_cost *cost, uint64_t ns)
{
	double time_ns = (double)ns;

	return (struct guard_share){cost->ns / time_ns, cost->low_ns / time_ns, cost->high_ns / time_ns,
		(double)cost->hits * 1e9 / time_ns, guard->calibrated};
}

static void guard_measure_level(
	struct guard *guard, struct guard_rank *of, enum level level, const struct rt_costs *costs, uint64_t took_ns)
{
	struct guard_level *at = &of->level[level];
	struct guard_cost cost = {0};

	for (enum rt_cost_kind kind = 0; kind < RT_COST_KINDS; kind++) {
		struct rt_cost delta = guard_delta(&costs->at[level][kind], &of->last.at[level][kind]);

		if (delta.hits)
			guard_model_add(&guard->model, kind, &delta, &cost);
	}
	guard_add(&at->row, &cost);
	if (guard->context->levels.sampled[level] && !guard->context->levels.on[level]) {
		guard_add(&at->cost_between, &cost);
		at->between_ns += took_ns;
	} else {
		guard_add(&at->cost, &cost);
	}
	if (at->between_ns >= SHARE_NS) {
		at->between = guard_share_from(guard, &at->cost_between, at->between_ns);
		at->cost_between = (struct guard_cost){0};
		at->between_ns = 0;
	}
	if (guard->context->levels.on[level]) {
		at->watched_ns += took_ns;
		at->row_watched_ns += took_ns;
	}
	if (at->watched_ns < SHARE_NS && !(at->watched_ns >= SHARE_WINDOWS_NS && !guard->context->levels.on[level]))
		return;
	at->share = guard_share_from(guard, &at->cost, at->watched_ns);
	at->cost = (struct guard_cost){0};
	at->watched_ns = 0;
}

static void guard_measure_rank(void *arg, const struct rank *rank)
{
	const struct guard_walk *walk = arg;
	struct guard *guard = walk->guard;
	const struct rt_costs *costs;
	struct guard_rank *of;

	if (rank->role != RANK_ROLE_RANK || rank->ended || rank->slot >= guard->slots || !guard->context->kernel)
		return;
	costs = kernel_costs(guard->context->kernel, rank->slot);
	of = guard->rank[rank->slot];
	if (!of)
		of = guard->rank[rank->slot] = calloc(1, sizeof(*of));
	if (!of || !costs)
		return;
	if (of->instance != rank->instance) {
		*of = (struct guard_rank){.instance = rank->instance, .row_ns = walk->now_ns};
		of->job = fnv1a_text(fnv1a_bytes(FNV1A_START, &rank->uid, sizeof(rank->uid)), rank->env.job);
		/* What it was hit before it was seen here counts as none. */
		for (enum level level = 0; level < GUARD_LEVELS; level++)
			for (enum rt_cost_kind kind = 0; kind < RT_COST_KINDS; kind++)
				(void)guard_delta(&costs->at[level][kind], &of->last.at[level][kind]);
		return;
	}
	for (enum level level = 0; level < GUARD_LEVELS; level++)
		guard_measure_level(guard, of, level, costs, walk->now_ns - guard->measure_ns);
	if (walk->now_ns - of->row_ns >= COVERAGE_NS)
		guard_put_row(guard, of, rank, walk->now_ns);
}

static void guard_measure_ranks(struct guard *guard, uint64_t now_ns)
{
	struct guard_walk walk = {guard, now_ns};

	ranks_each(guard->context->ranks, guard_measure_rank, &walk);
	guard->measure_ns = now_ns;
}

static void guard_on_rank(void *arg, const struct rank *rank, enum rank_change change)
{
	struct guard_walk walk = {arg, monotonic_ns()};

	if (change != RANK_ENDED)
		return;
	guard_end_rank(&walk, rank);
}

int guard_new(struct context *context, struct guard **ret)
{
	size_t slots = context->config.ranks_max;
	struct guard *guard = calloc(1, sizeof(*guard) + slots * sizeof(struct guard_rank *));
	int r;

	if (!guard)
		return -ENOMEM;
	guard->context = context;
	guard->slots = slots;
	for (enum level level = 0; level < LEVEL_MAX; level++)
		guard->window[level].duty = 1;
	guard_cpus_begin(guard);
	r = ranks_observe(context->ranks, guard_on_rank, guard);
	if (r < 0) {
		free(guard);
		return r;
	}
	*ret = guard;
	return 0;
}

/* The daemon's own cost. */

/* What was freed and is kept for later goes first. Then levels are on in their shortest windows (guard_make_plan()). */
static void guard_measure_memory(struct guard *guard)
{
	uint64_t budget = guard->context->config.budget_memory_bytes;

	guard->memory_bytes = procfs_own_resident();
	if (guard->memory_bytes > budget) {
		malloc_trim(0);
		guard->memory_bytes = procfs_own_resident();
	}
	if (guard->memory_bytes > budget && !guard->memory_turn.over_ns)
		log_notice("guard",
			"the daemon has %lu MiB of memory, more than its budget of %lu MiB: levels are on in "
			"windows, where they may be",
			(unsigned long)(guard->memory_bytes >> 20), (unsigned long)(budget >> 20));
}

static void guard_measure_own(struct guard *guard, uint64_t now_ns)
{
	uint64_t spent_ns, workers_ns, loop_ns[LEVEL_MAX] = {0}, all_ns;
	struct rusage usage = {0};

	if (guard->own_at_ns && now_ns - guard->own_at_ns < OWN_NS)
		return;
	getrusage(RUSAGE_SELF, &usage);
	spent_ns = timeval_ns(usage.ru_utime) + timeval_ns(usage.ru_stime);
	workers_ns = workers_cpu_ns(guard->context->workers);
	guard_measure_memory(guard);
	all_ns = collectors_work_ns(guard->context->collectors, loop_ns);
	if (guard->own_at_ns) {
		double took_ns = (double)(now_ns - guard->own_at_ns),
		       spent = (double)(spent_ns - guard->own_ns) / took_ns;
		double work_ns = (double)(all_ns - guard->own_loop_all_ns);

		guard->own_workers = (double)(workers_ns - guard->own_workers_ns) / took_ns;
		guard->own_cpus = spent + guard->own_workers;
		guard->own_known = true;
		for (enum level level = 0; level < LEVEL_MAX; level++) {
			double part = work_ns > 0 ? (double)(loop_ns[level] - guard->own_loop_ns[level]) / work_ns : 0;
			bool watched = guard->context->levels.on[level] || guard->context->levels.sampled[level];

			/* While it is on: windows are shorter than the minute. */
			guard->own_level[level] = watched ? part * spent / guard->window[level].duty : 0;
		}
	}
	guard->own_ns = spent_ns;
	guard->own_workers_ns = workers_ns;
	guard->own_at_ns = now_ns;
	guard->own_loop_all_ns = all_ns;
	memcpy(guard->own_loop_ns, loop_ns, sizeof(loop_ns));
}

/* Windows. */

struct guard_user {
	uint32_t uid;
	double share; /* of his costliest rank */
};

#define GUARD_USERS_MAX KERNEL_POOLS_MAX /* further ones are judged with the last */

struct guard_users {
	const struct guard *guard;
	enum level level;
	bool between;
	unsigned count;
	struct guard_user user[GUARD_USERS_MAX];
};

static void guard_user_rank(void *arg, const struct rank *rank)
{
	struct guard_users *users = arg;
	struct guard_share share;
	unsigned i = 0;

	if (rank->role != RANK_ROLE_RANK || rank->ended)
		return;
	(users->between ? guard_rank_between : guard_rank_share)(users->guard, rank, users->level, &share);
	while (i < users->count && users->user[i].uid != rank->uid)
		i++;
	if (i == users->count && users->count < GUARD_USERS_MAX)
		users->user[users->count++] = (struct guard_user){rank->uid, 0};
	if (i == GUARD_USERS_MAX)
		i = GUARD_USERS_MAX - 1;
	if (share.known && share.share > users->user[i].share)
		users->user[i].share = share.share;
}

struct guard_steps {
	const struct guard *guard;
	uint64_t now_ns;
	bool all;
};

static void guard_steps_rank(void *arg, const struct rank *rank)
{
	struct guard_steps *steps = arg;

	if (rank->role == RANK_ROLE_RANK && !rank->ended)
		steps->all = steps->all && rank_steps_may_sample(steps->guard->context->steps, rank, steps->now_ns);
}

static bool guard_may_sample(const struct guard *guard, enum level level, uint64_t now_ns)
{
	struct guard_steps steps = {guard, now_ns, ranks_count(guard->context->ranks, RANK_ROLE_RANK) > 0};

	if (level == LEVEL_L0 && !guard->context->config.budget_samples_l0)
		return false;
	if (level != LEVEL_L0)
		steps.all = true;
	else if (steps.all)
		ranks_each(guard->context->ranks, guard_steps_rank, &steps);
	return steps.all && levels_may_sample(&guard->context->levels, level, now_ns);
}

/* Of the user whom it costs least. */
static double guard_level_share(const struct guard *guard, enum level level, bool between)
{
	struct guard_users users = {.guard = guard, .level = level, .between = between};
	double least = 0;

	if (level >= GUARD_LEVELS)
		return 0;
	ranks_each(guard->context->ranks, guard_user_rank, &users);
	for (unsigned i = 0; i < users.count; i++)
		if (i == 0 || users.user[i].share < least)
			least = users.user[i].share;
	return least;
}

static void guard_say(enum level level, double before, double duty, const struct guard_need *need)
{
	if (duty < 1 && before >= 1)
		log_notice("guard",
			"%s is on in windows, %.0f %% of the time: on all the time it costs ranks %.2f %% and the "
			"daemon %.2f %% of a CPU (budget in ranktrace.conf)",
			level_name(level), 100 * duty, 100 * need->share, 100 * need->own_cpus);
	else if (duty >= 1 && before < 1)
		log_notice("guard", "%s is on all the time again", level_name(level));
}

static void guard_make_plan(struct guard *guard, uint64_t now_ns)
{
	const struct config *config = &guard->context->config;
	struct levels *levels = &guard->context->levels;
	struct guard_need need[LEVEL_MAX] = {0};
	/* Windows save nothing of the workers' time. */
	double before[LEVEL_MAX], duty[LEVEL_MAX], base = guard->own_cpus - guard->own_workers;
	struct guard_limits limits;

	for (enum level level = 0; level < LEVEL_MAX; level++) {
		need[level].on = levels->on[level] || levels->sampled[level];
		need[level].sampled = guard_may_sample(guard, level, now_ns);
		need[level].share = need[level].on ? guard_level_share(guard, level, false) : 0;
		need[level].between = levels->sampled[level] ? guard_level_share(guard, level, true) : 0;
		need[level].own_cpus = guard->own_level[level];
		base -= guard->own_level[level] * guard->window[level].duty;
		before[level] = guard->window[level].duty;
	}
	limits.rank_share = (double)config->budget_rank_ppm * 1e-6;
	limits.own_budget = (double)config->budget_cpu_ppm * 1e-6;
	limits.own_cpus = guard->own_known ? limits.own_budget - base : 1e9;
	if (guard->memory_turn.over_ns)
		limits.own_cpus = 0;
	guard_plan(&limits, need, before, duty);
	for (enum level level = 0; level < LEVEL_MAX; level++) {
		struct guard_window *window = &guard->window[level];
		bool windows = duty[level] < 1;

		if (need[level].sampled && windows != levels->sampled[level] &&
			levels_sample(guard->context, level, windows) == 0) {
			guard_say(level, window->duty, duty[level], &need[level]);
			window->open_ns = now_ns;
		}
		window->duty = levels->sampled[level] ? duty[level] : 1;
	}
}

/* Between half and one and a half of the mean, so that windows hit no rhythm. */
static uint64_t guard_pause_ns(uint64_t length_ns, double duty)
{
	double mean_ns = (double)length_ns * (1 - duty) / duty;
	uint32_t number = UINT32_MAX / 2;

	(void)!getrandom(&number, sizeof(number), GRND_NONBLOCK);
	return (uint64_t)(mean_ns * (0.5 + (double)number / UINT32_MAX));
}

/* The time until which the window is open, or the level off. */
static uint64_t guard_turn_ns(const struct guard *guard, enum level level)
{
	const struct guard_window *window = &guard->window[level];
	uint64_t end_ns;

	if (!guard->context->levels.on[level])
		return level == LEVEL_L0 && guard->held ? 0 : window->next_ns;
	if (level == LEVEL_L0 && guard->held)
		return UINT64_MAX;
	end_ns = collectors_window_end_ns(guard->context->collectors, level, window->open_ns);
	return end_ns ? end_ns : window->open_ns + GUARD_WINDOW_NS;
}

static void guard_turn_window(struct guard *guard, enum level level, uint64_t now_ns)
{
	struct guard_window *window = &guard->window[level];
	bool open = !guard->context->levels.on[level];

	guard_measure_ranks(guard, now_ns);
	if (levels_window(guard->context, level, open, window->duty) < 0) {
		window->open_ns = now_ns;
		window->next_ns = now_ns + PLAN_NS;
		return;
	}
	log_debug("guard", "a window of %s %s", level_name(level),
		open ? "opens" : "ends"); /* tests/e2e/gpu/steady.sh reads it */
	if (open) {
		window->open_ns = now_ns;
	} else {
		window->next_ns = now_ns + guard_pause_ns(now_ns - window->open_ns, window->duty);
		/* The table memory_curve has a row of each window, by its second. */
		if (window->next_ns < window->open_ns + NSEC_PER_SEC)
			window->next_ns = window->open_ns + NSEC_PER_SEC;
	}
}

/* Steps that cannot be counted by backward alone, or a new rank: L0 as a whole, until the next plan at least. */
static void guard_run_l0(struct guard *guard, uint64_t now_ns)
{
	const struct levels *levels = &guard->context->levels;

	guard->held = guard_hold_turn(
		&guard->hold, levels->suspected_ns, levels->sampled[LEVEL_L0] && levels->on[LEVEL_L0], now_ns);
	if (!levels->sampled[LEVEL_L0] || guard_may_sample(guard, LEVEL_L0, now_ns) ||
		!levels_may_sample(levels, LEVEL_L0, now_ns))
		return;
	guard_measure_ranks(guard, now_ns);
	if (levels_sample(guard->context, LEVEL_L0, false) < 0)
		return;
	guard->window[LEVEL_L0].duty = 1;
	log_notice("guard", "L0 is on all the time: %s",
		guard->context->config.budget_samples_l0
			? "a rank is new, had no step for a second, or its steps differ in number of backward passes"
			: "[budget] sample_l0 is off");
}

static void guard_run_windows(struct guard *guard, uint64_t now_ns)
{
	const struct levels *levels = &guard->context->levels;

	for (enum level level = 0; level < LEVEL_MAX; level++)
		if (levels->sampled[level] && levels_may_sample(levels, level, now_ns) &&
			now_ns >= guard_turn_ns(guard, level))
			guard_turn_window(guard, level, now_ns);
}

static void guard_tick_second(struct guard *guard, uint64_t now_ns)
{
	guard_order_calibration(guard);
	guard_take_calibration(guard);
	guard_measure_ranks(guard, now_ns);
	guard_measure_own(guard, now_ns);
	if (now_ns - guard->plan_ns < PLAN_NS)
		return;
	guard->plan_ns = now_ns;
	guard_cpus_turn(guard);
	guard_make_plan(guard, now_ns);
	guard_publish_excess(guard, now_ns);
}

void guard_tick(struct guard *guard, uint64_t now_ns)
{
	if (!guard)
		return;
	if (now_ns - guard->second_ns >= NSEC_PER_SEC) {
		guard->second_ns = now_ns;
		guard_tick_second(guard, now_ns);
	}
	guard_run_l0(guard, now_ns);
	guard_run_windows(guard, now_ns);
}
