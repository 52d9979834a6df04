/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slow-card report. Plain data: read from the stores of one or many nodes (report_read()), compared across nodes
 * (across.c), judged (report_judge()), and rendered (render.h). Memory does not grow with the period: series have a
 * fixed number of buckets, tables a fixed number of rows; omissions are noted.
 *
 * Texts come from jobs and from foreign stores: made printable UTF-8 and cut when read (text_name()), escaped when
 * shown.
 *
 * Times are UTC ns since the epoch. Card-hours are of the period: a finding's cost times the share of its time in it.
 */
#ifndef RANKTRACE_REPORT_REPORT_H
#define RANKTRACE_REPORT_REPORT_H

#include "analyzers/finding/finding.h"
#include "analyzers/finding/finding_groups.h"
#include "analyzers/fleet/fleet_store.h"
#include "analyzers/store/stores.h"
#include "analyzers/tool/tool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Durations over time in bounded memory: a histogram with bins of 1 % for each bucket of time. A quantile is the mean
 * of all values of its bin.
 */

#define SERIES_BUCKETS 240
#define SERIES_BINS 2500 /* of 1 %, from 1 us: to 17 h */

struct series;

/* NULL: out of memory. */
struct series *plot_series_new(uint64_t since_ns, uint64_t until_ns);
struct series *plot_series_free(struct series *series);
/* Ignores times outside the series. */
void plot_series_add(struct series *series, uint64_t time_ns, uint64_t value_ns);
/* q: 0 to 1; NaN: empty bucket. */
double plot_series_quantile(const struct series *series, size_t bucket, double q);
/* Over all buckets. */
double plot_series_quantile_all(const struct series *series, double q);
uint64_t plot_series_count(const struct series *series, size_t bucket);
/* -1: outside the series. */
int plot_series_bucket(const struct series *series, uint64_t time_ns);

/* q: 0 to 1; sorts the values; NaN if n is 0. */
double values_quantile(double *value, size_t n, double q);

#define REPORT_RANKS_MAX 65536 /* processes; further ones are left out and counted */
#define REPORT_NODES_MAX 4096
#define REPORT_CARDS_MAX 16384
#define REPORT_JOBS_MAX 1024 /* in order of their first process; the last one is all others together */
#define REPORT_DRAWN_MAX 64  /* jobs with step times and maps, which take a megabyte each: the costliest */
#define REPORT_FINDINGS_MAX 4096
#define REPORT_SHOWN_MAX 200 /* episodes in JSON */
#define REPORT_GROUPS_SHOWN_MAX 40
#define REPORT_JOBS_SHOWN_MAX 64   /* in the table of a page; JSON has all */
#define REPORT_BRIEFS_MAX 4096	   /* ranks with short slow-downs */
#define REPORT_YESTERDAY_MAX 4096  /* groups of the day before the period */
#define REPORT_HEAT_RANKS_MAX 4096 /* of a job; of more, every n-th */
#define REPORT_HEAT_SHOWN_MAX 64   /* of more ranks, the worst ones are shown */
#define REPORT_PLOTS_MAX 12
#define REPORT_MEMORY_MAX 65536 /* devices of processes */
#define REPORT_DAYS 14		/* past days, including this period's */
#define REPORT_SLOTS_MAX 1440
#define REPORT_GAPS_MAX 24
#define REPORT_LOST_MAX 24
#define REPORT_NOTES_MAX 16
#define REPORT_NAME_BYTES 80
#define REPORT_NONE UINT32_MAX

struct report_node {
	char name[REPORT_NAME_BYTES];
	uint32_t cards;
	uint32_t data_days;		    /* bit d: data of the day that ended d days before the period's end */
	uint64_t alive_slots, unseen_slots; /* sums over its ranks */
};

struct report_card {
	uint32_t node;
	int32_t local;		      /* index on the node, -1: unknown */
	char name[REPORT_NAME_BYTES]; /* "3", a UUID or another name by the job; "local rank 3", else
				       * "rank 3", where no card is known */
	int32_t rank;		      /* newest one on it, -1: unknown */
	uint32_t job;		      /* of that rank */
	bool here;		      /* had a rank in the period */
	uint32_t findings;	      /* about it, in the period */
	double cost_card_hours;	      /* of them */
	uint32_t worst;		      /* index of the costliest, or REPORT_NONE */
	uint32_t slow_days;	      /* bit d: slow on the day that ended d days before the period's end */
	uint32_t hard_days;	      /* the same, where the card may be faulty */
	uint64_t slow_ns[REPORT_DAYS], hard_ns[REPORT_DAYS]; /* how long, a day each */
	double past_card_hours;				     /* over all REPORT_DAYS */
	enum finding_cause cause;			     /* of the costliest, including past ones */
	enum activity activity;				     /* the same */
	enum finding_side side;
	double cause_card_hours;
	uint64_t alive_slots, unseen_slots;
};

struct report_rank { /* a process */
	uint32_t store, job, card;
	int64_t instance;
	int32_t rank, world, local;
	uint64_t first_ns, last_ns; /* lifetime, as far as known */
	bool ended;
	bool here;   /* in the period */
	bool chosen; /* by --rank */
	uint64_t steps, samples;
	uint8_t *seen;	       /* bit a slot: has data */
	uint32_t memory;       /* its first device in report->memory, counted from 1, while rows are read; 0: none */
	uint64_t calls_failed; /* rows of api_errors */
};

/* Memory of a device in a rank: peaks of the period, what failed. */
struct report_memory {
	uint32_t job, card; /* card: or REPORT_NONE */
	int32_t rank;
	char kind[16];				  /* "cuda", "cpu" */
	int32_t device;				  /* its number, -1: none */
	uint64_t allocated_bytes, reserved_bytes; /* peaks; reserved 0: not reported */
	uint64_t failed;			  /* requests */
	uint64_t calls_failed;			  /* of the rank, on its device with the largest peak */
	uint32_t leak;				  /* index of the finding, or REPORT_NONE */
	uint32_t next;				  /* of the process, while rows are read: as report_rank.memory */
};

struct report_job {
	char name[REPORT_NAME_BYTES];	    /* "": unnamed */
	char title[REPORT_NAME_BYTES + 80]; /* for people: with the user where another one has a job of the name */
	int64_t uid;			    /* user of its ranks; -1: unknown, as in stores before schema version 3 */
	uint32_t world;
	uint32_t ranks, nodes; /* distinct, in the period */
	uint32_t restarts;     /* processes beyond one a rank */
	uint64_t steps;	       /* of all its processes; maximum over its ranks */
	uint64_t first_ns, last_ns;
	uint64_t lived_ns; /* sum over its ranks, in the period */
	double median_ns;  /* step time; 0: no steps */
	double cost_card_hours;
	uint32_t findings;
	struct series *series; /* step times, or NULL; of this time: */
	uint64_t drawn_since_ns, drawn_until_ns;
	uint8_t *rank_seen; /* bit a rank */
	bool cards;	    /* a rank of it has one */
	bool is_drawn;	    /* its step times, and its map, are made */
	struct report_heat *heat;
};

/* Excess of a rank over the others in a bucket, as a share of its step; NaN: no steps or stages. */
struct report_heat_cell {
	float share;
	enum activity activity; /* most of it; ACTIVITY_MAX: none */
	uint32_t group;		/* of a finding, whose share it is where that is more; or REPORT_NONE */
};

struct report_heat_row {
	int32_t rank; /* -1: the job as a whole */
	struct report_heat_cell *cell;
	float worst;
};

/* Rank x time of a job: slow-down against the other ranks. */
struct report_heat {
	uint64_t since_ns, bucket_ns;
	uint32_t buckets;
	size_t ranks, rows; /* rows: shown ones */
	struct report_heat_row *row;
};

/* A rank beside its peers: their median and 10 to 90 % band, a bucket each; NaN: no data. */
#define REPORT_PLOT_BUCKETS 96
struct report_plot {
	uint64_t since_ns, until_ns;
	uint32_t buckets;	/* used ones of the arrays below */
	char what[32];		/* "dataloader", "step_time" */
	enum activity activity; /* it shows, or ACTIVITY_MAX */
	const char *unit;	/* "ns a step", "a second"; "steps": finished in a bucket */
	uint32_t peers;		/* number of ranks */
	double before;		/* reference value without peers, or NaN */
	double own[REPORT_PLOT_BUCKETS], middle[REPORT_PLOT_BUCKETS], low[REPORT_PLOT_BUCKETS],
		high[REPORT_PLOT_BUCKETS];
	double found_own, found_peers; /* means over the finding's time; NaN: unknown */
};

/* An activity of the rank beside the median of its peers, while the finding lasted: ns a step. Waiting is what a stage
 * in which ranks wait takes beyond the rank that has least of it. */
struct report_bar {
	enum activity activity;
	double own_ns, waiting_ns, peers_own_ns, peers_waiting_ns;
};

struct report_bars {
	uint32_t peers;
	size_t bars;
	struct report_bar bar[ACTIVITY_MAX];
};

struct report_finding {
	struct finding is;		 /* texts made printable; until_ns 0: open */
	uint32_t store, job, card, node; /* or REPORT_NONE */
	uint32_t reported_by;		 /* number of stores; 0: only the comparison of nodes */
	bool across;			 /* found by the comparison of nodes */
	double cost_card_hours;
	bool remark; /* imbalance: no machine is at fault */
	uint32_t group;
	struct report_plot *plot;
	struct report_bars *bars;
};

/* Recurrences of one fault: findings [first, first + is.count), costliest first. is.first and is.worst are unused. */
struct report_group {
	struct finding_group is; /* cost within the period */
	size_t first;
	bool remark;
	bool fresh; /* no episode in the 24 h before the period, though the stores have that time */
};

/* Short slow-downs of a rank (severity info). */
struct report_brief {
	uint32_t job;
	int32_t rank; /* -1: of the job as a whole */
	uint64_t count, lasted_ns;
	double cost_card_hours;
};

struct report_gap { /* live ranks without data */
	uint32_t node;
	uint32_t ranks, of; /* ranks, of all on the node */
	int32_t rank;	    /* if it is one, else -1 */
	uint64_t since_ns, until_ns;
};

struct report_lost { /* rows of the view `drops` */
	uint32_t store;
	char source[REPORT_NAME_BYTES], reason[REPORT_NAME_BYTES];
	uint64_t count, first_ns, last_ns;
};

struct report_store {
	char *path;
	bool is_db; /* path is the folder of segments */
	char *name; /* of its node, else of its folder */
	bool here;  /* has data of the period */
	uint32_t nodes;
};

enum report_verdict { REPORT_UNSEEN, REPORT_HEALTHY, REPORT_SLOW, REPORT_HANG, REPORT_VERDICT_MAX };

#define REPORT_LINE_BYTES 1024
struct report_headline {
	enum report_verdict verdict;
	char title[400];	      /* "card 3 of node017 (rank 139 of llama) is slow" */
	char answer[640];	      /* title and cause */
	char line[REPORT_LINE_BYTES]; /* answer and cost; the whole report if healthy */
	char which[REPORT_NAME_BYTES * 4], since[128], why[384], cost[256], todo[384];
	uint32_t finding; /* subject of which..todo, or REPORT_NONE */
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
	struct report_finding *finding; /* of the period, costliest first; the first `shown` are listed */
	struct report_gap gap[REPORT_GAPS_MAX];
	struct report_lost lose[REPORT_LOST_MAX];
	char *note[REPORT_NOTES_MAX]; /* further gaps */
	bool unread;		      /* a store or segment could not be read */

	size_t shown, remarks, suspected, gaps_left_out, ranks_left_out;
	size_t groups, groups_shown, groups_remarks;
	struct report_group *group; /* weightiest first; finding has their episodes in this order */
	size_t brief_ranks, brief_capacity;
	struct report_brief *brief;
	uint64_t briefs; /* short slow-downs in all */
	size_t yesterdays, yesterday_capacity;
	struct finding *yesterday; /* episodes of the 24 h before the period */
	struct ranges chosen;
	size_t explained;	    /* slow jobs reported by nodes, hidden: explained by other findings */
	size_t compared;	    /* stores compared with each other */
	uint64_t compared_until_ns; /* end of the compared time */
	uint64_t rows;
	uint64_t alive_slots, unseen_slots;
	uint32_t cards_here, nodes_here, cards_slow;
	double cost_card_hours, card_hours; /* lost, and all, of whole jobs including nodes without a store */
	/* Parts of what was lost: of short slow-downs, of uneven work, and of findings without a single card. */
	double brief_card_hours, remark_card_hours, cardless_card_hours;
	size_t memories, memories_bad, memory_capacity;
	struct report_memory *memory; /* the first memories_bad with failed requests or a leak */
	uint32_t *worst;	      /* cards, worst first */
	size_t worsts;
	struct report_headline headline;
};

/* The fleet's store of metrics, in the place of nodes' stores. */
struct report_fleet {
	fleet_ask ask;
	void *arg;
	const char *name; /* of the store, for people */
};

struct report_options {
	uint64_t since_ns, until_ns, now_ns;
	const char *job; /* NULL: all */
	struct ranges ranks;
	const struct stores *stores;
	const struct report_fleet *fleet; /* NULL: stores */
	uint64_t compare_ns;		  /* time limit for comparing ranks of multi-node jobs; 0: no comparison */
	bool shows_progress;
};

/* 0, or negative errno with a sentence. -ENOENT: no folder is a store. */
int report_read(const struct report_options *options, struct report **ret, char *error, size_t error_size);
struct report *report_free(struct report *report);
/* User of the finding's ranks, -1: unknown. */
int64_t report_uid(const struct finding *finding);
/* Growth of its leak in an hour, bytes, NAN: unknown; and the line that holds most of it, "": unknown. */
double report_memory_hourly(const struct report *report, const struct report_memory *memory);
const char *report_memory_place(const struct report *report, const struct report_memory *memory);
/* Adds a note, cut to its bound, once. */
void report_note(struct report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
