/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stand-ins for the modules that control requests query (collectors, store, kernel, ranks, steps): a few distinct
 * answers. Weak, so that a test may link the whole module.
 */
#ifndef RANKTRACE_TEST_CONTROL_FIXTURE_H
#define RANKTRACE_TEST_CONTROL_FIXTURE_H

#include "daemon/ranks/rank_budget.h"
#include <event2/event.h>
#include "daemon/memory/allocs.h"
#include "daemon/collect/collector.h"
#include "daemon/findings/online.h"
#include "daemon/gauges/gauges.h"
#include "daemon/kernel/kernel.h"
#include "daemon/coll/coll_snapshot.h"
#include "daemon/stacks/profiles.h"
#include "daemon/stacks/stacks.h"
#include "daemon/steps/rank_steps.h"
#include "daemon/store/store.h"
#include "proto/frame.h"

/* Every second one is another user's. */
#define FIXTURE_STRANGER 65534u
#define FIXTURE_UID(i) ((i) % 2 ? FIXTURE_STRANGER : 0u)

__attribute__((weak)) int collectors_level(
	struct collectors *collectors, enum level level, bool on, char *report, size_t size)
{
	snprintf(report, size, "7 probes in 1 library");
	return level == LEVEL_L2 ? -EIO : 0;
}

__attribute__((weak)) bool collectors_status(
	struct collectors *collectors, unsigned i, const struct collector **ret_collector, struct collector_status *ret)
{
	static const struct collector fake = {.name = "call", .summary = "calls", .levels = LEVEL_BIT(LEVEL_L1)};

	if (i > 0)
		return false;
	*ret_collector = &fake;
	ret->events = 4242;
	ret->notes = COLLECTOR_NOTES_MAX + 5; /* a collector that lies */
	for (unsigned n = 0; n < COLLECTOR_NOTES_MAX; n++)
		snprintf(ret->note[n], COLLECTOR_NOTE_BYTES, "note %u", n);
	return true;
}

__attribute__((weak)) uint64_t collectors_refused(const struct collectors *collectors)
{
	return 3;
}

__attribute__((weak)) uint64_t collectors_limited(const struct collectors *collectors)
{
	return 13;
}

__attribute__((weak)) bool gauges_status(const struct gauges *gauges, unsigned index, struct gauges_status *ret)
{
	(void)gauges, (void)index, (void)ret;
	return false;
}

__attribute__((weak)) void store_status(struct store *store, struct store_status *ret)
{
	ret->rows = 99;
}

__attribute__((weak)) const struct kernel_features *kernel_features(const struct kernel *kernel)
{
	static const struct kernel_features features = {.btf = true, .uprobe_multi = true};

	return &features;
}

/* Limits: nothing is used. */
__attribute__((weak)) uint64_t kernel_limited(const struct kernel *kernel, uint32_t slot)
{
	(void)kernel, (void)slot;
	return 0;
}

__attribute__((weak)) uint32_t kernel_held(const struct kernel *kernel, uint32_t slot, enum rt_held what)
{
	(void)kernel, (void)slot, (void)what;
	return 0;
}

__attribute__((weak)) const struct rank *ranks_by_pid(const struct ranks *ranks, uint32_t pid)
{
	(void)ranks, (void)pid;
	return NULL;
}

__attribute__((weak)) const struct rank *ranks_by_slot(const struct ranks *ranks, uint32_t slot)
{
	(void)ranks, (void)slot;
	return NULL;
}

__attribute__((weak)) void rank_budget_use(
	const struct rank_budget *budget, const struct rank *rank, struct rank_budget_use *ret)
{
	(void)budget, (void)rank;
	*ret = (struct rank_budget_use){0};
}

__attribute__((weak)) uint64_t rank_budget_bytes(const struct rank_budget *budget)
{
	return 0;
}

__attribute__((weak)) uint64_t rank_budget_bytes_max(const struct rank_budget *budget)
{
	return 0;
}

__attribute__((weak)) void rank_budget_counts(
	const struct rank_budget *budget, uint32_t *ret_frozen, uint64_t *ret_refused)
{
	*ret_frozen = 0;
	*ret_refused = 0;
}

__attribute__((weak)) uint64_t kernel_drops(const struct kernel *kernel, unsigned kind)
{
	return kind == RT_KIND_CALL ? 11 : 0;
}

__attribute__((weak)) void online_stacks_each(
	const struct online *online, void (*callback)(void *arg, const struct online_stack_info *info), void *arg)
{
	callback(arg, &(struct online_stack_info){"job-x", "rank 1 is alone", FIXTURE_UID(1), 1, false});
}

/* Answers shortly after, as a worker does: with a rank that has a thread too large for an answer, and one that has
 * not. */
static struct stacks_take fixture_take;

static inline void fixture_stacks_done(evutil_socket_t fd, short what, void *arg)
{
	Ranktrace__StackBody *body = malloc(sizeof(*body));

	*body = (Ranktrace__StackBody)RANKTRACE__STACK_BODY__INIT;
	body->n_processes = 2;
	body->processes = calloc(2, sizeof(*body->processes));
	for (size_t i = 0; i < 2; i++) {
		body->processes[i] = malloc(sizeof(*body->processes[i]));
		*body->processes[i] = (Ranktrace__StackProcess)RANKTRACE__STACK_PROCESS__INIT;
		body->processes[i]->pid = 77 + (uint32_t)i;
	}
	body->processes[1]->command = calloc(1, FRAME_BYTES_MAX);
	memset(body->processes[1]->command, 'c', FRAME_BYTES_MAX - 1);
	fixture_take.done(fixture_take.arg, body);
}

/* No profiles here: one that runs. */
__attribute__((weak)) int profiles_start(
	struct profiles *profiles, const struct profile_wish *wish, int64_t *ret_number, size_t *ret_left_out)
{
	return -EBUSY;
}

__attribute__((weak)) int profiles_progress(
	const struct profiles *profiles, int64_t number, struct profile_progress *ret)
{
	*ret = (struct profile_progress){.remaining_ns = 7 * NSEC_PER_SEC};
	return 0;
}

__attribute__((weak)) int stacks_start(struct stacks *stacks, const struct stacks_take *take)
{
	const struct timeval soon = {.tv_usec = 50000};
	const struct rank mine = {.pid = 77, .env = {.rank = 1}};

	if (!take->wanted(take->arg, &mine))
		return -ENOENT;
	fixture_take = *take;
	return event_base_once((struct event_base *)stacks, -1, EV_TIMEOUT, fixture_stacks_done, NULL, &soon) < 0
		       ? -ENOMEM
		       : 0;
}

__attribute__((weak)) size_t ranks_candidates(const struct ranks *ranks, uint64_t *ret_dropped)
{
	*ret_dropped = 0;
	return 7;
}

__attribute__((weak)) size_t ranks_count(const struct ranks *ranks, enum rank_role role)
{
	return role == RANK_ROLE_RANK ? 2 : 0;
}

__attribute__((weak)) void ranks_each(
	const struct ranks *ranks, void (*callback)(void *arg, const struct rank *rank), void *arg)
{
	struct rank rank = {.pid = 77, .env = {.rank = 1, .world_size = 2, .job = "job-x"}};

	/* Long names, and more rows than fit. */
	memset(rank.command, 'c', sizeof(rank.command) - 1);
	memset(rank.env.pod, 'p', sizeof(rank.env.pod) - 1);
	for (unsigned i = 0; i < 600; i++) {
		rank.uid = FIXTURE_UID(i);
		callback(arg, &rank);
	}
}

__attribute__((weak)) const char *ranks_suspicion(const struct ranks *ranks, uint32_t uid)
{
	return "a process has 9 lives";
}

__attribute__((weak)) bool ranks_disputed(const struct ranks *ranks, const struct rank *rank, uint32_t *ret_uid)
{
	*ret_uid = 1001;
	return true;
}

__attribute__((weak)) void ranks_suspects_each(const struct ranks *ranks,
	void (*callback)(void *arg, uint32_t uid, uint64_t count, const char *why), void *arg)
{
	callback(arg, 1001, 2, "a process has 9 lives");
}

__attribute__((weak)) bool rank_steps_current(
	struct rank_steps *rank_steps, const struct rank *rank, struct steps_open *ret)
{
	*ret = (struct steps_open){.step = 30, .stage = "backward", .start_ns = 1};
	return true;
}

__attribute__((weak)) void rank_coll_counts(const struct rank_coll *colls, struct rank_coll_counts *ret)
{
	*ret = (struct rank_coll_counts){.rows = 77, .late = 5};
}

/* More than fit: devices 0 and on of a rank, and nothing known of the upper bounds. */
__attribute__((weak)) void rank_coll_clocks(struct rank_coll *colls,
	void (*callback)(void *arg, const struct rank *rank, const struct coll_clock *clock), void *arg)
{
	struct rank rank = {.pid = 77, .env = {.rank = 1, .job = "job-x", .card = "GPU-0"}};
	struct timespec utc;

	clock_gettime(CLOCK_REALTIME, &utc);
	for (uint32_t i = 0; i < 300; i++) {
		int64_t offset_ns = utc.tv_sec * (int64_t)NSEC_PER_SEC + utc.tv_nsec - (int64_t)monotonic_ns();
		const struct coll_clock clock = {.device = i,
			.newest_ns = 1,
			.steps = 2,
			.bounds = 3,
			.estimate = {offset_ns, offset_ns - 4000, INT64_MAX, 2e-6, 1e-6, 3e-6}};

		rank.uid = FIXTURE_UID(i);
		callback(arg, &rank, &clock);
	}
}

__attribute__((weak)) void allocs_counts(const struct allocs *allocs, struct allocs_counts *ret)
{
	*ret = (struct allocs_counts){.rows = 66};
}

__attribute__((weak)) void online_counts_get(const struct online *online, struct online_counts *ret)
{
	*ret = (struct online_counts){.open = 2, .closed = 3, .frames = 44};
}

/* More than fits, with the longest of texts: ranks of two members a communicator. */
__attribute__((weak)) int coll_snapshot_new(struct rank_coll *colls, uint64_t now_ns, struct coll_snapshot **ret)
{
	struct coll_snapshot *snapshot = calloc(1, sizeof(*snapshot));

	snapshot->now_ns = now_ns;
	snapshot->members = COLL_SNAPSHOT_MEMBERS_MAX;
	snapshot->comms = snapshot->members / 2;
	snapshot->member = calloc(snapshot->members, sizeof(*snapshot->member));
	snapshot->comm = calloc(snapshot->comms, sizeof(*snapshot->comm));
	snapshot->calls = RANK_COLL_IN_CALL_MAX;
	snapshot->call = calloc(snapshot->calls, sizeof(*snapshot->call));
	for (size_t i = 0; i < snapshot->members; i++) {
		struct coll_snapshot_member *member = &snapshot->member[i];
		struct coll_standing *standing = &member->judged.standing;

		member->judged.rank = (int32_t)(i % 8);
		member->judged.pid = UINT32_MAX;
		member->uid = FIXTURE_UID(i / 2);
		member->judged.missing = i == 1;
		memset(member->job, 'j', sizeof(member->job) - 1);
		memset(member->reason, 't', sizeof(member->reason) - 1);
		memset(standing->communicator, 'c', sizeof(standing->communicator) - 1);
		memset(standing->name, 'n', sizeof(standing->name) - 1);
		memset(standing->entered.op, 'o', sizeof(standing->entered.op) - 1);
		standing->entered.count = standing->entered.bytes = UINT64_MAX - 1;
		standing->entered.seq = UINT64_MAX;
		standing->completed = standing->entered;
		standing->completed.bytes = COLL_UNKNOWN;
	}
	for (size_t i = 0; i < snapshot->comms; i++) {
		snapshot->comm[i] =
			(struct coll_snapshot_comm){.first = 2 * i, .members = 2, .verdict = {.here = 2, .members = 3}};
		memset(snapshot->comm[i].sentence, 's', sizeof(snapshot->comm[i].sentence) - 1);
	}
	for (size_t i = 0; i < snapshot->calls; i++) {
		static const struct probe probe = {.family = "nccl", .op = "AllReduce"};

		snapshot->call[i] = (struct rank_coll_call){
			.rank = (int32_t)(i % 8), .probe = &probe, .start_ns = 1, .uid = FIXTURE_UID(i)};
	}
	*ret = snapshot;
	return 0;
}

__attribute__((weak)) struct coll_snapshot *coll_snapshot_free(struct coll_snapshot *snapshot)
{
	free(snapshot->member);
	free(snapshot->comm);
	free(snapshot->call);
	free(snapshot);
	return NULL;
}

#endif
