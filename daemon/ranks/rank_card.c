/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cards of ranks by the device nodes that they have open, and when ranks are looked at for it. A process opens them at
 * its first use of a card, seconds after it is known as a rank, and one after the other: what they tell counts once it
 * has been the same for SETTLE_NS. To know another make, add a row.
 */
#include "daemon/ranks/ranks_internal.h"

#include <limits.h>


#define EAGER_NS (120 * NSEC_PER_SEC) /* looked at every INTERVAL_NS for so long */
#define INTERVAL_NS NSEC_PER_SEC
#define INTERVAL_LATER_NS (60 * NSEC_PER_SEC)
#define SETTLE_NS (5 * NSEC_PER_SEC)
/* Descriptors that may be read for all ranks together: so many more every tick, and no more than so many saved up. */
#define FDS_PER_TICK 512
#define FDS_SAVED_MAX 4096

/* Device nodes whose name ends in the card's number. */
static const char *const numbered[] = {"/dev/nvidia", "/dev/davinci"};
/* ROCm: the node of all cards, and one of a card. */
static const char rocm_all[] = "/dev/kfd", rocm_card[] = "/dev/dri/renderD";

/* The number that the text is from its first letter to its last, as the kernel writes numbers; -1 if it is none. */
static int node_number(const char *text)
{
	int number = 0;

	if (!*text || (text[0] == '0' && text[1]))
		return -1;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return -1;
		number = number * 10 + (*text - '0');
		if (number >= RANK_CARD_NUMBERS)
			return -1;
	}
	return number;
}

static int number_after(const char *path, const char *prefix)
{
	size_t length = strlen(prefix);

	return strncmp(path, prefix, length) == 0 ? node_number(path + length) : -1;
}

/* ROCm's card opens together with its node of all: neither alone is work on a card. */
struct seen {
	struct rank_card_nodes nodes;
	bool rocm_all, rocm_card;
};

static void rank_card_note(struct seen *seen, const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(numbered); i++) {
		int number = number_after(path, numbered[i]);

		if (number >= 0)
			seen->nodes.open[number / 64] |= UINT64_C(1) << (number % 64);
	}
	seen->rocm_all |= streq(path, rocm_all);
	seen->rocm_card |= number_after(path, rocm_card) >= 0;
}

int rank_card_read(const char *root, uint32_t pid, struct rank_card_nodes *ret, unsigned *ret_fds)
{
	_cleanup_closedir_ DIR *folder = NULL;
	char path[PATH_MAX], target[64];
	struct seen seen = {0};
	struct dirent *entry;
	unsigned fds = 0;
	int n = snprintf(path, sizeof(path), "%s/%u/fd", root, pid);

	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	folder = opendir(path);
	if (!folder)
		return -errno;
	while (fds < RANK_CARD_FDS_MAX && (entry = readdir(folder))) {
		ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof(target));

		fds++;
		/* One that fills the room is cut, and longer than any name that is looked for. */
		if (length <= 0 || (size_t)length >= sizeof(target) || memchr(target, 0, (size_t)length))
			continue;
		target[length] = 0;
		rank_card_note(&seen, target);
	}
	*ret = seen.nodes;
	ret->rocm = seen.rocm_all && seen.rocm_card;
	*ret_fds = fds;
	return 0;
}

/* The number of the index-th open one, from 0; -1 past the last. */
static int rank_card_open_at(const struct rank_card_nodes *nodes, int32_t index)
{
	for (int number = 0; number < RANK_CARD_NUMBERS; number++)
		if (nodes->open[number / 64] >> (number % 64) & 1 && index-- == 0)
			return number;
	return -1;
}

bool rank_card_pick(
	const struct rank_card_nodes *nodes, int32_t local_rank, int32_t local_world_size, char *ret, size_t size)
{
	int first = rank_card_open_at(nodes, 0), card = local_rank;

	if (first < 0 && !nodes->rocm)
		return false;
	if (first >= 0 && rank_card_open_at(nodes, 1) < 0)
		card = first;
	else if (local_rank >= 0 && local_rank < local_world_size && rank_card_open_at(nodes, local_world_size - 1) >= 0)
		card = rank_card_open_at(nodes, local_rank);
	if (card < 0)
		return false;
	snprintf(ret, size, "%d", card);
	return true;
}

/* Age of a time that may lie ahead: what calls us reads the clock itself. */
static uint64_t rank_card_since(uint64_t time_ns, uint64_t now_ns)
{
	return now_ns > time_ns ? now_ns - time_ns : 0;
}

static unsigned rank_card_look(struct ranks *ranks, struct tracked *tracked, uint64_t now_ns)
{
	const struct rank_env *env = &tracked->rank.env;
	struct tracked_card *card = &tracked->card;
	struct rank_card_nodes nodes;
	char picked[sizeof(card->picked)] = "";
	unsigned fds = 1;

	card->due_ns = now_ns + (rank_card_since(card->first_ns, now_ns) < EAGER_NS ? INTERVAL_NS : INTERVAL_LATER_NS);
	if (rank_card_read(ranks->proc_root, tracked->rank.pid, &nodes, &fds) < 0 ||
		!rank_card_pick(&nodes, env->local_rank, env->local_world_size, picked, sizeof(picked)) ||
		!streq(picked, card->picked)) {
		(void)copy_text(card->picked, sizeof(card->picked), picked);
		card->picked_ns = now_ns;
	} else if (rank_card_since(card->picked_ns, now_ns) >= SETTLE_NS) {
		tracked_card_found(ranks, tracked, picked);
	}
	return fds;
}

void rank_card_tick(struct ranks *ranks, uint64_t now_ns)
{
	struct tracked *tracked;

	ranks->card_fds += ranks->card_fds < FDS_SAVED_MAX ? FDS_PER_TICK : 0;
	for (uint32_t i = 0; i < ranks->slots && ranks->card_fds > 0; i++) {
		/* Where there are too many for a tick, the next one goes on behind the last. */
		ranks->card_slot = ranks->card_slot + 1 < ranks->slots ? ranks->card_slot + 1 : 0;
		tracked = ranks->slot[ranks->card_slot];
		if (tracked && !tracked->rank.env.card[0] && now_ns >= tracked->card.due_ns)
			ranks->card_fds -= (int)rank_card_look(ranks, tracked, now_ns);
	}
}
