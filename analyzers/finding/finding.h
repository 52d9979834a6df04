/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A finding: what is wrong with a job, why, since when, and what it costs. Plain data and its words. Kinds are rows of
 * kinds.def, causes rows of causes.def.
 */
#ifndef RANKTRACE_FINDING_FINDING_H
#define RANKTRACE_FINDING_FINDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzers/align/frame.h"
#include "analyzers/base/stack.h"

enum finding_kind {
#define FINDING_KIND(id, word, method, title) FINDING_##id,
#include "analyzers/finding/kinds.def"
#undef FINDING_KIND
	FINDING_KIND_MAX
};

enum finding_cause {
#define FINDING_CAUSE(id, word, title, doc, evidence, clause, hang, part, hardware, advice) CAUSE_##id,
#include "analyzers/finding/causes.def"
#undef FINDING_CAUSE
	CAUSE_MAX
};

/* Part of the machine that sysTrace's results blame; NONE: no part. */
enum finding_part { FINDING_PART_COMPUTE, FINDING_PART_NETWORK, FINDING_PART_STORAGE, FINDING_PART_NONE };

/* A row of causes.def, which explains its columns. */
struct finding_cause_row {
	const char *word, *title, *doc, *evidence, *clause, *hang, *advice;
	enum finding_part part;
	bool hardware;
};

/* Info: short or small; counted, not announced. */
enum finding_severity { SEVERITY_INFO, SEVERITY_NOTICE, SEVERITY_WARNING, SEVERITY_CRITICAL, SEVERITY_MAX };

/* Where a rank loses its time: its host gives the card work too late, or its card takes longer for the same work. */
enum finding_side { FINDING_SIDE_UNKNOWN, FINDING_SIDE_HOST, FINDING_SIDE_CARD, FINDING_SIDE_MAX };

/* Suspected: needs more evidence, and is not reported to people. Open: confirmed, lasts. Closed: over. Dropped: was
 * suspected, and not confirmed. */
enum finding_state { FINDING_SUSPECTED, FINDING_OPEN, FINDING_CLOSED, FINDING_DROPPED, FINDING_STATE_MAX };

#define FINDING_EVIDENCE_MAX 10

/*
 * A measured value beside what it is compared with. The sentence uses these names:
 *   slow rank or job     the word of its cause, else the cause's evidence; "self_time" where it has none; detail FINDING_BEFORE: peers
 *                        is what was before. Of a job "step_time", peers: before
 *   slow communication   "transfer": duration of a typical operation, ns; peers: before, or of its peers (detail: which)
 *   hang                 "waiting": number of waiting ranks, detail: operation ("AllReduce 118"); "state": of the
 *                        process, detail "T"; "stage": detail, the open stage ("backward"); "entered_seq"; "stack":
 *                        detail, where the lone rank is ("burn (gpt.py:54)")
 *   mismatch             "mismatch": detail, what was called
 *   memory               "memory_growth", "memory_hourly": bytes; detail of the first: the device ("cuda:0"); "stack":
 *                        detail, the line that holds most of it. Or "memory_asked", detail: the device,
 *                        "memory_allocated", "memory_reserved", "memory_others" where it is known; "memory_why":
 *                        detail, why it failed where that is known; "stack": detail, the line that asked. Or
 *                        "memory_calls": percent of the time; "stack": detail, the line with the longest call
 *   imbalance            "stage": number of the pipeline stage; "self_time"
 *   overhead             "probes": percent of the rank's time, or "daemon": of a CPU; detail: what takes most of
 *                        it (a level; a source of gauges); "level": its percent; "budget". Or "daemon",
 *                        "budget": bytes of memory
 *   crash                "end": wait status, detail: how ("SIGSEGV"); "stack": detail, where its main thread was
 *   hardware             the cause's evidence, detail: what was reported; "card": detail, UUID and PCI address
 *   slow rank            "system": percent of the time in which the kernel did that for the rank, detail: what
 *                        ("reads of files (data/b)"); peers: its peers; "system_before": peers: before
 *   network as cause,    "network": packets or errors a second that the node's network had, detail: what and where
 *   or all ranks wait    ("packets received and dropped (eth0)"); peers: before
 *   any                  "returns": times it recurred; "explained": detail, the finding that explains it
 */
struct finding_evidence {
	char name[24]; /* "self_time", "dataloader", "run_delay", "step_time", "entered_seq", ... */
	char unit[8];  /* "ns", "1", "bytes" */
	double value;
	double peers;			/* of its peers, or before; NaN: nothing to compare with */
	char detail[STACK_PLACE_BYTES]; /* who or which: "stress-ng (pid 4711)", a line; "" */
};

struct finding {
	uint64_t id; /* unique within this source */
	enum finding_kind kind;
	enum finding_cause cause;
	enum activity activity; /* that grew; ACTIVITY_MAX: none */
	enum finding_side side;
	enum finding_state state;
	enum finding_severity severity;
	enum frame_tier tier; /* source of its evidence */
	double confidence;    /* 0 to 1 */
	char job[64];
	bool uid_known;
	uint32_t uid;			 /* user of the job's ranks, where uid_known */
	int32_t rank;			 /* global; -1: no single rank */
	char host[64], card[32];	 /* "" if unknown; of CAUSE_PORT, card is the port: "mlx5_0/1" */
	char communicator[20];		 /* "" if none */
	uint64_t since_step, until_step; /* of the job's reference rank; 0 if unknown */
	uint64_t since_ns;		 /* begin, ns of the clock that was fed */
	uint64_t noticed_ns;		 /* confirmed */
	uint64_t until_ns;		 /* 0: lasts */
	uint64_t updated_ns;		 /* last update: it has lasted updated_ns - since_ns */
	double slowdown;		 /* step time with it / without it; 1 if unknown; of a hang 0 */
	double cost_card_hours;		 /* so far, over all cards of the job */
	size_t evidences;
	struct finding_evidence evidence[FINDING_EVIDENCE_MAX];
	char others[160];   /* other affected ranks: "3-7,12"; "" */
	char sentence[512]; /* one sentence for people */
};

/* An unknown cause has a row of empty words. */
const struct finding_cause_row *finding_cause_row(enum finding_cause cause);
const char *finding_kind_word(enum finding_kind kind);	    /* "slow_rank" */
const char *finding_cause_word(enum finding_cause cause);   /* "dataloader" */
const char *finding_cause_title(enum finding_cause cause);  /* "slow data loading" */
const char *finding_cause_advice(enum finding_cause cause); /* what to do, imperative */
const char *finding_state_word(enum finding_state state);
const char *finding_severity_word(enum finding_severity severity);
const char *finding_side_word(enum finding_side side); /* "host", "card"; "" if unknown */
const char *finding_tier_word(enum frame_tier tier);   /* "stages", "host", "device" */
/* FINDING_KIND_MAX, CAUSE_MAX for an unknown word. */
enum finding_kind finding_kind_parse(const char *word);
enum finding_cause finding_cause_parse(const char *word);
/* Today's name of evidence that older versions stored under another one; else the name itself. */
const char *finding_evidence_name(const char *stored);
/* Adds a piece of evidence; drops what exceeds FINDING_EVIDENCE_MAX. peers NAN: none. detail may be NULL. */
#define FINDING_BEFORE "before"
/* What it is compared with was before, and is not of peers. */
bool finding_is_before(const struct finding_evidence *evidence);
void finding_add(
	struct finding *finding, const char *name, const char *unit, double value, double peers, const char *detail);
/* Writes finding->sentence from all other fields: "rank 3 (node-a, card 1) slows its job by 24 % since step 812: data
 * loading takes 310 ms per step; peers 12 ms; 1.2 card-hours lost so far". */
void finding_write_sentence(struct finding *finding);
/* Its cause in a few words: "slow data loading", of a hang "waiting for data". */
void finding_write_cause(const struct finding *finding, char *ret, size_t size);
/* Ranks as "0,3-7"; ends with "..." where ret is too small. Sorts rank. */
void finding_ranks(int32_t *rank, size_t ranks, char *ret, size_t size);
/* The evidence as JSON: [{"name", "unit", "value", "peers", "detail"}, ...]; peers is null where there are none. Always
 * valid: omits pieces that do not fit. Returns its length; 0 and "" if not even [] fits. FINDING_JSON_BYTES fit all. */
#define FINDING_JSON_BYTES 4096
size_t finding_evidence_json(const struct finding *finding, char *ret, size_t size);

#endif
