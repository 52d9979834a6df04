/* SPDX-License-Identifier: Apache-2.0 */
/* Lifecycle of the online detector: registers ranks, runs its parts every tick. */
#include "analyzers/gauges/system_causes.h"
#include "bpf/event.h"
#include "daemon/base/job_thread.h"
#include "daemon/core/context.h"
#include "daemon/findings/online_internal.h"
#include "daemon/gauges/gauges.h"
#include "daemon/kernel/kernel.h"
#include "daemon/store/store.h"

/* /proc counts starts on CLOCK_BOOTTIME, which includes suspend. */
static uint64_t online_start_ns(const struct rank *rank)
{
	int64_t slept_ns = (int64_t)(clock_ns(CLOCK_BOOTTIME) - clock_ns(CLOCK_MONOTONIC));
	int64_t start = (int64_t)rank->start_time_ns - (slept_ns > 0 ? slept_ns : 0);

	return start > 0 ? (uint64_t)start : 1;
}

static uint32_t world_size(const struct rank *rank)
{
	return rank->env.world_size > 0 ? (uint32_t)rank->env.world_size : 1;
}

/* A number reused by the aligner no longer names an ended rank. */
static void forget_number(struct online *online, int number)
{
	for (size_t i = 0; i < FINDINGS_ENDED; i++)
		if (online->ended[i].instance && online->ended[i].process == number)
			online->ended[i].instance = 0;
}

static void online_begin(struct online *online, const struct rank *rank)
{
	struct online_process *process = &online->slot[rank->slot];
	int number = align_rank_new(
		online->align, &(struct align_rank){
				       .job = rank->env.job,
				       .rank = rank->env.rank,
				       .world_size = world_size(rank),
				       .pid = rank->pid,
				       .host = rank->host,
				       .card = rank->env.card,
				       .port = rank->env.master_port > 0 ? (uint16_t)rank->env.master_port : 0,
				       .launcher = rank->parent_pid,
				       .uid = rank->uid,
				       .start_ns = online_start_ns(rank),
				       .from_start = rank->from_start,
			       });

	if (number < 0)
		return; /* bound reached: not judged; the aligner counts it */
	forget_number(online, number);
	*process = (struct online_process){
		.instance = rank->instance,
		.process = number,
		.pid = rank->pid,
		.slot = rank->slot,
		.start_time_ns = rank->start_time_ns,
		.rank = rank->env.rank,
		.world_size = world_size(rank),
		.uid = rank->uid,
	};
	(void)copy_text(process->job, sizeof(process->job), rank->env.job);
}

static void online_end(struct online *online, struct online_process *process, bool ended)
{
	uint64_t now_ns = monotonic_ns();

	online_samples_end(online, process);
	align_rank_end(online->align, process->process, now_ns);
	if (ended) {
		(void)rank_steps_progress(online->context->steps, process->slot, process->instance, &process->last);
		process->ended_ns = now_ns;
		online->ended[online->ended_next++ % FINDINGS_ENDED] = *process;
	}
	*process = (struct online_process){0};
	if (ended)
		online_stall_ended(online, now_ns);
}

static bool online_is_same(const struct online_process *process, const struct rank *rank)
{
	return process->instance == rank->instance && process->rank == rank->env.rank &&
	       process->world_size == world_size(rank) && streq(process->job, rank->env.job);
}

static void online_on_rank(void *arg, const struct rank *rank, enum rank_change change)
{
	struct online *online = arg;
	struct online_process *process;
	bool is_rank = rank->role == RANK_ROLE_RANK && change != RANK_ENDED;

	if (rank->slot >= online->slots)
		return;
	if (rank->slot >= online->slots_used)
		online->slots_used = rank->slot + 1;
	process = &online->slot[rank->slot];
	if (process->instance && (is_rank ? !online_is_same(process, rank) : process->instance == rank->instance))
		online_end(online, process, change == RANK_ENDED);
	if (is_rank && !process->instance && rank->instance)
		online_begin(online, rank);
	else if (is_rank && process->instance)
		align_rank_card(online->align, process->process, rank->env.card);
}

bool online_doubts(const struct online *online, uint32_t uid)
{
	return online->context->ranks && ranks_suspicion(online->context->ranks, uid)[0];
}

static void online_want(void *arg, unsigned wants, uint32_t uid, const char *job, const char *why)
{
	struct online *online = arg;

	if (online_doubts(online, uid))
		return;
	if (wants & JUDGE_WANT_STAGES)
		online->context->levels.suspected_ns = monotonic_ns();
	if (wants & JUDGE_WANT_STACKS)
		online_stacks_want(online, job ? job : "", uid);
	if (wants & ~(unsigned)(JUDGE_WANT_STAGES | JUDGE_WANT_STACKS))
		online_auto_level_want(&online->auto_level, online->context, wants, job, why, monotonic_ns());
}

static struct detect_options options_of(const struct config *config)
{
	struct detect_options options;
	struct judge_grade *grade = options.judge.grade;

	detect_options_default(&options);
	options.slow_ratio = 1 + (double)config->findings_slow_percent / 100;
	options.gain_min = (double)config->findings_gain_percent / 100;
	options.judge.job_growth = (double)config->findings_job_percent / 100;
	grade[JUDGE_NOTICE].growth = (double)config->findings_notice_percent / 100;
	grade[JUDGE_NOTICE].lasts_ns = config->findings_notice_ns;
	grade[JUDGE_WARNING].growth = (double)config->findings_warning_percent / 100;
	grade[JUDGE_WARNING].lasts_ns = config->findings_warning_ns;
	grade[JUDGE_SUDDEN].growth = (double)config->findings_critical_percent / 100;
	grade[JUDGE_SOON].growth = grade[JUDGE_SUDDEN].growth / 2;
	grade[JUDGE_CRITICAL].growth = (double)config->findings_critical_percent / 100;
	grade[JUDGE_CRITICAL].lasts_ns = config->findings_critical_ns;
	options.hang_ns = config->findings_hang_ns;
	options.hang_busy_ns = config->findings_hang_busy_ns;
	return options;
}

/* Names the ranks of the frame for the observer. */
static void online_on_frame(void *arg, uint32_t job, const struct frame *frame, const struct measures *measures)
{
	struct online *online = arg;

	if (!online->observer || !online->observer->frame)
		return;
	for (size_t i = 0; i < online->slots_used; i++) {
		const struct online_process *process = &online->slot[i];
		uint32_t number, index;

		if (process->instance && align_locate(online->align, process->process, &number, &index) &&
			number == job && index < frame->ranks && frame->rank[index].here)
			online->observer->frame(online->observer_arg, process->slot, process->instance, frame->tier,
				&frame->rank[index], &measures->rank[index]);
	}
}

void online_observe(struct online *online, const struct online_observer *observer, void *arg)
{
	if (!online)
		return;
	online->observer = observer;
	online->observer_arg = arg;
}

/* What the node's hardware says of itself. */
static void online_on_card(void *arg, const struct gauge_card *card)
{
	const struct online *online = arg;
	struct hardware_card of = {.minor = card->minor};

	(void)copy_text(of.object, sizeof(of.object), card->object);
	(void)copy_text(of.pci, sizeof(of.pci), card->pci);
	if (online->hardware)
		hardware_card(online->hardware, &of);
}

static void online_on_gauge(void *arg, uint64_t time_ns, const char *object, const char *name, double value)
{
	const struct online *online = arg;

	if (online->hardware)
		hardware_gauge(online->hardware, time_ns, object, name, value);
}

static void online_on_message(void *arg, uint64_t time_ns, const struct gauges_message *message)
{
	struct online *online = arg;

	if (online->hardware)
		hardware_message(
			online->hardware, time_ns, message->kind, message->object, message->number, message->text);
	online_end_message(online, time_ns, message);
}

static const struct gauges_observer online_gauges_observer = {online_on_card, online_on_gauge, online_on_message};

int online_new(struct context *context, struct online **ret)
{
	struct detect_options options = options_of(&context->config);
	size_t slots = context->config.ranks_max;
	struct online *online;
	int r;

	if (!context->config.findings_enabled) {
		*ret = NULL;
		return 0;
	}
	online = calloc(1, sizeof(*online) + slots * sizeof(online->slot[0]));
	if (!online)
		return -ENOMEM;
	online->context = context;
	online->slots = slots;
	online->wait_ns = ONLINE_WAIT_NS;
	(void)copy_text(online->proc_root, sizeof(online->proc_root), "/proc");
	(void)copy_text(online->cgroup_root, sizeof(online->cgroup_root), "/sys/fs/cgroup");
	/* Microseconds: exact in programs with only floating point. */
	online->id_base = realtime_ns() / NSEC_PER_USEC;
	online->detect = detect_new(&options, &(struct detect_sink){.finding = online_publish,
						      .want = online_want,
						      .frame = online_on_frame,
						      .resumed = online_learned_used,
						      .arg = online});
	r = online->detect ? job_thread_new(&online->reader) : -ENOMEM;
	if (r == 0)
		r = job_thread_new(&online->writer);
	if (r == 0)
		r = ranks_observe(context->ranks, online_on_rank, online);
	if (r < 0) {
		job_thread_free(online->reader);
		job_thread_free(online->writer);
		detect_free(online->detect);
		free(online);
		return r;
	}
	online->align = detect_align(online->detect);
	online->hardware = detect_hardware(online->detect, context->host);
	gauges_observe(context->gauges, &online_gauges_observer, online);
	(void)rank_steps_observe(context->steps, &online_steps_observer, online);
	(void)rank_coll_observe(context->ops, &online_coll_observer, online);
	online_recover_close(online, ONLINE_RECOVER_NS);
	online_learned_load(online);
	*ret = online;
	return 0;
}

struct online *online_free(struct online *online)
{
	if (!online)
		return NULL;
	online->ending = true;
	(void)rank_steps_observe(online->context->steps, NULL, online);
	(void)rank_coll_observe(online->context->ops, NULL, online);
	for (size_t i = 0; i < online->slots_used; i++)
		if (online->slot[i].instance)
			online_samples_end(online, &online->slot[i]);
	online_profile_end(online);
	detect_end(online->detect);
	online_recover_mark(online, false);
	online_learned_save(online);
	detect_free(online->detect);
	system_causes_free(online->system);
	online_samples_forget(online);
	online_recover_forget(online);
	online_learned_forget(online);
	job_thread_free(online->reader);
	job_thread_free(online->writer);
	free(online);
	return NULL;
}

/*
 * What is judged is what was read, which is older than now where the daemon was behind (starved of CPU, suspended, with
 * a slow disk): up to when everything that happened was read.
 */
static uint64_t online_read_ns(const struct online *online, uint64_t now_ns)
{
	uint64_t drained_ns = online->context->drained_ns;

	return drained_ns && drained_ns < now_ns ? drained_ns : now_ns;
}

/* Records beyond a rank's part of the ring are its own. */
static void online_feed_limited(struct online *online)
{
	const struct kernel *kernel = online->context->kernel;

	for (size_t i = 0; kernel && i < online->slots_used; i++) {
		struct online_process *process = &online->slot[i];
		uint64_t limited = process->instance && !process->ended_ns ? kernel_limited_calls(kernel, (uint32_t)i)
									   : process->limited;

		if (limited > process->limited)
			align_lost(online->align, process->process, limited - process->limited);
		process->limited = limited;
	}
}

/* Dropped records may belong to any rank. */
static void online_feed_drops(struct online *online, uint64_t now_ns)
{
	const struct kernel *kernel = online->context->kernel;
	uint64_t drops = kernel ? kernel_drops(kernel, RT_KIND_CALL) : 0;

	online_feed_limited(online);
	if (drops == online->drops)
		return;
	for (size_t i = 0; i < online->slots_used; i++)
		if (online->slot[i].instance)
			align_lost(online->align, online->slot[i].process, drops - online->drops);
	online->drops = drops;
	online->blind_ns = now_ns;
}

/* Not from within detect_advance(), which may turn the level on. */
static void online_feed_watched(struct online *online, uint64_t now_ns)
{
	bool on = online->context->levels.on[LEVEL_L1];

	if (on != online->watched)
		align_watched(online->align, on, on ? monotonic_ns() : online->watched_ns);
	online->watched = on;
	if (on)
		online->watched_ns = now_ns;
}

void online_tick(struct online *online, uint64_t now_ns)
{
	if (!online)
		return;
	online_samples_take(online, now_ns);
	online_feed_drops(online, now_ns);
	detect_advance(online->detect, online_read_ns(online, now_ns));
	online_feed_watched(online, now_ns);
	online_stall_tick(online, online_read_ns(online, now_ns));
	online_auto_level_tick(&online->auto_level, online->context, online_publish_suspects(online), now_ns);
	online_profile_tick(online, now_ns);
	online_learned_tick(online, now_ns);
}

void online_counts_get(const struct online *online, struct online_counts *ret)
{
	struct align_counts align = {0};

	*ret = (struct online_counts){0};
	if (!online)
		return;
	*ret = online->counts;
	align_counts(online->align, &align);
	ret->frames = align.frames;
	ret->ranks_left_out = align.ranks_left_out;
	ret->raises = online->auto_level.count;
}
