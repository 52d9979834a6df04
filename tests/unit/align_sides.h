/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two aligners with equal input: each frame is compared with the input that was sent, and its digest kept for
 * comparison with the other aligner.
 */
#ifndef RANKTRACE_TESTS_ALIGN_SIDES_H
#define RANKTRACE_TESTS_ALIGN_SIDES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/align/align.h"
#include "analyzers/steps/steps.h"
#include "tests/test.h"

#define MS 1000000ULL
#define RANKS 8
#define STEPS 40
#define PROGRAM_MAX 48
#define SENT_MAX 65536 /* a power of two */
#define BEGUN (1000000 * MS)
#define SIDES 2

static const char *const communicators[] = {"00000000000000aa", "00000000000000b0", "00000000000000b1",
	"00000000000000b2", "00000000000000b3", "a communicator whose name is long", "pipe"};
enum { EVERYBODY, PAIR, LONG = 5, PIPE, COMMUNICATORS };
static const char *const names[] = {"AllReduce", "AllGather", "Send", "Recv", ""};
enum { ALL_REDUCE, ALL_GATHER, SEND, RECV, UNNAMED, NAMES };

struct sent { /* an operation; starts of a rank differ */
	uint64_t start_ns, duration_ns, bytes;
	uint32_t seq; /* folded, as the aligner does: two groups may fall together */
	int rank, communicator;
	int32_t low, high; /* members; -1: collective */
};

/* One of two with equal input. */
struct side {
	struct align *align;
	int process[RANKS];
	uint64_t digest[STEPS * 64];
	size_t frames, ops;
	size_t plans; /* so many ranks had one in the end */
};

static struct side sides[SIDES];
static struct sent *all_sent;
static uint64_t random_state;

static inline uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t x = (a ^ 0x9e3779b97f4a7c15ULL) * 0xd6e8feb86659fd93ULL + b;

	return (x ^ x >> 31) * 0x94d049bb133111ebULL;
}

static inline uint64_t any(uint64_t below)
{
	random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (random_state >> 33) % below;
}

static inline struct sent *sent_at(int rank, uint64_t start_ns)
{
	for (size_t i = mix((uint64_t)rank, start_ns) % SENT_MAX;; i = (i + 1) % SENT_MAX) {
		struct sent *sent = &all_sent[i];

		if (!sent->start_ns || (sent->start_ns == start_ns && sent->rank == rank))
			return sent;
	}
}

/* All operations of a group are of one communicator, number and pair; two groups never are. */
static inline void check_groups(const struct frame *frame, const struct sent *const *first)
{
	for (size_t i = 0; i < frame->groups; i++) {
		for (size_t k = 0; k < i && first[i]; k++) {
			if (first[k])
				assert_false(first[i]->communicator == first[k]->communicator &&
					     first[i]->seq == first[k]->seq && first[i]->low == first[k]->low &&
					     first[i]->high == first[k]->high);
		}
	}
}

static inline void check_frame(const struct frame *frame)
{
	const struct sent **first = calloc(frame->groups + 1, sizeof(*first));
	uint64_t *has = calloc(frame->groups + 1, sizeof(*has));

	assert_true(first && has);
	for (size_t i = 0; i < frame->ops; i++) {
		const struct frame_op *op = &frame->op[i];
		const struct frame_rank *rank = &frame->rank[op->rank];
		const struct frame_group *group = &frame->group[op->group];
		uint64_t from = rank->end_ns - rank->step_ns + (uint64_t)op->start_ns;
		const struct sent *sent = sent_at(frame->who[op->rank].rank, from), *other;

		assert_true(rank->here && op->group < frame->groups);
		assert_true(sent->start_ns == from && sent->duration_ns == op->duration_ns);
		assert_int_equal(
			strncmp(frame->comm[group->comm].communicator, communicators[sent->communicator], 19), 0);
		assert_int_equal(group->p2p, sent->low >= 0);
		if (!first[op->group]) {
			first[op->group] = sent;
			assert_true(group->bytes == sent->bytes);
		}
		other = first[op->group];
		assert_true(other->seq == sent->seq && other->communicator == sent->communicator &&
			    other->low == sent->low && other->high == sent->high);
		assert_false(has[op->group] >> op->rank & 1); /* once */
		has[op->group] |= UINT64_C(1) << op->rank;
		if (i && frame->op[i - 1].rank == op->rank)
			assert_true(frame->op[i - 1].start_ns <= op->start_ns);
		else if (i)
			assert_true(frame->op[i - 1].rank < op->rank);
	}
	for (size_t i = 0; i < frame->groups; i++)
		assert_true((int)frame->group[i].members >= __builtin_popcountll(has[i]));
	check_groups(frame, first);
	free(first);
	free(has);
}

/* Names have the numbers of the order in which they came. */
static inline uint64_t digest_of(uint32_t job, const struct frame *frame)
{
	uint64_t ret = mix(mix(job, frame->step), (uint64_t)frame->class << 8 | frame->tier);
	uint16_t number[COMMUNICATORS * NAMES];
	size_t numbers = 0, at;

	ret = mix(mix(mix(ret, frame->ranks), frame->lost), mix(frame->groups, frame->ops));
	for (size_t i = 0; i < frame->ranks; i++) {
		ret = mix(ret, frame->rank[i].here);
		if (frame->rank[i].here)
			ret = mix(mix(ret, frame->rank[i].step_ns), frame->rank[i].end_ns);
	}
	for (size_t i = 0; i < frame->groups; i++) {
		const struct frame_group *group = &frame->group[i];

		for (at = 0; at < numbers && number[at] != group->op;)
			at++;
		if (at == numbers)
			number[numbers++] = group->op;
		assert_true(numbers <= NAMES);
		ret = mix(mix(ret, (uint64_t)group->comm << 32 | group->members), group->bytes);
		ret = mix(ret, at << 1 | group->p2p);
	}
	for (size_t i = 0; i < frame->ops; i++) {
		const struct frame_op *op = &frame->op[i];

		ret = mix(
			mix(ret, (uint64_t)op->group << 32 | op->rank), (uint64_t)op->start_ns ^ op->duration_ns << 20);
	}
	return ret;
}

static inline void on_frame(void *arg, uint32_t job, const struct frame *frame)
{
	struct side *side = arg;

	check_frame(frame);
	assert_true(side->frames < sizeof(side->digest) / sizeof(side->digest[0]));
	side->digest[side->frames++] = digest_of(job, frame);
	side->ops += frame->ops;
}

#endif
