/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of the ranks of a hung job. Bounds and state are in online_internal.h. */
#include <math.h>

#include "analyzers/base/text.h"
#include "daemon/base/log.h"
#include "daemon/core/context.h"
#include "daemon/findings/online_internal.h"
#include "daemon/stacks/profiles.h"
#include "daemon/stacks/stacks.h"
#include "daemon/store/store.h"

#define ONLINE_STACKS_ROWS_MAX 4096	 /* of one time: 8 ranks of 400 threads, and children */
#define ONLINE_STACKS_FRAMES_BYTES 16384 /* of a row; outer frames are left out beyond */

/* Under way. The daemon may stop meanwhile: online is then gone, and context->findings NULL. */
struct online_stacks_request {
	struct context *context;
	const struct rank *peer;     /* a rank of the job: during the choice of ranks */
	const struct online *online; /* the same */
	char job[64];
	uint64_t id, start_ns; /* id: of the finding that keeps them; 0: none */
	uint32_t uid;	       /* of its ranks */
};

static int online_stacks_find(const struct online *online, uint64_t id)
{
	for (int i = 0; i < ONLINE_STACKS_MAX; i++)
		if (id && online->stacks.hang[i].id == id)
			return i;
	return -1;
}

static bool online_stacks_wanted(void *arg, const struct rank *rank)
{
	struct online_stacks_request *request = arg;
	const struct online *online = request->online;
	const struct rank *peer = request->peer;

	/* Jobs may have no names, and one name may be that of several users' jobs. */
	if (peer && (peer->uid != rank->uid || peer->env.master_port != rank->env.master_port ||
			    peer->env.world_size != rank->env.world_size))
		return false;
	for (size_t i = 0; i < online->slots_used; i++)
		if (online->slot[i].instance == rank->instance && streq(online->slot[i].job, request->job)) {
			request->uid = rank->uid;
			return true;
		}
	return false;
}

/* The rank that the finding names; NULL: none, or not here. */
static const struct rank *online_stacks_peer(const struct online *online, const struct finding *finding)
{
	for (size_t i = 0; i < online->slots_used; i++) {
		const struct online_process *process = &online->slot[i];

		if (process->instance && !process->ended_ns && streq(process->job, finding->job) &&
			(process->rank == finding->rank || finding->kind == FINDING_SLOW_JOB))
			return ranks_by_pid(online->context->ranks, process->pid);
	}
	return NULL;
}

static void online_stacks_put(const struct online_stacks_request *request, const Ranktrace__StackProcess *process,
	const struct stack_thread *thread)
{
	const struct online *online = request->context->findings;
	const struct rank *rank = ranks_by_pid(request->context->ranks, process->pid);
	const Ranktrace__StackThread *message = NULL;
	char frames[ONLINE_STACKS_FRAMES_BYTES] = "";
	const char *reason = *process->reason ? process->reason : process->python_reason;

	for (size_t i = 0; thread && i < process->n_threads; i++)
		if (process->threads[i]->thread_id == thread->thread_id)
			message = process->threads[i];
	if (thread)
		stack_frames_text(thread, frames, sizeof(frames));
	if (message && (*message->python_reason || *message->native_reason))
		reason = *message->python_reason ? message->python_reason : message->native_reason;
	store_put_stacks(request->context->store,
		&(struct row_stacks){
			.finding = field_int((int64_t)(online->id_base + request->id)),
			.start_ns = field_time(store_utc_ns(request->context->store, request->start_ns)),
			.rank = field_int_if(process->rank >= 0, process->rank),
			.role = field_text(process->role),
			.pid = field_int(process->pid),
			.thread_id = field_int_if(thread, thread ? thread->thread_id : 0),
			.thread_name = field_text_if(thread ? thread->name : ""),
			.main = field_int(thread && thread->main),
			.state = field_text_if(thread ? thread->state : ""),
			.wait = field_text_if(thread ? thread->wait : ""),
			.has_gil = field_int(thread && thread->has_gil),
			.frames = field_text_if(frames),
			.reason = field_text_if(reason),
			.instance = field_int_if(rank, rank ? rank->instance : 0),
		});
}

/* A thread of the answer with its frames, which the caller frees. */
static bool online_stacks_thread(
	const Ranktrace__StackProcess *process, const Ranktrace__StackThread *message, struct stack_thread *ret)
{
	struct stack_frame *frames = calloc(message->n_frames + 1, sizeof(*frames));

	if (!frames)
		return false;
	for (size_t i = 0; i < message->n_frames; i++) {
		const Ranktrace__StackFrame *frame = process->frames[message->frames[i]];

		frames[i] =
			(struct stack_frame){frame->kind, frame->function, frame->file, frame->line, frame->address};
	}
	*ret = (struct stack_thread){.rank = process->rank,
		.pid = process->pid,
		.thread_id = message->thread_id,
		.is_rank = streq(process->role, "rank"),
		.main = message->main,
		.has_gil = message->has_gil,
		.job = process->job,
		.name = message->name,
		.state = message->state,
		.wait = message->wait,
		.frames = message->n_frames,
		.frame = frames};
	return true;
}

/* Without Python frames a stack does not show that the rank is outside of communication. works: a thread of its process
 * runs or waits for a disk. */
static enum standing_stack online_stacks_of(const struct stack_thread *main, bool works)
{
	if (stack_communicates(main))
		return STANDING_STACK_COMMUNICATION;
	for (size_t i = 0; i < main->frames; i++)
		if (stack_frame_is_python(&main->frame[i]))
			return stack_waits_for_lock(main) && !works ? STANDING_STACK_LOCK : STANDING_STACK_OTHER;
	return STANDING_STACK_UNKNOWN;
}

/* For hang detection. */
static void online_stacks_note(struct online *online, const struct stack_thread *main, bool works, uint64_t start_ns)
{
	enum standing_stack stack = online_stacks_of(main, works);

	for (size_t i = 0; i < online->slots_used; i++) {
		struct online_process *process = &online->slot[i];

		if (!process->instance || process->pid != (uint32_t)main->pid)
			continue;
		process->stack_ns = start_ns;
		process->stack = stack;
	}
}

/* Main threads of ranks say who is alone. */
static void online_stacks_judge(struct online *online, int at, const struct stack_thread *main, size_t mains)
{
	struct stack_groups groups;
	char place[STACK_PLACE_BYTES];

	stack_sentence(main, mains, online->stacks.hang[at].sentence);
	online->stacks.hang[at].place[0] = 0;
	if (!stack_groups_new(main, mains, &groups))
		return;
	if (groups.groups && groups.group[0].alone) {
		const struct stack_thread *lone = &main[groups.order[groups.group[0].first]];

		(void)copy_text(
			online->stacks.hang[at].place, sizeof(online->stacks.hang[at].place), stack_place(lone, place));
	}
	stack_groups_free(&groups);
}

/* A thread of it runs, or waits for a disk. */
static bool online_stacks_works(const Ranktrace__StackProcess *process)
{
	for (size_t i = 0; i < process->n_threads; i++)
		if (process->threads[i]->state[0] == 'R' || process->threads[i]->state[0] == 'D')
			return true;
	return false;
}

static void online_stacks_keep(
	const struct online_stacks_request *request, const Ranktrace__StackBody *body, struct online *online, int at)
{
	struct stack_thread *main = calloc(body->n_processes + 1, sizeof(*main));
	size_t mains = 0, rows = 0;

	for (size_t i = 0; main && i < body->n_processes; i++) {
		const Ranktrace__StackProcess *process = body->processes[i];
		size_t before = mains;

		if (request->id && !process->n_threads)
			online_stacks_put(request, process, NULL);
		for (size_t j = 0; j < process->n_threads; j++) {
			struct stack_thread thread;

			if (!online_stacks_thread(process, process->threads[j], &thread))
				continue;
			if (request->id && rows++ < ONLINE_STACKS_ROWS_MAX)
				online_stacks_put(request, process, &thread);
			if (thread.main && thread.is_rank && mains < body->n_processes)
				main[mains++] = thread;
			else
				free((void *)thread.frame);
		}
		if (mains > before)
			online_stacks_note(online, &main[before], online_stacks_works(process), request->start_ns);
	}
	if (main && at >= 0)
		online_stacks_judge(online, at, main, mains);
	for (size_t i = 0; i < mains; i++)
		free((void *)main[i].frame);
	free(main);
}

static void online_stacks_done(void *arg, Ranktrace__StackBody *body)
{
	struct online_stacks_request *request = arg;
	struct online *online = request->context->findings;
	int at = online ? online_stacks_find(online, request->id) : -1;

	if (body && online) {
		online_stacks_keep(request, body, online, at);
		if (at >= 0 && online->stacks.hang[at].sentence[0]) {
			struct finding f = online->stacks.hang[at].last;

			online->stacks.hang[at].uid = request->uid;
			online->stacks.hang[at].time_ns = request->start_ns;
			log_info("findings", "stacks: %s", online->stacks.hang[at].sentence);
			online_stacks_add(online, &f);
			online_publish_put_row(online, &f);
		}
	}
	if (body)
		ranktrace__stack_body__free_unpacked(body, NULL);
	free(request);
}

static uint64_t online_stacks_left(const struct online_stacks_budget *budget, uint64_t now_ns)
{
	uint64_t full_ns = ONLINE_STACKS_BURST * ONLINE_STACKS_NS;
	uint64_t left_ns = budget->at_ns ? budget->left_ns + (now_ns - budget->at_ns) : full_ns;

	return left_ns < full_ns ? left_ns : full_ns;
}

/* spare: only if half of what a user can save up is left. */
static bool online_stacks_afford(struct online_stacks *stacks, uint32_t uid, uint64_t now_ns, bool spare)
{
	struct online_stacks_budget *budget = stacks->budget;
	uint64_t left_ns;

	for (size_t i = 0; i < ONLINE_STACKS_USERS; i++) {
		if (stacks->budget[i].at_ns && stacks->budget[i].uid == uid) {
			budget = &stacks->budget[i];
			break;
		}
		if (online_stacks_left(&stacks->budget[i], now_ns) > online_stacks_left(budget, now_ns))
			budget = &stacks->budget[i];
	}
	left_ns = online_stacks_left(budget, now_ns);
	if (left_ns < (spare ? ONLINE_STACKS_BURST * ONLINE_STACKS_NS / 2 : ONLINE_STACKS_NS))
		return false;
	*budget = (struct online_stacks_budget){uid, left_ns - ONLINE_STACKS_NS, now_ns};
	return true;
}

/* A free entry, else one of the user who has the most. */
static int online_stacks_place(struct online_stacks *stacks)
{
	unsigned most = 0, at = 0;

	for (unsigned n = 0; n < ONLINE_STACKS_MAX; n++) {
		unsigned i = stacks->next++ % ONLINE_STACKS_MAX, count = 0;

		if (!stacks->hang[i].id)
			return (int)i;
		for (unsigned j = 0; j < ONLINE_STACKS_MAX; j++)
			count += stacks->hang[j].last.uid == stacks->hang[i].last.uid;
		if (count > most) {
			most = count;
			at = i;
		}
	}
	stacks->next = at + 1;
	return (int)at;
}

/* id 0: of no finding. */
static bool online_stacks_start(
	struct online *online, const struct rank *peer, const char *job, uint32_t uid, uint64_t id)
{
	struct online_stacks_request *request;
	struct stacks_take take = {.wanted = online_stacks_wanted, .done = online_stacks_done};
	int r;

	if (!online_stacks_afford(&online->stacks, uid, monotonic_ns(), !id)) {
		online->stacks.skipped++;
		return false;
	}
	request = calloc(1, sizeof(*request));
	if (!request)
		return false;
	request->context = online->context;
	request->online = online;
	request->peer = peer;
	request->id = id;
	request->start_ns = monotonic_ns();
	(void)copy_text(request->job, sizeof(request->job), job);
	take.arg = request;
	r = stacks_start(online->context->stacks, &take);
	request->online = NULL;
	request->peer = NULL;
	online->stacks.taken += r == 0;
	if (r == 0)
		return true;
	log_info("findings", "no stacks are taken of job %s: %s", job, strerror(-r));
	free(request);
	return false;
}

/* Of jobs with the same name, or none, the one that has been silent longest. */
void online_stacks_want(struct online *online, const char *job, uint32_t uid)
{
	const struct online_process *silent = NULL;
	uint64_t least_ns = UINT64_MAX;

	for (size_t i = 0; i < online->slots_used; i++) {
		const struct online_process *process = &online->slot[i];
		struct rank_steps_progress progress = {0};

		if (!process->instance || process->uid != uid || !streq(process->job, job) ||
			!rank_steps_progress(online->context->steps, process->slot, process->instance, &progress) ||
			progress.mark_ns >= least_ns)
			continue;
		silent = process;
		least_ns = progress.mark_ns;
	}
	if (silent)
		(void)online_stacks_start(online, ranks_by_pid(online->context->ranks, silent->pid), job, uid, 0);
}

void online_stacks_take(struct online *online, const struct finding *finding, bool changed)
{
	bool lasts = finding->state == FINDING_SUSPECTED || finding->state == FINDING_OPEN;
	int at = online_stacks_find(online, finding->id);

	if (changed && lasts && !online->ending &&
		(finding->kind == FINDING_SLOW_RANK || finding->kind == FINDING_SLOW_JOB))
		profiles_suspect(online->context->profiles, online_stacks_peer(online, finding),
			finding->kind == FINDING_SLOW_JOB);
	if (finding->kind != FINDING_HANG)
		return;
	if (at < 0 && lasts) {
		at = online_stacks_place(&online->stacks);
		online->stacks.hang[at].id = finding->id;
		online->stacks.hang[at].sentence[0] = 0;
		online->stacks.hang[at].place[0] = 0;
		online->stacks.hang[at].owed = false;
	}
	if (at < 0)
		return;
	online->stacks.hang[at].last = *finding;
	if ((changed || online->stacks.hang[at].owed) && lasts && !online->ending)
		online->stacks.hang[at].owed = !online_stacks_start(
			online, online_stacks_peer(online, finding), finding->job, finding->uid, finding->id);
}

void online_stacks_add(const struct online *online, struct finding *finding)
{
	int at = online_stacks_find(online, finding->id);

	if (at < 0 || finding->kind != FINDING_HANG || !online->stacks.hang[at].sentence[0])
		return;
	text_append(finding->sentence, sizeof(finding->sentence), "; %s", online->stacks.hang[at].sentence);
	if (online->stacks.hang[at].place[0])
		finding_add(finding, "stack", "1", 1, NAN, online->stacks.hang[at].place);
}

void online_stacks_each(
	const struct online *online, void (*callback)(void *arg, const struct online_stack_info *info), void *arg)
{
	for (size_t i = 0; online && i < ONLINE_STACKS_MAX; i++) {
		enum finding_state state = online->stacks.hang[i].last.state;
		const struct online_stack_info info = {online->stacks.hang[i].last.job, online->stacks.hang[i].sentence,
			online->stacks.hang[i].uid, online->stacks.hang[i].time_ns, false};

		if (online->stacks.hang[i].id && info.sentence[0] &&
			(state == FINDING_SUSPECTED || state == FINDING_OPEN))
			callback(arg, &info);
	}
	if (online)
		online_end_each(online, callback, arg);
}
