/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether tracked processes are still the same, their page faults, cards and children. /proc/PID/stat and fd wait for
 * an exec of the process, which lasts as long as its user wants, and task/ is as long as the process has threads: a
 * worker reads them, one question a user at a time. It answers some processes at a time: of what comes before one that
 * does not answer, all but the last few count.
 */
#include "daemon/base/procfs.h"
#include "daemon/core/context.h"
#include "daemon/ranks/ranks_internal.h"
#include "daemon/worker/wire.h"

#include <limits.h>
#include <linux/capability.h>

#define WATCH_MAGIC "WTCH"
#define ANSWER_BYTES (4 + 1 + 8 + 8 + 1 + RANK_CARD_NUMBERS / 8 + 1 + 4 + 4)
#define CHILDREN_THREADS_MAX 16 /* of a process, in one answer */
#define ANSWERS_AT_ONCE 16	/* processes in one message: each message wakes the daemon */

static const struct worker_kind rank_watch_kind = {
	.name = "rank watcher",
	.program = "worker/reader",
	.processes_max = 2,
	.reused = true,
	.memory_bytes_max = 64 << 20,
	.cpu_s_max = 5,
	.wall_ns_max = 2 * NSEC_PER_SEC,
	.reply_bytes_max = RANK_WATCH_MAX * ANSWER_BYTES + RANK_WATCH_CHILDREN_MAX * 4,
};

struct rank_watch {
	struct rank_watch *next;
	struct ranks *ranks;
	uint32_t uid;
	bool is_asked;
	uint64_t request;
	unsigned count;
	struct rank_watched process[RANK_WATCH_MAX];
};

struct rank_watch_question {
	char magic[4];
	uint32_t count;
	char proc_root[128];
	struct {
		uint32_t pid, cursor;
		uint8_t wants_card, wants_children, unused[2];
	} process[];
};

static void rank_watch_remove(struct rank_watch *watch)
{
	struct rank_watch **link = &watch->ranks->watch;

	while (*link != watch)
		link = &(*link)->next;
	*link = watch->next;
	free(watch);
}

void rank_watch_free(struct ranks *ranks)
{
	while (ranks->watch) {
		if (ranks->watch->is_asked)
			worker_cancel(ranks->context->workers, ranks->watch->request);
		rank_watch_remove(ranks->watch);
	}
}

bool rank_watch_add(struct ranks *ranks, const struct tracked *tracked, bool wants_card, bool wants_children)
{
	struct rank_watch *watch = ranks->watch;

	while (watch && watch->uid != tracked->rank.uid)
		watch = watch->next;
	if (!watch) {
		watch = calloc(1, sizeof(*watch));
		if (!watch)
			return false;
		watch->next = ranks->watch;
		watch->ranks = ranks;
		watch->uid = tracked->rank.uid;
		ranks->watch = watch;
	}
	if (watch->is_asked || watch->count == RANK_WATCH_MAX)
		return false;
	watch->process[watch->count++] = (struct rank_watched){.pid = tracked->rank.pid,
		.wants_card = wants_card,
		.wants_children = wants_children,
		.cursor = tracked->cursor,
		.asked_start_ns = tracked->rank.start_time_ns};
	return true;
}

/* Of those that were answered. */
static void rank_watch_deliver(struct rank_watch *watch, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		ranks_watched(watch->ranks, &watch->process[i]);
}

static void rank_watch_on_answer(void *arg, struct worker_reply *reply)
{
	struct rank_watch *watch = arg;
	int answered = rank_watch_take(reply->data, reply->size_bytes, watch->process, watch->count);

	if (answered > 0)
		rank_watch_deliver(watch, (unsigned)answered);
	rank_watch_remove(watch);
}

static int rank_watch_question(struct rank_watch *watch)
{
	size_t size_bytes = sizeof(struct rank_watch_question) +
			    watch->count * sizeof(((struct rank_watch_question *)0)->process[0]);
	_cleanup_free_ struct rank_watch_question *question = calloc(1, size_bytes);

	if (!question)
		return -ENOMEM;
	memcpy(question->magic, WATCH_MAGIC, sizeof(question->magic));
	question->count = watch->count;
	(void)copy_text(question->proc_root, sizeof(question->proc_root), watch->ranks->proc_root);
	for (unsigned i = 0; i < watch->count; i++) {
		question->process[i].pid = watch->process[i].pid;
		question->process[i].cursor = watch->process[i].cursor;
		question->process[i].wants_card = watch->process[i].wants_card;
		question->process[i].wants_children = watch->process[i].wants_children;
	}
	return worker_ask(watch->ranks->context->workers, &rank_watch_kind, watch->uid, question, size_bytes, NULL, 0,
		rank_watch_on_answer, watch, &watch->request);
}

struct rank_watch_children {
	struct wire_writer list;
	unsigned left; /* that the answer may have */
};

static void rank_watch_on_child(void *arg, uint32_t pid)
{
	struct rank_watch_children *children = arg;

	if (!children->left)
		return;
	children->left--;
	wire_put(&children->list, pid, 4);
}

/* Reads one process here; its children replace those in the list. */
static void rank_watch_here(const char *proc_root, struct rank_watched *watched, struct rank_watch_children *children)
{
	struct procfs_stat stat;

	children->list.size_bytes = 0;
	watched->error = procfs_stat(proc_root, watched->pid, &stat);
	if (watched->error < 0)
		return;
	watched->state = stat.state;
	watched->start_time_ns = stat.start_time_ns;
	watched->major_faults = stat.major_faults;
	watched->has_nodes = watched->wants_card && rank_card_read(proc_root, watched->pid, &watched->nodes) == 0;
	if (watched->wants_children)
		(void)procfs_children(
			proc_root, watched->pid, CHILDREN_THREADS_MAX, &watched->cursor, rank_watch_on_child, children);
	watched->children = (uint32_t)(children->list.size_bytes / 4);
	watched->child = children->list.data;
}

/* Without workers (tests) reads here. */
static void rank_watch_read(struct rank_watch *watch)
{
	struct rank_watch_children children = {.left = RANK_WATCH_CHILDREN_MAX};

	for (unsigned i = 0; i < watch->count; i++) {
		rank_watch_here(watch->ranks->proc_root, &watch->process[i], &children);
		ranks_watched(watch->ranks, &watch->process[i]);
	}
	wire_free(&children.list);
	rank_watch_remove(watch);
}

void rank_watch_ask(struct ranks *ranks)
{
	for (struct rank_watch *watch = ranks->watch, *next; watch; watch = next) {
		next = watch->next;
		if (watch->is_asked)
			continue;
		if (!ranks->context->workers)
			rank_watch_read(watch);
		else if (rank_watch_question(watch) < 0)
			rank_watch_remove(watch); /* its processes are due again */
		else
			watch->is_asked = true;
	}
}

int rank_watch_take(const uint8_t *data, size_t size_bytes, struct rank_watched *watched, unsigned count)
{
	struct wire_reader reader = {data, size_bytes, false};
	unsigned answered = 0;

	for (; answered < count && reader.left; answered++) {
		struct rank_watched *one = &watched[answered];

		one->error = wire_take_result(&reader, 0);
		one->state = (char)wire_take_up_to(&reader, 1, CHAR_MAX);
		one->start_time_ns = wire_take(&reader, 8);
		one->major_faults = wire_take(&reader, 8);
		one->has_nodes = wire_take_up_to(&reader, 1, 1);
		for (size_t i = 0; i < ARRAY_SIZE(one->nodes.open); i++)
			one->nodes.open[i] = wire_take(&reader, 8);
		one->nodes.rocm = wire_take_up_to(&reader, 1, 1);
		one->cursor = (uint32_t)wire_take(&reader, 4);
		one->children = (uint32_t)wire_take_up_to(&reader, 4, RANK_WATCH_CHILDREN_MAX);
		one->child = wire_take_bytes(&reader, 4 * (size_t)one->children);
		if (reader.is_bad)
			return -EBADMSG;
	}
	return reader.left ? -EBADMSG : (int)answered;
}

bool rank_watch_is_question(const struct worker_task *task)
{
	const struct rank_watch_question *question = (const void *)task->request;

	return task->size_bytes >= sizeof(*question) &&
	       memcmp(question->magic, WATCH_MAGIC, sizeof(question->magic)) == 0 &&
	       task->size_bytes == sizeof(*question) + question->count * sizeof(question->process[0]);
}

static void rank_watch_answer(struct wire_writer *answer, const struct rank_watched *watched)
{
	wire_put(answer, (uint32_t)watched->error, 4);
	wire_put(answer, (uint8_t)watched->state, 1);
	wire_put(answer, watched->start_time_ns, 8);
	wire_put(answer, watched->major_faults, 8);
	wire_put(answer, watched->has_nodes, 1);
	for (size_t i = 0; i < ARRAY_SIZE(watched->nodes.open); i++)
		wire_put(answer, watched->nodes.open[i], 8);
	wire_put(answer, watched->nodes.rocm, 1);
	wire_put(answer, watched->cursor, 4);
	wire_put(answer, watched->children, 4);
	wire_put_bytes(answer, watched->child, 4 * (size_t)watched->children);
}

static int rank_watch_send(struct wire_writer *answer)
{
	int r = answer->failed ? -ENOMEM : worker_child_add(answer->data, answer->size_bytes, NULL, 0);

	answer->size_bytes = 0;
	return r;
}

int rank_watch_serve(const struct worker_task *task)
{
	const struct rank_watch_question *question = (const void *)task->request;
	struct rank_watch_children children = {.left = RANK_WATCH_CHILDREN_MAX};
	_cleanup_(wire_free) struct wire_writer answer = {0};
	int r = 0;

	if (worker_child_keep(1ULL << CAP_SYS_PTRACE | 1ULL << CAP_DAC_READ_SEARCH) < 0)
		return -EPERM;
	for (uint32_t i = 0; i < question->count && r == 0; i++) {
		struct rank_watched watched = {.pid = question->process[i].pid,
			.cursor = question->process[i].cursor,
			.wants_card = question->process[i].wants_card,
			.wants_children = question->process[i].wants_children};

		rank_watch_here(question->proc_root, &watched, &children);
		rank_watch_answer(&answer, &watched);
		if (children.list.failed)
			r = -ENOMEM;
		else if ((i + 1) % ANSWERS_AT_ONCE == 0 || i + 1 == question->count)
			r = rank_watch_send(&answer);
	}
	wire_free(&children.list);
	return r;
}
