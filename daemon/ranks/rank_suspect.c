/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users whose processes did what no training does, as far as the daemon noticed, and ranks that two users claim. A
 * suspicion comes only from what a user's own processes did, so that nobody can bring it on another. It is forgotten an
 * hour after its last cause.
 */
#include "daemon/base/log_limit.h"
#include "daemon/ranks/ranks_internal.h"

#define SUSPICION_NS (3600 * NSEC_PER_SEC)

void ranks_suspect(struct ranks *ranks, uint32_t uid, const char *why)
{
	struct rank_suspect *suspect = NULL, *oldest = &ranks->suspect[0];
	uint64_t now_ns = monotonic_ns();

	for (size_t i = 0; i < RANK_SUSPECTS_MAX && !suspect; i++) {
		if (ranks->suspect[i].seen_ns && ranks->suspect[i].uid == uid)
			suspect = &ranks->suspect[i];
		if (ranks->suspect[i].seen_ns < oldest->seen_ns)
			oldest = &ranks->suspect[i];
	}
	if (!suspect) {
		suspect = oldest;
		*suspect = (struct rank_suspect){.uid = uid};
	}
	suspect->seen_ns = now_ns;
	suspect->count++;
	(void)copy_text(suspect->why, sizeof(suspect->why), why);
	log_limited(LOG_WARNING, "ranks", uid, "user %u is suspected: %s", uid, why);
}

static bool is_live(const struct rank_suspect *suspect)
{
	return suspect->seen_ns && monotonic_ns() < suspect->seen_ns + SUSPICION_NS;
}

const char *ranks_suspicion(const struct ranks *ranks, uint32_t uid)
{
	for (size_t i = 0; i < RANK_SUSPECTS_MAX; i++)
		if (ranks->suspect[i].uid == uid && is_live(&ranks->suspect[i]))
			return ranks->suspect[i].why;
	return "";
}

void ranks_suspects_each(const struct ranks *ranks,
	void (*callback)(void *arg, uint32_t uid, uint64_t count, const char *why), void *arg)
{
	for (size_t i = 0; i < RANK_SUSPECTS_MAX; i++)
		if (is_live(&ranks->suspect[i]))
			callback(arg, ranks->suspect[i].uid, ranks->suspect[i].count, ranks->suspect[i].why);
}

bool ranks_disputed(const struct ranks *ranks, const struct rank *rank, uint32_t *ret_uid)
{
	/* Jobs without a word are many: equal numbers are not significant. */
	if (rank->role != RANK_ROLE_RANK || !rank->env.job[0])
		return false;
	for (uint32_t i = 0; i < ranks->slots; i++) {
		const struct rank *other = ranks->slot[i] ? &ranks->slot[i]->rank : NULL;

		if (!other || other->uid == rank->uid || other->env.rank != rank->env.rank ||
			!streq(other->env.job, rank->env.job))
			continue;
		*ret_uid = other->uid;
		return true;
	}
	return false;
}
