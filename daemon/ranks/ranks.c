/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules checks of processes. A process is queued by its exec, as the child of a rank, or by a scan of /proc. Most
 * end before their first check; others are rechecked, less and less often, until a training library appears in their
 * maps. rank_identify.c decides what a process is, rank_table.c keeps it.
 */
#include "daemon/ranks/ranks.h"

#include "analyzers/base/array.h"
#include "daemon/core/context.h"
#include "daemon/core/limits.h"
#include "daemon/base/log.h"
#include "daemon/base/procfs.h"
#include "daemon/ranks/ranks_internal.h"
#include "daemon/worker/wire.h"

#define CHECKS_PER_TICK_MAX 256
#define CHECKS_PER_TICK_NS_MAX (50 * NSEC_PER_MSEC) /* half of a tick */
#define FIRST_CHECK_NS (200 * NSEC_PER_MSEC)
#define EAGER_NS (10 * NSEC_PER_SEC) /* checked every FIRST_CHECK_NS for this long */
#define INTERVAL_NS_MAX (5 * NSEC_PER_SEC)
#define INTERVAL_IDLE_NS_MAX (60 * NSEC_PER_SEC) /* without any sign of training */
#define GIVE_UP_NS (600 * NSEC_PER_SEC)
#define READING_NS (30 * NSEC_PER_SEC)	 /* an answer of a worker comes earlier, or its end */
#define UNREADABLE_NS (5 * NSEC_PER_SEC) /* until a process that could not be read is tried again, then twice that */
#define ALIVE_INTERVAL_NS NSEC_PER_SEC
#define ALIVE_INTERVAL_REPORTED_NS (5 * NSEC_PER_SEC) /* of children; of all where the kernel reports ends */
#define FAULTS_INTERVAL_NS NSEC_PER_SEC /* between reads of the node's count: while it is the same, so is each rank's */
#define CHILDREN_INTERVAL_NS (2 * NSEC_PER_SEC)
/* Where the kernel reports forks: the interval, of ranks that have been tracked for longer than it. */
#define CHILDREN_REPORTED_NS (60 * NSEC_PER_SEC)
#define STORE_INTERVAL_NS (60 * NSEC_PER_SEC)

void ranks_set_proc_root(struct ranks *ranks, const char *root)
{
	(void)copy_text(ranks->proc_root, sizeof(ranks->proc_root), root);
}

int ranks_new(struct context *context, struct ranks **ret)
{
	struct ranks *ranks = calloc(1, sizeof(*ranks));
	int r;

	if (!ranks)
		return -ENOMEM;
	ranks->context = context;
	ranks->vmstat_fd = -1;
	ranks_set_proc_root(ranks, "/proc");
	ranks->slots = (uint32_t)context->config.ranks_max;
	ranks->slot = calloc(ranks->slots ? ranks->slots : 1, sizeof(*ranks->slot));
	ranks->user = calloc(ranks->slots ? ranks->slots : 1, sizeof(*ranks->user));
	r = ranks->slot && ranks->user ? rank_queue_new(LIMIT_CANDIDATES, &ranks->queue) : -ENOMEM;
	if (r < 0) {
		ranks_free(ranks);
		return r;
	}
	*ret = ranks;
	return 0;
}

/* A candidate that a worker reads. It is also in the queue, due later, so that events find it. */
struct rank_reading {
	struct rank_reading *next;
	struct ranks *ranks;
	uint32_t pid;
	uint64_t since_ns,
		start_time_ns; /* as when it was asked for: another process or image since makes the answer void */
	uint64_t request;
};

static struct rank_reading *reading_new(struct ranks *ranks, uint32_t pid)
{
	struct rank_reading *reading = calloc(1, sizeof(*reading));

	if (!reading)
		return NULL;
	*reading = (struct rank_reading){.next = ranks->reading, .ranks = ranks, .pid = pid};
	ranks->reading = reading;
	return reading;
}

static void reading_free(struct rank_reading *reading)
{
	struct rank_reading **link = &reading->ranks->reading;

	while (*link != reading)
		link = &(*link)->next;
	*link = reading->next;
	free(reading);
}

struct ranks *ranks_free(struct ranks *ranks)
{
	if (!ranks)
		return NULL;
	while (ranks->reading) {
		worker_cancel(ranks->context->workers, ranks->reading->request);
		reading_free(ranks->reading);
	}
	for (size_t i = 0; i < RANK_BUCKETS; i++)
		for (struct tracked *t = ranks->bucket[i], *next; t; t = next) {
			next = t->next;
			free(t);
		}
	rank_watch_free(ranks);
	closep(&ranks->vmstat_fd);
	rank_scan_free(ranks);
	rank_queue_free(ranks->queue);
	free(ranks->slot);
	free(ranks->user);
	free(ranks);
	return NULL;
}

int ranks_observe(struct ranks *ranks, ranks_observer observer, void *arg)
{
	if (ranks->observers == RANK_OBSERVERS_MAX)
		return -ENOSPC;
	ranks->observer[ranks->observers].callback = observer;
	ranks->observer[ranks->observers++].arg = arg;
	return 0;
}

static void ranks_enqueue(struct ranks *ranks, const struct rank_candidate *candidate)
{
	if (rank_queue_put(ranks->queue, candidate) < 0)
		log_warning("ranks", "%u processes with rank variables wait for their library; leaving out process %u",
			rank_queue_count(ranks->queue), candidate->pid);
}

/* Schedules the next check; UINT64_MAX: never, but keep it so that scans skip it. */
static void ranks_schedule(struct rank_candidate *candidate, uint64_t now_ns)
{
	bool interesting = candidate->has_env || candidate->interpreter;
	uint64_t age_ns = now_ns - candidate->since_ns, interval_ns, max_ns = INTERVAL_IDLE_NS_MAX;

	if (candidate->has_env || (interesting && age_ns < GIVE_UP_NS))
		max_ns = INTERVAL_NS_MAX;
	interval_ns = candidate->interval_ns ? candidate->interval_ns * 2 : FIRST_CHECK_NS;
	if (interesting && age_ns < EAGER_NS)
		interval_ns = FIRST_CHECK_NS;
	/* An idle interpreter may be a notebook that trains later. */
	if (!interesting && age_ns >= GIVE_UP_NS) {
		candidate->due_ns = UINT64_MAX;
		return;
	}
	candidate->interval_ns = interval_ns < max_ns ? interval_ns : max_ns;
	candidate->due_ns = now_ns + candidate->interval_ns;
}

/* What to do with a candidate after a check. */
static void ranks_go_on(
	struct ranks *ranks, struct rank_candidate *candidate, enum rank_identity identity, uint64_t now_ns)
{
	if (identity == IDENTIFY_GONE || identity == IDENTIFY_DECIDED)
		return;
	if (identity == IDENTIFY_NEVER) {
		candidate->known = true;
		candidate->due_ns = UINT64_MAX;
	} else {
		ranks_schedule(candidate, now_ns);
	}
	ranks_enqueue(ranks, candidate);
}

/* The process does not let itself be read: a lock of its memory, or a file system. */
static void ranks_postpone(struct ranks *ranks, struct rank_candidate *candidate, uint64_t now_ns)
{
	candidate->interval_ns =
		candidate->interval_ns * 2 < UNREADABLE_NS ? UNREADABLE_NS : candidate->interval_ns * 2;
	if (candidate->interval_ns > INTERVAL_IDLE_NS_MAX)
		candidate->interval_ns = INTERVAL_IDLE_NS_MAX;
	candidate->due_ns = now_ns + candidate->interval_ns;
	ranks_enqueue(ranks, candidate);
}

static void ranks_on_read(void *arg, struct worker_reply *reply)
{
	_cleanup_(rank_read_free) struct rank_read read = {0};
	struct rank_reading *reading = arg;
	struct ranks *ranks = reading->ranks;
	uint64_t now_ns = monotonic_ns();
	struct rank_candidate candidate;
	bool valid = rank_queue_get(ranks->queue, reading->pid, &candidate) &&
		     candidate.since_ns == reading->since_ns && candidate.start_time_ns == reading->start_time_ns &&
		     !tracked_find(ranks, reading->pid);
	int r;

	reading_free(reading);
	if (!valid)
		return;
	rank_queue_remove(ranks->queue, candidate.pid);
	r = reply->end == WORKER_ANSWERED ? rank_read_take(reply->data, reply->size_bytes, candidate.pid, &read)
					  : -EBADMSG;
	if (r == -EBADMSG)
		ranks_postpone(ranks, &candidate, now_ns);
	else if (r == 0)
		ranks_go_on(ranks, &candidate, rank_identify(ranks, &candidate, &read, now_ns), now_ns);
}

/* Of the image whose environment was read, 0 if none. */
static uint64_t ranks_known_start(const struct rank_candidate *candidate)
{
	return candidate->known ? candidate->start_time_ns : 0;
}

/* Asks a worker; the candidate waits in the queue, and is asked for again if the answer does not come. */
static void ranks_ask(struct ranks *ranks, struct rank_candidate *candidate, uint64_t now_ns)
{
	struct rank_reading *reading = reading_new(ranks, candidate->pid);
	int r;

	candidate->due_ns = now_ns + READING_NS;
	if (reading) {
		reading->since_ns = candidate->since_ns;
		reading->start_time_ns = candidate->start_time_ns;
		r = rank_read_ask(ranks->context->workers, ranks->proc_root, candidate->pid, candidate->uid,
			ranks_known_start(candidate), candidate->exe, ranks_on_read, reading, &reading->request);
		if (r < 0) {
			reading_free(reading);
			candidate->due_ns = now_ns + (r == -EBUSY ? FIRST_CHECK_NS / 2 : UNREADABLE_NS);
		}
	}
	ranks_enqueue(ranks, candidate);
}

static void ranks_check(struct ranks *ranks, struct rank_candidate *candidate, uint64_t now_ns)
{
	_cleanup_(rank_read_free) struct rank_read read = {0};

	if (ranks->context->workers)
		ranks_ask(ranks, candidate, now_ns);
	else if (rank_read_here(
			 ranks->proc_root, candidate->pid, ranks_known_start(candidate), candidate->exe, &read) == 0)
		ranks_go_on(ranks, candidate, rank_identify(ranks, candidate, &read, now_ns), now_ns);
}

void ranks_scanned(struct ranks *ranks, const struct rank_scanned *found, uint64_t since_ns)
{
	struct rank_candidate candidate;

	if (tracked_find(ranks, found->pid))
		return;
	/* One that was not read yet is due. */
	if (rank_queue_get(ranks->queue, found->pid, &candidate) &&
		(!candidate.inode || candidate.inode == found->inode))
		return;
	rank_queue_remove(ranks->queue, found->pid);
	candidate = (struct rank_candidate){
		.pid = found->pid, .uid = found->uid, .inode = found->inode, .since_ns = since_ns, .from_scan = true};
	ranks_check(ranks, &candidate, monotonic_ns());
}

static void ranks_restart(struct ranks *ranks, struct tracked *tracked, uint64_t now_ns)
{
	const struct rank_candidate candidate = {.pid = tracked->rank.pid,
		.uid = tracked->rank.uid,
		.from_exec = true,
		.since_ns = now_ns,
		.due_ns = now_ns + FIRST_CHECK_NS};

	tracked_end(ranks, tracked);
	ranks_enqueue(ranks, &candidate);
}

static bool is_image_of(const struct tracked *tracked, const struct rank_read *read)
{
	const struct rank_process *process = &read->process[0];

	return process->stat.start_time_ns == tracked->rank.start_time_ns && streq(process->exe, tracked->rank.exe) &&
	       (read->libraries & PROCFS_LIBRARY_TRAINING);
}

/* After an exec: is it the image that was identified, with its libraries? The event may be older than that. */
static void ranks_on_image(void *arg, struct worker_reply *reply)
{
	_cleanup_(rank_read_free) struct rank_read read = {0};
	struct rank_reading *reading = arg;
	struct ranks *ranks = reading->ranks;
	struct tracked *tracked = tracked_find(ranks, reading->pid);
	bool same = tracked && tracked->rank.start_time_ns == reading->start_time_ns;

	if (same && reply->end == WORKER_ANSWERED &&
		rank_read_take(reply->data, reply->size_bytes, reading->pid, &read) == 0 &&
		!is_image_of(tracked, &read))
		ranks_restart(ranks, tracked, monotonic_ns());
	reading_free(reading);
}

/* False: it cannot be asked. */
static bool ranks_ask_image(struct ranks *ranks, const struct tracked *tracked)
{
	struct rank_reading *reading = reading_new(ranks, tracked->rank.pid);

	if (!reading)
		return false;
	reading->start_time_ns = tracked->rank.start_time_ns;
	if (rank_read_ask(ranks->context->workers, ranks->proc_root, tracked->rank.pid, tracked->rank.uid,
		    tracked->rank.start_time_ns, rank_exe_tail(tracked->rank.exe), ranks_on_image, reading,
		    &reading->request) == 0)
		return true;
	reading_free(reading);
	return false;
}

static bool is_same_image(struct ranks *ranks, const struct tracked *tracked)
{
	const struct rank *rank = &tracked->rank;
	_cleanup_(rank_read_free) struct rank_read read = {0};

	if (ranks->context->workers)
		return ranks_ask_image(ranks, tracked);
	return rank_read_here(ranks->proc_root, rank->pid, rank->start_time_ns, rank_exe_tail(rank->exe), &read) == 0 &&
	       is_image_of(tracked, &read);
}

void ranks_on_exec(struct ranks *ranks, uint32_t pid, uint32_t uid)
{
	struct tracked *tracked = tracked_find(ranks, pid);
	uint64_t now_ns = monotonic_ns();
	const struct rank_candidate candidate = {
		.pid = pid, .uid = uid, .from_exec = true, .since_ns = now_ns, .due_ns = now_ns + FIRST_CHECK_NS};

	if (tracked && is_same_image(ranks, tracked))
		return;
	if (tracked)
		ranks_restart(ranks, tracked, now_ns);
	else
		ranks_enqueue(ranks, &candidate);
}

void ranks_on_exit(struct ranks *ranks, uint32_t pid, int32_t wait_status)
{
	struct tracked *tracked = tracked_find(ranks, pid);

	rank_queue_remove(ranks->queue, pid);
	if (!tracked)
		return;
	tracked->rank.wait_status = wait_status;
	tracked_end(ranks, tracked);
}

/* uid: of the parent. Examined wait_ns from now. */
static void ranks_found_child(struct ranks *ranks, uint32_t pid, uint32_t uid, uint64_t now_ns, uint64_t wait_ns)
{
	struct rank_candidate candidate;

	if (tracked_find(ranks, pid) || rank_queue_get(ranks->queue, pid, &candidate))
		return;
	candidate = (struct rank_candidate){.pid = pid, .uid = uid, .since_ns = now_ns, .due_ns = now_ns + wait_ns};
	ranks_enqueue(ranks, &candidate);
}

void ranks_on_fork(struct ranks *ranks, uint32_t pid, uint32_t child_pid)
{
	const struct tracked *tracked = tracked_find(ranks, pid);

	/* Most execute a program next, which is reported, too. */
	if (tracked)
		ranks_found_child(ranks, child_pid, tracked->rank.uid, monotonic_ns(), FIRST_CHECK_NS);
}

void ranks_set_reported(struct ranks *ranks, bool on)
{
	ranks->are_reported = on;
}

/*
 * Ends a process that is gone or has a reused pid. If only missing, waits until the next answer: its exit event, queued
 * behind its last records in the ring, ends it in order. After any other error the process remains tracked.
 */
void ranks_watched(struct ranks *ranks, const struct rank_watched *watched)
{
	struct tracked *tracked = tracked_find(ranks, watched->pid);
	uint64_t now_ns = ranks->now_ns;
	bool missing, reused;

	if (!tracked || tracked->rank.start_time_ns != watched->asked_start_ns)
		return;
	missing =
		watched->error == -ENOENT || watched->error == -ESRCH || watched->state == 'Z' || watched->state == 'X';
	if (watched->error < 0 && !missing)
		return;
	reused = !missing && watched->start_time_ns != watched->asked_start_ns;
	if (reused || (missing && tracked->missing)) {
		uint32_t uid = tracked->rank.uid;

		tracked_end(ranks, tracked);
		if (reused)
			ranks_found_child(ranks, watched->pid, uid, now_ns, 0);
		return;
	}
	tracked->missing = missing;
	if (missing)
		return;
	tracked->rank.last_seen_ns = realtime_ns();
	tracked->rank.major_faults = watched->major_faults;
	tracked->rank.state = watched->state;
	if (watched->wants_children)
		tracked->cursor = watched->cursor;
	for (uint32_t i = 0; i < watched->children; i++)
		ranks_found_child(
			ranks, (uint32_t)wire_number(watched->child + 4 * (size_t)i, 4), tracked->rank.uid, now_ns, 0);
	if (watched->wants_card)
		rank_card_take(ranks, tracked, watched->has_nodes ? &watched->nodes : NULL, now_ns);
}

static bool ranks_lists_children(const struct ranks *ranks, const struct tracked *tracked, uint64_t now_ns)
{
	bool is_new = now_ns - tracked->added_ns < CHILDREN_REPORTED_NS;

	return tracked->rank.role == RANK_ROLE_RANK &&
	       now_ns - tracked->children_ns >=
		       (ranks->are_reported && !is_new ? CHILDREN_REPORTED_NS : CHILDREN_INTERVAL_NS);
}

static bool ranks_asks(const struct ranks *ranks, const struct tracked *tracked, uint64_t now_ns)
{
	uint64_t since_ns = now_ns - tracked->checked_ns;

	if (tracked->rank.role == RANK_ROLE_CHILD)
		return since_ns >= ALIVE_INTERVAL_REPORTED_NS;
	if (since_ns < ALIVE_INTERVAL_NS)
		return false;
	return !ranks->are_reported || since_ns >= ALIVE_INTERVAL_REPORTED_NS ||
	       tracked->checked_ns < ranks->faulted_ns || rank_card_is_due(tracked, now_ns);
}

static void ranks_count_faults(struct ranks *ranks, uint64_t now_ns)
{
	uint64_t faults = 0;
	int r;

	if (!ranks->are_reported || now_ns < ranks->faults_next_ns)
		return;
	ranks->faults_next_ns = now_ns + FAULTS_INTERVAL_NS;
	r = procfs_major_faults_again(ranks->proc_root, &ranks->vmstat_fd, &faults);
	if (r < 0 || faults != ranks->faults)
		ranks->faulted_ns = now_ns;
	ranks->faults = faults;
}

static void ranks_visit(struct ranks *ranks, struct tracked *tracked, uint64_t now_ns)
{
	bool is_rank = tracked->rank.role == RANK_ROLE_RANK;
	bool lists = ranks_lists_children(ranks, tracked, now_ns);

	if ((lists || ranks_asks(ranks, tracked, now_ns)) &&
		rank_watch_add(ranks, tracked, rank_card_is_due(tracked, now_ns), lists)) {
		tracked->checked_ns = now_ns;
		if (lists)
			tracked->children_ns = now_ns;
	}
	if (!is_rank)
		return;
	if (now_ns - tracked->stored_ns >= STORE_INTERVAL_NS) {
		tracked->stored_ns = now_ns;
		tracked_store(ranks, tracked);
	}
}

void ranks_tick(struct ranks *ranks, uint64_t now_ns)
{
	uint64_t began_ns = monotonic_ns();
	struct rank_candidate candidate;

	ranks->now_ns = now_ns;
	rank_scan_tick(ranks);
	ranks_count_faults(ranks, now_ns);
	for (size_t i = 0; i < RANK_BUCKETS; i++)
		for (struct tracked *t = ranks->bucket[i]; t; t = t->next)
			ranks_visit(ranks, t, now_ns);
	rank_watch_ask(ranks);
	for (unsigned i = 0; i < CHECKS_PER_TICK_MAX && monotonic_ns() - began_ns < CHECKS_PER_TICK_NS_MAX &&
			     rank_queue_pop(ranks->queue, now_ns, &candidate);
		i++)
		ranks_check(ranks, &candidate, now_ns);
}

const struct rank *ranks_by_pid(const struct ranks *ranks, uint32_t pid)
{
	const struct tracked *tracked = tracked_find(ranks, pid);

	return tracked && tracked->rank.role == RANK_ROLE_RANK ? &tracked->rank : NULL;
}

const struct rank *ranks_by_slot(const struct ranks *ranks, uint32_t slot)
{
	return slot < ranks->slots && ranks->slot[slot] ? &ranks->slot[slot]->rank : NULL;
}

size_t ranks_candidates(const struct ranks *ranks, uint64_t *ret_dropped)
{
	*ret_dropped = rank_queue_dropped(ranks->queue);
	return rank_queue_count(ranks->queue);
}

size_t ranks_count(const struct ranks *ranks, enum rank_role role)
{
	return ranks->count[role];
}

static int compare_ranks(const void *a, const void *b)
{
	const struct rank *x = *(const struct rank *const *)a, *y = *(const struct rank *const *)b;

	return strcmp(x->env.job, y->env.job) ?: ORDER(x->env.rank, y->env.rank) ?: ORDER(x->pid, y->pid);
}

void ranks_each(const struct ranks *ranks, void (*callback)(void *arg, const struct rank *rank), void *arg)
{
	_cleanup_free_ const struct rank **list = NULL;
	size_t count = 0, n = 0;

	for (size_t i = 0; i < RANK_ROLE_MAX; i++)
		count += ranks->count[i];
	list = calloc(count ? count : 1, sizeof(*list));
	if (!list)
		return;
	for (size_t i = 0; i < RANK_BUCKETS; i++)
		for (const struct tracked *t = ranks->bucket[i]; t && n < count; t = t->next)
			list[n++] = &t->rank;
	qsort(list, n, sizeof(*list), compare_ranks);
	for (size_t i = 0; i < n; i++)
		callback(arg, list[i]);
}
