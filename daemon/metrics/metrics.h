/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics for Prometheus: a page of all families of metrics.def, over HTTP and as a file for node_exporter. Values come
 * from the getters and observers of the modules that own them; nothing here judges.
 *
 * HTTP is on where [metrics] listen names an address, or where systemd passed a socket of the name "metrics"; the file
 * is written where [metrics] textfile names a folder. Where neither is set, nothing is observed.
 *
 * Bounded (daemon/core/limits.def): ranks with metrics, an equal part for each user; kinds of operations of a rank;
 * findings; clients, and the time of each. A page is built at most once a second and a format. A rank that ended has no
 * metrics.
 */
#ifndef RANKTRACE_DAEMON_METRICS_METRICS_H
#define RANKTRACE_DAEMON_METRICS_METRICS_H

#include "daemon/base/util.h"

#define METRICS_TEXTFILE_NAME "ranktrace.prom"

struct context;
struct metrics;

/* *ret is NULL if metrics are off. Logs why it fails. */
int metrics_new(struct context *context, struct metrics **ret);
struct metrics *metrics_free(struct metrics *metrics);
/* Every second: means of the last minute, and the file. metrics may be NULL. */
void metrics_tick(struct metrics *metrics, uint64_t now_ns);

#endif
