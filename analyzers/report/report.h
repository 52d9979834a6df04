/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slow-card report: what an operator reads in the morning. Plain data, read from the stores of one or many nodes
 * (report_read()), compared across nodes (across.c), judged (report_judge()), and shown by one of the render_*.h.
 * Nothing here grows with the length of the period: series have a fixed number of buckets, tables a fixed number of
 * rows, and what is left out is said.
 *
 * Texts come from jobs and from stores of others: they are made printable UTF-8 and cut when they are read
 * (text_name()), and escaped when they are shown.
 *
 * Times are UTC ns since the epoch. Card-hours are of the period: the part of a finding's cost that its time in the
 * period is of its whole time.
 */
#ifndef RANKTRACE_REPORT_REPORT_H
#define RANKTRACE_REPORT_REPORT_H

#include "analyzers/finding/finding.h"
#include "analyzers/store/stores.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Lengths over time in bounded room: a histogram with bins of 1 % for each of a fixed number of buckets of time. Takes
 * any number of values; a quantile is the mean of all values of its bin.
 */

#define SERIES_BUCKETS 240
#define SERIES_BINS 2500 /* of 1 %, from 1 us: to 17 h */

struct series;

/* NULL: out of memory. */
struct series *plot_series_new(uint64_t since_ns, uint64_t until_ns);
struct series *plot_series_free(struct series *series);
/* Values out of the time are left out. */
void plot_series_add(struct series *series, uint64_t time_ns, uint64_t value_ns);
/* q of 0 to 1 of a bucket, NaN where it is empty. */
double plot_series_quantile(const struct series *series, size_t bucket, double q);
/* Of all buckets together. */
double plot_series_quantile_all(const struct series *series, double q);
uint64_t plot_series_count(const struct series *series, size_t bucket);
/* -1: before or after. */
int plot_series_bucket(const struct series *series, uint64_t time_ns);

/* q of 0 to 1 of n values, sorted in place; NaN of none. */
double values_quantile(double *value, size_t n, double q);

#define REPORT_RANKS_MAX 65536 /* processes; of more, the newest are left out and counted */
#define REPORT_NODES_MAX 4096
#define REPORT_CARDS_MAX 16384
#define REPORT_JOBS_MAX 16 /* by their first process; ranks of others count for the last one */
#define REPORT_FINDINGS_MAX 4096
#define REPORT_SHOWN_MAX 40 /* findings, told one by one */
#define REPORT_PLOTS_MAX 12
#define REPORT_DAYS 14 /* past days that are looked at, this period's included */
#define REPORT_SLOTS_MAX 1440
#define REPORT_GAPS_MAX 24
#define REPORT_LOST_MAX 24
#define REPORT_NOTES_MAX 16
#define REPORT_NAME_BYTES 80
#define REPORT_NONE UINT32_MAX

struct report_node {
	char name[REPORT_NAME_BYTES];
	uint32_t cards;
	uint32_t data_days; /* bit d: it has data of the day that ended d days before the period's end */
	uint64_t alive_slots, unseen_slots; /* of its ranks together */
};

struct report_card {
	uint32_t node;
	int32_t local;		      /* index on the node, -1 not known */
	char name[REPORT_NAME_BYTES]; /* "3", a UUID, or what else the job calls it */
	int32_t rank;		      /* the newest one on it, -1 not known */
	uint32_t job;		      /* of it */
	bool here;		      /* a rank was on it in the period */
	uint32_t findings;	      /* that accuse it, in the period */
	double cost_card_hours;	      /* of them */
	uint32_t worst;		      /* index of the costliest of them, REPORT_NONE */
	uint32_t slow_days;	      /* bit d: slow on the day that ended d days before the period's end */
	uint32_t hard_days;	      /* the same, where the cause may be the card itself */
	double past_card_hours;	      /* over all REPORT_DAYS */
	enum finding_cause cause;     /* of the costliest, past ones included */
	double cause_card_hours;
	uint64_t alive_slots, unseen_slots;
};

struct report_rank { /* a process */
	uint32_t store, job, card;
	int64_t instance;
	int32_t rank, world, local;
	uint64_t first_ns, last_ns; /* it lived, as far as is known */
	bool ended;
	bool here; /* in the period */
	uint64_t steps, samples;
	uint8_t *seen; /* bit a slot: something was recorded of it */
};

struct report_job {
	char name[REPORT_NAME_BYTES]; /* "" where none is given */
	uint32_t world;
	uint32_t ranks, nodes; /* distinct, in the period */
	uint32_t restarts;     /* processes beyond one a rank */
	uint64_t steps;	       /* of its rank that has most */
	uint64_t first_ns, last_ns;
	uint64_t lived_ns; /* of its ranks together, in the period */
	double median_ns;  /* of a step; 0: none seen */
	double cost_card_hours;
	uint32_t findings;
	struct series *series; /* length of steps, NULL where there are none; of this time: */
	uint64_t drawn_since_ns, drawn_until_ns;
	uint8_t *rank_seen; /* bit a rank, of the first world */
};

/* A rank beside its peers: medians and the band of 10 to 90 % of them, a bucket each; NaN where there is nothing. */
#define REPORT_PLOT_BUCKETS 96
struct report_plot {
	uint64_t since_ns, until_ns;
	uint32_t buckets; /* of the arrays below: fewer where rows are far apart */
	char what[32];	  /* "dataloader", "step_time" */
	const char *unit; /* "ns a step", "a second"; "steps": finished in a bucket */
	uint32_t peers;	  /* ranks compared with */
	double before;	  /* NaN, or a value to compare with where there are no peers */
	double own[REPORT_PLOT_BUCKETS], middle[REPORT_PLOT_BUCKETS], low[REPORT_PLOT_BUCKETS],
		high[REPORT_PLOT_BUCKETS];
};

struct report_finding {
	struct finding is;		 /* texts made printable; until_ns 0: still so */
	uint32_t store, job, card, node; /* REPORT_NONE: of no single one */
	uint32_t told_by;		 /* stores that tell of it; 0: only the comparison across nodes does */
	bool across;			 /* the comparison across nodes finds it */
	double cost_card_hours;
	bool brief;  /* over soon: a remark, too */
	bool remark; /* how work is divided, or of no weight: nothing is wrong with a machine */
	struct report_plot *plot;
};

struct report_gap { /* ranks that lived, and of which nothing was recorded */
	uint32_t node;
	uint32_t ranks, of; /* of so many ranks of the node */
	int32_t rank;	    /* where it is one, its number */
	uint64_t since_ns, until_ns;
};

struct report_lost { /* rows of the view `drops` */
	uint32_t store;
	char source[REPORT_NAME_BYTES], reason[REPORT_NAME_BYTES];
	uint64_t count, first_ns, last_ns;
};

struct report_store {
	char *path;
	bool is_db; /* the folder is the one of the segments */
	char *name; /* for people: of its node, else of its folder */
	bool here;  /* it has data of the period */
	uint32_t nodes;
};

enum report_verdict { REPORT_UNSEEN, REPORT_HEALTHY, REPORT_SLOW, REPORT_HANG, REPORT_VERDICT_MAX };

#define REPORT_LINE_BYTES 1024
struct report_headline {
	enum report_verdict verdict;
	char title[400];	      /* "card 3 of node017 (rank 139 of llama) is slow" */
	char answer[640];	      /* the same, and because of what */
	char line[REPORT_LINE_BYTES]; /* the same with what was lost; all there is of a healthy fleet */
	char which[REPORT_NAME_BYTES * 4], since[128], why[384], cost[256], todo[384];
	uint32_t finding; /* the one that which..todo tell of, REPORT_NONE */
};

struct report {
	uint64_t since_ns, until_ns, now_ns;
	const char *only_job; /* NULL: all */
	uint64_t slot_ns;
	uint32_t slots;

	size_t stores, nodes, cards, jobs, ranks, findings, gaps, lost, notes, plots;
	size_t ranks_capacity, findings_capacity;
	struct report_store *store;
	struct report_node *node;
	struct report_card *card;
	struct report_job *job;
	struct report_rank *rank;
	struct report_finding *finding; /* of the period, costliest first; the first `shown` are told */
	struct report_gap gap[REPORT_GAPS_MAX];
	struct report_lost lose[REPORT_LOST_MAX];
	char *note[REPORT_NOTES_MAX]; /* what else was not seen */
	bool unread;		      /* a store or a segment could not be read: no report is silent about that */

	size_t shown, remarks, briefs, suspected, gaps_left_out, ranks_left_out;
	size_t explained;	    /* slow jobs that a node told of, not shown: others' slowness explains them */
	size_t compared;	    /* stores whose ranks were compared with each other; 0: none were */
	uint64_t compared_until_ns; /* up to here */
	uint64_t rows;
	uint64_t alive_slots, unseen_slots;
	uint32_t cards_here, nodes_here, cards_slow;
	double cost_card_hours, card_hours; /* lost, of so many of whole jobs: their other nodes' cards lose as much */
	uint32_t *worst;		    /* cards, worst first */
	size_t worsts;
	struct report_headline headline;
};

struct report_options {
	uint64_t since_ns, until_ns, now_ns;
	const char *job; /* NULL: all */
	const struct stores *stores;
	uint64_t compare_ns; /* ranks of jobs on several nodes are compared with each other, which may take so long; 0:
			      * only what the nodes' daemons told is reported */
	bool shows_progress;
};

/* 0, or negative errno with a sentence. -ENOENT: none of the folders is a store. */
int report_read(const struct report_options *options, struct report **ret, char *error, size_t error_size);
struct report *report_free(struct report *report);
/* Sentence cut to its bound; kept once. */
void report_note(struct report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
