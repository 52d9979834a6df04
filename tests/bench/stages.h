/* SPDX-License-Identifier: Apache-2.0 */
/* The marks of a step, as functions that do nothing. */
#ifndef RANKTRACE_TESTS_BENCH_STAGES_H
#define RANKTRACE_TESTS_BENCH_STAGES_H

extern void dataloader_begin(void);
extern void dataloader_end(void);
extern void forward_begin(void);
extern void forward_end(void);
extern void backward_begin(void);
extern void backward_end(void);
extern void optimizer_begin(void);
extern void optimizer_end(void);

#endif
