/* SPDX-License-Identifier: Apache-2.0 */
/* Who is watched, and when what is done. See findings_room.h. */
#include "bpf/event.h"
#include "daemon/context.h"
#include "daemon/findings_internal.h"
#include "daemon/kernel.h"
#include "daemon/store.h"

static int64_t online_clock_ns(clockid_t clock)
{
	struct timespec t = {0};

	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * (int64_t)NSEC_PER_SEC + t.tv_nsec;
}

/* /proc tells starts by the clock that goes on while the machine sleeps. */
static uint64_t start_ns(const struct rank *rank)
{
	int64_t slept_ns = online_clock_ns(CLOCK_BOOTTIME) - online_clock_ns(CLOCK_MONOTONIC);
	int64_t start = (int64_t)rank->start_time_ns - (slept_ns > 0 ? slept_ns : 0);

	return start > 0 ? (uint64_t)start : 1;
}

static uint32_t world_size(const struct rank *rank)
{
	return rank->env.world_size > 0 ? (uint32_t)rank->env.world_size : 1;
}

/* A number that the framer gives anew is nobody else's any more. */
static void forget_number(struct findings_room *room, int number)
{
	for (size_t i = 0; i < FINDINGS_ENDED; i++)
		if (room->ended[i].instance && room->ended[i].process == number)
			room->ended[i].instance = 0;
}

static void online_begin(struct findings_room *room, const struct rank *rank)
{
	struct findings_process *process = &room->slot[rank->slot];
	int number = framer_rank_new(room->framer, &(struct framer_rank){
							   .job = rank->env.job,
							   .rank = rank->env.rank,
							   .world_size = world_size(rank),
							   .host = rank->host,
							   .card = rank->env.card,
							   .port = rank->env.master_port > 0
									   ? (uint16_t)rank->env.master_port
									   : 0,
							   .start_ns = start_ns(rank),
							   .from_start = rank->from_start,
						   });

	if (number < 0)
		return; /* beyond the bound: it is not judged, and the framer counts it */
	forget_number(room, number);
	*process = (struct findings_process){
		.instance = rank->instance,
		.process = number,
		.pid = rank->pid,
		.slot = rank->slot,
		.start_time_ns = rank->start_time_ns,
		.rank = rank->env.rank,
		.world_size = world_size(rank),
	};
	(void)copy_text(process->job, sizeof(process->job), rank->env.job);
}

static void online_end(struct findings_room *room, struct findings_process *process, bool ended)
{
	uint64_t now_ns = monotonic_ns();

	findings_samples_end(room, process);
	framer_rank_end(room->framer, process->process, now_ns);
	if (ended) {
		(void)steps_room_progress(room->context->steps, process->slot, process->instance, &process->last);
		process->ended_ns = now_ns;
		room->ended[room->ended_next++ % FINDINGS_ENDED] = *process;
	}
	*process = (struct findings_process){0};
	if (ended)
		findings_look_ended(room, now_ns);
}

static bool online_is_same(const struct findings_process *process, const struct rank *rank)
{
	return process->instance == rank->instance && process->rank == rank->env.rank &&
	       process->world_size == world_size(rank) && streq(process->job, rank->env.job);
}

static void online_on_rank(void *arg, const struct rank *rank, enum rank_change change)
{
	struct findings_room *room = arg;
	struct findings_process *process;
	bool is_rank = rank->role == RANK_ROLE_RANK && change != RANK_ENDED;

	if (rank->slot >= room->slots)
		return;
	process = &room->slot[rank->slot];
	if (process->instance && (is_rank ? !online_is_same(process, rank) : process->instance == rank->instance))
		online_end(room, process, change == RANK_ENDED);
	if (is_rank && !process->instance && rank->instance)
		online_begin(room, rank);
	else if (is_rank && process->instance)
		framer_rank_card(room->framer, process->process, rank->env.card);
}

static void online_want(void *arg, unsigned wants, const char *job, const char *why)
{
	struct findings_room *room = arg;

	findings_raise_want(&room->raise, room->context, wants, job, why, monotonic_ns());
}

static struct detect_options options_of(const struct config *config)
{
	struct detect_options options;

	detect_options_default(&options);
	options.slow_ratio = 1 + (double)config->findings_slow_percent / 100;
	options.gain_min = (double)config->findings_gain_percent / 100;
	options.job_ratio = 1 + (double)config->findings_job_percent / 100;
	options.hang_ns = config->findings_hang_ns;
	options.hang_busy_ns = config->findings_hang_busy_ns;
	return options;
}

int findings_room_new(struct context *context, struct findings_room **ret)
{
	struct detect_options options = options_of(&context->config);
	size_t slots = context->config.ranks_max;
	struct findings_room *room;
	int r;

	if (!context->config.findings_enabled) {
		*ret = NULL;
		return 0;
	}
	room = calloc(1, sizeof(*room) + slots * sizeof(room->slot[0]));
	if (!room)
		return -ENOMEM;
	room->context = context;
	room->slots = slots;
	(void)copy_text(room->proc_root, sizeof(room->proc_root), "/proc");
	(void)copy_text(room->cgroup_root, sizeof(room->cgroup_root), "/sys/fs/cgroup");
	/* Microseconds, so that programs which know only floating point read them whole. */
	room->id_base = realtime_ns() / NSEC_PER_USEC;
	room->detect = detect_new(&options, &(struct detect_sink){.finding = findings_tell, .want = online_want, .arg = room});
	r = room->detect ? ranks_observe(context->ranks, online_on_rank, room) : -ENOMEM;
	if (r < 0) {
		detect_free(room->detect);
		free(room);
		return r;
	}
	room->framer = detect_framer(room->detect);
	findings_left_close(room);
	*ret = room;
	return 0;
}

struct findings_room *findings_room_free(struct findings_room *room)
{
	if (!room)
		return NULL;
	room->ending = true;
	for (size_t i = 0; i < room->slots; i++)
		if (room->slot[i].instance)
			findings_samples_end(room, &room->slot[i]);
	detect_end(room->detect);
	detect_free(room->detect);
	findings_left_mark(room, false);
	free(room);
	return NULL;
}

/* What the kernel dropped may have been records of any rank. */
static void online_tell_drops(struct findings_room *room)
{
	const struct kernel *kernel = room->context->kernel;
	uint64_t drops = kernel ? kernel_drops(kernel, RT_KIND_CALL) : 0;

	if (drops == room->drops)
		return;
	for (size_t i = 0; i < room->slots; i++)
		if (room->slot[i].instance)
			framer_lost(room->framer, room->slot[i].process, drops - room->drops);
	room->drops = drops;
}

/* Not from within detect_advance(), which may raise the level. */
static void tell_watched(struct findings_room *room, uint64_t now_ns)
{
	bool on = room->context->levels.on[LEVEL_L1];

	if (on != room->watched)
		framer_watched(room->framer, on, on ? monotonic_ns() : room->watched_ns);
	room->watched = on;
	if (on)
		room->watched_ns = now_ns;
}

void findings_room_tick(struct findings_room *room, uint64_t now_ns)
{
	if (!room)
		return;
	findings_samples_take(room, now_ns);
	online_tell_drops(room);
	detect_advance(room->detect, now_ns);
	tell_watched(room, now_ns);
	findings_look(room, now_ns);
	findings_raise_tick(&room->raise, room->context, room->counts.suspected > 0, now_ns);
}

void findings_room_counts(const struct findings_room *room, struct findings_counts *ret)
{
	struct framer_counts framer = {0};

	*ret = (struct findings_counts){0};
	if (!room)
		return;
	*ret = room->counts;
	framer_counts(room->framer, &framer);
	ret->frames = framer.frames;
	ret->ranks_left_out = framer.ranks_left_out;
	ret->raises = room->raise.count;
}
