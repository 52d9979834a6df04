/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulator of distributed training that generates step frames (analyzers/align/frame.h) with known faults. Each
 * pipeline stage has a program of instructions, run by all its ranks; times follow from dependencies: an operation
 * transfers once its last member has entered. Deterministic by seed: every random number is a hash of (seed, step,
 * rank, instruction), so the same run without its injection has the same noise, and the difference is the injection's
 * cost.
 *
 * Ranks are numbered tensor first, then data, then pipeline: rank = (stage * dp + d) * tp + t; SIM_NODE_RANKS per node.
 *
 * Step: load; forwards and backwards of 1F1B (interleaved if chunks > 1); gradients in buckets overlapped with the last
 * backward; loss over all ranks; optimizer; [parameters gathered]; [checkpoint, barrier]; [evaluation].
 *
 * Tier DEVICE: the host launches ahead of the device; operations are timed on the device, from the head of their queue.
 * Tier HOST: computing and calls are on the host; operations are timed from call to completion.
 * Tier STAGES: as HOST, without operations.
 */
#ifndef RANKTRACE_SIM_H
#define RANKTRACE_SIM_H

#include "analyzers/align/frame.h"

#define SIM_NODE_RANKS 8
#define SIM_CULPRITS_MAX 3
#define SIM_FIRST_STEPS 3 /* of class FRAME_FIRST, slower by compiling */

enum sim_inject {
	SIM_CLEAN,
	SIM_COMPUTE,	/* a rank's computing takes 1 + x */
	SIM_LAUNCH,	/* a rank's host launches slower than the device computes, by x; DEVICE only */
	SIM_CONTENTION, /* CPU contention: the same, and run delay */
	SIM_THROTTLE,	/* the same, and the control group's limit */
	SIM_FAULTS,	/* the same, and major faults */
	SIM_GC,		/* pauses of x of a step in each step */
	SIM_LOADER,	/* its data are late by x of a step */
	SIM_CHECKPOINT, /* its checkpoints take longer by x of a step */
	SIM_LINK_NODE,	/* transfers between a node and others take 1 + x */
	SIM_LINK_PAIR,	/* transfers of groups of two nodes take 1 + x */
	SIM_STAGE,	/* a pipeline stage has 1 + x of the work */
	SIM_SEQUENCE,	/* varying sequence lengths: coefficient of variation x of a replica's micro-batches */
	SIM_INJECT_MAX
};

struct sim_options {
	uint64_t seed;
	uint32_t tp, pp, dp, ep; /* ep divides dp */
	uint32_t chunks;	 /* virtual stages per rank; 1: 1F1B */
	uint32_t micro_batches;	 /* a multiple of pp where chunks > 1 */
	uint32_t layers;	 /* groups of layers in a chunk, each a piece of computing with its operations */
	double step_s;		 /* approximate clean step time */
	enum frame_tier tier;
	bool sharded;		 /* reduce-scatter, and all-gather of parameters after the optimizer; else all-reduce */
	bool world_op;		 /* a small all-reduce of all ranks before the optimizer */
	bool blocking_sends;	 /* the next computing waits for sends; chunks == 1 only */
	bool stage_known;	 /* frame_who.stage is set */
	bool host_known;	 /* frame_host is */
	bool device_host;	 /* STAGES: of a job on devices, whose hosts run ahead */
	double jitter;		 /* coefficient of variation of each piece of computing and transfer */
	double drift, drift_phi; /* of a rank's speed from step to step, AR(1) */
	double spread;		 /* of ranks' speeds, constant over time */
	double spike;	  /* probability per step that a rank pauses for a tenth of a step (garbage collection) */
	double loss;	  /* part of records lost; an eighth of it for a rank's steps */
	uint64_t skew_ns; /* of nodes' clocks */
	uint32_t checkpoint_every, evaluation_every; /* 0: never */

	enum sim_inject inject;
	double severity;		    /* x */
	uint32_t culprits;		    /* ranks; of links: 1 node or 1 pair; of STAGE, SEQUENCE: not used */
	uint32_t culprit[SIM_CULPRITS_MAX]; /* ranks; nodes of LINK_*; [0] the stage of STAGE */
	uint64_t onset;			    /* first step with it */
};

struct sim;

/* 8 ranks of plain data parallelism, no noise. */
void sim_options_default(struct sim_options *ret);
/* NULL: out of memory, or invalid options. */
struct sim *sim_new(const struct sim_options *options);
struct sim *sim_free(struct sim *sim);
/* The next step of all ranks, valid until the next call; who, comm and group are valid as long as sim. */
const struct frame *sim_step(struct sim *sim);
const char *sim_inject_word(enum sim_inject inject);
/* Node of a rank; whether the rank is a member of the frame's group. */
uint32_t sim_node(uint32_t rank);
bool sim_group_has_node(const struct sim *sim, uint32_t group, uint32_t node);
bool sim_comm_has_node(const struct sim *sim, const char *communicator, uint32_t node);
/* Mean time of the class's steps in [from, to), of a run with these options; 0: none. */
double sim_mean_step_ns(const struct sim_options *options, enum frame_class class, uint64_t from, uint64_t to);

#endif
