/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library whose name says "training" and whose functions begin and end the stages of a step, for bench_ring.sh. Each
 * starts with an instruction that the kernel emulates, so that many hits a second fit on a CPU.
 */
#include "tests/bench/stages.h"

#ifdef __x86_64__
#define BODY ".byte 0x0f, 0x1f, 0x44, 0, 0\n ret"
#elif defined(__aarch64__)
#define BODY "nop\n ret"
#endif
#define FUNCTION(name) \
	__asm__(".text\n.p2align 4\n.globl " #name "\n.type " #name ", %function\n" #name ":\n" BODY "\n.size " #name \
		", . - " #name "\n")

FUNCTION(dataloader_begin);
FUNCTION(dataloader_end);
FUNCTION(forward_begin);
FUNCTION(forward_end);
FUNCTION(backward_begin);
FUNCTION(backward_end);
FUNCTION(optimizer_begin);
FUNCTION(optimizer_end);
