/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sysTrace's rules (openEuler's sysTrace, `failslow`), reimplemented from their description as a yardstick for tests:
 * the same data through both. The product does not use them. Kept are their weaknesses (a confirmation that nearly
 * always confirms, slow steps that become the baseline, undirected comparison). Omitted, in their favour: leftovers of
 * debugging (ranks 5 and 7 always abnormal, only the group "[6,7]" reported), polling every 30 minutes, bucket begins
 * that differ between ranks.
 */
#ifndef RANKTRACE_TESTS_SYSTRACE_RULES_H
#define RANKTRACE_TESTS_SYSTRACE_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Step times, of one rank. With m, s the mean and the deviation (of all, not of a sample) of the `window` steps before
 * i: slow if x[i] - m > k s and (x[i] - m) / m > degree, and of the next step x[i+1] - m > k s and (x[i+1] - m) /
 * degree > degree (as in the original; division by m may be intended).
 */
struct systrace_steps {
	const char *name;
	size_t window;
	double k, degree;
};
extern const struct systrace_steps systrace_steps_config; /* window 10, k 2, 20 % */
extern const struct systrace_steps systrace_steps_readme; /* window 5, k 3, 20 % */
/* Writes slow[n], returns the number of slow steps. */
size_t systrace_steps(const struct systrace_steps *rule, const double *ms, size_t n, bool *slow);

/* A metric: an operation's durations, and the parameters of its rules. */
struct systrace_metric {
	const char *op;
	double during_s;   /* length of a bucket */
	double percentile; /* of the durations in it */
	bool space;	   /* ranks are compared with each other, else with their own past */
	double eps, cv;
	size_t min_samples, window;
	bool scaling;
	size_t train;		 /* buffer of the time detector */
	double bias, abs_bias;	 /* abs_bias 0: none */
	double min_expert_upper; /* 0: none */
};
#define SYSTRACE_METRICS 5
/* AllGather, AllGather_launch, ReduceScatter, BatchSendRecv, AllReduce. */
extern const struct systrace_metric systrace_metrics[SYSTRACE_METRICS];

/* One rank, in ms: label[t] is whether value[t] exceeds the bound of the previous values. */
void systrace_time(const struct systrace_metric *metric, const double *value, size_t n, bool *label);
/* All ranks, value[t * ranks + rank] in ms: label[t * ranks + rank]. False without labels: under 4 ranks or a window.
 */
bool systrace_space(const struct systrace_metric *metric, const double *value, size_t n, size_t ranks, bool *label);
/* Clears runs of labels shorter than `least`. label[0], label[stride], ... */
void systrace_filter(bool *label, size_t n, size_t stride, size_t least);

/* One operation of one rank. */
struct systrace_op {
	double start_ms, duration_ms;
};
/*
 * Finds abnormal ranks by the durations of one operation and communicator, op[rank] by time: without the first 20 %, in
 * buckets, by space if the metric has it and the data suffice, else by time; five in a row. Returns their number, -1:
 * not enough data. abnormal[ranks] is written in any case.
 */
int systrace_slow_ranks(const struct systrace_metric *metric, const struct systrace_op *const *op, const size_t *ops,
	size_t ranks, bool *abnormal);

#endif
