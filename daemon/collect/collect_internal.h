/* SPDX-License-Identifier: Apache-2.0 */
/* What the collectors share with the files that serve them. */
#ifndef RANKTRACE_DAEMON_COLLECT_COLLECT_INTERNAL_H
#define RANKTRACE_DAEMON_COLLECT_COLLECT_INTERNAL_H

#include "analyzers/coll/coll.h"
#include "bpf/marker.h"
#include "daemon/base/util.h"
#include "daemon/calls/call_sink.h"
#include "daemon/collect/collector.h"
#include "daemon/core/level.h"
#include "daemon/probes/libraries.h"
#include "daemon/probes/coverage.h"

/* All sinks of call records (daemon/calls/call_sink.h), as one table. */

/* False: no sink takes the event, which is of a newer release's table. */
bool call_sinks_feed(struct context *context, const struct rank *rank, const struct call_record *record);
void call_sinks_level(struct context *context, enum level level, bool on);
void call_sinks_tick(struct context *context, uint64_t now_ns);

/* Between two scans of a rank for its libraries, at most. */
uint64_t collector_scan_interval(const struct context *context, uint32_t pid);

/* Turns a level of the call engine on or off in all libraries; reports the result and functions without probe. */

struct call_level_sum {
	enum level level;
	bool on;
	int error; /* of the first site that failed to attach */
	unsigned probes, libraries, refused;
	unsigned left;	  /* libraries that LIMIT_LEVEL_TURN_MS did not suffice for: groups_choose() goes on */
	unsigned reading; /* files of ranks that are being opened or read: what they have is not known yet */
	uint64_t until_ns;
	unsigned missing, unusable; /* probes/coverage.h: without a reason, with one */
	size_t rows, ranks;	    /* of the level in the tables; on the node */
	char unresolved_names[MISSING_NAMES_BYTES];
	char unusable_names[MISSING_NAMES_BYTES];
};

/* The caller sets level and on; the rest is summed up. */
void call_level_switch(struct libraries *libraries, struct call_level_sum *sum);
/* 0, or the error if none of the level's probes attached. */
int call_level_report(const struct call_level_sum *sum, char *report, size_t report_size);
/* A note for each function that a rank may call without a probe, of all levels. */
void call_level_notes(struct libraries *libraries, struct collector_status *status);

/* Rows of `drops` for records that were lost on their way here (losses.c). */

struct losses;

/* NULL: out of memory. */
struct losses *losses_new(const struct context *context);
struct losses *losses_free(struct losses *losses);
/* Has a minute passed since losses_write()? */
bool losses_due(const struct losses *losses, uint64_t now_ns);
/* A row for each kind and rank that lost records since its last one. source: collector of a kind. */
void losses_write(struct losses *losses, const char *(*source)(void *arg, unsigned kind), void *arg);
/* As losses_write(), of one rank, which has a slot: it ends. */
void losses_rank(struct losses *losses, const struct rank *rank);
/* Records of ranks, ended ones too, beyond their part of ring, maps and the daemon's memory. */
uint64_t losses_of_ranks(const struct losses *losses);

/*
 * Decodes records of marker libraries into operations of analyzers/coll/coll.h. Pure: no clock, no I/O. Records are
 * not trusted: lengths, kinds, texts and times are checked; impossible times become unknown.
 *
 * Device times are those of the device's clock, of whatever epoch: analyzers/coll/device_clock.h converts them.
 */

#define MARKER_COMMS_MAX 256 /* per process; the least recently reported one is replaced */

struct marker_comm {
	uint64_t identity; /* 0: free */
	uint64_t reported; /* order of reports; 0: none */
	uint32_t member;
	uint32_t device; /* of the process, from 1; 0: unknown */
	uint32_t nodes;
	char name[64];
};

struct marker_counts {
	uint64_t operations; /* complete with device times */
	uint64_t incomplete; /* without device times: not reported */
	uint64_t late;	     /* OPEN records */
	uint64_t bad_times;  /* with an end before the start, or none of them */
	uint64_t unreadable; /* invalid or uncopied records */
	uint64_t lost;	     /* dropped in the process for lack of space, by its own count */
	uint64_t newer;	     /* events of an unknown version */
};

/* State of one process's marker library. */
struct marker_process {
	struct marker_counts counts;
	uint32_t interface; /* of NCCL with the library; 0: no report yet */
	uint64_t reports;
	struct marker_comm comm[MARKER_COMMS_MAX];
};

typedef void (*marker_sink)(void *arg, const struct coll_device *device);

/* Calls back for each operation; texts are valid during the call. size_bytes: of the whole event. */
void marker_decode(struct marker_process *process, const struct rt_marker_event *event, size_t size_bytes,
	marker_sink sink, void *arg);

#endif
