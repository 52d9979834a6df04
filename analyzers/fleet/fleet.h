/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks of many nodes: what no node sees, because it compares its own ranks only. A table of means a step, of the last
 * minute and of the time before, comes from a Prometheus-compatible store (fleet_read.c); the judgement on it is pure
 * (fleet_judge.c): a slow rank, a node whose ranks are all slow, a pipeline stage, the network between some nodes, or
 * the whole job. Clocks of nodes are not compared: times are durations, and a step takes equally long on all ranks.
 */
#ifndef RANKTRACE_FLEET_FLEET_H
#define RANKTRACE_FLEET_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "analyzers/steps/activity.h"

#define FLEET_VERDICTS_MAX 8 /* of a job: more ranks at once are no single ones */
#define FLEET_NODES_SHOWN 4  /* names of nodes in a sentence */

/* s a step. */
struct fleet_rank {
	uint32_t job, node; /* indices */
	int32_t rank;
	char card[32];		 /* "" if unknown */
	double step, step_usual; /* 0: not known */
	double act[ACTIVITY_MAX], usual[ACTIVITY_MAX];
	double operations, operations_usual; /* in operations of communicators; NAN: not known */
};

/* Time of a kind of operations, mean of a node's ranks; s a step. */
struct fleet_operation {
	uint32_t job, node;
	char word[64]; /* "all_reduce of data" */
	double now, usual;
};

struct fleet_job {
	char name[64];
	uint32_t number;	/* in which order the store had them */
	double lost_card_hours; /* that the nodes' findings have cost */
};

struct fleet_node {
	char instance[128], name[64];
	uint32_t number; /* as above */
};

/* An open finding of a node's daemon. */
struct fleet_finding {
	uint32_t node;
	char number[24], job[64], rank[16], kind[24], severity[16], cause[32], sentence[512];
	double lost_card_seconds, age_seconds; /* NAN: not known */
};

/* Arrays of the owner; jobs and nodes by name, ranks by job, node and rank, operations by job and word. */
struct fleet {
	struct fleet_rank *rank;
	struct fleet_operation *operation;
	struct fleet_job *job;
	struct fleet_node *node;
	struct fleet_finding *finding;
	size_t ranks, operations, jobs, nodes, findings;
	size_t ranks_size, operations_size, jobs_size, nodes_size, findings_size; /* capacities */
	bool recorded; /* the store has means of the last minute */
};

enum fleet_kind {
	FLEET_RANK,  /* one rank */
	FLEET_NODE,  /* all ranks of a node alike */
	FLEET_STAGE, /* consecutive ranks of several nodes */
	FLEET_LINK,  /* operations between some nodes, and nobody's work */
	FLEET_JOB,   /* all ranks */
	FLEET_KIND_MAX
};

struct fleet_verdict {
	enum fleet_kind kind;
	uint32_t job;
	int32_t first, last; /* ranks */
	uint32_t node[FLEET_NODES_SHOWN];
	size_t nodes;		/* may be more than are listed */
	enum activity activity; /* ACTIVITY_MAX: not known */
	char operation[64];	/* of a link */
	bool peers;		/* slower than its peers; else than before */
	double growth;		/* of the step that it takes longer by, 0.08: 8 % */
	double value, usual;	/* of the activity, or of the step; s */
	double cards;		/* that are lost, all the time that it lasts */
};

const char *fleet_kind_word(enum fleet_kind kind); /* "slow_node" */
void fleet_free(struct fleet *fleet);

/* The ranks of a job, fleet->rank[first] and so many; the same of its operations. */
struct fleet_part {
	size_t first, count;
};
struct fleet_part fleet_ranks_of(const struct fleet *fleet, uint32_t job);
size_t fleet_nodes_of(const struct fleet *fleet, uint32_t job);
/* Medians over the job's ranks; 0: not known. */
double fleet_step_of(const struct fleet *fleet, uint32_t job, bool usual);

/* What slows the job. ret: FLEET_VERDICTS_MAX. 0, -ENOMEM, -EINVAL: too many ranks. */
int fleet_judge(const struct fleet *fleet, uint32_t job, struct fleet_verdict *ret, size_t *ret_count);
/* A sentence for people. */
void fleet_sentence(const struct fleet *fleet, const struct fleet_verdict *verdict, char *ret, size_t size);

#endif
