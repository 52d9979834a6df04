/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts the communicators of all ranks, so that members of one are adjacent. */
#include "analyzers/base/array.h"
#include "analyzers/coll/comm_kind.h"
#include "daemon/coll/comms.h"

/* Copies of rows: rows move while the analyzers are called. */
struct member {
	char communicator[20], family[8];
	uint64_t address;
	uint32_t members, member;
	size_t of; /* index in the caller's array */
	const struct rank *rank;
};

/* 0: members of one communicator. */
static int compare_communicators(const struct member *a, const struct member *b)
{
	return strcmp(a->communicator, b->communicator) ?: strcmp(a->family, b->family) ?: ORDER(a->members, b->members) ?:
	       ORDER(a->rank->env.world_size, b->rank->env.world_size) ?: ORDER(a->rank->uid, b->rank->uid) ?:
	       strcmp(a->rank->env.job, b->rank->env.job) ?: strcmp(a->rank->env.source, b->rank->env.source);
}

static int comm_members_compare(const void *left, const void *right)
{
	const struct member *a = left, *b = right;

	return compare_communicators(a, b) ?: ORDER(a->rank->env.rank, b->rank->env.rank) ?: ORDER(a->of, b->of) ?:
	       ORDER(a->address, b->address);
}

static uint32_t not_negative(int32_t number)
{
	return number > 0 ? (uint32_t)number : 0;
}

/* Place of a communicator with these members, in order of rank. */
static struct comm_place comm_members_place_of(const struct member *member, size_t count)
{
	uint32_t members = member->members, here = 0;
	uint32_t world = not_negative(member->rank->env.world_size);
	uint32_t node = not_negative(member->rank->env.local_world_size);
	_cleanup_free_ int32_t *rank = NULL;
	_cleanup_free_ bool *seen = NULL;

	if (members == world)
		return comm_place_world(world, node);
	if (count < members)
		return (struct comm_place){0};
	rank = calloc(members, sizeof(*rank));
	seen = calloc(members, sizeof(*seen));
	if (!rank || !seen)
		return (struct comm_place){0};
	for (size_t i = 0; i < count; i++) {
		if (i && member[i].of == member[i - 1].of && member[i].address == member[i - 1].address)
			continue; /* an init nested in another's call makes two rows of one communicator */
		if (here == members || member[i].member >= members || seen[member[i].member])
			return (struct comm_place){0};
		seen[member[i].member] = true;
		rank[here++] = member[i].rank->env.rank;
	}
	return here == members ? comm_place_of(rank, members, world, node) : (struct comm_place){0};
}

static void comm_members_publish_comm(const struct comm_members_rank *ranks, const struct member *member, size_t count)
{
	struct comm_place place = comm_members_place_of(member, count);

	if (!place.members)
		return;
	for (size_t i = 0; i < count; i++)
		if (!i || member[i].of != member[i - 1].of)
			coll_members(ranks[member[i].of].ops, member[i].family, member[i].communicator, &place);
}

/* Returns the count; members may be NULL. */
static size_t comm_members_collect(const struct comm_members_rank *ranks, size_t count, struct member *members)
{
	size_t n = 0;

	for (size_t i = 0; i < count; i++) {
		for (size_t c = 0; c < ranks[i].comms->count; c++) {
			const struct comm_row *comm = &ranks[i].comms->comm[c];

			if (comm->freed || !comm->communicator[0] || comm->members < 2)
				continue;
			if (members) {
				struct member *member = &members[n];

				*member = (struct member){.address = comm->address,
					.members = comm->members,
					.member = comm->member,
					.of = i,
					.rank = ranks[i].rank};
				(void)copy_text(member->communicator, sizeof(member->communicator), comm->communicator);
				(void)copy_text(member->family, sizeof(member->family), comm->family);
			}
			n++;
		}
	}
	return n;
}

static bool take_changed(const struct comm_members_rank *ranks, size_t count)
{
	bool changed = false;

	for (size_t i = 0; i < count; i++) {
		changed |= ranks[i].comms->changed;
		ranks[i].comms->changed = false;
	}
	return changed;
}

void comm_members_publish(const struct comm_members_rank *ranks, size_t count)
{
	_cleanup_free_ struct member *members = NULL;
	size_t n, first = 0;

	if (!take_changed(ranks, count))
		return;
	n = comm_members_collect(ranks, count, NULL);
	members = n && n <= COMM_MEMBERS_MAX ? calloc(n, sizeof(*members)) : NULL;
	if (!members)
		return;
	(void)comm_members_collect(ranks, count, members);
	qsort(members, n, sizeof(*members), comm_members_compare);
	for (size_t i = 1; i <= n; i++) {
		if (i < n && compare_communicators(&members[i], &members[first]) == 0)
			continue;
		comm_members_publish_comm(ranks, &members[first], i - first);
		first = i;
	}
}
