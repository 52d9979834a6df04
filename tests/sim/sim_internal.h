/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the simulator's files. */
#ifndef RANKTRACE_SIM_INTERNAL_H
#define RANKTRACE_SIM_INTERNAL_H

#include "tests/sim/sim.h"

#define SIM_NO_SLOT UINT16_MAX
#define SIM_BUCKETS_MAX 64
#define SIM_NO_STAGE UINT8_MAX /* step time outside of stages */

enum sim_do {
	SIM_DO_LOAD,
	SIM_DO_COMPUTE,
	SIM_DO_COLLECTIVE, /* the computing waits for it */
	SIM_DO_BUCKET,	   /* gradients, on a separate queue */
	SIM_DO_BUCKETS,	   /* wait for these */
	SIM_DO_SEND,
	SIM_DO_SENDS, /* wait for these */
	SIM_DO_RECEIVE,
	SIM_DO_OPTIMIZER,
	SIM_DO_CHECKPOINT,
	SIM_DO_BARRIER, /* a collective in steps with a checkpoint only */
	SIM_DO_EVALUATE,
	SIM_DO_END
};

/* Scope of a collective. */
enum sim_over { SIM_OVER_TENSOR, SIM_OVER_DATA, SIM_OVER_EXPERT, SIM_OVER_LANE, SIM_OVER_WORLD, SIM_OVER_MAX };

enum sim_op {
	SIM_OP_ALL_REDUCE = 1,
	SIM_OP_REDUCE_SCATTER,
	SIM_OP_ALL_GATHER,
	SIM_OP_ALL_TO_ALL,
	SIM_OP_SEND,
	SIM_OP_BARRIER
};

struct sim_instr {
	uint8_t what;	  /* enum sim_do */
	uint8_t over;	  /* enum sim_over */
	uint8_t stage;	  /* enum stage_kind of its time */
	uint8_t backward; /* direction of point to point */
	uint16_t slot;	  /* of its record within the rank, or SIM_NO_SLOT */
	uint16_t micro_batch;
	uint32_t group; /* the first of its groups */
	double work_ns;
};

struct sim_program {
	struct sim_instr *instr;
	size_t instrs, max;
	uint32_t slots, buckets;
	uint32_t bucket[SIM_BUCKETS_MAX]; /* their instructions */
};

struct sim_group {
	uint32_t first; /* rank */
	int32_t stride; /* to the next member */
	uint32_t members;
	uint16_t slot[2]; /* of the first member's (sender's) record, of the others' */
	bool bucket, backward;
	double transfer_ns; /* includes the links' state */
	/* of the step */
	uint32_t arrived;
	int64_t ready_ns;
};

struct sim_rank {
	int64_t device_ns, host_ns, stage_end_ns; /* computing queue; host; end of the accounted stages */
	int64_t start_ns;
	uint32_t pc;
	bool blocked;
	uint32_t buckets_posted, buckets_begun, buckets_done;
	int64_t bucket_free_ns;
	uint32_t sends_posted, sends_done;
	int64_t sent_ns[2];
	uint32_t stage, d, t; /* position in the job */
	double speed;	      /* constant */
	double drift;	      /* now */
	/* the injection, of this step */
	double compute;				  /* factor */
	double late;				  /* additional host time as a part of a piece's work; 0: healthy */
	int64_t pause_ns, load_ns, checkpoint_ns; /* added */
	uint32_t pause_at;			  /* pauses before this piece of computing */
	int64_t gap_ns;				  /* longest launch */
	int64_t late_ns;			  /* total added to its host */
	int64_t busy_ns;			  /* CPU time, if it computes on the CPU */
};

struct sim {
	struct sim_options options;
	uint32_t ranks, nodes;
	uint64_t step;
	uint64_t key;		     /* of the step's random numbers */
	double piece_ns;	     /* forward computing of a group of layers */
	double nominal_ns;	     /* of a step */
	struct sim_program *program; /* one per stage */
	uint32_t slots_max;
	struct sim_group *group;
	struct frame_group *frame_group;
	size_t groups, groups_max;
	struct frame_comm *comm;
	size_t comms;
	uint32_t comm_base[SIM_OVER_MAX];
	uint32_t *p2p; /* first group of (direction, virtual boundary, micro-batch) */
	struct sim_rank *rank;
	struct frame_op *op;  /* slots_max per rank; duration 0: not done */
	int64_t *bucket_post; /* SIM_BUCKETS_MAX per rank */
	struct frame_op *out;
	struct frame_rank *frame_rank;
	struct frame_who *who;
	uint32_t *work; /* runnable ranks */
	size_t works;
	struct frame frame;
};

/* sim_layout.c: ranks, communicators, groups. */
int sim_layout(struct sim *sim);
int64_t sim_groups_new(
	struct sim *sim, enum sim_over over, uint32_t stage, enum sim_op op, uint64_t bytes, double transfer_ns);
uint32_t sim_group_of(const struct sim *sim, const struct sim_instr *instr, const struct sim_rank *rank);
/* sim_program.c */
int sim_programs(struct sim *sim);
/* sim_inject.c: effects of the injection in this step. */
void sim_links(struct sim *sim);
void sim_inject_step(struct sim *sim);
double sim_work(const struct sim *sim, const struct sim_rank *rank, const struct sim_instr *instr);
bool sim_checkpoint_step(const struct sim_options *options, uint64_t step);
bool sim_evaluation_step(const struct sim_options *options, uint64_t step);
/* sim_run.c: runs all ranks' programs. */
void sim_run(struct sim *sim);
/* sim_frame.c */
void sim_frame(struct sim *sim);

static inline bool sim_device(const struct sim *sim)
{
	return sim->options.tier == FRAME_TIER_DEVICE ||
	       (sim->options.tier == FRAME_TIER_STAGES && sim->options.device_host);
}

#endif
