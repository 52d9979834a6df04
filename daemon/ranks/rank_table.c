/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes with a role: by pid and, for ranks, by slot. Every change goes through here to keep the kernel's filter,
 * the store's row and the observers consistent: the filter changes first at an end and last at a start, and observers
 * are notified before a slot is reused.
 */
#include <inttypes.h>
#include <sys/wait.h>

#include "daemon/core/context.h"
#include "daemon/core/limits.h"
#include "daemon/gauges/gauge_cards.h"
#include "daemon/kernel/kernel.h"
#include "daemon/base/log_limit.h"
#include "daemon/ranks/ranks_internal.h"
#include "daemon/ranks/end_words.h"
#include "daemon/store/store.h"

static struct tracked **rank_table_bucket_of(const struct ranks *ranks, uint32_t pid)
{
	return (struct tracked **)&ranks->bucket[pid % RANK_BUCKETS];
}

struct tracked *tracked_find(const struct ranks *ranks, uint32_t pid)
{
	struct tracked *tracked = *rank_table_bucket_of(ranks, pid);

	while (tracked && tracked->rank.pid != pid)
		tracked = tracked->next;
	return tracked;
}

static void rank_table_notify(struct ranks *ranks, const struct tracked *tracked, enum rank_change change)
{
	for (size_t i = 0; i < ranks->observers; i++)
		ranks->observer[i].callback(ranks->observer[i].arg, &tracked->rank, change);
}

/* Of one that has ended, as they were. */
static const struct rank_cpus *rank_table_cpus(struct rank *rank, const struct gauge_card *card)
{
	if (!rank->ended)
		rank_cpus_read(RANK_CPUS_DEVICES, rank->pid, card ? card->pci : "", &rank->cpus);
	return &rank->cpus;
}

/* A process taken for a rank by mistake keeps its row, ended and without number. */
void tracked_store(struct ranks *ranks, struct tracked *tracked)
{
	struct rank *rank = &tracked->rank;
	bool is_rank = rank->role == RANK_ROLE_RANK;
	const struct gauge_card *card = gauge_cards_find(ranks->context->cards, rank->env.card);
	const struct rank_cpus *cpus = rank_table_cpus(rank, card);
	const struct row_ranks row = {
		.rank = field_int_if(is_rank, rank->env.rank),
		.world_size = field_int_if(is_rank && rank->env.world_size >= 0, rank->env.world_size),
		.local_rank = field_int_if(rank->env.local_rank >= 0, rank->env.local_rank),
		.job = field_text_if(rank->env.job),
		.host = field_text(rank->host),
		.pid = field_int(rank->pid),
		.start_time_ns = field_time(tracked->start_utc_ns),
		.exe = field_text(rank->exe),
		.command = field_text(rank->command),
		.cgroup = field_text_if(rank->cgroup),
		.container = field_text_if(rank->container),
		.pod = field_text_if(rank->env.pod),
		.card = field_text_if(rank->env.card),
		.source = field_text_if(rank->env.source),
		.first_seen_ns = field_time(rank->first_seen_ns),
		.last_seen_ns = field_time(rank->last_seen_ns),
		.ended = field_int(rank->ended || !is_rank),
		.uid = field_int(rank->uid),
		.card_uuid = field_text_if(card ? card->object : ""),
		.card_pci = field_text_if(card ? card->pci : ""),
		.card_serial = field_text_if(card ? card->serial : ""),
		.launcher_pid = field_int_if(rank->parent_pid > 0, rank->parent_pid),
		.port = field_int_if(rank->env.master_port > 0, rank->env.master_port),
		.exit_status = field_int_if(rank->ended && rank->wait_status >= 0 && WIFEXITED(rank->wait_status),
			WEXITSTATUS(rank->wait_status)),
		.exit_signal = field_int_if(rank->ended && rank->wait_status >= 0 && WIFSIGNALED(rank->wait_status),
			WTERMSIG(rank->wait_status)),
		.cpus = field_int_if(cpus->usable, cpus->usable),
		.near_cpus = field_int_if(cpus->near_known, cpus->near),
		.instance = field_int(rank->instance),
	};

	if (rank->instance > 0)
		store_put_ranks(ranks->context->store, &row);
}

static uint64_t start_utc_ns(uint64_t start_time_ns)
{
	return realtime_ns() - clock_ns(CLOCK_BOOTTIME) + start_time_ns;
}

static int rank_table_refuse(bool *logged, const char *what, uint64_t limit, uint32_t pid)
{
	if (!*logged)
		log_warning("ranks",
			"already tracing %" PRIu64 " %s, the most allowed; leaving out process %u and others until "
			"one ends",
			limit, what, pid);
	*logged = true;
	return -ENOSPC;
}

static uint32_t rank_table_find_slot(const struct ranks *ranks)
{
	uint32_t slot = 0;

	while (slot < ranks->slots && ranks->slot[slot])
		slot++;
	return slot;
}

/* The table is full: a user with more ranks than this one gives up his newest. */
static bool make_way(struct ranks *ranks, const struct rank *rank)
{
	struct tracked *excess = rank_shares_excess(ranks, rank->uid);
	uint32_t uid;

	if (!excess)
		return false;
	uid = excess->rank.uid;
	log_limited(LOG_WARNING, "ranks", uid,
		"process %u of user %u, who has most of the %u ranks, is dropped for one of user %u", excess->rank.pid,
		uid, ranks->slots, rank->uid);
	tracked_end(ranks, excess);
	ranks_suspect(ranks, uid, "more ranks than a fair part of the node's table");
	return true;
}

static void release_slot(struct ranks *ranks, struct rank *rank)
{
	if (rank->slot == RANK_NO_SLOT)
		return;
	ranks->slot[rank->slot] = NULL;
	rank->slot = RANK_NO_SLOT;
	ranks->full_logged = false;
	rank_shares_drop(ranks, rank);
}

static int take_slot(struct ranks *ranks, struct tracked *tracked)
{
	struct rank *rank = &tracked->rank;
	uint32_t slot = rank_table_find_slot(ranks);
	int r;

	if (slot == ranks->slots && make_way(ranks, rank))
		slot = rank_table_find_slot(ranks);
	if (slot == ranks->slots)
		return rank_table_refuse(&ranks->full_logged, "ranks", ranks->slots, rank->pid);
	r = store_instance(ranks->context->store, rank->boot_id, rank->pid, rank->start_time_ns, &rank->instance);
	if (r < 0)
		return log_error_errno("ranks", r, "cannot number process %u, trying again later", rank->pid);
	rank->slot = slot;
	ranks->slot[slot] = tracked;
	if (ranks->context->kernel)
		kernel_unlimit(ranks->context->kernel, slot);
	rank_shares_add(ranks, rank);
	r = kernel_rank_add(ranks->context->kernel, rank->pid, slot);
	if (r < 0) {
		release_slot(ranks, rank);
		return log_error_errno("ranks", r, "cannot trace process %u, trying again later", rank->pid);
	}
	return 0;
}

static const char *role_name(enum rank_role role)
{
	static const char *const names[] = {
		[RANK_ROLE_RANK] = "rank", [RANK_ROLE_CHILD] = "child", [RANK_ROLE_LAUNCHER] = "launcher"};

	_Static_assert(ARRAY_SIZE(names) == RANK_ROLE_MAX, "each role has a name");
	return names[role];
}

static size_t others_of_user(const struct ranks *ranks, uint32_t uid)
{
	size_t count = 0;

	for (size_t i = 0; i < RANK_BUCKETS; i++)
		for (const struct tracked *t = ranks->bucket[i]; t; t = t->next)
			count += t->rank.role != RANK_ROLE_RANK && t->rank.uid == uid;
	return count;
}

/* Above half of the bound, each user has his part, and one part remains. */
static bool has_place_for_other(const struct ranks *ranks, const struct rank *rank, size_t others)
{
	return others < LIMIT_OTHERS / 2 ||
	       (others < LIMIT_OTHERS && others_of_user(ranks, rank->uid) < LIMIT_OTHERS / (ranks->users + 1u));
}

int tracked_add(struct ranks *ranks, const struct rank *rank, uint64_t now_ns, struct tracked **ret)
{
	size_t others = ranks->count[RANK_ROLE_CHILD] + ranks->count[RANK_ROLE_LAUNCHER];
	_cleanup_free_ struct tracked *tracked = calloc(1, sizeof(*tracked));
	struct tracked **bucket = rank_table_bucket_of(ranks, rank->pid);
	int r;

	if (!tracked)
		return -ENOMEM;
	tracked->rank = *rank;
	tracked->rank.slot = RANK_NO_SLOT;
	tracked->rank.wait_status = -1;
	tracked->start_utc_ns = start_utc_ns(rank->start_time_ns);
	tracked->added_ns = tracked->checked_ns = tracked->children_ns = tracked->stored_ns = now_ns;
	tracked->card.first_ns = now_ns;
	if (rank->role == RANK_ROLE_RANK) {
		r = take_slot(ranks, tracked);
		if (r < 0)
			return r;
		log_limited(LOG_INFO, "ranks", rank->uid, "process %u of user %u is rank %d of %d%s%s", rank->pid,
			rank->uid, rank->env.rank, rank->env.world_size, rank->env.job[0] ? " of job " : "",
			rank->env.job);
	} else if (!has_place_for_other(ranks, rank, others)) {
		return rank_table_refuse(
			&ranks->others_full_logged, "children and launchers of ranks", LIMIT_OTHERS, rank->pid);
	}
	tracked->next = *bucket;
	*bucket = tracked;
	ranks->count[rank->role]++;
	*ret = TAKE_PTR(tracked);
	tracked_store(ranks, *ret);
	rank_table_notify(ranks, *ret, RANK_ADDED);
	return 0;
}

void tracked_card_found(struct ranks *ranks, struct tracked *tracked, const char *card)
{
	struct rank *rank = &tracked->rank;

	(void)copy_text(rank->env.card, sizeof(rank->env.card), card);
	log_limited(LOG_INFO, "ranks", rank->uid, "process %u, rank %d, works on card %s", rank->pid, rank->env.rank,
		rank->env.card);
	tracked_store(ranks, tracked);
	rank_table_notify(ranks, tracked, RANK_CHANGED);
}

/* Children of a process that is not a rank lose their parent. */
static void orphan_children(struct ranks *ranks, int64_t instance)
{
	for (size_t i = 0; i < RANK_BUCKETS; i++)
		for (struct tracked *t = ranks->bucket[i]; t; t = t->next)
			if (t->rank.role == RANK_ROLE_CHILD && t->rank.parent_instance == instance) {
				t->rank.parent_instance = 0;
				rank_table_notify(ranks, t, RANK_CHANGED);
			}
}

void tracked_become(struct ranks *ranks, struct tracked *tracked, enum rank_role role, int64_t parent_instance)
{
	struct rank *rank = &tracked->rank;

	log_limited(LOG_INFO, "ranks", rank->uid, "process %u, taken for rank %d, is a %s", rank->pid, rank->env.rank,
		role_name(role));
	(void)kernel_rank_remove(ranks->context->kernel, rank->pid);
	ranks->count[rank->role]--;
	ranks->count[role]++;
	rank->role = role;
	rank->parent_instance = parent_instance;
	if (role == RANK_ROLE_LAUNCHER)
		rank->env.rank = rank->env.world_size = -1;
	tracked_store(ranks, tracked);
	rank_table_notify(ranks, tracked, RANK_CHANGED);
	release_slot(ranks, rank);
	if (role == RANK_ROLE_LAUNCHER)
		orphan_children(ranks, rank->instance);
}

void tracked_end(struct ranks *ranks, struct tracked *tracked)
{
	struct rank *rank = &tracked->rank;
	struct tracked **link = rank_table_bucket_of(ranks, rank->pid);
	char words[END_WORDS_BYTES];

	rank->ended = true;
	rank->last_seen_ns = realtime_ns();
	if (rank->role == RANK_ROLE_RANK) {
		(void)kernel_rank_remove(ranks->context->kernel, rank->pid);
		log_limited(LOG_INFO, "ranks", rank->uid, "process %u, rank %d, has ended (%s)", rank->pid,
			rank->env.rank, end_words(rank->wait_status, "", NULL, words));
		tracked_store(ranks, tracked);
	}
	rank_table_notify(ranks, tracked, RANK_ENDED);
	release_slot(ranks, rank);
	ranks->count[rank->role]--;
	if (rank->role != RANK_ROLE_RANK)
		ranks->others_full_logged = false;
	while (*link != tracked)
		link = &(*link)->next;
	*link = tracked->next;
	free(tracked);
}
