/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the parts of metrics: metrics_page.c (the formats), metrics.c (the page of all families), metrics_self.c,
 * metrics_ranks.c, metrics_ops.c, metrics_minute.c, metrics_gauges.c and metrics_findings.c (families), metrics_http.c
 * and metrics_textfile.c (ways out).
 */
#ifndef RANKTRACE_DAEMON_METRICS_METRICS_INTERNAL_H
#define RANKTRACE_DAEMON_METRICS_METRICS_INTERNAL_H

#include <math.h>

#include "analyzers/steps/activity.h"
#include "daemon/collect/collector.h"
#include "daemon/core/context.h"
#include "daemon/core/limits.h"
#include "daemon/findings/online_observe.h"
#include "daemon/metrics/metrics.h"
#include "daemon/ranks/ranks.h"
#include "daemon/steps/rank_steps.h"
#include "daemon/store/store.h"

/* The page: text of one format, family by family. */

enum metrics_format { METRICS_TEXT, METRICS_OPENMETRICS, METRICS_FORMAT_MAX };

enum metrics_type {
	METRICS_COUNTER,
	METRICS_GAUGE,
	METRICS_HISTOGRAM,
	METRICS_INFO,
	METRICS_SUMMARY,
	METRICS_TYPE_MAX
};

struct metrics_family {
	const char *word;
	enum metrics_type type;
	const char *unit, *labels, *help;
};

enum metrics_id {
#define METRIC(word, type, unit, labels, help) METRICS_ID_##word,
#include "daemon/metrics/metrics.def"
#undef METRIC
	METRICS_ID_MAX
};

extern const struct metrics_family metrics_families[METRICS_ID_MAX];

struct metrics_page {
	enum metrics_format format;
	const struct metrics_family *family; /* the one that is written */
	bool begun;			     /* its head is written: a family without samples has none */
	bool failed;			     /* out of memory */
	char *text;
	size_t used, size;
	size_t series;
};

/* Labels as they stand in a sample, without braces: job="a",rank="3". Values are made printable UTF-8 and escaped. */
#define METRICS_LABELS_BYTES 2560 /* the longest: of a finding, with a sentence of 512 bytes that are all escaped */
struct metrics_labels {
	char text[METRICS_LABELS_BYTES];
	size_t used;
};

void metrics_labels_add(struct metrics_labels *labels, const char *name, const char *value);
void metrics_labels_add_number(struct metrics_labels *labels, const char *name, int64_t value);

void metrics_page_begin(struct metrics_page *page, enum metrics_format format);
void metrics_page_family(struct metrics_page *page, enum metrics_id id);
/* A sample of the family; labels NULL: none. Counters and INFO get their suffix. */
void metrics_page_count(struct metrics_page *page, const struct metrics_labels *labels, uint64_t value);
void metrics_page_seconds(struct metrics_page *page, const struct metrics_labels *labels, uint64_t value_ns);
void metrics_page_real(struct metrics_page *page, const struct metrics_labels *labels, double value);
void metrics_page_end(struct metrics_page *page);
void metrics_page_free(struct metrics_page *page);

/* Buckets of a duration. */
#define METRICS_BUCKETS 10

struct metrics_histogram {
	uint64_t bucket[METRICS_BUCKETS + 1]; /* not cumulative; the last: longer than all bounds */
	uint64_t count, sum_ns;
	struct { /* the newest one */
		int64_t step;
		uint64_t duration_ns, utc_ns;
		unsigned bucket;
	} newest;
};

void metrics_histogram_add(struct metrics_histogram *histogram, int64_t step, uint64_t duration_ns, uint64_t utc_ns);
void metrics_page_histogram(
	struct metrics_page *page, const struct metrics_labels *labels, const struct metrics_histogram *histogram);

/* Durations of the last one to two minutes, in two parts; a bin is a quarter of an octave, from 1 us to 4 min. */
#define METRICS_WINDOW_BINS 112
struct metrics_window {
	unsigned part; /* that is filled */
	uint64_t begin_ns[2];
	uint16_t bin[2][METRICS_WINDOW_BINS];
};

void metrics_window_add(struct metrics_window *window, uint64_t now_ns, uint64_t duration_ns);
/* To 10 %; NAN: none. */
double metrics_window_quantile_s(const struct metrics_window *window, uint64_t now_ns, double q);

/* Those of a rank of one group, operation, class of size and tier. */
enum metrics_size { METRICS_SIZE_UNKNOWN = 6, METRICS_SIZES };
struct metrics_op {
	char group[12], operation[24];
	enum metrics_size size;
	bool device;
	uint64_t count, bytes, duration_ns;
	struct metrics_window window;
};

/* A mean of the last minute, s a step; NAN: unknown. usual: the lower quartile of those of an hour, a minute each. */
#define METRICS_MINUTE_PAST 60
struct metrics_minute_value {
	double now, usual;
	size_t next; /* in past, counted on */
	float past[METRICS_MINUTE_PAST];
};
#define METRICS_MINUTE_UNKNOWN ((struct metrics_minute_value){.now = NAN, .usual = NAN})

/* Sums at the ticks of a minute, 5 s apart. */
#define METRICS_MINUTE_TICKS 12
struct metrics_minute_sums {
	bool l1; /* is on */
	uint64_t steps, step_ns, operations_ns, activity_ns[ACTIVITY_COMPUTE];
};
struct metrics_minute {
	size_t ticks; /* so far */
	struct metrics_minute_sums tick[METRICS_MINUTE_TICKS];
	struct metrics_minute_value step, operations, activity[ACTIVITY_COMPUTE];
};

/* Operations of a kind of a job's ranks on this node. */
struct metrics_node_tick {
	uint64_t duration_ns, steps;
};
struct metrics_node_op {
	char job[64], group[12], operation[24];
	struct metrics_node_tick sum; /* of this tick */
	size_t ticks;
	struct metrics_node_tick tick[METRICS_MINUTE_TICKS];
	struct metrics_minute_value value;
};

/* keep: `now` is one of the minutes of the hour. */
void metrics_minute_init(struct metrics_minute *minute);
void metrics_minute_tick(struct metrics_minute *minute, const struct metrics_minute_sums *now);
struct metrics;
/* Every second; does something every 5 s. */
void metrics_minutes_tick(struct metrics *metrics, uint64_t now_ns);

/* What was observed of a rank since it was seen. */
struct metrics_rank {
	int64_t instance;
	struct metrics_histogram steps;
	uint64_t activity_ns[ACTIVITY_MAX];
	bool has_activities;
	uint64_t own_ns[FRAME_TIER_MAX], wait_ns[FRAME_TIER_MAX];
	bool sampled;
	struct online_sample_info sum; /* UINT64_MAX: not known so far */
	uint64_t op_end_ns;	       /* of the newest operation, 0: none */
	struct metrics_minute minute;
	size_t ops;
	struct metrics_op op[LIMIT_METRIC_OPS + 1]; /* the last one takes what is beyond */
};

struct metrics_open {
	uint64_t number;
	struct finding newest;
	char sentence[sizeof(((struct finding *)0)->sentence)]; /* of the newest change */
};

struct metrics_lost {
	char job[64];
	int32_t rank;
	enum finding_kind kind;
	enum finding_cause cause;
	uint64_t lost_ns, updated_ns;
};

struct metrics_findings {
	size_t opens, left_out;
	struct metrics_open open[LIMIT_METRIC_FINDINGS];
	uint64_t confirmed[FINDING_KIND_MAX][CAUSE_MAX];
	size_t losts;
	struct metrics_lost lost[LIMIT_METRIC_LOST];
	uint64_t lost_beyond_ns; /* of those displaced */
	/* Cost that is counted already, of findings that are not over; opens that are left out included. */
	size_t counteds;
	struct {
		uint64_t number, lost_ns;
		enum finding_state state;
	} counted[LIMIT_METRIC_FINDINGS * 4];
};

/* A rank on the page. */
struct metrics_shown {
	const struct rank *rank;
	const struct metrics_rank *state;
	struct metrics_labels labels; /* job, rank, pid */
	bool has_progress;
	struct rank_steps_progress progress;
};

#define METRICS_COLLECTORS_MAX 16

/* What one page shows; filled once, read by all families. */
struct metrics_gather {
	struct context *context;
	struct metrics *metrics;
	uint64_t now_ns;
	size_t ranks, ranks_left_out;
	struct metrics_shown *rank; /* of LIMIT_METRIC_RANKS */
	struct store_status store;
	struct online_counts findings;
	size_t collectors;
	const struct collector *collector[METRICS_COLLECTORS_MAX];
	struct collector_status collector_status[METRICS_COLLECTORS_MAX];
};

struct metrics_http;
struct metrics_textfile;

struct metrics {
	struct context *context;
	size_t slots;
	struct metrics_rank **slot; /* NULL: no rank, or not observed yet */
	struct metrics_findings findings;
	uint64_t minute_ns; /* of the last tick of the minutes */
	size_t node_ops;
	struct metrics_node_op node_op[LIMIT_METRIC_NODE_OPS];
	struct metrics_gather gather;
	struct metrics_page page[METRICS_FORMAT_MAX];
	uint64_t built_ns[METRICS_FORMAT_MAX]; /* 0: not yet */
	uint64_t build_cpu_ns;
	uint64_t refused;
	struct metrics_http *http;
	struct metrics_textfile *textfile;
};

/* The page, not older than a second; NULL: out of memory. Valid until the next call. */
const struct metrics_page *metrics_page_get(struct metrics *metrics, enum metrics_format format);

/* The rank's state, made where there is none; NULL: unknown slot, out of memory. */
struct metrics_rank *metrics_rank_of(struct metrics *metrics, uint32_t slot, int64_t instance);

extern const struct rank_steps_observer metrics_steps_observer;
extern const struct rank_coll_observer metrics_coll_observer;
/* Also those of metrics_findings.c. */
extern const struct online_observer metrics_online_observer;
void metrics_on_rank(void *arg, const struct rank *rank, enum rank_change change);
void metrics_on_finding(void *arg, uint64_t number, const struct finding *finding, bool changed);

/* metrics_http.c: listen: "ADDRESS:PORT" or the path of a socket; "": only what systemd passed. *ret NULL: neither. */
int metrics_http_open(struct metrics *metrics, const char *listen, struct metrics_http **ret);
struct metrics_http *metrics_http_close(struct metrics_http *http);
/* metrics_textfile.c: writes FOLDER/ranktrace.prom, in a thread. */
int metrics_textfile_new(struct metrics *metrics, const char *folder, struct metrics_textfile **ret);
void metrics_textfile_tick(struct metrics_textfile *textfile, uint64_t now_ns);
/* Removes the file, which would be out of date. */
struct metrics_textfile *metrics_textfile_free(struct metrics_textfile *textfile);

#define METRIC(word, type, unit, labels, help) \
	void metrics_of_##word(const struct metrics_gather *gather, struct metrics_page *page);
#include "daemon/metrics/metrics.def"
#undef METRIC

#endif
