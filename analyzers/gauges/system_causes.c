/* SPDX-License-Identifier: Apache-2.0 */
/* See system_causes.h. */
#include "analyzers/gauges/system_causes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/robust.h"

#define SECOND_NS 1000000000ULL
#define NAME_FRESH_NS (60 * SECOND_NS)
/* Least growth, as a part of the lost time: against peers, which do the same at that time; against before, when the rank
 * may have done something else; alone, where what is usual counts as growth. */
#define PART_MIN_PEERS 0.1
#define PART_MIN_BEFORE 0.25
#define PART_MIN_ALONE 0.5

struct system_name {
	char text[96]; /* a folder's and a file's name */
	uint64_t duration_ns, time_ns;
};

struct system_rank {
	int32_t rank;
	uint32_t uid;
	char job[64];
	uint64_t last_ns;
	uint64_t second[SYSTEM_CAUSES_SECONDS]; /* watched; its number modulo the length */
	float of_ns[SYSTEM_CAUSES_SECONDS][SYSTEM_CAUSES_MAX];
	struct system_name longest[SYSTEM_CAUSES_MAX]; /* call of the last minute */
};

struct system_causes {
	size_t words;
	const char *word[SYSTEM_CAUSES_MAX];
	struct system_rank *rank[SYSTEM_CAUSES_RANKS_MAX]; /* NULL: none so far */
	int64_t instance[SYSTEM_CAUSES_RANKS_MAX];	   /* of rank[] */
};

struct system_causes *system_causes_new(void)
{
	return calloc(1, sizeof(struct system_causes));
}

struct system_causes *system_causes_free(struct system_causes *causes)
{
	for (size_t i = 0; causes && i < SYSTEM_CAUSES_RANKS_MAX; i++)
		free(causes->rank[i]);
	free(causes);
	return NULL;
}

static struct system_rank *system_rank_find(const struct system_causes *causes, int64_t instance)
{
	for (size_t i = 0; i < SYSTEM_CAUSES_RANKS_MAX; i++)
		if (causes->instance[i] == instance && causes->rank[i])
			return causes->rank[i];
	return NULL;
}

/* A free place, else that of the rank that was seen last longest ago; NULL: no memory. */
static struct system_rank *system_rank_new(struct system_causes *causes, const struct system_causes_who *who)
{
	struct system_rank *rank;
	size_t oldest = 0;

	for (size_t i = 0; i < SYSTEM_CAUSES_RANKS_MAX && causes->rank[oldest]; i++)
		if (!causes->rank[i] || causes->rank[i]->last_ns < causes->rank[oldest]->last_ns)
			oldest = i;
	rank = causes->rank[oldest] ? causes->rank[oldest] : malloc(sizeof(*rank));
	if (!rank)
		return NULL;
	memset(rank, 0, sizeof(*rank));
	rank->rank = who->rank;
	rank->uid = who->uid;
	snprintf(rank->job, sizeof(rank->job), "%s", who->job);
	causes->rank[oldest] = rank;
	causes->instance[oldest] = who->instance;
	return rank;
}

void system_causes_watch(struct system_causes *causes, const struct system_causes_who *who, uint64_t time_ns)
{
	struct system_rank *rank = system_rank_find(causes, who->instance);
	uint64_t second = time_ns / SECOND_NS;
	size_t slot = second % SYSTEM_CAUSES_SECONDS;

	if (!rank)
		rank = system_rank_new(causes, who);
	if (!rank)
		return;
	rank->last_ns = time_ns;
	if (rank->second[slot] == second)
		return;
	rank->second[slot] = second;
	memset(rank->of_ns[slot], 0, sizeof(rank->of_ns[slot]));
}

/* SYSTEM_CAUSES_MAX: no place is left. */
static size_t system_causes_word(struct system_causes *causes, const char *word)
{
	size_t i = 0;

	while (i < causes->words && strcmp(causes->word[i], word) != 0)
		i++;
	if (i == causes->words && i < SYSTEM_CAUSES_MAX)
		causes->word[causes->words++] = word;
	return i;
}

void system_causes_add(struct system_causes *causes, int64_t instance, uint64_t time_ns, const char *word,
	const char *name, uint64_t duration_ns)
{
	struct system_rank *rank = system_rank_find(causes, instance);
	size_t cause = system_causes_word(causes, word), slot = time_ns / SECOND_NS % SYSTEM_CAUSES_SECONDS;

	if (!rank || cause == SYSTEM_CAUSES_MAX)
		return;
	/* Between two rounds of system_causes_watch(): the newest second. */
	if (rank->second[slot] != time_ns / SECOND_NS)
		slot = rank->last_ns / SECOND_NS % SYSTEM_CAUSES_SECONDS;
	rank->of_ns[slot][cause] += (float)duration_ns;
	if (name[0] && (duration_ns >= rank->longest[cause].duration_ns ||
			       rank->longest[cause].time_ns + NAME_FRESH_NS < time_ns)) {
		rank->longest[cause] = (struct system_name){.duration_ns = duration_ns, .time_ns = time_ns};
		snprintf(rank->longest[cause].text, sizeof(rank->longest[cause].text), "%s", name);
	}
}

/* Part of the time, in the watched seconds of [since, until); NAN: none. */
static double system_rank_part(const struct system_rank *rank, size_t cause, uint64_t since_ns, uint64_t until_ns)
{
	double sum_ns = 0;
	unsigned seconds = 0;

	for (size_t i = 0; i < SYSTEM_CAUSES_SECONDS; i++) {
		if (!rank->second[i] || rank->second[i] * SECOND_NS < since_ns ||
			rank->second[i] * SECOND_NS >= until_ns)
			continue;
		sum_ns += (double)rank->of_ns[i][cause];
		seconds++;
	}
	return seconds ? sum_ns / (double)(seconds * SECOND_NS) : NAN;
}

/* What is usual; NAN: nothing to compare with. */
static double system_causes_usual(const struct system_causes *causes, const struct system_rank *rank, size_t cause,
	uint64_t since_ns, uint64_t until_ns, bool *ret_peers)
{
	double part[SYSTEM_CAUSES_RANKS_MAX];
	size_t count = 0;

	for (size_t i = 0; i < SYSTEM_CAUSES_RANKS_MAX; i++) {
		const struct system_rank *other = causes->rank[i];

		if (!other || other == rank || other->uid != rank->uid || strcmp(other->job, rank->job) != 0)
			continue;
		part[count] = system_rank_part(other, cause, since_ns, until_ns);
		count += isfinite(part[count]);
	}
	*ret_peers = count > 0;
	return count ? robust_median(part, count) : system_rank_part(rank, cause, 0, since_ns);
}

static const struct system_rank *system_causes_rank(const struct system_causes *causes, const struct finding *finding)
{
	const struct system_rank *newest = NULL;

	for (size_t i = 0; i < SYSTEM_CAUSES_RANKS_MAX; i++) {
		const struct system_rank *rank = causes->rank[i];

		if (rank && rank->rank == finding->rank && strcmp(rank->job, finding->job) == 0 && finding->uid_known &&
			rank->uid == finding->uid && (!newest || rank->last_ns > newest->last_ns))
			newest = rank;
	}
	return newest;
}

struct system_grown {
	size_t cause;
	double part, usual, more;
	bool peers;
};

/* Requests of devices are what calls of files and faults wait for: these come first. */
static bool system_causes_is_beneath(const char *word)
{
	return strncmp(word, "block ", 6) == 0;
}

static void system_causes_most(const struct system_causes *causes, const struct system_rank *rank,
	const struct finding *finding, uint64_t until_ns, bool beneath, struct system_grown *ret)
{
	double lost = 1 - 1 / finding->slowdown, least;

	for (size_t i = 0; i < causes->words; i++) {
		struct system_grown grown = {
			.cause = i, .part = system_rank_part(rank, i, finding->since_ns, until_ns)};

		if (system_causes_is_beneath(causes->word[i]) != beneath)
			continue;
		grown.usual = system_causes_usual(causes, rank, i, finding->since_ns, until_ns, &grown.peers);
		grown.more = grown.part - (isfinite(grown.usual) ? grown.usual : 0);
		least = grown.peers ? PART_MIN_PEERS : isfinite(grown.usual) ? PART_MIN_BEFORE : PART_MIN_ALONE;
		if (grown.more >= least * lost && grown.more > ret->more)
			*ret = grown;
	}
}

bool system_causes_explain(const struct system_causes *causes, uint64_t now_ns, struct finding *finding)
{
	const struct system_rank *rank = causes && finding->kind == FINDING_SLOW_RANK && finding->slowdown > 1
						 ? system_causes_rank(causes, finding)
						 : NULL;
	uint64_t until_ns = finding->until_ns ? finding->until_ns : now_ns;
	struct system_grown most = {.more = 0};
	char detail[sizeof(finding->evidence->detail)];
	const char *name;

	if (!rank)
		return false;
	system_causes_most(causes, rank, finding, until_ns, false, &most);
	if (most.more <= 0)
		system_causes_most(causes, rank, finding, until_ns, true, &most);
	if (most.more <= 0)
		return false;
	/* A call before the finding began is none of its. */
	name = rank->longest[most.cause].time_ns >= finding->since_ns ? rank->longest[most.cause].text : "";
	snprintf(detail, sizeof(detail), "%s%s%s%s", causes->word[most.cause], name[0] ? " (" : "", name,
		name[0] ? ")" : "");
	finding_add(finding, most.peers ? "system" : "system_before", "%", round(1000 * most.part) / 10,
		round(1000 * most.usual) / 10, detail);
	return true;
}
