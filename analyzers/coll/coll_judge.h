/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What members call under one number, each once: what was added first comes first. Of more than COLL_USUAL_MAX,
 * those are there that more than one in COLL_USUAL_MAX calls, and at least one of all. Pure.
 */
#ifndef RANKTRACE_COLL_COLL_JUDGE_H
#define RANKTRACE_COLL_COLL_JUDGE_H

#include "analyzers/coll/coll.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Where everybody stands on a communicator, and who is missing. Pure. In the words of PyTorch's Flight Recorder
 * (torch/distributed/flight_recorder): COLLECTIVE_TYPE_MISMATCH (members called different operations under one number),
 * SIZE_OR_SYNTAX_MISMATCH (the same with different sizes or data types), and missing ranks.
 *
 * Libraries that only queue work on the device let a rank run ahead of its peers, so being behind is no fault by itself:
 * a member is missing if another has called a number that this one has not, for longer than patience_ns, and this one has
 * called nothing on this communicator for as long. A member that is not on this node is not judged, only counted.
 *
 * Compared are members whose numbers are of one kind: counted from the init (or told by the marker), the library's, or the
 * process group's; the kind that most members have. COLL_SEQ_ATTACH is never compared. A difference is judged at once, in
 * the last OPS_RECENT numbers, unless the number is complete on all that differ; where a member is missing under a lower
 * number than the first that differs, that one is the verdict. Operations that may rightly differ in count (all-to-all
 * with splits, gather, scatter, batches) are compared by name alone.
 */

struct coll_judged {             /* a member, as seen on this node */
	int32_t rank;           /* global */
	uint32_t pid;
	const struct coll *ops;  /* for coll_at(); or, where operations are kept elsewhere, what does the same: */
	bool (*recall)(const void *arg, uint64_t seq, struct coll_point *ret);
	const void *recall_arg;
	struct coll_standing standing;
	/* written by the judge */
	bool compared;          /* its numbers can be compared with the others' */
	bool missing;
	bool differs;           /* it called something else than most, under the verdict's number */
	uint64_t behind;        /* numbers behind the farthest member */
};

enum coll_state { COLL_STATE_RUNNING, COLL_STATE_MISSING, COLL_STATE_TYPE_MISMATCH, COLL_STATE_SIZE_MISMATCH, COLL_STATE_MAX };

struct coll_verdict {
	enum coll_state state;
	uint64_t seq;           /* the first number that is missing, or differs */
	uint64_t waited_ns;     /* since the first member called it */
	uint32_t here, members; /* of the members (0: not known) that many are on this node */
	char called[64];        /* where calls differ: "Broadcast 356 (16.0 KiB) instead of AllReduce (16.0 KiB)"; else "" */
	char sentence[256];     /* for people: "rank 1 has not called AllReduce 118 (4.0 MiB) of communicator X; rank 0 waits for 7.1 s"; cut with "..." */
};

/* "RUNNING", "MISSING_RANKS", "COLLECTIVE_TYPE_MISMATCH", "SIZE_OR_SYNTAX_MISMATCH" */
const char *coll_state_name(enum coll_state state);

/* All members of one communicator, in any order. now_ns of the events' clock. Cost: members * OPS_RECENT * (OPS_RECENT + COLL_USUAL_MAX). */
void coll_judge(struct coll_judged *member, size_t members, uint64_t now_ns, uint64_t patience_ns, struct coll_verdict *ret);

/* Words of a verdict: ranges of ranks, sizes and durations for people, in a buffer that is never overrun. */

struct judge_text {
	char *at;
	size_t left;            /* with room for the end */
	char *start;
	size_t size;
};

void judge_text_begin(struct judge_text *text, char *ret, size_t size);
__attribute__((format(printf, 2, 3))) void judge_text_add(struct judge_text *text, const char *format, ...);
/* "rank 3", "ranks 0-2, 5"; sorts rank[]; one that comes twice is said once. */
void judge_text_ranks(struct judge_text *text, int32_t *rank, size_t ranks);
/* " (4.0 MiB)"; nothing if not known. */
void judge_text_bytes(struct judge_text *text, uint64_t bytes);
/* "7.1 s", "3 min 20 s" */
void judge_text_duration(struct judge_text *text, uint64_t duration_ns);
/* Ends it with "..." if it did not fit. */
void judge_text_end(struct judge_text *text);

#define COLL_USUAL_MAX 32

struct coll_majority_call {
	struct coll_point point; /* the first one's */
	size_t weight;
};

struct coll_majority {
	size_t count;
	struct coll_majority_call call[COLL_USUAL_MAX];
};

void coll_majority_add(struct coll_majority *usual, const struct coll_point *point);

#endif
