/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a communicator is for: data, tensor, pipeline, expert or context parallelism. Pure. Never guessed: where the
 * evidence fits two, it is unclear.
 *
 * The framework's own name decides, where it says so: "DATA_PARALLEL_GROUP", "tp", "mesh_dp", "EXPERT_DATA_PARALLEL_GROUP"
 * (data: the replicas of experts), "dp_cp" (data). A name for two kinds ("MODEL_PARALLEL_GROUP", "tp_cp") or for none
 * ("default_pg", "undefined", "0") does not. Else the operations, broadcasts and barriers left out:
 *   only sends and receives, to a few members           pipeline
 *   all-to-all, or sends and receives to all members    expert
 *   all-reduce of three sizes or more, and no others     data (buckets of gradients)
 * and, with the members' global ranks known (all of them):
 *   reduce-scatter and all-gather, over all ranks of a job of more than a node       data (sharded)
 *   the same, or all-reduce of two sizes, of ranks that do not follow each other     data
 *   reduce-scatter, all-gather and all-reduce, of ranks that follow each other, fewer than the job's     tensor
 * All-reduces of no more than COMM_KIND_FLAGS are norms, losses and flags, which every kind of group sums up: they have no
 * size here. A communicator that has done less than COMM_KIND_CALLS_MIN calls is unclear.
 */
#ifndef RANKTRACE_COLL_COMM_KIND_H
#define RANKTRACE_COLL_COMM_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COMM_KIND_CALLS_MIN 8
#define COMM_KIND_SIZES 4   /* that many different counts of all-reduce are told apart */
#define COMM_KIND_PEERS 4
#define COMM_KIND_FLAGS 8   /* elements */

enum comm_kind {
	COMM_KIND_UNCLEAR,
	COMM_KIND_DATA,
	COMM_KIND_TENSOR,
	COMM_KIND_PIPELINE,
	COMM_KIND_EXPERT,
	COMM_KIND_CONTEXT,
	COMM_KIND_MAX
};

/* What was called on it. */
struct comm_mix {
	uint64_t all_reduce, all_gather, reduce_scatter, all_to_all, p2p, other;
	uint64_t size[COMM_KIND_SIZES];  /* different counts of all-reduces */
	int32_t peer[COMM_KIND_PEERS];   /* different peers of sends and receives */
	uint8_t sizes, peers;
};

/* Where the members are in the job. */
struct comm_place {
	uint32_t members;       /* 0: not known. The global ranks of that many, all of them, are known */
	uint32_t world;         /* ranks of the job */
	uint32_t node;          /* ranks of the job on a node, 0: not known */
	bool follow;            /* the members' ranks follow each other */
};

struct comm_evidence {
	const char *name;       /* "" if none */
	struct comm_mix mix;
	uint32_t members;       /* 0: not known */
	struct comm_place place; /* counts where it is of as many members */
};

/* Adds a call to the mix; op in NCCL's words; peer -1: none. */
void comm_mix_add(struct comm_mix *mix, const char *op, uint64_t count, int32_t peer);
/* Of the global ranks of all members, rising. members is 0 in what it returns if they make no sense: fewer than two, one
 * twice, one that the job has not. */
struct comm_place comm_place_of(const int32_t *rank, uint32_t members, uint32_t world, uint32_t node);
/* Of a communicator of all ranks of the job. */
struct comm_place comm_place_world(uint32_t world, uint32_t node);
enum comm_kind comm_kind_of_name(const char *name);
enum comm_kind comm_kind_of(const struct comm_evidence *evidence);
/* "data", "tensor", "pipeline", "expert", "context"; "" if unclear. */
const char *comm_kind_name(enum comm_kind kind);

#endif
