/* SPDX-License-Identifier: Apache-2.0 */
/* Functions whose first instructions are known: what a uprobe costs depends on the one that it stands on. */
#ifndef RANKTRACE_TESTS_BENCH_TARGET_H
#define RANKTRACE_TESTS_BENCH_TARGET_H

/* Each returns its argument plus one. */
extern long target_landing(long value); /* endbr64 then push; bti then stp */
extern long target_push(long value);	/* push; stp */
extern long target_sub(long value);	/* sub from the stack pointer */
extern long target_lea(long value);	/* lea; add: no frame at all */
extern long target_nop(long value);
extern long target_nop5(long value); /* the five-byte nop; two nops where there is none */

#endif
