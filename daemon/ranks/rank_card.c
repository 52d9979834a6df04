/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cards of ranks from their open device nodes. A process opens nodes one after the other at its first use of a card,
 * seconds after it is known as a rank, so a result counts once unchanged for SETTLE_NS. To support another vendor, add
 * a row.
 */
#include "daemon/ranks/ranks_internal.h"

#include <limits.h>

#define CARD_EAGER_NS (120 * NSEC_PER_SEC) /* checked every INTERVAL_NS for this long */
#define INTERVAL_NS NSEC_PER_SEC
#define INTERVAL_LATER_NS (60 * NSEC_PER_SEC)
#define SETTLE_NS (5 * NSEC_PER_SEC)

/* Device nodes with the card's number as suffix. */
static const char *const numbered[] = {"/dev/nvidia", "/dev/davinci"};
/* ROCm: the node shared by all cards, and the prefix of a card's. */
static const char rocm_all[] = "/dev/kfd", rocm_card[] = "/dev/dri/renderD";

/* Beginnings of names in /dev. Of a machine without any, scripts set CUDA_VISIBLE_DEVICES all the same. */
static const char *const vendors[] = {
	"nvidia", "davinci", "kfd", "dxg", "accel", "hl", "iluvatar", "mtgpu", "mxcd", "cambricon"};

/* The whole text as a number in the kernel's format; -1 if it is not. */
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

/* ROCm opens both the shared node and the card's node when it uses a card. */
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

int rank_card_read(const char *root, uint32_t pid, struct rank_card_nodes *ret)
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
		/* A full buffer is a truncated link, longer than any name searched for. */
		if (length <= 0 || (size_t)length >= sizeof(target) || memchr(target, 0, (size_t)length))
			continue;
		target[length] = 0;
		rank_card_note(&seen, target);
	}
	*ret = seen.nodes;
	ret->rocm = seen.rocm_all && seen.rocm_card;
	return 0;
}

static bool is_vendor(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(vendors); i++)
		if (strncmp(name, vendors[i], strlen(vendors[i])) == 0)
			return true;
	return false;
}

/* In the process's own /dev: a container's, while the daemon's is private. */
bool rank_card_is_possible(const char *root, uint32_t pid)
{
	_cleanup_closedir_ DIR *folder = NULL;
	char path[PATH_MAX];
	struct dirent *entry = NULL;
	int n = snprintf(path, sizeof(path), "%s/%u/root/dev", root, pid);

	if (n < 0 || (size_t)n >= sizeof(path))
		return true;
	folder = opendir(path);
	if (!folder)
		return true;
	for (unsigned names = 0; names < RANK_CARD_FDS_MAX && (entry = readdir(folder)); names++)
		if (is_vendor(entry->d_name))
			return true;
	return entry != NULL;
}

/* Number of the index-th open node, from 0; -1 past the last. */
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
	else if (local_rank >= 0 && local_rank < local_world_size &&
		 rank_card_open_at(nodes, local_world_size - 1) >= 0)
		card = rank_card_open_at(nodes, local_rank);
	if (card < 0)
		return false;
	snprintf(ret, size, "%d", card);
	return true;
}

/* now_ns may be older than time_ns: callers read the clock themselves. */
static uint64_t rank_card_since(uint64_t time_ns, uint64_t now_ns)
{
	return now_ns > time_ns ? now_ns - time_ns : 0;
}

bool rank_card_is_due(const struct tracked *tracked, uint64_t now_ns)
{
	return tracked->rank.role == RANK_ROLE_RANK && !tracked->rank.env.card[0] && now_ns >= tracked->card.due_ns;
}

void rank_card_take(struct ranks *ranks, struct tracked *tracked, const struct rank_card_nodes *nodes, uint64_t now_ns)
{
	const struct rank_env *env = &tracked->rank.env;
	struct tracked_card *card = &tracked->card;
	char picked[sizeof(card->picked)] = "";

	card->due_ns =
		now_ns + (rank_card_since(card->first_ns, now_ns) < CARD_EAGER_NS ? INTERVAL_NS : INTERVAL_LATER_NS);
	if (!nodes || !rank_card_pick(nodes, env->local_rank, env->local_world_size, picked, sizeof(picked)) ||
		!streq(picked, card->picked)) {
		(void)copy_text(card->picked, sizeof(card->picked), picked);
		card->picked_ns = now_ns;
	} else if (rank_card_since(card->picked_ns, now_ns) >= SETTLE_NS) {
		tracked_card_found(ranks, tracked, picked);
	}
}
