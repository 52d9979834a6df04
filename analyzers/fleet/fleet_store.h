/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fleet's store of metrics: instant queries of the HTTP API that Prometheus, VictoriaMetrics, Thanos and Mimir have
 * (fleet_api.c), and the table of fleet.h from what the nodes' daemons serve (daemon/metrics/metrics_minute.c;
 * fleet_read.c); fleet_stream.c is between them. What answers is not trusted: size, time, depth and number are bounded,
 * and every failure is one sentence.
 */
#ifndef RANKTRACE_FLEET_FLEET_STORE_H
#define RANKTRACE_FLEET_FLEET_STORE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "analyzers/fleet/fleet.h"

/*
 * An answer of the store as it arrives (fleet_stream.c): samples are the elements of the array three levels deep,
 * data.result. Each is parsed alone and passed on, so that memory does not grow with their number. The rest is the
 * envelope, which says whether the query succeeded.
 */
#define FLEET_STREAM_ENVELOPE 4096     /* bytes; what is longer is cut, and then no JSON */
#define FLEET_STREAM_SAMPLE (64 << 10) /* bytes; the daemon's longest sample, of a finding, has 3 KiB */

/* Of one sample: its labels and its value, which is finite. 0, or a negative errno that ends the reading. */
typedef int (*fleet_sample)(void *arg, const json_t *labels, double value);

struct fleet_stream {
	fleet_sample sample;
	void *arg;
	unsigned depth;	    /* of brackets */
	bool text, escaped; /* within a string, behind a backslash */
	size_t envelope_used, sample_used;
	char envelope[FLEET_STREAM_ENVELOPE + 1], buffer[FLEET_STREAM_SAMPLE];
};

void fleet_stream_begin(struct fleet_stream *stream, fleet_sample sample, void *arg);
/* 0; -EPROTO: a sample that is no JSON or too long; what the callback returned. */
int fleet_stream_feed(struct fleet_stream *stream, const char *data, size_t size);
/* The envelope without the samples; the caller releases it. NULL: it is no JSON. */
json_t *fleet_stream_end(const struct fleet_stream *stream);

/* Of an answer: the activities of FLEET_RANKS_MAX ranks are 400,000 samples of 200 bytes, and names may be longer */
#define FLEET_API_BYTES_MAX (256u << 20)
#define FLEET_API_MS_MAX 30000 /* of a query; the largest of 10,240 ranks takes a second */
#define FLEET_API_TOKEN_MAX 4096
#define FLEET_API_PARALLEL 4 /* queries at a time: VictoriaMetrics works on two for each CPU, and lets others wait */

/* NULL: none. */
struct fleet_api_options {
	const char *url; /* http or https, up to but without /api/v1 */
	const char *token_file, *certificate, *key, *authority;
	size_t bytes_max;
	long ms_max;
};

struct fleet_api;

/* 0, or negative errno with a sentence. */
int fleet_api_open(const struct fleet_api_options *options, struct fleet_api **ret, char *error, size_t size);
struct fleet_api *fleet_api_close(struct fleet_api *api);
/* With what [fleet] of the file says; path NULL: the usual one, if it is there; url NULL: the section's. -EINVAL: the
 * URL. */
int fleet_conf_open(const char *url, const char *path, struct fleet_api **ret, char *error, size_t size);
/* A query, and who takes its samples. */
struct fleet_request {
	const char *query;
	fleet_sample sample;
	void *arg;
};

/*
 * At a time of the store's clock; 0: now. Asks up to FLEET_API_PARALLEL at a time: samples of one query come in order,
 * those of several in any. -EHOSTUNREACH, -ETIMEDOUT: nothing answers, or not in time; -EACCES, -EFBIG, -EPROTO,
 * -ENOMEM; -EINVAL: the store refuses a query; what a callback returned, without a sentence. The first failure ends
 * all. arg: struct fleet_api.
 */
int fleet_api_query(
	void *arg, const struct fleet_request *request, size_t count, double time_s, char *error, size_t size);

/* What exceeds these is refused. */
#define FLEET_RANKS_MAX 65536
#define FLEET_NODES_MAX 16384
#define FLEET_JOBS_MAX 4096
#define FLEET_OPERATIONS_MAX 65536
#define FLEET_FINDINGS_MAX 1024 /* the rest is not shown */

#define FLEET_USUAL_S 3600 /* that the usual of the nodes covers (daemon/metrics/metrics_minute.c) */

struct fleet_read_options {
	const char *job;  /* NULL: all */
	uint64_t since_s; /* how long ago the usual begins; FLEET_USUAL_S, to a minute: what the nodes serve */
};

/* fleet_api_query(), or a test. */
typedef int (*fleet_ask)(
	void *arg, const struct fleet_request *request, size_t count, double time_s, char *error, size_t size);

/* Fills fleet, which is empty; the caller frees it, on failure too. As fleet_api_query(); -E2BIG: more than the
 * limits. */
int fleet_read(const struct fleet_read_options *options, fleet_ask ask, void *arg, struct fleet *fleet, char *error,
	size_t size);

#endif
