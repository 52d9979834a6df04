/* SPDX-License-Identifier: Apache-2.0 */
/* See stall_check.h. */
#include "analyzers/offline/stall_check.h"

#include "analyzers/base/array.h"

#include <stdlib.h>
#include <string.h>

#include "analyzers/detect/stuck.h"
#include "analyzers/offline/source.h"

#define STUCKS_MAX 64

struct stall_check {
	size_t standings, standings_capacity, members, members_capacity, members_before;
	struct standing *standing;
	struct stall_check_member *member;
	bool too_many; /* members: what is missing among them would be missing in operations, too */
	struct coll_judged *judged;
	uint32_t *index; /* of culprits and waiters, one after the other */
	size_t indices;
	struct stuck stuck[STUCKS_MAX];
	const char *job[STUCKS_MAX];
	size_t stucks;
};

struct stall_check *stall_check_new(void)
{
	return calloc(1, sizeof(struct stall_check));
}

struct stall_check *stall_check_free(struct stall_check *checks)
{
	if (!checks)
		return NULL;
	free(checks->standing);
	free(checks->member);
	free(checks->judged);
	free(checks->index);
	free(checks);
	return NULL;
}

void stall_check_add_standing(struct stall_check *checks, const struct standing *standing)
{
	if (array_reserve((void **)&checks->standing, &checks->standings_capacity, checks->standings + 1,
		    sizeof(*checks->standing), STALL_CHECK_STANDINGS_MAX))
		checks->standing[checks->standings++] = *standing;
}

void stall_check_add_member(struct stall_check *checks, const struct stall_check_member *member)
{
	if (array_reserve((void **)&checks->member, &checks->members_capacity, checks->members + 1,
		    sizeof(*checks->member), STALL_CHECK_MEMBERS_MAX))
		checks->member[checks->members++] = *member;
	else
		checks->too_many = true;
}

size_t stall_check_members_before(const struct stall_check *checks)
{
	return checks->members_before;
}

/* Members of one communicator stand together. */
static int stall_check_by_communicator(const void *a, const void *b)
{
	const struct stall_check_member *x = a, *y = b;

	return strcmp(x->job, y->job) ?: ORDER(x->uid, y->uid) ?:
	       strcmp(x->judged.standing.communicator, y->judged.standing.communicator) ?:
	       ORDER(x->judged.rank, y->judged.rank);
}

static bool stall_check_is_same(const struct stall_check_member *a, const struct stall_check_member *b)
{
	return strcmp(a->job, b->job) == 0 && a->uid == b->uid &&
	       strcmp(a->judged.standing.communicator, b->judged.standing.communicator) == 0;
}

static void stall_check_judge(
	struct stall_check *checks, struct stall_check_member *member, size_t members, uint64_t now_ns)
{
	struct stuck *stuck = &checks->stuck[checks->stucks];
	struct coll_verdict verdict;
	uint32_t *culprit;

	for (size_t i = 0; i < members; i++)
		checks->judged[i] = member[i].judged;
	coll_judge(checks->judged, members, now_ns, STUCK_PATIENCE_NS, &verdict);
	if (!stuck_of(checks->judged, members, &verdict, now_ns, stuck))
		return;
	culprit = checks->index + checks->indices;
	for (size_t i = 0; i < members; i++)
		if (stuck_is_culprit(stuck, &checks->judged[i]))
			culprit[stuck->culprits++] = member[i].process;
	stuck->culprit = culprit;
	stuck->waiter = culprit + stuck->culprits;
	for (size_t i = 0; i < members; i++)
		if (stuck_is_waiter(stuck, &checks->judged[i]))
			culprit[stuck->culprits + stuck->waiters++] = member[i].process;
	checks->indices += stuck->culprits + stuck->waiters;
	checks->job[checks->stucks++] = member[0].job;
}

static size_t stall_check_end_of(const struct stall_check *checks, size_t first)
{
	size_t end = first + 1;

	while (end < checks->members && stall_check_is_same(&checks->member[first], &checks->member[end]))
		end++;
	return end;
}

/* Reserves for the members of the largest communicator and the numbers of all. */
static bool stall_check_reserve(struct stall_check *checks)
{
	size_t most = 0;

	for (size_t i = 0, end; i < checks->members; i = end) {
		end = stall_check_end_of(checks, i);
		most = end - i > most ? end - i : most;
	}
	free(checks->judged);
	free(checks->index);
	checks->judged = calloc(most + 1, sizeof(*checks->judged));
	checks->index = calloc(checks->members + 1, sizeof(*checks->index));
	return checks->judged && checks->index;
}

static void judge_all(struct stall_check *checks, uint64_t now_ns)
{
	if (!checks->members || checks->too_many)
		return;
	qsort(checks->member, checks->members, sizeof(*checks->member), stall_check_by_communicator);
	if (!stall_check_reserve(checks))
		return;
	for (size_t i = 0, end; i < checks->members && checks->stucks < STUCKS_MAX; i = end) {
		end = stall_check_end_of(checks, i);
		stall_check_judge(checks, &checks->member[i], end - i, now_ns);
	}
}

void stall_check_at(
	struct stall_check *checks, const struct source *sources, size_t count, struct detect *detect, uint64_t now_ns)
{
	checks->members_before = checks->members;
	checks->standings = checks->members = checks->stucks = checks->indices = 0;
	checks->too_many = false;
	for (size_t i = 0; i < count; i++)
		if (sources[i].ops->stand)
			sources[i].ops->stand(sources[i].arg, now_ns, checks);
	if (!checks->standings)
		return;
	judge_all(checks, now_ns);
	detect_snapshot(detect, now_ns, checks->standing, checks->standings, checks->stuck, checks->job, checks->stucks,
		checks->members > 0 && !checks->too_many);
}

bool stall_check_too_many(const struct stall_check *checks)
{
	return checks->too_many;
}
