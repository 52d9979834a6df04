/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/coll/comm_kind.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Whole words of names, in lower case. */
static const struct {
	const char *word;
	enum comm_kind kind;
} words[] = {
	{"data", COMM_KIND_DATA},
	{"dp", COMM_KIND_DATA},
	{"ddp", COMM_KIND_DATA},
	{"edp", COMM_KIND_DATA},
	{"fsdp", COMM_KIND_DATA},
	{"hsdp", COMM_KIND_DATA},
	{"replicate", COMM_KIND_DATA},
	{"tensor", COMM_KIND_TENSOR},
	{"tp", COMM_KIND_TENSOR},
	{"etp", COMM_KIND_TENSOR},
	{"pipeline", COMM_KIND_PIPELINE},
	{"pp", COMM_KIND_PIPELINE},
	{"expert", COMM_KIND_EXPERT},
	{"ep", COMM_KIND_EXPERT},
	{"moe", COMM_KIND_EXPERT},
	{"context", COMM_KIND_CONTEXT},
	{"cp", COMM_KIND_CONTEXT},
};

static const char *const names[] = {
	[COMM_KIND_UNCLEAR] = "",
	[COMM_KIND_DATA] = "data",
	[COMM_KIND_TENSOR] = "tensor",
	[COMM_KIND_PIPELINE] = "pipeline",
	[COMM_KIND_EXPERT] = "expert",
	[COMM_KIND_CONTEXT] = "context",
};
_Static_assert(COUNT_OF(names) == COMM_KIND_MAX, "a name a kind");

const char *comm_kind_name(enum comm_kind kind)
{
	return (size_t)kind < COUNT_OF(names) ? names[kind] : "";
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static unsigned words_of(const char *name)
{
	unsigned seen = 0;

	while (*name) {
		size_t n = 0;

		while (is_letter(name[n]))
			n++;
		for (size_t i = 0; i < COUNT_OF(words); i++) {
			if (strlen(words[i].word) == n && strncasecmp(words[i].word, name, n) == 0)
				seen |= 1u << words[i].kind;
		}
		name += n ? n : 1;
	}
	return seen;
}

/* Two words of one kind: replicas of experts or of context groups are data parallel. */
static const struct {
	unsigned words;
	enum comm_kind kind;
} pairs[] = {
	{1u << COMM_KIND_DATA | 1u << COMM_KIND_EXPERT, COMM_KIND_DATA},
	{1u << COMM_KIND_DATA | 1u << COMM_KIND_CONTEXT, COMM_KIND_DATA},
	{1u << COMM_KIND_TENSOR | 1u << COMM_KIND_EXPERT, COMM_KIND_TENSOR},
};

enum comm_kind comm_kind_of_name(const char *name)
{
	unsigned seen = words_of(name);

	for (unsigned kind = 1; kind < COMM_KIND_MAX; kind++) {
		if (seen == 1u << kind)
			return (enum comm_kind)kind;
	}
	for (size_t i = 0; i < COUNT_OF(pairs); i++) {
		if (seen == pairs[i].words)
			return pairs[i].kind;
	}
	return COMM_KIND_UNCLEAR;
}

static void add_size(struct comm_mix *mix, uint64_t count)
{
	for (unsigned i = 0; i < mix->sizes; i++) {
		if (mix->size[i] == count)
			return;
	}
	if (mix->sizes < COMM_KIND_SIZES)
		mix->size[mix->sizes++] = count;
}

static void add_peer(struct comm_mix *mix, int32_t peer)
{
	for (unsigned i = 0; i < mix->peers; i++) {
		if (mix->peer[i] == peer)
			return;
	}
	if (peer >= 0 && mix->peers < COMM_KIND_PEERS)
		mix->peer[mix->peers++] = peer;
}

void comm_mix_add(struct comm_mix *mix, const char *op, uint64_t count, int32_t peer)
{
	const struct {
		const char *op;
		uint64_t *count;
	} counter[] = {
		{"AllReduce", &mix->all_reduce},
		{"AllGather", &mix->all_gather},
		{"ReduceScatter", &mix->reduce_scatter},
		{"AlltoAll", &mix->all_to_all},
		{"AlltoAllV", &mix->all_to_all},
		{"Send", &mix->p2p},
		{"Recv", &mix->p2p},
		{"BatchSendRecv", &mix->p2p},
		{"Broadcast", NULL},
		{"Barrier", NULL},
	};

	for (size_t i = 0; i < COUNT_OF(counter); i++) {
		if (strcasecmp(counter[i].op, op) != 0)
			continue;
		if (counter[i].count)
			++*counter[i].count;
		if (i == 0 && count > COMM_KIND_FLAGS)
			add_size(mix, count);
		if (counter[i].count == &mix->p2p)
			add_peer(mix, peer);
		return;
	}
	mix->other++;
}

struct comm_place comm_place_world(uint32_t world, uint32_t node)
{
	return (struct comm_place){.members = world > 1 ? world : 0, .world = world, .node = node, .follow = true};
}

struct comm_place comm_place_of(const int32_t *rank, uint32_t members, uint32_t world, uint32_t node)
{
	struct comm_place place = {.members = members, .world = world, .node = node, .follow = true};

	if (members < 2 || rank[0] < 0)
		return (struct comm_place){0};
	for (uint32_t i = 0; i < members; i++) {
		if ((uint32_t)rank[i] >= world || (i && rank[i] <= rank[i - 1]))
			return (struct comm_place){0};
		place.follow &= !i || rank[i] == rank[i - 1] + 1;
	}
	return place;
}

static enum comm_kind of_place(const struct comm_evidence *evidence)
{
	const struct comm_mix *mix = &evidence->mix;
	const struct comm_place *place = &evidence->place;
	bool sharded = mix->reduce_scatter && mix->all_gather;

	if (!place->members || place->members != evidence->members)
		return COMM_KIND_UNCLEAR;
	/* A single size: two pipeline ends reducing a shared embedding. */
	if (!place->follow)
		return sharded || mix->sizes >= 2 ? COMM_KIND_DATA : COMM_KIND_UNCLEAR;
	if (place->members == place->world)
		return sharded && place->node && place->world > place->node ? COMM_KIND_DATA : COMM_KIND_UNCLEAR;
	return sharded && mix->sizes ? COMM_KIND_TENSOR : COMM_KIND_UNCLEAR;
}

static enum comm_kind of_mix(const struct comm_evidence *evidence)
{
	const struct comm_mix *mix = &evidence->mix;
	uint64_t reduces = mix->all_reduce + mix->all_gather + mix->reduce_scatter + mix->other;

	if (reduces + mix->all_to_all + mix->p2p < COMM_KIND_CALLS_MIN)
		return COMM_KIND_UNCLEAR;
	if (!reduces && mix->p2p && !mix->all_to_all) {
		/* A ring of context parallelism has the peers of a pipeline; more than two peers is no pipeline. */
		if (mix->peers <= 2)
			return COMM_KIND_PIPELINE;
		return evidence->members > 2 && mix->peers >= (evidence->members < COMM_KIND_PEERS ? evidence->members
												   : COMM_KIND_PEERS)
			       ? COMM_KIND_EXPERT
			       : COMM_KIND_UNCLEAR;
	}
	if (mix->all_to_all && mix->all_to_all >= reduces && !mix->p2p)
		return COMM_KIND_EXPERT;
	if (mix->p2p || mix->all_to_all || mix->other)
		return COMM_KIND_UNCLEAR;
	if (mix->all_reduce == reduces && mix->sizes >= 3)
		return COMM_KIND_DATA;
	return of_place(evidence);
}

enum comm_kind comm_kind_of(const struct comm_evidence *evidence)
{
	enum comm_kind kind = evidence->name ? comm_kind_of_name(evidence->name) : COMM_KIND_UNCLEAR;

	return kind != COMM_KIND_UNCLEAR ? kind : of_mix(evidence);
}
