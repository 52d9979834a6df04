/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sysTrace's rules (openEuler's sysTrace, `failslow`), written anew from their description, as a yardstick for tests:
 * the same data through both. Nothing of the product uses them. Kept with what makes them weak (a confirmation that
 * nearly always confirms, slow steps that become the baseline, undirected comparison); left out, in their favour: ranks
 * 5 and 7 that are always abnormal and the group "[6,7]" that alone is told (left there from debugging), polling every
 * 30 minutes, buckets that begin at another time on each rank.
 */
#ifndef RANKTRACE_TESTS_SYSTRACE_RULES_H
#define RANKTRACE_TESTS_SYSTRACE_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Step times, of one rank. With m, s the mean and the deviation (of all, not of a sample) of the `window` steps before
 * i: slow if x[i] - m > k s and (x[i] - m) / m > degree, and of the next step x[i+1] - m > k s and (x[i+1] - m) /
 * degree > degree (so it is there; dividing by m may have been meant).
 */
struct systrace_steps {
	const char *name;
	size_t window;
	double k, degree;
};
extern const struct systrace_steps systrace_steps_config; /* window 10, k 2, 20 % */
extern const struct systrace_steps systrace_steps_readme; /* window 5, k 3, 20 % */
/* Writes slow[n], returns how many are. */
size_t systrace_steps(const struct systrace_steps *rule, const double *ms, size_t n, bool *slow);

/* A metric: an operation's durations, and how they are judged. */
struct systrace_metric {
	const char *op;
	double during_s;   /* length of a bucket */
	double percentile; /* of the durations in it */
	bool space;	   /* ranks are compared with each other (else with their own past alone) */
	double eps, cv;
	size_t min_samples, window;
	bool scaling;
	size_t train;		 /* of the time detector: its buffer */
	double bias, abs_bias;	 /* abs_bias 0: none */
	double min_expert_upper; /* 0: none */
};
#define SYSTRACE_METRICS 5
/* AllGather, AllGather_launch, ReduceScatter, BatchSendRecv, AllReduce. */
extern const struct systrace_metric systrace_metrics[SYSTRACE_METRICS];

/* Of one rank, in ms: label[t] whether value[t] is above the bound of what was before. */
void systrace_time(const struct systrace_metric *metric, const double *value, size_t n, bool *label);
/* Of all ranks, value[t * ranks + rank] in ms: label[t * ranks + rank]. Less than 4 ranks or a window: false, nothing.
 */
bool systrace_space(const struct systrace_metric *metric, const double *value, size_t n, size_t ranks, bool *label);
/* Clears labels that are not in a row of `least` or more. label[0], label[stride], ... */
void systrace_filter(bool *label, size_t n, size_t stride, size_t least);

/* One operation of one rank. */
struct systrace_op {
	double start_ms, duration_ms;
};
/*
 * Durations of one operation and communicator, op[rank] in the order of time, to ranks that are called abnormal: the
 * first 20 % left out, buckets, space where the metric has it and it can be had, else time; five in a row. Returns how
 * many, -1: not enough data. abnormal[ranks] is written in any case.
 */
int systrace_slow_ranks(const struct systrace_metric *metric, const struct systrace_op *const *op, const size_t *ops,
	size_t ranks, bool *abnormal);

#endif
