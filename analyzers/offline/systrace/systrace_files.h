/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of openEuler's sysTrace: timelines (L0, protobuf) and the CSV of communication (L1). What
 * is in them is not trusted: each record is bounded, and what makes no sense is passed over and counted.
 *
 * A timeline is one message, of which these fields are read; all others are passed over. The numbers are sysTrace's:
 *   1 message, repeated: a stage
 *         1 varint  its number: how often the function was called so far (in our own dumps: the step)
 *         2 string  the function, as its list of functions names it
 *         3 varint  start, 4 varint end: us since the epoch
 *   2 varint  rank
 *   4 string  job, "NONE" without one
 *
 * The CSV has a header and, of each operation, four lines of the same Id: begin and end on the host (SourceKind 0), and
 * on the device (1), in ns since the epoch; a line of a begin has a Name: comm:OPERATION!GROUP!TYPE!COUNT, where ','
 * may stand for '!'.
 */
#ifndef RANKTRACE_OFFLINE_SYSTRACE_SYSTRACE_FILES_H
#define RANKTRACE_OFFLINE_SYSTRACE_SYSTRACE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define SYSTRACE_NAME_BYTES 128
#define SYSTRACE_RECORD_BYTES 65536	       /* of a stage; longer ones are passed over. Its stack is not kept */
#define SYSTRACE_TIMELINE_BYTES_MAX (1u << 30) /* of a file: ten million stages; the rest is not read */

struct systrace_stage {
	char name[SYSTRACE_NAME_BYTES]; /* cut */
	uint64_t number;
	uint64_t start_ns, end_ns;
};

struct systrace_op {
	char op[32], group[SYSTRACE_NAME_BYTES]; /* "HcclAllGather"; cut */
	uint64_t bytes;				 /* 0: not known */
	uint64_t start_ns, end_ns;		 /* on the device, or is_host */
	bool is_host;
	uint32_t pid; /* 0: no line of the host */
};

struct systrace_sink {
	/* Below 0 ends the reading. */
	int (*stage)(void *arg, const struct systrace_stage *stage);
	int (*op)(void *arg, const struct systrace_op *op);
	bool host_ops; /* those that were seen on the host alone, too */
	void *arg;
};

struct systrace_said {	   /* of the whole file */
	int64_t rank;	   /* -1: it does not say */
	char job[64];	   /* "" if none */
	uint64_t records;  /* the sink got, or would have */
	uint64_t host_ops; /* operations that were seen on the host alone */
	uint64_t dropped;  /* that make no sense */
	bool cut;	   /* it ends within a record: it is being written, or damaged */
};

/* 0, what a sink returned, or -EIO, or -EBADMSG: it is no such file (said holds what came before). */
int systrace_timeline_read(FILE *file, const struct systrace_sink *sink, struct systrace_said *said);
int systrace_csv_read(FILE *file, const struct systrace_sink *sink, struct systrace_said *said);

/* What the name of a file says: HOST--RANK--PID.timeline (before September 2025 HOST--RANK.timeline),
 * hccl_activity-ADDRESS-.RANK.csv, mspti-marker-ADDRESS-RANK.csv. False: it is no such name. */
struct systrace_name {
	bool is_csv;
	char host[64]; /* or address */
	int64_t rank;  /* -1: not known */
	uint32_t pid;  /* 0: not known */
};
bool systrace_name_parse(const char *name, struct systrace_name *ret);

#endif
