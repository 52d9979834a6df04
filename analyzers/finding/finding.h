/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A finding: what an operator is told. Plain data and its words. Kinds and causes are rows of finding_words.def: a word for
 * machines, one for people, and what to do about it.
 */
#ifndef RANKTRACE_FINDING_FINDING_H
#define RANKTRACE_FINDING_FINDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzers/align/frame.h"

enum finding_kind {
#define FINDING_KIND(id, word, text) FINDING_##id,
#define FINDING_CAUSE(id, word, text, advice)
#include "analyzers/finding/finding_words.def"
#undef FINDING_KIND
#undef FINDING_CAUSE
	FINDING_KIND_MAX
};

enum finding_cause {
#define FINDING_KIND(id, word, text)
#define FINDING_CAUSE(id, word, text, advice) CAUSE_##id,
#include "analyzers/finding/finding_words.def"
#undef FINDING_KIND
#undef FINDING_CAUSE
	CAUSE_MAX
};

enum finding_severity { SEVERITY_INFO, SEVERITY_WARNING, SEVERITY_CRITICAL, SEVERITY_MAX };

/* Suspected: worth looking at with more levels on, not yet told to people. Open: confirmed and still so. Closed: over.
 * Dropped: suspected, and not confirmed. */
enum finding_state { FINDING_SUSPECTED, FINDING_OPEN, FINDING_CLOSED, FINDING_DROPPED, FINDING_STATE_MAX };

#define FINDING_EVIDENCE_MAX 8

/*
 * One thing that was measured, beside what it is compared with. finding_tell() looks for these names, the first that is there:
 *   of a slow rank or job   the word of its cause, or for it: "forward", "backward", "run_delay", "throttled", "gc",
 *                           "major_faults", "launch_gap"; else "self_time". Of a job "step_time", peers: before
 *   slow communication      "transfer": a typical operation, ns; peers: before, or of its likes (detail: which)
 *   hang                    "waiting": how many wait, detail: in what ("AllReduce 118"); "state": of the process, detail "T";
 *                           "stage": detail, where it stands ("backward")
 *   mismatch                "mismatch": detail, what was called
 *   imbalance               "stage": number of the pipeline stage; "self_time"
 */
struct finding_evidence {
	char name[24];            /* "self_time", "dataloader", "run_delay", "step_time", "entered_seq", ... */
	char unit[8];             /* "ns", "1", "bytes" */
	double value;
	double peers;             /* the same of its peers, or before; NaN: nothing to compare with */
	char detail[64];          /* who, or which: "pid 4711 stress-ng"; "" */
};

struct finding {
	uint64_t id;              /* within this source; never used again */
	enum finding_kind kind;
	enum finding_cause cause;
	enum finding_state state;
	enum finding_severity severity;
	enum frame_tier tier;     /* what it was seen from */
	double confidence;        /* 0 to 1 */
	char job[64];
	int32_t rank;             /* global; -1: of no single rank */
	char host[64], card[32];  /* "" if not known */
	char communicator[20];    /* "" if none */
	uint64_t since_step, until_step; /* of the job's reference rank; 0 not known */
	uint64_t since_ns;        /* ns, of the clock that was fed: when it began (not: when it was noticed) */
	uint64_t noticed_ns;      /* when it was confirmed */
	uint64_t until_ns;        /* 0: still so */
	uint64_t told_ns;         /* when it was told last: its length so far is told_ns - since_ns */
	double slowdown;          /* step time with it / without it; 1 where that cannot be told; of a hang 0 */
	double cost_card_hours;   /* so far, of all cards of the job */
	size_t evidences;
	struct finding_evidence evidence[FINDING_EVIDENCE_MAX];
	char others[160];         /* other ranks that it concerns: "3-7,12"; "" */
	char sentence[512];       /* for people; one sentence */
};

const char *finding_kind_word(enum finding_kind kind);        /* "slow_rank" */
const char *finding_cause_word(enum finding_cause cause);     /* "dataloader" */
const char *finding_cause_text(enum finding_cause cause);     /* "its data loading" */
const char *finding_cause_advice(enum finding_cause cause);   /* a sentence: what to look at */
const char *finding_state_word(enum finding_state state);
const char *finding_severity_word(enum finding_severity severity);
const char *finding_tier_word(enum frame_tier tier);          /* "stages", "host", "device" */
/* KIND_MAX, CAUSE_MAX where there is none of that word. */
enum finding_kind finding_kind_parse(const char *word);
enum finding_cause finding_cause_parse(const char *word);
/* Adds a piece of evidence; more than FINDING_EVIDENCE_MAX are left out. peers NAN: none. detail may be NULL. */
void finding_add(struct finding *finding, const char *name, const char *unit, double value, double peers, const char *detail);
/* Writes finding->sentence from all else: "rank 3 (node a, card 1) slows the job by 24 % since step 812: its data loading
 * takes 310 ms, its peers' 12 ms; 1.2 card-hours lost so far". */
void finding_tell(struct finding *finding);
/* Ranks as "0,3-7"; cut with "..." where ret is too small. Sorted in place. */
void finding_ranks(int32_t *rank, size_t ranks, char *ret, size_t size);
/* The evidence as JSON: [{"name", "unit", "value", "peers", "detail"}, ...]; peers is null where there are none. Always whole: what
 * does not fit is left out. Returns its length; 0 and "" if not even [] fits. FINDING_JSON_BYTES fit all. */
#define FINDING_JSON_BYTES 4096
size_t finding_evidence_json(const struct finding *finding, char *ret, size_t size);

#endif
