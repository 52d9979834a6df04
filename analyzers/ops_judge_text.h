/* SPDX-License-Identifier: Apache-2.0 */
/* Words of a verdict: ranges of ranks, sizes and durations for people, in a buffer that is never overrun. */
#ifndef RANKTRACE_OPS_JUDGE_TEXT_H
#define RANKTRACE_OPS_JUDGE_TEXT_H

#include <stddef.h>
#include <stdint.h>

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

#endif
