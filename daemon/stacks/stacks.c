/* SPDX-License-Identifier: Apache-2.0 */
/* Takes: which processes, asking the worker for each rank, gathering the answers. See stacks.h. */
#include <sys/queue.h>

#include "daemon/stacks/stacks.h"

#include "analyzers/base/array.h"
#include "daemon/base/log.h"
#include "daemon/core/context.h"
#include "daemon/ranks/ranks.h"
#include "daemon/worker/worker.h"
#include "stacks/reply/reply.h"

/*
 * Files are read in pieces: memory is that of unwind tables (100 MB in libtorch_cuda) and names. A rank takes 10 to
 * 100 ms, its first reading from disk seconds.
 */
static const struct worker_kind stacks_kind = {
	.name = "stack",
	.program = "worker/stack",
	.processes_max = 2,
	.memory_bytes_max = 2ULL << 30,
	.cpu_s_max = 10,
	.wall_ns_max = 10 * NSEC_PER_SEC,
	.reply_bytes_max = REPLY_BYTES_MAX,
};

struct stacks_process {
	struct reply_pid asked;
	int32_t rank;
	uint32_t parent_pid;
	bool child;
	char job[64], command[256];
};

/* A rank and its children: one request to the worker. */
struct stacks_rank {
	struct stacks_running *running;
	int64_t instance;
	uint32_t uid;
	uint64_t request; /* 0: none under way */
	size_t processes;
	struct stacks_process process[REPLY_PIDS_MAX];
};

struct stacks_running {
	LIST_ENTRY(stacks_running) link;
	struct stacks *stacks;
	struct stacks_take take;
	Ranktrace__StackBody *body;
	size_t capacity; /* of the body's processes */
	size_t waiting;
	size_t ranks;
	struct stacks_rank *rank[STACKS_RANKS_MAX];
};

struct stacks {
	struct context *context;
	LIST_HEAD(, stacks_running) running;
	unsigned count;
};

int stacks_new(struct context *context, struct stacks **ret)
{
	struct stacks *stacks = calloc(1, sizeof(*stacks));

	if (!stacks)
		return -ENOMEM;
	stacks->context = context;
	LIST_INIT(&stacks->running);
	*ret = stacks;
	return 0;
}

static struct stacks_running *stacks_running_free(struct stacks_running *running)
{
	for (size_t i = 0; i < running->ranks; i++) {
		if (running->rank[i]->request)
			worker_cancel(running->stacks->context->workers, running->rank[i]->request);
		free(running->rank[i]);
	}
	if (running->body)
		ranktrace__stack_body__free_unpacked(running->body, NULL);
	LIST_REMOVE(running, link);
	running->stacks->count--;
	free(running);
	return NULL;
}

struct stacks *stacks_free(struct stacks *stacks)
{
	if (!stacks)
		return NULL;
	while (!LIST_EMPTY(&stacks->running)) {
		struct stacks_take take = LIST_FIRST(&stacks->running)->take;

		stacks_running_free(LIST_FIRST(&stacks->running));
		take.done(take.arg, NULL);
	}
	free(stacks);
	return NULL;
}

/* Gathering. */

static void stacks_set(char **field, const char *text)
{
	if (*field != protobuf_c_empty_string)
		free(*field);
	*field = strdup(text);
	if (!*field)
		*field = (char *)protobuf_c_empty_string;
}

/* Takes the message, which may be NULL: then `reason` is why. */
static void stacks_add(struct stacks_running *running, const struct stacks_process *process,
	Ranktrace__StackProcess *message, const char *reason)
{
	if (!message) {
		message = malloc(sizeof(*message));
		if (!message)
			return;
		*message = (Ranktrace__StackProcess)RANKTRACE__STACK_PROCESS__INIT;
		stacks_set(&message->reason, reason);
	}
	message->pid = process->asked.pid;
	message->rank = process->rank;
	message->parent_pid = process->parent_pid;
	stacks_set(&message->job, process->job);
	stacks_set(&message->role, process->child ? "child" : "rank");
	stacks_set(&message->command, process->command);
	running->body->processes[running->body->n_processes++] = message;
}

static int stacks_order(const void *a, const void *b)
{
	const Ranktrace__StackProcess *x = *(Ranktrace__StackProcess *const *)a,
				      *y = *(Ranktrace__StackProcess *const *)b;

	/* A rank before its children. */
	return strcmp(x->job, y->job) ?: ORDER(x->rank, y->rank) ?: strcmp(y->role, x->role) ?: ORDER(x->pid, y->pid);
}

static void stacks_finish(struct stacks_running *running)
{
	Ranktrace__StackBody *body = TAKE_PTR(running->body);
	struct stacks_take take = running->take;

	qsort(body->processes, body->n_processes, sizeof(*body->processes), stacks_order);
	stacks_running_free(running);
	take.done(take.arg, body);
}

static void stacks_rank_failed(struct stacks_rank *rank, size_t first, const char *reason)
{
	for (size_t i = first; i < rank->processes; i++)
		stacks_add(rank->running, &rank->process[i], NULL, reason);
}

static void stacks_on_reply(void *arg, struct worker_reply *reply)
{
	struct stacks_rank *rank = arg;
	struct stacks_running *running = rank->running;
	const uint8_t *data = reply->data;
	size_t size_bytes = reply->size_bytes, read = 0;
	Ranktrace__StackProcess *message;
	char reason[128];
	int r = 1;

	rank->request = 0;
	while (read < rank->processes && (r = reply_next(&data, &size_bytes, &message)) > 0) {
		if (message->pid != rank->process[read].asked.pid) {
			ranktrace__stack_process__free_unpacked(message, NULL);
			r = -EBADMSG;
			break;
		}
		stacks_add(running, &rank->process[read++], message, "");
	}
	if (r < 0 || reply->end == WORKER_ANSWERED)
		copy_text(reason, sizeof(reason), "the answer of the worker that reads it is broken");
	else
		snprintf(reason, sizeof(reason), "the worker that reads it %s", worker_end_words(reply->end));
	stacks_rank_failed(rank, read, reason);
	if (--running->waiting == 0)
		stacks_finish(running);
}

/* Choosing. */

struct stacks_choosing {
	struct stacks_running *running;
	int error;
};

static void stacks_choose(struct stacks_rank *of, const struct rank *rank)
{
	struct stacks_process *process;

	if (of->processes == REPLY_PIDS_MAX) {
		of->running->body->left_out++;
		return;
	}
	process = &of->process[of->processes++];
	*process = (struct stacks_process){
		.asked = {.pid = rank->pid, .start_time_ns = rank->start_time_ns},
		.rank = rank->env.rank,
		.parent_pid = rank->role == RANK_ROLE_CHILD ? rank->parent_pid : 0,
		.child = rank->role == RANK_ROLE_CHILD,
	};
	copy_text(process->job, sizeof(process->job), rank->env.job);
	if (process->child) { /* belongs to the rank, whatever its own environment says */
		process->rank = of->process[0].rank;
		copy_text(process->job, sizeof(process->job), of->process[0].job);
	}
	copy_text(process->command, sizeof(process->command), rank->command);
}

static void stacks_choose_rank(void *arg, const struct rank *rank)
{
	struct stacks_choosing *choosing = arg;
	struct stacks_running *running = choosing->running;
	struct stacks_rank *chosen;

	if (rank->role != RANK_ROLE_RANK || !running->take.wanted(running->take.arg, rank))
		return;
	if (running->ranks == STACKS_RANKS_MAX) {
		running->body->left_out++;
		return;
	}
	chosen = calloc(1, sizeof(*chosen));
	if (!chosen) {
		choosing->error = -ENOMEM;
		return;
	}
	chosen->running = running;
	chosen->instance = rank->instance;
	chosen->uid = rank->uid;
	running->rank[running->ranks++] = chosen;
	stacks_choose(chosen, rank);
}

static void stacks_choose_child(void *arg, const struct rank *rank)
{
	struct stacks_choosing *choosing = arg;
	struct stacks_running *running = choosing->running;

	if (rank->role != RANK_ROLE_CHILD)
		return;
	for (size_t i = 0; i < running->ranks; i++)
		if (running->rank[i]->instance == rank->parent_instance) {
			stacks_choose(running->rank[i], rank);
			break;
		}
}

static int stacks_ask(struct stacks_rank *rank)
{
	struct {
		struct reply_request head;
		struct reply_pid pid[REPLY_PIDS_MAX];
	} asked = {.head = {REPLY_THREADS, (uint32_t)rank->processes}};
	char reason[128];
	int r;

	for (size_t i = 0; i < rank->processes; i++)
		asked.pid[i] = rank->process[i].asked;
	rank->running->waiting++;
	r = worker_ask(rank->running->stacks->context->workers, &stacks_kind, rank->uid, &asked,
		sizeof(asked.head) + rank->processes * sizeof(*asked.pid), NULL, 0, stacks_on_reply, rank,
		&rank->request);
	if (r == 0)
		return 0;
	rank->running->waiting--;
	if (r == -EUSERS)
		snprintf(reason, sizeof(reason), "earlier workers of its user hang");
	else
		snprintf(reason, sizeof(reason), "no worker reads it: %s", strerror(-r));
	stacks_rank_failed(rank, 0, reason);
	return r;
}

static int stacks_choose_all(struct stacks_running *running)
{
	struct stacks_choosing choosing = {.running = running};
	const struct ranks *ranks = running->stacks->context->ranks;
	size_t processes = 0;

	if (!ranks)
		return -ENOENT;
	ranks_each(ranks, stacks_choose_rank, &choosing);
	ranks_each(ranks, stacks_choose_child, &choosing);
	for (size_t i = 0; i < running->ranks; i++)
		processes += running->rank[i]->processes;
	if (choosing.error)
		return choosing.error;
	if (!processes)
		return -ENOENT;
	running->body->processes = calloc(processes, sizeof(*running->body->processes));
	return running->body->processes ? 0 : -ENOMEM;
}

/* All takes have their part, limited ones the less. */
static bool stacks_is_full(const struct stacks *stacks, const struct stacks_take *take)
{
	const struct stacks_running *running;
	unsigned limited = 0;
	bool has_one = false;

	LIST_FOREACH(running, &stacks->running, link)
	{
		limited += running->take.limited;
		has_one |= running->take.limited && running->take.uid == take->uid;
	}
	return stacks->count >= STACKS_TAKES_MAX || (take->limited && (has_one || limited >= STACKS_TAKES_LIMITED_MAX));
}

int stacks_start(struct stacks *stacks, const struct stacks_take *take)
{
	struct stacks_running *running;
	int r;

	if (!stacks || !stacks->context->workers)
		return -ENOTSUP;
	if (stacks_is_full(stacks, take))
		return -EBUSY;
	running = calloc(1, sizeof(*running));
	if (!running)
		return -ENOMEM;
	running->stacks = stacks;
	running->take = *take;
	running->body = malloc(sizeof(*running->body));
	LIST_INSERT_HEAD(&stacks->running, running, link);
	stacks->count++;
	if (running->body)
		*running->body = (Ranktrace__StackBody)RANKTRACE__STACK_BODY__INIT;
	r = running->body ? stacks_choose_all(running) : -ENOMEM;
	if (r < 0) {
		stacks_running_free(running);
		return r;
	}
	for (size_t i = 0; i < running->ranks; i++)
		r = stacks_ask(running->rank[i]);
	if (!running->waiting) {
		stacks_running_free(running);
		return r;
	}
	return 0;
}
