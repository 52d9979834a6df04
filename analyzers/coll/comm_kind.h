/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kind of a communicator: data, tensor, pipeline, expert or context parallelism. Pure. Never guessed: unclear where the
 * evidence fits two.
 *
 * The framework's name decides where it names one kind: "DATA_PARALLEL_GROUP", "tp", "mesh_dp",
 * "EXPERT_DATA_PARALLEL_GROUP" (data: the replicas of experts), "dp_cp" (data). A name of two kinds
 * ("MODEL_PARALLEL_GROUP", "tp_cp") or of none ("default_pg", "undefined", "0") does not. Else the operations, without
 * broadcasts and barriers:
 *   only sends and receives, to few members             pipeline
 *   all-to-all, or sends and receives to all members    expert
 *   only all-reduce, of three sizes or more             data (buckets of gradients)
 * and, where the global ranks of all members are known:
 *   reduce-scatter and all-gather, over all ranks of a job of several nodes                          data (sharded)
 *   the same, or all-reduce of two sizes, of ranks that are not consecutive                          data
 *   reduce-scatter, all-gather and all-reduce, of consecutive ranks, fewer than the job's            tensor
 * All-reduces of up to COMM_KIND_FLAGS elements are norms, losses and flags of any kind of group: their sizes do not
 * count. A communicator with fewer than COMM_KIND_CALLS_MIN calls is unclear.
 */
#ifndef RANKTRACE_COLL_COMM_KIND_H
#define RANKTRACE_COLL_COMM_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COMM_KIND_CALLS_MIN 8
#define COMM_KIND_SIZES 4 /* distinct counts of all-reduce */
#define COMM_KIND_PEERS 4
#define COMM_KIND_FLAGS 8 /* elements */

enum comm_kind {
	COMM_KIND_UNCLEAR,
	COMM_KIND_DATA,
	COMM_KIND_TENSOR,
	COMM_KIND_PIPELINE,
	COMM_KIND_EXPERT,
	COMM_KIND_CONTEXT,
	COMM_KIND_MAX
};

/* Calls on a communicator. */
struct comm_mix {
	uint64_t all_reduce, all_gather, reduce_scatter, all_to_all, p2p, other;
	uint64_t size[COMM_KIND_SIZES]; /* distinct counts of all-reduces */
	int32_t peer[COMM_KIND_PEERS];	/* distinct peers of sends and receives */
	uint8_t sizes, peers;
};

/* Placement of the members in the job. */
struct comm_place {
	uint32_t members; /* all of them, with known global ranks; 0: not known */
	uint32_t world;	  /* ranks of the job */
	uint32_t node;	  /* ranks of the job on a node, 0: unknown */
	bool follow;	  /* consecutive ranks */
};

struct comm_evidence {
	const char *name; /* "": none */
	struct comm_mix mix;
	uint32_t members;	 /* 0: unknown */
	struct comm_place place; /* ignored unless it has as many members */
};

/* op: NCCL's name; peer -1: none. */
void comm_mix_add(struct comm_mix *mix, const char *op, uint64_t count, int32_t peer);
/* Of the rising global ranks of all members. members is 0 in the result if they are invalid: fewer than two, one twice,
 * one outside the job. */
struct comm_place comm_place_of(const int32_t *rank, uint32_t members, uint32_t world, uint32_t node);
/* Of a communicator of all ranks of the job. */
struct comm_place comm_place_world(uint32_t world, uint32_t node);
enum comm_kind comm_kind_of_name(const char *name);
enum comm_kind comm_kind_of(const struct comm_evidence *evidence);
/* "data", "tensor", "pipeline", "expert", "context"; "" if unclear. */
const char *comm_kind_name(enum comm_kind kind);

#endif
